"""What Apache Kafka's trees were, in `tests/vectors/cluster/`, and how others differ from them.

A file an operation: for each moment the nodes that came or changed since the moment before, those
that went, and the brokers' Metadata likewise by partition; one line each, so that git shows them.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from .operations import names
from .script import Moment, Outcome

VECTORS: Final = Path(__file__).resolve().parents[1] / "vectors" / "cluster"

AS_BEFORE: Final = "as before"
DESCRIBE: Final = "describe "

Facts = dict[str, Any]
# For each operation, for each of its moments, what changed.
Recorded = dict[str, dict[str, Facts]]


def facts_of(moment: Moment) -> Facts:
    """Everything that is compared, flat: one entry a node, partition, or line of a tool."""
    facts: Facts = {f"znode {path}": node for path, node in moment.tree.items()}
    for key, value in moment.metadata.items():
        if key != "topics":
            facts[f"metadata {key}"] = value
            continue
        for topic, partitions in value.items():
            for partition, state in partitions.items():
                facts[f"metadata {topic}-{partition}"] = state
    return facts


def changes(outcomes: Sequence[Outcome]) -> Recorded:
    """What changed from moment to moment; null is gone."""
    recorded: Recorded = {}
    before: Facts = {}
    for outcome in outcomes:
        moments = recorded.setdefault(outcome.operation, {})
        for moment in outcome.moments:
            now = facts_of(moment)
            changed = {key: value for key, value in now.items() if before.get(key) != value}
            changed |= {key: None for key in before if key not in now}
            for what, lines in moment.described.items():
                changed[DESCRIBE + what] = lines
            moments[moment.name] = dict(sorted(changed.items()))
            before = now
    return recorded


def save(recorded: Recorded, folder: Path = VECTORS) -> None:
    """Write one file an operation, in place of those that are there."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("*.json"):
        path.unlink()
    for operation, moments in recorded.items():
        _path(folder, operation).write_text("".join(_lines(moments)))


def load(folder: Path = VECTORS) -> Recorded:
    """All operations, in order."""
    return {name: json.loads(_path(folder, name).read_text()) for name in names()}


def tree_at(recorded: Recorded, operation: str, moment: str | None = None) -> Facts:
    """Every fact at a moment (the operation's last), put together from the changes until then."""
    facts: Facts = {}
    for name, moments in recorded.items():
        for at, changed in moments.items():
            facts = {key: value for key, value in {**facts, **changed}.items() if value is not None}
            if (name, at) == (operation, moment):
                return facts
        if name == operation and moment is None:
            return facts
    raise KeyError((operation, moment))


def differences(theirs: dict[str, Facts], ours: dict[str, Facts]) -> list[str]:
    """Where the changes of one operation are not the same, one line each."""
    found = [f"{moment}: not reached" for moment in theirs if moment not in ours]
    for moment in (moment for moment in ours if moment in theirs):
        expected, seen = theirs[moment], ours[moment]
        for key in sorted({**expected, **seen}):
            kafka, here = expected.get(key, AS_BEFORE), seen.get(key, AS_BEFORE)
            if kafka != here:
                found += _difference(f"{moment}: {key}", kafka, here)
    return found


def _difference(where: str, kafka: Any, here: Any) -> list[str]:
    if isinstance(kafka, list) and isinstance(here, list) and DESCRIBE in where:
        lines = [f"{where}\n    kafka {line}" for line in kafka if line not in here]
        return lines + [f"{where}\n    here  {line}" for line in here if line not in kafka]
    return [f"{where}\n    kafka {json.dumps(kafka)}\n    here  {json.dumps(here)}"]


def _path(folder: Path, operation: str) -> Path:
    return folder / f"{names().index(operation) + 1:02d}-{operation}.json"


def _lines(moments: dict[str, Facts]) -> Iterator[str]:
    yield "{"
    for number, (moment, changed) in enumerate(moments.items()):
        yield f"{',' if number else ''}\n{json.dumps(moment)}: {{"
        for index, (key, value) in enumerate(changed.items()):
            compact = json.dumps(value, separators=(",", ":"), sort_keys=True)
            if key.startswith(DESCRIBE):
                compact = json.dumps(value, indent=0)
            yield f"{',' if index else ''}\n{json.dumps(key)}: {compact}"
        yield "\n}"
    yield "\n}\n"
