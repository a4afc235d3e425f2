"""Replication: followers fetch, and leaders ask the controller to change the in-sync sets."""
