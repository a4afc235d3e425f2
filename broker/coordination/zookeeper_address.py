"""Parsing the address of ZooKeeper, as in Kafka's zookeeper.connect."""

import re
from typing import Final

from .interface import BadArguments, StoreError
from .paths import check_path

_HOST: Final = re.compile(r"(?:\[[^\s,/\[\]]+\]|[^\s,/:\[\]]+)(?::(?P<port>\d{1,5}))?")
_PORT_MAX: Final = 65_535


def parse_address(address: str) -> tuple[str, str]:
    """Hosts and chroot ("" or "/a/b") of `zookeeper.connect`.  Raises: StoreError."""
    hosts, slash, chroot = address.partition("/")
    chroot = (slash + chroot).rstrip("/")
    try:
        if chroot:
            check_path(chroot)
        if all(map(_is_host, hosts.split(","))):
            return hosts, chroot
    except BadArguments:
        pass
    raise StoreError(f"{address!r} is not HOST:PORT[,HOST:PORT][/chroot]")


def _is_host(text: str) -> bool:
    match = _HOST.fullmatch(text)
    return match is not None and int(match["port"] or 0) <= _PORT_MAX
