"""The controller's watches, and what it does when they fire.

A watch fires once, and may fire without a change. In any case the watched znode is read and watched
again, and a procedure gets what was read.
"""

import logging
from collections.abc import Callable, Collection, Iterable
from typing import TypeVar

from odradek.protocol.primitives import ZERO_UUID

from ..coordination import znodes
from ..coordination.interface import BadVersion, NoNode, Session, Set, WatchEvent
from ..core.controller import procedures
from ..core.controller.context import Context, LiveBroker, TopicNode
from ..core.controller.effects import StoredState
from ..core.controller.procedures import Snapshot
from ..core.partition_state import TopicPartition
from .events import Events
from .notices import Notices
from .performing import Perform
from .reading import (
    Broken,
    StoredTopic,
    children,
    get,
    new_topic_id,
    read_brokers,
    read_states,
    read_topics,
)
from .store_calls import map_concurrently
from .writing import FencedWriter, OpRefused

logger = logging.getLogger(__name__)

T = TypeVar("T")


class StartOver(Exception):
    """The controller must resign, so that a new one reads the whole cluster again."""


class Watching:
    """All watches of one controller term."""

    def __init__(
        self,
        session: Session,
        writer: FencedWriter,
        context: Context,
        events: Events,
        perform: Perform,
        *,
        on_brokers: Callable[[Iterable[LiveBroker]], None],
        randbytes: Callable[[int], bytes],
    ) -> None:
        """`on_brokers` gets the registered brokers before any procedure does."""
        self._session = session
        self._writer = writer
        self._context = context
        self._events = events
        self._perform = perform
        self._on_brokers = on_brokers
        self._randbytes = randbytes
        self.notices = Notices(session, writer, context, events, perform)
        self._changed_topics: set[str] = set()
        self._aside: dict[str, Broken] = {}
        """Topics that cannot be used until their znodes change."""

    # Watches. Each callback only queues an event.

    def _on_broker_event(self, event: WatchEvent) -> None:
        self._events.put("brokers", self._look_at_brokers)

    def _on_topics_event(self, event: WatchEvent) -> None:
        self._events.put("topics", self._look_at_topics)

    def _on_topic_event(self, event: WatchEvent) -> None:
        topic = event.path.removeprefix(znodes.BROKER_TOPICS + "/").partition("/")[0]
        self._changed_topics.add(topic)
        self._events.put("changed topics", self._look_at_changed_topics)

    def _on_deletion_event(self, event: WatchEvent) -> None:
        self._events.put("deletions", self._look_at_deletions)

    # Reading everything, for a new controller.

    async def read_all(self) -> Snapshot:
        """Read and watch everything; delete leftover notifications."""
        brokers = await read_brokers(self._session, self._on_broker_event, self._on_broker_event)
        self._on_brokers(brokers.values())
        await self.notices.forget_notifications()
        names = await children(self._session, znodes.BROKER_TOPICS, self._on_topics_event)
        topics, _ = await self._read_topics(names)
        states = await self._read_states(topics)
        preferred = await self.notices.read_preferred_elections()
        return Snapshot(
            brokers=brokers,
            topics=topics,
            states=states,
            deletions=await self._read_deletions(),
            reassignments=await self.notices.read_reassignments() or {},
            preferred_elections=preferred or [],
            is_complete=topics.keys() == set(names),
        )

    async def _read_states(self, topics: dict[str, TopicNode]) -> dict[TopicPartition, StoredState]:
        """Read the topics' states; a topic with an unusable state is removed from `topics`."""
        keys = [(topic, partition) for topic, node in topics.items() for partition in node[1]]
        states: dict[TopicPartition, StoredState] = {}
        for key, state in (await read_states(self._session, keys)).items():
            if not isinstance(state, Broken):
                states[key] = state
                continue
            if topics.pop(key[0], None) is not None:
                self._set_aside(key[0], state)
            await get(self._session, state.path, self._on_topic_event)  # it may be repaired
        return {key: state for key, state in states.items() if key[0] in topics}

    # Brokers.

    async def _look_at_brokers(self) -> None:
        brokers = await read_brokers(self._session, self._on_broker_event, self._on_broker_event)
        self._on_brokers(brokers.values())
        await self._perform(procedures.brokers_changed(self._context, brokers))

    # Topics.

    async def _look_at_topics(self) -> None:
        names = await children(self._session, znodes.BROKER_TOPICS, self._on_topics_event)
        known = self._context.assignments
        unseen = [name for name in names if name not in known and name not in self._aside]
        gone = known.keys() - names
        if unseen or gone:
            topics, _ = await self._read_topics(unseen)
            await self._perform(procedures.topics_changed(self._context, topics, gone))

    async def _look_at_changed_topics(self) -> None:
        names, self._changed_topics = self._changed_topics, set()
        topics, gone = await self._read_topics(names)
        known = self._context.topic_ids
        gone |= {name for name, node in topics.items() if known.get(name) not in (None, node[0])}
        gone &= known.keys()
        if gone:
            await self._perform(procedures.topics_changed(self._context, {}, gone))
        unseen = {name: node for name, node in topics.items() if name not in known}
        if unseen:
            await self._perform(procedures.topics_changed(self._context, unseen, ()))
        for name in topics.keys() - unseen.keys():
            await self._perform(procedures.topic_changed(self._context, name, topics[name]))

    async def _read_topics(self, names: Collection[str]) -> tuple[dict[str, TopicNode], set[str]]:
        """Read topics: those that can be used, and the names of those that do not exist."""
        found = await read_topics(self._session, names, self._on_topic_event)
        topics: list[StoredTopic] = []
        gone: set[str] = set()
        for name, topic in found.items():
            if isinstance(topic, Broken):
                self._set_aside(name, topic)
                continue
            if self._aside.pop(name, None) is not None:
                await self._let_in(name)
            if topic is None:
                gone.add(name)
            else:
                topics.append(topic)
        ids = await map_concurrently(self._id_of, topics)
        nodes: dict[str, TopicNode] = {}
        owners = {**self._context.topic_names}
        for topic, topic_id in zip(topics, ids, strict=True):
            if topic_id is None:
                continue
            if owners.setdefault(topic_id, topic.name) != topic.name:
                reason = f"its id is that of topic {owners[topic_id]!r}"
                self._set_aside(topic.name, Broken(znodes.topic_path(topic.name), reason))
            else:
                nodes[topic.name] = topic.as_node(topic_id)
        return nodes, gone

    def _set_aside(self, name: str, broken: Broken) -> None:
        if self._aside.get(name) != broken:
            logger.error(
                "topic is not served topic=%s path=%s error=%s", name, broken.path, broken.reason
            )
        if name not in self._context.assignments:  # otherwise its last known state still counts
            self._aside[name] = broken

    async def _let_in(self, name: str) -> None:
        """Admit a topic that was set aside, as a new one.

        Raises: StartOver if it has partition znodes, and so may have had leaders.
        """
        if await children(self._session, znodes.partitions_path(name)):
            raise StartOver(f"topic {name!r} is no longer set aside")
        self._events.put("deletions", self._look_at_deletions)

    async def _id_of(self, topic: StoredTopic) -> bytes | None:
        """The topic's id, written now if it has none; None: the znode has just changed or gone."""
        topic_id = topic.node.topic_id
        if topic_id is not None and topic_id != ZERO_UUID:
            return topic_id
        topic_id = self._context.topic_ids.get(topic.name) or new_topic_id(self._randbytes)
        data = topic.node._replace(topic_id=topic_id).encode()
        try:
            await self._writer.write([Set(znodes.topic_path(topic.name), data, topic.version)])
        except OpRefused as refused:
            if not isinstance(refused.error, BadVersion | NoNode):
                raise
            return None  # the watch will fire
        return topic_id

    async def _read_deletions(self) -> list[str]:
        names = await children(self._session, znodes.DELETE_TOPICS, self._on_deletion_event)
        waiting = [name for name in names if name in self._aside]
        if waiting:
            logger.warning("topics that are not served are not deleted topics=%s", waiting[:10])
        return [name for name in names if name not in self._aside]

    async def _look_at_deletions(self) -> None:
        names = await self._read_deletions()
        if names:
            await self._perform(
                procedures.deletions_asked(
                    self._context, names, enabled=self._context.delete_topic_enable
                )
            )
