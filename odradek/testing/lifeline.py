"""`python -m odradek.testing.lifeline COMMAND…`: runs a command that must not outlive its parent.

The command is terminated when standard input ends, at the latest when the process that holds the
other end dies, however that happens.
"""

import contextlib
import os
import subprocess
import sys
import threading

END_TIMEOUT_S = 10.0


def main() -> None:
    """Run the command, and exit with its code."""
    process = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
    threading.Thread(target=_end_with_stdin, args=(process,), daemon=True).start()
    sys.exit(process.wait())


def _end_with_stdin(process: "subprocess.Popen[bytes]") -> None:
    while os.read(sys.stdin.fileno(), 4096):  # unbuffered: a lock would be held at exit
        pass
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(END_TIMEOUT_S)
    process.kill()


if __name__ == "__main__":
    main()
