"""`odradek pipeline`: PySpark jobs, each in a module of its own that is imported when called."""

import logging
from typing import Any, Final

import click

from odradek.pipeline.errors import PipelineError, explained, reason

from .commands import LazyGroup
from .errors import CommandError
from .tables import discard_stdout

# One line per job: `odradek pipeline NAME` is the function NAME in odradek/cli/pipeline_NAME.py.
JOBS: Final = {
    "archive": "Land topics in Parquet files, each record exactly once.",
    "compact": "Merge an archive's small files into a few large ones.",
    "replay": "Bring an archive back into a topic.",
    "audit": "Compare broker, archive and a second topic.",
    "rollup": "Aggregate a topic in windows that a YAML file defines.",
    "mirror": "Copy topics to another cluster.",
    "generate": "Write a realistic load to a topic.",
    "checkpoint": "Show a checkpoint's offsets against the log's.",
    "connector": "Fetch Spark's Kafka connector, for use without a network.",
}
EPILOG: Final = (
    "Jobs run on the pyspark that is installed (pip install 'odradek[spark]'), here or on the "
    "cluster that --master names. Exit codes: 0 done, 1 a comparison found differences or a "
    "side that is behind, or a checkpoint has lost records, 2 the job could not run."
)

logger = logging.getLogger(__name__)


class JobFailed(CommandError):
    """One sentence on stderr and exit code 2."""

    exit_code = 2


class JobGroup(LazyGroup):
    """The group of jobs; every error becomes one sentence.

    Exit code 1 reports findings of audit and checkpoint, so no failure may use it.
    """

    def invoke(self, ctx: click.Context) -> Any:
        """As click's, but a job that fails exits with code 2."""
        try:
            with explained():
                return super().invoke(ctx)
        except PipelineError as error:
            raise JobFailed(str(error)) from error
        except (KeyboardInterrupt, click.Abort) as error:
            raise JobFailed("the job was interrupted before it was done") from error
        except (click.ClickException, click.exceptions.Exit):
            raise
        except BrokenPipeError:  # stdout was closed
            discard_stdout()
            ctx.exit(JobFailed.exit_code)
        except Exception as error:
            logger.debug("job failed", exc_info=error)
            raise JobFailed(
                f"the job stopped: {reason(error)} (--log-level debug shows where)"
            ) from error


@click.group(
    cls=JobGroup,
    table=JOBS,
    prefix="pipeline_",
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"]},  # also without `odradek` before it
)
def pipeline() -> None:
    """Archive, replay, audit and compute on topics with Spark."""
