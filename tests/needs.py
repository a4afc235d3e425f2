"""What `make test` fetches, and what of it is here: `python -m tests.needs`, on any Python 3.11.

A folder is there as soon as its download begins: what counts is what each leaves at its end.
"""

from tests.kafka import jars
from tests.spark.environment import RELEASES, ROOT


def fetched() -> dict[str, bool]:
    """Whether each download is complete, by its name."""
    newer, older = RELEASES.values()
    return {
        "Python packages, 270 MB": (ROOT / ".venv" / ".dev").exists(),
        "Kafka's jars, 240 MB": all(map(jars.present, jars.VERSIONS)),
        f"Spark {older.name}, 770 MB": older.made.exists(),
        f"Spark {newer.name}, 880 MB": newer.made.exists(),
        "KafkaJS for Node, 3 MB": (ROOT / ".cache" / "node" / ".complete").exists(),
        "franz-go for Go, 25 MB": (ROOT / ".cache" / "go" / "situations").exists(),
        "Spark's connectors, 280 MB": all(spark.connector_jars() for spark in (newer, older)),
    }


if __name__ == "__main__":
    for name, is_here in fetched().items():
        print(f"  {name:40} {'here' if is_here else 'will be fetched'}")
