"""kafka-python for the commands: options to connect, and its errors as one sentence."""

import functools
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

import click

from odradek.protocol.errors import ErrorCode

from .errors import CommandError
from .options import parse_pairs

CONNECT_TIMEOUT_MS: Final = 5000
CLIENT_ID: Final = "odradek-cli"

# kafka-python has no types of its own: its clients are `Any` here and in the commands.
Client = Any


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where the commands connect to, and the user's options for kafka-python."""

    bootstrap_servers: str
    client_options: Mapping[str, str]

    @contextmanager
    def admin(self) -> Iterator[Client]:
        """A connected KafkaAdminClient.  Raises: CommandError."""
        with self._client("KafkaAdminClient", {}) as client:
            yield client

    @contextmanager
    def consumer(self, **settings: object) -> Iterator[Client]:
        """A connected KafkaConsumer without a group.  Raises: CommandError."""
        settings = {"enable_auto_commit": False, "metrics_enabled": False, **settings}
        with self._client("KafkaConsumer", settings) as client:
            yield client

    @contextmanager
    def producer(self, **settings: object) -> Iterator[Client]:
        """A connected KafkaProducer.  Raises: CommandError."""
        with self._client("KafkaProducer", {"metrics_enabled": False, **settings}) as client:
            yield client

    @contextmanager
    def _client(self, kind: str, settings: Mapping[str, object]) -> Iterator[Client]:
        kafka = _import_kafka()
        factory = getattr(kafka, kind)
        options = {
            "bootstrap_servers": self.bootstrap_servers.split(","),
            "client_id": CLIENT_ID,
            "bootstrap_timeout_ms": CONNECT_TIMEOUT_MS,
            **settings,
            **_typed(self.client_options, factory.DEFAULT_CONFIG),
        }
        try:
            client = factory(**options)
        except kafka.errors.KafkaTimeoutError as error:
            raise CommandError(
                f"no Kafka broker answered at {self.bootstrap_servers}"
                f" within {CONNECT_TIMEOUT_MS // 1000} s"
            ) from error
        except (kafka.errors.KafkaError, ValueError, RuntimeError, OSError) as error:
            raise CommandError(f"cannot use {self.bootstrap_servers}: {sentence(error)}") from error
        try:
            yield client
            client.close()
        except kafka.errors.KafkaError as error:
            raise CommandError(sentence(error)) from error
        finally:
            _abandon(client)


def cluster_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add -b, -X and -v to a command, which gets them as one argument `cluster`."""

    @click.option(
        "-b",
        "--bootstrap-server",
        "bootstrap_servers",
        metavar="HOST:PORT,…",
        envvar="ODRADEK_BOOTSTRAP_SERVERS",
        default="localhost:9092",
        show_default=True,
        show_envvar=True,
        help="A broker of the cluster, or several.",
    )
    @click.option(
        "-X",
        "client_options",
        metavar="NAME=VALUE",
        multiple=True,
        callback=parse_pairs,
        help="Any option of kafka-python, such as security_protocol=SSL; may be repeated.",
    )
    @click.option("-v", "--verbose", is_flag=True, help="Show kafka-python's log on stderr.")
    @functools.wraps(command)
    def with_cluster(
        bootstrap_servers: str, client_options: dict[str, str], verbose: bool, **rest: object
    ) -> None:
        _set_up_log(verbose)
        command(cluster=Cluster(bootstrap_servers, client_options), **rest)

    return with_cluster


def sentence(error: BaseException) -> str:
    """The message of an error, without the class and code that kafka-python puts before it."""
    text = str(error)
    for noise in (f"[Error {getattr(error, 'errno', None)}] ", f"{type(error).__name__}: "):
        text = text.removeprefix(noise)
    return text or type(error).__name__


def error_name(code: int) -> str:
    """Kafka's name of an error code."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"


def _abandon(client: Client) -> None:
    """Close the client of a failed command without waiting for undelivered records."""
    import kafka.errors

    if client._closed:
        return
    if not isinstance(client, kafka.KafkaProducer):
        client.close()
        return
    with suppress(kafka.errors.KafkaTimeoutError):
        client.close(timeout=0)
    client._closed = True  # otherwise its __del__ tries again, and prints a traceback


def _typed(options: Mapping[str, str], defaults: Mapping[str, object]) -> dict[str, object]:
    """The -X values, converted to the types of kafka-python's defaults."""
    return {name: _typed_value(name, value, defaults) for name, value in options.items()}


def _typed_value(name: str, value: str, defaults: Mapping[str, object]) -> object:
    if name not in defaults:
        raise CommandError(f"-X {name}: kafka-python has no such option here")
    default = defaults[name]
    try:
        if isinstance(default, bool):
            return {"true": True, "false": False}[value.lower()]
        if isinstance(default, int) or name.endswith(("_bytes", "_ms")):
            return int(value)
        if isinstance(default, float):
            return float(value)
    except (KeyError, ValueError):
        raise CommandError(f"-X {name}: {value!r} is not like {default!r}") from None
    return value


def _import_kafka() -> Any:
    try:
        import kafka.errors
    except ImportError:
        raise CommandError("this command needs kafka-python: pip install 'odradek[cli]'") from None
    return kafka


def _set_up_log(verbose: bool) -> None:
    """Show kafka-python's log if `verbose`, else silence it: it warns of every retry."""
    if verbose:
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    else:
        logging.getLogger("kafka").setLevel(logging.CRITICAL + 1)
