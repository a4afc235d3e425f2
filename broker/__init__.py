"""The broker: connections, dispatcher, controller, replicas, maintenance, settings."""
