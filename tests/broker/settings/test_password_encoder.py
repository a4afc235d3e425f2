"""Passwords in Kafka's encrypted form."""

import os
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.broker.settings.declaration import ConfigError
from odradek.broker.settings.password_encoder import BadPassword, PasswordEncoder

SECRET, PASSWORD = "t\u00f6p", "hunt\u00e9r2\U0001f600"
# By Kafka 3.9.2's EncryptingPasswordEncoder.
OF_KAFKA = [
    (
        "initializationVector:936KjMFI9qlMSVX5u3ezAg==,keyLength:128,salt:Fg60tDKE/ugWEBsPP41"
        "XALtq1pdJwo2xHY9j+9LVl0Ntug1WRU5aqoUmKOn5HjsEafHo9gm83tYUjGQHL80mrQtY6XibQWO2Lihsjpi"
        "EKTk5PWOxIVOlzj/myQ/XZ6Iw9B9MXU9THlKQk3kcXexmn3u6IgaFvzCxqd+Xb4eZg/9YFjB4XUa0FfAHeqR"
        "O4N4fAamxiKYbE3HBiy5h+Jn0IDApLTcs8bW7C+5kkEvXFuu2akjcoyv0XXvzGpj7S8yON67Azsoc15Fud7S"
        "ihonIXxyWzkb0ZuvxWyZXtHvu03g96IjqwuFJCBX3ESMiXISpkhkC7vhLALR6J3sPpOpo2A==,keyFactory"
        "Algorithm:PBKDF2WithHmacSHA512,cipherAlgorithm:AES/CBC/PKCS5Padding,iterations:1024,"
        "passwordLength:9,encryptedPassword:wUtD3L0yuE+fbiz8M63SpA=="
    ),
    (
        "initializationVector:PjI42ek+l4P/K2smx9LXQw==,keyLength:128,salt:mBkDCv1BJnhAaKFqE34"
        "Yw3DlJZnmxBRuUmZLBACgt8x/7DM732yLJVnVvmSn+F9fXsSAzXKGvLiUWgd+wxa7HUXt6OIeeyL4wpicssR"
        "SwJbSIIxCky+vaBtBbraaTv5x8iZG1188Eo5BML+lkTz3V1gf+K7jrxsF9kpy2pmNWT59sZx10JRaI9YjiRk"
        "2zF2fcHLYesiyF+0masrJ5drnWf1fK+alTvJLOhH0nbnhQMXX860tScLaflinaq7ko+4qkp1GoyTMNjOJzPw"
        "VVR7sJ6gdnQ+gbWjGDjsmoHvmtYDgKeGv7WOibCv/qrm3OBTcnM5hNWQNME4xAYlgRom8+g==,keyFactory"
        "Algorithm:PBKDF2WithHmacSHA1,cipherAlgorithm:AES/CBC/PKCS5Padding,iterations:1024,pa"
        "sswordLength:9,encryptedPassword:OSC+3cd3M0KjU52R18FaUw=="
    ),
    (
        "initializationVector:eJFSzT9VbLA4RmB5,keyLength:128,salt:GF8nYsVvp8+CTNlqS0AGtffA1SS"
        "ezqZwMVj2DCn4xJRZlFtVTbgQ7FHt2H9vF/7CuAB8y7dn1Lhy3UWeLYt+BkjtleA4D0K/z80VYbXNyAu1Hio"
        "kRDOTZPcf0Lu+sMIXTU1leNNhe668GtIEGSndeTFuDIR54THPiUuOfdhSJyJOWChFTApqWa5YrcARXKf3WtW"
        "/54L6pqDiowPILbPIn4cDxU/AwNCsIPUblSuJcYtgWaGFAfWuXbc8SteDE7i9m8Pn2VZn47vW0dOri52zT7t"
        "WNu+MijdWQEBKMPf0LmG0RvQ1HbmTzDevYYXZrL6eCfkN4NNuT4Af7eZSSlTQGA==,keyFactoryAlgorith"
        "m:PBKDF2WithHmacSHA512,cipherAlgorithm:AES/GCM/NoPadding,authenticationTagLength:128"
        ",iterations:1024,passwordLength:9,encryptedPassword:5M54qDaXEXGQDqJ1ZoTJknBQ/hgcl3xE"
        "tsW9+A=="
    ),
    (
        "initializationVector:VsUm+hz4O0wqYSam,keyLength:128,salt:hoEWgIHibdev8OmIuttd9gtvTEk"
        "n2aAlSZqAtvigculLTXRyhTLqv8Eg0t9d7re9jexJviprrxjvpxlN8Qxzp9L7vN87ydzbdGfKwkGRbJZ16Ps"
        "uhuLkeVFSbqcw/46XQPDXWVfjDbAAi0o2n46IOTqaSr40ExAQNMI2kzitItAoNMHr0UsOCyCvNFsZocVazeg"
        "0HNXTT8Q2QpnuU4qc7asEldOFrFTSQMyHgwMRK7DuUFIeC/MSxwWCrVHHGcPHwZW1rwGhQULbZ++q+7oojxe"
        "jQf/fTy8LbP/RZKtQ7KDb2epdpl0ZfBjJoJNedP03S87Cxs/t6atMhbanXfESbA==,keyFactoryAlgorith"
        "m:PBKDF2WithHmacSHA1,cipherAlgorithm:AES/GCM/NoPadding,authenticationTagLength:128,i"
        "terations:1024,passwordLength:9,encryptedPassword:FhAlp71ANKVC7laGcI6J3r9QwfUjiXXwHk"
        "Edqw=="
    ),
]
ENCODER = PasswordEncoder(SECRET)


