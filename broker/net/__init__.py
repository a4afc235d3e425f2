"""Connections: sockets, frames, the order of requests and answers, the access check."""
