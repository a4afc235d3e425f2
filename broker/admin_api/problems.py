"""What the admin API answers instead of a result."""


class Problem(Exception):
    """A request is refused: the HTTP status, and one sentence for `{"error": ...}`."""

    def __init__(
        self, status: int, sentence: str, *, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence
        self.headers = headers or {}


def not_found(what: str) -> Problem:
    """The answer about something that does not exist."""
    return Problem(404, f"there is no {what}")
