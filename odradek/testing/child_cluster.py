"""Several brokers in one child process."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from .child import ChildBroker


class ChildCluster(ChildBroker):
    """`odradek.testing.cluster_process` as a child."""

    def __init__(self, log_path: Path, *, brokers: int, start_timeout_s: float) -> None:
        super().__init__(log_path, start_timeout_s=start_timeout_s)
        self._brokers = brokers

    def _command(
        self, ports: Sequence[int], data_dir: Path, protocol: str, settings: Mapping[str, str]
    ) -> list[str]:
        given = {
            "brokers": self._brokers,
            "data_dir": str(data_dir),
            "ports": ports,
            "settings": {**settings, "listeners": f"{protocol}://127.0.0.1:0"},
        }
        path = self._file_of_owner("json", json.dumps(given))
        return [sys.executable, "-P", "-m", "odradek.testing.cluster_process", path]
