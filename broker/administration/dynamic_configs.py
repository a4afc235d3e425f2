"""Configs that change while the broker runs: admin clients write them, every broker applies them.

As in Kafka, a resource's own settings are in one znode (/config/topics/T, /config/brokers/N,
/config/brokers/<default>), and so are quotas (/config/users/U, /config/clients/C, /config/ips/I).
Every change adds a notification below /config/changes.  All brokers watch it, read the changed
znode again and apply it.  A change is answered once this broker has applied it.  Kafka has no group
settings in ZooKeeper; here they are in /config/groups/G.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final

from odradek.protocol.errors import ErrorCode, Refused

from ..config import Config, ConfigError
from ..coordination import znodes
from ..coordination.configs import read_config
from ..coordination.interface import (
    BadArguments,
    Check,
    CoordinationLost,
    Create,
    NoNode,
    Op,
    Session,
    SessionExpired,
    Set,
    WatchEvent,
)
from ..coordination.json_fields import MalformedZnode
from ..coordination.notifications import newer, newest, purge
from ..core.client_quotas import FOLDERS, decode_name, entity_of, quotas_in
from ..groups.settings import usable_group_configs
from ..member.membership import make_path
from .client_quotas import ClientQuotas
from .config_writes import ABSENT, change_config

if TYPE_CHECKING:
    from ..cluster.controller import ClusterController
    from ..local_broker import LocalBroker

logger = logging.getLogger(__name__)

RETRY_S: Final = 0.5
QUOTA_FOLDERS: Final = frozenset(FOLDERS.values())
CHANGE_PREFIX: Final = znodes.CONFIG_CHANGE_PREFIX.rpartition("/")[2]
UNCLEAN_ELECTION: Final = "unclean.leader.election.enable"

Texts = Mapping[str, str]
Change = Callable[[Texts], Texts]
"""Maps a resource's current settings to the new ones.  Raises: Refused."""


async def load_broker_configs(
    config: Config, session: Session, broker_id: int, random_bytes: Callable[[int], bytes]
) -> None:
    """Apply the settings of all brokers and of this one; if any is invalid, apply none.

    Passwords that only `password.encoder.old.secret` can read are first encrypted with the new one.
    Raises: ConfigError if they can't be.
    """
    cluster = await read_config(session, znodes.broker_config_path(None))
    path = znodes.broker_config_path(broker_id)
    own = await read_config(session, path)
    renewed = config.passwords.renewed(own, random_bytes)
    if renewed is not None:
        own = renewed
        await session.set(path, znodes.encode_config(own))
        logger.info("passwords encrypted with the new secret path=%s", path)
    try:
        config.change(cluster=cluster, own=own)
    except ConfigError as error:
        logger.error("broker configs ignored error=%s", error)


