"""A small identity provider: a token endpoint for clients with a secret, and its public keys."""

import json
import threading
import time
from base64 import b64decode
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ssl import SSLContext
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qs

from .tokens import jwk, jwks, signed

HOST: Final = "127.0.0.1"
KEY: Final = "ES256"


class Asked(NamedTuple):
    """One request for a token."""

    client_id: str
    form: Mapping[str, list[str]]
    headers: Mapping[str, str]
    """By their names in small letters."""


class IdentityProvider:
    """What it gives, and what it was asked.  Its port is free again when it is closed."""

    def __init__(self, secrets: Mapping[str, str], *, lasts_s: float = 60) -> None:
        """`secrets`: by client ids, which are the tokens' users, too."""
        self.secrets = secrets
        self.lasts_s = lasts_s
        self.audience = "kafka"
        self.asked: list[Asked] = []
        self.answers: deque[tuple[int, bytes]] = deque()
        """What it answers first, in place of tokens: status and body."""
        self.url = ""

    @property
    def token_url(self) -> str:
        """The token endpoint."""
        return f"{self.url}/token"

    @property
    def keys_url(self) -> str:
        """The JWKS."""
        return f"{self.url}/keys"

    def token_of(self, user: str) -> str:
        """A new token."""
        now_s = time.time()
        claims = {"sub": user, "iat": now_s, "exp": now_s + self.lasts_s, "aud": self.audience}
        return signed(claims, KEY)

    def answer(self, asked: Asked, secret: str) -> tuple[int, bytes]:
        """Status and body for a request."""
        self.asked.append(asked)
        if self.answers:
            return self.answers.popleft()
        if self.secrets.get(asked.client_id) != secret:
            return 401, json.dumps({"error": "invalid_client"}).encode()
        if asked.form.get("grant_type") != ["client_credentials"]:
            return 400, json.dumps({"error": "unsupported_grant_type"}).encode()
        found = {"access_token": self.token_of(asked.client_id), "token_type": "Bearer"}
        return 200, json.dumps({**found, "expires_in": int(self.lasts_s)}).encode()


@contextmanager
def serving(provider: IdentityProvider, context: SSLContext | None = None) -> Iterator[None]:
    """Serve a provider by threads."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send(200, jwks(jwk(KEY)))

        def do_POST(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            basic = self.headers["Authorization"].removeprefix("Basic ")
            client_id, _, secret = b64decode(basic).decode().partition(":")
            headers = {name.lower(): value for name, value in self.headers.items()}
            self._send(*provider.answer(Asked(client_id, form, headers), secret))

        def _send(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer((HOST, 0), Handler) as server:
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        scheme = "http" if context is None else "https"
        provider.url = f"{scheme}://{HOST}:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()
