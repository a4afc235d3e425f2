"""docs/situations.md, made from the table that `tests/situations` tries on clients."""

import json
from typing import Any, Final

from tests.situations.situations import Situation, situations

INTRODUCTION: Final = """\
# What clients do when requests fail

{made}

Clients' own tests use mocks of Kafka for situations such as these. Here each is a
[rule](faults.md) at a broker, and what six clients do in it is tested
(`make soak PART=situations`): Java 3.9.2, librdkafka 2.16 (by confluent-kafka), kafka-python 3.0,
aiokafka 0.14, KafkaJS 2.2.4 and franz-go 1.18.1. They wait 3 s for an answer (kafka-python's
consumer 7 s), and up to 20 s for success; back-offs are short. Their programs, which make the
rules through the [admin API](admin-api.md), are in `tests/situations/clients`; the table is
`tests/situations/situations.json`. `examples/` has suites in Go, Java and Node to begin with.

*done* is success. The number of records is what a reader of committed records then finds in the
topic; a fourth one is a duplicate.
"""
DEEDS: Final = {
    "produce": (
        "Producers that are not idempotent",
        "They write three records with acks=all, each after the answer to the one before.",
    ),
    "idempotent": ("Idempotent producers", "They do the same."),
    "consume": (
        "Members of a group",
        "They read three records from the beginning, and commit. Where they are *done*, they have "
        "read each\nonce, and offset 3 is committed.",
    ),
    "transact": (
        "Transactional producers",
        "They write three records in a transaction, and commit it.",
    ),
}
NOTES: Final = """\
## Notes

- The names of errors are Kafka's where the client has Kafka's error code, otherwise the client's
  own. `CommitFailedError` and `CommitFailedException` say that the group has rebalanced;
  `PRODUCER_FENCED`, `_FENCED` and `ProducerFenced` say the same as `INVALID_PRODUCER_EPOCH`.
- KafkaJS and aiokafka end transactions with versions in which a broker says
  `INVALID_PRODUCER_EPOCH` instead of `PRODUCER_FENCED`, which they do not know.
- aiokafka does not repeat its first question for metadata, and gives up a write at the first
  timeout.
- aiokafka asks for version 0 of ApiVersions, which no broker refuses so.
- A forgotten member joins as a new one. The group then waits for the old one until its session
  ends: 6 s here.
- KafkaJS reports a failure of the transaction whose last answer is lost, although it is committed.
"""


def situations_markdown(made: str) -> str:
    """The page; `made` is the line that says what makes it."""
    parts = [INTRODUCTION.format(made=made)]
    for deed, (title, text) in DEEDS.items():
        rows = [_row(each) for each in situations() if each.deed == deed]
        head = ["| Situation | Rule | Clients | Otherwise |", "| --- | --- | --- | --- |"]
        parts.append("\n".join([f"## {title}\n", f"{text}\n", *head, *rows]) + "\n")
    return "\n".join([*parts, NOTES])


def _row(situation: Situation) -> str:
    rules = "<br>".join(f"`{json.dumps(rule)}`" for rule in situation.rules)
    others = [f"{name}: {_outcome(*seen)}" for name, seen in situation.instead.items()]
    usual = _outcome(situation.seen, situation.records)
    return f"| {situation.name} | {rules} | {usual} | {'<br>'.join(others)} |"


def _outcome(seen: Any, records: int) -> str:
    outcome = seen if seen == "done" else f"`{seen}`"
    return f"{outcome}, {records or 'no'} record{'' if records == 1 else 's'}"
