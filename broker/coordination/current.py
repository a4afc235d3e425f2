"""The broker's session with the store, whichever it is just now.

A session that has expired is replaced by a new one. Everything that uses the store holds this
object, which is a `Session` too; in between, its operations raise SessionExpired. Watches end with
a session: who sets any adds a callback to `on_renewed`, and reads and watches anew there.
"""

from collections.abc import Awaitable, Callable

from .interface import Store


class CurrentSession:
    """A `Session` that is opened again when it expires."""

    on_lost: list[Callable[[], None]]
    """Called on the loop before a new session can begin: drop what was ours only by the old one
    (being the controller, being registered)."""
    on_renewed: list[Callable[[], Awaitable[None]]]
    """Awaited in order once there is a new session: register, then read and watch everything."""

    def __init__(self, store: Store, timeout_ms: int) -> None:
        raise NotImplementedError
