"""What is said about client quotas.

Kafka enforces them on the connections that ask: defaults are set so high that nobody notices. Every
conversation removes what it has set.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from odradek.protocol.messages.k48_describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
)
from odradek.protocol.messages.k49_alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from tests.wire.admin_talk import Conversation, eventually, named
from tests.wire.talk import Talk, versions

DESCRIBE, ALTER = 48, 49
EXACT, DEFAULT, ANY = range(3)
USER, CLIENT, IP = "user", "client-id", "ip"
PRODUCED, CONSUMED = "producer_byte_rate", "consumer_byte_rate"
PERCENTAGE, MUTATIONS = "request_percentage", "controller_mutation_rate"
CONNECTIONS: Final = "connection_creation_rate"
HIGH: Final = 1e12

Entity = Sequence[tuple[str, str | None]]
Quota = tuple[str, float | None]
Component = tuple[str, int, str | None]


def _alter(
    talk: Talk,
    label: str,
    *entries: tuple[Entity, Sequence[Quota]],
    version: int = 1,
    validate_only: bool = False,
) -> None:
    """Set quotas, or remove them (None); the answer is noted."""
    talk.ask(label, _altering(entries, validate_only), version)


def _altering(
    entries: Sequence[tuple[Entity, Sequence[Quota]]], validate_only: bool = False
) -> AlterClientQuotasRequest:
    return AlterClientQuotasRequest(
        entries=[
            EntryData(
                entity=[EntityData(entity_type=t, entity_name=name) for t, name in entity],
                ops=[
                    OpData(key=key, value=0.0 if value is None else value, remove=value is None)
                    for key, value in quotas
                ],
            )
            for entity, quotas in entries
        ],
        validate_only=validate_only,
    )


def _describe(
    talk: Talk, label: str, *components: Component, strict: bool = False, version: int = 1
) -> None:
    talk.ask(label, _asking(components, strict), version)


def _asking(components: Sequence[Component], strict: bool = False) -> DescribeClientQuotasRequest:
    return DescribeClientQuotasRequest(
        components=[
            ComponentData(entity_type=t, match_type=match, match=name)
            for t, match, name in components
        ],
        strict=strict,
    )


@contextmanager
def _cleared(talk: Talk) -> Iterator[None]:
    """Remove all quotas at the end."""
    try:
        yield
    finally:
        answer = talk.exchange(_asking([]), 1)
        entries = [
            (
                [(part.entity_type, part.entity_name) for part in entry.entity],
                [(value.key, None) for value in entry.values],
            )
            for entry in answer.entries
        ]
        answer = talk.exchange(_altering(entries), 1)
        assert all(entry.error_code == 0 for entry in answer.entries), answer
        eventually(lambda: not talk.exchange(_asking([]), 1).entries)


ALTERATIONS: Final[Mapping[str, tuple[Entity, Sequence[Quota]]]] = {
    "of_a_user": ([(USER, "u")], [(PRODUCED, 1000.0), (PERCENTAGE, 12.5)]),
    "of_a_client": ([(CLIENT, "c")], [(CONSUMED, 1000.0), (MUTATIONS, 2.0)]),
    "of_a_users_client": ([(USER, "u"), (CLIENT, "c")], [(PRODUCED, 1000.0)]),
    "of_a_client_of_a_user": ([(CLIENT, "c"), (USER, "u")], [(PRODUCED, 1000.0)]),
    "of_all_users": ([(USER, None)], [(PRODUCED, HIGH)]),
    "of_all_clients": ([(CLIENT, None)], [(PRODUCED, HIGH)]),
    "of_all_clients_of_a_user": ([(USER, "u"), (CLIENT, None)], [(PRODUCED, 5.0)]),
    "of_all_clients_of_all_users": ([(USER, None), (CLIENT, None)], [(PRODUCED, HIGH)]),
    "of_an_address": ([(IP, "10.1.2.3")], [(CONNECTIONS, 5.0)]),
    "of_a_short_address": ([(IP, "10.1")], [(CONNECTIONS, 5.0)]),
    "of_all_addresses": ([(IP, None)], [(CONNECTIONS, 1e6)]),
    "of_an_address_and_a_user": ([(IP, "10.1.2.3"), (USER, "u")], [(CONNECTIONS, 5.0)]),
    "of_a_longer_address": ([(IP, "::1")], [(CONNECTIONS, 5.0)]),
    "of_no_address": ([(IP, "no.such.host.invalid")], [(CONNECTIONS, 5.0)]),
    "of_an_odd_name": ([(USER, "a b*+ä/%~:<default>"), (CLIENT, "/")], [(PRODUCED, 5.0)]),
    "of_a_name_that_is_a_path": ([(USER, "..")], [(PRODUCED, 5.0)]),
    "of_an_empty_name": ([(USER, "")], [(PRODUCED, 5.0)]),
    "of_nobody": ([], [(PRODUCED, 5.0)]),
    "of_an_unknown_type": ([("group", "g")], [(PRODUCED, 5.0)]),
    "of_an_empty_type": ([("", "g")], [(PRODUCED, 5.0)]),
    "of_a_type_twice": ([(USER, "u"), (USER, "v")], [(PRODUCED, 5.0)]),
    "to_zero": ([(USER, "u")], [(PRODUCED, 0.0), (PERCENTAGE, 0.0)]),
    "to_a_negative_number": ([(USER, "u")], [(PRODUCED, -1.0)]),
    "to_a_negative_percentage": ([(USER, "u")], [(PERCENTAGE, -12.5)]),
    "to_a_fraction": ([(USER, "u")], [(PRODUCED, 1.5)]),
    "to_nearly_a_whole_number": ([(USER, "u")], [(PRODUCED, 1.9999999)]),
    "to_a_fraction_of_connections": ([(IP, "10.1.2.3")], [(CONNECTIONS, 0.5)]),
    "to_too_many_connections": ([(IP, "10.1.2.3")], [(CONNECTIONS, 2.0**31)]),
    "to_the_most": ([(USER, "u")], [(PRODUCED, 2.0**63), (PERCENTAGE, 1e300)]),
    "to_more_than_the_most": ([(USER, "u")], [(PRODUCED, 1e19)]),
    "to_infinity": ([(USER, "u")], [(PRODUCED, math.inf)]),
    "to_an_infinite_percentage": ([(USER, "u")], [(PERCENTAGE, math.inf)]),
    "to_no_number": ([(USER, "u")], [(PERCENTAGE, math.nan)]),
    "to_small_numbers": ([(USER, "u")], [(PERCENTAGE, 1.25e-7), (MUTATIONS, 1e-3)]),
    "of_an_unknown_key": ([(USER, "u")], [("no.such", 5.0)]),
    "of_an_unknown_key_beside_a_good_one": ([(USER, "u")], [(PRODUCED, 5.0), ("no.such", 5.0)]),
    "of_a_key_of_addresses": ([(USER, "u")], [(CONNECTIONS, 5.0)]),
    "of_a_key_of_users": ([(IP, "10.1.2.3")], [(PRODUCED, 5.0)]),
    "of_a_password": ([(USER, "u")], [("SCRAM-SHA-256", 5.0)]),
    "of_a_key_twice": ([(USER, "u")], [(PRODUCED, 5.0), (PRODUCED, 6.0)]),
    "set_and_removed": ([(USER, "u")], [(PRODUCED, 5.0), (PRODUCED, None)]),
    "removed_and_set": ([(USER, "u")], [(PRODUCED, None), (PRODUCED, 5.0)]),
    "removed_that_are_not_there": ([(USER, "u")], [(PRODUCED, None), ("no.such", None)]),
    "without_changes": ([(USER, "u")], []),
}


def _alteration(entity: Entity, quotas: Sequence[Quota]) -> Conversation:
    """Only validated, then done in each version; all quotas are shown after each."""

    def talk_about(talk: Talk) -> None:
        for version in versions(ALTER):
            with _cleared(talk):
                for only in (True, False):
                    label = f"v{version} {'validated' if only else 'done'}"
                    entry = (entity, quotas)
                    _alter(talk, label, entry, version=version, validate_only=only)
                    _describe(talk, f"{label}, shown", version=version)

    return talk_about


def quotas_changed_and_removed(talk: Talk) -> None:
    """One after the other, until none is left."""
    user: Entity = [(USER, "u")]
    client: Entity = [(USER, "u"), (CLIENT, "c")]
    with _cleared(talk):
        steps: tuple[tuple[Entity, Sequence[Quota]], ...] = (
            (user, [(PRODUCED, 5.0), (CONSUMED, 6.0)]),
            (client, [(PRODUCED, 7.0)]),
            (user, [(PRODUCED, 8.0)]),
            (user, [(PRODUCED, None)]),
            (user, [(CONSUMED, None)]),
            (client, [(PRODUCED, None)]),
            (client, [(PRODUCED, None)]),
        )
        for number, step in enumerate(steps):
            _alter(talk, f"step {number}", step)
            _describe(talk, f"step {number}, shown")


def quotas_of_several(talk: Talk) -> None:
    """Each entity is changed or refused for itself."""
    with _cleared(talk):
        _alter(
            talk,
            "mixed",
            ([(USER, "u")], [(PRODUCED, 5.0)]),
            ([("group", "g")], [(PRODUCED, 5.0)]),
            ([(CLIENT, "c")], [(PRODUCED, 1.5)]),
            ([(CLIENT, "d")], [(PRODUCED, 6.0)]),
        )
        _alter(talk, "none")
        _describe(talk, "shown")


def quotas_of_an_entity_twice(talk: Talk) -> None:
    """Changed twice, answered once."""
    good, bad = [(PRODUCED, 5.0)], [("no.such", 5.0)]
    with _cleared(talk):
        _alter(talk, "both good", ([(USER, "u")], good), ([(USER, "u")], [(CONSUMED, 6.0)]))
        _alter(talk, "then a bad one", ([(USER, "v")], good), ([(USER, "v")], bad))
        _alter(talk, "first a bad one", ([(USER, "w")], bad), ([(USER, "w")], good))
        _describe(talk, "shown")


QUESTIONS: Final[Mapping[str, Sequence[Component]]] = {
    "for_everything": [],
    "for_a_user": [(USER, EXACT, "u")],
    "for_an_unknown_user": [(USER, EXACT, "nobody")],
    "for_the_default_user": [(USER, DEFAULT, None)],
    "for_any_user": [(USER, ANY, None)],
    "for_a_client": [(CLIENT, EXACT, "c")],
    "for_the_default_client": [(CLIENT, DEFAULT, None)],
    "for_any_client": [(CLIENT, ANY, None)],
    "for_a_users_client": [(USER, EXACT, "u"), (CLIENT, EXACT, "c")],
    "for_a_users_clients": [(USER, EXACT, "u"), (CLIENT, ANY, None)],
    "for_a_users_default_client": [(USER, EXACT, "u"), (CLIENT, DEFAULT, None)],
    "for_any_users_client": [(CLIENT, EXACT, "c"), (USER, ANY, None)],
    "for_any_users_any_client": [(USER, ANY, None), (CLIENT, ANY, None)],
    "for_the_defaults": [(USER, DEFAULT, None), (CLIENT, DEFAULT, None)],
    "for_an_address": [(IP, EXACT, "10.1.2.3")],
    "for_an_unknown_address": [(IP, EXACT, "x")],
    "for_the_default_address": [(IP, DEFAULT, None)],
    "for_any_address": [(IP, ANY, None)],
    "for_an_address_and_a_user": [(IP, ANY, None), (USER, ANY, None)],
    "for_a_user_twice": [(USER, ANY, None), (USER, EXACT, "u")],
    "for_an_unknown_type": [("group", ANY, None)],
    "for_an_empty_type": [("", ANY, None)],
    "by_match_3": [(USER, 3, None)],
    "by_match_minus_1": [(USER, -1, None)],
    "for_no_name": [(USER, EXACT, None)],
    "for_an_empty_name": [(USER, EXACT, "")],
    "for_the_default_by_name": [(USER, DEFAULT, "u")],
    "for_any_by_name": [(USER, ANY, "u")],
    "for_a_user_called_default": [(USER, EXACT, "<default>")],
}


def _question(components: Sequence[Component]) -> Conversation:
    """What is found among many entities, strictly and not, in each version."""

    def talk_about(talk: Talk) -> None:
        low, high = [(PRODUCED, 5.0)], [(PRODUCED, HIGH)]
        with _cleared(talk):
            _alter(
                talk,
                "set",
                ([(USER, "u")], low),
                ([(USER, "v")], low),
                ([(USER, "<default>")], low),
                ([(USER, None)], high),
                ([(CLIENT, "c")], low),
                ([(CLIENT, None)], high),
                ([(USER, "u"), (CLIENT, "c")], low),
                ([(USER, "u"), (CLIENT, None)], low),
                ([(USER, None), (CLIENT, "c")], low),
                ([(USER, None), (CLIENT, None)], high),
                ([(IP, "10.1.2.3")], [(CONNECTIONS, 5.0)]),
                ([(IP, None)], [(CONNECTIONS, 1e6)]),
            )
            for version in versions(DESCRIBE):
                for strict in (False, True):
                    label = f"v{version} {'strictly' if strict else 'found'}"
                    _describe(talk, label, *components, strict=strict, version=version)

    return talk_about


CONVERSATIONS: tuple[Conversation, ...] = (
    *(named(f"quotas_{name}", _alteration(*entry)) for name, entry in ALTERATIONS.items()),
    *(named(f"quotas_asked_{name}", _question(asked)) for name, asked in QUESTIONS.items()),
    quotas_changed_and_removed,
    quotas_of_several,
    quotas_of_an_entity_twice,
)
