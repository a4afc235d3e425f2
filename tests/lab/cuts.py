"""The kinds of cuts, what has to follow from each, and how long that took.

The topic's partitions are all led by broker 0.  So its other roles can be told apart: broker 2 only
follows, and the controller is broker 1, or another where a kind says so.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final, NamedTuple, Protocol

from tests.support.waiting import until

from .admin import create_topic, elect_preferred
from .cluster import BROKER_PORT, SESSION_TIMEOUT_MS, Cluster
from .network import CLIENTS, ZOOKEEPER, Fault, Network, Node
from .standstill import Standstill

LEADER: Final = 0
CONTROLLER: Final = 1
FOLLOWER: Final = 2
BROKERS: Final = frozenset({0, 1, 2})
OTHERS: Final = tuple(BROKERS - {LEADER})
PARTITIONS: Final = 6
ASSIGNMENT: Final = [[0, 1, 2], [0, 2, 1]] * (PARTITIONS // 2)
MIN_ISR: Final = {"min.insync.replicas": "2"}

LOOK_S: Final = 0.05
PATIENCE_S: Final = 15.0  # more than what is due may take, and a moment to go on in
GO_ON_WITHIN_S: Final = 60.0  # TCP's own pauses grow while nothing is heard
FULL_TIMEOUT_S: Final = 120.0
# So much of a cut goes by without an acknowledgement, if none is to be had.
STANDS_STILL: Final = 0.6
# A link that carries less than what is offered: writers slow down to what a follower is given.
SLOW_KILOBITS: Final = 250
LATE_MS: Final = 50
LOST_PERCENT: Final = 10


class Limits(NamedTuple):
    """How long what is due may take; what the laboratory's settings allow, unless said."""

    shrunk_s: float = 11.0
    led_s: float = 6.5
    """Others lead, or another controls: a session of 4 s, and what follows from its end."""
    full_s: float = 30.0
    """After healing."""
    stop_s: float = SESSION_TIMEOUT_MS / 1000 / 2
    """From here on a stop of the machine may end sessions: some time has passed since a ping."""


class Load(Protocol):
    """Writers whose acknowledgements are counted."""

    @property
    def acknowledged(self) -> int: ...

    def wait_for(self, count: int, timeout_s: float) -> None:
        """Until so many more are acknowledged.  Raises: NotYet."""
        ...


class Kind(NamedTuple):
    """A kind of cut and what is due while it lasts."""

    name: str
    begin: Callable[[Network], AbstractContextManager[Fault]]
    leave: frozenset[int] = frozenset()
    """Who leaves the in-sync sets of all partitions."""
    leads: bool = False
    """Whether others lead."""
    controls: bool = False
    """Whether there is another controller."""
    goes_on: bool | None = True
    """Whether records are acknowledged once that has happened; None: as the clients have it."""
    controller: int = CONTROLLER
    """Who is the controller when it begins."""


@contextmanager
def _slow_link(network: Network) -> Iterator[Fault]:
    late = network.delay(FOLLOWER, LEADER, port=BROKER_PORT, delay_ms=LATE_MS)
    with late, network.rate(FOLLOWER, kilobits=SLOW_KILOBITS) as fault:
        yield fault


_LEADER: Final = frozenset({LEADER})
_FOLLOWER: Final = frozenset({FOLLOWER})
_FROM_ALL: Final[tuple[Node, ...]] = (*OTHERS, ZOOKEEPER)

