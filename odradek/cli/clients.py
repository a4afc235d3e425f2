"""The cluster that a command talks to: options, properties, and kafka-python's admin client."""

import functools
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import click

from odradek.protocol.errors import ErrorCode

from .contexts import read_contexts
from .errors import CommandError
from .options import near, parse_pairs
from .properties import canonical, kafka_python_options, read_properties, tls_context
from .reach import check_reachable, parse_bootstrap_servers

CLIENT_ID: Final = "odradek-cli"
DEFAULT_SERVERS: Final = "localhost:9092"
SERVERS_VARIABLE: Final = "ODRADEK_BOOTSTRAP_SERVERS"
# How long a broker may take for its first answer, under the name that Kafka gives to the time for
# a connection.
CONNECT_TIMEOUT: Final = "socket.connection.setup.timeout.ms"
CONNECT_TIMEOUT_MS: Final = "5000"

# kafka-python has no types of its own: its clients are `Any` here and in the commands.
Client = Any

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where a command connects to, and how.

    `properties` are those of Kafka's clients (properties.py); a command refuses those that are
    `insisted` on and that it can't use, and says of others at INFO that they have no effect.
    """

    properties: Mapping[str, str]
    insisted: frozenset[str] = frozenset()

    @property
    def bootstrap_servers(self) -> str:
        """HOST:PORT,…"""
        return self.properties["bootstrap.servers"]

    @property
    def connect_timeout_s(self) -> float:
        """How long a broker may take for its first answer.  Raises: CommandError."""
        text = self.properties.get(CONNECT_TIMEOUT, CONNECT_TIMEOUT_MS)
        if not text.isascii() or not text.isdigit():
            raise CommandError(f"-X {CONNECT_TIMEOUT}: {text!r} is not like {CONNECT_TIMEOUT_MS}")
        return int(text) / 1000

    def check_reachable(self) -> None:
        """Return once a broker has answered.  Raises: CommandError."""
        servers = parse_bootstrap_servers(self.bootstrap_servers)
        if "ssl.keystore.location" in self.properties:  # only librdkafka reads PKCS12
            return
        tls = tls_context(self.properties)
        check_reachable(servers, tls=tls, timeout_s=self.connect_timeout_s)

    @contextmanager
    def admin(self) -> Iterator[Client]:
        """A connected KafkaAdminClient.  Raises: CommandError."""
        kafka = _import_kafka()
        options = self.admin_options()
        self.check_reachable()
        try:
            client = kafka.KafkaAdminClient(**options)
        except kafka.errors.KafkaTimeoutError as error:
            raise CommandError(
                f"no Kafka broker answered at {self.bootstrap_servers}"
                f" within {self.connect_timeout_s:g} s"
            ) from error
        except (kafka.errors.KafkaError, ValueError, RuntimeError, OSError) as error:
            raise CommandError(f"cannot use {self.bootstrap_servers}: {sentence(error)}") from error
        try:
            yield client
        except kafka.errors.KafkaError as error:
            raise CommandError(sentence(error)) from error
        finally:
            client.close()

    def admin_options(self) -> dict[str, object]:
        """What KafkaAdminClient gets.  Raises: CommandError."""
        options = {
            CONNECT_TIMEOUT: CONNECT_TIMEOUT_MS,
            "client.id": CLIENT_ID,
            **self.properties,
        }
        servers = options.pop("bootstrap.servers").split(",")
        defaults = _import_kafka().KafkaAdminClient.DEFAULT_CONFIG
        return {
            **self._typed(kafka_python_options(options), defaults),
            "bootstrap_servers": servers,
            "ssl_context": tls_context(self.properties),
        }

    def _typed(
        self, options: Mapping[str, str], defaults: Mapping[str, object]
    ) -> dict[str, object]:
        """Options in the types of kafka-python's defaults.  Raises: CommandError."""
        insisted = kafka_python_options(dict.fromkeys(self.insisted, ""))
        typed = {}
        for name, value in options.items():
            if name in defaults:
                typed[name] = _typed_value(name, value, defaults[name])
            elif name in insisted:
                dotted = name.replace("_", ".")
                known = [known.replace("_", ".") for known in defaults]
                raise CommandError(
                    f"-X {dotted}: no such property for this command{near(dotted, known)}"
                )
            else:
                _log.info("%s has no effect on this command", name.replace("_", "."))
        return typed


