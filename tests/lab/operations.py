"""The 25 operations that are done to a cluster of three brokers, Odradek's or Apache Kafka's.

Each is a generator: it yields the name of every moment at which the cluster shall come to rest and
be looked at.  The order matters, for every operation finds what those before it have left.

That two runs end in the same tree takes some care.  Replicas are assigned by hand wherever there is
a choice (before `brokers_join` there is none). One broker returns at a time, and one replica is
added at a time, for the ISR is in the order of joining. The laboratory says who becomes the
controller, and ends the session of who was killed at once: how long a session lives on varies, and
after four seconds a leader drops its silent follower by itself, without a new leader epoch.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from odradek.protocol.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.k22_init_producer_id import InitProducerIdRequest
from tests.support.waiting import until

from . import admin
from .asking import ask, metadata
from .cluster import Cluster

Moments = Iterator[str]
Operation = Callable[[Cluster], Moments]

FIRST_CONTROLLER: Final = 0
SECOND_CONTROLLER: Final = 1
THIRD_CONTROLLER: Final = 2
OWN_SETTINGS: Final = {
    THIRD_CONTROLLER: {
        "auto.leader.rebalance.enable": "true",
        "leader.imbalance.check.interval.seconds": "1",
        "delete.topic.enable": "false",
    }
}
ORDERS: Final = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]]
PAIRS: Final = [[0, 1], [1, 2], [2, 0], [0, 2]]
# What the third document that this project began with shows.
VERSION_1: Final = {"version": 1, "partitions": {"0": [0, 1, 2], "1": [1, 0, 2], "2": [2, 0, 1]}}


def first_broker(lab: Cluster) -> Moments:
    """One broker on an empty ZooKeeper: it makes the tree and becomes the controller."""
    lab.start(FIRST_CONTROLLER)
    yield "started"


def create_with_counts(lab: Cluster) -> Moments:
    """The broker assigns the replicas; alone it has no choice."""
    admin.create_topic(lab, "counted", partitions=3, replication_factor=1)
    admin.create_topic(lab, "by-default", partitions=-1, replication_factor=-1)
    yield "created"


def create_automatically(lab: Cluster) -> Moments:
    """Metadata and FindCoordinator make what they are asked about."""
    wanted = MetadataRequest(topics=[MetadataRequestTopic(name="found")])
    found = FindCoordinatorRequest(key_type=0, coordinator_keys=["a-group"])
    address = lab.brokers[0].address
    lab.history.note("ask for what is not there", "broker 0")
    until(lambda: ask(address, wanted, 12).topics[0].error_code == 0, "the topic is there")
    until(lambda: ask(address, found, 4).coordinators[0].error_code == 0, "there are offsets")
    yield "found"


def brokers_join(lab: Cluster) -> Moments:
    """Two more brokers, one after the other."""
    lab.start(1)
    yield "two"
    lab.start(2)
    yield "three"


def create_assigned(lab: Cluster) -> Moments:
    """Replicas in every order; pairs; single ones; one topic to be deleted at a bad moment."""
    admin.create_topic(lab, "orders", assignment=ORDERS)
    admin.create_topic(lab, "pairs", assignment=PAIRS)
    admin.create_topic(lab, "single", assignment=[[2], [0], [1]])
    admin.create_topic(lab, "doomed", assignment=[[0, 1], [2, 1], [1, 2]])
    yield "created"


def create_with_configs(lab: Cluster) -> Moments:
    """Settings of their own, from the beginning."""
    configs = {"cleanup.policy": "compact,delete", "retention.ms": "86400000"}
    admin.create_topic(lab, "configured", assignment=[[1, 0], [2, 1]], configs=configs)
    admin.create_topic(lab, "unclean", assignment=[[0, 2]], configs={"min.insync.replicas": "1"})
    yield "created"


def add_partitions(lab: Cluster) -> Moments:
    """Two more partitions, assigned by hand."""
    admin.add_partitions(lab, "pairs", count=6, assignment=[[2, 1], [1, 0]])
    yield "added"


def topic_of_version_1(lab: Cluster) -> Moments:
    """Somebody writes a topic as Kafka's tools did in 2017, without an id and a setting."""
    lab.write_node("/brokers/topics/test", json.dumps(VERSION_1).encode())
    yield "written"


def topic_configs(lab: Cluster) -> Moments:
    """Set, append, remove; then all at once, as older tools do."""
    changes = {"retention.ms": "1000000", "segment.bytes": "1048576"}
    admin.alter_configs(lab, admin.TOPIC, "pairs", put=changes)
    admin.alter_configs(lab, admin.TOPIC, "test", put={"max.message.bytes": "2000000"})
    yield "set"
    admin.alter_configs(lab, admin.TOPIC, "pairs", remove=["segment.bytes"])
    admin.alter_configs(lab, admin.TOPIC, "configured", subtract={"cleanup.policy": "delete"})
    yield "removed"
    admin.replace_configs(lab, admin.TOPIC, "test", {"flush.messages": "1000"})
    yield "replaced"


