"""Decisions as pure functions and machines: nothing here awaits, opens a file or has a clock."""