KINDS: Final = (
    Kind("follower", lambda n: n.cut(FOLLOWER, (LEADER, CONTROLLER)), _FOLLOWER),
    Kind(
        # It can tell nobody but itself that the others are late, so it has to be the controller.
        "leader from followers",
        lambda n: n.cut(LEADER, OTHERS),
        frozenset(OTHERS),
        goes_on=False,
        controller=LEADER,
    ),
    Kind("leader from zookeeper", lambda n: n.cut(LEADER, ZOOKEEPER), _LEADER, leads=True),
    Kind(
        # Clients that still reach it may believe what it says, and wait.
        "leader from all",
        lambda n: n.cut(LEADER, _FROM_ALL),
        _LEADER,
        leads=True,
        goes_on=None,
    ),
    Kind(
        "controller",
        lambda n: n.cut(CONTROLLER, (LEADER, FOLLOWER, ZOOKEEPER)),
        frozenset({CONTROLLER}),
        controls=True,
    ),
    Kind("one way", lambda n: n.cut(LEADER, FOLLOWER, one_way=True), _FOLLOWER),
    Kind("clients from leader", lambda n: n.cut(CLIENTS, LEADER), goes_on=False),
)
MORE_KINDS: Final = (
    Kind(
        "leader from all and clients",
        lambda n: n.cut(LEADER, (*_FROM_ALL, CLIENTS)),
        _LEADER,
        leads=True,
    ),
    # Nobody takes the followers out, because the controller is one of those who are cut off.
    Kind("leader from its controller", lambda n: n.cut(LEADER, OTHERS), goes_on=False),
    Kind(
        "leader and controller from zookeeper",
        lambda n: n.cut(LEADER, ZOOKEEPER),
        _LEADER,
        leads=True,
        controls=True,
        controller=LEADER,
    ),
    Kind(
        "controller from zookeeper",
        lambda n: n.cut(CONTROLLER, ZOOKEEPER),
        frozenset({CONTROLLER}),
        controls=True,
    ),
    Kind("one way back", lambda n: n.cut(FOLLOWER, LEADER, one_way=True), _FOLLOWER),
    Kind("ring", lambda n: n.cut(LEADER, FOLLOWER), _FOLLOWER),
    Kind("loss", lambda n: n.loss(tuple(BROKERS), tuple(BROKERS), percent=LOST_PERCENT)),
    Kind("slow link", _slow_link),
)
BY_NAME: Final = {kind.name: kind for kind in (*KINDS, *MORE_KINDS)}


class Seen(NamedTuple):
    """What stands in ZooKeeper of a topic's partitions, and of the controller."""

    leaders: list[int]
    isrs: list[frozenset[int]]
    controller_epoch: int

    @property
    def is_full(self) -> bool:
        return all(isr == BROKERS for isr in self.isrs)


class Times(NamedTuple):
    """What has followed from a cut, and after how long; None: it has not.

    All times but the last are without the machine's stops.
    """

    kind: Kind
    lasted_s: float
    hits: int
    shrunk_s: float | None
    led_s: float | None
    controlled_s: float | None
    full_s: float
    """After healing."""
    acknowledged: int
    """While it lasted, after the last of the above."""
    has_moved: bool
    """Whether anything was led by another than broker 0 at any time."""
    pause_s: float
    """The longest without any acknowledgement, from its begin until all was full again."""
    longest_stop_s: float

    def figures(self) -> dict[str, object]:
        """All but the kind."""
        return {name: value for name, value in self._asdict().items() if name != "kind"}

    def wrong(self, limits: Limits) -> list[str]:
        """Everything that is late, or did not happen."""
        kind = self.kind
        late = [
            f"{kind.name}: {what} after {took_s} s"
            for what, due, took_s, limit_s in (
                ("the in-sync sets shrank", bool(kind.leave), self.shrunk_s, limits.shrunk_s),
                ("others led", kind.leads, self.led_s, limits.led_s),
                ("another controlled", kind.controls, self.controlled_s, limits.led_s),
                ("the in-sync sets were full", True, self.full_s, limits.full_s),
            )
            if due and (took_s is None or took_s > limit_s)
        ]
        if kind.goes_on and not self.acknowledged:
            late.append(f"{kind.name}: nothing is acknowledged")
        if kind.goes_on is False and self.pause_s < STANDS_STILL * self.lasted_s:
            late.append(f"{kind.name}: records are acknowledged, the longest pause {self.pause_s}")
        if self.has_moved and not kind.leads and self.longest_stop_s < limits.stop_s:
            late.append(f"{kind.name}: others lead")
        return late


def make_topic(lab: Cluster, topic: str) -> None:
    """One of which broker 0 leads all."""
    create_topic(lab, topic, assignment=ASSIGNMENT, configs=MIN_ISR)


def look(lab: Cluster, topic: str) -> Seen:
    """What stands in ZooKeeper now."""
    states = [lab.state(topic, partition) for partition in range(PARTITIONS)]
    leaders = [int(state["leader"]) for state in states]
    isrs = [frozenset(state["isr"]) for state in states]
    epoch, _ = lab.client.retry(lab.client.get, "/controller_epoch")
    return Seen(leaders, isrs, int(epoch))


