"""Hosts in settings."""

from ipaddress import ip_address


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address or a name, which is written without a port."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
