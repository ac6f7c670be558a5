"""Which arm gets a copy of which request: selection, sampling, routes, limits, the breaker."""
