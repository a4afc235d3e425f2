"""One module an API key: its request and response, all versions of each in one declaration."""
