"""The built wheel and sdist, and the wheel in a project that has rooms of the same names."""

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

# Built, installed and tested in processes of their own, for which `run` has a limit each.
pytestmark = pytest.mark.timeout(600)

ROOT = Path(__file__).resolve().parents[2]
ODRADEK = ROOT / "odradek"
ROOMS = ("broker", "pipeline", "protocol", "storage")
USER_TEST = """
import broker, pipeline, protocol, storage  # the user's own

from odradek.testing import Broker


def test_rooms_are_the_users():
    whose = (broker.WHOSE, pipeline.WHOSE, protocol.WHOSE, storage.WHOSE)
    assert whose == ("user",) * 4


def test_broker_runs(odradek):
    assert odradek.running
    odradek.reset()


def test_in_process():
    with Broker(in_process=True) as own:
        own.reset()


def test_rooms_are_still_the_users():
    import storage.shelf
    assert storage.shelf.WHOSE == "user"
"""


def run(*command: str, cwd: Path) -> str:
    """Run it with no module of this checkout in sight."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def modules(folder: Path) -> list[str]:
    return [str(path.relative_to(folder.parent)) for path in folder.rglob("*.py")]


def build(tree: Path, target: Path, *kinds: str) -> None:
    """Build with what is installed here: nothing is downloaded."""
    run(sys.executable, "-m", "build", "--no-isolation", "-o", str(target), *kinds, ".", cwd=tree)


def files_of(tree: Path) -> list[str]:
    return sorted(str(path.relative_to(tree)) for path in tree.rglob("*"))


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources, committed or not, in which no module was ever built."""
    tree = tmp_path_factory.mktemp("tree")
    files = run("git", "ls-files", "-co", "--exclude-standard", cwd=ROOT).split("\n")
    for name in filter(None, files):
        source, copy = ROOT / name, tree / name
        if source.is_symlink() or source.is_file():
            copy.parent.mkdir(parents=True, exist_ok=True)
            if source.is_symlink():
                copy.symlink_to(source.readlink())
            else:
                copy.write_bytes(source.read_bytes())
    return tree


@pytest.fixture(scope="module")
def built(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel and the sdist, in a tree where a wheel was built before a module was deleted."""
    target = tmp_path_factory.mktemp("dist")
    deleted = tree / "storage" / "deleted.py"
    deleted.write_text("")
    build(tree, target, "--wheel")
    (wheel,) = target.glob("*.whl")
    assert "odradek/storage/deleted.py" in zipfile.ZipFile(wheel).namelist()
    deleted.unlink()
    before = files_of(tree)
    build(tree, target, "--wheel", "--sdist")
    assert files_of(tree) == before
    return target


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    (wheel,) = built.glob("*.whl")
    return wheel


@pytest.mark.wire
@pytest.mark.slow  # 8 s for this file's builds
def test_wheel_ships_the_package_and_nothing_else(wheel: Path) -> None:
    names = [name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name]
    assert {name.split("/")[0] for name in names} == {
        "odradek",
        "_odradek_pytest.py",
        "pyspark_odradek.py",
    }
    shipped = [f"odradek/{path}" for room in ROOMS for path in modules(ROOT / room)]
    folders = ("cli", "secure", "testing")
    own = [f"odradek/{path}" for folder in folders for path in modules(ODRADEK / folder)]
    tops = [f"odradek/{path.name}" for path in ODRADEK.glob("*.py")]
    assert sorted(name for name in names if name.startswith("odradek/")) == sorted(
        [*shipped, *own, *tops, "odradek/py.typed", "odradek/pipeline/rollup-example.yaml"]
    )


@pytest.mark.wire
@pytest.mark.slow
def test_sdist_holds_what_the_wheel_is_made_of(built: Path, wheel: Path, tmp_path: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    shipped = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    others = {".gitignore", "LICENSE", "PKG-INFO", "README.md", "pyproject.toml"}
    assert names == shipped | others


@pytest.mark.wire
@pytest.mark.slow
def test_the_page_of_an_index_has_no_relative_link(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    page = archive.read(name).decode().partition("\n\n")[2]
    assert "docs/clusters.md" in page  # its name, in plain text
    assert re.findall(r"\]\((?!https?:).*?\)", page) == []


@pytest.mark.wire
@pytest.mark.slow
def test_wheel_works_beside_a_users_rooms(wheel: Path, tmp_path: Path) -> None:
    environment = tmp_path / "venv"
    venv.create(environment, with_pip=False, symlinks=True)
    python = str(environment / "bin" / "python")
    installer = (sys.executable, "-m", "pip", "--python", python, "install", "-q")
    run(*installer, "--no-deps", "--no-index", str(wheel), cwd=tmp_path)
    # Dependencies and pytest come from the environment of this run, which stands after the new one.
    (site,) = environment.glob("lib/python*/site-packages")
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")

    project = tmp_path / "project"
    for room in ROOMS:
        (project / room).mkdir(parents=True)
        (project / room / "__init__.py").write_text('WHOSE = "user"\n')
    (project / "storage" / "shelf.py").write_text('WHOSE = "user"\n')
    (project / "test_user.py").write_text(USER_TEST)
    where = run(python, "-c", "import odradek.storage as s; print(s.__file__)", cwd=tmp_path)
    assert where.startswith(str(environment)), where

    done = run(python, "-m", "pytest", "-p", "no:cacheprovider", "-q", str(project), cwd=project)
    assert "4 passed" in done, done
    assert "serve" in run(str(environment / "bin" / "odradek"), "--help", cwd=project)
