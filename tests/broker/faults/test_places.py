"""Where errors are, for each API as Kafka has it."""

import pytest

from odradek.broker.faults.places import WHOLE, place_of
from odradek.broker.faults.rule import Rule
from odradek.broker.faults.targets import path_of
from odradek.broker.handlers import APIS
from odradek.protocol.errors import ErrorCode

API = {api.name: api for api in APIS.values()}


@pytest.mark.parametrize(
    ("name", "version", "naming", "error", "place"),
    [
        ("Produce", 9, {}, "NOT_LEADER_OR_FOLLOWER", "partition_responses"),
        ("Produce", 9, {"topic": "t"}, "INVALID_PRODUCER_EPOCH", "partition_responses"),
        ("Fetch", 12, {}, "UNKNOWN_SERVER_ERROR", "partitions"),
        ("Fetch", 12, {}, "INVALID_FETCH_SESSION_EPOCH", "whole"),
        ("Metadata", 12, {}, "LEADER_NOT_AVAILABLE", "topics"),
        ("Metadata", 12, {"topic": "t"}, "LEADER_NOT_AVAILABLE", "topics"),
        ("Metadata", 12, {"partition": 1}, "LEADER_NOT_AVAILABLE", "partitions"),
        ("OffsetFetch", 1, {}, "NOT_COORDINATOR", "partitions"),
        ("OffsetFetch", 7, {}, "NOT_COORDINATOR", "whole"),
        ("OffsetFetch", 7, {}, "UNSTABLE_OFFSET_COMMIT", "partitions"),
        ("OffsetFetch", 8, {"group": "g"}, "NOT_COORDINATOR", "groups"),
        ("OffsetFetch", 8, {}, "UNSTABLE_OFFSET_COMMIT", "partitions"),
        ("OffsetFetch", 8, {"topic": "t"}, "UNKNOWN_TOPIC_OR_PARTITION", "partitions"),
        ("OffsetCommit", 8, {"group": "g"}, "NOT_COORDINATOR", "partitions"),
        ("OffsetDelete", 0, {"group": "g"}, "GROUP_ID_NOT_FOUND", "whole"),
        ("OffsetDelete", 0, {}, "GROUP_SUBSCRIBED_TO_TOPIC", "partitions"),
        ("FindCoordinator", 3, {"group": "g"}, "COORDINATOR_NOT_AVAILABLE", "whole"),
        ("FindCoordinator", 4, {"group": "g"}, "COORDINATOR_NOT_AVAILABLE", "coordinators"),
        ("JoinGroup", 9, {"group": "g"}, "REBALANCE_IN_PROGRESS", "whole"),
        ("LeaveGroup", 5, {}, "UNKNOWN_MEMBER_ID", "whole"),
        ("AddPartitionsToTxn", 3, {}, "INVALID_TXN_STATE", "results_by_partition"),
        ("EndTxn", 3, {"transactional_id": "x"}, "INVALID_PRODUCER_EPOCH", "whole"),
        ("CreateAcls", 3, {}, "SECURITY_DISABLED", "whole"),
        ("DeleteGroups", 2, {}, "NON_EMPTY_GROUP", "results"),
    ],
)
def test_places(name: str, version: int, naming: dict[str, object], error: str, place: str) -> None:
    code = ErrorCode[error]
    rule = Rule(api=name, error=code, **naming)  # type: ignore[arg-type]
    found = place_of(API[name], version, rule, code)
    if found is WHOLE:
        assert place == "whole"
    else:
        response = API[name].response
        assert path_of(response, version)[found].field == place
