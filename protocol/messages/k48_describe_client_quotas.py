"""DescribeClientQuotas (API key 48): read the quotas of users, clients and addresses.

Source: DescribeClientQuotasRequest.json, DescribeClientQuotasResponse.json of Apache Kafka 3.9.2.
"""

from ..schema import Message, Struct, array, boolean, float64, int8, int16, int32, string


class ComponentData(Struct):
    """A part of an entity to match: exactly (0), its default (1), any (2)."""

    entity_type: str = string("0+")
    match_type: int = int8("0+")
    match: str | None = string("0+", nullable="0+")


class DescribeClientQuotasRequest(Message, api_key=48, versions="0-1", flexible="1+"):
    """Find entities that match all components; strict: and have no others."""

    components: list[ComponentData] = array(ComponentData, "0+")
    strict: bool = boolean("0+")


class EntityData(Struct):
    """A part of an entity: user, client-id or ip; a null name is the default."""

    entity_type: str = string("0+")
    entity_name: str | None = string("0+", nullable="0+")


class ValueData(Struct):
    """A quota."""

    key: str = string("0+")
    value: float = float64("0+")


class EntryData(Struct):
    """An entity with its quotas."""

    entity: list[EntityData] = array(EntityData, "0+")
    values: list[ValueData] = array(ValueData, "0+")


class DescribeClientQuotasResponse(Message, api_key=48, versions="0-1", flexible="1+"):
    """The entities that match; null after an error."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    entries: list[EntryData] | None = array(EntryData, "0+", nullable="0+")
