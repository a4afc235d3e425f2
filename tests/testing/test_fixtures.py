"""The fixtures in a pytest run of their own, as in a user's project."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.wire

USER_TESTS = """
from kafka import KafkaAdminClient, KafkaProducer


def topics(broker):
    admin = KafkaAdminClient(**broker.client_config("kafka-python"))
    found = {t["name"]: len(t["partitions"]) for t in admin.describe_topics()}
    admin.close()
    return found


def write(broker, topic):
    producer = KafkaProducer(**broker.client_config("kafka-python"))
    producer.send(topic, b"x").get(30)
    producer.close()


def test_one(odradek, odradek_server):
    assert odradek is odradek_server
    assert topics(odradek) == {}
    write(odradek, "t")
    assert topics(odradek) == {"t": PARTITIONS}


def test_two_starts_clean(odradek):
    assert topics(odradek) == {}
    write(odradek, "t")


def test_three_shares_what_is_there(odradek_server):
    assert topics(odradek_server) == {"t": PARTITIONS}
    odradek_server.kill()


def test_four_has_a_running_broker(odradek):
    assert topics(odradek) == {}
"""


def pytest_run(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", *arguments],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=200,
    )


def test_clean_state_and_settings(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nodradek_settings =\n    num.partitions = 3\n")
    (tmp_path / "test_user.py").write_text(USER_TESTS.replace("PARTITIONS", "3"))
    done = pytest_run(tmp_path)
    assert "4 passed" in done.stdout, done.stdout + done.stderr


def test_the_command_line_goes_first(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nodradek_settings =\n    num.partitions = 3\n")
    (tmp_path / "test_user.py").write_text(USER_TESTS.replace("PARTITIONS", "2"))
    done = pytest_run(tmp_path, "--odradek-set", "num.partitions=2")
    assert "4 passed" in done.stdout, done.stdout + done.stderr


def test_a_bad_setting_is_named(tmp_path: Path) -> None:
    (tmp_path / "test_user.py").write_text("def test_one(odradek): pass\n")
    done = pytest_run(tmp_path, "--odradek-set", "num.partitions")
    assert done.returncode != 0
    assert "'num.partitions' is not name=value" in done.stdout + done.stderr
    done = pytest_run(tmp_path, "--odradek-set", "num.partitions=many")
    assert "BrokerFailed" in done.stdout and "num.partitions" in done.stdout
    assert "odradek/testing/" not in done.stdout  # no frame of ours


def test_fixtures_are_listed(tmp_path: Path) -> None:
    listed = pytest_run(tmp_path, "--fixtures").stdout
    names = ("odradek_settings", "odradek_server", "odradek ", "odradek_cluster", "odradek_factory")
    for name in names:
        assert f"\n{name}" in listed


MARKED = """
import pytest

servers = []


def topics(broker):
    return {name: len(broker.topics[name].partitions) for name in broker.topics}


@pytest.fixture(scope="session")
def odradek_load(odradek_load):
    return [*odradek_load, lambda broker: servers.append(broker)]


@pytest.mark.odradek(topics={"seeded": 3})
@pytest.mark.parametrize("n", [1, 2])
def test_topics(odradek, odradek_server, n):
    assert odradek is odradek_server
    assert topics(odradek) == {"a": 2, "b": 1, "seeded": 3}


def test_without(odradek):
    assert topics(odradek) == {"a": 2, "b": 1}
    assert [record.value for record in odradek.records("b")] == [None, b"1"]


@pytest.mark.odradek(brokers=2, settings={"num.partitions": 5})
class TestCluster:
    def test_one(self, odradek):
        assert odradek.broker_ids == [0, 1]
        assert len(servers) == 2

    @pytest.mark.odradek(auto_create=False)
    def test_other(self, odradek):
        assert odradek.broker_ids == [0, 1]
        assert odradek._settings["num.partitions"] == "5"
        assert odradek._settings["auto.create.topics.enable"] == "false"
        assert len(servers) == 3

    def test_same_again(self, odradek):
        assert odradek is servers[1]
"""


def test_markers_topics_and_loads(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nodradek_topics = a:2\nodradek_in_process = true\nodradek_load = seed.json\n"
        "addopts = --strict-markers\n"
    )
    (tmp_path / "seed.json").write_text(
        '{"topics": [{"name": "b", "records": [{"key": "k", "value": null}, {"value": "1"}]}]}'
    )
    (tmp_path / "test_user.py").write_text(MARKED)
    done = pytest_run(tmp_path)
    assert "6 passed" in done.stdout, done.stdout + done.stderr


def test_what_makes_no_sense_is_refused_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "test_user.py").write_text(
        "import pytest\n@pytest.mark.odradek(broker=3)\ndef test_one(odradek): pass\n"
        "def test_two(odradek): pass\n"
    )
    done = pytest_run(tmp_path, "--odradek-set=num.partition=4")
    assert "2 errors" in done.stdout
    assert "has no argument broker: did you mean brokers?" in done.stdout
    assert "there is no setting num.partition: did you mean num.partitions?" in done.stdout
    assert "Traceback" not in done.stdout and "During handling" not in done.stdout


@pytest.mark.slow
def test_spark_that_is_not_installed_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("import sys\nsys.modules['pyspark'] = None\n")
    (tmp_path / "test_user.py").write_text("def test_one(odradek_spark): pass\n")
    said = pytest_run(tmp_path).stdout
    assert "odradek_spark: this needs PySpark: pip install 'odradek[spark]'" in said
    assert "Traceback" not in said and "During handling" not in said


SCOPED = """
import pytest
from kafka import KafkaAdminClient

