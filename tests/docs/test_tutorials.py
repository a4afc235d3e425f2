"""The tutorials do what they say: their code runs as it is typed."""

from pathlib import Path

import pytest

from tests.docs.pages import DOCS
from tests.docs.tutorial import is_as_shown, run_tutorial
from tests.spark.releases import present
from tests.spark.warm import MASTER


@pytest.mark.wire
@pytest.mark.parametrize("name", ["tutorial-test-your-app", "tutorial-small-broker"])
def test_a_tutorial_runs_as_typed(name: str, tmp_path: Path) -> None:
    run_tutorial(DOCS / f"{name}.md", tmp_path)


@pytest.mark.spark
@pytest.mark.soak  # six JVMs
@pytest.mark.timeout(1800)
def test_the_spark_tutorial_runs_as_typed(tmp_path: Path) -> None:
    spark = present("4.0")
    jars = ",".join(map(str, spark.connector_jars()))
    options = ["--master", MASTER, "--jars", jars]
    options += [word for item in spark.small.items() for word in ("--conf", "=".join(item))]
    run_tutorial(
        DOCS / "tutorial-spark-pipeline.md",
        tmp_path,
        python=spark.python,
        job_options=options,
        block_timeout_s=300,
    )


def page_of(directory: Path, text: str) -> Path:
    page = directory / "page.md"
    page.write_text(text)
    return page


@pytest.mark.slow
def test_files_shell_and_output(tmp_path: Path) -> None:
    text = (
        "```python\n# one.py\nprint(1)\n```\n"
        "```bash\npython one.py; name=world\n```\n```text\n1\n```\n"
        "<!-- not run: why -->\n```bash\nexit 1\n```\n"
        "```bash\necho   hello   $name; echo $RANDOM\n```\n```text\nhello world\n…\n```\n"
    )
    run_tutorial(page_of(tmp_path, text), tmp_path)


def test_other_output_is_seen(tmp_path: Path) -> None:
    page = page_of(tmp_path, "```bash\necho 1\n```\n```text\n2\n```\n")
    with pytest.raises(AssertionError, match=r"page\.md:5 shows"):
        run_tutorial(page, tmp_path)


def test_a_failing_command_is_seen(tmp_path: Path) -> None:
    page = page_of(tmp_path, "```bash\nfalse\necho 1\n```\n")
    with pytest.raises(AssertionError, match=r"page\.md:2: a command failed"):
        run_tutorial(page, tmp_path)


def test_what_an_ellipsis_stands_for() -> None:
    assert is_as_shown("a 1 s\n", "a …")
    assert is_as_shown("a\nb\nc\n", "a\n…\nc")
    assert is_as_shown("a\nc\n", "a\n…\nc")
    assert not is_as_shown("a\nb\n", "a …")
    assert not is_as_shown("a\nb\n", "a\n")
