"""The command line: `odradek serve`, and the other commands for any Kafka broker.

Each command is a module that is imported when it is called, so that starting a broker does not
import a Kafka client.  Exit codes: 0 done, 1 failed (one sentence on stderr), 2 wrong usage, 3
timed out with fewer records than requested, 130 ended by Ctrl-C.
"""

from typing import Final

import click

from odradek import __version__

from .commands import Program

COMMANDS: Final = {
    "serve": "Run a broker.",
    "run": "Run a command beside a broker of its own.",
    "topics": "List, create, describe, change and delete topics.",
    "groups": "List, describe, explain, reset and delete consumer groups.",
    "transactions": "List, describe, explain transactions, abort hanging ones.",
    "configs": "Describe and change settings of topics, brokers and groups.",
    "users": "List, add and delete users who log in by SCRAM.",
    "acls": "List, add and delete access control lists.",
    "cluster": "Show brokers, controller, and partitions with problems.",
    "elect-leaders": "Give leadership back to preferred replicas.",
    "reassign": "Move replicas between brokers.",
    "produce": "Write records to a topic.",
    "consume": "Read records of a topic.",
    "replay": "Send the requests of a journal to a broker.",
    "wait": "Wait until a broker, a topic or a group is ready.",
    "log": "Read, check and repair the files of a data directory.",
    "pipeline": "Archive, replay, audit and compute on topics with Spark.",
    "zookeeper": "Show the nodes in ZooKeeper or in an embedded store.",
    "export-zookeeper": "Let Apache Kafka take over a stopped broker.",
    "import-zookeeper": "Take over a stopped broker of Apache Kafka.",
    "import-directory": "Rebuild a lost store from partition directories.",
    "completion": "Print a script for completion in bash, zsh or fish.",
}
EPILOG: Final = "Commands with -b work against any Kafka broker, those with --data-dir on files."


@click.group(
    cls=Program,
    table=COMMANDS,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, "-V", "--version", message="odradek %(version)s")
def main() -> None:
    """Odradek, a broker that speaks Kafka's wire protocol."""
