"""In what Odradek's answers about groups may differ from Apache Kafka's, and why."""

from typing import Final

from tests.wire.allowed import Rule

ALLOWED: Final[tuple[Rule, ...]] = ()
