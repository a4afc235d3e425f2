"""Settings of the admin API, and the form of its address."""

from ipaddress import ip_address
from typing import Any, NamedTuple

from odradek.host_port import parse_host_port

from .declaration import LONG, PASSWORD, STRING, ConfigError, Setting
from .hosts import is_loopback

UNIX = "unix:"


class AdminAddress(NamedTuple):
    """Where the admin API listens: a host and a port, or the path of a Unix socket."""

    host: str = ""
    port: int = 0
    path: str = ""

    def __str__(self) -> str:
        return f"{UNIX}{self.path}" if self.path else f"http://{self.authority}/"

    @property
    def authority(self) -> str:
        """`HOST:PORT`, an IPv6 address in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_local(self) -> bool:
        """Whether only this machine reaches it."""
        return bool(self.path) or is_loopback(self.host)

    @property
    def is_wildcard(self) -> bool:
        """Whether it listens on all interfaces, so that its host is no name of this machine."""
        try:
            return ip_address(self.host).is_unspecified
        except ValueError:
            return False


def parse_admin_listener(text: str) -> AdminAddress | None:
    """Parse HOST:PORT, [IPV6]:PORT or unix:PATH; None if it is none of them."""
    if text.startswith(UNIX):
        path = text.removeprefix(UNIX)
        return AdminAddress(path=path) if path else None
    try:
        host, port = parse_host_port(text, port_min=0)
    except ValueError:
        return None
    return AdminAddress(host=host, port=port)


def _listener(text: str) -> str | None:
    if not text or parse_admin_listener(text) is not None:
        return None
    return "HOST:PORT, unix:PATH, or empty for no admin API"


def _token(text: str) -> str | None:
    return None if all("!" <= sign <= "~" for sign in text) else "ASCII without blanks"


class AdminSettings:
    """The admin API: HTTP with JSON, by which tests and tools drive the brokers of a process."""

    odradek_admin_listener = Setting(
        "odradek.admin.listener",
        STRING,
        "",
        "Where the admin API listens, as HOST:PORT or unix:PATH; port 0 takes a free one. Empty: "
        "there is none. It can stop brokers and do everything that an administrator may. One "
        "process has one, also with several brokers.",
        check=_listener,
    )
    odradek_admin_token = Setting(
        "odradek.admin.token",
        PASSWORD,
        "",
        "The token that clients of the admin API must send, as `Authorization: Bearer TOKEN`. "
        "Empty: none, which is only allowed on a loopback address or a Unix socket.",
        check=_token,
    )
    odradek_journal_frames_bytes = Setting(
        "odradek.journal.frames.bytes",
        LONG,
        0,
        "How many bytes of requests the journal of the admin API keeps, the last ones, for "
        "`odradek replay`. Logins and other requests that may hold a password are left out. 0: it "
        "keeps only what they were about.",
        at_least=0,
    )


def check_admin_settings(config: Any) -> None:
    """Check that strangers can't use the admin API.  Raises: ConfigError."""
    text = config.odradek_admin_listener
    address = parse_admin_listener(text)
    if address is not None and not address.is_local and not config.odradek_admin_token:
        raise ConfigError(
            f"odradek.admin.listener={text} is not a loopback address, so everyone who reaches it "
            "could stop the brokers: set odradek.admin.token, too"
        )
