"""The one-shot watches of a store, by path and session."""

from collections.abc import Iterable, Iterator

from .interface import EventKind, Watch, WatchEvent

Watchers = dict[str, dict[tuple[int, Watch], None]]
"""Path -> session and callback, in the order in which the watches were set."""


class Watches:
    """The one-shot watches of all sessions."""

    def __init__(self) -> None:
        self._data: Watchers = {}
        self._children: Watchers = {}

    def __len__(self) -> int:
        tables = (self._data, self._children)
        return sum(len(watchers) for table in tables for watchers in table.values())

    def watch_data(self, session_id: int, path: str, watch: Watch) -> None:
        """Call `watch` when the node is created, changed or deleted."""
        self._data.setdefault(path, {})[session_id, watch] = None

    def watch_children(self, session_id: int, path: str, watch: Watch) -> None:
        """Call `watch` when a child is created or deleted, or the node is deleted."""
        self._children.setdefault(path, {})[session_id, watch] = None

    def take(self, events: Iterable[WatchEvent]) -> Iterator[tuple[int, Watch, WatchEvent]]:
        """Remove the watches that these events fire; yield (session id, callback, event).

        A callback that watches both a node and its children is called once for DELETED.
        """
        for event in events:
            fired: dict[tuple[int, Watch], None] = {}
            if event.kind is not EventKind.CHILD:
                fired.update(self._data.pop(event.path, {}))
            if event.kind in (EventKind.CHILD, EventKind.DELETED):
                fired.update(self._children.pop(event.path, {}))
            for session_id, watch in fired:
                yield session_id, watch, event

    def take_all(self) -> Iterator[tuple[int, Watch, WatchEvent]]:
        """Remove and fire all watches, after which every watched node is read again."""
        tables = ((EventKind.CHANGED, self._data), (EventKind.CHILD, self._children))
        self._data, self._children = {}, {}
        for kind, table in tables:
            for path, watchers in table.items():
                for session_id, watch in watchers:
                    yield session_id, watch, WatchEvent(kind, path)

    def end_session(self, session_id: int) -> None:
        """Remove the watches of a session."""
        for table in (self._data, self._children):
            for path, watchers in list(table.items()):
                for key in [key for key in watchers if key[0] == session_id]:
                    del watchers[key]
                if not watchers:
                    del table[path]
