"""The files of `odradek serve --secure`."""

import json
import stat
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from runpy import run_path

import pytest

from odradek.broker.settings.declaration import ConfigError
from odradek.broker.settings.properties import parse_properties
from odradek.client_configs import Access, client_config
from odradek.secure.client_files import client_files
from odradek.secure.files import SecureFiles

NOW = datetime.now(UTC)


def made(directory: Path) -> SecureFiles:
    files = SecureFiles(str(directory))
    files.prepare(["localhost"], NOW)
    return files


def test_only_the_owner_reads_them(tmp_path: Path) -> None:
    made(tmp_path).write_clients("localhost:9092")
    paths = sorted(tmp_path.iterdir())
    assert [path.name.removeprefix("secure-") for path in paths] == [
        "aiokafka.py",
        "authority.key",
        "authority.pem",
        "broker.pem",
        "confluent.json",
        "java.properties",
        "kafka-python.json",
        "librdkafka.conf",
        "password",
        "spark.json",
    ]
    assert {stat.S_IMODE(path.stat().st_mode) for path in paths} == {0o600}


def test_a_second_start_keeps_authority_and_password(tmp_path: Path) -> None:
    first = made(tmp_path)
    kept = {path: path.read_bytes() for path in (first.authority, tmp_path / "secure-password")}
    store = first.store.read_bytes()
    second = made(tmp_path)
    assert {path: path.read_bytes() for path in kept} == kept
    assert second.store.read_bytes() != store
    verify = ["openssl", "verify", "-CAfile", str(second.authority), str(second.store)]
    subprocess.run(verify, check=True, capture_output=True)


def test_a_damaged_authority_is_named(tmp_path: Path) -> None:
    made(tmp_path)
    key = tmp_path / "secure-authority.key"
    key.write_text("nonsense")
    with pytest.raises(ConfigError, match=rf"{key} and .*\.pem cannot be read"):
        made(tmp_path)


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"--secure cannot write .*file: "):
        made(tmp_path / "file")


def test_every_client_reads_its_file(tmp_path: Path) -> None:
    files = made(tmp_path)
    access = files.access
    paths = files.write_clients("h:1")
    assert json.loads(paths["confluent.json"].read_text()) == client_config(
        "confluent", "h:1", access
    )
    assert json.loads(paths["spark.json"].read_text()) == client_config("spark", "h:1", access)
    assert json.loads(paths["kafka-python.json"].read_text()) == client_config(
        "kafka-python", "h:1", access
    )
    java = dict(parse_properties(paths["java.properties"].read_text()))
    assert java == client_config("java", "h:1", access)
    aiokafka = run_path(str(paths["aiokafka.py"]))["config"]
    assert aiokafka.keys() == client_config("aiokafka", "h:1", access).keys()
    assert aiokafka["sasl_plain_password"] == access.password


def test_properties_hold_any_text() -> None:
    access = Access("/näher/𝄞\\ca.pem", "SCRAM-SHA-512", "bob", 'a"b\\c')
    text = client_files(lambda client: client_config(client, "h:1", access))["java.properties"]
    assert text.isascii()
    assert dict(parse_properties(text)) == client_config("java", "h:1", access)


def test_files_without_tls_and_without_passwords(tmp_path: Path) -> None:
    open_files = client_files(lambda client: client_config(client, "h:1"))
    module = tmp_path / "aiokafka.py"
    module.write_text(open_files["aiokafka.py"])
    assert run_path(str(module))["config"] == {"bootstrap_servers": "h:1"}
    assert open_files["librdkafka.conf"] == "bootstrap.servers=h:1\n"
    tokens = Access(None, "OAUTHBEARER", "bob")
    assert client_files(lambda client: client_config(client, "h:1", tokens)).keys() == {
        *("java.properties", "librdkafka.conf", "confluent.json", "spark.json"),
    }
