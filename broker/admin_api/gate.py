"""Who may use the admin API: not a web page, and not a stranger.

A page in a browser of this machine can send requests to a loopback address, but not these: with a
Content-Type that only scripts send, for which the browser first asks with OPTIONS, and never gets
a permission (there are no CORS headers). Nor can a page whose own name was made to resolve to
127.0.0.1: it would send that name as Host.
"""

import hmac
from collections.abc import Mapping

from ..settings.admin import AdminAddress
from ..settings.hosts import is_loopback
from .problems import Problem

CONTENT_TYPE = "application/json"
_BEARER = "bearer "


class Gate:
    """The conditions that every request must meet."""

    def __init__(self, address: AdminAddress, token: str) -> None:
        """`token`: empty for none."""
        self._address = address
        self._token = token

    def check(self, method: str, headers: Mapping[str, str]) -> None:
        """Raises: Problem."""
        self._check_host(headers.get("host", ""))
        self._check_token(headers.get("authorization", ""))
        if method == "POST" or "content-type" in headers:
            _check_content_type(headers.get("content-type"))

    def _check_host(self, host: str) -> None:
        if self._address.path:
            return  # no web page reaches a Unix socket
        name = _name_in(host)
        if is_loopback(name) or name == self._address.host.lower():
            return
        if self._address.is_wildcard:
            return  # it has any name, and a token protects it
        raise Problem(403, f"the Host header names {host[:100]!a}, not {self._address.authority}")

    def _check_token(self, authorization: str) -> None:
        if not self._token:
            return
        given = authorization[len(_BEARER) :].strip()
        is_bearer = authorization[: len(_BEARER)].lower() == _BEARER
        is_right = hmac.compare_digest(given.encode("utf-8"), self._token.encode())
        if not (is_bearer and is_right):
            raise Problem(
                401,
                "this needs the header Authorization: Bearer TOKEN, with odradek.admin.token",
                headers={"WWW-Authenticate": 'Bearer realm="odradek"'},
            )


def _check_content_type(given: str | None) -> None:
    kind = (given or "").partition(";")[0].strip().lower()
    if kind != CONTENT_TYPE:
        raise Problem(415, f"this needs the header Content-Type: {CONTENT_TYPE}")


def _name_in(host: str) -> str:
    """The name in a Host header, without a port and brackets, in small letters."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()
