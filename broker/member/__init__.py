"""The broker as a member of its cluster: its session, what the controller says, what it knows."""
