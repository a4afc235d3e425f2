"""The steps of `make release` that can be seen to fail without building anything."""

import sys
from pathlib import Path

import pytest

from odradek import __version__
from tests.release.__main__ import compare
from tests.release.interpreters import find_interpreter
from tests.release.smoke import Failed, output_of, smoke


def test_other_bytes_are_found(tmp_path: Path) -> None:
    one, other = tmp_path / "one.whl", tmp_path / "other.whl"
    one.write_bytes(b"a")
    other.write_bytes(b"a")
    compare([one], [other])
    other.write_bytes(b"b")
    with pytest.raises(Failed, match=r"one\.whl has other bytes"):
        compare([one], [other])


@pytest.mark.slow  # 0.3 s
def test_interpreters_are_found_if_they_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = "{}.{}".format(*sys.version_info)
    shim = tmp_path / f"python{version}"  # as pyenv's, of a version that is not chosen
    shim.write_text("#!/bin/sh\nexit 127\n")
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    assert find_interpreter(version) is None
    own = tmp_path / "pyenv" / "versions" / f"{version}.9" / "bin" / f"python{version}"
    own.parent.mkdir(parents=True)
    own.symlink_to(sys.executable)
    assert find_interpreter(version) == str(own)


@pytest.mark.slow
@pytest.mark.wire  # 3 s
def test_smoke_is_what_is_installed(tmp_path: Path) -> None:
    odradek = tmp_path / "odradek"
    odradek.write_text(f'#!/bin/sh\nexec {sys.executable} -m odradek "$@"\n')
    odradek.chmod(0o755)
    smoke(str(odradek), __version__, tmp_path)
    with pytest.raises(Failed, match=r"does not say 9\.9"):
        smoke(str(odradek), "9.9", tmp_path)


def test_a_command_that_fails_is_shown_with_what_it_said() -> None:
    with pytest.raises(Failed, match=r"(?s)exit code 3.*the reason"):
        output_of(["sh", "-c", "echo the reason >&2; exit 3"])
