"""The mirror: what becomes of a sampled request, and the arms that get its copies."""
