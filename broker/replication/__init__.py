"""Replication: followers fetch, and leaders have the controller change who is in sync."""
