"""What becomes of old segments: retention, and compacted segments that take their place."""
