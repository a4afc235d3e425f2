"""The mutants that have been judged to change nothing: equivalent.toml, with a reason for each."""

import tomllib
from pathlib import Path
from typing import Final

from tests.mutants.mutant import Mutant

LIST: Final = Path(__file__).with_name("equivalent.toml")


def equivalent(path: Path = LIST) -> dict[Mutant, str]:
    """Why no test can tell each of them from the product."""
    kept = tomllib.loads(path.read_text()).get("mutant", [])
    return {
        Mutant(one["file"], one["function"], one["before"], one["after"]): one["reason"]
        for one in kept
    }
