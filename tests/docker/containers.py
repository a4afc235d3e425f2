"""Starts a root file system as Docker starts its image: namespaces, an ordinary user, a volume.

The network of a container is its own, so that its ports are free; clients run in it, too.
"""

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import psutil

from tests.docker.images import Image
from tests.support.waiting import until

VOLUME: Final = "var/lib/odradek"
HOSTNAME: Final = "odradek"
# Runs as root in the new namespaces: $1 is the root, $2 the volume, $3 whether the root can be
# written to; what follows is the command.
START: Final = f"""
set -e
root=$1 volume=$2 writable=$3; shift 3
hostname {HOSTNAME}
ip link set lo up
mount --bind "$root" "$root"
mount --bind "$volume" "$root/{VOLUME}"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
if [ "$writable" = no ]; then
  mount -t tmpfs tmpfs "$root/tmp"
  mount -o remount,bind,ro "$root"
fi
exec setpriv --no-new-privs -- "$@"
"""


class Container:
    """A running container of an image; a context manager that kills it.

    `entrypoint` and `command` replace the image's; `read_only` is `--read-only --tmpfs /tmp`.
    """

    def __init__(
        self,
        image: Image,
        volume: Path,
        *,
        entrypoint: list[str] | None = None,
        command: list[str] | None = None,
        environment: dict[str, str] | None = None,
        read_only: bool = True,
    ) -> None:
        root, config = image.root, image.config
        self._root = root
        self._config = config
        given = [f"{name}={value}" for name, value in (environment or {}).items()]
        self._environment = [*config["Env"], f"HOSTNAME={HOSTNAME}", *given]
        whole = [
            *(config["Entrypoint"] if entrypoint is None else entrypoint),
            *(config["Cmd"] if command is None else command),
        ]
        (root / "etc" / "hosts").write_text(f"127.0.0.1 localhost {HOSTNAME}\n")
        self._take_over(volume)
        self.log = volume.parent / f"{volume.name}.log"
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    "unshare", "--mount", "--pid", "--net", "--uts", "--fork", "--kill-child",
                    "sh", "-c", START, "sh", root, volume, "no" if read_only else "yes",
                    *self._as_user(root, whole),
                ],
                stdout=log,
                stderr=log,
            )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()

    @property
    def pid(self) -> int:
        """The process that has the number 1 in the container."""
        (first,) = until(psutil.Process(self._process.pid).children)
        return first.pid

    def has_logged(self, what: str) -> bool:
        return what in self.log.read_text()

    def wait_for(self, look: Callable[[], object]) -> None:
        """Wait until `look()`; a container that ends meanwhile is a failure."""

        def looked() -> bool:
            assert self._process.poll() is None, self.log.read_text()
            return bool(look())

        until(looked, lambda: self.log.read_text())

    def run(self, *command: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
        """Run a command in the container, as `docker exec` does."""
        return subprocess.run(
            [*self.enter(), *command], input=stdin, capture_output=True, text=True, timeout=120
        )

    def enter(self) -> list[str]:
        """What to put before a command that is to run in the container."""
        spaces = ("--mount", "--pid", "--net", "--uts", "--root", "--wd")
        return ["nsenter", f"--target={self.pid}", *spaces, "--", *self._as_user(Path("/"), [])]

    def is_healthy(self) -> bool:
        """What the image's own health check says."""
        kind, *check = self._config["Healthcheck"]["Test"]
        assert kind == "CMD"
        return self.run(*check).returncode == 0

    def stop(self) -> int:
        """Ask as `docker stop` does, and return the exit code."""
        os.kill(self.pid, signal.Signals[self._config["StopSignal"]])
        return self._process.wait(60)

    def _as_user(self, root: Path, command: list[str]) -> list[str]:
        user = self._config["User"]
        (group,) = (
            fields[3]
            for fields in (line.split(":") for line in self._passwd())
            if fields[2] == user
        )
        directory = self._config["WorkingDir"] or "/"
        return [
            "chroot", f"--userspec={user}:{group}", "--groups=", str(root),
            "env", "-i", f"--chdir={directory}", *self._environment, *command,
        ]  # fmt: skip

    def _passwd(self) -> list[str]:
        return (self._root / "etc" / "passwd").read_text().splitlines()

    def _take_over(self, volume: Path) -> None:
        """Make a new volume as Docker does: with the owner of the folder that it is put on."""
        if not volume.exists():
            volume.mkdir()
            state = (self._root / VOLUME).stat()
            os.chown(volume, state.st_uid, state.st_gid)
