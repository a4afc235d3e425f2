"""Addresses as users write them: HOST:PORT, an IPv6 address in brackets, as in `[::1]:9092`."""

from typing import Final

PORT_MAX: Final = 65_535


def parse_host_port(text: str, *, port_min: int = 1) -> tuple[str, int]:
    """Host, without brackets, and port.  Raises: ValueError, which says what is wrong."""
    host, separator, port = text.rpartition(":")
    is_bracketed = host.startswith("[") and host.endswith("]")
    host = host[1:-1] if is_bracketed else host
    if ":" in host and not is_bracketed and "/" not in host:
        raise ValueError(f"{text!r}: an IPv6 address stands in brackets")
    is_host = host and not set("/@[]").intersection(host) and (":" in host) == is_bracketed
    if not (separator and is_host and port.isascii() and port.isdigit()):
        raise ValueError(f"{text!r} is not HOST:PORT")
    if len(port) > len(str(PORT_MAX)) or not port_min <= int(port) <= PORT_MAX:
        raise ValueError(f"{text!r}: a port is between {port_min} and {PORT_MAX}")
    return host, int(port)
