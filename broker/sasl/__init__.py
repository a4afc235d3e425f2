"""SASL: the mechanisms as pure machines, and the users who may log in."""