@pytest.mark.parametrize("text", OF_KAFKA, ids=range(len(OF_KAFKA)))
def test_what_kafka_has_encrypted_is_read(text: str) -> None:
    assert ENCODER.decode(text) == PASSWORD
    with pytest.raises(BadPassword):
        PasswordEncoder("other").decode(text)


@pytest.mark.parametrize("cipher", ["AES/CBC/PKCS5Padding", "AES/GCM/NoPadding"])
@pytest.mark.parametrize("key_factory", [None, "PBKDF2WithHmacSHA1", "PBKDF2WithHmacSHA256"])
@pytest.mark.parametrize("key_length", [128, 192, 256])
def test_what_is_encrypted_is_read(cipher: str, key_factory: str | None, key_length: int) -> None:
    encoder = PasswordEncoder(SECRET, cipher, key_factory, key_length, 1024)
    text = encoder.encode(PASSWORD, os.urandom)
    assert PASSWORD not in text
    assert ENCODER.decode(text) == PASSWORD, "all but the secret is in the text"
    assert encoder.encode(PASSWORD, os.urandom) != text, "with another salt"
    assert encoder.decode(encoder.encode("", os.urandom)) == ""


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("iterations", "2000000000"),
        ("iterations", "-1"),
        ("keyLength", "0"),
        ("keyLength", "x"),
        ("cipherAlgorithm", "DES/CBC/PKCS5Padding"),
        ("keyFactoryAlgorithm", "PBKDF2WithHmacMD5"),
        ("passwordLength", "3"),
        ("initializationVector", "AAAA"),
        ("salt", "="),
        ("encryptedPassword", ""),
        ("authenticationTagLength", "8"),
    ],
)
def test_a_field_that_is_wrong_is_refused(name: str, value: str) -> None:
    for text in OF_KAFKA:
        fields = [field for field in text.split(",") if not field.startswith(f"{name}:")]
        with pytest.raises(BadPassword):
            ENCODER.decode(",".join([*fields, f"{name}:{value}"]))


@pytest.mark.slow
@settings(max_examples=60)
@given(st.data())
def test_a_text_that_was_changed_is_refused_or_read(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(OF_KAFKA))
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 20)))
    changed = text[:start] + data.draw(st.text("=:,+/Aaz \n\u00fc", max_size=5)) + text[end:]
    try:
        ENCODER.decode(changed)
    except BadPassword:
        return


@settings(max_examples=50)
@given(st.text())
def test_any_text_is_refused(text: str) -> None:
    with pytest.raises(BadPassword):
        ENCODER.decode(text)


def test_without_cryptography_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "odradek.broker.settings.password_ciphers", None)
    monkeypatch.delattr("odradek.broker.settings.password_ciphers", raising=False)
    with pytest.raises(ConfigError, match=r"pip install 'odradek\[tls\]'"):
        ENCODER.encode("x", os.urandom)
    with pytest.raises(ConfigError, match=r"pip install 'odradek\[tls\]'"):
        ENCODER.decode(OF_KAFKA[0])
