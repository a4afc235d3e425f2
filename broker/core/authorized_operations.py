"""The bit sets that tell clients what they may do; without an authorizer that is everything.

Source: AclOperation's codes, and the operations that Kafka allows on each resource.
"""

from typing import Final

NOT_ASKED_FOR: Final = -(1 << 31)

_READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE = 3, 4, 5, 6, 7, 8
_CLUSTER_ACTION, _DESCRIBE_CONFIGS, _ALTER_CONFIGS, _IDEMPOTENT_WRITE = 9, 10, 11, 12


def _bits(*operations: int) -> int:
    return sum(1 << operation for operation in operations)


ALL_ON_TOPIC: Final = _bits(
    _READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE, _DESCRIBE_CONFIGS, _ALTER_CONFIGS
)
ALL_ON_GROUP: Final = _bits(_READ, _DELETE, _DESCRIBE)
ALL_ON_CLUSTER: Final = _bits(
    _CREATE,
    _ALTER,
    _DESCRIBE,
    _CLUSTER_ACTION,
    _DESCRIBE_CONFIGS,
    _ALTER_CONFIGS,
    _IDEMPOTENT_WRITE,
)
