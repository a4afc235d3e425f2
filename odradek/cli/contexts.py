"""Contexts: clusters that have a name, in the user's file or a project's.

    context = "dev"                       # the one that holds without --context

    [contexts.dev]
    bootstrap.servers = "localhost:9092"

    [contexts.production]
    properties = "client.properties"      # relative to this file
    bootstrap.servers = "kafka-1:9093,kafka-2:9093"

The user's file is ~/.config/odradek/config.toml, or what $ODRADEK_CONFIG names.  A project's is
odradek.toml in the working directory or above; its contexts go before the user's.
"""

import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from odradek.spelling import did_you_mean

from .errors import CommandError
from .layers import Layer, layer_of, read_layer

PROJECT_FILE: Final = "odradek.toml"
_KEYS: Final = {"context", "contexts"}


@dataclass(frozen=True, slots=True)
class Context:
    """One table of a file; what it refers to is read only if it is chosen."""

    path: Path
    table: Mapping[str, Any]

    def layers(self) -> list[Layer]:
        """The properties of the file that it names, and its own.  Raises: CommandError."""
        given = dict(_flat({k: v for k, v in self.table.items() if k != "properties"}))
        named = self.table.get("properties")
        if wrong := [name for name, value in given.items() if not isinstance(value, str)]:
            raise CommandError(f"{self.path}: {wrong[0]} is neither text nor a number")
        if not isinstance(named, str | None):
            raise CommandError(f"{self.path}: 'properties' is not the name of a file")
        from_file = [] if named is None else [read_layer(self.path.parent / named)]
        return [*from_file, layer_of(str(self.path), given)]


@dataclass(frozen=True, slots=True)
class Contexts:
    """The contexts of all files by name, and the name of the current one."""

    current: str | None = None
    by_name: Mapping[str, "Context"] = field(default_factory=dict)

    def chosen(self, name: str | None) -> list[Layer]:
        """The properties of a context: the current one's, or none, without a name.

        Raises: CommandError.
        """
        if name is None:
            name = self.current
        if name is None:
            return []
        if name not in self.by_name:
            hint = (
                did_you_mean(name, self.by_name)
                if self.by_name
                else ": no configuration file has any"
            )
            raise CommandError(f"there is no context {name!r}{hint}")
        return self.by_name[name].layers()


def read_contexts() -> Contexts:
    """Read the user's file and the project's.  Raises: CommandError."""
    found = Contexts()
    for path in _files():
        read = _read(path)
        found = Contexts(read.current or found.current, {**found.by_name, **read.by_name})
    return found


def _files() -> Iterator[Path]:
    """The files that there are, the one that goes before the others last."""
    if named := os.environ.get("ODRADEK_CONFIG"):
        yield Path(named)
    else:
        home = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
        user = Path(home) / "odradek" / "config.toml"
        if os.path.isfile(user):
            yield user
    try:
        here = Path.cwd()
    except FileNotFoundError:  # it was deleted
        return
    for folder in (here, *here.parents):
        if os.path.isfile(folder / PROJECT_FILE):
            yield folder / PROJECT_FILE
            return


def _read(path: Path) -> Contexts:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise CommandError(f"{path} can't be read: {error}") from None
    if unknown := document.keys() - _KEYS:
        raise CommandError(
            f"{path}: unknown key {min(unknown)!r}{did_you_mean(min(unknown), _KEYS)}"
        )
    current, tables = document.get("context"), document.get("contexts", {})
    if not isinstance(current, str | None):
        raise CommandError(f"{path}: 'context' is not a name")
    if not isinstance(tables, dict) or not all(isinstance(t, dict) for t in tables.values()):
        raise CommandError(f"{path}: 'contexts' is not a table of tables")
    return Contexts(current, {name: Context(path, table) for name, table in tables.items()})


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """TOML takes a.b for a table in a table: back to dotted names, and to text."""
    for key, value in table.items():
        match value:
            case dict():
                yield from _flat(value, f"{prefix}{key}.")
            case bool():
                yield prefix + key, str(value).lower()
            case int() | float():
                yield prefix + key, str(value)
            case list() if all(isinstance(one, str) for one in value):
                yield prefix + key, ",".join(value)
            case _:
                yield prefix + key, value
