"""Runs a script of commands against a new broker, and writes down what each prints.

    python -m tests.cli.transcript.session > tests/cli/transcript/transcript.txt

What differs from run to run (ports, ids, times) is replaced by words in capitals.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.kafka.process import free_port, killed_at_the_end

SCRIPT: Final = Path(__file__).parent / "commands.sh"
TRANSCRIPT: Final = Path(__file__).parent / "transcript.txt"
LINES_MAX: Final = 40
TIMEOUT_S: Final = 60

_VOLATILE: Final = (
    (r"127\.0\.0\.1:$PORT\b", "BROKER"),
    (r"localhost:$PORT\b", "BROKER"),
    (r"\b$NOBODY\b", "NOBODY"),
    (r"\b$WEB\b", "WEB"),
    (r"\b[0-9A-Za-z_-]{22}\b", "UUID"),
    (r"\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?(\+00:00|Z)?", "TIME"),
    (r"\b17\d{11}\b|\b18\d{11}\b", "MILLISECONDS"),
    (r"\brdkafka-[0-9a-f-]{36}\b", "MEMBER"),
    (r"startup_ms=\d+", "startup_ms=N"),
)


def commands() -> list[str]:
    """The commands of the script: paragraphs, without comments."""
    text = re.sub(r"^#.*\n", "", SCRIPT.read_text(), flags=re.MULTILINE)
    return [paragraph.strip() for paragraph in text.split("\n\n") if paragraph.strip()]


@contextmanager
def typed() -> Iterator["Shell"]:
    """A shell in an empty folder, with a broker, a web server and a port where nobody listens."""
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder)) as shell:
        yield shell


@contextmanager
def serving(folder: Path) -> Iterator["Shell"]:
    """Start the servers of a session."""
    port, nobody, web = free_port(), free_port(), free_port()
    data = folder / "data"
    serve = [sys.executable, "-m", "odradek", "serve", "--listen", f"127.0.0.1:{port}"]
    httpd = [sys.executable, "-m", "http.server", str(web), "--bind", "127.0.0.1"]
    with (
        killed_at_the_end(
            subprocess.Popen([*serve, "--data-dir", str(data)], stdout=subprocess.PIPE)
        ) as broker,
        killed_at_the_end(
            subprocess.Popen(httpd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        ),
    ):
        assert broker.stdout is not None and b"ready" in broker.stdout.readline()
        home = folder / "home"
        home.mkdir()
        yield Shell(home, {"PORT": port, "NOBODY": nobody, "WEB": web})


class Shell:
    """Runs lines as bash does, with `odradek` on the path."""

    def __init__(self, home: Path, ports: dict[str, int]) -> None:
        bin_folder = home / "bin"
        bin_folder.mkdir()
        script = bin_folder / "odradek"
        script.write_text(f'#!/bin/sh\nexec {sys.executable} -m odradek "$@"\n')
        script.chmod(0o755)
        self._home = home
        self._ports = ports
        self._environment = {
            **{name: value for name, value in os.environ.items() if "ODRADEK" not in name},
            "PATH": f"{bin_folder}:{os.environ['PATH']}",
            "PYTHONPATH": os.getcwd(),
            "HOME": str(home),
            "COLUMNS": "100",
            "LC_ALL": "C.UTF-8",
            "ODRADEK_BOOTSTRAP_SERVERS": f"127.0.0.1:{ports['PORT']}",
            **{name: str(port) for name, port in ports.items()},
        }

    def run(self, command: str) -> str:
        """The command behind `$ `, what it prints, and its exit code if that is not 0."""
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", command],
            cwd=self._home,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=TIMEOUT_S,
        )
        lines = self._steady(done.stdout.decode(errors="replace")).splitlines()
        if len(lines) > LINES_MAX:
            lines[LINES_MAX:] = [f"… {len(lines) - LINES_MAX} more lines"]
        code = [f"[exit code {done.returncode}]"] if done.returncode else []
        return "\n".join([f"$ {command}", *lines, *code]) + "\n"

    def _steady(self, text: str) -> str:
        for pattern, word in _VOLATILE:
            for name, port in self._ports.items():
                pattern = pattern.replace(f"${name}", str(port))
            text = re.sub(pattern, word, text)
        return text.replace(str(self._home), "~")


def main() -> None:
    """Print the transcript."""
    with typed() as shell:
        print("\n".join(shell.run(command) for command in commands()), end="")


if __name__ == "__main__":
    main()
