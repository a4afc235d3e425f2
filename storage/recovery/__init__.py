"""Loading a log, and its recovery after an unclean shutdown: scan, truncate, rebuild, set aside."""
