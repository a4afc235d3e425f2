"""Whether an installed Odradek works: a broker starts, takes records, gives them back and stops."""

import re
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

RECORDS: Final = "one\ntwo\nthree\n"
LIMIT_S: Final = 120
READY: Final = re.compile(r"odradek ready: PLAINTEXT://(\S+) ")


class Failed(AssertionError):
    """A command did not do what it should; the message has what it said."""


def output_of(
    command: Sequence[str | Path], *, environment: Mapping[str, str] | None = None, stdin: str = ""
) -> str:
    """What a command prints.  Raises: Failed, with all of it, if its exit code is not 0."""
    done = subprocess.run(
        command, input=stdin, env=environment, capture_output=True, text=True, timeout=LIMIT_S
    )
    if done.returncode != 0:
        text = " ".join(map(str, command))
        raise Failed(f"{text}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


@contextmanager
def broker(
    serve: Sequence[str], *, environment: Mapping[str, str] | None = None
) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """A broker that a command starts: its address and process.  It must stop cleanly at SIGTERM."""
    process = subprocess.Popen(serve, env=environment, stdout=subprocess.PIPE, text=True)
    with process:
        try:
            assert process.stdout is not None
            ready = READY.search(process.stdout.readline())
            if ready is None:
                raise Failed(f"{' '.join(serve)}: no line says that it is ready")
            yield ready[1], process
            process.send_signal(signal.SIGTERM)
            if process.wait(LIMIT_S) != 0:
                raise Failed(f"{' '.join(serve)}: exit code {process.returncode} after SIGTERM")
        finally:
            process.kill()


def exchange(odradek: Sequence[str], address: str) -> None:
    """Produce records and consume them by the command line.  Raises: Failed."""
    at = ("--bootstrap-server", address)
    output_of([*odradek, "produce", "smoke", *at], stdin=RECORDS)
    read = output_of([*odradek, "consume", "smoke", *at, "--from-beginning", "--until", "now"])
    if read != RECORDS:
        raise Failed(f"{RECORDS!r} was produced and {read!r} consumed")


def smoke(odradek: str, version: str, directory: Path) -> None:
    """Run all of it with an `odradek` command whose version is known.  Raises: Failed."""
    if version not in output_of([odradek, "--version"]):
        raise Failed(f"{odradek} --version does not say {version}")
    data_dir = str(directory / "data")
    listen = ("--listen", "127.0.0.1:0", "--log-level", "warning")
    serve = (odradek, "serve", *listen, "--data-dir", data_dir)
    with broker(serve) as (address, _):
        exchange([odradek], address)
