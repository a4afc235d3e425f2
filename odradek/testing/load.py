"""Fills a broker from a file of topics and records.

A file is JSON, with the same fields as the admin API has for topics and records:

    {"topics": [{"name": "orders", "partitions": 2, "records": [{"key": "a", "value": "1"}]}]}
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from .door import AdminError
from .errors import BrokerFailed, hides

if TYPE_CHECKING:
    from .broker import Broker

__tracebackhide__ = hides
RECORDS_AT_ONCE: Final = 1000


def load_file(broker: "Broker", path: Path) -> list[str]:
    """Create the topics of a file, with their records; their names.  Raises: BrokerFailed."""
    try:
        given = json.loads(path.read_text())
        topics = given["topics"]
        if len(given) > 1 or not all(isinstance(topic, dict) for topic in topics):
            raise ValueError('it is not {"topics": [{"name": …}, …]}')
        return [_load_topic(broker, **topic) for topic in topics]
    except (OSError, ValueError, TypeError, KeyError, AdminError) as error:
        reason = str(error) if isinstance(error, OSError | AdminError) else repr(error)
        raise BrokerFailed(f"odradek_load: {path} can't be loaded: {reason}") from error


def _load_topic(
    broker: "Broker", *, name: str = "", records: list[Any] | None = None, **fields: Any
) -> str:
    name = broker.name(name) if name else name
    broker.admin.post("topics", name=name, **fields)
    given = records or []
    for start in range(0, len(given), RECORDS_AT_ONCE):
        part = given[start : start + RECORDS_AT_ONCE]
        broker.admin.post("topics", name, "records", records=part)
    return name
