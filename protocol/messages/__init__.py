"""One module per API key: its request and response, each declared once for all versions."""
