"""The one command, `shadow`: each part is imported only when its command runs."""
