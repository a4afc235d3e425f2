"""What a failed test reports of its broker, of this test only: the log, topics, groups, requests.

All of it has at most LINES_MAX lines. What can't be had, as the broker does not answer, is left
out: the failure of the test is what matters.
"""

import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from odradek.protocol.errors import MalformedMessage
from odradek.protocol.messages.k20001_describe_group_journal import (
    DescribeGroupJournalRequest,
    DescribeGroupJournalResponse,
)

from .connection import Connection
from .errors import BrokerFailed

if TYPE_CHECKING:
    from .broker import Broker

Section = tuple[str, str]
"""The title and the text."""

LINES_MAX: Final = 200
LOG_LINES: Final = 60
TOPIC_LINES: Final = 30
GROUP_LINES: Final = 40
TOPICS_LOOKED_AT: Final = 20
EVENTS_OF_GROUP: Final = 12
ASK_TIMEOUT_S: Final = 5.0
_TITLES: Final = 4


class Report:
    """The report of one test, should it fail."""

    def __init__(
        self,
        broker: "Broker",
        began_s: float,
        requests_before: frozenset[tuple[int, int]] = frozenset(),
    ) -> None:
        """`began_s`: when the test began, in seconds since the Unix epoch.

        `requests_before`: what `known_requests` said then, if other tests had the broker before.
        """
        self._broker = broker
        self._began = _stamp(began_s)
        self._requests_before = requests_before

    def sections(self) -> list[Section]:
        """Those that have something to say."""
        self._broker._wake()
        log = _last(self._log(), LOG_LINES)
        topics = _first(_answered(self._topics), TOPIC_LINES)
        groups = _first(_answered(self._groups), GROUP_LINES)
        left = LINES_MAX - _TITLES - len(log) - len(topics) - len(groups)
        requests = _last(_answered(self._requests), left)
        named = [
            ("odradek log", log),
            ("topics", topics),
            ("groups", groups),
            ("last requests", requests),
        ]
        return [(title, "\n".join(lines)) for title, lines in named if lines]

    def _log(self) -> list[str]:
        """The lines since the test began; those without a time belong to the one before."""
        shown: list[str] = []
        is_ours = False
        for line in self._broker.log.splitlines():
            if line[:4].isdigit():
                is_ours = line[: len(self._began)] >= self._began
            if is_ours:
                shown.append(line)
        return shown

    def _topics(self) -> Iterator[str]:
        admin = self._broker.admin
        topics = admin.get("topics")["topics"]
        for topic in topics[:TOPICS_LOOKED_AT]:
            ends: dict[int, int] = {}
            with suppress(BrokerFailed):  # a partition without a leader, or one elsewhere
                told = admin.get("topics", topic["name"], "records", limit=1, encoding="base64")
                ends = {each["partition"]: each["high_watermark"] for each in told["partitions"]}
            parts = ", ".join(
                f"{each['partition']} ends at {ends.get(each['partition'], '?')}"
                + ("" if each["leader"] >= 0 else " without a leader")
                for each in topic["partitions"]
            )
            yield f"{topic['name']}: {parts}"
        yield from (topic["name"] for topic in topics[TOPICS_LOOKED_AT:])

    def _groups(self) -> Iterator[str]:
        for group_id in self._broker.groups:
            group = self._broker.groups[group_id]._described()
            yield f"{group_id} is {group['state']}"
            for member in group["members"]:
                owned = ", ".join(f"{name} {parts}" for name, parts in member["assignment"].items())
                yield f"  {member['client_id']} {member['member_id']}: {owned or 'nothing'}"
            for each in group["offsets"]:
                lag = "unknown" if each["lag"] is None else each["lag"]
                place = f"{each['topic']}-{each['partition']}"
                yield f"  {place}: committed {each['offset']}, lag {lag}"
            if "coordinator" in group:  # it was not deleted meanwhile
                yield from self._events(group_id, group["coordinator"])

    def _events(self, group_id: str, coordinator: int) -> Iterator[str]:
        broker = self._broker
        request = DescribeGroupJournalRequest(groups=[group_id])
        try:
            address = broker._told.addresses[coordinator]
            with Connection(address, broker._access, timeout_s=ASK_TIMEOUT_S) as connection:
                told = connection.ask(request, 0, DescribeGroupJournalResponse)
        except (OSError, KeyError, MalformedMessage):  # it is down, or is not Odradek's
            return
        for entry in told.groups[0].entries[-EVENTS_OF_GROUP:]:
            about = f" {entry.member_id}" if entry.member_id else ""
            yield f"  {_stamp(entry.timestamp_ms / 1000)} {entry.event}{about}: {entry.reason}"

    def _requests(self) -> Iterator[str]:
        for request in self._broker.journal.requests(limit=LINES_MAX):
            if (request.broker, request.number) not in self._requests_before:
                yield str(request)


def known_requests(broker: "Broker") -> frozenset[tuple[int, int]]:
    """The last requests of the journal: of each the broker, and its number there."""
    broker._wake()
    with suppress(BrokerFailed, OSError):
        requests = broker.journal.requests(limit=LINES_MAX)
        return frozenset((request.broker, request.number) for request in requests)
    return frozenset()


def keep(broker: "Broker", directory: Path) -> Section:
    """Copy the files of a test that failed, and say how to look into them."""
    data, title = directory / "data", "odradek kept"
    try:
        _copy(broker, data)
    except (RuntimeError, OSError) as error:
        return title, f"the files can't be kept: {error}"
    (directory / "broker.log").write_text(broker.log)
    brokers = f" --brokers {len(broker.broker_ids)}" if len(broker.broker_ids) > 1 else ""
    return title, "\n".join(
        [
            f"the files are in {directory}; look into them with",
            f"  odradek log dump --records {data}",
            f"  odradek log verify {data}",
            f"  odradek serve{brokers} --data-dir {data}",
            f"  less {directory / 'broker.log'}",
        ]
    )


def _copy(broker: "Broker", target: Path) -> None:
    """Raises: OSError; RuntimeError if others have started the broker."""
    try:
        broker._snapshots.copy_now(target)
    except (BrokerFailed, OSError):  # it has ended, or there are no snapshots
        shutil.copytree(broker.data_dir, target, dirs_exist_ok=True)


def _answered(ask: Callable[[], Iterable[str]]) -> list[str]:
    """The lines, as far as the broker has answered."""
    lines: list[str] = []
    with suppress(BrokerFailed, OSError):
        for line in ask():
            lines.append(line)  # what came before an error stays
    return lines


def _first(lines: list[str], count: int) -> list[str]:
    if len(lines) <= count:
        return lines
    return [*lines[: count - 1], f"… and {len(lines) - count + 1} lines more"]


def _last(lines: list[str], count: int) -> list[str]:
    if len(lines) <= count:
        return lines
    return [f"… after {len(lines) - count + 1} lines", *lines[1 - count :]]


def _stamp(wall_s: float) -> str:
    """The time as in the log."""
    stamp: Any = datetime.fromtimestamp(wall_s, UTC)
    return f"{stamp:%Y-%m-%dT%H:%M:%S}.{stamp.microsecond // 1000:03}Z"
