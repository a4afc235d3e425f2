"""Patterns that members of a consumer group subscribe to, and the topics they stand for.

The topics of each pattern are kept in a record. They are looked up when a pattern is new, when
there are new topics, and from time to time; never more often than every ten seconds, as a group
may have many patterns and the cluster many topics.  What takes long is gone on with when the next
heartbeat comes: in the meantime the broker has other groups.
"""

from collections.abc import Iterable, Iterator
from enum import Enum, auto
from typing import Final, NamedTuple

from odradek.protocol.errors import Refused

from .consumer_records import regex_record, regex_tombstone
from .consumer_state import Draft, GroupState, ResolvedRegex
from .consumer_steps import Terms, bump_epoch, hash_of, shown
from .regex import compile_pattern

RESOLVE_INTERVAL_MS_MIN: Final = 10_000
WORK_MAX: Final = 25_000_000
"""At a time: instructions of the program times characters, of which 400 take a microsecond at the
worst.  That is enough for a pattern of 50 characters and 20,000 topics."""
COMPILE_WORK: Final = 100  # for each instruction


class PatternChange(Enum):
    """What a member's new pattern means for the group."""

    NONE = auto()
    UNRESOLVED = auto()
    """It must be looked up first; the group epoch waits for that."""
    RESOLVED = auto()
    """Its topics are known already, or it was taken back."""


class PatternNeed(NamedTuple):
    """The topics that patterns are to be looked up in."""

    version: int
    names: frozenset[str]


class PatternSearch:
    """A look-up of patterns on its way."""

    __slots__ = ("_steps", "need", "topics")

    def __init__(self, need: PatternNeed, patterns: Iterable[str]) -> None:
        self.need = need
        self.topics: dict[str, frozenset[str]] = {}
        """What each pattern stands for, of those that are through."""
        self._steps = self._run(sorted(patterns))

    def go_on(self) -> bool:
        """Do as much as others can wait for; whether all is done."""
        return next(self._steps, True)

    def _run(self, patterns: Iterable[str]) -> Iterator[bool]:
        """Yields False where it can be left for later."""
        work = WORK_MAX
        for text in patterns:
            self.topics[text] = frozenset()
            try:
                pattern = compile_pattern(text)
            except Refused:  # read from a record, but too large here: it means nothing
                continue
            work -= pattern.programsize * COMPILE_WORK
            matched: list[str] = []
            for name in self.need.names:
                if work <= 0:
                    yield False
                    work = WORK_MAX
                work -= pattern.programsize * len(name)
                if pattern.fullmatch(name) is not None:
                    matched.append(name)
            self.topics[text] = frozenset(matched)


class PatternClock:
    """When the patterns of a group are to be looked up; by the wall clock of their records."""

    __slots__ = ("_done", "_search")

    def __init__(self) -> None:
        self._done: PatternNeed | None = None  # None after loading: topics may be new since
        self._search: PatternSearch | None = None

    def look_up(self, state: GroupState, terms: Terms) -> PatternSearch | None:
        """Begin to look them up, if it is time to, or go on with it; returned once it is done."""
        if self._search is None:
            need = self._need(state, terms)
            if need is None:
                return None
            self._search = PatternSearch(need, state.patterns)
        if not self._search.go_on():
            return None
        search, self._search = self._search, None
        return search

    def done(self, need: PatternNeed) -> None:
        """They were looked up."""
        self._done = need

    def may_look_up(self, state: GroupState, terms: Terms) -> bool:
        """Whether the last time is long enough ago, or it was not finished."""
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
    """Follow a member, already written, from one pattern to another ("" is none, too).

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
    """Write the topics of the patterns; bump the epoch if any of them has changed."""
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
