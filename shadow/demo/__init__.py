"""What make demo and make demo-engines run."""
