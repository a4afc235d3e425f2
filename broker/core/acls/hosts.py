"""The address of a client, as ACLs have it.

Source: Inet6Address.getHostAddress, which Kafka's authorizers compare with the host of an ACL.
"""

from functools import lru_cache
from ipaddress import IPv6Address
from typing import Final

_KNOWN_MAX: Final = 1_000


@lru_cache(_KNOWN_MAX)
def host_in_acls(address: str) -> str:
    """`::1` is `0:0:0:0:0:0:0:1`, as Java does not shorten zeros; an IPv4 address is the same."""
    if ":" not in address:
        return address
    bare, percent, zone = address.partition("%")
    groups = IPv6Address(bare).exploded.split(":")
    return ":".join(f"{int(group, 16):x}" for group in groups) + percent + zone
