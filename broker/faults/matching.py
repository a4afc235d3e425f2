"""Which rules a request meets, and what came closest to a rule that never fired.

Rules are asked in the order in which they were made. A rule with an outcome takes what it matches:
the rules after it act on what is left of the request. So two rules with `times=1` act on two
requests, one after the other, and errors of different partitions act on the same. Delays and
throttles take nothing, and add up.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from odradek.protocol.errors import ErrorCode
from odradek.spelling import nearest

from ..runtime import seeded
from .places import WHOLE, Place, place_of
from .rule import Rule, fits
from .seen import Seen
from .targets import Target

MISSES_SHOWN_MAX: Final = 5
COMPARED_MAX: Final = 100
COMPARED_SIGNS_MAX: Final = 255
"""Of what a request names, so much is compared with what a rule wants: it may be very much."""
FARTHEST: Final = 1000


class Refusal(NamedTuple):
    """An error for some of what a request is about."""

    rule: Rule
    error: ErrorCode
    place: Place
    targets: frozenset[Target]


@dataclass(slots=True)
class Plan:
    """What happens to one request."""

    faults: list[str] = field(default_factory=list)
    """The ids of the rules that act."""
    refusals: list[Refusal] = field(default_factory=list)
    """Instead of handling that part."""
    applied: list[Refusal] = field(default_factory=list)
    """After handling it."""
    answers: list[Rule] = field(default_factory=list)
    ending: "Fault | None" = None
    delay_s: float = 0.0
    throttle_ms: int = 0

    @property
    def waits(self) -> bool:
        """Whether the answer, if there is one, does not come at once."""
        return self.delay_s > 0 or self.ending is not None


class Fault:
    """A rule that is in force, and what has come of it."""

    __slots__ = ("_nearest", "_nearest_rank", "_random", "hits", "id", "matched", "rule", "seed")

    def __init__(self, id: str, rule: Rule, seed: int) -> None:
        """`seed` is used if the rule has none."""
        self.id = id
        self.rule = rule
        self.seed = seed if rule.seed is None else rule.seed
        self.hits = 0
        """How often it fired."""
        self.matched = 0
        """How many requests it was about, whether it fired or not."""
        self._random = seeded(self.seed)
        self._nearest = ""
        self._nearest_rank = FARTHEST

    @property
    def is_over(self) -> bool:
        """Whether it has fired as often as it may."""
        return self.rule.times is not None and self.hits >= self.rule.times

    def fires(self) -> bool:
        """Count a request that matches; whether the rule acts on it."""
        self.matched += 1
        rule = self.rule
        if rule.nth is not None and self.matched != rule.nth:
            return False
        if rule.every is not None and self.matched % rule.every:
            return False
        if rule.probability is not None and self._random.random() >= rule.probability:
            return False
        self.hits += 1
        return True

    def delay_s(self) -> float:
        """How long to wait this time."""
        rule = self.rule
        return rule.delay_s + (self._random.uniform(0, rule.jitter_s) if rule.jitter_s else 0)

    def note_miss(self, seen: Seen) -> None:
        """Remember a request that the rule does not match, if none came closer."""
        misses = misses_of(self.rule, seen)
        meant = _meant(self.rule, seen, misses)
        rank = 2 * (len(misses) or 1) + 2 * ("api" in misses) - bool(meant)
        if rank < self._nearest_rank:
            self._nearest_rank = rank
            self._nearest = _sentence(self.rule, seen, misses, meant)

    @property
    def nearest_miss(self) -> str | None:
        """Why it never fired, in one sentence; None if it has."""
        if self.hits:
            return None
        if self.matched:
            times = "once" if self.matched == 1 else f"{self.matched} times"
            return f"{_subject(self.rule)} came {times}, but {_selection(self.rule)}"
        return self._nearest or f"no {_api_of(self.rule)} came"


def plan_for(faults: Iterable[Fault], seen: Seen) -> Plan | None:
    """What the rules do to a request; None: nothing."""
    plan: Plan | None = None
    left = set(seen.targets)
    for fault in faults:
        if fault.is_over:
            continue
        rule = fault.rule
        matched = frozenset(selected(rule, seen))
        if not matched:
            if not fault.matched:
                fault.note_miss(seen)
            continue
        if rule.has_outcome:
            matched &= left
            if not matched:
                continue
        if fault.fires():
            plan = plan or Plan()
            left -= _add(plan, fault, seen, matched)
    return plan


def _add(plan: Plan, fault: Fault, seen: Seen, matched: frozenset[Target]) -> frozenset[Target]:
    """Add what a rule does; returns what it takes from the rules after it."""
    rule = fault.rule
    plan.faults.append(fault.id)
    plan.delay_s += fault.delay_s()
    plan.throttle_ms = max(plan.throttle_ms, rule.throttle_ms)
    if not rule.has_outcome:
        return frozenset()
    is_whole = rule.ends
    if rule.error is not None:
        place = place_of(seen.api, seen.version, rule, rule.error)
        refusal = Refusal(rule, rule.error, place, matched)
        (plan.applied if rule.applied else plan.refusals).append(refusal)
        is_whole = is_whole or place is WHOLE
    if rule.has_answer:
        plan.answers.append(rule)
    if rule.ends:
        plan.ending = fault
    return frozenset(seen.targets) if is_whole else matched


def selected(rule: Rule, seen: Seen) -> list[Target]:
    """What the rule is about in a request; empty: it does not match."""
    if any(is_missed(rule, seen) for is_missed in _OF_REQUESTS.values()):
        return []
    return [target for target in seen.targets if selects(rule, target)]


def selects(rule: Rule, target: Target) -> bool:
    """Whether a rule is about a target; one that means everything is included."""
    return all(is_met(rule, target) for is_met in _OF_TARGETS.values())


def misses_of(rule: Rule, seen: Seen) -> list[str]:
    """What in the rule does not fit a request, by the names of its fields."""
    misses = [name for name, is_missed in _OF_REQUESTS.items() if is_missed(rule, seen)]
    for name, is_met in _OF_TARGETS.items():
        if not any(is_met(rule, target) for target in seen.targets):
            misses.append(name)
    return misses


_OF_REQUESTS: Final[dict[str, Callable[[Rule, Seen], bool]]] = {
    "api": lambda rule, seen: rule.api not in (None, seen.api.name),
    "client_id": lambda rule, seen: not fits(rule.client_id, seen.client_id),
    "principal": lambda rule, seen: not fits(rule.principal, seen.principal),
    "broker": lambda rule, seen: rule.broker not in (None, seen.broker_id),
    "inter_broker": lambda rule, seen: seen.is_inter_broker and not rule.inter_broker,
}
_OF_TARGETS: Final[dict[str, Callable[[Rule, Target], bool]]] = {
    "topic": lambda rule, target: target.topic is None or fits(rule.topic, target.topic),
    "partition": lambda rule, target: (
        target.partition is None or rule.partition in (None, target.partition)
    ),
    "group": lambda rule, target: fits(rule.group, target.group),
    "transactional_id": lambda rule, target: fits(rule.transactional_id, target.transactional_id),
}
_CRITERIA: Final = (*_OF_REQUESTS, *_OF_TARGETS)


def _api_of(rule: Rule) -> str:
    return "request" if rule.api is None else rule.api


def _subject(rule: Rule) -> str:
    """`Fetch of topic `orders``."""
    named = [
        f"{name} `{getattr(rule, name)}`"
        if isinstance(getattr(rule, name), str)
        else f"{name} {getattr(rule, name)}"
        for name in _CRITERIA
        if name not in ("api", "inter_broker") and getattr(rule, name) is not None
    ]
    return _api_of(rule) + (f" of {', '.join(named)}" if named else "")


def _selection(rule: Rule) -> str:
    if rule.nth is not None:
        return f"nth={rule.nth}"
    if rule.every is not None:
        return f"every={rule.every}"
    if rule.probability is not None:
        return f"probability={rule.probability:g}"
    return "other rules took it"


def _meant(rule: Rule, seen: Seen, misses: Sequence[str]) -> str:
    """The name in a request that the rule probably means, if only one does not fit."""
    if len(misses) != 1 or misses[0] not in _CRITERIA[1:]:
        return ""
    wanted = str(getattr(rule, misses[0]))
    return nearest(wanted, _values(misses[0], seen), cutoff=0.5)


def _sentence(rule: Rule, seen: Seen, misses: Sequence[str], meant: str) -> str:
    subject = _subject(rule)
    if meant:
        return f"{subject}, did you mean `{meant}`?"  # as the rule's sentences are: no colon
    if "api" in misses:
        return f"no {rule.api} came" + (f", but {seen.api.name}" if len(misses) == 1 else "")
    if misses == ["inter_broker"]:
        return f"{subject} came only from other brokers: give inter_broker=true"
    values = _values(misses[0], seen) if len(misses) == 1 else []
    if not values:
        return f"no {subject} came"
    shown = ", ".join(f"`{value}`" for value in values[:MISSES_SHOWN_MAX])
    return f"no {subject} came, but with {misses[0]} {shown}"


def _values(name: str, seen: Seen) -> list[str]:
    """What a request has where the rule wants something else."""
    match name:
        case "client_id":
            found = [seen.client_id]
        case "principal":
            found = [seen.principal]
        case "broker":
            found = [str(seen.broker_id)]
        case "inter_broker":
            found = []
        case _:
            found = [getattr(target, name) for target in seen.targets[:COMPARED_MAX]]
    texts = (str(value)[:COMPARED_SIGNS_MAX] for value in found if value is not None)
    return list(dict.fromkeys(texts))
