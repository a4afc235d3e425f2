"""TLS for clients: certificate stores, the contexts of listeners, and the names of clients."""
