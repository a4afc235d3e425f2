"""Rules of brokers that have a process each."""

from typing import Any

import pytest

from odradek.testing.faults import Faults


class Process:
    """Stands for the admin API of a process with one broker."""

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.rules: list[dict[str, Any]] = []

    def get(self, *segments: str) -> Any:
        assert segments == ("brokers",)
        return {"brokers": [{"id": self.broker_id}]}

    def post(self, *segments: str, **rule: Any) -> Any:
        if rule.get("broker", self.broker_id) != self.broker_id:
            raise ValueError(f"broker: there is no broker {rule['broker']} in this process")
        self.rules.append(rule)
        return {"id": "f1"}


def test_a_rule_is_in_the_process_of_the_broker_that_it_names() -> None:
    processes = [Process(0), Process(1), Process(2)]
    faults = Faults(processes, in_process=False)  # type: ignore[arg-type]
    faults.add(api="Fetch", close=True)
    faults.add(api="Fetch", close=True, broker=1)
    assert [len(each.rules) for each in processes] == [1, 2, 1]
    with pytest.raises(ValueError, match="there is no broker 7"):
        faults.add(api="Fetch", close=True, broker=7)
    assert [len(each.rules) for each in processes] == [1, 2, 1]
