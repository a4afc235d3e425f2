"""Settings of the authorizer, which decides who may do what."""

from typing import Any, Final

from .declaration import BOOLEAN, STRING, ConfigError, Setting

CLASSES: Final = (
    "kafka.security.authorizer.AclAuthorizer",
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
)
"""Kafka's authorizers in ZooKeeper mode and in KRaft mode, which have the same rules."""

ANONYMOUS: Final = "User:ANONYMOUS"


def _class(text: str) -> str | None:
    if text in ("", *CLASSES):
        return None
    return f"empty, {' or '.join(CLASSES)}: other classes can't be loaded"


def _principals(text: str) -> str | None:
    names = [name.strip() for name in text.split(";")] if text else []
    if all(kind and separator for kind, separator, _ in (name.partition(":") for name in names)):
        return None
    return "a list of principals such as User:alice, separated by semicolons"


class AuthorizationSettings:
    """Who may do what: by ACLs, which `kafka-acls` and other clients add and remove."""

    authorizer_class_name = Setting(
        "authorizer.class.name",
        STRING,
        "",
        "The authorizer, kafka.security.authorizer.AclAuthorizer: what no ACL allows is denied. "
        "Empty: every client may do everything.",
        check=_class,
    )
    super_users = Setting(
        "super.users",
        STRING,
        "",
        "Principals that need no ACL, separated by semicolons: User:admin;User:CN=broker. Brokers "
        "must be among them, or have ClusterAction on the cluster.",
        check=_principals,
    )
    allow_everyone_if_no_acl_found = Setting(
        "allow.everyone.if.no.acl.found",
        BOOLEAN,
        False,
        "Allow everything on resources that no ACL is about. If none is about the cluster, "
        "everybody may change ACLs, too.",
    )
    odradek_acls_ignore = Setting(
        "odradek.acls.ignore",
        BOOLEAN,
        False,
        "Start without an authorizer although the cluster has ACLs: they are not enforced.",
    )


def super_users_in(text: str) -> frozenset[str]:
    """The principals in `super.users`."""
    return frozenset(name.strip() for name in text.split(";")) if text else frozenset()


def check_authorization_settings(config: Any) -> None:
    """Check settings that only count together.  Raises: ConfigError."""
    if config.authorizer_class_name:
        if config.odradek_acls_ignore:
            raise ConfigError(
                "odradek.acls.ignore=true does not go with authorizer.class.name, which has the "
                "ACLs enforced"
            )
        return
    if config.super_users or config.allow_everyone_if_no_acl_found:
        name = "super.users" if config.super_users else "allow.everyone.if.no.acl.found"
        raise ConfigError(f"{name} has no effect without authorizer.class.name={CLASSES[0]}")
