"""Contexts: which files are read, and what goes before what."""

from pathlib import Path

import pytest

from odradek.cli.clients import chosen_cluster
from odradek.cli.contexts import read_contexts
from odradek.cli.errors import CommandError
from odradek.cli.layers import merged

USER = """
context = "dev"
[contexts.dev]
bootstrap.servers = "dev:9092"
enable.ssl.certificate.verification = false
[contexts.production]
properties = "production.properties"
bootstrap.servers = "production:9093"
"""
PROJECT = """
[contexts.dev]
bootstrap.servers = "project:9092"
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with the user's file, and a working directory inside."""
    folder = tmp_path / "config" / "odradek"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(USER)
    (folder / "production.properties").write_text("security.protocol=SSL\nclient_id=me\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("ODRADEK_CONFIG", "ODRADEK_CONTEXT", "ODRADEK_BOOTSTRAP_SERVERS"):
        monkeypatch.delenv(name, raising=False)
    work = tmp_path / "work" / "below"
    work.mkdir(parents=True)
    monkeypatch.chdir(work)
    return tmp_path


def servers(b: str | None = None, context: str | None = None, **x: str) -> str:
    properties = {name.replace("_", "."): value for name, value in x.items()}
    return chosen_cluster(b, context, None, properties).bootstrap_servers


def test_what_is_nearer_to_the_user_counts(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert servers() == "dev:9092"
    (home / "work" / "odradek.toml").write_text(PROJECT)
    assert servers() == "project:9092"
    monkeypatch.setenv("ODRADEK_BOOTSTRAP_SERVERS", "variable:1")
    assert servers() == "variable:1"
    monkeypatch.setenv("ODRADEK_CONTEXT", "production")
    assert servers() == "production:9093"
    assert servers(context="dev") == "project:9092"
    assert servers(bootstrap_servers="x:2") == "x:2"
    assert servers("b:3", "dev", bootstrap_servers="x:2") == "b:3"


def test_properties_of_a_context() -> None:
    found = read_contexts()
    assert merged(found.chosen("production"))[0] == {
        "bootstrap.servers": "production:9093",
        "security.protocol": "SSL",
        "client.id": "me",
    }
    properties, _ = merged(found.chosen(None))
    assert properties["enable.ssl.certificate.verification"] == "false"


def test_passwords_of_the_current_context_are_for_its_servers_only() -> None:
    assert "enable.ssl.certificate.verification" in chosen_cluster(None, None, None, {}).properties
    assert chosen_cluster("other:1", None, None, {}).properties == {"bootstrap.servers": "other:1"}
    both = chosen_cluster("other:1", "dev", None, {}).properties
    assert both["enable.ssl.certificate.verification"] == "false"


def test_errors_name_the_file_that_a_property_comes_from(home: Path) -> None:
    file = home / "config" / "odradek" / "production.properties"
    file.write_text("request.timeout.ms=soon\nno.such=property\n")
    with pytest.raises(CommandError, match=rf"^{file}: request.timeout.ms: 'soon' is not like 30"):
        chosen_cluster(None, "production", None, {}).admin_options()
    with pytest.raises(CommandError, match=r"^-X request.timeout.ms: 'later' is not like 30"):
        chosen_cluster(None, "production", None, {"request.timeout.ms": "later"}).admin_options()
    with pytest.raises(CommandError, match=r"^-X no.such: no such property for this command"):
        chosen_cluster(None, None, None, {"no.such": "property"}).admin_options()


def test_what_is_wrong_in_one_context_does_not_concern_another(home: Path) -> None:
    (home / "config" / "odradek" / "production.properties").unlink()
    assert servers() == "dev:9092"
    with pytest.raises(CommandError, match=r"production.properties can't be read"):
        servers(context="production")


def test_servers_as_a_list(home: Path) -> None:
    text = '[contexts.dev]\nbootstrap.servers = ["a:1", "b:2"]\n'
    (home / "work" / "odradek.toml").write_text(text)
    assert servers() == "a:1,b:2"


def test_a_working_directory_that_was_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert servers() == "dev:9092"
    monkeypatch.chdir("/")


def test_without_any_file_it_is_this_machine(home: Path) -> None:
    (home / "config" / "odradek" / "config.toml").unlink()
    assert servers() == "localhost:9092"
    with pytest.raises(CommandError, match="no context 'dev': no configuration file has any"):
        servers(context="dev")


def test_what_is_wrong_with_a_file_is_said(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CommandError, match="no context 'prodction': did you mean production"):
        servers(context="prodction")
    with pytest.raises(CommandError, match="no context ''"):
        servers(context="")
    file = home / "other.toml"
    monkeypatch.setenv("ODRADEK_CONFIG", str(file))
    with pytest.raises(CommandError, match="can't be read"):
        servers()
    for text, complaint in [
        ("contxt = 1", "unknown key 'contxt': did you mean context"),
        ("context = 1", "'context' is not a name"),
        ("contexts = 1", "not a table of tables"),
        ("[contexts", "can't be read"),
        ('[contexts.x]\nsasl.jaas.config = "x"', "sasl.jaas.config must have one of"),
        ("[contexts.x]\nproperties = 5", "'properties' is not the name of a file"),
        ("[contexts.x]\nclient.id = [1]", "client.id is neither text nor a number"),
    ]:
        file.write_text(text)
        with pytest.raises(CommandError, match=complaint):
            servers(context="x")
