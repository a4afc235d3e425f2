"""The table of APIs and the files beside it: none is forgotten, none is made up."""

import pkgutil
import re
import subprocess
import sys

import pytest

import odradek.broker.handlers as handlers
import odradek.protocol.messages as messages
from odradek.broker.handlers import APIS, Api


def modules_of(path: list[str]) -> set[str]:
    """Those that are named after an API key; beside them lies what several handlers use."""
    names = (module.name for module in pkgutil.iter_modules(path))
    return {name for name in names if re.match(r"k\d+_", name)}


def test_every_api_has_its_two_files_and_every_file_its_api() -> None:
    listed = {api.module for api in APIS.values()}
    assert modules_of(list(handlers.__path__)) == listed
    assert modules_of(list(messages.__path__)) == listed


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_an_api_is_found_by_its_name(api: Api) -> None:
    assert api.key == api.request.API_KEY
    assert api.request.__name__ == f"{api.name}Request"
    assert callable(api.handle)


def test_lower_bounds_are_those_that_old_clients_look_for() -> None:
    # librdkafka before 2.11.1 compares exact versions, and finds out about lz4 by FindCoordinator
    assert all(api.first == 0 for api in APIS.values())
    assert 10 in APIS


def test_the_table_imports_no_message_and_no_handler() -> None:
    program = (
        "import sys, odradek.broker.handlers\n"
        "sys.exit(any('.k00_' in name or '.k18_' in name for name in sys.modules))"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=30)
