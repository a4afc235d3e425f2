"""`WithBroker` of `odradek.testing.unittest`, and `with Broker()` in a script."""

import re
import subprocess
import sys
import unittest
from typing import Any

import pytest
from confluent_kafka import Producer

from odradek.testing.unittest import WithBroker
from tests.docs.pages import DOCS

pytestmark = [pytest.mark.wire, pytest.mark.slow]
WITHOUT_PYTEST = """
import sys
sys.modules["pytest"] = None  # importing it fails
"""


def run(case: type[unittest.TestCase]) -> unittest.TestResult:
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(case).run(result)
    return result


class InProcess(WithBroker):
    """Not run by itself, as it has no tests."""

    odradek_in_process = True


def test_each_test_finds_the_state_of_the_start() -> None:
    brokers = []

    class Orders(InProcess):
        odradek_wants = {"topics": {"orders": 2}, "brokers": 2}  # noqa: RUF012
        odradek_load = (lambda broker: broker.produce("orders", b"seed"),)

        def see_and_change(self) -> None:
            brokers.append(self.odradek)
            self.assertEqual([r.value for r in self.odradek.records("orders")], [b"seed"])
            self.assertNotIn("other", self.odradek.topics)
            self.assertEqual(self.odradek.broker_ids, [0, 1])
            self.odradek.produce("orders", b"more")
            self.odradek.topics.create("other")

        test_one = test_two = see_and_change

    result = run(Orders)
    assert (result.testsRun, result.errors, result.failures) == (2, [], [])
    assert brokers[0] is brokers[1] and not brokers[0].running


def test_a_failure_reports_requests_and_a_rule_must_act() -> None:
    class Orders(InProcess):
        def test_failure(self) -> None:
            producer = Producer({**self.odradek.client_config("confluent"), "client.id": "app"})
            producer.produce("orders", b"v")
            producer.flush()
            self.fail("so")

        def test_passes_but_for_its_rule(self) -> None:
            self.odradek.faults.add(api="Produce", topic="orders", error="NOT_LEADER_OR_FOLLOWER")

        def test_skipped(self) -> None:
            self.odradek.faults.add(api="Produce", topic="orders", error="NOT_LEADER_OR_FOLLOWER")
            self.skipTest("so")

    result = run(Orders)
    assert (result.testsRun, result.errors, len(result.skipped)) == (3, [], 1)
    (_, failure), (_, unused) = result.failures
    assert "AssertionError: so\n" in failure and "\nlast requests:\n" in failure
    assert "Produce v" in failure and "client_id=app topics=orders" in failure
    assert "rules that never acted:\nf1 (api='Produce', topic='orders'" in unused


def test_coroutines() -> None:
    class Orders(InProcess, unittest.IsolatedAsyncioTestCase):
        async def test_passes(self) -> None:
            await self.odradek.aio.topics.create("orders")

        async def test_fails(self) -> None:
            await self.odradek.aio.faults.add(api="Fetch", close=True)

    result = run(Orders)
    assert (result.testsRun, result.errors, len(result.failures)) == (2, [], 1)


def test_a_broker_that_a_test_has_closed_is_replaced() -> None:
    class Orders(InProcess):
        def test_a(self) -> None:
            self.odradek.close()

        def test_b(self) -> None:
            self.odradek.topics.create("orders")

    assert run(Orders).wasSuccessful()


@pytest.mark.parametrize(
    ("wants", "sentence"),
    [
        ("brokers=3", "ValueError: odradek_wants='brokers=3' is not a dict"),
        ({"topic": {}}, "ValueError: odradek_wants has no argument topic: did you mean topics?"),
        (
            {"share": False},
            "ValueError: odradek_wants has no argument share: each class has its own broker",
        ),
        ({"brokers": "3"}, "ValueError: odradek_wants(brokers='3'): brokers is a number"),
    ],
)
def test_a_wrong_wish_is_refused(wants: Any, sentence: str) -> None:
    class Orders(InProcess):
        odradek_wants = wants

        def test_it(self) -> None: ...

    ((_, error),) = run(Orders).errors
    assert error.endswith(f"{sentence}\n")


def test_a_forgotten_super_is_told() -> None:
    class NoSetUp(InProcess):
        def setUp(self) -> None: ...

        def test_it(self) -> None: ...

    class NoSetUpClass(NoSetUp):
        setUp = InProcess.setUp

        @classmethod
        def setUpClass(cls) -> None: ...

    for case, name in ((NoSetUp, "setUp"), (NoSetUpClass, "setUpClass")):
        ((_, error),) = run(case).errors
        assert error.endswith(f"RuntimeError: {name} must call super().{name}()\n")


def blocks(heading: str) -> list[str]:
    """The Python of a section of the page."""
    section = (
        (DOCS / "testing.md").read_text().partition(f"## {heading}\n")[2].partition("\n## ")[0]
    )
    return re.findall(r"^```python\n(.*?)^```", section, re.MULTILINE | re.DOTALL)


def test_the_example_of_a_script_runs_without_pytest() -> None:
    (example,) = blocks("In a script")
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_PYTEST + example],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("[b'one']\n", "", 0)


def test_the_example_of_a_test_case_passes() -> None:
    (example,) = blocks("With unittest")
    names: dict[str, Any] = {}
    exec(example, names)
    result = run(names["TestOrders"])
    assert (result.testsRun, result.errors, result.failures) == (2, [], [])
