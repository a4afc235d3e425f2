"""The coordinator of groups: the partitions of __consumer_offsets that this broker leads."""
