"""Small jobs of their own, by which the room's common parts are tried with a real Spark.

python -m tests.pipeline.stream_jobs '{"servers": ...}'     a stream until SIGTERM
"""

import json
import logging
import sys
from typing import Any

from odradek.pipeline.errors import PipelineError
from odradek.pipeline.files import Files
from odradek.pipeline.kafka import Kafka
from odradek.pipeline.kafka_source import AT_THE_END, source_options
from odradek.pipeline.lag import lag_listener
from odradek.pipeline.running import run_stream
from odradek.pipeline.session import SparkOptions, start


def writer(spark: Any, kafka: Kafka, topic: str, directory: str, **options: str) -> Any:
    """A stream of a topic into Parquet files."""
    source = spark.readStream.format("kafka").options(**source_options(kafka))
    source = source.options(**AT_THE_END, startingOffsets="earliest", subscribe=topic)
    source = source.options(**options)
    return (
        source.load()
        .writeStream.format("parquet")
        .option("path", f"{directory}/table")
        .option("checkpointLocation", f"{directory}/checkpoint")
    )


def stream(
    spark: Any,
    *,
    servers: str,
    topic: str,
    directory: str,
    name: str,
    once: bool = True,
    trigger: str | None = None,
    options: dict[str, str] | None = None,
) -> dict[str, Any]:
    """Run a stream; how many records it read, or what it says."""
    kafka = Kafka(servers)
    try:
        records = run_stream(
            lambda: writer(spark, kafka, topic, directory, **(options or {})),
            once=once,
            trigger=trigger,
            name=name,
            kafka=kafka,
        )
    except PipelineError as error:
        return {"error": str(error)}
    finally:
        kafka.close()
    return {"records": records}


def listened(spark: Any, *, servers: str, topic: str, directory: str, name: str) -> None:
    """A query of somebody else's with our listener."""
    kafka = Kafka(servers)
    listener = lag_listener(kafka)
    spark.streams.addListener(listener)
    query = writer(spark, kafka, topic, directory).queryName(name)
    query.trigger(availableNow=True).start().awaitTermination()


def files(spark: Any, *, uri: str) -> dict[str, Any]:
    """Everything that `Files` does, in a folder."""
    folder = Files(spark, uri)
    refused = []

    def refuse(deed: Any, *arguments: Any) -> None:
        try:
            deed(*arguments)
        except PipelineError as error:
            refused.append(str(error))

    folder.check_writable()
    folder.write("a/b.json", b"first\0\xff")
    refuse(folder.write, "a/b.json", b"second")
    folder.write("c.json", b"old")
    folder.write("c.json", b"new", overwrite=True)
    folder.rename("a/b.json", "d/e/f.json")
    refuse(folder.rename, "c.json", "d/e/f.json")
    refuse(folder.rename, "nothing", "x")
    refuse(folder.read, "nothing")
    return {
        "uri": folder.uri,
        "f": list(folder.read("d/e/f.json")),
        "c": folder.read("c.json").decode(),
        "files": [[file.path, file.size_bytes] for file in folder.list(recursive=True)],
        "top": [file.path for file in folder.list()],
        "nowhere": [folder.list("nowhere"), folder.folders("nowhere")],
        "folders": folder.folders(),
        "deleted": [folder.delete("d", recursive=True), folder.delete("d")],
        "there": [folder.exists("c.json"), folder.exists("d")],
        "refused": refused,
    }


def unwritable(spark: Any, *, uri: str) -> str:
    """What is said of a folder that cannot be written."""
    try:
        Files(spark, uri).check_writable()
    except PipelineError as error:
        return str(error)
    return "written"


def settings(spark: Any, *, names: list[str]) -> dict[str, str | None]:
    """Settings of the running Spark."""
    conf = spark.sparkContext.getConf()
    return {name: conf.get(name) for name in names}


def main() -> None:
    arguments = json.loads(sys.argv[1])
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    options = SparkOptions(**arguments.pop("spark"))
    spark = start("odradek-tests", options)
    print(json.dumps(stream(spark, **arguments)), flush=True)


if __name__ == "__main__":
    main()
