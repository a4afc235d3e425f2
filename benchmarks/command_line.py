"""`python -m benchmarks.command_line`: `odradek produce` and `consume` beside kcat.

Both write 500,000 short lines to one broker and read them back, in turn; the times are those of
whole processes.  Prints medians, least and greatest, and ratios.  `--json` is compared with kcat's
-J; kcat does not write JSON, so writing it is compared with plain lines.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.kafka.process import free_port

LINES: Final = 500_000
OURS: Final = (sys.executable, "-m", "odradek")


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.command_line", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds: int = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as directory, broker(Path(directory) / "data") as address:
        lines = Path(directory) / "lines"
        lines.write_text("".join(f"line number {n}\n" for n in range(LINES)))
        json_lines = Path(directory) / "json"
        timed((*OURS, "produce", "warm", "-b", address), lines, json_lines)
        timed(
            (*OURS, "consume", "warm", "--until", "now", "--json", "-b", address), None, json_lines
        )
        samples: dict[str, tuple[list[float], list[float]]] = {}
        for number in range(rounds):
            for name, (ours, theirs, stdin) in pairs(address, number, lines, json_lines).items():
                found = samples.setdefault(name, ([], []))
                found[0].append(timed(ours, stdin))
                found[1].append(timed(theirs, lines if stdin else None))
    print(f"{'':16}{'odradek s':>22}{'kcat s':>22}  ratio")
    for name, (ours_s, theirs_s) in samples.items():
        ratio = statistics.median(a / b for a, b in zip(ours_s, theirs_s, strict=True))
        print(f"{name:16}{spread(ours_s):>22}{spread(theirs_s):>22}  {ratio:.2f}")


def pairs(
    address: str, number: int, lines: Path, json_lines: Path
) -> Mapping[str, tuple[tuple[str, ...], tuple[str, ...], Path | None]]:
    """Our command, kcat's, and what ours reads; each writes to a topic of its own."""
    where = ("-b", address)
    kcat = ("kcat", *where)
    read = ("warm", "--until", "now", *where)
    return {
        "produce": (
            (*OURS, "produce", f"a{number}", *where),
            (*kcat, "-P", "-t", f"b{number}", "-X", "enable.idempotence=true"),
            lines,
        ),
        "produce --json": (
            (*OURS, "produce", f"c{number}", "--json", *where),
            (*kcat, "-P", "-t", f"d{number}", "-X", "enable.idempotence=true"),
            json_lines,
        ),
        "consume": ((*OURS, "consume", *read), (*kcat, "-C", "-t", "warm", "-e", "-q"), None),
        "consume --json": (
            (*OURS, "consume", "--json", *read),
            (*kcat, "-C", "-t", "warm", "-e", "-q", "-J"),
            None,
        ),
    }


def timed(command: tuple[str, ...], stdin: Path | None, stdout: Path | None = None) -> float:
    """How long a process takes, in seconds."""
    with (
        open(stdin or os.devnull, "rb") as given,
        open(stdout or os.devnull, "wb") as printed,
    ):
        begin_s = time.perf_counter()
        subprocess.run(command, stdin=given, stdout=printed, check=True)
        return time.perf_counter() - begin_s


def spread(samples: list[float]) -> str:
    """The median, with the least and the greatest."""
    return f"{statistics.median(samples):.2f} ({min(samples):.2f}-{max(samples):.2f})"


@contextmanager
def broker(data: Path, *settings: str) -> Iterator[str]:
    """A broker in a process of its own; yields its address."""
    address = f"127.0.0.1:{free_port()}"
    command = [*OURS, "serve", "--listen", address, "--data-dir", str(data), "--log-level", "error"]
    for setting in settings:
        command += ["--set", setting]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None and process.stdout.readline()
            yield address
        finally:
            process.terminate()


if __name__ == "__main__":
    main()
