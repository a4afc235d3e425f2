"""A log after an unclean stop: what is scanned, cut, rebuilt and kept beside it."""
