"""A session of commands as a user types them, with what they print."""
