"""This broker as a client of other brokers: connections, versions, requests to the controller."""
