"""Upkeep of old segments: retention, which logs to compact, the swap of compacted segments."""
