"""The same events as in a run of two Apache Kafka 3.9.2 brokers bring the same decisions.

`kafka_3_9_run.jsonl` has what Kafka's controllers sent, in the order in which each broker got it
(the last requests to the broker that shut down are missing), then the state nodes at four moments:
steady, broker 2 killed, broker 2 back, broker 1 (the controller) shut down.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from odradek.broker.core.controller import procedures
from odradek.broker.core.partition_state import TopicPartition

from .model import Cluster, Sent

RUN = Path(__file__).parent / "kafka_3_9_run.jsonl"


def recorded() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    lines = [json.loads(line) for line in RUN.read_text().splitlines()]
    sent = [line for line in lines if "to" in line]
    return sent, [line["states"] for line in lines if "states" in line]


def name(key: TopicPartition) -> str:
    return f"{key[0]}-{key[1]}"


def shown(sent: Sent) -> Iterator[dict[str, Any]]:
    """What was sent in the form of the recording, one request each."""
    request = sent.request
    head = {
        "to": request.broker_id,
        "broker_epoch": sent.broker_epoch,
        "controller_epoch": sent.controller_epoch,
    }
    if request.leader_and_isr:
        states = {
            name(s.key): [
                *(s.leader, s.leader_epoch, list(s.isr), s.partition_epoch, s.controller_epoch),
                *(list(s.replicas), s.is_new),
            ]
            for s in request.leader_and_isr
        }
        yield {**head, "leader_and_isr": states}
    if request.update_metadata is not None:
        states = {
            name(s.key): [
                *(s.leader, s.leader_epoch, list(s.isr), s.partition_epoch, s.controller_epoch),
                *(list(s.replicas), list(s.offline_replicas)),
            ]
            for s in request.update_metadata
        }
        yield {**head, "live": list(sent.live), "update_metadata": states}
    if request.stop_replicas:
        stopped = {name(s.key): [s.leader_epoch, s.delete] for s in request.stop_replicas}
        yield {**head, "stop_replicas": stopped}


def leave_out_partitions_of_first_words(sent: list[dict[str, Any]]) -> None:
    """A new controller begins with UpdateMetadata, in which Kafka does not name partitions."""
    seen = set()
    for request in sent:
        who = request["to"], request["controller_epoch"]
        if who not in seen and "update_metadata" in request:
            request["update_metadata"] = {}
        seen.add(who)


def states_of(cluster: Cluster) -> dict[str, list[Any]]:
    return {
        name(key): [s.leader, s.leader_epoch, list(s.isr), s.partition_epoch, s.controller_epoch]
        for key, s in cluster.store.states.items()
    }


def grow(cluster: Cluster, *keys: TopicPartition) -> None:
    """Broker 1, which leads them, asks for both brokers in sync."""
    changes = [
        procedures.IsrChange(*key, 1, 1, (1, 2), is_recovering=False)
        for key in sorted(cluster.store.states)
        if key in keys
    ]
    cluster.run(procedures.alter_partitions(cluster.context, 1, 25, changes))


def test_the_recorded_run() -> None:
    sent, dumps = recorded()
    cluster = Cluster()
    cluster.start_as(1, 25)
    cluster.fail_over()
    cluster.start_as(2, 64)
    cluster.create("t1", (1, 2), (2, 1))
    cluster.create("t2", (2, 1))
    cluster.create("__transaction_state", (2, 1), (1, 2), (2, 1))
    cluster.create("__consumer_offsets", (1, 2), (2, 1), (1, 2))
    cluster.extend("t2", (1, 2))
    cluster.create("tdel", (1, 2))
    cluster.deliver()
    cluster.delete("tdel")
    cluster.deliver()
    assert states_of(cluster) == dumps[0]
    assert cluster.store.topic_versions == {"t2": 1}

    cluster.kill(2)
    cluster.deliver()
    assert states_of(cluster) == dumps[1]

    cluster.start_as(2, 179)
    cluster.deliver()
    first = ("__consumer_offsets", 0)
    grow(cluster, first)
    grow(cluster, *(key for key in cluster.store.states if key != first))
    assert states_of(cluster) == dumps[2]

    assert cluster.run(procedures.shut_down(cluster.context, 1, 25)) == []
    cluster.deliver()
    assert states_of(cluster) == dumps[3]

    del cluster.brokers[1]
    cluster.fail_over(2)
    cluster.deliver()
    assert states_of(cluster) == dumps[3]
    assert len(cluster.run(procedures.shut_down(cluster.context, 2, 179))) == 10
    assert states_of(cluster) == dumps[3]

    ours = [request for some in cluster.trace for request in shown(some)]
    leave_out_partitions_of_first_words(ours)
    for broker_id in (1, 2):
        theirs = [request for request in sent if request["to"] == broker_id]
        mine = [request for request in ours if request["to"] == broker_id]
        assert mine[: len(theirs)] == theirs
        assert len(mine) == len(theirs) + (2 if broker_id == 1 else 0)
