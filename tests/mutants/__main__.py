"""A seeded sample of mutants, judged one after the other; it goes on where it was ended.

    python -m tests.mutants [--seed 7] [--count 1000]    judge a sample, print what kills each
    python -m tests.mutants --seed 7 --list              print that once more
    python -m tests.mutants --seed 7 --again [TEST ...]  judge its survivors anew

Without a seed the last run goes on; one that is finished, or RESTART=1, is followed by one of
another seed.  --again is for new tests: each survivor meets those whose names begin as a TEST.
Results are kept below the cache, a line of JSON for each mutant; the status is 1 while there are
survivors that equivalent.toml does not list.
"""

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from tests.kafka.jars import CACHE
from tests.lab.soak import Progress
from tests.mutants.mutant import Mutant, Site, by_mutant, sample
from tests.mutants.reviewed import equivalent
from tests.mutants.run import Tests, Verdict, with_tests

KEPT: Final = CACHE / "mutants"
SEEDS: Final = 1_000_000
SURVIVED: Final = ("survived", "not run")

Result = dict[str, Any]


class Results:
    """What has become of each mutant of a sample: a file of lines of which the last one counts."""

    def __init__(self, seed: int, folder: Path = KEPT) -> None:
        self._path = folder / f"{seed}.jsonl"
        lines = self._path.read_text().splitlines() if self._path.exists() else []
        self.of = {Mutant(**(result := json.loads(line))["mutant"]): result for line in lines}

    def add(self, site: Site, verdict: Verdict) -> None:
        result = {"mutant": asdict(site.mutant), "line": site.line, **asdict(verdict)}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a") as file:
            file.write(json.dumps(result) + "\n")
        self.of[site.mutant] = result
        print(as_line(result), flush=True)

    def open(self) -> list[Mutant]:
        """The survivors that nobody has judged."""
        judged = equivalent()
        return [m for m, result in self.of.items() if result["how"] in SURVIVED and m not in judged]


def as_line(result: Result) -> str:
    mutant = Mutant(**result["mutant"])
    by = result["by"] or f"{result['tests']} tests, {result['left_out']} left out"
    change = f"{mutant.function}: `{mutant.before}` -> `{mutant.after}`"
    return f"{result['how']}: {mutant.file}:{result['line']} {change} | {by}"


def next_seed(count: int, folder: Path = KEPT) -> int:
    """That of the last run if there is something left of it, else another."""
    begun = sorted(folder.glob("*.jsonl"), key=lambda path: path.stat().st_mtime)
    if begun and os.environ.get("RESTART") != "1":
        seed = int(begun[-1].stem)
        if len(Results(seed, folder).of) < count:
            return seed
    return random.randrange(SEEDS)


def judge_sample(tests: Tests, seed: int, count: int) -> None:
    results = Results(seed)
    with Progress(f"mutants-{seed}", count) as progress:
        for site in sample(seed, count):
            if site.mutant not in results.of:
                results.add(site, tests.judge(site))
                progress.add(1, **{results.of[site.mutant]["how"]: 1})


def judge_again(tests: Tests, seed: int, names: list[str]) -> None:
    results, site_of = Results(seed), by_mutant()
    for mutant in results.open():
        if mutant in site_of:
            results.add(site_of[mutant], tests.judge(site_of[mutant], names))
        else:
            print(f"its code is gone: {mutant}", flush=True)


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--again", nargs="*", metavar="TEST")
    options = parser.parse_args(words)
    seed = next_seed(options.count) if options.seed is None else options.seed
    print(f"mutants: seed {seed}", flush=True)
    if not options.list:
        run(seed, options.count, options.again)
    results = Results(seed)
    if options.list:
        print("\n".join(as_line(result) for result in results.of.values()))
    counts = Counter(result["how"] for result in results.of.values())
    for mutant in results.open():
        print(f"open: {as_line(results.of[mutant])}")
    print(f"{len(results.of)} of {options.count}: {dict(counts)}, {len(results.open())} open")
    return 1 if results.open() or len(results.of) < options.count else 0


def run(seed: int, count: int, again: list[str] | None) -> None:
    def work(tests: Tests) -> None:
        if again is None or not again:
            tests.map()
        if again is None:
            judge_sample(tests, seed, count)
        else:
            judge_again(tests, seed, again)

    temporary = Path(tempfile.mkdtemp(prefix="mutants-"))
    try:
        with_tests(work, KEPT / "map", temporary / "pytest", again or ())
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
