"""The cluster that a command talks to: options, properties, and kafka-python's admin client."""

import functools
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import click

from odradek.protocol.errors import ErrorCode
from odradek.spelling import did_you_mean

from .client_sasl import OAUTHBEARER, TOKEN_PROPERTIES, check_login, has_own_tokens
from .client_tls import reads_pkcs12, tls_context
from .contexts import read_contexts
from .errors import CommandError
from .layers import OPTION, Layer, layer_of, merged, place, read_layer
from .login import can_try
from .options import parse_pairs
from .properties import kafka_python_name
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

    `properties` are those of Kafka's clients (properties.py), and `sources` says where each comes
    from.  A command refuses those of -X that it can't use, and says of others at INFO that they
    have no effect.
    """

    properties: Mapping[str, str]
    sources: Mapping[str, str] = field(default_factory=dict)

    def insists_on(self, name: str) -> bool:
        """Was this property given by -X?"""
        return self.sources.get(name) == OPTION

    def told(self, name: str, what: str) -> CommandError:
        """An error about a property, which names its file."""
        return CommandError(place(self.sources.get(name, ""), f"{name}: {what}"))

    @property
    def bootstrap_servers(self) -> str:
        """HOST:PORT,…"""
        return self.properties["bootstrap.servers"]

    @property
    def connect_timeout_s(self) -> float:
        """How long a broker may take for its first answer.  Raises: CommandError."""
        text = self.properties.get(CONNECT_TIMEOUT, CONNECT_TIMEOUT_MS)
        if not text.isascii() or not text.isdigit():
            raise self.told(CONNECT_TIMEOUT, f"{text!r} is not like {CONNECT_TIMEOUT_MS}")
        return int(text) / 1000

    def check_reachable(self) -> None:
        """Return once a broker has answered, and accepted the login.  Raises: CommandError."""
        servers = parse_bootstrap_servers(self.bootstrap_servers)
        if "ssl.keystore.location" in self.properties and not reads_pkcs12():
            return  # only librdkafka can
        tls = tls_context(self.properties)
        if can_try(self.properties) and has_own_tokens(self.properties):
            from .client_tokens import get_ready

            get_ready(self.properties)
        check_reachable(servers, tls=tls, timeout_s=self.connect_timeout_s, login=self.properties)

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
        tokens = self._token_options()
        defaults = _import_kafka().KafkaAdminClient.DEFAULT_CONFIG
        return {
            **self._typed(defaults),
            **tokens,
            "bootstrap_servers": self.bootstrap_servers.split(","),
            "ssl_context": tls_context(self.properties),
        }

    def _token_options(self) -> dict[str, object]:
        """Where kafka-python gets tokens from.  Raises: CommandError."""
        if self.properties.get("sasl.mechanism") != OAUTHBEARER:
            return {}
        if not has_own_tokens(self.properties):
            raise CommandError(
                "this command can't log in by OAUTHBEARER with tokens that librdkafka gets; produce"
                " and consume can"
            )
        from .client_tokens import for_kafka_python

        _import_kafka()
        return {"sasl_oauth_token_provider": for_kafka_python(self.properties)}

    def _typed(self, defaults: Mapping[str, object]) -> dict[str, object]:
        """The properties in the types of kafka-python's defaults.  Raises: CommandError."""
        typed = {}
        is_with_tokens = has_own_tokens(self.properties)
        given = {CONNECT_TIMEOUT: CONNECT_TIMEOUT_MS, "client.id": CLIENT_ID, **self.properties}
        if "request.timeout.ms" in given:  # the same for kafka-python, and the name that it knows
            given.pop("socket.timeout.ms", None)
        for name, value in given.items():
            option = kafka_python_name(name)
            if option is None or (is_with_tokens and name in TOKEN_PROPERTIES):
                continue
            if option in defaults:
                typed[option] = self._typed_value(name, value, defaults[option])
            elif self.insists_on(name):
                known = [known.replace("_", ".") for known in defaults]
                raise self.told(
                    name, f"no such property for this command{did_you_mean(name, known)}"
                )
            else:
                _log.info("%s has no effect on this command", name)
        return typed

    def _typed_value(self, name: str, value: str, default: object) -> object:
        try:
            if isinstance(default, bool):
                return {"true": True, "false": False}[value.lower()]
            if isinstance(default, int) or name.endswith((".bytes", ".ms")):
                return int(value)
            if isinstance(default, float):
                return float(value)
        except (KeyError, ValueError):
            raise self.told(name, f"{value!r} is not like {default!r}") from None
        return value


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
    layers = [Layer("", {"bootstrap.servers": DEFAULT_SERVERS})]
    if context is not None or current:
        layers += read_contexts().chosen(context)
    if in_environment and context is None:
        layers.append(Layer(SERVERS_VARIABLE, {"bootstrap.servers": in_environment}))
    if command_config is not None:
        layers.append(read_layer(command_config))
    layers.append(layer_of(OPTION, properties))
    if bootstrap_servers is not None:
        layers.append(Layer("-b", {"bootstrap.servers": bootstrap_servers}))
    return cluster_of(layers)


def cluster_of(layers: Iterable[Layer]) -> Cluster:
    """The cluster of these properties, the nearest to the user last.  Raises: CommandError."""
    cluster = Cluster(*merged(layers))
    try:
        check_login(cluster.properties)
    except ValueError as error:
        raise CommandError(str(error)) from None
    return cluster


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
