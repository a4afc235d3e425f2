"""AlterClientQuotas (API key 49): set or remove quotas.

Source: AlterClientQuotasRequest.json, AlterClientQuotasResponse.json of Apache Kafka 3.9.2.
"""

from ..schema import Message, Struct, array, boolean, float64, int16, int32, string


class EntityData(Struct):
    """A part of an entity: user, client-id or ip; a null name is the default."""

    entity_type: str = string("0+")
    entity_name: str | None = string("0+", nullable="0+")


class OpData(Struct):
    """Set a quota, or remove it."""

    key: str = string("0+")
    value: float = float64("0+")
    remove: bool = boolean("0+")


class EntryData(Struct):
    """An entity with its quotas."""

    entity: list[EntityData] = array(EntityData, "0+")
    ops: list[OpData] = array(OpData, "0+")


class AlterClientQuotasRequest(Message, api_key=49, versions="0-1", flexible="1+"):
    """Change quotas of entities."""

    entries: list[EntryData] = array(EntryData, "0+")
    validate_only: bool = boolean("0+")


class AlterClientQuotasResponseEntryData(Struct):
    """The result for one entity."""

    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    entity: list[EntityData] = array(EntityData, "0+")


class AlterClientQuotasResponse(Message, api_key=49, versions="0-1", flexible="1+"):
    """One code for each entity."""

    throttle_time_ms: int = int32("0+")
    entries: list[AlterClientQuotasResponseEntryData] = array(
        AlterClientQuotasResponseEntryData, "0+"
    )
