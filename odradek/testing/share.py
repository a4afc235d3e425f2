"""One broker for all workers of a run of pytest-xdist.

The first worker that wants the broker starts it and holds the lock `owner`. Its address is in a
file for the others. Whoever uses it holds the lock `users` together with the others, so the owner
ends the broker when it can have that lock alone. The system releases the locks of a process that
dies: the next worker that asks then starts another broker.
"""

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from .broker import Broker
from .errors import BrokerFailed, hides
from .marker import Refused, Wanted

__tracebackhide__ = hides
WAIT_S: Final = 60.0
POLL_S: Final = 0.02
_TOLD: Final = "broker.json"


class SharedBroker:
    """The broker of a run, as one worker sees it."""

    def __init__(self, directory: Path) -> None:
        """`directory`: that of the run, the same for all workers.  Raises: Refused."""
        try:
            import fcntl
        except ImportError:
            raise Refused("odradek_share needs locks of files as Unix has them") from None
        self._fcntl = fcntl
        directory.mkdir(exist_ok=True)
        self._directory = directory
        self._own: Broker | None = None
        self._locks: dict[str, int] = {}

    def join(self, wanted: Wanted) -> Mapping[str, str]:
        """Use it from now on; its `bootstrap_servers` and `admin_url`.  Raises: BrokerFailed."""
        self._lock("users", self._fcntl.LOCK_SH)
        deadline_s = time.monotonic() + WAIT_S
        while True:
            if self._becomes_owner():
                return self._start(wanted)
            try:
                told: Mapping[str, str] = json.loads((self._directory / _TOLD).read_text())
                return told
            except FileNotFoundError:
                if time.monotonic() > deadline_s:
                    raise BrokerFailed("the worker that starts the shared broker doesn't") from None
            time.sleep(POLL_S)

    def leave(self) -> None:
        """Use it no longer; the owner waits for the others, and ends it.  Raises: BrokerFailed."""
        try:
            if self._own is not None:
                self._lock("users", self._fcntl.LOCK_EX)
                (self._directory / _TOLD).unlink(missing_ok=True)
                self._own.close()
        finally:
            for descriptor in self._locks.values():
                os.close(descriptor)
            self._locks.clear()

    def _becomes_owner(self) -> bool:
        try:
            self._lock("owner", self._fcntl.LOCK_EX | self._fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _start(self, wanted: Wanted) -> Mapping[str, str]:
        file = self._directory / _TOLD
        file.unlink(missing_ok=True)  # of an owner that died
        self._own = Broker(settings=dict(wanted.settings), brokers=wanted.brokers)
        try:
            self._own.start()
        except BrokerFailed:  # another worker may have more luck, and need not wait for this one
            self._own = None
            os.close(self._locks.pop("owner"))
            raise
        told = {
            "bootstrap_servers": self._own.bootstrap_servers,
            "admin_url": self._own.admin_url,
        }
        fresh = file.with_suffix(".new")
        fresh.write_text(json.dumps(told))
        fresh.rename(file)  # only whole can others see it
        return told

    def _lock(self, name: str, kind: int) -> None:
        if name not in self._locks:
            self._locks[name] = os.open(self._directory / name, os.O_CREAT | os.O_RDWR, 0o600)
        self._fcntl.flock(self._locks[name], kind)
