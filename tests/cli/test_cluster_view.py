"""`odradek cluster describe`: what is said of a broker that does not answer."""

import pytest

from odradek.cli.cluster import _document, _show
from odradek.cli.cluster_view import ClusterView
from odradek.protocol.messages.k03_metadata import (
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)


def found() -> ClusterView:
    """Two brokers, and a partition that both hold, as far as the cluster knows."""
    brokers = [MetadataResponseBroker(node_id=n, host="h", port=9092 + n) for n in range(2)]
    partition = MetadataResponsePartition(
        partition_index=0, leader_id=1, replica_nodes=[1, 0], isr_nodes=[1, 0]
    )
    topic = MetadataResponseTopic(name="t", partitions=[partition])
    return ClusterView("id", 0, brokers, [topic])


def test_a_cluster_that_is_well(capsys: pytest.CaptureFixture[str]) -> None:
    _show(_document(found(), {0: 17, 1: 17}))
    shown = capsys.readouterr().out
    assert "no offline partitions\nno under-replicated partitions\n" in shown


def test_a_broker_that_does_not_answer(capsys: pytest.CaptureFixture[str]) -> None:
    document = _document(found(), {0: 17, 1: None})
    assert [broker["answers"] for broker in document["brokers"]] == [True, False]
    _show(document)
    shown = capsys.readouterr().out
    assert "broker 1 does not answer: what it leads and holds may be in trouble\n" in shown
    assert "no offline partitions that the cluster knows of yet\n" in shown
