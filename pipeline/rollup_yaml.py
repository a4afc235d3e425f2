"""YAML with line numbers, so that an error in a spec can name the line."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, Final

from odradek.spelling import did_you_mean

from .errors import PipelineError

KIND_NAMES: Final = {str: "text", int: "a whole number", dict: "a block of keys", list: "a list"}


@dataclass(frozen=True, slots=True)
class Entry:
    """A value of the file: a scalar, a dict or list of entries, and where it is."""

    value: Any
    path: str
    """`window.size`; empty for the whole file."""
    line: int
    file: str

    def error(self, sentence: str) -> PipelineError:
        """An error that says where it is."""
        place = f"{self.file}, line {self.line}"
        where = f"{place}, {self.path}" if self.path else place
        return PipelineError(f"{where}: {sentence}")

    def section(self, keys: Collection[str]) -> "Section":
        """This entry as a block of keys, of which only `keys` are allowed.

        Raises: PipelineError.
        """
        if not isinstance(self.value, dict):
            raise self.error(f"must be a block of keys ({', '.join(keys)})")
        for name, entry in self.value.items():
            if name not in keys:
                raise entry.error(f"there is no such key{nearest(name, keys)}")
        return Section(self)

    def text(self) -> str:
        """The value as text that is not empty.  Raises: PipelineError."""
        if not isinstance(self.value, str) or not self.value:
            raise self.error(f"must be text, not {said(self.value)}")
        return self.value

    def whole_number(self) -> int:
        """A number of 1 or more.  Raises: PipelineError."""
        if not isinstance(self.value, int) or isinstance(self.value, bool) or self.value < 1:
            raise self.error(f"must be a whole number of 1 or more, not {said(self.value)}")
        return self.value

    def choice(self, choices: Collection[str]) -> str:
        """One of some words.  Raises: PipelineError."""
        if self.value not in choices:
            raise self.error(f"must be {alternatives(choices)}, not {said(self.value)}")
        return str(self.value)

    def items(self) -> list["Entry"]:
        """A non-empty list; a single value counts as a list of one.  Raises: PipelineError."""
        if isinstance(self.value, dict) or self.value in (None, "", []):
            raise self.error("must be a list, such as [a, b]")
        if isinstance(self.value, list):
            return self.value
        return [self]


@dataclass(frozen=True, slots=True)
class Section:
    """A block whose keys are all known."""

    entry: Entry

    def get(self, name: str) -> Entry | None:
        """The entry of a key, or None if it is missing or empty."""
        found: Entry | None = self.entry.value.get(name)
        return None if found is None or found.value is None else found

    def need(self, name: str, example: str) -> Entry:
        """The entry of a required key.  Raises: PipelineError."""
        found = self.get(name)
        if found is None:
            raise self.entry.error(f"`{name}` is missing, such as `{name}: {example}`")
        return found


def read_yaml(text: str, file: str) -> Entry:
    """The entries of a file.  Raises: PipelineError, also for a duplicate key."""
    try:
        import yaml
    except ImportError:
        raise PipelineError("a rollup needs PyYAML: pip install 'odradek[spark]'") from None
    try:
        loader = yaml.SafeLoader(text)
        try:
            root = loader.get_single_node()
            if root is None:
                raise PipelineError(f"{file} is empty")
            return _entry(root, "", file, loader)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = "" if mark is None else f", line {mark.line + 1}"
        raise PipelineError(f"{file}{line}: this is not YAML: {error.problem}") from error
    except yaml.YAMLError as error:
        raise PipelineError(f"{file}: this is not YAML: {error}") from error


def nearest(name: object, known: Iterable[str]) -> str:
    """`: did you mean …?` or all allowed names, to append to a sentence."""
    names = list(known)
    return did_you_mean(str(name), names) or f"; allowed: {', '.join(names)}"


def alternatives(words: Iterable[str]) -> str:
    """`a, b or c`."""
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last


def said(value: object) -> str:
    """A value as it is in the file, shortened."""
    if isinstance(value, dict | list):
        return KIND_NAMES[type(value)]
    return "nothing" if value is None else f"`{str(value)[:60]}`"


def _entry(node: Any, path: str, file: str, loader: Any) -> Entry:
    line = node.start_mark.line + 1
    if node.id == "mapping":
        return Entry(_mapping(node, path, file, loader), path, line, file)
    if node.id == "sequence":
        items = [
            _entry(item, f"{path}[{index}]", file, loader) for index, item in enumerate(node.value)
        ]
        return Entry(items, path, line, file)
    try:
        return Entry(loader.construct_object(node), path, line, file)
    except (ValueError, AttributeError, LookupError) as error:  # whatever PyYAML stumbles over
        kind = node.tag.rpartition(":")[2]  # of a tag, or of its form: 2026-13-45 looks like a date
        raise Entry(None, path, line, file).error(
            f"`{node.value}` is no {kind}: put it in quotes if it is text"
        ) from error


def _mapping(node: Any, path: str, file: str, loader: Any) -> dict[str, Entry]:
    entries: dict[str, Entry] = {}
    for key_node, value_node in node.value:
        name = str(key_node.value)  # as written: `on` and `1` are names, too
        entry = _entry(value_node, f"{path}.{name}" if path else name, file, loader)
        at_key = Entry(entry.value, entry.path, key_node.start_mark.line + 1, file)
        if name in entries:
            raise at_key.error(f"is there twice, first in line {entries[name].line}")
        entries[name] = at_key
    return entries
