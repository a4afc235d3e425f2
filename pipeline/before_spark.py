"""What is refused before Spark starts, which takes ten seconds and more: folders of this machine.

Every check is made again with Spark's own view of files, which knows folders elsewhere, too.
"""

import os
from collections.abc import Mapping
from typing import Final

from .errors import PipelineError
from .files import Folder
from .local_files import LocalFiles, local_path
from .manifest import about_of, all_ranges, read_commits
from .session import SparkOptions

_MAY_LEAD_ELSEWHERE: Final = (
    *("HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_CONF_DIR", "SPARK_HOME"),
    *("PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT"),
)
"""Variables by which a path without a scheme may mean one in HDFS."""


def local_folder(
    uri: str, options: SparkOptions, environ: Mapping[str, str] = os.environ
) -> LocalFiles | None:
    """The folder that a URI names; None if Spark may take it for one elsewhere."""
    path = local_path(uri)
    if path is None or uri.startswith("~"):  # which Spark takes for a name
        return None
    if "://" not in uri and not uri.startswith("file:"):
        named = any(name in environ for name in _MAY_LEAD_ELSEWHERE)
        if named or "spark.hadoop.fs.defaultFS" in options.conf:
            return None
    return LocalFiles(path)


def check_archive(uri: str, options: SparkOptions) -> None:
    """Refuse a folder of this machine that is no archive.  Raises: PipelineError."""
    folder = local_folder(uri, options)
    if folder is not None:
        about_of(folder)


def check_archived(folder: Folder, topic: str) -> None:
    """Refuse an archive without a topic.  Raises: PipelineError, also if there is no archive."""
    about_of(folder)
    topics = sorted({asked.topic for asked in all_ranges(read_commits(folder))})
    if topic not in topics:
        held = ", ".join(topics) or "nothing"
        raise PipelineError(f"the archive {folder.uri} has no topic {topic}: it holds {held}")
