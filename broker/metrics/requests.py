"""What the requests of clients and brokers cost, by API."""

from collections.abc import Iterator


class RequestCounts:
    """Of one API, since the broker began. Each only rises; the dispatcher counts."""

    __slots__ = ("count", "received_bytes", "sent_bytes", "throttled_ms", "total_ms")

    def __init__(self) -> None:
        self.count = 0
        """Requests that came, whatever they were answered."""
        self.received_bytes = 0
        """Of their frames, without the size in front."""
        self.sent_bytes = 0
        """Of the answers, likewise. A Produce with acks=0 has none."""
        self.throttled_ms = 0
        """For how long clients had to wait because of quotas, as Kafka's ThrottleTimeMs."""
        self.total_ms = 0
        """From a request's last bytes to its answer, waits included, as Kafka's TotalTimeMs."""


class RequestMetrics(dict[str, RequestCounts]):
    """By the name of the API; of what nobody has asked there is nothing."""

    def __missing__(self, api: str) -> RequestCounts:
        counts = self[api] = RequestCounts()
        return counts

    def read(self) -> Iterator[tuple[str, str, int]]:
        """Name, API and value of each count."""
        for api, counts in self.items():
            yield "requests", api, counts.count
            yield "request_bytes", api, counts.received_bytes
            yield "response_bytes", api, counts.sent_bytes
            yield "request_throttle_time_ms", api, counts.throttled_ms
            yield "request_total_time_ms", api, counts.total_ms
