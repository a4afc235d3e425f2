"""In what Odradek's answers to logins may differ from Apache Kafka 3.9.2's, and why."""

from typing import Final

from tests.wire.allowed import MORE_HELPFUL, Rule

NOT_READ: Final = (
    "Where a token is due, Kafka reads any other request, to refuse it by an answer of its kind. "
    "We read none of those, as anybody can send them."
)
UNKNOWN: Final = (
    "Who does not exist is refused after the proof, as one with a wrong password is; Kafka refuses "
    "at once, which tells who exists."
)
SIGNED: Final = "RFC 5802 has extensions signed, and so have we; Kafka has not. No client has any."
ACCIDENT: Final = "Kafka fails with an internal error; we have a code that says what is wrong."

ALLOWED: Final = (
    Rule(None, r"^(versions )?handshake: .*ours '\(closed\)', Kafka's 'serves'$", NOT_READ),
    Rule(None, r"^interrupted: .*ours '\(closed\)', Kafka's 'serves'$", NOT_READ),
    Rule("scram_first_tokens", r"^an escape: ", UNKNOWN),
    Rule("scram_users_refused", r" unknown user v", UNKNOWN),
    Rule("scram_credentials", r"^(no )?names of (nodes|directories): ", MORE_HELPFUL),
    Rule("scram_final_tokens", r"^\S+ extension: ", SIGNED),
    Rule("scram_final_tokens", r"^\S+ (no|short|long) proof: : only in ours: ", ACCIDENT),
)
