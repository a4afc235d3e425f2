"""What every coordinator has: a log that it leads, and the topic whose partitions are its logs."""
