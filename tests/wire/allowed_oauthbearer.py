"""In what Odradek's answers to tokens may differ from Apache Kafka 3.9.2's, and why."""

from typing import Final

from tests.wire.allowed import Rule
from tests.wire.allowed_sasl import NOT_READ

ACCIDENT: Final = "Kafka fails with an internal error, and hangs up; we refuse it as the others."
BASE64: Final = (
    "Tokens are in the base64 of URLs. Kafka 3.9 reads unsecured ones as ordinary base64, and "
    "refuses what its own clients may send."
)
BOUND: Final = "A key says with which algorithm it is used (RFC 7517); Kafka does not look at that."

ALLOWED: Final = (
    Rule("unsecured_tokens", r"^no (alg|header|object): ", ACCIDENT),
    Rule("unsecured_tokens", r"^url-safe letters: ", BASE64),
    Rule("signed_tokens", r"^RS256 of a bound key: ", BOUND),
    Rule("messages", r"^another scheme v\d: ", ACCIDENT),
    Rule("messages", r"^padding v\d: \[2\]: ours '\(closed\)', Kafka's 'serves'$", NOT_READ),
    Rule("after_an_error", r"^goes on: : only in theirs: 'serves'$", NOT_READ),
)
