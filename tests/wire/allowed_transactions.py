"""In what Odradek's answers about transactions may differ from Apache Kafka's, and why."""

from typing import Final

from .allowed import ACCIDENT, MORE_HELPFUL, ONCE, STRICTER, Rule

LATER_EPOCH: Final = (
    "While a transaction is open, Kafka appends a batch of a later epoch unasked, and the "
    "transaction never ends; we ask the coordinator about each epoch."
)
NO_SEQUENCE: Final = "Kafka numbers offsets that belong to no producer, too; nobody reads that."
WORN: Final = (
    "Who claims another epoch than the last possible one: Kafka fails with an internal error; a "
    "retry gets its answer, and an older producer is fenced."
)
UNREAD: Final = "Kafka also names aborted transactions that begin after the last stable offset."
NO_PARTITIONS: Final = "A marker for no partition is not answered by Kafka."
EMPTY_GROUP: Final = (
    "A group goes with its last offset; Kafka keeps it until the end of a transaction in which "
    "offsets of it were deleted."
)

ALLOWED: Final[tuple[Rule, ...]] = (
    Rule(None, r"error_message: ours '\(text\)', Kafka's (None|'')$", MORE_HELPFUL),
    Rule("produce_as_others", r"^.*: produce v\d+ nobody: ", STRICTER),
    Rule("describe_transactions", r"^twice: .transaction_states: only in theirs: ", ONCE),
    Rule("an_epoch_to_come", r"^(batch|producers): ", LATER_EPOCH),
    Rule("fenced_by_another", r"^writing: produce: .*log_start_offset: ours -1", LATER_EPOCH),
    Rule("markers_by_hand", r"^v\d (epoch -1|nobody): .*ours 42, Kafka's -1$", ACCIDENT),
    Rule("markers_by_hand", r"^v\d no partitions: ", NO_PARTITIONS),
    Rule("files_of_transactions", r"^offsets: .*base_sequence: ours -1, Kafka's 0$", NO_SEQUENCE),
    Rule(
        "states_after_a_kill",
        r"^(the last epoch, again|the (old epoch|fenced one)): .*Kafka's -1$",
        WORN,
    ),
    Rule("states_after_a_kill", r"^log, isolation 1: .*aborted_transactions: only in th", UNREAD),
    Rule("offsets_deleted", r"delete the group: .*ours 69, Kafka's 0$", EMPTY_GROUP),
)

TWO_WITH_ONE_EPOCH: Final = (
    "If a client of version 1 has ended the last transaction, Kafka takes a late EndTxn of an older"
    " producer for its repetition, and gives both producers one epoch; we fence the older one."
)
EPOCH_OF_START: Final = "In KRaft mode each start of a broker raises the leader epochs."

ALLOWED_OF_VERSION_2: Final[tuple[Rule, ...]] = (
    Rule(None, r"error_message: ours '\(text\)', Kafka's (None|'')$", MORE_HELPFUL),
    Rule("end_in_every_state", r"^committed_by_1: .* as an epoch before: ", TWO_WITH_ONE_EPOCH),
    Rule("epochs_exhausted", r"^committed_by_1, \w+: again: ", TWO_WITH_ONE_EPOCH),
    Rule("epochs_exhausted", r"coordinator_epoch: ours 0, Kafka's [12]$", EPOCH_OF_START),
)
