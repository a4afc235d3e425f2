"""The Pythons of this machine that a release is tried on."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

VERSIONS: Final = ("3.11", "3.12", "3.13", "3.14")


def find_interpreter(version: str) -> str | None:
    """The path of a Python of this version, if one runs here."""
    for path in _candidates(version):
        asked = [path, "-c", "import ensurepip, sys, venv; print('%d.%d' % sys.version_info[:2])"]
        found = subprocess.run(asked, capture_output=True, text=True)
        if found.returncode == 0 and found.stdout.strip() == version:
            return path
    return None


def _candidates(version: str) -> Iterator[str]:
    """That of PATH, which may be a shim of pyenv that refuses to run, and those of pyenv."""
    on_path = shutil.which(f"python{version}")
    if on_path is not None:
        yield on_path
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    for path in sorted(pyenv.glob(f"versions/{version}*/bin/python{version}")):
        yield str(path)
