"""A hash of what determines what a conversation says: its source and that of what it stands on.

The names in a definition and the values in its closure lead to other functions, classes and
constants; all that is defined in `tests` is part of the hash, nothing else is. So an edit of a
helper concerns the conversations that use it. What comes from `odradek` is left out: the requests'
encoding is held by vectors of its own, and a version that is newly served shows as a new answer. So
are the ways to wait and to start brokers; their versions and settings are given as values.

Definitions are read as they are written, not as they are compiled: the hash is the same on every
release of Python. Annotations lead nowhere; they determine nothing.
"""

import ast
import hashlib
import inspect
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import chain
from pathlib import PurePath
from struct import Struct
from types import FunctionType, MethodType, ModuleType
from typing import Final

PASSED_OVER: Final = frozenset(
    {"tests.support.waiting", "tests.wire.servers", "tests.kafka.apache"}
)
ANNOTATIONS: Final = frozenset({"annotation", "returns"})

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef


def fingerprint(*things: object) -> str:
    """A hash of functions, classes and values, and of all in `tests` that they refer to.

    Raises: TypeError for what it cannot look into.
    """
    sources = _Sources()
    texts = [sources.text(thing) for thing in things]
    return hashlib.sha256("\n".join([*texts, *sources.found()]).encode()).hexdigest()[:16]


class _Sources:
    """The definitions that were found; where they stand is not part of the hash."""

    def __init__(self) -> None:
        self._found: dict[Definition, str] = {}
        self._seen = set[FunctionType]()

    def found(self) -> list[str]:
        """Each with what it uses, in an order of their own."""
        return sorted(self._found.values())

    def text(self, thing: object) -> str:
        """A thing as text that is the same in every process.  Raises: TypeError."""
        if isinstance(thing, FunctionType):
            return self._function(thing)
        if isinstance(thing, type):
            return self._class(thing)
        if isinstance(thing, MethodType):
            return f"method{self.text((thing.__func__, thing.__self__))}"
        if isinstance(thing, partial):
            return f"partial{self.text((thing.func, thing.args, thing.keywords))}"
        if callable(thing) and hasattr(thing, "__wrapped__"):  # as functools.cache does
            return self.text(thing.__wrapped__)
        return f"{self._class(type(thing))} {self._value(thing)}"

    def _value(self, thing: object) -> str:
        if isinstance(thing, Mapping):
            pairs = [f"{self.text(key)}: {self.text(value)}" for key, value in thing.items()]
            return f"{{{', '.join(pairs)}}}"
        if isinstance(thing, list | tuple):
            return f"[{', '.join(map(self.text, thing))}]"
        if isinstance(thing, set | frozenset):
            return f"{{{', '.join(sorted(map(self.text, thing)))}}}"
        shown = f"Struct({thing.format!r})" if isinstance(thing, Struct) else repr(thing)
        if re.search(r" at 0x[0-9a-f]+", shown) or isinstance(thing, PurePath):
            raise TypeError(f"{shown} is not the same in two processes")
        return shown

    def _function(self, function: FunctionType) -> str:
        """What a decorator made has the name of what it holds in its closure: its code is asked."""
        if function in self._seen:  # it may refer to itself
            return function.__name__
        self._seen.add(function)
        code, module = function.__code__, function.__globals__["__name__"]
        if _is_ours(module):
            definitions = _functions(module)[code.co_name, code.co_firstlineno]
            self._define(module, function.__name__, definitions)
        cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
        closure = {name: cell.cell_contents for name, cell in cells if name != "__class__"}
        held = closure, function.__defaults__, function.__kwdefaults__
        return f"{function.__name__}{self.text(held) if any(held) else ''}"

    def _class(self, kind: type) -> str:
        if _is_ours(kind.__module__):
            definitions = _classes(kind.__module__)[kind.__qualname__]
            self._define(kind.__module__, kind.__qualname__, definitions)
        return kind.__qualname__

    def _define(self, module: str, name: str, definitions: Sequence[Definition]) -> None:
        if not definitions:
            raise TypeError(f"{name} of {module}: its definition is not found")
        for definition in definitions:
            if definition not in self._found:
                self._found[definition] = ""  # it may refer to itself
                used = [f"{n} is {self.text(value)}" for n, value in _used(module, definition)]
                self._found[definition] = "\n".join([_source(module, definition), *used])


def _is_ours(module: str) -> bool:
    return module.startswith("tests.") and module not in PASSED_OVER


@cache
def _text(module: str) -> str:
    return inspect.getsource(sys.modules[module])


@cache
def _tree(module: str) -> ast.Module:
    return ast.parse(_text(module))


@cache
def _functions(module: str) -> Mapping[tuple[str, int], Sequence[Definition]]:
    """The functions of a module by their name and first line, as their code has it."""
    found = defaultdict[tuple[str, int], list[Definition]](list)
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found[node.name, _first_line(node)].append(node)
        elif isinstance(node, ast.Lambda):
            found["<lambda>", node.lineno].append(node)
    return found


@cache
def _classes(module: str) -> Mapping[str, Sequence[Definition]]:
    """The classes by their qualified name; not those in functions, as they use their variables."""
    found = defaultdict[str, list[Definition]](list)

    def look_in(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef):
                found[prefix + child.name].append(child)
                look_in(child, f"{prefix}{child.name}.")
            elif not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                look_in(child, prefix)

    look_in(_tree(module), "")
    return found


def _first_line(definition: Definition) -> int:
    decorators = [] if isinstance(definition, ast.Lambda) else definition.decorator_list
    return min(node.lineno for node in (definition, *decorators))


@cache
def _source(module: str, definition: Definition) -> str:
    lines = _text(module).splitlines()
    return "\n".join(lines[_first_line(definition) - 1 : definition.end_lineno])


def _used(module: str, definition: Definition) -> Iterator[tuple[str, object]]:
    """What a definition has from its module, or from another one of `tests` by its name."""
    known = vars(sys.modules[module])
    for path in _paths(definition):
        first, *rest = path
        if first in _foreign(module) or first not in known:
            continue
        value = known[first]
        while isinstance(value, ModuleType) and value.__name__.startswith("tests.") and rest:
            value = vars(value)[rest.pop(0)]
        if not isinstance(value, ModuleType):
            yield ".".join(path), value
        elif value.__name__.startswith("tests."):
            raise TypeError(f"{module}: what is used of {first} can't be seen")


@cache
def _paths(definition: Definition) -> Sequence[tuple[str, ...]]:
    """The names in it, with the attributes that are asked for: a.b.c is ("a", "b", "c")."""
    return sorted(set(_paths_in(definition)))


def _paths_in(node: ast.AST) -> Iterator[tuple[str, ...]]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        raise TypeError(f"line {node.lineno}: an import within a definition is not followed")
    if path := _path(node):
        yield path
        return
    for field, value in ast.iter_fields(node):
        if field not in ANNOTATIONS:
            children = value if isinstance(value, list) else [value]
            yield from chain.from_iterable(
                _paths_in(child) for child in children if isinstance(child, ast.AST)
            )


def _path(node: ast.AST) -> tuple[str, ...]:
    if isinstance(node, ast.Name):
        return (node.id,)
    if isinstance(node, ast.Attribute) and (before := _path(node.value)):
        return (*before, node.attr)
    return ()


@cache
def _foreign(module: str) -> frozenset[str]:
    """The names that a module has from outside `tests`."""
    imports = [node for node in _tree(module).body if isinstance(node, ast.ImportFrom)]
    return frozenset(
        alias.asname or alias.name
        for node in imports
        if not node.level and not (node.module or "").startswith("tests")
        for alias in node.names
    )
