"""Several brokers in one child process."""

import json
import sys
from pathlib import Path

from .child import ChildBroker
from .ready import Start


class ChildCluster(ChildBroker):
    """`odradek.testing.cluster_process` as a child."""

    def __init__(self, log_path: Path, *, brokers: int, start_timeout_s: float) -> None:
        super().__init__(log_path, start_timeout_s=start_timeout_s)
        self._brokers = brokers

    def _command(self, given: Start) -> list[str]:
        told = {
            "brokers": self._brokers,
            "data_dir": str(given.data_dir),
            "ports": given.ports,
            "settings": given.of_process(port=0),
        }
        path = self._file_of_owner("json", json.dumps(told))
        return [sys.executable, "-P", "-m", "odradek.testing.cluster_process", path]
