"""A rule as its author gives it: which requests it is about, when it fires, and what happens then.

A rule that can never match, or whose effect the API cannot have, is refused here in one sentence.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from typing import Any, Final

from odradek.protocol.errors import ErrorCode
from odradek.spelling import nearest

from ..handlers import APIS, Api, Need
from .answer_fields import check_fields
from .functions import AnswerFunction, registered
from .targets import Kind, kinds_of

NAMING: Final = {
    "topic": (Kind.TOPIC, "topics"),
    "partition": (Kind.PARTITION, "partitions"),
    "group": (Kind.GROUP, "groups"),
    "transactional_id": (Kind.TRANSACTIONAL_ID, "transactional ids"),
}
BEFORE_THE_LOGIN: Final = ("SaslHandshake", "SaslAuthenticate")
_ENDINGS: Final = ("close", "drop_response", "half_response")
_SELECTIONS: Final = ("nth", "every", "probability")


class BadRule(ValueError):
    """A rule that makes no sense; one sentence for its author."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Everything that is None or False does not restrict the rule, or does not happen.

    Texts may have wildcards: `client_id="app*"`.  Raises: BadRule.
    """

    api: str | None = None
    topic: str | None = None
    partition: int | None = None
    client_id: str | None = None
    group: str | None = None
    transactional_id: str | None = None
    principal: str | None = None
    """As Kafka writes it: `User:alice`."""
    broker: int | None = None
    inter_broker: bool = False
    """Whether requests of other brokers match, too."""

    nth: int | None = None
    every: int | None = None
    probability: float | None = None
    seed: int | None = None
    times: int | None = None
    optional: bool = False
    """Whether it is no mistake if the rule never fires."""

    error: ErrorCode | None = None
    applied: bool = False
    """Whether `error` and `close` act after the request has been handled, not instead of it."""
    delay_s: float = 0.0
    jitter_s: float = 0.0
    throttle_ms: int = 0
    close: bool = False
    drop_response: bool = False
    half_response: bool = False
    answer: Mapping[str, Any] | None = None
    function: AnswerFunction | None = None
    """Computes `answer`."""

    def __post_init__(self) -> None:
        self._check_effect()
        self._check_selection()
        for name in ("topic", "principal"):
            if getattr(self, name) == "":
                raise BadRule(f"{name} is empty: no request would match")
        api = self.named_api
        if api is not None:
            self._check_api(api)
        if self.answer is not None:
            self._check_answer(api)

    @property
    def named_api(self) -> Api | None:
        """The API that the rule is about; None: any."""
        return next((api for api in APIS.values() if api.name == self.api), None)

    @property
    def ends(self) -> bool:
        """Whether the connection ends."""
        return self.close or self.drop_response or self.half_response

    @property
    def has_outcome(self) -> bool:
        """Whether it decides what becomes of a request, and does not only delay or throttle it."""
        return self.ends or self.error is not None or self.has_answer

    @property
    def has_answer(self) -> bool:
        """Whether it sets fields of responses."""
        return self.answer is not None or self.function is not None

    def given(self) -> dict[str, Any]:
        """What its author gave, by the names of the admin API."""
        shown: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if value != field.default:
                shown[field.name.removesuffix("_s")] = value
        if self.error is not None:
            shown["error"] = self.error.name
        if self.function is not None:
            shown["function"] = repr(self.function)
        return shown

    def _check_effect(self) -> None:
        if self.error == ErrorCode.NONE:
            raise BadRule("error: NONE is not an error")
        if not (self.has_outcome or self.delay_s or self.jitter_s or self.throttle_ms):
            raise BadRule(
                "the rule has no effect: give error, delay, jitter, throttle_ms, close, "
                "drop_response, half_response or answer"
            )
        endings = [name for name in _ENDINGS if getattr(self, name)]
        if len(endings) > 1:
            raise BadRule(f"{' and '.join(endings)} exclude each other")
        unsent = "error" if self.error is not None else "answer" if self.has_answer else ""
        if unsent and (self.close or self.drop_response):
            raise BadRule(f"{endings[0]} and {unsent} exclude each other: no answer is sent")
        if self.applied and self.error is None and not self.close:
            raise BadRule("applied: only error and close can act after the request is handled")

    def _check_selection(self) -> None:
        for name in ("nth", "every", "times"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise BadRule(f"{name} must be at least 1")
        if self.probability is not None and not 0 < self.probability <= 1:
            raise BadRule("probability must be above 0 and at most 1")
        given = [name for name in _SELECTIONS if getattr(self, name) is not None]
        if len(given) > 1:
            raise BadRule(f"{' and '.join(given)} exclude each other")
        if self.nth is not None and self.times not in (None, 1):
            raise BadRule("nth and times exclude each other: a rule with nth acts once")
        if self.seed is not None and self.probability is None and not self.jitter_s:
            raise BadRule("seed: only probability and jitter are random")

    def _check_api(self, api: Api) -> None:
        if api.name in BEFORE_THE_LOGIN:
            raise BadRule(f"{api.name} is part of a login, which rules do not reach")
        if not self.inter_broker and (api.need is Need.BROKER or not api.is_advertised):
            raise BadRule(f"only brokers send {api.name}: give inter_broker=true")
        named = _named_by(api)
        for name, (kind, plural) in NAMING.items():
            if getattr(self, name) is not None and kind not in named:
                raise BadRule(f"{name}: {api.name} has no {plural}")

    def _check_answer(self, api: Api | None) -> None:
        assert self.answer is not None
        if api is None:
            raise BadRule("answer: give the api whose response has these fields")
        problem = check_fields(api, self.answer)
        if problem is not None:
            raise BadRule(f"answer: {problem}")


def make_rule(
    *,
    api: str | int | None,
    error: str | int | None,
    answer: Mapping[str, Any] | None = None,
    **more: Any,
) -> Rule:
    """A rule whose API and error are given by name or number.  Raises: BadRule."""
    function = None if answer is None else registered(answer)
    return Rule(
        answer=answer if function is None else None,
        function=function,
        api=None if api is None else api_named(api).name,
        error=None if error is None else error_named(error),
        **more,
    )


def api_named(name: str | int) -> Api:
    """The API with this name or key.  Raises: BadRule."""
    for api in APIS.values():
        if name in (api.name, api.key, str(api.key)):
            return api
    raise BadRule(f"api: {_unknown(name, (api.name for api in APIS.values()))}")


def api_pattern(text: str) -> str:
    """A name with wildcards that some API has; the name of an API given by its key.

    Raises: BadRule.
    """
    return text if any(fits(text, api.name) for api in APIS.values()) else api_named(text).name


def error_named(name: str | int) -> ErrorCode:
    """The error with this name or number.  Raises: BadRule."""
    for code in ErrorCode:
        if name in (code.name, code.value, str(code.value)):
            return code
    raise BadRule(f"error: {_unknown(name, (code.name for code in ErrorCode))}")


def _unknown(name: str | int, known: Iterable[str]) -> str:
    shown = ascii(name)[:60]
    by_capitals = {each.upper(): each for each in known}
    close = nearest(str(name)[:60].upper(), by_capitals)
    return f"there is no {shown}" + (f": did you mean {by_capitals[close]}?" if close else "")


def _named_by(api: Api) -> set[Kind]:
    """What requests or responses of an API name, in any version."""
    kinds: set[Kind] = set()
    for version in range(api.first, api.last_of_v2 + 1):
        kinds |= kinds_of(api.request, version) | kinds_of(api.response, version)  # type: ignore[arg-type]
    if Kind.KEY in kinds:
        kinds |= {Kind.GROUP, Kind.TRANSACTIONAL_ID}
    return kinds


def fits(wanted: str | None, value: str | None) -> bool:
    """Whether a text is the wanted one, which may have wildcards; None wants nothing."""
    if wanted is None:
        return True
    if value is None:
        return False
    return wanted == value or fnmatchcase(value, wanted)
