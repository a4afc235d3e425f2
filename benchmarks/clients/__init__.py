"""The client programs. Each runs in a process of its own and prints one line of JSON."""
