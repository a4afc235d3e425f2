"""Whoever claims to be a follower, and is wrong, gets the same answers from both brokers."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from odradek.protocol.messages.k01_fetch import FetchResponse
from odradek.protocol.messages.k03_metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from tests.broker.replication.test_hostile_followers import END, cases_in, claimed
from tests.lab import admin
from tests.lab.asking import ask, metadata
from tests.lab.cluster import Cluster
from tests.support.messages import batch_of, produce_request
from tests.support.waiting import until

pytestmark = [pytest.mark.java, pytest.mark.wire, pytest.mark.soak, pytest.mark.timeout(180)]

TOPIC: Final = "claimed"


@pytest.fixture(params=["odradek", "kafka"])
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    """Broker 1 leads alone, in its second epoch; 2 is dead."""
    with Cluster(request.param, (1, 2), directory=tmp_path) as cluster:
        cluster.start_zookeeper()
        cluster.start()
        admin.create_topic(cluster, TOPIC, assignment=[[1, 2]])
        cluster.settle()
        cluster.kill(2, expire=True)
        until(lambda: seen(cluster) == (1, [1]), "2 is out of the in-sync set")
        yield cluster


def seen(lab: Cluster) -> tuple[int, list[int]]:
    """Leader epoch and in-sync set."""
    partition = metadata(lab.brokers[1].address)["topics"][TOPIC]["0"]
    return partition["leader_epoch"], partition["isr"]


def test_the_codes_are_kafkas(lab: Cluster) -> None:
    address = lab.brokers[1].address
    for _ in range(END):
        ask(address, produce_request(TOPIC, {0: batch_of(b"v")}, acks=1), 9)
    wanted = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)])
    told: MetadataResponse = ask(address, wanted, 12)
    named = {"topic": TOPIC, "topic_id": told.topics[0].topic_id}
    for what, (given, code) in cases_in(1).items():
        for version in (12, 17):
            if version == 12 and "topic_id" in given:
                continue
            request = claimed(**{"epoch": 1, **named, **given})
            answer: FetchResponse = ask(address, request, version)
            (data,) = answer.responses[0].partitions
            assert (answer.error_code, data.error_code) == (0, code), (what, version)
            assert seen(lab) == (1, [1])
