"""The broker as a member of its cluster: its session, its control requests, its metadata."""
