"""The types of resources that have configs, as in DescribeConfigs and AlterConfigs."""

from enum import IntEnum


class ResourceType(IntEnum):
    """Source: ConfigResource.Type."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32
