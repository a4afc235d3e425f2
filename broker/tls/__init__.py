"""TLS: certificate stores, the contexts of listeners and between brokers, the names of clients."""
