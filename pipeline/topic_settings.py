"""A topic's settings when it was archived, so that a replay can create one like it.

`DIR/_odradek/topics/T.json` in the archive has the number of partitions, the settings made on the
topic itself, and its id.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from .documents import document_of, encode
from .errors import PipelineError
from .files import Files
from .kafka import Kafka, SettingsHidden
from .manifest import ROOM

FOLDER: Final = f"{ROOM}/topics"
VERSION: Final = 1

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """What is needed to recreate a topic."""

    partitions: int
    config: Mapping[str, str] | None
    """None: the user of the job was not allowed to read them."""
    topic_id: str | None = None
    """None: the brokers have no topic ids."""


def ask_settings(kafka: Kafka, topic: str) -> TopicSettings:
    """The current settings of a topic.  Raises: PipelineError."""
    partitions, topic_id = kafka.partitions(topic), kafka.topic_id(topic)
    try:
        return TopicSettings(partitions, kafka.topic_config(topic), topic_id)
    except SettingsHidden as hidden:
        logger.warning("topic settings cannot be copied topic=%s: %s", topic, hidden)
        return TopicSettings(partitions, None, topic_id)


def check_topic_ids(files: Files, kafka: Kafka, topics: Iterable[str]) -> None:
    """Refuse topics that were recreated since they were archived.  Raises: PipelineError."""
    for topic in topics:
        kept, now = read_settings(files, topic), kafka.topic_id(topic)
        if kept is not None and kept.topic_id and now and kept.topic_id != now:
            raise PipelineError(
                f"{topic} was made anew since it was archived (its topic id was {kept.topic_id} and"
                f" is {now}): archive it into another folder; if its records were moved with their"
                f" offsets, remove {files.absolute(_path(topic))}"
            )


def keep_settings(files: Files, kafka: Kafka, topics: Iterable[str]) -> None:
    """Record the current settings of topics in an archive.  Raises: PipelineError."""
    for topic in topics:
        settings = ask_settings(kafka, topic)
        if settings != read_settings(files, topic):
            document = {
                "version": VERSION,
                "partitions": settings.partitions,
                "config": None if settings.config is None else dict(settings.config),
                "topic_id": settings.topic_id,
            }
            # Not overwritten: a kill could leave a local file with the checksum of the old one.
            files.delete(_path(topic))
            files.write(_path(topic), encode(document))


def read_settings(files: Files, topic: str) -> TopicSettings | None:
    """The settings of a topic in an archive; None if it has none.  Raises: PipelineError."""
    path = _path(topic)
    if not files.exists(path):
        return None
    with document_of(files, path, VERSION) as document:
        config = document["config"]
        return TopicSettings(
            int(document["partitions"]),
            None if config is None else dict(config),
            document.get("topic_id"),
        )


def _path(topic: str) -> str:
    return f"{FOLDER}/{topic}.json"
