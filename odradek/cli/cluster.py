"""`odradek cluster`: the brokers and controller of a cluster, and its unhealthy partitions."""

from collections import Counter
from typing import Any, Final

import click

from odradek import __version__
from odradek.protocol.messages.k18_api_versions import ApiVersionsRequest, ApiVersionsResponse

from .brokers import BrokerHungUp, Brokers, brokers_of
from .clients import Cluster, cluster_options
from .cluster_view import NO_LEADER, ClusterView, PartitionView, view
from .commands import group
from .options import json_option
from .tables import NOTHING, show_json, show_table

FETCH: Final = 1
KAFKA_BY_FETCH: Final = {
    11: "2.3 - 2.6",
    12: "2.7 - 3.0",
    13: "3.1 - 3.4",
    15: "3.5, 3.6",
    16: "3.7, 3.8",
    17: "3.9 - 4.0",
    18: "4.1 - 4.3",
}
"""Releases of Kafka by their newest version of Fetch: a broker does not tell its release."""


@group()
def cluster() -> None:
    """Look at a whole Kafka cluster."""


@cluster.command("describe")
@json_option
@cluster_options
def describe(cluster: Cluster, as_json: bool) -> None:
    """Show brokers, controller and racks, and partitions with problems.

    Under-replicated partitions lack in-sync replicas; offline partitions have no leader.
    """
    with brokers_of(cluster) as brokers:
        found = view(brokers)
        newest = {b.node_id: _newest_fetch(brokers, b.node_id) for b in found.brokers}
        document = _document(found, newest)
    if as_json:
        show_json(document)
    else:
        _show(document)


def _newest_fetch(brokers: Brokers, node_id: int) -> int | None:
    """The newest version of Fetch that a broker speaks; None if it does not answer."""
    request = ApiVersionsRequest(
        client_software_name="odradek", client_software_version=__version__
    )
    try:
        answer = brokers.ask(request, ApiVersionsResponse, node_id=node_id)
    except BrokerHungUp:  # it has gone down, and the cluster does not know yet
        return None
    return {api.api_key: api.max_version for api in answer.api_keys}.get(FETCH, -1)


def _document(found: ClusterView, newest: dict[int, int | None]) -> dict[str, Any]:
    partitions = list(found.partitions())
    leads = Counter(p.leader for p in partitions)
    prefers = Counter(p.replicas[0] for p in partitions if p.replicas)
    holds = Counter(replica for p in partitions for replica in p.replicas)
    live = {broker.node_id for broker in found.brokers}
    return {
        "cluster_id": found.cluster_id,
        "controller": found.controller_id if found.controller_id in live else None,
        "brokers": [
            {
                "broker": broker.node_id,
                "address": f"{broker.host}:{broker.port}",
                "rack": broker.rack,
                "leads": leads[broker.node_id],
                "preferred_for": prefers[broker.node_id],
                "replicas": holds[broker.node_id],
                "speaks": KAFKA_BY_FETCH.get(newest[broker.node_id] or 0),
                "answers": newest[broker.node_id] is not None,
            }
            for broker in found.brokers
        ],
        "brokers_down": sorted(set(holds) - live),
        "topic_count": len(found.topics),
        "partition_count": len(partitions),
        "offline": [_partition(p) for p in partitions if p.leader == NO_LEADER],
        "under_replicated": [
            _partition(p)
            for p in partitions
            if p.leader != NO_LEADER and set(p.isr) < set(p.replicas)
        ],
    }


def _partition(found: PartitionView) -> dict[str, Any]:
    return {
        "topic": found.topic,
        "partition": found.partition,
        "leader": found.leader,
        "replicas": list(found.replicas),
        "isr": list(found.isr),
    }


def _show(document: dict[str, Any]) -> None:
    controller = document["controller"]
    click.echo(
        f"cluster {document['cluster_id'] or NOTHING}"
        f"  controller {NOTHING if controller is None else controller}"
        f"  topics {document['topic_count']}  partitions {document['partition_count']}"
    )
    columns = ["broker", "address", "rack", "leads", "preferred_for", "replicas", "speaks"]
    rows = [
        [NOTHING if broker[column] is None else broker[column] for column in columns]
        for broker in document["brokers"]
    ]
    show_table(["BROKER", "ADDRESS", "RACK", "LEADS", "PREFERRED", "REPLICAS", "KAFKA"], rows)
    if document["brokers_down"]:
        down = ", ".join(map(str, document["brokers_down"]))
        click.echo(f"down, but with replicas: {down}")
    silent = [broker["broker"] for broker in document["brokers"] if not broker["answers"]]
    for broker in silent:
        click.echo(f"broker {broker} does not answer: what it leads and holds may be in trouble")
    for kind in ("offline", "under_replicated"):
        _show_partitions(kind.replace("_", "-"), document[kind], all_answer=not silent)


def _show_partitions(kind: str, partitions: list[dict[str, Any]], *, all_answer: bool) -> None:
    if not partitions:
        click.echo(f"no {kind} partitions{'' if all_answer else ' that the cluster knows of yet'}")
        return
    click.echo(f"\n{kind} partitions: {len(partitions)}")
    rows = [
        [
            p["topic"],
            p["partition"],
            NOTHING if p["leader"] == NO_LEADER else p["leader"],
            ",".join(map(str, p["replicas"])),
            ",".join(map(str, p["isr"])) or NOTHING,
        ]
        for p in partitions
    ]
    show_table(["TOPIC", "PARTITION", "LEADER", "REPLICAS", "ISR"], rows)
