"""The data directories of a broker: lock, owner, partitions, checkpoints, moves, clean shutdown."""
