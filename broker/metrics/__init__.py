"""What a broker counts and measures."""
