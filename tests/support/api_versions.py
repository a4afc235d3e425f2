"""What a real broker lists."""

from pathlib import Path

VECTORS = Path(__file__).parents[1] / "vectors" / "kafka_3.9.2_api_versions.tsv"


def kafkas_ranges() -> dict[int, tuple[int, int]]:
    """The first and last versions of each API of Kafka 3.9.2 with ZooKeeper, by key."""
    lines = VECTORS.read_text().splitlines()
    rows = [tuple(map(int, line.split("\t"))) for line in lines if not line.startswith("#")]
    return {key: (first, last) for key, first, last in rows}
