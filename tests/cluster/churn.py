"""What goes on while brokers die: topics come, grow and go."""

import itertools
from collections import Counter, deque
from typing import Final

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k19_create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.protocol.messages.k37_create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from odradek.protocol.schema import Message
from tests.lab.asking import ask, codes_in
from tests.lab.background import Background

from .clusters import Cluster

TOPICS_KEPT: Final = 6
PAUSE_S: Final = 0.05
ANSWER_TIMEOUT_MS: Final = 500
# What a controller says that has just woken up.
NO_SESSION: Final = "the coordination store is out of reach"
# What may be said of a topic while brokers die.
PASSING: Final = frozenset(
    {
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.STALE_CONTROLLER_EPOCH,
        ErrorCode.INVALID_REPLICATION_FACTOR,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.INVALID_PARTITIONS,
    }
)
# What is written, and only not seen to be done in time.
WILL_BE_DONE: Final = frozenset({ErrorCode.REQUEST_TIMED_OUT})
MAY_BE_THERE: Final = WILL_BE_DONE | {ErrorCode.TOPIC_ALREADY_EXISTS}


class Churn(Background):
    """Makes topics, adds partitions and deletes them."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__("churn")
        self.asked_to_delete: list[str] = []
        self.answers: Counter[str] = Counter()
        self.unexpected: list[str] = []
        self._cluster = cluster

    def _run(self) -> None:
        there: deque[str] = deque()
        for number in itertools.count():
            if self._stop.is_set():
                return
            name = f"churn-{number}"
            topic = CreatableTopic(name=name, num_partitions=2, replication_factor=2)
            create = CreateTopicsRequest(topics=[topic], timeout_ms=ANSWER_TIMEOUT_MS)
            if self._ask("create", create, 7) <= MAY_BE_THERE:
                there.append(name)
            if number % 2 and there:
                grown = CreatePartitionsTopic(name=there[0], count=4, assignments=None)
                grow = CreatePartitionsRequest(topics=[grown], timeout_ms=ANSWER_TIMEOUT_MS)
                self._ask("grow", grow, 3)
            if len(there) > TOPICS_KEPT:
                gone = DeleteTopicState(name=there[0])
                delete = DeleteTopicsRequest(topics=[gone], timeout_ms=ANSWER_TIMEOUT_MS)
                if self._ask("delete", delete, 6) <= WILL_BE_DONE:
                    self.asked_to_delete.append(there.popleft())
                else:
                    there.rotate(-1)
            self._stop.wait(PAUSE_S)

    def _ask(self, what: str, request: Message, version: int) -> set[ErrorCode]:
        """With what errors a controller has answered; NOT_CONTROLLER if nobody has."""
        try:
            controller = self._cluster.controller()
            if controller is None:
                return {ErrorCode.NOT_CONTROLLER}
            answer = ask(self._cluster.addresses[controller], request, version)
        except OSError as error:
            self.answers[f"{what} {type(error).__name__}"] += 1
            return {ErrorCode.NOT_CONTROLLER}
        codes = codes_in(answer)
        self.answers[f"{what} {codes[0][0].name if codes else 'done'}"] += 1
        self.unexpected += [
            f"{what}: {code.name} {text}"
            for code, text in codes
            if code not in PASSING and NO_SESSION not in text
        ]
        return {code for code, _ in codes}
