"""What every coordinator has: a log that it leads, and a topic whose partitions are its logs."""
