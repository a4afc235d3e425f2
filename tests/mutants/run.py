"""Run tests on mutants: pytest collects once, and each mutant is a fork of what it has collected.

First each test file runs in a fork of its own with coverage, which tells what test runs what line.
A mutant then meets the tests that run its line: those of the mirrored file first, then the fastest
first, until one fails.  A test that fails is run once more without the mutant: what fails then too
counts for nothing.  A test that takes far longer than before counts as one that failed.
"""

import gc
import hashlib
import json
import os
import resource
import select
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, Final, NamedTuple, NoReturn

import coverage
import pytest

from tests.mutants.importing import fails_once_imported
from tests.mutants.mutant import (
    ROOMS,
    ROOT,
    Site,
    exchanges,
    live_caches,
    live_functions,
    room_files,
)

WHERE: Final = ("storage", "protocol", "broker", "sim", "cli", "cluster", "testing")
ELSEWHERE: Final = "java or kcat or spark or chromium or wire or network or soak"
FIRST_S: Final = 10.0
SLOWER: Final = 10
MAP_FILE_S: Final = 600.0
TESTS_S: Final = 30.0
MEMORY_BYTES_MAX: Final = 4 << 30


class Ended(NamedTuple):
    """How a fork ended: at which of its tests, and whether that one failed or took too long."""

    test: pytest.Item | None
    timed_out: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """`how` is killed, timed out, survived or not run (no test runs its line)."""

    how: str
    by: str = ""
    tests: int = 0
    left_out: int = 0


class Tests:
    """What has been collected, and which of it runs which line."""

    def __init__(self, items: list[pytest.Item], cache: Path, basetemp: Path) -> None:
        self.by_name = {item.nodeid: item for item in items}
        self.seconds: dict[str, float] = {}
        self.on_line: dict[tuple[str, int], list[str]] = defaultdict(list)
        self._cache = cache
        self._basetemp = basetemp
        self._unreliable: set[str] = set()
        self._live = live_functions()
        self._caches = live_caches()
        gc.freeze()  # a fork shares what the collector does not touch

    def map(self) -> None:
        """Find out what test runs what line, or read it where that has been done already."""
        files: dict[Path, list[pytest.Item]] = defaultdict(list)
        for item in self.by_name.values():
            files[item.path].append(item)
        rooms = digest(ROOT / file for file in room_files())
        self._cache.mkdir(parents=True, exist_ok=True)
        for at, (path, items) in enumerate(files.items(), 1):
            name = f"{rooms}-{digest([path])}-{path.stem}.json"
            if not (self._cache / name).exists():
                begun = time.monotonic()
                self._run(items, lambda: None, cover=self._cache / name)
                if not (self._cache / name).exists():
                    (self._cache / name).write_text("{}")
                took = f"{time.monotonic() - begun:.1f} s"
                print(f"mapped {at}/{len(files)} {path.relative_to(ROOT)} {took}", flush=True)
            for test, kept in json.loads((self._cache / name).read_text()).items():
                self.seconds[test] = kept["seconds"]
                for file, lines in kept["lines"].items():
                    for line in lines:
                        self.on_line[file, line].append(test)

    def judge(self, site: Site, named: Iterable[str] = ()) -> Verdict:
        """Run the tests of a mutant's line on it, or all those whose names begin as `named`."""
        names = [name for name in self.by_name if name.startswith(tuple(named))] if named else None
        tests, left_out = self._chosen(site) if names is None else (names, 0)
        changes = exchanges(site, self._live)
        if not tests or not changes:
            return judge_at_import(site)
        while True:
            items = [self.by_name[name] for name in tests if name not in self._unreliable]
            ended = self._run(items, lambda: self._put_into_effect(changes))
            if ended.test is None:
                return Verdict("survived", "", len(items), left_out)
            if self._run([ended.test], lambda: None).test is None:
                how = "timed out" if ended.timed_out else "killed"
                return Verdict(how, ended.test.nodeid, len(items))
            self._unreliable.add(ended.test.nodeid)
            print(f"fails without a mutant, too: {ended.test.nodeid}", flush=True)

    def _put_into_effect(self, changes: list[tuple[FunctionType, CodeType]]) -> None:
        """Give functions their other code, and forget what they answered before."""
        for function, code in changes:
            function.__code__ = code
        for cache in self._caches:
            cache.cache_clear()

    def _chosen(self, site: Site) -> tuple[list[str], int]:
        """The tests of a line in their order, up to TESTS_S; and how many are left out."""
        mirrored = mirror(site.mutant.file)
        file = site.mutant.file
        on_line = self.on_line.get((file, site.line)) or self.on_line[file, site.statement_line]
        tests = sorted(
            set(on_line) & self.by_name.keys(),
            key=lambda name: (not name.startswith(mirrored), self.seconds[name]),
        )
        seconds = 0.0
        for at, name in enumerate(tests):
            seconds += self.seconds[name]
            if seconds > TESTS_S and at > 0:
                return tests[:at], len(tests) - at
        return tests, 0

    def _run(
        self, items: list[pytest.Item], prepare: Callable[[], None], cover: Path | None = None
    ) -> Ended:
        """Run tests in a fork, with coverage all of them, else up to the first that fails."""
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            in_fork(items, prepare, writing, cover)
        os.close(writing)
        try:
            return self._watch(reading, items, MAP_FILE_S if cover else None)
        finally:
            os.close(reading)
            with suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)

    def _watch(self, reading: int, items: list[pytest.Item], limit_s: float | None) -> Ended:
        running = items[0]
        while True:
            usual_s = self.seconds.get(running.nodeid, 0.0)
            if not select.select([reading], [], [], limit_s or FIRST_S + SLOWER * usual_s)[0]:
                return Ended(running, timed_out=True)
            said = os.read(reading, 1 << 16).splitlines()
            last = said[-1] if said else b"died"
            if last == b"end":
                return Ended(None)
            starts = [int(line.split()[1]) for line in said if line.startswith(b"test")]
            running = items[starts[-1]] if starts else running
            if not last.startswith(b"test"):
                return Ended(running)


