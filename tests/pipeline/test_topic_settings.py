"""What an archive keeps of its topics, on files in memory."""

from collections.abc import Callable, Mapping

import pytest

from odradek.pipeline.errors import PipelineError
from odradek.pipeline.kafka import Kafka, SettingsHidden
from odradek.pipeline.topic_settings import (
    TopicSettings,
    ask_settings,
    check_topic_ids,
    keep_settings,
    read_settings,
)
from tests.pipeline.disk import Crash, Disk, Process

PATH = "_odradek/topics/t.json"


class Cluster(Kafka):
    """A cluster of one topic, which a test changes."""

    def __init__(self, settings: TopicSettings) -> None:
        super().__init__("there:9092")
        self.settings = settings

    def partitions(self, topic: str) -> int:
        return self.settings.partitions

    def topic_config(self, topic: str) -> dict[str, str]:
        if self.settings.config is None:
            raise SettingsHidden("not for you")
        return dict(self.settings.config)

    def topic_id(self, topic: str) -> str | None:
        return self.settings.topic_id


def test_settings_come_back_and_follow_their_topic() -> None:
    process = Process(Disk())
    assert read_settings(process, "t") is None
    cluster = Cluster(TopicSettings(3, {"retention.ms": "5"}, "one"))
    for partitions, config in ((3, {"retention.ms": "5"}), (4, {"retention.ms": "5"}), (4, None)):
        cluster.settings = TopicSettings(partitions, config, "one")
        keep_settings(process, cluster, ["t"])
        assert read_settings(process, "t") == ask_settings(cluster, "t") == cluster.settings
    steps = process.steps
    keep_settings(process, cluster, ["t"])
    assert process.steps == steps + 2  # looked, and left it as it was


@pytest.mark.slow
def test_a_kill_leaves_settings_that_can_be_read() -> None:
    old, new = TopicSettings(3, {}, "one"), TopicSettings(4, {}, "one")

    def kill_at(last: int) -> Callable[[int], None]:
        def before(step: int) -> None:
            if step == last:
                raise Crash

        return before

    for last in range(4):
        disk = Disk()
        keep_settings(Process(disk), Cluster(old), ["t"])
        with pytest.raises(Crash):
            keep_settings(Process(disk, kill_at(last)), Cluster(new), ["t"])
        assert read_settings(Process(disk), "t") in (old, None)
        keep_settings(Process(disk), Cluster(new), ["t"])
        assert read_settings(Process(disk), "t") == new


@pytest.mark.slow
@pytest.mark.parametrize("text", ["", "{}", '{"version": 2}', '{"version": 1, "partitions": "x"}'])
def test_a_damaged_file_is_named(text: str) -> None:
    disk = Disk()
    disk.content[PATH] = text.encode()
    with pytest.raises(PipelineError, match=r"topics/t\.json cannot be read"):
        read_settings(Process(disk), "t")


@pytest.mark.slow
def test_a_topic_that_was_made_anew_is_refused_however_long_it_is() -> None:
    process = Process(Disk())
    config: Mapping[str, str] = {}
    cluster = Cluster(TopicSettings(1, config, "one"))
    check_topic_ids(process, cluster, ["t"])  # nothing is known of it
    keep_settings(process, cluster, ["t"])
    check_topic_ids(process, cluster, ["t"])
    cluster.settings = TopicSettings(1, config, None)
    check_topic_ids(process, cluster, ["t"])
    cluster.settings = TopicSettings(1, config, "two")
    with pytest.raises(PipelineError, match=r"t was made anew .* was one and is two"):
        check_topic_ids(process, cluster, ["t"])
    process.delete(PATH)
    check_topic_ids(process, cluster, ["t"])
