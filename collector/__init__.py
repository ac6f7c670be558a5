"""Stream → store: poll, decode, insert, dead letters, commit."""
