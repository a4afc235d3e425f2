"""A conversation with our broker beside Apache Kafka's answers: recorded ones, or live.

A run compares with the recording, as long as it is of this conversation; if not, Kafka is asked,
and the end of the run says how to record anew. `make test` fails then. `make soak PART=recorded`
always asks Kafka, and compares the recording with what it says now.
"""

import enum
import re
import shutil
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.kafka import jars
from tests.kafka.apache import BY_VERSION
from tests.recordings import mark_stale
from tests.wire.allowed import Rule
from tests.wire.fingerprint import fingerprint
from tests.wire.peer_server import PeerServer
from tests.wire.recording import RECORDINGS, Answers, Recording, as_recorded
from tests.wire.servers import VERSIONS, Server, make_server
from tests.wire.talk import Talk, differences

SHOWN_MAX: Final = 700
BROKERS: Final = ("ours", "kafka")
THREADS: Final = 32
NAME: Final = attrgetter("__name__")
"""What a test of a conversation is called by."""


class Kafka(enum.Enum):
    """How Kafka's side is got."""

    RECORDED = enum.auto()
    LIVE = enum.auto()
    RECORDING = enum.auto()


SIDES: Final = (
    pytest.param(Kafka.RECORDED, id="recorded"),
    pytest.param(Kafka.LIVE, id="live", marks=[pytest.mark.soak, pytest.mark.java]),
)
"""The parameters of a fixture that is a pair."""


class Suite(NamedTuple):
    """Conversations that are held with brokers of the same settings."""

    name: str
    kafka: str
    talk: type[Talk]
    settings: Mapping[str, str]
    rules: Sequence[Rule]
    kafka_settings: Mapping[str, str] = {}
    waiting: Container[Callable[..., None]] = ()
    """Conversations that mostly wait for timeouts: they are held beside the others."""
    wait_until_ready: Callable[[Server], object] = lambda _: None
    make: Callable[[str, Path, Mapping[str, str]], Server] = make_server
    for_brokers: bool = False
    """Our broker takes the test for another one; Kafka without an authorizer takes anybody so."""

    def fingerprint(self, conversation: Callable[..., None]) -> str:
        """Of all that determines what Kafka answers."""
        version = VERSIONS[self.kafka]
        settings = {**BY_VERSION[version].fixed, **self.settings, **self.kafka_settings}
        return fingerprint(conversation, self.talk, version, settings)

    def path(self, conversation: Callable[..., None]) -> Path:
        """The file of a recording."""
        return RECORDINGS / self.name / f"{conversation.__name__}.json"

    def hold(self, conversation: Callable[..., None], broker: Server) -> Answers:
        """What a broker answers."""
        talk = self.talk(broker, conversation.__name__)
        try:
            conversation(talk)
        finally:
            talk.close()
        return as_recorded(talk.answers)


class Pair:
    """The broker under test, and Kafka; each is started when it is first needed."""

    def __init__(self, suite: Suite, mode: Kafka, target: str, directory: Path) -> None:
        self.suite = suite
        self.mode = mode
        self.is_odradek = target == "odradek"
        self._target = target
        self._directory = directory
        self._started: list[Server] = []
        self._threads = ThreadPoolExecutor(THREADS)
        self._held: dict[tuple[Callable[..., None], str], Future[Answers]] = {}

    @cached_property
    def ours(self) -> Server:
        """The target's broker."""
        more = {} if self.is_odradek else self.suite.kafka_settings
        directory = self._directory / "ours"
        if self.is_odradek and self.suite.for_brokers:
            return self._start(PeerServer(directory, self.suite.settings))
        settings = {**self.suite.settings, **more}
        return self._start(self.suite.make(self._target, directory, settings))

    @cached_property
    def kafka(self) -> Server:
        """Apache Kafka."""
        need_kafka(VERSIONS[self.suite.kafka])
        settings = {**self.suite.settings, **self.suite.kafka_settings}
        return self._start(self.suite.make(self.suite.kafka, self._directory / "kafka", settings))

    def _start(self, broker: Server) -> Server:
        self._started.append(broker)
        broker.start()
        self.suite.wait_until_ready(broker)
        return broker

    def begin(self, conversation: Callable[..., None], broker: str) -> Future[Answers]:
        """Hold it, unless it has begun already, with "ours" or "kafka"; its answers to come."""
        key = conversation, broker
        if key not in self._held:
            server: Server = getattr(self, broker)
            self._held[key] = self._threads.submit(self.suite.hold, conversation, server)
        return self._held[key]

    def begin_with_waiting(self, conversations: Iterator[Callable[..., None]]) -> None:
        """Begin with those of them that mostly wait."""
        for conversation in conversations:
            if conversation in self.suite.waiting:
                for broker in ("ours",) if self.mode is Kafka.RECORDED else BROKERS:
                    self.begin(conversation, broker)

    def revive(self) -> None:
        """Start those again that a conversation has ended."""
        for broker in self._started:
            if not broker.alive:
                broker.start()
                self.suite.wait_until_ready(broker)

    def close(self) -> None:
        """End what was started."""
        for broker in self._started:
            broker.close()
        self._threads.shutdown()


