"""The first user of a cluster, written into its store before any broker runs.

Brokers whose listeners want a login could not be asked to add one.
"""

import os
from typing import Final

from odradek.broker.administration.config_writes import ABSENT
from odradek.broker.administration.scram_users import CONFIG_USERS
from odradek.broker.coordination import znodes
from odradek.broker.coordination.embedded import EmbeddedStore
from odradek.broker.coordination.interface import NoNode, Session, Store
from odradek.broker.core.client_quotas import encode_name
from odradek.broker.local_cluster import LOCK_FILE
from odradek.broker.member.membership import make_path
from odradek.broker.runtime import Runtime
from odradek.broker.sasl.credentials import credentials_in

from .secret import Secret

_SESSION_TIMEOUT_MS: Final = 10_000


async def add_to_directory(
    directory: str, file: str, name: str, mechanism: str, password: str, *, replace: bool = False
) -> None:
    """Add a user to the embedded store `file` of a data directory, whose broker must not run.

    Raises: StorageError, StoreError.
    """
    runtime = Runtime.system()
    try:
        os.makedirs(directory, exist_ok=True)
        lock = runtime.files.lock(os.path.join(directory, LOCK_FILE))
        try:
            store = EmbeddedStore(os.path.join(directory, file), runtime=runtime)
            await store.start()
            try:
                await add_user(store, name, mechanism, password, replace=replace)
            finally:
                await store.close()
        finally:
            lock.release()
    finally:
        runtime.close()


async def add_user(
    store: Store, name: str, mechanism: str, password: str, *, replace: bool = False
) -> None:
    """Add a user.  If it has a credential for this mechanism, that stays, unless `replace`.

    Raises: StoreError.
    """
    session = await store.open_session(_SESSION_TIMEOUT_MS)
    try:
        await make_path(session, CONFIG_USERS)
        config, version = await read_user(session, name)
        if mechanism in credentials_in(config, name) and not replace:
            return
        data = znodes.encode_config({**config, mechanism: Secret.new(mechanism, password).stored()})
        path = f"{CONFIG_USERS}/{encode_name(name)}"
        if version == ABSENT:
            await session.create(path, data)
        else:
            await session.set(path, data, version)
    finally:
        await session.close()


async def read_user(session: Session, name: str) -> tuple[dict[str, str], int]:
    """A user's config, and the version of its znode or ABSENT.  Raises: MalformedZnode."""
    try:
        data, stat = await session.get(f"{CONFIG_USERS}/{encode_name(name)}")
    except NoNode:
        return {}, ABSENT
    return znodes.decode_config(data), stat.version
