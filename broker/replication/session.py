"""A follower's side of a fetch session (KIP-227): the leader is only told what has changed.

The leader's side, with the table of ids and epochs, is `core/fetch_session.py`.
"""

from typing import Final, NamedTuple

from odradek.protocol.errors import ErrorCode

from ..core.fetch_session import EPOCH_INITIAL, SESSION_ID_NONE, next_epoch

Key = tuple[str | bytes, int]
"""Topic (its name, or its id) and partition."""

Wanted = dict[Key, tuple[int, ...]]
"""Everything that a request says about each partition."""

SESSION_ERRORS: Final = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)


class Telling(NamedTuple):
    """What a request must say."""

    session_id: int
    epoch: int
    partitions: list[Key]
    """The partitions that are new or have changed."""
    forgotten: list[Key]

    @property
    def is_full(self) -> bool:
        """Whether it names all partitions."""
        return self.epoch == EPOCH_INITIAL


class FetcherSession:
    """The session with one leader; the next request may open it, or close it and open another."""

    __slots__ = ("_by_id", "_epoch", "_session_id", "told")

    def __init__(self) -> None:
        self._session_id = SESSION_ID_NONE
        self._epoch = EPOCH_INITIAL
        self.told: Wanted = {}
        """What the leader knows once it has received the last request."""
        self._by_id = True

    def tell(self, wanted: Wanted, *, by_id: bool) -> Telling:
        """What the next request must say, so that the leader reads all of `wanted`."""
        if by_id != self._by_id:
            self._by_id = by_id
            self._epoch = EPOCH_INITIAL
        told, self.told = self.told, wanted
        if self._epoch == EPOCH_INITIAL:
            return Telling(self._session_id, EPOCH_INITIAL, list(wanted), [])
        changed = [key for key, said in wanted.items() if told.get(key) != said]
        return Telling(
            self._session_id, self._epoch, changed, [key for key in told if key not in wanted]
        )

    def tell_again(self, some: Wanted) -> Telling:
        """The same as `tell`, if at most the `some` part of what was told has changed."""
        told = self.told
        changed = [key for key, said in some.items() if told[key] != said]
        told.update(some)
        all_anew = self._epoch == EPOCH_INITIAL
        return Telling(self._session_id, self._epoch, list(told) if all_anew else changed, [])

    def answered(self, session_id: int) -> None:
        """Note that the request was answered; 0: the leader keeps no session."""
        self._session_id = session_id
        declined = session_id == SESSION_ID_NONE
        self._epoch = EPOCH_INITIAL if declined else next_epoch(self._epoch)

    def failed(self, code: int = ErrorCode.NONE) -> None:
        """Note that it was not answered, or refused with this code: the next one starts over."""
        self._epoch = EPOCH_INITIAL
        if code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self._session_id = SESSION_ID_NONE
