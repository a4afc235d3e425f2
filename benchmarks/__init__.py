"""Odradek beside Apache Kafka: the same clients, the same machine, alternating rounds."""
