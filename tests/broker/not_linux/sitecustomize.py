"""Hides what only Linux has, in each Python that has this folder on its path, and its children.

Python imports a module of this name before any other of its user's.  A system with none of these
names is poorer than macOS, which has some.
"""

import builtins
import importlib
import io
import os
import posix
import re
import sys
import types
from typing import Any, Final

NAMES: Final = {  # patterns of what a name begins with
    "select": "EPOLL epoll",  # first: other modules look what it has when they are imported
    "os": (
        "CLONE_ EFD_ GRND_ MFD_ O_DIRECT$ O_NOATIME$ O_PATH$ O_TMPFILE$ PIDFD_ POSIX_FADV_ RWF_"
        " SCHED_ SF_ SPLICE_ TFD_ XATTR_ copy_file_range eventfd fdatasync getrandom getxattr"
        " listxattr memfd_create pidfd_ pipe2 posix_fadvise posix_fallocate preadv pwritev"
        " removexattr sched_.etaffinity sendfile setns setxattr splice timerfd_ unshare"
    ),
    "socket": (
        "AF_ALG AF_CAN AF_NETLINK AF_PACKET AF_TIPC AF_VSOCK ALG_ CAN_ EPOLL IP_BIND_ IP_RECVERR"
        " MSG_CONFIRM MSG_ERRQUEUE MSG_MORE MSG_NOSIGNAL NETLINK_ SOCK_CLOEXEC SOCK_NONBLOCK"
        " SO_BINDTODEVICE SO_DOMAIN SO_INCOMING_CPU SO_MARK SO_PASSCRED SO_PEERCRED SO_PRIORITY"
        " SO_PROTOCOL TCP_(?!NODELAY$) TIPC_ UDPLITE_"
    ),
    "signal": "SIGCLD SIGPOLL SIGPWR SIGRT SIGSTKFLT pidfd_ sigtimedwait sigwaitinfo signalfd",
    "fcntl": (
        "DN_ F_ADD_SEALS F_GETLEASE F_GETPIPE_SZ F_GETSIG F_GET_SEALS F_NOTIFY F_OFD_ F_SEAL_"
        " F_SETLEASE F_SETPIPE_SZ F_SETSIG FICLONE"
    ),
    "resource": "RLIMIT_(MSGQUEUE|NICE|OFILE|RT|SIG) RUSAGE_THREAD prlimit",
    "time": "CLOCK_BOOTTIME CLOCK_TAI pthread_getcpuclockid",
}
_open, _os_open = io.open, os.open


def _refuse(path: Any) -> None:
    if isinstance(path, str | os.PathLike) and str(path).startswith(("/proc", "/sys/")):
        raise FileNotFoundError(2, "No such file or directory", str(path))


def _open_but_proc(file: Any, *arguments: Any, **named: Any) -> Any:
    _refuse(file)
    return _open(file, *arguments, **named)


def _os_open_but_proc(path: Any, *arguments: Any, **named: Any) -> int:
    _refuse(path)
    return _os_open(path, *arguments, **named)


def hide() -> None:
    """Delete the names, and say that this is another system."""
    for module_name, patterns in NAMES.items():
        module = importlib.import_module(module_name)
        hidden = re.compile("|".join(patterns.split()))
        for name in [name for name in vars(module) if hidden.match(name)]:
            delattr(module, name)
            if module is os:
                vars(posix).pop(name, None)
    builtins.open = io.open = _open_but_proc
    os.open = _os_open_but_proc
    _hide_prctl()
    _offer_scproxy()
    sys.platform = "darwin"


def _offer_scproxy() -> None:
    """Stand in for a module of macOS, which urllib imports there."""
    module = types.ModuleType("_scproxy")
    vars(module).update(_get_proxies=dict, _get_proxy_settings=dict)
    sys.modules[module.__name__] = module


def _hide_prctl() -> None:
    import ctypes

    find = ctypes.CDLL.__getattr__

    def find_but_prctl(library: ctypes.CDLL, name: str) -> Any:
        if name == "prctl":
            raise AttributeError(name)
        return find(library, name)

    ctypes.CDLL.__getattr__ = find_but_prctl  # type: ignore[method-assign]


hide()
