"""Patterns that members of a consumer group subscribe to, and the topics that match them.

A record holds the topics of each pattern. Patterns are resolved when one is new, when there are new
topics, and periodically; but at most every ten seconds, as a group may have many patterns and the
cluster many topics.  A pattern matches only topics that the client may describe whose request
begins this, as in Kafka; a right that changes later counts from the next time on.  Long work is
interrupted and continued at the next heartbeat, so that other groups are served meanwhile.
"""

from collections.abc import Callable, Iterable, Iterator
from enum import Enum, auto
from typing import Final, NamedTuple

from odradek.protocol.errors import Refused

from .consumer_records import regex_record, regex_tombstone
from .consumer_state import Draft, GroupState, ResolvedRegex
from .consumer_steps import Terms, bump_epoch, hash_of, shown
from .regex import compile_pattern

RESOLVE_INTERVAL_MS_MIN: Final = 10_000
WORK_MAX: Final = 25_000_000
"""The work done at a time, in program instructions times characters; 400 of these take at most a
microsecond.  That is enough for a pattern of 50 characters and 20,000 topics."""
COMPILE_WORK: Final = 100  # for each instruction
RIGHTS_WORK: Final = 2_000  # for each match


class PatternChange(Enum):
    """What a member's new pattern means for the group."""

    NONE = auto()
    UNRESOLVED = auto()
    """The pattern must be resolved first; the group epoch waits for that."""
    RESOLVED = auto()
    """The topics are known already, or the pattern was removed."""


class PatternNeed(NamedTuple):
    """The topic names among which patterns are resolved, and their version."""

    version: int
    names: frozenset[str]


class PatternSearch:
    """Resolves patterns, in several steps if necessary."""

    __slots__ = ("_may_describe", "_steps", "need", "topics")

    def __init__(
        self, need: PatternNeed, patterns: Iterable[str], may_describe: Callable[[str], bool]
    ) -> None:
        self.need = need
        self._may_describe = may_describe
        self.topics: dict[str, frozenset[str]] = {}
        """The topics of each pattern that is resolved; empty for the one in progress."""
        self._steps = self._run(sorted(patterns))

    def go_on(self) -> bool:
        """Do one step, of at most `WORK_MAX`; returns whether all patterns are resolved."""
        return next(self._steps, True)

    def _run(self, patterns: Iterable[str]) -> Iterator[bool]:
        """Yields False wherever the work may be interrupted."""
        work = WORK_MAX
        for text in patterns:
            self.topics[text] = frozenset()
            try:
                pattern = compile_pattern(text)
            except Refused:  # from a record, but too large for this broker: it matches no topic
                continue
            work -= pattern.programsize * COMPILE_WORK
            matched: list[str] = []
            for name in self.need.names:
                if work <= 0:
                    yield False
                    work = WORK_MAX
                work -= pattern.programsize * len(name)
                if pattern.fullmatch(name) is not None:
                    work -= RIGHTS_WORK
                    if self._may_describe(name):
                        matched.append(name)
            self.topics[text] = frozenset(matched)


class PatternClock:
    """Decides when to resolve the patterns of a group, by the wall-clock times of their records."""

    __slots__ = ("_done", "_search")

    def __init__(self) -> None:
        self._done: PatternNeed | None = None  # None after loading: there may be new topics
        self._search: PatternSearch | None = None

    def look_up(
        self, state: GroupState, terms: Terms, may_describe: Callable[[str], bool]
    ) -> PatternSearch | None:
        """Begin to resolve the patterns if it is time, or continue; the result once it is done."""
        if self._search is None:
            need = self._need(state, terms)
            if need is None:
                return None
            self._search = PatternSearch(need, state.patterns, may_describe)
        if not self._search.go_on():
            return None
        search, self._search = self._search, None
        return search

    def done(self, need: PatternNeed) -> None:
        """The patterns were resolved."""
        self._done = need

    def may_look_up(self, state: GroupState, terms: Terms) -> bool:
        """Whether the last resolution is long enough ago, or one is in progress."""
        return self._search is not None or self._is_rested(state, terms)

    def _is_rested(self, state: GroupState, terms: Terms) -> bool:
        age_ms = _age_ms(state, terms)
        return age_ms is None or not 0 <= age_ms <= RESOLVE_INTERVAL_MS_MIN

    def _need(self, state: GroupState, terms: Terms) -> PatternNeed | None:
        if not state.patterns or not self._is_rested(state, terms):
            return None
        age_ms = _age_ms(state, terms)
        refresh_ms = terms.settings.regex_refresh_interval_ms
        is_old = age_ms is None or not 0 <= age_ms <= refresh_ms
        if is_old or not state.patterns.keys() <= state.regexes.keys() or self._done is None:
            return _names_now(terms)
        if self._done.version == terms.topics.version:
            return None
        now = _names_now(terms)
        if now.names <= self._done.names:
            self._done = now
            return None
        return now


def _age_ms(state: GroupState, terms: Terms) -> int | None:
    last_wall_ms = max((found.wall_ms for found in state.regexes.values()), default=None)
    return None if last_wall_ms is None else terms.wall_ms - last_wall_ms


def _names_now(terms: Terms) -> PatternNeed:
    return PatternNeed(terms.topics.version, frozenset(terms.topics.names()))


def put_pattern(draft: Draft, old: str | None, new: str | None) -> PatternChange:
    """Note that a member, whose record is written, has changed its pattern (None or "": none).

    Raises: Refused (INVALID_REGULAR_EXPRESSION).
    """
    if old == new:
        return PatternChange.NONE
    state = draft.state
    if old and old in state.regexes and old not in state.patterns:
        draft.add(regex_tombstone(state.group_id, old))
    if new:
        if state.patterns.get(new) == 1:
            compile_pattern(new)
        known = new in draft.state.regexes
        return PatternChange.RESOLVED if known else PatternChange.UNRESOLVED
    return PatternChange.RESOLVED if old else PatternChange.UNRESOLVED


def resolve_patterns(draft: Draft, terms: Terms, search: PatternSearch) -> None:
    """Write the topics of the patterns; bump the group epoch if they or their hash changed."""
    state = draft.state
    changed: dict[str, int] = {}
    for text in sorted(search.topics.keys() & state.patterns.keys()):
        topics = search.topics[text]
        known = state.regexes.get(text)
        if topics != (frozenset() if known is None else known.topics):
            changed[text] = len(topics)
        resolved = ResolvedRegex(topics, search.need.version, terms.wall_ms)
        draft.add(regex_record(state.group_id, text, resolved))
    found = hash_of(draft.state.subscribed_topics(), terms.topics)
    if changed:
        text, count = next(iter(changed.items()))
        bump_epoch(draft, found, f"{shown(changed)} matches other topics ({text!r}: {count})")
    elif found != state.metadata_hash:
        bump_epoch(draft, found, "its topics were created, deleted or extended")
