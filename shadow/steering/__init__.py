"""Whether the mirror mirrors now: what people and the analysis said, the kill switch, the lag."""
