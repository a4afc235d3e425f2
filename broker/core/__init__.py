"""Decisions as pure functions and state machines: no awaits, no open files, no clock."""
