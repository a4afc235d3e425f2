"""`python -m odradek.testing.lifeline COMMAND…`: run a command that must not outlive who wants it.

The command is ended when standard input ends, which it does at the latest with the process that
holds its other end, however that dies.
"""

import contextlib
import os
import subprocess
import sys
import threading

END_TIMEOUT_S = 10.0


def main() -> None:
    """Run it; exit as it does."""
    process = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
    threading.Thread(target=_end_with_stdin, args=(process,), daemon=True).start()
    sys.exit(process.wait())


def _end_with_stdin(process: "subprocess.Popen[bytes]") -> None:
    while os.read(sys.stdin.fileno(), 4096):  # not buffered: a lock would be held at the end
        pass
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(END_TIMEOUT_S)
    process.kill()


if __name__ == "__main__":
    main()
