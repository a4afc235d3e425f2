"""What is said about everything else: versions, configs, log directories, ids, broken frames."""

import struct
from collections.abc import Callable

from odradek.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.k18_api_versions import ApiVersionsRequest
from odradek.protocol.messages.k22_init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.k32_describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from odradek.protocol.messages.k35_describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from odradek.protocol.messages.k60_describe_cluster import DescribeClusterRequest
from tests.support.frames import framed, request_bytes
from tests.support.messages import produce_request
from tests.wire.raw import request
from tests.wire.talk import CLOSED, Talk, batch, versions

API_VERSIONS, INIT_PRODUCER_ID, DESCRIBE_CONFIGS, LOG_DIRS, CLUSTER = 18, 22, 32, 35, 60
TOPIC, BROKER = 2, 4


def api_versions(talk: Talk) -> None:
    """Names that are allowed and not, and versions of which we do not know."""
    for name, version in (
        ("", "1"),
        ("a", ""),
        ("apache-kafka-java", "3.9.2"),
        ("a b", "1"),
        ("-a", "1"),
        ("a-", "1"),
        ("a.b-c", "1_2"),
        ("a" * 300, "1"),
        ("ä", "1"),
    ):
        for api_version in (3, 4):
            asked = ApiVersionsRequest(client_software_name=name, client_software_version=version)
            answer = talk.exchange(asked, api_version)
            talk.note(f"v{api_version} {name[:30]!r} {version!r}", answer.error_code)
    for api_version in (0, 1, 2):
        answer = talk.exchange(ApiVersionsRequest(), api_version)
        talk.note(f"v{api_version}", answer.error_code)
    for api_version in (5, 99, -1, 32767):
        tags = b"\0" if api_version > 0 else b""
        bare = request(API_VERSIONS, api_version, tags)
        talk.say_bytes(f"version {api_version}", framed(bare))
        talk.say_bytes(f"version {api_version} with a body", framed(bare + b"\xff" * 9))


def broken_frames(talk: Talk) -> None:
    """Frames over which one hangs up, and frames that are let pass."""
    good = request_bytes(DescribeClusterRequest(), 0)
    for label, frame in (
        ("empty frame", b""),
        ("one byte", b"\0"),
        ("key only", b"\0\x03"),
        ("no client id", struct.pack(">hhi", 3, 1, 1)),
        ("unknown key", request(999, 0)),
        ("negative key", request(-1, 0)),
        ("Metadata v99", request(3, 99)),
        ("Metadata v-1", request(3, -1)),
        ("Produce v99", request(0, 99)),
        ("cut", good[:-1]),
        ("array too long", request(3, 1, struct.pack(">i", 5))),
        ("array huge", request(3, 1, struct.pack(">i", 2**31 - 1))),
        ("string -2", request(3, 1, struct.pack(">ih", 1, -2))),
        ("string null", request(3, 1, struct.pack(">ih", 1, -1))),
        ("string too long", request(3, 1, struct.pack(">ih", 1, 99) + b"a")),
        ("ends in a header tag", struct.pack(">hhih", 3, 9, 1, -1) + b"\x01"),
        ("closed to clients: LeaderAndIsr", request(4, 0)),
        ("Envelope", request(58, 0)),
    ):
        talk.say_bytes(label, framed(frame))
    for label, data in (
        ("negative size", struct.pack(">i", -1)),
        ("size beyond the limit", struct.pack(">i", 2**31 - 1)),
    ):
        talk.say_bytes(label, data)
    answer = talk.ask_frame(good + b"\0\0\0")
    talk.note("bytes after the request", None if answer is None else answer[:4])
    talk.close()
    # To Kafka all topics, whichever there are.
    answer = talk.ask_frame(request(3, 1, struct.pack(">i", -2)))
    talk.note("array -2", CLOSED if answer is None else answer[:4])
    talk.close()
    tagged = struct.pack(">hhih", 60, 0, 1, -1) + b"\x01\x63\x02ab" + b"\0\0"
    answer = talk.ask_frame(tagged)
    talk.note("unknown tag in the header", None if answer is None else answer[:4])


