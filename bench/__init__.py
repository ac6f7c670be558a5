"""What shadow costs, measured beside its peers on one machine: `make bench`."""
