"""Replication: followers fetch from leaders; leaders move the in-sync set through the controller."""
