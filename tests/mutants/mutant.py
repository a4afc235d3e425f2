"""Mutants of the product's functions: which there are, a seeded sample, and one put into effect.

A mutant is put into effect by exchanging the code of functions that have been imported already, so
that neither files nor links change, and a test run that has been set up once serves all mutants.
Only what stands in functions is mutated: a module's own statements have run by then.
"""

import ast
import copy
import gc
import importlib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import _lru_cache_wrapper, cache
from hashlib import sha256
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, Final, NamedTuple

from tests.mutants.operators import alternatives, is_deleted, left_alone, parts
from tests.support.collecting import objects_of

ROOT: Final = Path(__file__).resolve().parents[2]
ROOMS: Final = ("broker/core", "storage", "protocol")
DELETED: Final = "deleted"
SHOWN_ONLY: Final = frozenset(("__repr__", "__str__"))

NodePath = tuple[tuple[str, int | None], ...]
Live = dict[tuple[str, str, int], list[FunctionType]]


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of one statement; known by its text, so that edits elsewhere don't rename it."""

    file: str
    function: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.file} {self.function}: `{self.before}` -> `{self.after}`"


class Site(NamedTuple):
    """Where a mutant stands in today's file.  `path` leads from the tree's root to the node."""

    mutant: Mutant
    line: int
    statement_line: int
    path: NodePath
    alternative: int


def sites_in(file: str, source: str) -> list[Site]:
    """All mutants of a file, given by its path below the root."""
    return list(_walk(ast.parse(source), _Place(file)))


@cache
def all_sites() -> tuple[Site, ...]:
    return tuple(s for file in room_files() for s in sites_in(file, (ROOT / file).read_text()))


def room_files() -> list[str]:
    paths = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))
    return [str(path.relative_to(ROOT)) for path in paths]


def by_mutant() -> dict[Mutant, Site]:
    """Where each text of a mutant stands, the first place if there are several."""
    return {site.mutant: site for site in reversed(all_sites())}


def sample(seed: int, count: int) -> list[Site]:
    """The same ones for the same seed, but for those whose code has changed meanwhile."""

    def rank(site: Site) -> bytes:
        return sha256(f"{seed} {site.mutant}".encode()).digest()

    return sorted(by_mutant().values(), key=rank)[:count]


@dataclass(frozen=True, slots=True)
class _Place:
    """How far a walk down the tree has come; `statement` within functions only."""

    file: str
    function: str = ""
    within: bool = False
    statement: ast.AST | None = None
    path: NodePath = ()

    def at(self, node: ast.AST) -> "_Place":
        place = self
        if isinstance(node, ast.stmt | ast.match_case) and place.within:
            place = replace(place, statement=node)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{place.function}.{node.name}" if place.function else node.name
            within = place.within or not isinstance(node, ast.ClassDef)
            place = replace(place, function=name, within=within)
        return place


def _walk(node: ast.AST, place: _Place) -> Iterator[Site]:
    if left_alone(node):
        return
    place = place.at(node)
    if place.statement is not None:
        for number, other in enumerate(alternatives(node)):
            before, after = _texts(place.statement, node, other)
            statement_line = getattr(place.statement, "lineno", 0)
            line = getattr(node, "lineno", statement_line)
            mutant = Mutant(place.file, place.function, before, after)
            yield Site(mutant, line, statement_line, place.path, number)
    for field, at, part in parts(node):
        yield from _walk(part, replace(place, path=(*place.path, (field, at))))


def _texts(statement: ast.AST, node: ast.AST, other: ast.AST) -> tuple[str, str]:
    """The statement before and after; of one that holds others only its head."""
    bare = _bare(statement)
    if is_deleted(other):
        return _text(bare), DELETED
    changed = _bare(other) if statement is node else copy.deepcopy(bare, {id(node): other})
    return _text(bare), _text(changed)


def _bare(statement: ast.AST) -> ast.AST:
    bare = copy.copy(statement)
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        if isinstance(getattr(bare, field, None), list):
            setattr(bare, field, [ast.Pass()] if field == "body" else [])
    return bare


def _text(statement: ast.AST) -> str:
    return ast.unparse(ast.fix_missing_locations(statement)).strip().removesuffix("\n    pass")


def compiled(site: Site, source: str) -> tuple[CodeType, CodeType]:
    """The module's code as it is and as the mutant's."""
    tree = ast.parse(source)
    holder: Any = tree
    for field, at in site.path[:-1]:
        holder = getattr(holder, field) if at is None else getattr(holder, field)[at]
    field, at = site.path[-1]
    node = getattr(holder, field) if at is None else getattr(holder, field)[at]
    other = list(alternatives(node))[site.alternative]
    ast.copy_location(other, node)
    if at is None:
        setattr(holder, field, other)
    else:
        getattr(holder, field)[at] = other
    mutated = compile(ast.fix_missing_locations(tree), site.mutant.file, "exec", dont_inherit=True)
    return compile(source, site.mutant.file, "exec", dont_inherit=True), mutated


def changed_codes(before: CodeType, after: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """Functions' codes that differ, those inside of others too."""
    if before == after:
        return
    yield before, after
    others = {place_of(code): code for code in _codes_in(after)}
    for code in _codes_in(before):
        if other := others.get(place_of(code)):
            yield from changed_codes(code, other)


def place_of(code: CodeType) -> tuple[str, int]:
    return code.co_qualname, code.co_firstlineno


def _codes_in(code: CodeType) -> Iterator[CodeType]:
    return (const for const in code.co_consts if isinstance(const, CodeType))


def live_functions() -> Live:
    """All functions of the rooms by file, name and line; imports what has not been imported yet.

    Not by their code: pytest has rewritten the asserts in it, as odradek is one of its plugins.
    """
    for file in room_files():
        if not file.endswith("__main__.py"):
            parts_of_name = Path("odradek", file).with_suffix("").parts
            importlib.import_module(".".join(parts_of_name).removesuffix(".__init__"))
    gc.unfreeze()  # else what pytest has collected is not among the objects
    found: Live = defaultdict(list)
    names: dict[str, str | None] = {}
    for function in objects_of(FunctionType):
        filename = function.__code__.co_filename
        if filename not in names:
            names[filename] = _below_root(filename)
        if (file_of_it := names[filename]) is not None:
            found[file_of_it, *place_of(function.__code__)].append(function)
    return found


def _below_root(filename: str) -> str | None:
    path = Path(filename).resolve()
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else None


def exchanges(site: Site, live: Live) -> list[tuple[FunctionType, CodeType]]:
    """What a mutant changes in this process: functions and the code that each is given."""
    source = (ROOT / site.mutant.file).read_text()
    return [
        (function, after)
        for before, after in changed_codes(*compiled(site, source))
        for function in live.get((site.mutant.file, *place_of(before)), ())
    ]


def live_caches() -> list[Any]:
    """What remembers the answers of the rooms' functions."""
    caches = objects_of(_lru_cache_wrapper)
    return [cache for cache in caches if str(cache.__module__).startswith("odradek.")]
