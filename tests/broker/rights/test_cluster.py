"""Brokers of one process with an authorizer: they need no ACL, and clients get theirs from each."""

import asyncio
from pathlib import Path

import pytest

from odradek.broker.config import load_config
from odradek.broker.core.acls.terms import (
    CLUSTER_NAME,
    Entry,
    Operation,
    Pattern,
    Permission,
    ResourceType,
)
from odradek.broker.local_cluster import LocalCluster
from odradek.broker.runtime import Runtime
from odradek.protocol.messages.k19_create_topics import CreateTopicsRequest
from odradek.protocol.messages.k30_create_acls import CreateAclsRequest
from tests.broker.requests import every_acl, read_acl
from tests.broker.running import HOST, WatchedFiles
from tests.support.awaiting import until
from tests.support.client import Client
from tests.support.messages import batch_of, creatable

AUTHORIZER = {
    "listeners": f"PLAINTEXT://{HOST}:0",
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
}
CLUSTER = Pattern(ResourceType.CLUSTER, CLUSTER_NAME)
RIGHTS = (
    (CLUSTER, Operation.CREATE),
    (CLUSTER, Operation.ALTER),
    (CLUSTER, Operation.DESCRIBE),
    (Pattern(ResourceType.TOPIC, "r"), Operation.WRITE),
)
"""Of clients, who have no name here: not what brokers need."""


def cluster(directory: Path, super_users: str) -> LocalCluster:
    settings = {**AUTHORIZER, "super.users": super_users}
    runtime = Runtime.system()
    runtime.files = WatchedFiles()
    return LocalCluster(
        str(directory), 2, lambda own: load_config(overrides={**settings, **own}), runtime
    )


@pytest.mark.slow
def test_they_replicate_and_have_the_same_acls(tmp_path: Path) -> None:
    async def main() -> None:
        brokers = cluster(tmp_path, "User:admin")
        try:
            await brokers.start()
            acls = brokers.brokers[0]._member._node.acls
            assert acls is not None
            for pattern, operation in RIGHTS:
                await acls.add(pattern, [Entry("User:ANONYMOUS", Permission.ALLOW, operation)])
            ports = [broker.port for broker in brokers.brokers.values()]
            async with await Client.connect(ports[0]) as one, await Client.connect(ports[1]) as two:
                topics = [creatable("r", 2, factor=2)]
                answer = await one.ask(CreateTopicsRequest(topics=topics, timeout_ms=30_000), 7)
                assert answer.topics[0].error_code == 0

                async def is_written() -> bool:
                    results = [
                        await client.produce("r", batch_of(b"v"), partition=partition)
                        for client in (one, two)
                        for partition in (0, 1)
                    ]
                    return sum(not result.error_code for result in results) == 2

                await until(is_written)
                created = await one.ask(CreateAclsRequest(creations=[read_acl("r")]), 3)
                assert created.results[0].error_code == 0

                async def is_shown() -> bool:
                    shown = (await two.ask(every_acl(), 3)).resources
                    return "User:alice" in {acl.principal for each in shown for acl in each.acls}

                await until(is_shown)
        finally:
            await brokers.stop()

    asyncio.run(main())