def put_in_order(lab: Cluster, topic: str, controller: int) -> None:
    """All in sync, broker 0 leads, and the controller is the one wanted."""
    lab.settle()
    if lab.controller() != controller:
        lab.make_controller(controller)
        lab.settle()
    if set(look(lab, topic).leaders) != {LEADER}:
        elect_preferred(lab, {topic: range(PARTITIONS)})
    until(lambda: set(look(lab, topic).leaders) == {LEADER}, "broker 0 leads all")
    lab.settle()


def inflict(lab: Cluster, topic: str, load: Load, kind: Kind, lasting_s: float) -> Times:
    """Cut once, heal, and wait until all is as before.  Raises: NoEffect, NotYet.

    A cut of less than `PATIENCE_S` lasts on for as long while something that is due is missing.
    """
    put_in_order(lab, topic, kind.controller)
    load.wait_for(1, GO_ON_WITHIN_S)
    with Standstill() as machine:
        run = _Run(lab, topic, load, kind, machine.own_s)
        lab.history.note("inflict", kind.name)
        with kind.begin(lab.network) as fault:
            while run.age_s < (lasting_s if run.is_done else max(lasting_s, PATIENCE_S)):
                run.look()
            hits = fault.hits
        lasted_s, acknowledged = run.age_s, run.acknowledged
        while not run.look().is_full:
            assert run.age_s - lasted_s < FULL_TIMEOUT_S, f"{kind.name}: not full again"
        full_s = round(run.age_s - lasted_s, 2)
        lab.settle()
        load.wait_for(1, GO_ON_WITHIN_S)
        run.look()
        longest_stop_s = round(machine.longest_s, 2)
    times = Times(
        kind,
        round(lasted_s, 1),
        hits,
        run.after_s.get("shrunk"),
        run.after_s.get("led"),
        run.after_s.get("controlled"),
        full_s,
        acknowledged,
        run.has_moved,
        round(run.pause_s, 2),
        longest_stop_s,
    )
    lab.history.note("cut is over", kind.name, **times.figures())
    return times


class _Run:
    """Looks at what happens during one cut."""

    def __init__(
        self, lab: Cluster, topic: str, load: Load, kind: Kind, clock: Callable[[], float]
    ) -> None:
        self._lab = lab
        self._topic = topic
        self._load = load
        self._kind = kind
        self._before = look(lab, topic)
        self._clock = clock
        self._begin_s = self._acknowledged_s = clock()
        self._count = load.acknowledged
        self.after_s: dict[str, float] = {}
        self.acknowledged = 0
        self.has_moved = False
        self.pause_s = 0.0

    @property
    def age_s(self) -> float:
        return self._clock() - self._begin_s

    @property
    def is_done(self) -> bool:
        """Whether all that is due has happened, and records are acknowledged since if they are."""
        has_happened = all(what in self.after_s for what in self._due())
        return has_happened and (not self._kind.goes_on or self.acknowledged > 0)

    def look(self) -> Seen:
        """Once; waits a moment before."""
        time.sleep(LOOK_S)
        seen, kind = look(self._lab, self._topic), self._kind
        now = {
            "shrunk": not any(isr & kind.leave for isr in seen.isrs),
            "led": not {*seen.leaders} & {LEADER, -1},
            "controlled": seen.controller_epoch > self._before.controller_epoch,
        }
        due = self._due()
        self.has_moved |= {*seen.leaders} != {LEADER}
        for what, is_so in now.items():
            if is_so and what in due and what not in self.after_s:
                self.after_s[what] = round(self.age_s, 2)
        self._count_acknowledged(all(now[what] for what in due))
        return seen

    def _due(self) -> list[str]:
        kind = self._kind
        due = {"shrunk": bool(kind.leave), "led": kind.leads, "controlled": kind.controls}
        return [what for what, is_due in due.items() if is_due]

    def _count_acknowledged(self, has_happened: bool) -> None:
        now_s, count = self._clock(), self._load.acknowledged
        if count > self._count:
            self.pause_s = max(self.pause_s, now_s - self._acknowledged_s)
            self._acknowledged_s = now_s
            self.acknowledged += (count - self._count) * has_happened
        self._count = count
