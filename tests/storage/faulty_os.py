"""System calls of storage that fail one at a time, wherever in the code they are made.

Stands in for `os` and `shutil` in the two modules that touch the disk. Every call is numbered and
knows its site: the functions of storage on the stack. fsync does nothing, or fails.
"""

import contextlib
import errno
import functools
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, Final, NamedTuple

import pytest

from odradek.storage import files
from odradek.storage.log import log_file

SHORT: Final = -1  # not an errno: half of the data is written, and no error
TORN: Final = -2  # half of the data is written, and the next write has no room
_WRITES: Final = frozenset({"write", "pwrite"})
_GROWS: Final = frozenset({"write", "pwrite", "mkdir", "makedirs", "create", "replace"})
_COUNTED: Final = (
    *("open", "read", "write", "pread", "preadv", "pwrite", "ftruncate", "replace", "unlink"),
    *("mkdir", "makedirs", "scandir", "statvfs", "fsync"),
)
_STORAGE: Final = os.path.dirname(os.path.realpath(files.__file__))

Site = tuple[str, ...]


class Fault(NamedTuple):
    """A call fails in this way: the one with this number, or the first at this site."""

    number: int
    kind: int
    site: Site

    def __str__(self) -> str:
        kind = {SHORT: "SHORT", TORN: "TORN"}.get(self.kind) or errno.errorcode[self.kind]
        return f"{kind} in call {self.number}: {' > '.join(self.site)}"


class FaultyOs:
    """Counts calls; the one that `fault` names fails."""

    def __init__(self, fault: Fault | None = None) -> None:
        self.fault = fault
        self.by_site = False
        """Whether the site of the fault counts, as threads make the numbers vary."""
        self.has_failed = False
        self.sites: list[Site] = []
        """Of each call; the last item of a site is the call."""
        self.fsyncs_after_failure = 0
        self.is_full = False
        """Nothing can be made or grow now."""
        self._has_failed_sync = False

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        return self._wrap(name, real) if name in _COUNTED else real

    def rmtree(self, path: str) -> None:
        """As shutil's, as one call."""
        self._wrap("rmtree", shutil.rmtree)(path)

    def _wrap(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **more: Any) -> Any:
            creates = name == "open" and arguments[1] & os.O_CREAT
            kind = self._meet("create" if creates else name)
            if kind in (SHORT, TORN):
                descriptor, data, *position = arguments
                return real(descriptor, memoryview(data)[: max(1, len(data) // 2)], *position)
            return None if name == "fsync" else real(*arguments, **more)

        return call

    def _meet(self, name: str) -> int:
        """Raise if this call fails; else how it comes short."""
        number, site = len(self.sites), _site(name)
        self.sites.append(site)
        self.fsyncs_after_failure += self._has_failed_sync and name == "fsync"
        fault = self.fault
        if fault is not None and self.by_site and not self.has_failed:
            # Threads let the numbers differ from run to run: until the site is met, none counts.
            at = number if site == fault.site else number + 1
            fault = self.fault = fault._replace(number=at)
        if self.is_full and name in _GROWS:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if fault is None or number < fault.number or number > fault.number + (fault.kind == TORN):
            return 0
        if fault.kind == TORN and number > fault.number:
            if name in _WRITES:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return 0
        self.has_failed = True
        if fault.kind < 0:
            return fault.kind
        self._has_failed_sync |= name == "fsync"
        raise OSError(fault.kind, os.strerror(fault.kind))

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Stand in for the modules."""
        with pytest.MonkeyPatch.context() as patch:
            for module in (files, log_file):
                patch.setattr(module, "os", self)
            patch.setattr(files, "shutil", self)
            yield

    def faults(self, *, every_call: bool = False) -> list[Fault]:
        """Each way in which each site can fail, at its first call (or at every call)."""
        found, seen = [], set()
        for number, site in enumerate(self.sites):
            if site in seen and not every_call:
                continue
            seen.add(site)
            kinds = [errno.EIO]
            if site[-1] in _GROWS or site[-1] == "fsync":
                kinds.append(errno.ENOSPC)
            if site[-1] in _WRITES:
                kinds += [SHORT, TORN]
            found += [Fault(number, kind, site) for kind in kinds]
        return found


@functools.cache
def _is_storage(path: str) -> bool:
    return os.path.dirname(os.path.realpath(path)).startswith(_STORAGE)


def _site(name: str) -> Site:
    functions = []
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        if _is_storage(frame.f_code.co_filename):
            functions.append(frame.f_code.co_name)
        frame = frame.f_back
    return (*reversed(functions), name)
