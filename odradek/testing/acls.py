"""ACLs as a test writes them: `User:alice read,write topic:orders`.

Words of Kafka in any case; `topic:app-*` is every topic whose name begins with `app-`, `topic:*` is
every topic. The word `deny` at the beginning forbids, `from HOST` at the end is for one address.
"""

import re
from collections.abc import Iterable
from typing import Final

from odradek.broker.core.acls.terms import (
    CLUSTER_NAME,
    WILDCARD,
    Binding,
    Entry,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)

_ACL: Final = re.compile(
    r"(?:(?P<permission>allow|deny)\s+)?(?P<principal>User:\S+)\s+(?P<operations>[\w,-]+)\s+"
    r"(?P<resource>[\w-]+)(?::(?P<name>\S+))?(?:\s+from\s+(?P<host>\S+))?",
    re.IGNORECASE,
)
_FORM: Final = "[allow|deny] User:NAME OPERATION[,…] RESOURCE:NAME [from HOST]"


def parse_acls(texts: Iterable[str]) -> list[Binding]:
    """The ACLs in these texts.  Raises: ValueError."""
    if isinstance(texts, str):
        raise ValueError(f"acls={texts!r}: a list of such texts")
    return [binding for text in texts for binding in _parse(text)]


def users_of(bindings: Iterable[Binding]) -> set[str]:
    """The users that ACLs are about, without the wildcard."""
    names = {binding.entry.principal.partition(":")[2] for binding in bindings}
    return names - {WILDCARD}


def _parse(text: str) -> list[Binding]:
    match = _ACL.fullmatch(text.strip()) if isinstance(text, str) else None
    if match is None:
        raise ValueError(f"the ACL {text!r} is not like {_FORM}")
    resource_type = ResourceType.of_text(_joined(match["resource"]))
    if resource_type is None or resource_type <= ResourceType.ANY:
        raise ValueError(f"the ACL {text!r} is about {match['resource']!r}, which Kafka has not")
    pattern = _pattern(resource_type, match["name"], text)
    permission = Permission.of_text(match["permission"] or "allow")
    assert permission is not None
    bindings = []
    for word in match["operations"].split(","):
        operation = Operation.of_text(_joined(word))
        if operation is None or operation <= Operation.ANY:
            raise ValueError(f"the ACL {text!r} has an operation {word!r}, which Kafka has not")
        principal = f"User:{match['principal'].partition(':')[2]}"
        entry = Entry(principal, permission, operation, match["host"] or WILDCARD)
        bindings.append(Binding(pattern, entry))
    return bindings


def _pattern(resource_type: ResourceType, name: str | None, text: str) -> Pattern:
    if resource_type is ResourceType.CLUSTER and name in (None, CLUSTER_NAME):
        return Pattern(resource_type, CLUSTER_NAME)
    if name is None:
        raise ValueError(f"the ACL {text!r} does not name its {resource_type.text.lower()}")
    if name != WILDCARD and name.endswith(WILDCARD):
        return Pattern(resource_type, name.removesuffix(WILDCARD), PatternType.PREFIXED)
    return Pattern(resource_type, name)


def _joined(word: str) -> str:
    """`describe-configs` and `DESCRIBE_CONFIGS` as `describeconfigs`."""
    return word.replace("_", "").replace("-", "")
