"""What admin clients see of a configuration, and change in it, while the broker runs."""

import logging
from collections.abc import Collection, Mapping
from copy import copy
from typing import Self

from odradek.protocol.errors import ErrorCode, Refused

from .listener_config import ListenerConfig
from .settings import changes
from .settings.built import BUILT
from .settings.declaration import ConfigError, Value
from .settings.described import (
    Described,
    Layers,
    all_declared,
    describe_broker,
    describe_cluster,
    describe_group,
    describe_topic,
)
from .settings.of_listener import of_listener
from .settings.password_encoder import PasswordEncoder
from .settings.passwords import Passwords
from .settings.tls import listener_setting
from .settings.upkeep_checks import check_thread_change

logger = logging.getLogger(__name__)


class ChangingConfig(ListenerConfig):
    """The part of a `Config` that checks changes, makes them, and describes what is set."""

    def _use(self, layers: Layers) -> None:
        """Take all values from these layers.  Raises: ConfigError."""
        raise NotImplementedError

    def check_topic_change(self, current: Mapping[str, str], wanted: Mapping[str, str]) -> None:
        """Check a change of a topic's settings.  Raises: Refused with INVALID_CONFIG."""
        changes.check_topic(current, wanted, self._given)

    def check_broker_change(
        self, current: Mapping[str, str], wanted: Mapping[str, str], *, is_cluster: bool
    ) -> Self:
        """Check a change of the settings of this broker, or (`is_cluster`) of all brokers.

        Return the configuration that the broker would have.  The passwords are not encrypted.

        Raises: Refused (INVALID_REQUEST, INVALID_CONFIG).
        """
        for name, reason in self._of_no_listener(wanted.keys() - current.keys()):
            raise Refused(ErrorCode.INVALID_REQUEST, f"{name} has no effect: {reason}")
        declared = all_declared(BUILT)
        changes.check_broker(current, wanted, declared, self.layers, is_cluster=is_cluster)
        try:
            together = self._changed(**{"cluster" if is_cluster else "own": wanted})
            check_thread_change(self, together)
            return together
        except ConfigError as error:
            raise Refused(ErrorCode.INVALID_REQUEST, str(error)) from None

    def check_group_change(self, wanted: Mapping[str, str]) -> None:
        """Check a change of a group's settings.  Raises: Refused with INVALID_CONFIG."""
        from .groups.settings import check_group_configs

        try:
            check_group_configs(wanted, self)
        except ConfigError as error:
            raise Refused(ErrorCode.INVALID_CONFIG, str(error)) from None

    def change(self, **layer: Mapping[str, str]) -> None:
        """Replace the settings of this broker (`own`) or of all brokers (`cluster`), as stored.

        Nothing changes if the settings are invalid together.  Raises: ConfigError.
        """
        read = {where: self.passwords.readable(texts) for where, texts in layer.items()}
        self._use(self._changed(**read).layers)

    @property
    def passwords(self) -> Passwords:
        """The passwords among stored settings of brokers."""
        new, old = self.password_encoder_secret, self.password_encoder_old_secret
        encoders = (
            PasswordEncoder(
                secret,
                self.password_encoder_cipher_algorithm,
                self.password_encoder_keyfactory_algorithm,
                self.password_encoder_key_length,
                self.password_encoder_iterations,
            )
            if secret
            else None
            for secret in (new, old)
        )
        return Passwords(all_declared(BUILT), *encoders)

    def _changed(self, **layer: Mapping[str, str]) -> Self:
        layers = self.layers._replace(
            **{where: _readable(texts, where) for where, texts in layer.items()}
        )
        config = copy(self)
        config._use(layers)
        return config

    def describe_broker(self, names: Collection[str] | None = None) -> list[Described]:
        """DescribeConfigs of this broker; no `names`: all settings, as in Kafka."""
        return describe_broker(BUILT, self.layers, names)

    def describe_cluster(self, names: Collection[str] | None = None) -> list[Described]:
        """DescribeConfigs of the settings for all brokers."""
        return describe_cluster(BUILT, self.layers, names)

    def describe_group(
        self, overrides: Mapping[str, str], names: Collection[str] | None = None
    ) -> list[Described]:
        """DescribeConfigs of a consumer group that has set `overrides`."""
        return describe_group(overrides, BUILT, self.layers, names)

    def describe_topic(
        self, overrides: Mapping[str, str], names: Collection[str] | None = None
    ) -> list[Described]:
        """DescribeConfigs of a topic that has set `overrides`; no `names`: all settings."""
        return describe_topic(overrides, BUILT, self.layers, names)


def _readable(texts: Mapping[str, str], where: str) -> dict[str, Value]:
    """The valid settings of a layer in the store; other brokers may have written invalid ones."""
    declared, values = all_declared(BUILT), {}
    for name, text in texts.items():
        setting = declared.get(name)
        if setting is None and where == "own" and listener_setting(name) is not None:
            setting = of_listener(name)
        if setting is None:
            logger.warning(
                "broker config ignored: there is no config named %.100r layer=%s", name, where
            )
            continue
        try:
            values[name] = setting.parse(text)
        except ConfigError as error:
            logger.warning("broker config ignored: %s layer=%s", error, where)
    return values
