"""The group coordinator: the partitions of __consumer_offsets that this broker leads."""
