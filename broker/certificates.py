"""The certificates of listeners and of connections to other brokers, which change as the broker
runs.

As in Kafka, an admin client changes the settings `listener.name.<listener>.ssl.*` of a broker. Any
change of settings of this broker alone, even to the same values, also reads stores again whose
files have changed. New connections use the new certificates, and existing ones live on.

Stores are read by a thread, because a file system may not answer. The old ones then stay.

Source: kafka.server.DynamicBrokerConfig (reloadUpdatedFilesWithoutConfigChange).
"""

import asyncio
import logging
import os
from copy import copy
from typing import TYPE_CHECKING, NamedTuple

from odradek.protocol.errors import ErrorCode, Refused

from . import slow_reads
from .config import Config, ConfigError
from .peers.security import load_context, load_securities
from .runtime import Runtime
from .settings.declaration import Value

if TYPE_CHECKING:
    from ssl import SSLContext

    from .tls.context import Tls

logger = logging.getLogger(__name__)

_Files = tuple[tuple[int, int, int] | None, ...]


class _Loaded(NamedTuple):
    """What a listener uses, and what it is made of."""

    values: dict[str, Value]
    files: _Files
    tls: "Tls"
    client: "SSLContext | None" = None
    """For connections to other brokers' listeners of this name."""


class Certificates:
    """What new connections need, by listeners."""

    def __init__(self, config: Config, runtime: Runtime) -> None:
        """Load the stores of all listeners, and this broker's credentials for others.

        Nothing is served yet, so this is done at once; later they are read by a thread.

        Raises: ConfigError.
        """
        self._reads = slow_reads.SlowReads(runtime)
        self._renewing = asyncio.Lock()
        self._loaded: dict[str, _Loaded] = {}
        for endpoint in config.listener_endpoints:
            if config.listener_tls(endpoint.name) is not None:
                self._loaded[endpoint.name] = _load(config, endpoint.name)
        served = {name: loaded.tls for name, loaded in self._loaded.items()}
        self.securities = load_securities(config, served, runtime)

    def __contains__(self, listener_name: str) -> bool:
        return listener_name in self._loaded

    def tls(self, listener_name: str) -> "Tls":
        """What the next connection of a listener uses."""
        return self._loaded[listener_name].tls

    async def check(self, config: Config) -> None:
        """Check that the listeners could use the settings of `config`, and the files as they are.

        Raises: Refused (INVALID_REQUEST for settings; INVALID_CONFIG if only files have changed).
        """
        for name, loaded in self._loaded.items():
            try:
                await self._in_thread(config, name, True)
            except ConfigError as error:
                is_same = _values(config, name) == loaded.values
                code = ErrorCode.INVALID_CONFIG if is_same else ErrorCode.INVALID_REQUEST
                raise Refused(code, str(error)) from None

    async def renew(self, config: Config, *, rereads: bool) -> None:
        """Use the settings as they are now, and (`rereads`) the files, even of unchanged settings.

        A listener that can't use them keeps its old ones.
        """
        async with self._renewing:  # the last one to read must see the newest settings
            await self._renew(copy(config), rereads)  # they may change meanwhile

    async def _renew(self, config: Config, rereads: bool) -> None:
        for name in self._loaded:
            try:
                renewed = await self._in_thread(config, name, rereads)
            except ConfigError as error:
                logger.error("certificates not renewed listener=%s error=%s", name, error)
                continue
            if renewed is None:
                continue
            self._loaded[name] = renewed
            if renewed.client is not None:
                self.securities[name].context = renewed.client
            logger.info("certificates renewed listener=%s", name)

    async def _in_thread(self, config: Config, listener_name: str, rereads: bool) -> _Loaded | None:
        """`_renewed`, by a thread.  Raises: ConfigError."""
        try:
            return await self._reads(self._renewed, config, listener_name, rereads)
        except TimeoutError:
            raise ConfigError(
                f"the stores of the listener {listener_name} could not be read in "
                f"{slow_reads.TIMEOUT_S:.0f} s: see ssl.keystore.location and "
                "ssl.truststore.location"
            ) from None

    def _renewed(self, config: Config, listener_name: str, rereads: bool) -> _Loaded | None:
        """What the listener would use now; None: nothing has changed.  Raises: ConfigError."""
        from .tls.context import check_names

        old = self._loaded[listener_name]
        values, files = _values(config, listener_name), _files_of(config, listener_name)
        # Files that are gone may come back.
        changed = any(now not in (None, then) for now, then in zip(files, old.files, strict=True))
        if values == old.values and not (changed and rereads):
            return None
        new = _load(config, listener_name)
        given = config.listener_tls(listener_name)
        assert given is not None
        check_names(new.tls, old.tls, given)
        if listener_name in self.securities:
            new = new._replace(client=load_context(config, listener_name, new.tls))
        return new


def _load(config: Config, listener_name: str) -> _Loaded:
    from .tls.context import make_tls

    given = config.listener_tls(listener_name)
    assert given is not None
    # First the files' times: what is written meanwhile is read again the next time.
    files = _files_of(config, listener_name)
    return _Loaded(given.values(), files, make_tls(given))


def _values(config: Config, listener_name: str) -> dict[str, Value]:
    given = config.listener_tls(listener_name)
    assert given is not None
    return given.values()


def _files_of(config: Config, listener_name: str) -> _Files:
    """What tells whether the files of the stores have changed; None for none."""
    values = _values(config, listener_name)
    found: list[tuple[int, int, int] | None] = []
    for name in ("ssl.keystore.location", "ssl.truststore.location"):
        try:
            stat = os.stat(str(values[name] or ""))
        except OSError:
            found.append(None)
        else:
            found.append((stat.st_mtime_ns, stat.st_size, stat.st_ino))
    return tuple(found)
