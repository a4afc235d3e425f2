"""The first user of a cluster."""

import re

from odradek.broker.coordination.embedded import EmbeddedStore
from odradek.broker.coordination.znodes import decode_config
from odradek.broker.sasl.credentials import decode_credential
from odradek.broker.sasl.scram import MECHANISMS
from odradek.secure.first_user import add_user
from tests.broker.coordination.asynchronous import asynchronous
from tests.broker.coordination.fakes import MemoryJournal, fake_runtime


@asynchronous
async def test_its_salt_is_like_that_of_users_that_do_not_exist() -> None:
    store = EmbeddedStore("memory", runtime=fake_runtime(), journal=MemoryJournal())
    await store.start()
    await add_user(store, "admin", "SCRAM-SHA-512", "word")
    session = await store.open_session(18_000)
    data, _ = await session.get("/config/users/admin")
    text = decode_config(data)["SCRAM-SHA-512"]
    salt = decode_credential(text, MECHANISMS["SCRAM-SHA-512"].size_bytes).salt
    assert re.fullmatch(rb"[0-9a-z]{15,26}", salt)
    await store.close()
