"""Client quotas in the store: reading them, and changing them as Kafka does."""

import logging
from collections.abc import AsyncIterator, Mapping, Sequence

from odradek.protocol.errors import ErrorCode

from ..coordination import znodes
from ..coordination.interface import Create, Delete, NoNode, Op, Session, Set
from ..coordination.json_fields import MalformedZnode
from ..core.client_quotas import (
    CLIENT_ID,
    FOLDERS,
    USER,
    Change,
    Entity,
    changed,
    decode_name,
    entity_path,
    quotas_in,
)
from .config_writes import ABSENT, change_config

logger = logging.getLogger(__name__)


class ClientQuotas:
    """The client quotas of the whole cluster."""

    def __init__(self, session: Session) -> None:
        self._session = session

    # Reading.

    async def all(self) -> AsyncIterator[tuple[Entity, dict[str, float]]]:
        """Yield every entity that has quotas, with its quotas."""
        for entity_type, folder in FOLDERS.items():
            for name in await self._children(f"/config/{folder}"):
                path = f"/config/{folder}/{name}"
                entity: Entity = {entity_type: decode_name(name)}
                if quotas := quotas_in((await self._read(path))[0], entity):
                    yield entity, quotas
                if entity_type != USER:
                    continue
                for client in await self._children(f"{path}/clients"):
                    both = {**entity, CLIENT_ID: decode_name(client)}
                    config, _ = await self._read(f"{path}/clients/{client}")
                    if quotas := quotas_in(config, both):
                        yield both, quotas

    async def _children(self, path: str) -> list[str]:
        try:
            return await self._session.children(path)
        except NoNode:
            return []

    async def _read(self, path: str) -> tuple[dict[str, str], int]:
        """The config and version of a znode; the version is ABSENT if it does not exist."""
        try:
            data, stat = await self._session.get(path)
        except NoNode:
            return {}, ABSENT
        try:
            return znodes.decode_config(data), stat.version
        except MalformedZnode as error:
            logger.error("client quotas ignored path=%s error=%s", path, error)
            return {}, stat.version

    # Changing.

    async def alter(
        self, entity: Entity, changes: Sequence[Change], *, validate_only: bool = False
    ) -> int:
        """Set and remove quotas of one entity; return the number of the notification.

        Raises: Refused (INVALID_REQUEST, STALE_CONTROLLER_EPOCH).
        """
        name = entity_path(entity)
        path = f"/config/{name}"

        async def plan(old: dict[str, str], version: int) -> Sequence[Op] | None:
            new = changed(old, entity, changes)
            if validate_only:
                return None
            if new:
                return await self._setting(path, new, version)
            return await self._removing(path, version)

        too_large = ErrorCode.INVALID_REQUEST
        return await change_config(self._session, name, plan, too_large=too_large)

    async def _setting(self, path: str, config: Mapping[str, str], version: int) -> list[Op]:
        data = znodes.encode_config(config)
        if version != ABSENT:
            return [Set(path, data, version)]
        parents = []
        parent = path.rpartition("/")[0]
        while await self._session.exists(parent) is None:
            parents.append(parent)
            parent = parent.rpartition("/")[0]
        return [*(Create(parent) for parent in reversed(parents)), Create(path, data)]

    async def _removing(self, path: str, version: int) -> list[Op]:
        """Delete the entity's znode, or empty it if it has children.

        A user without own quotas goes with its last client.
        """
        if version == ABSENT:
            return []
        if await self._children(path):
            return [Set(path, znodes.encode_config({}), version)]
        ops: list[Op] = [Delete(path, version)]
        clients, _, client = path.rpartition("/")
        user, _, folder = clients.rpartition("/")
        if folder == FOLDERS[CLIENT_ID] and user != "/config":
            config, user_version = await self._read(user)
            is_last = await self._children(clients) == [client]
            if is_last and not config and await self._children(user) == [folder]:
                ops += [Delete(clients), Delete(user, user_version)]
        return ops