def mode_of(request: pytest.FixtureRequest) -> Kafka:
    """What a fixture with the parameters `SIDES` is to do."""
    mode: Kafka = request.param
    records = request.config.getoption("--record") and mode is Kafka.RECORDED
    return Kafka.RECORDING if records else mode


def need_kafka(version: str) -> None:
    """Skip the test if Kafka cannot be started here."""
    if shutil.which("java") is None or not jars.present(version):
        pytest.skip("Kafka is to be asked, and Java or its jars are not there")


def report_stale(mode: Kafka, request: pytest.FixtureRequest) -> None:
    """What is recorded is of another source: a run says so at its end, a whole one fails."""
    assert mode is Kafka.RECORDED, "the recording is of another source: make it anew (--record)"
    mark_stale(request)


def started_pair(suite: Suite, request: pytest.FixtureRequest) -> Iterator[Pair]:
    """The pair of a fixture with the parameters `SIDES`."""
    target: str = request.config.getoption("--target")
    if target not in ("odradek", suite.kafka):
        pytest.skip(f"is about {suite.kafka}")
    directory = request.getfixturevalue("tmp_path_factory").mktemp(suite.name)
    pair = Pair(suite, mode_of(request), target, directory)
    try:
        pair.begin_with_waiting(_conversations_with(request))
        yield pair
    finally:
        pair.close()


def _conversations_with(request: pytest.FixtureRequest) -> Iterator[Callable[..., None]]:
    """Those of the chosen tests that have this fixture, too."""
    for item in request.session.items:
        params = item.callspec.params if hasattr(item, "callspec") else {}
        if params.get(request.fixturename) is request.param and "conversation" in params:
            yield params["conversation"]


def compare(conversation: Callable[..., None], pair: Pair, request: pytest.FixtureRequest) -> None:
    """Hold it, and fail over each difference that no rule allows or that is not as recorded."""
    suite, mode = pair.suite, pair.mode
    path, now = suite.path(conversation), suite.fingerprint(conversation)
    recording = Recording.read(path, now)
    if recording is None and mode is not Kafka.RECORDING:
        report_stale(mode, request)
    if recording is not None and mode is Kafka.RECORDED:
        ours, kafka = pair.begin(conversation, "ours").result(), recording.answers
    else:
        held = [pair.begin(conversation, broker) for broker in BROKERS]
        ours, kafka = (answers.result() for answers in held)
    lines = list(lines_of(ours, kafka))
    _judge(lines, conversation, pair)
    if mode is Kafka.RECORDING:
        assert pair.is_odradek, "a recording has Odradek's side, too"
        Recording(now, kafka, lines).write(path)
    elif recording is not None:
        if mode is Kafka.LIVE:
            same("Kafka no longer answers as recorded", list(lines_of(kafka, recording.answers)))
        if pair.is_odradek:
            new = [f"new: {line}" for line in lines if line not in recording.differences]
            gone = [f"gone: {line}" for line in recording.differences if line not in lines]
            same("we differ from Kafka, but no longer as recorded", new + gone)


def lines_of(ours: Answers, kafka: Answers) -> Iterator[str]:
    """Where answers differ, with both values."""
    for label in dict.fromkeys([*ours, *kafka]):
        if label in ours and label in kafka:
            for difference in differences(ours[label], kafka[label]):
                yield f"{label}: {difference}"
        else:
            whose, answer = ("theirs", kafka[label]) if label in kafka else ("ours", ours[label])
            yield f"{label}: only in {whose}: {answer!r}"
    both = [
        [label for label in one if label in other] for one, other in ((ours, kafka), (kafka, ours))
    ]
    if both[0] != both[1]:
        yield "the conversations took different turns"


def _judge(lines: Sequence[str], conversation: Callable[..., None], pair: Pair) -> None:
    """A rule allows each difference, and each rule of this conversation is needed."""
    name = conversation.__name__
    rules = [rule for rule in pair.suite.rules if rule.conversation in (None, name)]
    used = set()
    unexpected = []
    for line in lines:
        matching = [rule for rule in rules if re.search(rule.pattern, line)]
        used.update(matching)
        if not matching:
            unexpected.append(line)
    same("no rule allows this", unexpected)
    unused = [rule.pattern for rule in rules if rule.conversation and rule not in used]
    assert not (pair.is_odradek and unused), f"nothing differs so any more: {unused}"


def same(complaint: str, lines: Sequence[str]) -> None:
    """Fail if there are lines in which answers differ."""
    shown = [line if len(line) <= SHOWN_MAX else f"{line[:SHOWN_MAX]}…" for line in lines]
    assert not lines, "\n".join([f"{complaint}:", *shown])
