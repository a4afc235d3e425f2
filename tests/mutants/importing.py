"""Mutants of what runs at import only: an interpreter of its own imports them, and runs tests.

python -m tests.mutants.importing TEST ...    with the pickled mutant on its input
"""

import pickle
import subprocess
import sys
from collections.abc import Sequence
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType

import pytest
from pytest import ExitCode

from tests.mutants.mutant import ROOT, Site, compiled


def fails_once_imported(site: Site | None, tests: Sequence[str]) -> bool:
    """Whether the mutant cannot be imported, or one of these tests fails with it, or without."""
    words = [sys.executable, "-m", "tests.mutants.importing", *tests]
    done = subprocess.run(
        words, input=pickle.dumps(site), cwd=ROOT, capture_output=True, check=False
    )
    assert done.returncode not in (ExitCode.USAGE_ERROR, ExitCode.NO_TESTS_COLLECTED), done.stderr
    return done.returncode != ExitCode.OK


def put_into_effect(site: Site) -> None:
    """The next import of the mutant's file gives the mutant's code."""
    path = ROOT / site.mutant.file
    usual = SourceFileLoader.get_code

    def get_code(loader: SourceFileLoader, name: str) -> CodeType | None:
        if Path(loader.path).resolve() == path:
            return compiled(site, path.read_text())[1]
        return usual(loader, name)

    SourceFileLoader.get_code = get_code  # type: ignore[method-assign, assignment]


if __name__ == "__main__":
    if (given := pickle.load(sys.stdin.buffer)) is not None:
        put_into_effect(given)
    # Asserts stay as they are: for those of its plugins, pytest would load odradek by itself.
    sys.exit(pytest.main(["-q", "-x", "--assert=plain", *sys.argv[1:]]))
