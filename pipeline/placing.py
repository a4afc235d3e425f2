"""The target partition of a copied record: always the same for the same record.

A restarted job must place each record where the killed one did, so the choice must not be random or
depend on other records.
"""

from dataclasses import dataclass

from .errors import PipelineError


@dataclass(frozen=True, slots=True)
class Route:
    """A copy from one topic to another."""

    source_topic: str
    target_topic: str
    partitions: int
    """Of the target."""
    keep_partitions: bool
    name: str = ""
    """Name of the job, if it has one."""

    def place(self, partition: int, key: bytes | None) -> int:
        """The target partition for a record of a source partition.  Raises: PipelineError.

        Unless partitions are kept, records with a key go where Kafka's own producers put them;
        those without stay together by source partition, so that they keep their order.
        """
        if self.keep_partitions:
            if partition >= self.partitions:
                raise PipelineError(
                    f"{self.source_topic} has a partition {partition}, and {self.target_topic} has "
                    f"only {self.partitions}: add partitions to {self.target_topic}"
                )
            return partition
        if key is None:
            return partition % self.partitions
        from kafka.partitioner.default import murmur2

        return int((murmur2(key) & 0x7FFFFFFF) % self.partitions)

    @property
    def group(self) -> str:
        """The consumer group at the target that holds this route's progress."""
        # Topic names contain no #, so topic b.c and topic b with the name c have different groups.
        name = f"#{self.name}" if self.name else ""
        return f"odradek-copy.{self.source_topic}.{self.target_topic}{name}"
