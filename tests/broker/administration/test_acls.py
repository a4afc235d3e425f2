"""ACLs in the store: read, followed and changed; on the embedded store, with simulated time."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from odradek.broker import runtime
from odradek.broker.administration.acls import Acls, check_new
from odradek.broker.coordination import acl_znodes
from odradek.broker.coordination.embedded import EmbeddedStore
from odradek.broker.coordination.interface import Session, SessionExpired
from odradek.broker.coordination.json_fields import MalformedZnode
from odradek.broker.coordination.notifications import AGE_MS_MAX
from odradek.broker.core.acls.authorizer import Authorizer
from odradek.broker.core.acls.terms import (
    Binding,
    Entry,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)
from odradek.protocol.errors import ErrorCode, Refused
from tests.broker.coordination.fakes import MemoryJournal, fake_runtime
from tests.sim.loop import SimLoop, simulate
from tests.support.awaiting import until

TOPIC, PREFIXED = ResourceType.TOPIC, PatternType.PREFIXED
ORDERS = Pattern(TOPIC, "orders")
IDS = Pattern(ResourceType.TRANSACTIONAL_ID, "tx", PREFIXED)
READ = Entry("User:alice", Permission.ALLOW, Operation.READ)
WRITE = Entry("User:bob", Permission.DENY, Operation.WRITE, "10.0.0.1")
BY_KAFKA = (
    b'{"acls":[{"principal":"User:alice","permissionType":"Deny","host":"1.2.3.4",'
    b'"operation":"IdempotentWrite"}],"version":1}'
)
"""As Kafka 3.9.2 wrote it."""


class Clock(runtime.Clock):
    """Clocks that a test moves."""

    def __init__(self) -> None:
        self.ms = 0

    def now_ms(self) -> int:
        return self.ms

    def wall_ms(self) -> int:
        return self.ms


class World:
    """A store with the ACLs of several brokers."""

    def __init__(self, store: EmbeddedStore, session: Session) -> None:
        self.store = store
        self.session = session
        self.clock = Clock()
        self.tasks: list[asyncio.Task[None]] = []

    async def broker(self) -> Acls:
        """The ACLs of a broker that has started."""
        acls = Acls(await self.store.open_session(18_000), Authorizer(), self.clock)
        await acls.load()
        self.tasks.append(asyncio.create_task(acls.run()))
        return acls


@contextlib.asynccontextmanager
async def world() -> AsyncIterator[World]:
    store = EmbeddedStore("memory", runtime=fake_runtime(), journal=MemoryJournal())
    await store.start()
    w = World(store, await store.open_session(18_000))
    yield w
    for task in w.tasks:
        task.cancel()
    await store.close()


async def knows(acls: Acls, pattern: Pattern, *entries: Entry) -> None:
    """Wait until a broker has exactly these entries."""
    await until(lambda: acls.authorizer.entries_of(pattern) == set(entries))


def run(test: Callable[[World], Awaitable[None]]) -> None:
    async def main(loop: SimLoop) -> None:
        async with world() as w:
            await test(w)

    simulate(main, 1)


# Znodes.


def test_bytes_are_those_of_kafka() -> None:
    entry = Entry("User:alice", Permission.DENY, Operation.IDEMPOTENT_WRITE, "1.2.3.4")
    assert acl_znodes.encode_acls([entry]) == BY_KAFKA
    assert acl_znodes.decode_acls(BY_KAFKA) == {entry}
    assert acl_znodes.acls_path(ORDERS) == "/kafka-acl/Topic/orders"
    assert acl_znodes.acls_path(IDS) == "/kafka-acl-extended/prefixed/TransactionalId/tx"
    literal = IDS._replace(pattern_type=PatternType.LITERAL)
    assert acl_znodes.encode_change(literal) == b"TRANSACTIONAL_ID:tx"
    assert acl_znodes.encode_change(IDS) == (
        b'{"version":1,"resourceType":"TRANSACTIONAL_ID","name":"tx","patternType":"PREFIXED"}'
    )


@pytest.mark.parametrize("pattern", [ORDERS, IDS, Pattern(TOPIC, "a:b é")])
def test_notifications_are_read_as_written(pattern: Pattern) -> None:
    is_literal = pattern.pattern_type is PatternType.LITERAL
    decode = acl_znodes.decode_literal_change if is_literal else acl_znodes.decode_extended_change
    assert decode(acl_znodes.encode_change(pattern)) == pattern


@pytest.mark.parametrize(
    "data",
    [
        b"[]",
        b'{"version":2,"acls":[]}',
        b'{"version":1}',
        BY_KAFKA.replace(b"Deny", b"Perhaps"),
        BY_KAFKA.replace(b"IdempotentWrite", b"Any"),
        BY_KAFKA.replace(b"IdempotentWrite", b"Fly"),
        BY_KAFKA.replace(b'"User:alice"', b"7"),
        b"\xff",
    ],
)
def test_malformed_acls(data: bytes) -> None:
    with pytest.raises(MalformedZnode):
        acl_znodes.decode_acls(data)


@pytest.mark.parametrize("data", [b"", b"TOPIC", b"TOPIC:", b"ANY:t", b"FLY:t", b"\xff:t"])
def test_malformed_literal_changes(data: bytes) -> None:
    with pytest.raises(MalformedZnode):
        acl_znodes.decode_literal_change(data)


@pytest.mark.parametrize(
    ("old", "new"), [(b"PREFIXED", b"MATCH"), (b'"tx"', b'""'), (b"TRANSACTIONAL_ID", b"ANY")]
)
def test_malformed_extended_changes(old: bytes, new: bytes) -> None:
    with pytest.raises(MalformedZnode):
        acl_znodes.decode_extended_change(acl_znodes.encode_change(IDS).replace(old, new))


# Changes.


def test_every_broker_follows_a_change() -> None:
    async def test(w: World) -> None:
        one, other = await w.broker(), await w.broker()
        for pattern in (ORDERS, IDS):
            await one.add(pattern, [READ])
            assert one.authorizer.entries_of(pattern) == {READ}
            await knows(other, pattern, READ)
            await other.add(pattern, [WRITE])
            await knows(one, pattern, READ, WRITE)
            assert await one.remove(pattern, lambda entry: entry == READ) == {READ}
            await knows(other, pattern, WRITE)
            assert await other.remove(pattern, lambda entry: True) == {WRITE}
            assert await w.session.exists(acl_znodes.acls_path(pattern)) is None
            await knows(one, pattern)

    run(test)


def test_what_is_there_already_is_not_written_again() -> None:
    async def test(w: World) -> None:
        acls = await w.broker()
        await acls.add(ORDERS, [READ])
        await acls.add(ORDERS, [READ])
        assert await acls.remove(ORDERS, lambda entry: entry == WRITE) == frozenset()
        _, stat = await w.session.get(acl_znodes.acls_path(ORDERS))
        assert stat.version == 0
        assert len(await w.session.children(acl_znodes.LITERAL_CHANGES)) == 1

    run(test)


def test_changes_at_the_same_time_are_all_kept() -> None:
    async def test(w: World) -> None:
        brokers = [await w.broker() for _ in range(3)]
        entries = [READ._replace(principal=f"User:{number}") for number in range(12)]
        await asyncio.gather(
            *(brokers[number % 3].add(ORDERS, [each]) for number, each in enumerate(entries))
        )
        await brokers[0].remove(ORDERS, lambda entry: entry == entries[0])
        for broker in brokers:
            await knows(broker, ORDERS, *entries[1:])

    run(test)


def test_nodes_that_were_deleted_are_made_again() -> None:
    async def test(w: World) -> None:
        acls = await w.broker()
        await w.session.delete("/kafka-acl/Topic")
        await acls.add(ORDERS, [READ])
        assert await w.session.exists(acl_znodes.acls_path(ORDERS)) is not None

    run(test)


@pytest.mark.parametrize("parent", acl_znodes.CHANGES)
def test_changes_are_followed_although_somebody_deletes_their_parent(parent: str) -> None:
    is_literal = parent == acl_znodes.LITERAL_CHANGES
    one, other = (ORDERS, Pattern(TOPIC, "bills")) if is_literal else (IDS, IDS._replace(name="t"))

    async def test(w: World) -> None:
        changing, following = await w.broker(), await w.broker()
        await changing.add(one, [READ])
        await knows(following, one, READ)
        for name in await w.session.children(parent):
            await w.session.delete(f"{parent}/{name}")
        await w.session.delete(parent)
        await changing.add(other, [READ])  # as number 0 once more
        await knows(following, other, READ)
        await changing.remove(one, lambda entry: True)
        await knows(following, one)
        assert not any(task.done() for task in w.tasks)

    run(test)


def test_a_parent_that_counts_anew() -> None:
    async def test(w: World) -> None:
        changing, following = await w.broker(), await w.broker()
        for entries in ([READ], [WRITE]):
            await changing.add(ORDERS, entries)
        await knows(following, ORDERS, READ, WRITE)
        following._handled[acl_znodes.LITERAL_CHANGES] = 1000  # of an earlier parent
        await changing.remove(ORDERS, lambda entry: entry == READ)
        await knows(following, ORDERS, WRITE)

    run(test)


@pytest.mark.parametrize("name", ["bad\n", "..", "x" * (1 << 20)])
def test_names_that_the_store_cannot_keep(name: str) -> None:
    async def test(w: World) -> None:
        acls = await w.broker()
        with pytest.raises(Refused) as refused:
            await acls.add(Pattern(ResourceType.GROUP, name), [READ])
        assert refused.value.code is ErrorCode.INVALID_REQUEST

    run(test)


@pytest.mark.parametrize(
    "binding",
    [
        Binding(Pattern(ResourceType.CLUSTER, "x"), READ),
        Binding(Pattern(TOPIC, ""), READ),
        Binding(Pattern(ResourceType.ANY, "x"), READ),
        Binding(Pattern(ResourceType.UNKNOWN, "x"), READ),
        Binding(Pattern(TOPIC, "x", PatternType.MATCH), READ),
        Binding(Pattern(TOPIC, "x/y"), READ),
        Binding(ORDERS, READ._replace(principal="alice")),
        Binding(ORDERS, READ._replace(operation=Operation.ANY)),
        Binding(ORDERS, READ._replace(permission=Permission.UNKNOWN)),
    ],
)
def test_acls_that_cannot_be(binding: Binding) -> None:
    with pytest.raises(Refused) as refused:
        check_new(binding)
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    check_new(Binding(ORDERS, READ))


# What the store does.


def test_a_broker_that_starts_reads_all() -> None:
    async def test(w: World) -> None:
        first = await w.broker()
        await first.add(ORDERS, [READ])
        await first.add(IDS, [WRITE])
        second = await w.broker()
        assert set(second.authorizer.index) == {Binding(ORDERS, READ), Binding(IDS, WRITE)}

    run(test)


def test_unreadable_acls_deny_everything_unless_they_were_known() -> None:
    async def test(w: World) -> None:
        known = await w.broker()
        await known.add(ORDERS, [READ])
        await w.session.set(acl_znodes.acls_path(ORDERS), b"{")
        await w.session.create(
            acl_znodes.change_path(ORDERS), acl_znodes.encode_change(ORDERS), sequential=True
        )
        new = await w.broker()
        alice = new.authorizer.decisions("User:alice", "h")
        assert not alice.may(Operation.READ, TOPIC, "orders")
        await known.add(IDS, [READ])  # is handled after the broken one
        await until(lambda: new.authorizer.entries_of(IDS))
        assert known.authorizer.entries_of(ORDERS) == {READ}
        with pytest.raises(Refused):
            await known.add(ORDERS, [WRITE])

    run(test)


def test_malformed_notifications_are_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    async def test(w: World) -> None:
        acls = await w.broker()
        prefix = acl_znodes.change_path(ORDERS)
        await w.session.create(prefix, b"nonsense", sequential=True)
        await w.session.create(f"{acl_znodes.LITERAL_CHANGES}/other", b"")
        other = await w.broker()
        await other.add(ORDERS, [READ])
        await until(lambda: acls.authorizer.entries_of(ORDERS))

    run(test)
    assert "ACL change ignored" in caplog.text


def test_old_notifications_are_deleted() -> None:
    async def test(w: World) -> None:
        acls = await w.broker()
        await acls.add(ORDERS, [READ])
        w.clock.ms = fake_runtime().clock.wall_ms() + 10 * AGE_MS_MAX
        await acls.add(ORDERS, [WRITE])

        async def are_gone() -> bool:
            return not await w.session.children(acl_znodes.LITERAL_CHANGES)

        await until(are_gone)

    run(test)


class Interrupted:
    """A session that ends, and is replaced later."""

    def __init__(self, session: Session) -> None:
        self.session: Session | None = session

    def __getattr__(self, name: str) -> object:
        if self.session is None:
            raise SessionExpired("no session")
        return getattr(self.session, name)


def test_without_a_session_the_last_known_counts() -> None:
    async def test(w: World) -> None:
        session = Interrupted(await w.store.open_session(18_000))
        acls = Acls(session, Authorizer(), w.clock)  # type: ignore[arg-type]
        await acls.load()
        w.tasks.append(asyncio.create_task(acls.run()))
        other = await w.broker()
        await other.add(ORDERS, [READ])
        await until(lambda: acls.authorizer.entries_of(ORDERS))
        ended, session.session = session.session, None
        assert ended is not None
        await ended.close()
        await other.remove(ORDERS, lambda entry: True)
        await other.add(IDS, [READ])
        with pytest.raises(Refused) as refused:
            await acls.add(IDS, [WRITE])
        assert refused.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
        assert acls.authorizer.entries_of(ORDERS) == {READ}
        session.session = await w.store.open_session(18_000)
        await acls.renew()
        await until(lambda: acls.authorizer.entries_of(IDS) == {READ})
        await until(lambda: not acls.authorizer.entries_of(ORDERS))

    run(test)