from test_marked import topics


class TestOne:
    def test_first(self, odradek):
        assert topics(odradek) == {}
        odradek.topics.create("t")

    def test_second(self, odradek):
        assert topics(odradek) == {"t": 1}


class TestTwo:
    def test_third(self, odradek):
        assert topics(odradek) == {}

    @pytest.mark.odradek(topics={"x": 1})
    def test_fourth(self, odradek):
        pass


class TestThree:
    def test_makes_a_rule(self, odradek):
        odradek.faults.add(api="Fetch", topic="orders", close=True)

    def test_leaves_it_unused(self, odradek):
        assert len(odradek.faults.all()) == 1


def ask(broker, client_id):
    KafkaAdminClient(**broker.client_config("kafka-python"), client_id=client_id).close()


class TestFour:
    def test_asks(self, odradek):
        ask(odradek, "before")

    def test_fails(self, odradek):
        ask(odradek, "itself")
        assert False, "its own reason"
"""


def test_the_scope_says_how_long_the_state_stays(tmp_path: Path) -> None:
    (tmp_path / "test_marked.py").write_text(MARKED.partition("@pytest.fixture")[0])
    (tmp_path / "test_user.py").write_text(SCOPED)
    done = pytest_run(tmp_path, "--odradek-scope=class", "--odradek-in-process=true")
    said = done.stdout
    assert "1 failed, 6 passed" in said and "2 errors" in said, said + done.stderr
    assert "at a test has no effect with odradek_scope=class" in said
    assert "ERROR test_user.py::TestThree::test_leaves_it_unused" in said
    assert "api='Fetch', topic='orders', close=True): no Fetch came" in said
    requests = said[said.index("last requests") :]
    assert "client_id=itself" in requests and "client_id=before" not in requests


MORE_BROKERS = """
import pytest


def test_a_cluster(odradek, odradek_cluster):
    assert odradek.broker_ids == [0]
    assert odradek_cluster.broker_ids == [0, 1, 2]
    odradek_cluster.topics.create("t")


def test_a_cluster_is_clean_again(odradek_cluster):
    assert list(odradek_cluster.topics) == []


@pytest.mark.odradek(brokers=2)
def test_the_marker_says_how_many(odradek_cluster):
    assert odradek_cluster.broker_ids == [0, 1]


made = []


def test_more(odradek_factory):
    one, two = odradek_factory(in_process=True), odradek_factory(settings={"num.partitions": 3})
    assert len(one.topics.create("t").partitions) == 1
    assert len(two.topics.create("t").partitions) == 3
    two.close()
    made.extend([one, two])


def test_they_are_closed():
    assert len(made) == 2 and not any(broker.running for broker in made)


def test_a_rule_there_never_acts(odradek_factory):
    odradek_factory(in_process=True).faults.add(api="Fetch", close=True)


def test_one_fails(odradek_factory):
    odradek_factory(in_process=True).topics.create("mine")
    assert False, "its own reason"


def test_none_is_started(odradek_factory):
    pass
"""


@pytest.mark.slow
def test_a_cluster_and_more_brokers(tmp_path: Path) -> None:
    (tmp_path / "test_user.py").write_text(MORE_BROKERS)
    done = pytest_run(tmp_path, "--odradek-in-process=true", "-W", "ignore")
    said = done.stdout
    assert "1 failed, 7 passed, 1 error" in said, said + done.stderr
    assert "ERROR test_user.py::test_a_rule_there_never_acts" in said
    assert "mine: 0 ends at 0" in said


FACTORY_IN_CLASS = """
class TestOne:
    def test_leaves_a_rule_unused(self, odradek):
        odradek.topics.create("of-the-class")
        odradek.faults.add(api="Fetch", topic="orders", close=True)

    def test_fails_with_both(self, odradek, odradek_factory):
        odradek_factory(in_process=True).topics.create("of-the-factory")
        assert False, "its own reason"


class TestTwo:
    def test_has_both(self, odradek, odradek_factory):
        odradek.faults.add(api="Fetch", topic="payments", close=True)
        odradek_factory(in_process=True)
"""


@pytest.mark.slow
def test_tests_with_more_brokers_count_for_their_class(tmp_path: Path) -> None:
    (tmp_path / "test_user.py").write_text(FACTORY_IN_CLASS)
    options = ("--odradek-in-process=true", "--odradek-scope=class", "-W", "ignore")
    done = pytest_run(tmp_path, *options)
    said = done.stdout
    assert "1 failed, 2 passed, 1 error" in said, said + done.stderr
    assert "topic='payments', close=True): no Fetch came" in said
    assert "topic='orders'" not in said
    assert "of-the-class: 0 ends at 0" in said and "of-the-factory: 0" not in said
