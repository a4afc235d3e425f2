"""`make demo`: a broker, a load, an archive, a rollup and an audit with plots, in one command.

Every step is a command that a user would type; it is shown, and what it prints.  The broker and
all data are in a temporary directory and end with the demo; the audit's page and the picture of
the run stay in artifacts/demo.  The exit code is 0 only if the audit finds no difference.
"""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.text import Text

from tests.kafka.process import ServerFailed
from tests.spark.environment import CACHE, RELEASES, ROOT
from tests.spark.prepare import ConnectorMissing, fetch
from tests.wire.servers import OdradekServer

SPARK: Final = RELEASES["4.0"]
ORDER_COUNT: Final = 100_000
RESULTS: Final = ROOT / "artifacts" / "demo"
SPEC: Final = ROOT / "pipeline" / "rollup-example.yaml"
WIDTH: Final = 100
SHOWN_CITIES: Final = 5


class StepFailed(Exception):
    """A command of the demo failed; the message ends with what it printed."""


def main() -> int:
    """Run the demo."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that nothing is left running
    console = Console(record=True, width=WIDTH, highlight=False)
    with tempfile.TemporaryDirectory(prefix="odradek-demo-") as directory:
        try:
            Demo(Path(directory), console).run()
        except (ConnectorMissing, ServerFailed, StepFailed) as error:
            print(f"\nthe demo failed: {error}", file=sys.stderr)
            return 1
    svg = console.export_svg(title="make demo")
    # A picture that loads fonts from elsewhere is none.
    svg = re.sub(r"@font-face\s*\{.*?\}", "", svg, flags=re.DOTALL)
    (RESULTS / "demo.svg").write_text(svg, encoding="utf-8")
    print(f"page with plots: {os.path.relpath(RESULTS / 'audit.html')}")
    return 0


class Demo:
    """One run, in a directory that is removed afterwards."""

    def __init__(self, directory: Path, console: Console) -> None:
        self.directory = directory
        self.console = console
        self.broker = OdradekServer(directory / "broker")
        self.started_s = time.monotonic()

    def run(self) -> None:
        """All steps.  Raises: ConnectorMissing, ServerFailed, StepFailed."""
        RESULTS.mkdir(parents=True, exist_ok=True)
        if not SPARK.connector_jars():
            fetch_shown()
        try:
            self.broker.start()
            self.say(
                f"Odradek serves {self.broker.bootstrap_servers}"
                f" after {self.broker.startup_ms:.0f} ms"
            )
            self.configure_spark()
            self.jobs()
            self.broker.stop()
        finally:
            self.broker.close()
        took_s = time.monotonic() - self.started_s
        self.say(f"all of it in {took_s:.0f} s; broker and archive hold the same records")

    def configure_spark(self) -> None:
        """As a user's own spark-defaults.conf: the connector's jars, a small Spark."""
        jars = ",".join(map(str, SPARK.connector_jars()))
        lines = [f"spark.jars {jars}", "spark.driver.memory 1g", "spark.ui.enabled false"]
        (self.directory / "spark-defaults.conf").write_text("\n".join(lines) + "\n")

    def jobs(self) -> None:
        """The commands of the pipeline."""
        pipeline = ("odradek", "pipeline")
        load = ("--topic", "orders", "--partitions", "3", "--records", str(ORDER_COUNT))
        # Nearly three hours of orders, so that most windows are closed at the end.
        self.command(*pipeline, "generate", *load, "--events-per-second", "10")
        self.command(*pipeline, "archive", "--topics", "orders", "--to", "archive", "--once")
        shutil.copy(SPEC, self.directory / "revenue.yaml")
        self.command(*pipeline, "rollup", "--spec", "revenue.yaml", "--once")
        self.show_revenue()
        self.command("odradek", "groups", "list")
        page = str(RESULTS / "audit.html")
        audit = ("--topics", "orders", "--archive", "archive", "--html")
        self.command(*pipeline, "audit", *audit, page, shown=(*audit, "audit.html"))

    def command(self, *words: str, shown: tuple[str, ...] = ()) -> None:
        """Show a command, run it in the demo's directory, show what it printed."""
        typed = (*words[: words.index(shown[0])], *shown) if shown else words
        self.console.print(Text("$ " + shlex.join(typed), style="bold green"))
        started_s = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", *words],
            cwd=self.directory,
            env=self.environment(),
            capture_output=True,
            text=True,
        )
        if done.returncode != 0:
            raise StepFailed(f"exit code {done.returncode}\n{done.stdout}{done.stderr[-3000:]}")
        for line in done.stdout.rstrip().splitlines():
            self.console.print(Text("  " + line), overflow="ellipsis", no_wrap=True)
        self.console.print(Text(f"  {time.monotonic() - started_s:.1f} s\n", style="dim"))

    def environment(self) -> dict[str, str]:
        """Which broker and which Spark the commands find."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
        return {
            **kept,
            "PYTHONPATH": str(ROOT),
            "SPARK_CONF_DIR": str(self.directory),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "ODRADEK_BOOTSTRAP_SERVERS": self.broker.bootstrap_servers,
        }

    def show_revenue(self) -> None:
        """What the rollup has written, added up: any reader of Parquet will do."""
        import pyarrow.dataset

        folder = self.directory / "rollups" / "revenue"
        table = pyarrow.dataset.dataset(folder, format="parquet").to_table(
            columns=["city", "orders", "revenue_cents"]
        )
        totals = table.group_by("city").aggregate([("orders", "sum"), ("revenue_cents", "sum")])
        rows = sorted(totals.to_pylist(), key=lambda row: -row["revenue_cents_sum"])
        self.say(
            f"revenue of {len(rows)} cities in the windows that are closed, from rollups/revenue"
        )
        for row in rows[:SHOWN_CITIES]:
            line = f"  {row['city']:12}{row['orders_sum']:>10,} orders"
            self.console.print(Text(f"{line}{row['revenue_cents_sum'] / 100:>16,.2f}"))
        self.console.print()

    def say(self, sentence: str) -> None:
        """A line that is no command."""
        self.console.print(Text(f"# {sentence}", style="cyan"))


def fetch_shown() -> None:
    """Fetch Spark's Kafka connector, once, and show how much has come. Raises: ConnectorMissing."""
    outcome: list[BaseException] = []

    def work() -> None:
        try:
            fetch(SPARK)
        except (ConnectorMissing, OSError) as error:
            outcome.append(error)

    worker = threading.Thread(target=work)
    worker.start()
    while worker.is_alive():
        worker.join(0.5)
        print(f"\rfetching {SPARK.package}: {fetched_mib():.0f} MiB", end="", flush=True)
    print()
    if outcome:
        raise ConnectorMissing(str(outcome[0]))


def fetched_mib() -> float:
    """What lies in the resolver's folders by now."""
    files = [file for file in CACHE.glob(f".{SPARK.name}-*/**/*") if file.is_file()]
    return sum(file.stat().st_size for file in files) / 2**20


if __name__ == "__main__":
    sys.exit(main())
