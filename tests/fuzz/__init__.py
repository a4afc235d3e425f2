"""Hostile bytes: requests made from the declarations of the messages, changed ones, and noise."""
