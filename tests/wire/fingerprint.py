"""A hash of what determines what a conversation says: its source and that of what it stands on.

From a function, its closure and the names in its code lead to other functions, classes and
constants; all that is defined in `tests` is part of the hash, nothing else is. So an edit of a
helper concerns the conversations that use it. What comes from `odradek` is left out: the requests'
encoding is held by vectors of its own, and a version that is newly served shows as a new answer. So
are the ways to wait and to start brokers; their versions and settings are given as values.
"""

import ast
import enum
import hashlib
import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache, partial
from struct import Struct
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

PASSED_OVER: Final = frozenset(
    {"tests.support.waiting", "tests.wire.servers", "tests.kafka.apache"}
)


def fingerprint(*things: object) -> str:
    """A hash of functions, classes and values, and of all in `tests` that they refer to."""
    sources = _Sources()
    texts = [sources.text(thing) for thing in things]
    texts += sorted(f"{where[1]} = {source}" for where, source in sources.found.items())
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]


class _Sources:
    """What was found, by its module and name; where it stands is not part of the hash."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, str], str] = {}

    def text(self, thing: object) -> str:
        """A thing as text that is the same in every process.  Raises: TypeError."""
        if isinstance(thing, FunctionType | type) and not isinstance(thing, enum.EnumType):
            return self._definition(thing)
        if isinstance(thing, partial):
            return f"partial{self.text((thing.func, thing.args, thing.keywords))}"
        if isinstance(thing, Mapping):
            pairs = [f"{self.text(key)}: {self.text(value)}" for key, value in thing.items()]
            return f"{{{', '.join(pairs)}}}"
        if isinstance(thing, list | tuple):
            return f"[{', '.join(map(self.text, thing))}]"
        if isinstance(thing, set | frozenset):
            return f"{{{', '.join(sorted(map(self.text, thing)))}}}"
        shown = f"Struct({thing.format!r})" if isinstance(thing, Struct) else repr(thing)
        if re.search(r" at 0x[0-9a-f]+", shown):
            raise TypeError(f"{shown} is not the same in two processes")
        return shown

    def _definition(self, thing: FunctionType | type) -> str:
        name, module = thing.__qualname__, sys.modules[thing.__module__]
        where = module.__name__, name
        is_ours = module.__name__.startswith("tests.") and module.__name__ not in PASSED_OVER
        if not is_ours or where in self.found:
            return name
        self.found[where] = ""  # it may refer to itself
        self.found[where] = _source(thing)
        if isinstance(thing, type):
            self.text(thing.__bases__)
        for function in _functions(thing):
            for used, value in _used(function):
                self.found[module.__name__, f"{name} uses {used}"] = self.text(value)
        return name


def _functions(thing: FunctionType | type) -> Iterator[FunctionType]:
    """The function, or the methods of a class."""
    if isinstance(thing, FunctionType):
        yield thing
        return
    for member in vars(thing).values():
        found: Any = getattr(member, "fget", None) or getattr(member, "__func__", member)
        is_written = isinstance(found, FunctionType) and not _is_generated(found, thing)
        if is_written:
            yield found


def _is_generated(method: FunctionType, owner: type) -> bool:
    """Whether a decorator or a base class made it, as of a NamedTuple: it has no source here."""
    return method.__code__.co_filename != inspect.getsourcefile(owner)


def _used(function: FunctionType) -> Iterator[tuple[str, object]]:
    """What a function has from outside itself: of its closure, and of its module."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    yield from ((name, cell.cell_contents) for name, cell in cells if name != "__class__")
    module = sys.modules[function.__module__]
    for name in sorted(set(_names(function.__code__)) - _foreign(module)):
        value = vars(module).get(name, module)
        if not isinstance(value, ModuleType):
            yield name, value


def _names(code: CodeType) -> Iterator[str]:
    """The names in a function and in those within it; attributes, too."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


_source = cache(inspect.getsource)


@cache
def _foreign(module: ModuleType) -> frozenset[str]:
    """The names that a module has from outside `tests`."""
    imports = [
        node
        for node in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(node, ast.ImportFrom)
    ]
    return frozenset(
        alias.asname or alias.name
        for node in imports
        if not node.level and not (node.module or "").startswith("tests")
        for alias in node.names
    )
