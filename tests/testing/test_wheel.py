"""The built wheel, in a fresh environment, in a project that has rooms of the same names."""

import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

# Built, installed and tested in processes of their own, for which `run` has a limit each.
pytestmark = pytest.mark.timeout(600)

ROOT = Path(__file__).resolve().parents[2]
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
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built with what is installed here: the build downloads nothing."""
    target = tmp_path_factory.mktemp("wheel")
    tree = tmp_path_factory.mktemp("tree")
    # A copy of the committed and uncommitted sources: setuptools leaves build/ and egg-info behind.
    files = run("git", "ls-files", "-co", "--exclude-standard", cwd=ROOT).split("\n")
    for name in filter(None, files):
        source, copy = ROOT / name, tree / name
        if source.is_symlink() or source.is_file():
            copy.parent.mkdir(parents=True, exist_ok=True)
            if source.is_symlink():
                copy.symlink_to(source.readlink())
            else:
                copy.write_bytes(source.read_bytes())
    command = (sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", str(target))
    run(*command, str(tree), cwd=tree)
    (built,) = target.glob("*.whl")
    return built


@pytest.mark.wire
@pytest.mark.slow
def test_wheel_ships_the_package_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names if ".dist-info/" not in name}
    assert tops == {"odradek", "_odradek_pytest.py", "pyspark_odradek.py"}
    for room in ROOMS:
        assert f"odradek/{room}/__init__.py" in names
    assert "odradek/pipeline/segments/source.py" in names
    assert "odradek/py.typed" in names


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
