"""Faults: rules by which requests to the brokers under test fail, wait or lose their answer.

fault = broker.faults.add(api="Produce", topic="orders", times=2, error="NOT_LEADER_OR_FOLLOWER")
...
assert fault.hits == 2
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any, TypedDict, Unpack

from odradek.durations import Duration, seconds_of

from .door import AdminClient, running


class Rule(TypedDict, total=False):
    """Which requests a rule is about, when it acts, and what happens then."""

    topic: str
    partition: int
    client_id: str
    group: str
    transactional_id: str
    principal: str
    broker: int
    inter_broker: bool
    nth: int
    every: int
    probability: float
    seed: int
    times: int | None
    optional: bool
    error: str | int
    applied: bool
    delay: Duration
    jitter: Duration
    throttle_ms: int
    close: bool
    drop_response: bool
    half_response: bool
    answer: Mapping[str, Any] | Callable[[Any, Any], Mapping[str, Any]]


class Fault:
    """A rule in force."""

    def __init__(self, made: list[tuple[AdminClient, str]]) -> None:
        self._made = made
        """Where it is, and its id there."""

    def __repr__(self) -> str:
        return f"<Fault {self.id}>"

    @property
    def id(self) -> str:
        """Its id in the admin API."""
        return self._made[0][1]

    @property
    def hits(self) -> int:
        """How often it has acted.  Raises: AdminError if it is removed."""
        return sum(each["hits"] for each in self._shown())

    @property
    def matched(self) -> int:
        """How many requests it was about, whether it acted or not.  Raises: AdminError."""
        return sum(each["matched"] for each in self._shown())

    @property
    def nearest_miss(self) -> str | None:
        """Why it has never acted, in one sentence; None if it has.  Raises: AdminError."""
        shown = self._shown()
        if any(each["hits"] for each in shown):
            return None
        return str(max(shown, key=_closeness)["nearest_miss"])

    def remove(self) -> None:
        """End it.  Raises: AdminError if it is removed already."""
        for admin, fault_id in self._made:
            admin.delete("faults", fault_id)

    def _shown(self) -> list[Any]:
        return [admin.get("faults", fault_id) for admin, fault_id in self._made]


def _closeness(shown: Any) -> tuple[int, bool]:
    return shown["matched"], "did you mean" in shown["nearest_miss"]


class Faults:
    """The rules of the brokers under test."""

    def __init__(self, admins: Iterable[AdminClient], *, in_process: bool) -> None:
        """`admins`: of the processes that run; usually there is only one."""
        self._admins = admins
        self._in_process = in_process

    def add(self, api: str | int | None = None, **rule: Unpack[Rule]) -> Fault:
        """Put a rule in force, after those that there are.

        docs/faults.md explains the fields. Raises: ValueError for a rule that makes no sense.
        """
        answer = rule.get("answer")
        if answer is None or isinstance(answer, Mapping):
            return self._add({"api": api, **rule})
        if not self._in_process:
            raise ValueError(
                "answer: a function can only be given to a broker with in_process=True"
            )
        from odradek.broker.faults.functions import forget, register

        name = register(answer)
        try:
            return self._add({"api": api, **rule, "answer": name})
        finally:
            forget(name)

    def _add(self, rule: dict[str, Any]) -> Fault:
        for name in ("delay", "jitter"):
            if isinstance(rule.get(name), timedelta):
                rule[name] = seconds_of(rule[name])
        fields = {name: value for name, value in rule.items() if value is not None}
        admins = _processes_of(running(self._admins), rule.get("broker"))
        return Fault([(admin, admin.post("faults", **fields)["id"]) for admin in admins])

    def all(self) -> list[Fault]:
        """The rules in force, also those that clients in other languages have made."""
        return [
            Fault([(admin, each["id"])])
            for admin in running(self._admins)
            for each in admin.get("faults")["faults"]
        ]

    def clear(self) -> None:
        """End all rules."""
        self.end()

    def end(self) -> list[str]:
        """End all rules; why those that are not optional have never acted, a sentence each."""
        return _unused(each for admin in self._admins for each in admin.delete("faults")["faults"])


def _processes_of(admins: list[AdminClient], broker_id: object) -> list[AdminClient]:
    """Those that have the broker of a rule; all without one, or if they can say what is wrong."""
    if broker_id is None or len(admins) == 1:
        return admins
    own = (
        admin
        for admin in admins
        if any(each["id"] == broker_id for each in admin.get("brokers")["brokers"])
    )
    return list(own) or admins


def _unused(faults: Iterable[Any]) -> list[str]:
    """Of brokers with a process each, it suffices that a rule has acted in one."""
    rules: dict[str, list[Any]] = {}
    for each in faults:
        rules.setdefault(str(each["rule"]), []).append(each)
    return [
        f"{same[0]['id']} {_text(same[0]['rule'])}: {max(same, key=_closeness)['nearest_miss']}"
        for same in rules.values()
        if not same[0]["optional"] and not any(each["hits"] for each in same)
    ]


def _text(rule: Mapping[str, Any]) -> str:
    return "(" + ", ".join(f"{name}={value!r}" for name, value in rule.items()) + ")"
