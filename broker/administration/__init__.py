"""Administration by admin clients: topics, configs, client quotas, logger levels."""
