"""What servers and topics tests ask for: by the marker, the command line and the ini file."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from odradek.spelling import did_you_mean

from .texts import text_of

COMPATIBILITY: Final = "odradek.compatibility"
AUTO_CREATE: Final = "auto.create.topics.enable"


class Refused(Exception):
    """A sentence for who wrote a test or its settings."""


class Wanted(NamedTuple):
    """A server; tests that want the same share it."""

    settings: tuple[tuple[str, str], ...] = ()
    brokers: int = 1
    tls: bool = False
    sasl: str | None = None
    acls: tuple[str, ...] | None = None
    in_process: bool = False
    share: bool = True
    """Whether it may be that of all workers, with odradek_share."""

    def with_settings(self, settings: Mapping[str, object]) -> "Wanted":
        """The same with other settings, too.  Raises: Refused."""
        check_settings(settings)
        merged = {**dict(self.settings), **{name: text_of(v) for name, v in settings.items()}}
        return self._replace(settings=tuple(sorted(merged.items())))

    def like(self, release: str) -> "Wanted":
        """The same, but like a release of Kafka.  Raises: Refused."""
        from odradek.broker.settings.releases import RELEASES

        if release not in RELEASES:
            raise Refused(f"like={release!r}: the releases are {', '.join(RELEASES)}")
        return self.with_settings({COMPATIBILITY: release})


Topics = tuple[tuple[str, int], ...]
"""Names and numbers of partitions."""


def read_marker(
    given: Mapping[str, Any], positional: Iterable[object], wanted: Wanted, topics: Topics
) -> tuple[Wanted, Topics]:
    """What a test with `@pytest.mark.odradek(...)` wants, beside what the session has.

    Raises: Refused.
    """
    if tuple(positional):
        raise Refused("@pytest.mark.odradek has only named arguments, such as brokers=3")
    for name in given:
        if name not in _ARGUMENTS:
            raise Refused(
                f"@pytest.mark.odradek has no argument {name}{did_you_mean(name, _ARGUMENTS)}"
            )
    for name, value in given.items():
        kinds, noun = _ARGUMENTS[name]
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise Refused(f"@pytest.mark.odradek({name}={value!r}): {name} is {noun}")
    if "settings" in given:
        wanted = wanted.with_settings(given["settings"])
    if "auto_create" in given:
        wanted = wanted.with_settings({AUTO_CREATE: given["auto_create"]})
    if "like" in given:
        wanted = wanted.like(given["like"])
    changed: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in given.items()
        if name in ("brokers", "tls", "sasl", "acls", "share")
    }
    wanted = wanted._replace(**changed)
    more = {name: _partitions(name, count) for name, count in given.get("topics", {}).items()}
    return wanted, tuple(sorted({**dict(topics), **more}.items()))


def read_markers(
    markers: Iterable[tuple[Iterable[object], Mapping[str, Any]]], wanted: Wanted, topics: Topics
) -> tuple[Wanted, Topics]:
    """What a test with these markers wants, the nearest first.  Raises: Refused."""
    for positional, named in reversed(list(markers)):
        wanted, topics = read_marker(named, positional, wanted, topics)
    return wanted, topics


def read_topics(lines: Iterable[str]) -> Topics:
    """Topics as in the ini file: `NAME`, or `NAME:PARTITIONS`.  Raises: Refused."""
    found = {}
    for line in lines:
        name, colon, count = line.strip().partition(":")
        if colon and not count.isdecimal():
            raise Refused(f"topics: {line!r} is not NAME or NAME:PARTITIONS")
        found[name] = _partitions(name, int(count) if colon else 1)
    return tuple(sorted(found.items()))


def check_settings(settings: Iterable[str]) -> None:
    """Check that these are settings.  Raises: Refused, with a suggestion if there is a similar one.

    `odradek serve` ignores unknown settings, as Kafka does; in a test one is a slip.
    """
    from odradek.broker.config import BUILT
    from odradek.broker.settings.known import UNBUILT
    from odradek.broker.settings.of_listener import of_listener

    for name in settings:
        if name not in BUILT and name not in UNBUILT and of_listener(name) is None:
            known = [*BUILT, *UNBUILT]
            raise Refused(f"there is no setting {name}{did_you_mean(name, known)}")


def _partitions(name: str, count: object) -> int:
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise Refused(f"topics: {name!r} can't have {count!r} partitions")
    return count


_ARGUMENTS: Final[Mapping[str, tuple[tuple[type, ...], str]]] = {
    "brokers": ((int,), "a number"),
    "topics": ((dict,), "a dict of names and numbers of partitions"),
    "settings": ((dict,), "a dict of Kafka's names and their values"),
    "auto_create": ((bool,), "True or False"),
    "tls": ((bool,), "True or False"),
    "sasl": ((str, type(None)), "the name of a mechanism, such as 'SCRAM-SHA-512'"),
    "acls": ((list, tuple), "a list of ACLs"),
    "like": ((str,), "the name of a release of Kafka, such as '2.8'"),
    "share": ((bool,), "True or False"),
}