def broker_configs(lab: Cluster) -> Moments:
    """Of one broker, and the default of all."""
    admin.alter_configs(lab, admin.BROKER, "1", put={"log.retention.ms": "90000000"}, broker=1)
    admin.alter_configs(lab, admin.BROKER, "", put={"message.max.bytes": "3000000"}, broker=2)
    yield "set"
    admin.alter_configs(lab, admin.BROKER, "1", remove=["log.retention.ms"], broker=1)
    admin.alter_configs(lab, admin.BROKER, "", remove=["message.max.bytes"], broker=0)
    yield "removed"


def quotas(lab: Cluster) -> Moments:
    """Of clients, users, both, addresses and defaults."""
    rate = {"producer_byte_rate": 1048576.0}
    admin.alter_quotas(lab, {"client-id": "a client"}, rate)
    admin.alter_quotas(lab, {"client-id": None}, {"consumer_byte_rate": 2097152.0})
    admin.alter_quotas(lab, {"user": "u*ser"}, {**rate, "request_percentage": 12.5})
    admin.alter_quotas(lab, {"user": "u*ser", "client-id": "c"}, rate)
    admin.alter_quotas(lab, {"user": None, "client-id": None}, rate)
    admin.alter_quotas(lab, {"ip": "127.0.0.9"}, {"connection_creation_rate": 1000.0})
    yield "set"
    admin.alter_quotas(lab, {"user": "u*ser"}, {"request_percentage": None})
    admin.alter_quotas(lab, {"client-id": "a client"}, {"producer_byte_rate": None})
    yield "removed"


def producer_ids(lab: Cluster) -> Moments:
    """Two brokers take a block of ids each."""
    for broker in (1, 2):
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60000)
        lab.ask(request, 4, broker=broker)
    yield "taken"


def delete(lab: Cluster) -> Moments:
    """A topic goes, and another one of its name comes."""
    admin.delete_topic(lab, "configured")
    yield "deleted"
    admin.create_topic(lab, "configured", assignment=[[1, 2]])
    yield "created again"


def reassign(lab: Cluster) -> Moments:
    """One replica comes, one goes, with the leader or without; one partition moves as a whole."""
    target = {("pairs", 0): [1, 2], ("pairs", 1): [1, 2, 0], ("single", 0): [0]}
    admin.reassign(lab, target)
    yield "moved"


def reassign_through_zookeeper(lab: Cluster) -> Moments:
    """The same through the node that older tools write."""
    moves: list[tuple[str, int, list[int]]] = [("orders", 0, [2, 0, 1]), ("pairs", 2, [2, 1])]
    partitions = [{"topic": t, "partition": p, "replicas": r} for t, p, r in moves]
    request = {"version": 1, "partitions": partitions}
    lab.write_node("/admin/reassign_partitions", json.dumps(request).encode())
    yield "moved"


def broker_dies(lab: Cluster) -> Moments:
    """kill -9: it led some partitions and followed in others."""
    lab.kill(2, expire=True)
    yield "dead"


def delete_with_a_replica_down(lab: Cluster) -> Moments:
    """What can be deleted is; the rest waits for the broker."""
    admin.delete_topic(lab, "doomed", wait=False)
    yield "waiting"


def broker_returns(lab: Cluster) -> Moments:
    """It joins the ISRs again, and the topic goes that could not."""
    lab.start(2)
    yield "back"


def elect_preferred(lab: Cluster) -> Moments:
    """ElectLeaders: of some partitions, then of all."""
    admin.elect_preferred(lab, {"orders": [4]})
    yield "some"
    admin.elect_preferred(lab, None)
    yield "all"


def cancel_reassignment(lab: Cluster) -> Moments:
    """A replica is added on a broker that hears nothing and then dies; then it is called off."""
    lab.pause(2)
    admin.reassign(lab, {("pairs", 5): [1, 0, 2], ("single", 1): [2]})
    lab.kill(2, expire=True)
    yield "stuck"
    admin.reassign(lab, {("pairs", 5): None, ("single", 1): None})
    yield "cancelled"
    lab.start(2)
    yield "back"


def controlled_shutdown(lab: Cluster) -> Moments:
    """SIGTERM, return, and the preferred leaders through the node that older tools write."""
    lab.stop(1)
    yield "stopped"
    lab.start(1)
    yield "back"
    partitions = [{"topic": "orders", "partition": p} for p in range(6)]
    partitions += [{"topic": "pairs", "partition": p} for p in range(6)]
    request = {"version": 1, "partitions": partitions}
    lab.write_node("/admin/preferred_replica_election", json.dumps(request).encode())
    until(lambda: "/admin/preferred_replica_election" not in lab.tree(), "the election is over")
    yield "elected"