def describe_configs(talk: Talk) -> None:
    """Topics and brokers, known and unknown, with keys, synonyms and documentation."""
    name = talk.create("t", segment_bytes="20000", cleanup_policy="compact")
    keys = ["segment.bytes", "retention.ms", "cleanup.policy", "no.such", "max.message.bytes"]
    broker_keys = ["num.partitions", "log.segment.bytes", "no.such", "log.retention.hours"]
    for version in versions(DESCRIBE_CONFIGS):
        for label, kind, resource, wanted in (
            ("topic", TOPIC, name, keys),
            ("no keys", TOPIC, name, []),
            ("absent", TOPIC, talk.topic("absent"), None),
            ("bad name", TOPIC, "a b", None),
            ("empty name", TOPIC, "", None),
            ("broker", BROKER, "0", broker_keys),
            ("other broker", BROKER, "7", None),
            ("no number", BROKER, "x", None),
            ("cluster", BROKER, "", None),
            ("logger", 8, "0", ["root"]),
            ("unknown kind", 0, "0", None),
            ("kind 99", 99, "0", None),
        ):
            for synonyms in (False, True) if version >= 1 else (False,):
                asked = _configs_of(kind, resource, wanted)
                asked.include_synonyms = synonyms
                talk.ask(f"v{version} {label} {synonyms}", asked, version)
    everything = _configs_of(TOPIC, name, None)
    everything.include_synonyms = True
    talk.ask("whole topic", everything, 4)
    twice = _configs_of(TOPIC, name, ["segment.bytes"])
    twice.resources *= 2
    talk.ask("twice", twice, 4)


def _configs_of(kind: int, name: str, keys: list[str] | None) -> DescribeConfigsRequest:
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=keys
    )
    return DescribeConfigsRequest(resources=[resource])


def describe_log_dirs(talk: Talk) -> None:
    """Sizes of partitions, some and unknown ones."""
    name = talk.create("t", 2)
    talk.exchange(produce_request(name, {1: batch(b"a", b"b")}), 11)
    for version in versions(LOG_DIRS):
        for label, topic, partitions in (
            ("all of it", name, [0, 1]),
            ("one", name, [1]),
            ("unknown", name, [1, 9]),
            ("none", name, []),
            ("absent", talk.topic("absent"), [0]),
        ):
            topics = [DescribableLogDirTopic(topic=topic, partitions=partitions)]
            talk.ask(f"v{version} {label}", DescribeLogDirsRequest(topics=topics), version)
        talk.ask(f"v{version} empty", DescribeLogDirsRequest(topics=[]), version)


def describe_cluster(talk: Talk) -> None:
    """Brokers, operations, and endpoints of the wrong kind."""
    for version in versions(CLUSTER):
        for operations in (False, True):
            for kind in (1, 2, 3) if version else (1,):
                asked = DescribeClusterRequest(
                    include_cluster_authorized_operations=operations, endpoint_type=kind
                )
                talk.ask(f"v{version} {operations} {kind}", asked, version)


def producer_ids(talk: Talk) -> None:
    """Idempotent producers; what is no producer yet."""
    for version in versions(INIT_PRODUCER_ID):
        plain = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1)
        talk.ask(f"v{version}", plain, version)
        if version < 3:
            continue
        for number, epoch in ((5, 3), (5, -1), (-1, 3), (-7, 0)):
            known = InitProducerIdRequest(
                transactional_id=None, producer_id=number, producer_epoch=epoch
            )
            talk.ask(f"v{version} {number} {epoch}", known, version)


def coordinators(talk: Talk) -> None:
    """Kinds of coordinators that do not exist."""
    for version in range(1, 4):
        for kind in (-1, 3, 99):
            asked = FindCoordinatorRequest(key="g", key_type=kind)
            talk.ask(f"v{version} {kind}", asked, version)
    for version in range(4, 7):
        for kind in (-1, 3, 99):
            asked = FindCoordinatorRequest(key_type=kind, coordinator_keys=["g", "h"])
            talk.ask(f"v{version} {kind}", asked, version)


CONVERSATIONS: tuple[Callable[[Talk], None], ...] = (
    api_versions,
    broken_frames,
    describe_configs,
    describe_log_dirs,
    describe_cluster,
    producer_ids,
    coordinators,
)
