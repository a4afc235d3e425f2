"""What a process has received from each server, by the kernel's own count of its connections."""

import re
import subprocess
from collections import Counter
from typing import Final

_RECEIVED: Final = re.compile(r"bytes_received:(\d+)")


class Traffic:
    """Bytes received by one process; `look` often, as what is closed is counted no further."""

    def __init__(self, pid: int) -> None:
        self._of_pid = f"pid={pid},"
        self._seen: dict[tuple[str, str], int] = {}

    def look(self) -> None:
        """Note the connections that there are now."""
        command = ["ss", "-t", "-i", "-n", "-p", "-H", "-O"]
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        for line in lines.splitlines():
            if self._of_pid in line and (received := _RECEIVED.search(line)):
                _, _, _, local, remote, *_ = line.split()
                self._seen[local, remote] = int(received[1])

    def received(self) -> Counter[int]:
        """Bytes from each port of a server so far."""
        counts: Counter[int] = Counter()
        for (_, remote), size_bytes in self._seen.items():
            counts[int(remote.rpartition(":")[2])] += size_bytes
        return counts
