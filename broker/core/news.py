"""Who reads many partitions hears which of them have news, and need not look at the others."""

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Generic, TypeVar

from .waiters import Waiter, Waiters

NameT = TypeVar("NameT", bound=Hashable)


class News(Generic[NameT]):
    """Partitions, under the names that their reader has for them."""

    __slots__ = ("_has_come", "_is_over", "_on_news", "_watched", "noted")

    def __init__(self) -> None:
        self.noted: dict[NameT, None] = {}
        """What is to be looked at, in this order: the reader sees to what stays."""
        self._has_come = False
        self._is_over = False
        self._on_news: Callable[[], None] | None = None
        self._watched: dict[NameT, tuple[object, Sequence[Waiters], Waiter]] = {}

    def watch(self, name: NameT, owner: object, waiters: Sequence[Waiters]) -> None:
        """Hear of a partition; of this one, if another was called so."""
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
        """There is news of this partition."""
        self.noted[name] = None
        self._has_come = True
        if self._on_news is not None:
            self._on_news()

    def keep(self, name: NameT, *, to_be_looked_at: bool) -> None:
        """What a look has shown of it."""
        if to_be_looked_at:
            self.noted.setdefault(name)
        else:
            self.noted.pop(name, None)

    def put_off(self, name: NameT) -> None:
        """Look at it after the others."""
        if name in self.noted:
            self.noted[name] = self.noted.pop(name)

    def begin(self) -> None:
        """What is noted is being looked at."""
        self._has_come = False

    def listen(self, on_news: Callable[[], None]) -> None:
        """Be told of what comes, and at once if something has since the last look began."""
        self._on_news = on_news
        if self._has_come:
            on_news()

    @property
    def is_listened_to(self) -> bool:
        """Whether somebody waits for news."""
        return self._on_news is not None

    def leave(self, on_news: Callable[[], None]) -> None:
        """Be told no more; another may listen by now."""
        if self._on_news == on_news:
            self._on_news = None

    def forget(self, name: NameT) -> None:
        """Hear of it no more."""
        self.noted.pop(name, None)
        if name in self._watched:
            _, waiters, waiter = self._watched.pop(name)
            for those in waiters:
                those.discard(waiter)

    def end(self) -> None:
        """Hear of nothing any more."""
        self._on_news = None
        self._is_over = True
        for name in list(self._watched):
            self.forget(name)
