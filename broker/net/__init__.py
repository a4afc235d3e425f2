"""Connections: sockets, frames, the order of requests and answers, the gate to the handlers."""
