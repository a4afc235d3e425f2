"""ACLs in the store of a stopped broker, and what the options of kafka-acls mean.

tests/cli/test_secure_brokers.py has the other two places: ZooKeeper and a running cluster.
"""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from odradek.cli import main

ALICE = ("--allow-principal", "User:alice")
PREFIXED = ("--resource-pattern-type", "prefixed")
ORDERS = ("--topic", "orders")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["acls", *arguments])


def done(*arguments: str) -> str:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def there(tmp_path: Path) -> tuple[str, str]:
    """The option that names a directory in which no broker has run."""
    return "--data-dir", str(tmp_path / "data")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((*ALICE, *ORDERS), ["alice may All Topic orders"]),
        (
            (*ALICE, "--operation", "describe_configs", "--operation", "READ", "--cluster"),
            None,  # a cluster can't be read
        ),
        (
            (*ALICE, "--operation", "describe-configs", "--operation", "ALTER", "--cluster"),
            ["alice may Alter Cluster kafka-cluster", "alice may DescribeConfigs Cluster kafka-c"],
        ),
        (
            (*ALICE, *ORDERS, "--topic", "refunds", "--operation", "Read", "--allow-host", "::1"),
            ["alice may Read Topic orders from ::1", "alice may Read Topic refunds from ::1"],
        ),
        (
            ("--deny-principal", "User:*", "--deny-host", "h", "--topic", "*", *ALICE),
            ["* may not All Topic * from h", "alice may All Topic *"],
        ),
        (
            (*ALICE, *ORDERS, "--producer", "--transactional-id", "t", "--idempotent"),
            [
                "alice may Write Topic orders",
                "alice may Create Topic orders",
                "alice may Describe Topic orders",
                "alice may IdempotentWrite Cluster kafka-cluster",
                "alice may Write TransactionalId t",
                "alice may Describe TransactionalId t",
            ],
        ),
        (
            (*ALICE, "--topic", "or", "--group", "g", "--consumer", "--producer", *PREFIXED),
            [
                "alice may Read Topic prefix or",
                "alice may Write Topic prefix or",
                "alice may Create Topic prefix or",
                "alice may Describe Topic prefix or",
                "alice may Read Group prefix g",
            ],
        ),
        (
            (*ALICE, "--topic", "or", "--cluster", *PREFIXED, "--operation", "Alter"),
            ["alice may Alter Topic prefix or", "alice may Alter Cluster kafka-cluster"],
        ),
        (
            (*ALICE, "--user-principal", "User:bob", "--operation", "CreateTokens"),
            ["alice may CreateTokens User User:bob"],
        ),
    ],
)
@pytest.mark.slow
def test_what_is_added_is_what_the_same_options_delete(
    there: tuple[str, str], options: tuple[str, ...], expected: list[str] | None
) -> None:
    if expected is None:
        assert "a Cluster has no operation Read" in run("add", *options, *there).output
        return
    done("add", "--allow-principal", "User:bob", *ORDERS, *there)
    added = done("add", *options, *there).splitlines()
    for line, begin in zip(added, expected, strict=True):
        assert line.startswith(f"added: User:{begin}"), line
    would = done("delete", *options, "--dry-run", *there).splitlines()
    assert would == [line.replace("added", "would delete") for line in added]
    deleted = done("delete", *options, *there).splitlines()
    assert deleted == [line.replace("added", "deleted") for line in added]
    assert done("delete", *options, *there) == "there is no such ACL\n"
    rest = json.loads(done("list", "--json", *there))
    assert [(acl["principal"], acl["name"]) for acl in rest] == [("User:bob", "orders")]


@pytest.mark.slow
def test_listing_and_deleting_by_resource_and_principal(there: tuple[str, str]) -> None:
    done("add", *ALICE, *ORDERS, "--operation", "Read", *there)
    done("add", *ALICE, "--topic", "ord", "--resource-pattern-type", "prefixed", *there)
    done("add", "--deny-principal", "User:bob", "--topic", "*", "--group", "orders", *there)

    def listed(*options: str) -> list[str]:
        acls = json.loads(done("list", "--json", *options, *there))
        return [f"{acl['resource_type']} {acl['name']}" for acl in acls]

    assert done("list", *ORDERS, *there).splitlines() == [
        "RESOURCE-TYPE  NAME    PATTERN-TYPE  PRINCIPAL   PERMISSION  OPERATION  HOST",
        "Topic          orders  Literal       User:alice  Allow       Read       *",
    ]
    assert listed() == ["Topic *", "Topic ord", "Topic orders", "Group orders"]
    assert listed(*ORDERS, "--resource-pattern-type", "match") == listed()[:3]
    assert listed("--topic", "ord", "--resource-pattern-type", "any") == ["Topic ord"]
    assert listed("--resource-pattern-type", "prefixed", *ORDERS) == []
    assert listed("--principal", "User:bob") == ["Topic *", "Group orders"]
    assert listed("--principal", "User:bob", "--group", "orders") == ["Group orders"]
    assert len(done("delete", "--principal", "User:bob", *there).splitlines()) == 2
    assert len(done("delete", "--topic", "ord", *there).splitlines()) == 1  # "there is none"
    assert listed() == ["Topic ord", "Topic orders"]
    done("delete", *ORDERS, *there)
    assert listed() == ["Topic ord"]


@pytest.mark.parametrize(
    ("command", "options", "said"),
    [
        ("add", ORDERS, "whom is it about: give --allow-principal or --deny-principal"),
        ("add", ALICE, "what is it about: give --topic, --group, --cluster or another"),
        ("add", (*ALICE, *ORDERS, "--resource-pattern-type", "match"), "literal or prefixed"),
        ("add", ("--allow-principal", "alice", *ORDERS), "'alice' is not like User:alice"),
        ("add", (*ALICE, *ORDERS, "--operation", "Reed"), "is no operation: did you mean Read"),
        ("add", (*ALICE, *ORDERS, "--operation", "x"), "'x' is no operation: one of All, Read"),
        ("add", (*ALICE, *ORDERS, "--operation", "any"), "'any' is no operation"),
        ("add", (*ALICE, *ORDERS, "--deny-host", "h"), "--deny-host goes with --deny-principal"),
        ("add", (*ALICE, *ORDERS, "--idempotent"), "--idempotent goes with --producer"),
        ("add", (*ALICE, "--group", "g", "--producer"), "--producer needs --topic"),
        ("add", (*ALICE, *ORDERS, "--consumer"), "--consumer needs --topic and --group"),
        ("add", (*ALICE, *ORDERS, "--group", "g", "--producer"), "have no use for the Group 'g'"),
        ("add", (*ALICE, *ORDERS, "--producer", "--operation", "All"), "exclude --operation"),
        ("add", (*ALICE, "--topic", "a/b"), "can't contain a slash"),
        ("add", (*ALICE, "--topic", ""), "Invalid empty resource name"),
        ("delete", (), "which ACLs: give resources, --principal, or both"),
        ("delete", ALICE, "give the resources; --principal deletes all of somebody's ACLs"),
        ("delete", (*ORDERS, "--operation", "Read"), "whose ACLs: give --allow-principal or"),
        ("delete", (*ALICE, *ORDERS, "--principal", "User:a"), "--principal excludes --allow-pr"),
        ("list", ("--principal", "alice"), "'alice' is not like User:alice"),
        ("list", (), "there is no store of Odradek in"),
    ],
)
def test_what_is_refused(
    there: tuple[str, str], command: str, options: tuple[str, ...], said: str
) -> None:
    result = run(command, *options, *there)
    assert result.exit_code in (1, 2)
    assert said in " ".join(result.output.split())
