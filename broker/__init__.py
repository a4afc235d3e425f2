"""The running server: connections, dispatcher, controller, replicas, maintenance, settings."""
