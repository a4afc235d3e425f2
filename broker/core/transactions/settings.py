"""The settings of the transaction coordinator, as one value."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSettings:
    """Kafka's transaction.* and transactional.id.* settings; times in ms."""

    version: int = 0
    """Of transactions: 0 or 2 (KIP-890); clients may speak an older one."""
    abort_check_interval_ms: int = 10_000
    """Transactions that took too long are aborted at most so much later."""
    id_expiration_ms: int = 7 * 24 * 3_600_000
    expiration_check_interval_ms: int = 3_600_000
