"""What Apache Kafka answered in a conversation, as a file: it needn't be asked again each time.

A recording holds for one source of its conversation, named by a hash: when that changes, Kafka is
asked. It has the lines in which our answers differ, too: with Kafka's they say all that ours are.
A line of the file is an answer; one that was given before is referred to by its name.
"""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from tests.wire.talk import Plain

RECORDINGS: Final = Path(__file__).parents[1] / "vectors" / "conversations"
LONG: Final = 60
Answers = dict[str, Plain]


@dataclass(frozen=True)
class Recording:
    """One conversation; `differences` are `comparing.lines_of`."""

    hash: str
    answers: Answers
    differences: list[str]

    @classmethod
    def read(cls, path: Path, now: str) -> Self | None:
        """The recording there, unless it is of another source than that whose hash is `now`."""
        found = json.loads(path.read_text()) if path.exists() else {}
        if found.get("hash") != now:
            return None
        written: dict[str, Any] = found["answers"]
        answers = {
            label: written[answer["as"]] if _refers(answer) else answer
            for label, answer in written.items()
        }
        plain = {label: _plain(answer) for label, answer in answers.items()}
        return cls(now, plain, found["differences"])

    def write(self, path: Path) -> None:
        """Keep it there."""
        path.parent.mkdir(parents=True, exist_ok=True)
        first: dict[str, str] = {}
        answers = []
        for label, answer in self.answers.items():
            text = _json(_writable(answer))
            before = first.setdefault(text, label)
            is_known = before != label and len(text) > LONG
            answers.append(f"{_json(label)}: {_json({'as': before}) if is_known else text}")
        differences = [_json(line) for line in self.differences]
        path.write_text(
            f'{{"hash": {_json(self.hash)},\n'
            f'"differences": [{_lines(differences)}],\n"answers": {{{_lines(answers)}}}}}\n'
        )


def as_recorded(answers: Answers) -> Answers:
    """Answers as they come back from a file: plain numbers for members of an enumeration."""
    return {label: _plain(json.loads(_json(_writable(a)))) for label, a in answers.items()}


def _lines(texts: list[str]) -> str:
    return "\n" + ",\n".join(texts) + "\n" if texts else ""


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _refers(answer: Any) -> bool:
    return isinstance(answer, dict) and answer.keys() == {"as"}


def _writable(value: Any) -> Any:
    """As JSON has it, bytes as {"hex": ...}."""
    if isinstance(value, bytes | bytearray | memoryview):
        return {"hex": bytes(value).hex()}
    if isinstance(value, dict):
        return {name: _writable(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_writable(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return f"({value})"  # else it would not equal itself
    return value


def _plain(value: Any) -> Plain:
    if isinstance(value, dict):
        if value.keys() == {"hex"}:
            return bytes.fromhex(value["hex"])
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    plain: Plain = value
    return plain
