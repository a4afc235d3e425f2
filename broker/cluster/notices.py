"""Znodes that brokers and tools create to notify the controller, which deletes them.

Old leaders report ISR changes, brokers report failed log directories, and tools request
reassignments and preferred replica elections.
"""

from typing import Final

from ..coordination import znodes
from ..coordination.interface import Session, WatchEvent
from ..core.controller import procedures
from ..core.controller.context import Context
from ..core.partition_state import TopicPartition
from .admin_requests import (
    PREFERRED_ELECTION,
    REASSIGN_PARTITIONS,
    decode_preferred_elections,
    decode_reassignments,
)
from .events import Events
from .performing import Perform
from .reading import children, read_notifications, read_request
from .store_calls import map_concurrently
from .writing import FencedWriter

LOG_DIR_FAILED: Final = 1


class Notices:
    """Watches these znodes and acts on them."""

    def __init__(
        self,
        session: Session,
        writer: FencedWriter,
        context: Context,
        events: Events,
        perform: Perform,
    ) -> None:
        self._session = session
        self._writer = writer
        self._context = context
        self._events = events
        self._perform = perform
        self._has_preferred_node = False

    def _on_isr_event(self, event: WatchEvent) -> None:
        self._events.put("isr changes", self._look_at_isr_changes)

    def _on_log_dir_event(self, event: WatchEvent) -> None:
        self._events.put("log dirs", self._look_at_log_dirs)

    def _on_reassignment_event(self, event: WatchEvent) -> None:
        self._events.put("reassignments", self._look_at_reassignments)

    def _on_preferred_event(self, event: WatchEvent) -> None:
        self._events.put("preferred elections", self._look_at_preferred_elections)

    # For a new controller.

    async def finish_preferred_elections(self) -> None:
        """Delete the request for preferred replica elections, if there was one."""
        if self._has_preferred_node:
            await self._writer.delete_if_there(PREFERRED_ELECTION)

    async def forget_notifications(self) -> None:
        """Delete notifications to earlier controllers, and watch for new ones."""
        for parent, watch in (
            (znodes.ISR_CHANGES, self._on_isr_event),
            (znodes.LOG_DIR_EVENTS, self._on_log_dir_event),
        ):
            names = await children(self._session, parent, watch)
            await self._delete_all([f"{parent}/{name}" for name in names])

    # Notifications and requests.

    async def _look_at_isr_changes(self) -> None:
        paths, changes = await read_notifications(
            self._session, znodes.ISR_CHANGES, self._on_isr_event, znodes.decode_isr_change
        )
        partitions = dict.fromkeys(key for keys in changes for key in keys)
        if partitions:
            await self._perform(procedures.isr_changes_noticed(self._context, list(partitions)))
        await self._delete_all(paths)

    async def _look_at_log_dirs(self) -> None:
        paths, told = await read_notifications(
            self._session, znodes.LOG_DIR_EVENTS, self._on_log_dir_event, znodes.LogDirEvent.decode
        )
        broker_ids = {event.broker_id for event in told if event.event == LOG_DIR_FAILED}
        if broker_ids:
            await self._perform(procedures.log_dirs_failed(self._context, broker_ids))
        await self._delete_all(paths)

    async def _delete_all(self, paths: list[str]) -> None:
        await map_concurrently(self._writer.delete_if_there, paths)

    async def read_reassignments(self) -> dict[TopicPartition, tuple[int, ...]] | None:
        """The requested target replicas; None: there is no request."""
        return await read_request(
            self._session,
            REASSIGN_PARTITIONS,
            self._on_reassignment_event,
            decode_reassignments,
            {},
        )

    async def _look_at_reassignments(self) -> None:
        asked = await self.read_reassignments()
        if asked is not None:
            await self._perform(procedures.reassignments_requested(self._context, asked))

    async def read_preferred_elections(self) -> list[TopicPartition] | None:
        """The partitions for which elections are requested; None: there is no request."""
        watch = self._on_preferred_event
        nothing: list[TopicPartition] = []
        asked = await read_request(
            self._session, PREFERRED_ELECTION, watch, decode_preferred_elections, nothing
        )
        self._has_preferred_node = asked is not None
        return asked

    async def _look_at_preferred_elections(self) -> None:
        asked = await self.read_preferred_elections()
        if asked is not None:
            await self._perform(procedures.preferred_elections_requested(self._context, asked))
            await self.finish_preferred_elections()