def cluster_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that name a cluster to a command, which gets one argument `cluster`."""

    @click.option(
        "-b",
        "--bootstrap-server",
        "--bootstrap-servers",
        "bootstrap_servers",
        metavar="HOST:PORT,…",
        help=f"A broker of the cluster, or several.  [env: {SERVERS_VARIABLE}; default:"
        f" the context's, else {DEFAULT_SERVERS}]",
    )
    @click.option("--context", metavar="NAME", help="A cluster named in a configuration file.")
    @click.option(
        "-F",
        "--command-config",
        metavar="FILE",
        type=click.Path(exists=True, dir_okay=False),
        help="Properties of a Java client or of librdkafka.",
    )
    @click.option(
        "-X",
        "properties",
        metavar="NAME=VALUE",
        multiple=True,
        callback=parse_pairs,
        help="A single property, such as security.protocol=SSL; may be repeated.",
    )
    @click.option("-v", "--verbose", is_flag=True, help="Show the client library's log on stderr.")
    @functools.wraps(command)
    def with_cluster(
        bootstrap_servers: str | None,
        context: str | None,
        command_config: str | None,
        properties: dict[str, str],
        verbose: bool,
        **rest: object,
    ) -> None:
        _set_up_log(verbose)
        cluster = chosen_cluster(bootstrap_servers, context, command_config, properties)
        command(cluster=cluster, **rest)

    return with_cluster


def chosen_cluster(
    bootstrap_servers: str | None,
    context: str | None,
    command_config: str | None,
    properties: Mapping[str, str],
) -> Cluster:
    """The cluster that options, environment and files name; the nearest to the user counts.

    Raises: CommandError.
    """
    in_environment = os.environ.get(SERVERS_VARIABLE)
    if context is None:
        context = os.environ.get("ODRADEK_CONTEXT") or None
    # The current context's passwords are not for servers that are named without it.
    current = bootstrap_servers is None and not in_environment
    in_context = read_contexts().chosen(context) if context is not None or current else {}
    in_file = {} if command_config is None else read_properties(command_config)
    try:
        given = canonical(properties)
    except ValueError as error:
        raise CommandError(f"-X {error}") from None
    layers = {"bootstrap.servers": DEFAULT_SERVERS, **in_context}
    if in_environment and context is None:
        layers["bootstrap.servers"] = in_environment
    layers |= {**in_file, **given}
    if bootstrap_servers is not None:
        layers["bootstrap.servers"] = bootstrap_servers
    return Cluster(layers, frozenset(given))


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


def _typed_value(name: str, value: str, default: object) -> object:
    try:
        if isinstance(default, bool):
            return {"true": True, "false": False}[value.lower()]
        if isinstance(default, int) or name.endswith(("_bytes", "_ms")):
            return int(value)
        if isinstance(default, float):
            return float(value)
    except (KeyError, ValueError):
        dotted = name.replace("_", ".")
        raise CommandError(f"-X {dotted}: {value!r} is not like {default!r}") from None
    return value


def _import_kafka() -> Any:
    try:
        import kafka.errors
    except ImportError:
        raise CommandError("this command needs kafka-python: pip install 'odradek[cli]'") from None
    return kafka


def _set_up_log(verbose: bool) -> None:
    """Show the client libraries' logs if `verbose`, else silence them: they warn of every retry."""
    if verbose:
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    else:
        for library in ("kafka", "librdkafka"):
            logging.getLogger(library).setLevel(logging.CRITICAL + 1)