def in_fork(
    items: list[pytest.Item],
    prepare: Callable[[], None],
    writing: int,
    cover: Path | None,
) -> NoReturn:
    """Say each test's place before it runs, `failed` after the first that did, or `end`."""
    os.setpgid(0, 0)
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    code = 1
    try:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
        reports = Reports()
        items[0].config.pluginmanager.register(reports)
        prepare()
        covering = Covering() if cover else None
        for at, item in enumerate(items):
            os.write(writing, f"test {at}\n".encode())
            if covering:
                covering.begin(item)
            following = items[at + 1] if at + 1 < len(items) else None
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if covering:
                covering.end(item, failed=reports.failed)
                reports.failed = False
            if reports.failed:
                os.write(writing, b"failed\n")
                break
        else:
            if covering and cover:
                covering.save(cover)
            os.write(writing, b"end\n")
        code = 0
    finally:
        os._exit(code)


class Reports:
    """Whether a test has failed since."""

    failed = False

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.failed = self.failed or report.failed


class Covering:
    """Which lines of the rooms each test runs, and how long it takes."""

    def __init__(self) -> None:
        rooms = [str(ROOT / room) for room in ROOMS]
        self._coverage = coverage.Coverage(data_file=None, config_file=False, source=rooms)
        self._coverage.start()
        self._kept: dict[str, dict[str, Any]] = {}
        self._begun = 0.0

    def begin(self, item: pytest.Item) -> None:
        self._coverage.switch_context(item.nodeid)
        self._begun = time.monotonic()

    def end(self, item: pytest.Item, *, failed: bool) -> None:
        if not failed:
            seconds = time.monotonic() - self._begun
            self._kept[item.nodeid] = {"seconds": round(seconds, 4), "lines": {}}

    def save(self, path: Path) -> None:
        self._coverage.stop()
        data = self._coverage.get_data()
        for filename in data.measured_files():
            file = str(Path(filename).resolve().relative_to(ROOT))
            for line, tests in data.contexts_by_lineno(filename).items():
                for test in tests:
                    if test in self._kept:
                        self._kept[test]["lines"].setdefault(file, []).append(line)
        path.with_suffix(".new").write_text(json.dumps(self._kept))
        path.with_suffix(".new").replace(path)


class TakeOver:
    """A plugin of pytest: instead of running what it has collected, hand it over."""

    def __init__(self, work: Callable[[list[pytest.Item]], None]) -> None:
        self._work = work

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        from hypothesis import Phase, settings  # not before pytest, which rewrites its asserts

        # Before test modules build their settings on it. An example that fails is enough: it
        # needn't be made small.
        phases = (Phase.explicit, Phase.generate)
        settings.register_profile("mutants", settings(), phases=phases)
        settings.load_profile("mutants")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if not session.testsfailed:
            self._work(session.items)
        return True


def with_tests(
    work: Callable[[Tests], None], cache: Path, basetemp: Path, paths: Iterable[str] = ()
) -> int:
    """Collect all tests that need no other program, or those of `paths`, and do `work` on them."""
    paths = list(paths) or [f"tests/{room}" for room in WHERE]
    options = ["-q", "-s", "--basetemp", str(basetemp)]
    taking = TakeOver(lambda items: work(Tests(items, cache, basetemp)))
    os.chdir(ROOT)
    return int(pytest.main([*options, "-m", f"not ({ELSEWHERE})", *paths], plugins=[taking]))


def judge_at_import(site: Site) -> Verdict:
    """Of a mutant whose line no test runs: what it does may be done once all is imported."""
    room = next(room for room in ROOMS if site.mutant.file.startswith(room))
    tests = f"tests/{room}"
    words = ("-m", f"not ({ELSEWHERE})", tests)
    if fails_once_imported(site, words) and not fails_once_imported(None, words):
        return Verdict("killed", f"{tests}, imported with it")
    return Verdict("not run")


def mirror(file: str) -> str:
    """How the names of the tests begin that mirror a file: tests/storage/log/test_log.py."""
    path = Path("tests") / file
    return str(path.with_name(f"test_{path.stem}.py"))


def digest(paths: Iterable[Path]) -> str:
    found = hashlib.sha256()
    for path in paths:
        found.update(path.read_bytes())
    return found.hexdigest()[:12]
