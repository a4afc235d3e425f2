"""The generated pages are those that the code makes now."""

from pathlib import Path

import pytest

from odradek.broker.handlers import APIS
from tests.docs.pages import ROOT
from tests.docs.reference import NOT_SERVED, commands_markdown, kafka_versions, pages


@pytest.mark.slow
@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_a_generated_page_is_current(page: Path) -> None:
    assert page.read_text() == pages()[page](), f"run: make docs ({page.relative_to(ROOT)})"


def test_every_api_of_kafka_is_served_or_named_as_absent() -> None:
    assert kafka_versions().keys() == (kafka_versions().keys() & APIS.keys()) | NOT_SERVED.keys()
    assert APIS.keys().isdisjoint(NOT_SERVED)


@pytest.mark.slow
def test_examples_and_options_are_on_the_page() -> None:
    text = commands_markdown()
    assert "odradek topics create orders refunds -p 6" in text
    assert "| `--dry-run` |" in text
