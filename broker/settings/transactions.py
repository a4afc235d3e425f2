"""Settings of transactions, and of the topic that holds their states."""

from .declaration import BOOLEAN, INT, SHORT, Setting


class TransactionSettings:
    """Kafka's settings of the transaction coordinator."""

    transaction_max_timeout_ms = Setting(
        "transaction.max.timeout.ms",
        INT,
        900_000,
        "The longest time that a producer may ask for its transactions.",
        at_least=1,
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms = Setting(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        INT,
        10_000,
        "How often to look for transactions that took too long, and abort them.",
        at_least=1,
    )
    transaction_partition_verification_enable = Setting(
        "transaction.partition.verification.enable",
        BOOLEAN,
        True,
        "Ask the coordinator whether a partition belongs to a transaction before a batch or a "
        "committed offset opens the transaction there.",
    )
    transactional_id_expiration_ms = Setting(
        "transactional.id.expiration.ms",
        INT,
        604_800_000,
        "Forget a transactional id that was not used for this long.",
        at_least=1,
    )
    transaction_remove_expired_transaction_cleanup_interval_ms = Setting(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        INT,
        3_600_000,
        "How often to look for transactional ids to forget.",
        at_least=1,
    )
    transaction_state_log_load_buffer_size = Setting(
        "transaction.state.log.load.buffer.size",
        INT,
        5_242_880,
        "What is read at a time when transactions are loaded.",
        at_least=1,
    )
    transaction_state_log_num_partitions = Setting(
        "transaction.state.log.num.partitions",
        INT,
        50,
        "Partitions of the topic of transactions, when it is created.",
        at_least=1,
    )
    transaction_state_log_replication_factor = Setting(
        "transaction.state.log.replication.factor",
        SHORT,
        1,
        "Replicas of the topic of transactions, when it is created.",
        at_least=1,
        kafka_default="3",
    )
    transaction_state_log_min_isr = Setting(
        "transaction.state.log.min.isr",
        INT,
        1,
        "Replicas that must be in sync for a write to the topic of transactions, when it is "
        "created.",
        at_least=1,
        kafka_default="2",
    )
    transaction_state_log_segment_bytes = Setting(
        "transaction.state.log.segment.bytes",
        INT,
        104_857_600,
        "Segment size of the topic of transactions, when it is created.",
        at_least=14,
    )