class DynamicConfigs:
    """The dynamic configs of this broker, of its topics and of groups."""

    def __init__(
        self, local: "LocalBroker", controller: "ClusterController", session: Session
    ) -> None:
        self._local = local
        self._controller = controller
        self._session = session
        self._groups: dict[str, Texts] = {}
        self._changed = asyncio.Event()
        self._changed.set()
        self._is_stale = False
        self._allowed_unclean = local.config.unclean_leader_election_enable
        self._handled = -1  # the number of the last notification handled
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self.broker_checks: list[Callable[[Config], Awaitable[None]]] = []
        """Called with the configuration that this broker would have; each may refuse it."""
        self.on_own_written: list[Callable[[], Awaitable[None]]] = []
        """Called after settings of this broker alone were written, even if they are the same."""
        self.on_broker_changed: list[Callable[[], None]] = []
        """Called after settings of this broker have changed in `config`."""
        self.after_broker_changed: list[Callable[[], Awaitable[None]]] = []
        """Called then, for what takes longer; the change is answered afterwards."""
        self.on_topic_changed: list[Callable[[], None]] = []
        """Called after settings of a topic have changed and its partitions use them."""

    # Applying.

    async def load(self) -> None:
        """Read the settings of this broker and of groups.

        Topics whose settings changed recently, perhaps since their logs were opened, follow when
        `run` handles the notifications that still exist.
        """
        for path in (znodes.broker_config_path(None), znodes.broker_config_path(self._broker_id)):
            await self._apply(path.removeprefix("/config/"))
        with contextlib.suppress(NoNode):  # no group has settings
            for name in await self._session.children(znodes.CONFIG_GROUPS):
                await self._apply(f"groups/{name}")
        await self._hold_elections()

    async def load_quotas(self) -> None:
        """Read all quotas; later changes are among the notifications that `run` handles."""
        entries = [entry async for entry in ClientQuotas(self._session).all()]
        self._local.quotas.replace(entries)

    async def load_scram_users(self) -> None:
        """Read all users that can log in; `run` follows later changes."""
        try:
            nodes = await self._session.children("/config/users")
        except NoNode:
            nodes = []
        self._local.scram_users.keep_only([decode_name(node) for node in nodes])
        for node in nodes:
            self._apply_scram_user(node, await read_config(self._session, f"/config/users/{node}"))

    async def renew(self) -> None:
        """Have `run` read and watch everything again, in a new session.

        Between the sessions, notifications may have been created and deleted again.
        """
        self._is_stale = True
        self._changed.set()

    async def _reload(self) -> None:
        await self.load()
        await self.load_quotas()
        await self.load_scram_users()
        for topic in sorted({topic for topic, _ in self._local.replicas.partitions}):
            await self._apply(f"topics/{topic}")

    @property
    def _broker_id(self) -> int:
        return self._local.broker_id

    async def run(self) -> None:
        """Apply changes, forever."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                if self._is_stale:
                    self._is_stale = False
                    await self._reload()
                await self._handle_notifications()
            except (SessionExpired, CoordinationLost) as error:
                logger.info("config changes wait for the store error=%s", error)
                self._is_stale = True
                self._changed.set()
                await asyncio.sleep(RETRY_S)

    def _on_changes_event(self, event: WatchEvent) -> None:
        self._changed.set()

    async def _handle_notifications(self) -> None:
        parent, prefix = znodes.CONFIG_CHANGES, CHANGE_PREFIX
        names = await self._names()
        if -1 < newest(names, prefix) < self._handled:  # the parent is a new one: they count from 0
            self._handled = -1
        applied: set[str] = set()
        for number, name in newer(names, prefix, self._handled):
            await self._handle_notification(f"{parent}/{name}", applied)
            self._handled = number
            self._wake_waiters()
        await purge(self._session, parent, names, prefix, wall_ms=self._local.clock.wall_ms())

    async def _names(self) -> list[str]:
        """The notifications, which are watched; if somebody has deleted their parent, a new one."""
        try:
            return await self._session.children(znodes.CONFIG_CHANGES, self._on_changes_event)
        except NoNode:
            logger.warning("a znode is missing, and made again path=%s", znodes.CONFIG_CHANGES)
            self._is_stale = True  # notifications may have been deleted unread
            self._changed.set()
            self._handled = -1  # the numbers begin anew
            self._wake_waiters(all_of_them=True)  # nothing else would
            await make_path(self._session, znodes.CONFIG_CHANGES)
            return []

    async def _handle_notification(self, path: str, applied: set[str]) -> None:
        """`applied` are entities whose settings were read after this notification was created."""
        try:
            data, _ = await self._session.get(path)
            entity_path = znodes.decode_config_change(data)
            if entity_path not in applied:
                texts = await self._apply(entity_path)
                await self._hold_elections_of(entity_path, texts)
                await self._hold_elections()
            applied.add(entity_path)
        except NoNode:  # purged: created long before this broker watched
            pass
        except (MalformedZnode, BadArguments) as error:
            logger.error("config change ignored path=%s error=%s", path, error)

    async def _hold_elections_of(self, entity_path: str, texts: Texts) -> None:
        """If a topic now allows unclean elections, have the controller hold those that waited."""
        kind, _, name = entity_path.partition("/")
        if kind == "topics" and texts.get(UNCLEAN_ELECTION, "").lower() == "true":
            with contextlib.suppress(Refused):  # no longer the controller
                await self._controller.unclean_election_enabled(name)

    async def _hold_elections(self) -> None:
        """The same for all topics, if the broker's setting now allows unclean elections.

        In a new session, this broker may have become the controller before it read the setting.
        """
        allows = self._local.config.unclean_leader_election_enable
        if allows and not self._allowed_unclean:
            with contextlib.suppress(Refused):
                await self._controller.unclean_election_enabled(None)
        self._allowed_unclean = allows

    async def _apply(self, entity_path: str) -> Texts:
        """Read a resource's settings again, apply them and return them."""
        kind, _, name = entity_path.partition("/")
        texts = await read_config(self._session, f"/config/{entity_path}")
        if kind == "topics":
            self._local.replicas.update_overrides(name, texts)
            for notify in self.on_topic_changed:
                notify()
        elif kind == "groups":
            self._apply_group(znodes.group_of_config(name), texts)
        elif kind in QUOTA_FOLDERS:
            self._apply_quotas(entity_path, texts)
        elif kind == "brokers" and name == znodes.DEFAULT_ENTITY:
            await self._apply_broker(cluster=texts)
        elif kind == "brokers" and name == str(self._broker_id):
            await self._apply_broker(own=texts)
        if kind == "users":
            self._apply_scram_user(name, texts)
        return texts

    async def _apply_broker(self, **layer: Texts) -> None:
        before = self._local.config.layers
        try:
            self._local.config.change(**layer)
        except ConfigError as error:
            logger.error("broker configs ignored error=%s", error)
            return
        if self._local.config.layers == before:
            return
        logger.info("broker configs changed layer=%s names=%s", *_layer_and_names(layer))
        self._local.replicas.reconfigure()
        for notify in self.on_broker_changed:
            notify()
        for renew in self.after_broker_changed:
            await renew()

    def _apply_quotas(self, entity_path: str, texts: Texts) -> None:
        entity = entity_of(entity_path)
        if entity is not None:
            quotas = quotas_in(texts, entity)
            if self._local.quotas.change(entity, quotas):
                logger.info("client quotas changed entity=%s %s", entity_path, quotas)

    def _apply_scram_user(self, name: str, texts: Texts) -> None:
        user = decode_name(name)
        if user is None or "/" in name:  # the default, or one of the user's clients
            return
        if self._local.scram_users.apply(user, texts):
            logger.info("scram user changed user=%.200r", user)

    def _apply_group(self, group_id: str, texts: Texts) -> None:
        texts = usable_group_configs(texts, self._local.config)
        if self._groups.get(group_id, {}) == texts:
            return
        if texts:
            self._groups[group_id] = texts
        else:
            self._groups.pop(group_id, None)
        logger.info("group configs changed group=%s names=%s", group_id, ",".join(texts))

    # Reading and changing.

    def group_overrides(self, group_id: str) -> Texts:
        """A group's own settings, by name, such as `consumer.session.timeout.ms`."""
        return self._groups.get(group_id, {})

    async def change_topic(self, topic: str, change: Change, *, validate_only: bool) -> None:
        """Change a topic's own settings.  Raises: Refused."""
        if topic not in self._local.metadata.topics:
            raise Refused(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {topic[:250]!r}"
            )

        async def check(current: Texts) -> Texts:
            wanted = change(current)
            self._local.config.check_topic_change(current, wanted)
            return wanted

        exists = Check(znodes.topic_path(topic))
        await self._change(f"topics/{topic}", check, exists, validate_only=validate_only)

    async def change_broker(self, change: Change, *, is_cluster: bool, validate_only: bool) -> None:
        """Change the settings of this broker or (`is_cluster`) of all.  Raises: Refused."""

        async def check(current: Texts) -> Texts:
            config = self._local.config
            readable = config.passwords.readable(current)
            wanted = change(readable)
            future = config.check_broker_change(readable, wanted, is_cluster=is_cluster)
            for refuse in () if is_cluster else self.broker_checks:
                await refuse(future)
            try:
                return config.passwords.stored(wanted, current, self._local.random_bytes)
            except ConfigError as error:
                raise Refused(ErrorCode.INVALID_CONFIG, str(error)) from None

        name = znodes.DEFAULT_ENTITY if is_cluster else self._broker_id
        await self._change(f"brokers/{name}", check, validate_only=validate_only)
        if not is_cluster and not validate_only:
            for renew in self.on_own_written:
                await renew()

    async def change_group(self, group_id: str, change: Change, *, validate_only: bool) -> None:
        """Change a group's own settings.  Raises: Refused."""

        async def check(current: Texts) -> Texts:
            wanted = change(current)
            self._local.config.check_group_change(wanted)
            return wanted

        if not validate_only:
            await make_path(self._session, znodes.CONFIG_GROUPS)
        entity_path = znodes.group_config_path(group_id).removeprefix("/config/")
        await self._change(entity_path, check, validate_only=validate_only)

    async def _change(
        self,
        entity_path: str,
        change: Callable[[Texts], Awaitable[Texts]],
        *conditions: Op,
        validate_only: bool,
    ) -> None:
        path = f"/config/{entity_path}"

        async def plan(current: dict[str, str], version: int) -> list[Op] | None:
            data = znodes.encode_config(await change(current))
            if validate_only:
                return None
            return [Create(path, data) if version == ABSENT else Set(path, data, version)]

        number = await change_config(self._session, entity_path, plan, conditions=conditions)
        await self.until_applied(number)

    async def until_applied(self, number: int) -> None:
        """Return once this broker has applied the change with this notification."""
        if number > self._handled:
            handled = asyncio.get_running_loop().create_future()
            self._waiters.append((number, handled))
            await handled

    def _wake_waiters(self, *, all_of_them: bool = False) -> None:
        waiters, self._waiters = self._waiters, []
        for number, handled in waiters:
            if number > self._handled and not all_of_them:
                self._waiters.append((number, handled))
            elif not handled.done():
                handled.set_result(None)


def _layer_and_names(layer: Mapping[str, Texts]) -> tuple[str, str]:
    (where, texts), *_ = layer.items()
    return where, ",".join(texts)
