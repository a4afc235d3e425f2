"""The mutants that are made are the right ones, and who kills them is found."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutants.__main__ import Results, next_seed
from tests.mutants.importing import fails_once_imported
from tests.mutants.mutant import (
    ROOT,
    Mutant,
    all_sites,
    compiled,
    exchanges,
    live_functions,
    sample,
    sites_in,
)
from tests.mutants.reviewed import equivalent
from tests.mutants.run import Verdict

SOURCE = """
LIMIT = 5

class Log:
    size_max: int = 7

    def room(self, wanted=3):
        assert wanted > 0
        if wanted < LIMIT:
            log.info("room for %d", wanted + 1)
            self.taken = wanted
        return min(wanted, 8)
"""


def made_of(source: str) -> list[tuple[str, str]]:
    return [(site.mutant.before, site.mutant.after) for site in sites_in("x.py", source)]


def test_the_mutants_of_a_function() -> None:
    assert made_of(SOURCE) == [
        ("if wanted < LIMIT:", "if wanted <= LIMIT:"),
        ("if wanted < LIMIT:", "if wanted >= LIMIT:"),
        ("self.taken = wanted", "deleted"),
        ("return min(wanted, 8)", "return None and min(wanted, 8)"),
        ("return min(wanted, 8)", "return max(wanted, 8)"),
        ("return min(wanted, 8)", "return min(wanted, 9)"),
    ]


@pytest.mark.parametrize(
    ("statement", "mutants"),
    [
        ("if a and not b: pass", ["if a or not b:", "if a and b:"]),
        ("if a: pass", ["if not a:"]),
        ("while 0 <= a < 4: pass", ["0 < a <", "0 > a <", "<= a <= 4", "<= a >= 4", "1 <=", "< 5"]),
        ("a.b += 1", ["deleted", "a.b -= 1", "a.b += 2"]),
        ("a = b - 1", ["a = b + 1", "a = b - 2"]),
        ("raise Refused(1, a + b)", ["deleted"]),
        ("raise", ["deleted"]),
        ("f(flag=True)", ["deleted", "f(flag=False)"]),
        ("return {k: v for k in a if k is not None}", ["None and {", "if k is None}"]),
        ("for a in b:\n  if a: continue", ["if not a:", "break"]),
        ("match a:\n  case 1 if b > 2: f()", ["b >= 2:", "b <= 2:", "b > 3:", "deleted"]),
        ("def inner():\n  return a", ["return None and a"]),
        ('raise E(f"{a + 1}") from None', ["deleted"]),
        ('return f"{a + 1}"', ["None and f"]),
        ('log.warning("%d", a + 1)', []),
        ("assert a < b", []),
        ("a: int = b", []),
    ],
)
def test_the_mutants_of_a_statement(statement: str, mutants: list[str]) -> None:
    body = "".join(f"  {line}\n" for line in statement.splitlines())
    made = [after for _, after in made_of(f"def f():\n{body}")]
    assert len(made) == len(mutants)
    assert all(part in after for part, after in zip(mutants, made, strict=True)), made


def test_every_mutant_of_an_example_is_other_code() -> None:
    for site in sites_in("x.py", SOURCE):
        before, after = compiled(site, SOURCE)
        assert before != after, site.mutant


@pytest.mark.slow
def test_a_seed_gives_the_same_sample() -> None:
    assert sample(7, 50) == sample(7, 50)
    assert sample(7, 50) != sample(8, 50)
    assert sample(7, 50) == sample(7, 100)[:50], "a larger sample goes on from a smaller one"


@pytest.mark.slow
def test_what_was_judged_is_still_there() -> None:
    assert equivalent().keys() <= {site.mutant for site in all_sites()}


@pytest.mark.slow
def test_a_run_goes_on_with_its_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = Results(7, tmp_path)
    results.add(sample(7, 1)[0], Verdict("survived", tests=3))
    assert next_seed(2, tmp_path) == 7
    assert next_seed(1, tmp_path) != 7, "it is finished"
    assert Results(7, tmp_path).open() == [sample(7, 1)[0].mutant]
    monkeypatch.setenv("RESTART", "1")
    assert next_seed(2, tmp_path) != 7


@pytest.mark.slow
def test_functions_are_found_whose_asserts_pytest_has_rewritten() -> None:
    wanted = Mutant("broker/core/assignment.py", "assign_replicas", "shift += 1", "deleted")
    site = next(site for site in all_sites() if site.mutant == wanted)
    assert [function.__name__ for function, _ in exchanges(site, live_functions())] == [
        "assign_replicas"
    ]


JUDGE = """
import json, sys
from dataclasses import asdict
from pathlib import Path
from tests.mutants import run
from tests.mutants.mutant import Mutant, all_sites

def work(tests):
    tests.map()
    run.FIRST_S = 1.0
    run.judge_at_import = lambda site: run.Verdict("not run")
    for function, before, after in json.loads(sys.argv[2]):
        mutant = Mutant("storage/log/index.py", function, before, after)
        site = next(site for site in all_sites() if site.mutant == mutant)
        print("verdict", json.dumps(asdict(tests.judge(site, sys.argv[3:]))))

folder = Path(sys.argv[1])
run.with_tests(work, folder / "map", folder / "pytest", ["tests/storage/log/test_index.py"])
"""
TESTS = "tests/storage/log/test_index.py::test_"


def judged(folder: Path, mutants: list[tuple[str, str, str]], *names: str) -> list[Verdict]:
    """By a process that collects the tests of indexes only."""
    words = [sys.executable, "-c", JUDGE, str(folder), json.dumps(mutants), *names]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    found = [line for line in done.stdout.splitlines() if line.startswith("verdict ")]
    assert len(found) == len(mutants), done.stdout + done.stderr
    return [Verdict(**json.loads(line.removeprefix("verdict "))) for line in found]


FLOOR = ("_floor_in", "return low - 1", "return low + 1")
ENDLESS = ("_floor_in", "low = middle + 1", "low = middle - 1")
NOT_RUN = ("_EntryFile.forget", "self._block = None", "deleted")


@pytest.mark.slow
def test_a_killed_one_is_told_from_a_survivor(tmp_path: Path) -> None:
    killed, endless, not_run = judged(tmp_path, [FLOOR, ENDLESS, NOT_RUN])
    assert (killed.how, killed.by[: len(TESTS)]) == ("killed", TESTS)
    assert (endless.how, endless.by[: len(TESTS)]) == ("timed out", TESTS)
    assert not_run.how == "not run"


@pytest.mark.slow
def test_what_runs_at_import_only_is_judged_by_another_interpreter() -> None:
    files = ("protocol/schema.py", "storage/log/index.py")
    sites = [site for file in files for site in sites_in(file, (ROOT / file).read_text())]
    site_of = {site.mutant: site for site in sites}
    returned = "return Field(ArrayOf(element), versions, default, **more)"
    at_import = Mutant(
        "protocol/schema.py", "array", returned, f"{returned[:6]} None and{returned[6:]}"
    )
    tests = ["tests/protocol/test_group_records.py"]
    assert fails_once_imported(site_of[at_import], tests)
    assert not fails_once_imported(site_of[Mutant("storage/log/index.py", *NOT_RUN)], tests)


@pytest.mark.slow
def test_who_does_not_look_kills_nothing(tmp_path: Path) -> None:
    name = f"{TESTS}what_is_pending_stays_bounded"
    assert judged(tmp_path, [FLOOR], name) == [Verdict("survived", tests=1)]
