"""Transactional ids in every state, left by one broker and ended by another on the same files."""

from typing import Any, Final

from tests.support.waiting import until
from tests.wire.servers import Server
from tests.wire.transaction_talk import (
    Transactional,
    TransactionTalk,
    wait_until_transactions_are_served,
)

TOPIC: Final = "states"
GROUP: Final = "states-group"
CONFIG: Final = {"retention.ms": "-1"}


class LeftTransactions:
    """One id in each state: Empty, Ongoing, PrepareCommit, PrepareAbort, Complete."""

    def __init__(self, server: Server, name: str) -> None:
        wait_until_transactions_are_served(server)
        self._talk = talk = TransactionTalk(server, name)
        self.empty = talk.producer("empty").init(timeout_ms=900_000)
        self.ongoing = talk.producer("ongoing").init(timeout_ms=900_000)
        self.ongoing.add(TOPIC).send(TOPIC, b"committed later").add_group(GROUP)
        self._offset = self.ongoing.identity[0]  # another one each time
        self.ongoing.commit_offsets(GROUP, TOPIC, {0: self._offset})
        self.commits = talk.producer("commits").init().add(talk.stuck()).begin_end()
        self.aborts = talk.producer("aborts").init().add(talk.stuck()).begin_end(commits=False)
        self.complete = talk.producer("complete").init().add(TOPIC).send(TOPIC, b"v").end()
        everybody = self.empty, self.ongoing, self.complete, self.commits, self.aborts
        self._seen = {producer: self._told(producer) for producer in everybody}
        talk.close()

    def _told(self, producer: Transactional) -> tuple[Any, ...]:
        found = self._talk.described(producer.id)
        topics = [(topic.topic, sorted(topic.partitions)) for topic in found.topics]
        identity = found.producer_id, found.producer_epoch
        times = found.transaction_timeout_ms, found.transaction_start_time_ms
        return found.error_code, found.transaction_state, identity, times, sorted(topics)

    def check(self, server: Server, *, is_held: bool) -> None:
        """They are the same at another broker, and go on there.

        `is_held`: it knows of the dead replica, so the markers that are missing can't be written.
        """
        wait_until_transactions_are_served(server)
        self._talk.continue_with(server)
        for producer, seen in self._seen.items():
            if is_held or producer not in (self.commits, self.aborts):
                assert self._told(producer) == seen
        self.empty.add(TOPIC).send(TOPIC, b"v").end()
        self.ongoing.send(TOPIC, b"one more").end()
        until(lambda: self._talk.committed_offset(GROUP, TOPIC) == self._offset)
        self._talk.release()
        self._talk.wait_for(self.commits.id, "CompleteCommit")
        self._talk.wait_for(self.aborts.id, "CompleteAbort")
        for producer in (self.complete, self.commits):
            before = producer.identity
            assert producer.init(before).identity == (before[0], before[1] + 1)
            producer.add(TOPIC).send(TOPIC, b"v").end(commits=False)
        self._talk.close()