def controller_dies(lab: Cluster) -> Moments:
    """kill -9 of the controller, which also led partitions; another one takes over."""
    lab.kill(FIRST_CONTROLLER, expire=True, successor=SECOND_CONTROLLER)
    yield "dead"
    lab.start(FIRST_CONTROLLER)
    yield "back"


def all_replicas_die(lab: Cluster) -> Moments:
    """Of a pair both: who died first may not lead when it returns."""
    lab.kill(2, expire=True)
    yield "one"
    lab.kill(0, expire=True)
    yield "both"
    lab.start(2)
    yield "the wrong one is back"


def unclean_election(lab: Cluster) -> Moments:
    """A topic that may lose records takes it nevertheless; then the last of the ISR returns."""
    unclean = {"unclean.leader.election.enable": "true"}
    admin.alter_configs(lab, admin.TOPIC, "unclean", put=unclean, broker=1)
    until(lambda: _leader(lab, "unclean", 0) == 2, "broker 2 leads")
    yield "elected"
    lab.start(0)
    yield "all are back"


def automatic_rebalance(lab: Cluster) -> Moments:
    """A controller with other settings: it moves leaders by itself, and deletes no topic."""
    lab.make_controller(THIRD_CONTROLLER)
    until(lambda: _preferred_lead(lab), "all preferred leaders lead")
    yield "rebalanced"
    lab.write_node("/admin/delete_topics/single", None)
    until(lambda: "/admin/delete_topics/single" not in lab.tree(), "the request is dropped")
    yield "not deleted"


OPERATIONS: Final[Sequence[Operation]] = (
    first_broker,
    create_with_counts,
    create_automatically,
    brokers_join,
    create_assigned,
    create_with_configs,
    add_partitions,
    topic_of_version_1,
    topic_configs,
    broker_configs,
    quotas,
    producer_ids,
    delete,
    reassign,
    reassign_through_zookeeper,
    broker_dies,
    delete_with_a_replica_down,
    broker_returns,
    elect_preferred,
    cancel_reassignment,
    controlled_shutdown,
    controller_dies,
    all_replicas_die,
    unclean_election,
    automatic_rebalance,
)
# What Kafka's own tools are asked, and after which moments. (Not: the quotas of users alone, with
# which ConfigCommand also wants their passwords for SASL, and those are yet to come.)
TOPICS: Final = ("TopicCommand", "--describe")
CONFIGS: Final = ("ConfigCommand", "--describe", "--entity-type")
QUESTIONS: Final[Mapping[str, Sequence[str]]] = {
    "topics": TOPICS,
    "under-replicated": (*TOPICS, "--under-replicated-partitions"),
    "unavailable": (*TOPICS, "--unavailable-partitions"),
    "at min ISR": (*TOPICS, "--at-min-isr-partitions"),
    "topic configs": (*CONFIGS, "topics"),
    "broker configs": (*CONFIGS, "brokers"),
    "default broker configs": (*CONFIGS, "brokers", "--entity-default"),
    "client quotas": (*CONFIGS, "clients"),
    "user and client quotas": (*CONFIGS, "users", "--entity-type", "clients"),
    "address quotas": (*CONFIGS, "ips"),
    "moves": ("ReassignPartitionsCommand", "--list"),
}
ILL: Final = ("topics", "under-replicated", "unavailable", "at min ISR")
QUOTAS: Final = ("client quotas", "user and client quotas", "address quotas")
ASKED: Final[Mapping[tuple[str, str], Sequence[str]]] = {
    ("create_with_configs", "created"): ("topics",),
    ("topic_configs", "replaced"): ("topics", "topic configs"),
    ("broker_configs", "set"): ("broker configs", "default broker configs"),
    ("quotas", "set"): QUOTAS,
    ("broker_dies", "dead"): ILL,
    ("cancel_reassignment", "stuck"): (*ILL, "moves"),
    ("controlled_shutdown", "stopped"): ILL,
    ("all_replicas_die", "both"): ILL,
    ("automatic_rebalance", "not deleted"): ("topics",),
}


def names() -> list[str]:
    """The operations by name, in order."""
    return [operation.__name__ for operation in OPERATIONS]


def _leader(lab: Cluster, topic: str, partition: int) -> int:
    state = lab.tree()[f"/brokers/topics/{topic}/partitions/{partition}/state"].json
    return int(state["leader"])


def _preferred_lead(lab: Cluster) -> bool:
    topics = metadata(lab.brokers[THIRD_CONTROLLER].address)["topics"]
    return all(
        state["leader"] == state["replicas"][0]
        for partitions in topics.values()
        for state in partitions.values()
    )
