"""Builds the images of docker/Dockerfile without Docker and its registry: with buildah.

Their base, python:3.13-slim, is Debian with a Python.  Here debootstrap makes it, and the Python is
Debian's own, of the same version: nothing is needed but Debian's mirror and PyPI.  Needs root, and
3 GB below the cache.
"""

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.kafka.jars import CACHE

ROOT: Final = Path(__file__).parent.parent.parent
STORE: Final = CACHE / "images"
BASE: Final = "docker.io/library/python:3.13-slim"
SUITE: Final = "trixie"  # whose Python is 3.13
PACKAGES: Final = "ca-certificates,python3-venv"
TOOLS: Final = ("buildah", "debootstrap", "ip", "nsenter", "setpriv", "unshare")
# How this machine reaches PyPI: what steps of the build see of it, if it is there.
OF_THE_MACHINE: Final = ("/etc/ssl/certs", "/etc/pip.conf")
LIMIT_S: Final = 1800


def missing() -> str | None:
    """What is needed and is not here, or None."""
    absent = [tool for tool in TOOLS if shutil.which(tool) is None]
    return f"not installed: {', '.join(absent)}" if absent else None


@dataclass(frozen=True)
class Image:
    """What was built."""

    root: Path
    """Its file system, a copy that may be written to."""
    config: dict[str, Any]
    """What Docker calls the config: Entrypoint, Cmd, Env, User, Healthcheck and so on."""


def build(target: str | None = None) -> Image:
    """Build a stage of the Dockerfile; without a name, what is built if none is given."""
    if f"{BASE}\n" not in _buildah("images", "--format", "{{.Name}}:{{.Tag}}"):
        _make_base()
    image = "odradek" if target is None else f"odradek-{target}"
    stage = [] if target is None else [f"--target={target}"]
    seen = [f"--volume={path}:{path}:ro" for path in OF_THE_MACHINE if os.path.exists(path)]
    dockerfile = ROOT / "docker" / "Dockerfile"
    _buildah(
        "build", "--format=docker", "--pull-never", "--network=host", *seen,
        f"--file={dockerfile}", f"--ignorefile={dockerfile}.dockerignore",
        *stage, f"--tag={image}", str(ROOT),
    )  # fmt: skip
    config = json.loads(_buildah("inspect", "--type=image", image))["Docker"]["config"]
    container = _buildah("from", "--pull-never", image).strip()
    return Image(Path(_buildah("mount", container).strip()), config)


def remove_containers() -> None:
    """Remove the file systems that `build` gave out; images are kept, for the base is dear."""
    _buildah("rm", "--all")


def _make_base() -> None:
    tree = STORE / SUITE
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True)
    # It mounts /proc and /sys there: if it is killed, they go with its own view of the mounts.
    own_mounts = ("unshare", "--mount", "--")
    _run(*own_mounts, "debootstrap", "--variant=minbase", f"--include={PACKAGES}", SUITE, str(tree))
    (tree / "usr/local/bin/python").symlink_to("/usr/bin/python3")
    # Whoever copies a device as a file fills the disk with it; containers are given those of /dev.
    shutil.rmtree(tree / "dev")
    (tree / "dev").mkdir()
    container = _buildah("from", "scratch").strip()
    _run("cp", "-a", f"{tree}/.", _buildah("mount", container).strip())
    _buildah("commit", "--rm", container, BASE)
    shutil.rmtree(tree)


def _buildah(*arguments: str) -> str:
    return _run(
        "buildah", f"--root={STORE / 'store'}", f"--runroot={STORE / 'run'}",
        "--storage-driver=vfs", *arguments,
    )  # fmt: skip


def _run(*command: str) -> str:
    environment = {**os.environ, "BUILDAH_ISOLATION": "chroot"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=LIMIT_S
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout
