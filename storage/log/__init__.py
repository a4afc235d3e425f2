"""The log of one partition: segments, indexes, leader epochs, producer state; `log.Log` uses them.

Appends, reads, truncation and flushes happen here; loading and recovery are in `recovery/`.
"""
