"""Bytes <-> typed messages and record batches: no sockets, no files, no clock."""
