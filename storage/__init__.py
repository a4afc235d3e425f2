"""The files of a partition and of a data directory, in Kafka's formats.  All calls are synchronous.

`log/` has the log of one partition, `recovery/` loads it, `directory/` has the data directories,
`cleaner/` compacts, `upkeep/` deletes old segments and swaps in compacted ones, `jobs/` runs heavy
work in other processes, `inspect/` checks and repairs. All disk access goes through `files.py`.
"""
