"""Each verb of other mocks that docs/faults.md translates has a test with its equivalent."""

import ast
from functools import cache
from typing import Final

import pytest

from tests.docs.pages import DOCS, ROOT

CLIENTS: Final = "tests/testing/test_faults_with_clients.py::"
CLOCK: Final = "tests/testing/test_clock.py::"
ADMIN: Final = "tests/testing/test_admin.py::"
CLUSTER: Final = "tests/testing/test_cluster.py::"
CLUSTERS: Final = "tests/testing/test_faults_in_clusters.py::"
TESTS: Final = {
    "`ControlKey(0, func…)` that returns an error response": (
        CLIENTS + "test_librdkafka_tries_again_after_a_new_leader"
    ),
    "`ControlKey` that returns a response of its own": (
        CLIENTS + "test_an_answer_that_a_function_computes"
    ),
    "`ControlKey` that returns an error, so that the connection closes": (
        CLIENTS + "test_errors_one_after_another"
    ),
    "`Control(func…)`: any request": CLIENTS + "test_every_request_of_a_client_is_late",
    "`KeepControl()`: the function stays": CLIENTS + "test_a_rule_acts_until_it_is_removed",
    "`DropControl()`": CLIENTS + "test_a_rule_acts_until_it_is_removed",
    "`SleepControl(…)`": CLIENTS + "test_a_record_expires_while_the_broker_is_silent",
    "`ControlKey` that returns neither, so that no answer comes": (
        CLIENTS + "test_a_record_expires_while_the_broker_is_silent"
    ),
    "`AddFault(Fault{…})`, `Fired()`, `Remove()`": (
        CLIENTS + "test_a_rule_acts_until_it_is_removed"
    ),
    "`RehashCoordinators()`": ADMIN + "test_a_group_goes_on_with_another_coordinator",
    "`LeaderFor`, `TopicInfo`, `PartitionInfo`": (
        ADMIN + "test_topics_are_created_looked_at_and_deleted"
    ),
    "`SetFollowers(topic, partition, nodes)`": CLUSTERS + "test_a_reader_is_sent_to_a_follower",
    "`RemoveNode(n)`": CLUSTER + "test_a_killed_leader_is_replaced_and_comes_back",
    "`ApplyRetention()`": CLOCK + "test_old_segments_are_deleted_when_advance_returns",
    "a function that counts requests": CLIENTS + "test_requests_are_counted_and_forgotten",
    "`CurrentNode()`": CLUSTERS + "test_rules_reach_all_brokers_or_the_one_they_name",
    "`CoordinatorFor(key)`": ADMIN + "test_a_group_goes_on_with_another_coordinator",
    "`MoveTopicPartition`, `ShufflePartitionLeaders`": ADMIN + "test_leaders_are_moved",
    "`rd_kafka_mock_push_request_errors(api, n, e1, e2, …)`": (
        CLIENTS + "test_errors_one_after_another"
    ),
    "the error `RD_KAFKA_RESP_ERR__TRANSPORT` in it": CLIENTS + "test_errors_one_after_another",
    "`rd_kafka_mock_broker_push_request_error_rtts(broker, …)`": (
        CLIENTS + "test_a_slow_broker_is_asked_again_after_the_clients_timeout"
    ),
    "`rd_kafka_mock_clear_request_errors(api)`": CLIENTS + "test_a_rule_acts_until_it_is_removed",
    "`rd_kafka_mock_broker_error_stack_cnt`": (CLIENTS + "test_requests_are_counted_and_forgotten"),
    "`rd_kafka_mock_topic_set_error(topic, e)`": (
        CLIENTS + "test_a_topic_that_its_metadata_refuses"
    ),
    "`rd_kafka_mock_partition_set_leader` with -1": CLIENTS + "test_a_partition_without_a_leader",
    "`rd_kafka_mock_partition_set_follower`": CLUSTERS + "test_a_reader_is_sent_to_a_follower",
    "`rd_kafka_mock_partition_set_follower_wmarks`": (
        CLUSTERS + "test_a_reader_is_sent_to_a_follower"
    ),
    "`rd_kafka_mock_broker_set_host_port`, `…_remove_from_metadata`": (
        CLIENTS + "test_a_broker_that_is_elsewhere"
    ),
    "`rd_kafka_mock_broker_decommission`": (
        CLUSTER + "test_a_killed_leader_is_replaced_and_comes_back"
    ),
    "`rd_kafka_mock_request_id`, `…_api_key`, `…_timestamp`": (
        CLUSTERS + "test_rules_reach_all_brokers_or_the_one_they_name"
    ),
    "`rd_kafka_mock_set_group_consumer_session_timeout_ms`, `…_heartbeat_interval_ms`": (
        "tests/wire/test_groups.py::test_members_come_leave_and_crash"
    ),
    "`rd_kafka_mock_cgrp_consumer_target_assignment`": (
        CLIENTS + "test_a_member_is_assigned_what_a_rule_says"
    ),
    "`rd_kafka_mock_broker_set_rack(broker, rack)`": (
        "tests/testing/test_racks.py::"
        "test_consumers_read_in_their_rack_and_replicas_are_spread_over_racks"
    ),
    "`rd_kafka_mock_broker_set_rtt(broker, ms)`": (
        "tests/testing/test_network.py::test_clients_reach_nothing_and_slow_brokers_slowly"
    ),
    "`rd_kafka_mock_start_request_tracking`, `…_get_requests`": (
        CLIENTS + "test_requests_are_counted_and_forgotten"
    ),
    "`rd_kafka_mock_clear_requests`": CLIENTS + "test_requests_are_counted_and_forgotten",
    "`rd_kafka_mock_partition_set_leader`": ADMIN + "test_leaders_are_moved",
    "`rd_kafka_mock_coordinator_set(type, key, broker)`": (
        ADMIN + "test_a_coordinator_of_transactions_is_moved"
    ),
    "`rd_kafka_mock_broker_set_down`, `…_set_up`": (
        CLUSTER + "test_a_killed_leader_is_replaced_and_comes_back"
    ),
    "`rd_kafka_mock_topic_create`": ADMIN + "test_topics_are_created_looked_at_and_deleted",
    "`rd_kafka_mock_set_apiversion`": CLIENTS + "test_a_broker_that_is_older_than_it_is",
    "`rd_kafka_mock_group_initial_rebalance_delay_ms`": (
        CLOCK + "test_the_first_member_waits_for_others"
    ),
}


def verbs() -> list[str]:
    """The first cells of the two tables."""
    page = (DOCS / "faults.md").read_text().partition("## Coming from kfake\n")[2]
    rows = [line.split(" | ")[0].removeprefix("| ") for line in page.splitlines() if "|" in line]
    return [row for row in rows if row not in ("kfake", "librdkafka") and "---" not in row]


def test_the_tables_have_these_verbs() -> None:
    assert sorted(verbs()) == sorted(TESTS)


@pytest.mark.parametrize("node", sorted(set(TESTS.values())))
def test_there_is_such_a_test(node: str) -> None:
    file, _, name = node.partition("::")
    assert name in functions(file)


@cache
def functions(file: str) -> set[str]:
    tree = ast.parse((ROOT / file).read_text())
    return {each.name for each in tree.body if isinstance(each, ast.FunctionDef)}
