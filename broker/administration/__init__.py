"""What admin clients change: topics, configs, client quotas, the levels of loggers."""
