"""The setting by which a broker serves no more than an older, or a newer, Kafka."""

from typing import Any, Final

from .declaration import STRING, ConfigError, Setting
from .interbroker import ByName

RELEASES: Final = (
    *("0.11", "1.0", "1.1"),
    *("2.0", "2.1", "2.2", "2.3", "2.4", "2.5", "2.6", "2.7", "2.8"),
    *("3.0", "3.1", "3.2", "3.3", "3.4", "3.5", "3.6", "3.7", "3.8", "3.9"),
    *("4.0", "4.1", "4.2", "4.3"),
)
"""Those of Kafka whose versions are known, in their order."""
_TRANSACTIONS_V2_SINCE: Final = "4.0"


def _release(text: str) -> str | None:
    return None if text in ("", *RELEASES) else f"one of {', '.join(RELEASES)}"


class CompatibilitySettings:
    """What a broker pretends to be."""

    odradek_compatibility = Setting(
        "odradek.compatibility",
        STRING,
        "",
        "Serve clients only those APIs, and versions of them, that this release of Kafka served "
        "too, such as 2.8. For tests of clients against older brokers.",
        check=_release,
    )


def check_compatibility(values: ByName, *, has_listener_for_brokers: bool) -> None:
    """Check odradek.compatibility.  Raises: ConfigError."""
    release: Any = values["odradek.compatibility"]
    if not release:
        return
    if values["zookeeper.connect"] and not has_listener_for_brokers:
        raise ConfigError(
            f"odradek.compatibility={release} is for clients, and brokers need all versions: with "
            "zookeeper.connect, give brokers a listener of their own by inter.broker.listener.name"
        )
    is_too_old = RELEASES.index(release) < RELEASES.index(_TRANSACTIONS_V2_SINCE)
    if values["odradek.transaction.version"] and is_too_old:
        raise ConfigError(
            f"odradek.transaction.version={values['odradek.transaction.version']} does not go with "
            f"odradek.compatibility={release}: Kafka has it since {_TRANSACTIONS_V2_SINCE}"
        )
