"""What `odradek serve --secure` keeps in the data directory, each file readable by its owner only.

The authority and the password are made once. The broker's certificate is made at every start, so
that it has the names of the day and never gets old. The files for clients are written once the
broker's port is known.

They are plain files with a common prefix, because every directory inside a data directory is taken
for a partition, by Kafka as well.
"""

import os
import secrets
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final

from odradek.broker.settings.declaration import ConfigError
from odradek.client_configs import Access

from .authority import Authority, Issued
from .client_files import client_files

PREFIX: Final = "secure-"
USER: Final = "admin"
MECHANISM: Final = "SCRAM-SHA-512"
PROTOCOL: Final = "SASL_SSL"
_PASSWORD_BYTES: Final = 24


class SecureFiles:
    """The files of one data directory."""

    def __init__(self, directory: str) -> None:
        self._directory = Path(directory).absolute()
        self.authority = self._path("authority.pem")
        self.store = self._path("broker.pem")
        self._authority_key = self._path("authority.key")
        self._password = self._path("password")

    def prepare(self, hosts: Iterable[str], now: datetime) -> None:
        """Make what is missing, and a new certificate for these hosts.  Raises: ConfigError."""
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            authority = self._stored_authority() or self._new_authority(now)
            self._write(self.store, authority.issue("broker", hosts, now).store)
            if not self._password.exists():
                self._write(self._password, secrets.token_urlsafe(_PASSWORD_BYTES).encode())
        except OSError as error:
            raise ConfigError(f"--secure cannot write {error.filename}: {error.strerror}") from None

    @property
    def access(self) -> Access:
        """How clients reach the broker.  Raises: OSError."""
        password = self._password.read_text().strip()
        return Access(str(self.authority), MECHANISM, USER, password)

    def write_clients(self, bootstrap_servers: str) -> dict[str, Path]:
        """Write a file for each client; return their paths.  Raises: OSError."""
        texts = client_files(partial(self.access.config, bootstrap_servers=bootstrap_servers))
        paths = {name: self._path(name) for name in texts}
        for name, path in paths.items():
            self._write(path, texts[name].encode())
        return paths

    def _stored_authority(self) -> Authority | None:
        if not self._authority_key.exists() or not self.authority.exists():
            return None
        try:
            return Authority.load(
                Issued(self.authority.read_bytes(), self._authority_key.read_bytes())
            )
        except ValueError as error:
            raise ConfigError(
                f"{self._authority_key} and {self.authority} cannot be read ({error}): restore "
                "them, or remove both, and clients must trust the new authority"
            ) from None

    def _new_authority(self, now: datetime) -> Authority:
        made = Authority.make("Odradek authority", now)
        self._write(self._authority_key, made.pem.key)
        self._write(self.authority, made.pem.certificate)
        return made

    def _path(self, name: str) -> Path:
        return self._directory / f"{PREFIX}{name}"

    def _write(self, path: Path, data: bytes) -> None:
        """Replace a file: a reader sees the old one or the new one."""
        descriptor, temporary = tempfile.mkstemp(dir=self._directory, prefix=PREFIX)  # mode 0600
        try:
            with open(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
