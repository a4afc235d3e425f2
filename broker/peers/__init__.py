"""This broker as a client of the others: connections, the versions spoken, the controller."""
