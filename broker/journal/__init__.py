"""The journal of requests: what clients have asked, for tests."""
