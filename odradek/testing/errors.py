"""The error of a broker under test."""

__all__ = ["BrokerFailed", "hides"]


class BrokerFailed(Exception):
    """The broker did not start, did not stop, or ended on its own; its log is in the message."""


def hides(raised: object) -> bool:
    """Whether pytest leaves the frames of this package out of a traceback.

    A module with `__tracebackhide__ = hides` asks for that. Only the user's line and the message
    are of use if a broker has failed; for any other error, all frames are shown.
    """
    return isinstance(getattr(raised, "value", None), BrokerFailed)
