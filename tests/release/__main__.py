"""Build and check what is released: `make release`.  Nothing is uploaded.

The commit is built twice to the same bytes: in two directories, under two umasks, and once with the
wheel made of the sdist.  Both files are then checked, and each is installed into a new environment
of each Python that is found here, where a broker must serve.  What has passed all of it lies in
dist/.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

from odradek import __version__
from tests.release.interpreters import VERSIONS, find_interpreter
from tests.release.smoke import Failed, output_of, smoke

ROOT: Final = Path(__file__).parent.parent.parent
DIST: Final = ROOT / "dist"
NAMES: Final = (f"odradek-{__version__}-py3-none-any.whl", f"odradek-{__version__}.tar.gz")


def main() -> None:
    """All steps, in order; the first that fails ends it."""
    changed = output_of(["git", "-C", ROOT, "status", "--porcelain"])
    if changed:
        print(f"built is what was committed; these changes are not in it:\n{changed}", end="")
    with tempfile.TemporaryDirectory(prefix="odradek-release-") as directory:
        at = Path(directory)
        first = build(at / "first", 0o022, "--sdist", "--wheel")
        compare(first, build(at / "second", 0o077))
        check(first)
        try_out(first, at)
        shutil.rmtree(DIST, ignore_errors=True)
        DIST.mkdir()
        for path in first:
            shutil.copy(path, DIST)
            print(f"{sha256(path.read_bytes()).hexdigest()}  dist/{path.name}")
    print("all checks passed; to upload: twine upload dist/*")


def build(tree: Path, umask: int, *kinds: str) -> list[Path]:
    """Build the commit in a tree of its own; the time in the files is the commit's.

    Without `kinds` the wheel is made of the sdist.
    """
    previous = os.umask(umask)
    try:
        tree.mkdir()
        git_archive: list[str | Path] = ["git", "-C", ROOT, "archive", "HEAD"]
        archive = subprocess.run(git_archive, stdout=subprocess.PIPE, check=True)
        subprocess.run(["tar", "-x", "-C", tree], input=archive.stdout, check=True)
        time_s = output_of(["git", "-C", ROOT, "log", "-1", "--format=%ct"]).strip()
        environment = {**os.environ, "SOURCE_DATE_EPOCH": time_s}
        output_of(python("build", "--no-isolation", *kinds, tree), environment=environment)
    finally:
        os.umask(previous)
    built = sorted((tree / "dist").iterdir())
    if {path.name for path in built} != set(NAMES):
        raise Failed(f"{', '.join(NAMES)} should have been built, not {built}")
    return built


def compare(first: Sequence[Path], second: Sequence[Path]) -> None:
    """Both builds must be equal.  Raises: Failed."""
    for one, other in zip(first, second, strict=True):
        if one.read_bytes() != other.read_bytes():
            raise Failed(f"{one.name} has other bytes when it is built again")
        print(f"built twice to equal bytes: {one.name}")


def check(built: Sequence[Path]) -> None:
    """What an index will say of the metadata, and what is often wrong in a wheel."""
    print(output_of(python("twine", "check", "--strict", *built)), end="")
    for path in built:
        if path.suffix == ".whl":
            print(output_of(python("check_wheel_contents", path)), end="")


def try_out(built: Sequence[Path], directory: Path) -> None:
    """Install each into a new environment of each Python, and run it there."""
    for version in VERSIONS:
        interpreter = find_interpreter(version)
        if interpreter is None:
            print(f"Python {version}: not found here, so nothing was tried on it")
            continue
        for path in built:
            home = directory / f"{version}{path.suffix}"
            output_of([interpreter, "-m", "venv", home / "venv"])
            install = (home / "venv" / "bin" / "python", "-m", "pip", "install", "--quiet")
            output_of([*install, f"{path}[cli]"])
            smoke(str(home / "venv" / "bin" / "odradek"), __version__, home)
            print(f"Python {version}: installed and run: {path.name}", flush=True)


def python(module: str, *arguments: str | Path) -> list[str | Path]:
    """The command that runs a tool of this environment."""
    return [sys.executable, "-m", module, *arguments]


if __name__ == "__main__":
    try:
        main()
    except Failed as failure:
        sys.exit(str(failure))
