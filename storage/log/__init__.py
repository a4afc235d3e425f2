"""The log of one partition: segments, indexes, epochs, producers; appends, reads, cuts, flushes."""
