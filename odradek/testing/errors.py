"""The error of a broker under test."""


class BrokerFailed(Exception):
    """The broker did not start, did not stop, or ended on its own; its log is in the message."""
