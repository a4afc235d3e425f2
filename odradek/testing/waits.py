"""Waiting for what clients do, instead of sleeping: `broker.wait_for_group("app")`.

The brokers answer once it is so; they look again whenever something changes. There is no polling.
"""

import http.client
import re
import time
from contextlib import closing
from typing import Any, Final, Literal

from odradek.durations import Duration, seconds_of

from .door import AdminClient, AdminClients, AdminError
from .records import Record, read_records
from .topics import Topic

ANSWER_S: Final = 30.0
"""How much later than the time-out a broker may answer."""


class WaitTimeout(AssertionError):
    """What a test waited for did not happen; the message says what is there instead."""


class Waiting:
    """The waits of a `Broker`."""

    _admins: AdminClients

    def wait_for_topic(self, topic: str, *, timeout: Duration = "5s") -> Topic:
        """Wait until there is a topic whose partitions all have leaders; return it.

        Raises: WaitTimeout.
        """
        __tracebackhide__ = True
        return Topic.of(self._wait(timeout, "topics", topic))

    def wait_for_records(
        self,
        topic: str,
        count: int,
        *,
        isolation: Literal["read_uncommitted", "read_committed"] = "read_uncommitted",
        timeout: Duration = "5s",
    ) -> list[Record]:
        """Wait until a topic has at least so many records; return all, as `records` does.

        Raises: WaitTimeout.
        """
        __tracebackhide__ = True
        self._wait(timeout, "topics", topic, "records", count=count, isolation=isolation)
        return read_records(self._admins, topic, partition=None, isolation=isolation)

    def wait_for_group(
        self,
        group: str,
        *,
        members: int = 1,
        assigned: int | None = None,
        timeout: Duration = "15s",
    ) -> None:
        """Wait until a group is stable with exactly so many members.

        `assigned`: and they have exactly so many partitions, all together.
        Raises: WaitTimeout, which says why the group rebalances.
        """
        __tracebackhide__ = True
        self._wait(timeout, "groups", group, members=members, assigned=assigned)

    def wait_for_lag(
        self, group: str, lag: int, *, topic: str | None = None, timeout: Duration = "5s"
    ) -> None:
        """Wait until a group has committed all but at most so many records.

        They are counted in all partitions of `topic`; by default, of each topic of which it has
        committed anything.
        Raises: WaitTimeout, which says why the group rebalances.
        """
        __tracebackhide__ = True
        self._wait(timeout, "groups", group, "lag", lag=lag, topic=topic)

    def _wait(self, timeout: Duration, *segments: str, **fields: object) -> Any:
        """What a route below `wait` answers.  Raises: WaitTimeout, AdminError, ValueError."""
        __tracebackhide__ = True
        seconds = seconds_of(timeout)
        end_s = time.monotonic() + seconds

        def ask(admin: AdminClient) -> Any:
            left_s = max(0.0, end_s - time.monotonic())
            return admin.get("wait", *segments, timeout=f"{left_s:.3f}s", **fields)

        with closing(self._admins.patient(seconds + ANSWER_S)) as patient:
            try:
                return patient.ask_where_it_is(ask)
            except AdminError as error:
                if error.status != http.client.GATEWAY_TIMEOUT:
                    raise
                # The broker names the time that was left when it was asked.
                reason = re.sub(r"^after \S+ s ", f"after {seconds:g} s ", str(error))
        raise WaitTimeout(reason)
