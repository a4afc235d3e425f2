"""Settings of listeners, connections and responses."""

from typing import Final

from .declaration import INT, INT32_MAX, LONG, STRING, Setting, Value

_MIB = 1 << 20
_PREFIX: Final = "listener.name."
MAX_CONNECTIONS: Final = "max.connections"
CREATION_RATE: Final = "max.connection.creation.rate"


def _buffer_size(text: str) -> str | None:
    return None if int(text) == -1 or int(text) > 0 else "-1 or a positive whole number"


class ListenerSettings:
    """The broker's id, its listeners, and the limits of connections."""

    broker_id = Setting(
        "broker.id",
        INT,
        0,
        "The id of this broker, unique in its cluster. It is stored in the data directory and "
        "must not change afterwards. -1 is the default with zookeeper.connect: the id in the "
        "data directory, or a generated one.",
        at_least=-1,
        kafka_default="-1: generated",
    )
    listeners = Setting(
        "listeners",
        STRING,
        "PLAINTEXT://127.0.0.1:9092",
        "Where to listen, as NAME://HOST:PORT, several with commas. An empty host or 0.0.0.0 means "
        "all interfaces, port 0 any free port.",
        kafka_default="PLAINTEXT://:9092",
    )
    advertised_listeners = Setting(
        "advertised.listeners",
        STRING.or_none,
        None,
        "The address that clients connect to, if it differs from `listeners`. Needed when "
        "listening on 0.0.0.0.",
    )
    listener_security_protocol_map = Setting(
        "listener.security.protocol.map",
        STRING,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "The security protocol of each listener name, as NAME:PROTOCOL with commas.",
    )
    connections_max_idle_ms = Setting(
        "connections.max.idle.ms",
        LONG,
        600_000,
        "Close a connection that was idle for this long; a negative number: never. A client that "
        "sends less than 64 KiB of an unfinished request in this time is idle, too.",
    )
    max_connections = Setting(
        MAX_CONNECTIONS,
        INT,
        INT32_MAX,
        "The most connections that may be open at a time; further clients wait until one is "
        "closed. With the prefix listener.name.<listener>. (in small letters): those of this "
        "listener, in addition.",
        at_least=0,
    )
    max_connections_per_ip = Setting(
        "max.connections.per.ip",
        INT,
        INT32_MAX,
        "The most connections from one client address; further ones are closed at once. 0 is "
        "allowed only if max.connections.per.ip.overrides names addresses.",
        at_least=0,
    )
    max_connections_per_ip_overrides = Setting(
        "max.connections.per.ip.overrides",
        STRING,
        "",
        "Other limits for single addresses, as ADDRESS:COUNT with commas.",
    )
    max_connection_creation_rate = Setting(
        CREATION_RATE,
        INT,
        INT32_MAX,
        "The most new connections in a second; further clients wait. Connections between brokers "
        "do not count if they have a listener of their own. With the prefix "
        "listener.name.<listener>. (in small letters): those of this listener, in addition. Quotas "
        "can limit single addresses.",
        at_least=0,
    )
    socket_listen_backlog_size = Setting(
        "socket.listen.backlog.size",
        INT,
        50,
        "The most connections that wait in the system until the broker accepts them.",
        at_least=1,
    )
    socket_receive_buffer_bytes = Setting(
        "socket.receive.buffer.bytes",
        INT,
        -1,
        "SO_RCVBUF of client connections; -1 leaves it to the system, which tunes it itself.",
        check=_buffer_size,
        kafka_default="102400",
    )
    socket_send_buffer_bytes = Setting(
        "socket.send.buffer.bytes",
        INT,
        384 << 10,
        "SO_SNDBUF of client connections. A larger buffer sends more at once to a distant "
        "client; with a smaller one, a near client reads while the rest is still being sent. -1 "
        "leaves it to the system.",
        check=_buffer_size,
        kafka_default="102400",
    )
    socket_request_max_bytes = Setting(
        "socket.request.max.bytes",
        INT,
        100 * _MIB,
        "The largest request. A connection that announces a larger one is closed at once.",
        at_least=1,
    )
    odradek_non_produce_request_bytes_max = Setting(
        "odradek.non.produce.request.bytes.max",
        INT,
        8 * _MIB,
        "The largest request other than Produce: only Produce carries data, and once they are "
        "parsed, requests take many times their bytes. A larger one closes the connection.",
        at_least=1 * _MIB,
    )
    queued_max_request_bytes = Setting(
        "queued.max.request.bytes",
        LONG,
        256 * _MIB,
        "Memory for all requests that are being received or that wait. If it is used up, large "
        "requests wait, and one after the other may exceed it. A client that holds memory for "
        "which others wait, and sends less than 64 KiB in 5 seconds, is closed. -1 sets no limit.",
        kafka_default="-1",
    )


class AnswerSettings:
    """The limits of responses."""

    odradek_loop_stall_check_ms = Setting(
        "odradek.loop.stall.check.ms",
        INT,
        100,
        "How often to check whether the event loop is blocked; a stall of more than 50 ms is "
        "logged. 0: never. A shorter interval finds shorter stalls.",
        at_least=0,
    )
    fetch_max_bytes = Setting(
        "fetch.max.bytes",
        INT,
        55 * _MIB,
        "The most bytes in one fetch response, whatever the client requests; a first batch that "
        "is larger is returned nevertheless.",
        at_least=1024,
    )
    max_incremental_fetch_session_cache_slots = Setting(
        "max.incremental.fetch.session.cache.slots",
        INT,
        1000,
        "The most fetch sessions; further fetchers send full requests.",
        at_least=0,
    )
    max_request_partition_size_limit = Setting(
        "max.request.partition.size.limit",
        INT,
        2000,
        "The most partitions in one answer to DescribeTopicPartitions.",
        at_least=1,
    )


def limit_setting(name: str) -> tuple[str, Setting[Value]] | None:
    """The listener's name in capitals and the setting, if `name` is a limit of one listener."""
    for own in (ListenerSettings.max_connections, ListenerSettings.max_connection_creation_rate):
        listener_name = name.removeprefix(_PREFIX).removesuffix(f".{own.name}")
        is_whole = name == limit_name(listener_name, own.name)
        # Kafka's prefix has small letters, and does not work with capitals.
        if is_whole and listener_name and listener_name == listener_name.lower():
            return listener_name.upper(), own
    return None


def limit_name(listener_name: str, own: str) -> str:
    """The name of a limit of one listener."""
    return f"{_PREFIX}{listener_name.lower()}.{own}"
