"""Runs a tutorial as its reader does: files are written, commands typed, what they print compared.

- A `python` or `ini` block is written to the file that its first line names, in a comment.
- A `bash` block is typed into one shell, which lives as long as the page.  A command that fails
  ends it, and with it the test.
- A `text` block is what the block before it prints.  `…` stands for anything within a line, a line
  of `…` for any number of lines; columns may be wider or narrower.

The shell is in an empty folder.  The page's ports 9092, 9093 and 9094 are free ones.
"""

import os
import random
import re
import select
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.docs.pages import ROOT, Block, blocks

PORTS: Final = (9092, 9093, 9094)
TIMEOUT_S: Final = 60.0
WRITTEN: Final = ("python", "ini")
MARK: Final = "----- end of block"
_PORT: Final = re.compile(rf"\b{PORTS[0] // 10}([{PORTS[0] % 10}-{PORTS[-1] % 10}])\b")
_KILLED: Final = re.compile(r"^\S+: line \d+: +\d+ Killed .*\n", re.MULTILINE)
"""What bash says of a background job, at some time."""
_COMMANDS: Final = {
    "odradek": "-m odradek",
    "pytest": "-m pytest -p no:cacheprovider",
    "python": "",
}
_ADD_OPTIONS: Final = """\
case "$1 $2" in
"pipeline generate" | "pipeline checkpoint") ;;
"pipeline "*) set -- "$@" {} ;;
esac
"""


def run_tutorial(
    page: Path,
    directory: Path,
    *,
    python: Path = Path(sys.executable),
    job_options: Sequence[str] = (),
    block_timeout_s: float = TIMEOUT_S,
) -> None:
    """Run the blocks of a page in a directory.  Raises: AssertionError, which names the line.

    `job_options` are added to each job of `odradek pipeline` that runs on Spark.
    """
    base = free_ports()
    environment = environment_of(directory, python, job_options)
    shell = Shell(directory, environment, block_timeout_s)
    try:
        printed = ""
        for block in blocks(page):
            where = f"{page.name}:{block.line}"
            code = _PORT.sub(lambda found: str(base + int(found[1]) - PORTS[0] % 10), block.code)
            if not block.is_run:
                continue
            if block.language in WRITTEN:
                (directory / file_name(block, where)).write_text(code)
            elif block.language == "bash":
                printed = shell.run(code, where)
            elif block.language == "text":
                assert is_as_shown(printed, code), (
                    f"{where} shows\n{code}\nand the command printed\n{printed}"
                )
            else:
                raise AssertionError(f"{where}: a tutorial has no blocks of {block.language!r}")
    finally:
        shell.close()


def file_name(block: Block, where: str) -> str:
    """The file that a block is the content of."""
    comment = re.match(r"[#;] (\S+)\n", block.code)
    assert comment, f"{where}: the first line does not name the file"
    return comment[1]


def is_as_shown(printed: str, shown: str) -> bool:
    """Whether a command printed what the page shows."""
    pattern = "".join(_pattern_of(line) for line in _lines(shown))
    text = "".join(f"{line}\n" for line in _lines(printed))
    return re.fullmatch(pattern, text) is not None


def free_ports() -> int:
    """The first of as many free ports in a row as pages use.

    They lie below those that Linux gives to connections and to whoever asks for any port.
    """
    for _ in range(100):
        first = random.randrange(10_000, 32_000)
        if all(_is_free(first + n) for n in range(len(PORTS))):
            return first
    raise AssertionError(f"no {len(PORTS)} free ports in a row")


def environment_of(directory: Path, python: Path, job_options: Sequence[str]) -> dict[str, str]:
    """The environment of a reader who has installed this checkout."""
    programs = directory / ".bin"
    programs.mkdir()
    for name, words in _COMMANDS.items():
        program = programs / name
        more = _ADD_OPTIONS.format(shlex.join(job_options)) if name == "odradek" else ""
        program.write_text(f'#!/bin/sh\n{more}exec {python} {words} "$@"\n')
        program.chmod(0o755)
    kept = {name: text for name, text in os.environ.items() if not name.startswith("ODRADEK")}
    path = f"{programs}:{os.environ['PATH']}"
    return {
        **kept,
        "PATH": path,
        "PYTHONPATH": str(ROOT),
        "COLUMNS": "80",
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


class Shell:
    """A shell that is typed into block by block, and dies with all that it has started."""

    def __init__(
        self, directory: Path, environment: Mapping[str, str], block_timeout_s: float
    ) -> None:
        self._directory = directory
        self._block_timeout_s = block_timeout_s
        self._process = subprocess.Popen(
            ["bash", "-e"],
            cwd=directory,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def run(self, code: str, where: str) -> str:
        """What the commands print.  Raises: AssertionError if one fails or does not end."""
        assert self._process.stdin is not None
        (self._directory / ".block").write_text(code)
        self._process.stdin.write(f"source ./.block </dev/null\necho '{MARK}'\n".encode())
        self._process.stdin.flush()
        printed, problem = self._read_to_mark()
        assert problem is None, f"{where}: {problem}\n{code}\nprinted\n{printed}"
        return _KILLED.sub("", printed)

    def close(self) -> None:
        """Kill the shell and what it has started."""
        os.killpg(self._process.pid, signal.SIGKILL)
        with self._process:
            pass

    def _read_to_mark(self) -> tuple[str, str | None]:
        assert self._process.stdout is not None
        output, deadline_s = b"", time.monotonic() + self._block_timeout_s
        end = f"{MARK}\n".encode()
        while not output.endswith(end):
            left_s = max(0.0, deadline_s - time.monotonic())
            if not select.select([self._process.stdout], [], [], left_s)[0]:
                return output.decode(), f"not done after {self._block_timeout_s:g} s"
            part = os.read(self._process.stdout.fileno(), 65536)
            if not part:
                return output.decode(), "a command failed"
            output += part
        return output.removesuffix(end).decode(), None


def _lines(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.strip().splitlines()]


def _pattern_of(line: str) -> str:
    if line == "…":
        return "(?:.*\n)*"
    return ".*".join(re.escape(part) for part in line.split("…")) + "\n"


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
