"""What has configs: the resource types of DescribeConfigs and its like."""

from enum import IntEnum


class ResourceType(IntEnum):
    """Source: ConfigResource.Type."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32
