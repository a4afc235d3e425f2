"""Access control lists: what they say, how they are indexed, and what follows for a request."""
