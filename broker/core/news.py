"""Tells a reader of many partitions which of them have news, so that it can skip the others."""

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Generic, TypeVar

from .waiters import Waiter, Waiters

NameT = TypeVar("NameT", bound=Hashable)


class News(Generic[NameT]):
    """The partitions of one reader, under the names that it uses for them."""

    __slots__ = ("_has_come", "_is_over", "_on_news", "_watched", "noted")

    def __init__(self) -> None:
        self.noted: dict[NameT, None] = {}
        """The partitions to look at, in this order; the reader decides which ones stay."""
        self._has_come = False
        self._is_over = False
        self._on_news: Callable[[], None] | None = None
        self._watched: dict[NameT, tuple[object, Sequence[Waiters], Waiter]] = {}

    def watch(self, name: NameT, owner: object, waiters: Sequence[Waiters]) -> None:
        """Watch a partition; it replaces another one of the same name."""
        known = self._watched.get(name)
        if known is not None:
            if known[0] is owner:
                return
            self.forget(name)
        if self._is_over:
            return
        waiter = partial(self.note, name)
        for those in waiters:
            those.add(waiter)
        self._watched[name] = owner, waiters, waiter

    def note(self, name: NameT) -> None:
        """Note that this partition has news."""
        self.noted[name] = None
        self._has_come = True
        if self._on_news is not None:
            self._on_news()

    def keep(self, name: NameT, *, to_be_looked_at: bool) -> None:
        """Keep or drop a partition after a look at it."""
        if to_be_looked_at:
            self.noted.setdefault(name)
        else:
            self.noted.pop(name, None)

    def put_off(self, name: NameT) -> None:
        """Look at a partition after the others."""
        if name in self.noted:
            self.noted[name] = self.noted.pop(name)

    def begin(self) -> None:
        """Note that a look at what has been noted begins."""
        self._has_come = False

    def listen(self, on_news: Callable[[], None]) -> None:
        """Call back when news arrives, or at once if some has arrived since the last look began."""
        self._on_news = on_news
        if self._has_come:
            on_news()

    @property
    def is_listened_to(self) -> bool:
        """Whether a listener waits for news."""
        return self._on_news is not None

    def leave(self, on_news: Callable[[], None]) -> None:
        """Stop calling this listener; another one may have taken its place."""
        if self._on_news == on_news:
            self._on_news = None

    def forget(self, name: NameT) -> None:
        """Stop watching a partition."""
        self.noted.pop(name, None)
        if name in self._watched:
            _, waiters, waiter = self._watched.pop(name)
            for those in waiters:
                those.discard(waiter)

    def end(self) -> None:
        """Stop watching all partitions."""
        self._on_news = None
        self._is_over = True
        for name in list(self._watched):
            self.forget(name)
