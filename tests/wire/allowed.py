"""In what Odradek's answers may differ from Apache Kafka 3.9.2's, and why."""

from typing import Final, NamedTuple


class Rule(NamedTuple):
    """Differences in one conversation (None: in any) that match `pattern` are meant."""

    conversation: str | None
    pattern: str
    reason: str


MORE_HELPFUL: Final = "We say why; Kafka leaves it out. Clients show it to the user."
STRICTER: Final = "We refuse what no client writes; Kafka lets it into the log, or trims it."
LENIENT: Final = (
    "Kafka fails with an internal error; to us it is the nearest value that has a meaning."
)
ACCIDENT: Final = "Kafka fails with an internal error; we have a code that says what is wrong."
OLD_FORMAT: Final = (
    "Formats before batches are not kept: Produce 0-2 and ListOffsets 0 are not theirs."
)
TWICE: Final = "The same thing named twice in one request, which no client does."
ONCE: Final = "What is named twice is described once: else small requests get very large answers."
IDS: Final = "Topic ids in answers: we know one where Kafka does not look, or the other way round."
AS_SENT: Final = "Recompressed records keep their bytes; Kafka writes each of them anew."
SETTINGS: Final = (
    "What DescribeConfigs shows of settings that Kafka has and we have not, or the reverse."
)
RECOVERY: Final = "After a crash we keep the newest snapshot of producers; older ones serve nobody."
UNKNOWN_KEYS: Final = "Kafka keeps any unknown key of a broker for its plug-ins; we have none."
GROUPS: Final = "Groups have settings, as in Kafka 4; Kafka 3.9 in ZooKeeper mode knows none."
NOTHING: Final = "To append nothing changes nothing; Kafka makes it a list that ends in a comma."
TEN_BATCHES: Final = (
    "Kafka remembers five batches of a producer, we ten: a Java producer whose leaders move may "
    "have more than five on their way, and would never get them in."
)

ALLOWED: Final = (
    Rule(None, r"error_message: ours '\(text\)', Kafka's (None|'')$", MORE_HELPFUL),
    Rule("produce_versions", r"^v[012] ", OLD_FORMAT),
    Rule("produce_batch_faults", r"record_errors: only in ours: ", MORE_HELPFUL),
    Rule("produce_batch_faults", r"^(one byte more|20 zeros more|a good one and a)", STRICTER),
    Rule("produce_batch_faults", r"^(length less|key size -2|header key not utf-8)", STRICTER),
    Rule("produce_batch_faults", r"^(first delta 1|deltas \d \d)", STRICTER),
    Rule("produce_batch_faults", r"^(codec \d.*|record length overflows): \.", ACCIDENT),
    Rule(
        "produce_timestamps",
        r"append flag, gzip v\d+ log: .*(crc|max_timestamp)",
        "A batch that claims append time: Kafka believes its time for the records, we theirs.",
    ),
    Rule("compressed_oddities", r"^gzip: a first record later .*(base_timestamp|body): ", AS_SENT),
    Rule("compressed_oddities", r"^gzip: a record with attributes: .*body: ", AS_SENT),
    Rule("produce_twice", r"^topic twice: .responses: only in ours: ", TWICE),
    Rule("produce_twice", r"^partition twice: .*partition_responses: only in ", TWICE),
    Rule("producers_of_several", r"^v0 (partition|topic) twice: .* only in theirs: ", ONCE),
    Rule("produce_without_acks", r"^v2: ", OLD_FORMAT),
    Rule("idempotent_sequences", r"^no epoch: ", STRICTER),
    Rule("idempotent_sequences", r"^\d+ (duplicate, no longer kept|much older): ", TEN_BATCHES),
    Rule("fetch_limits", r"(max bytes|partition max) -1: |^isolation level", LENIENT),
    Rule("list_offsets", r"^v0 .*(old_style_offsets|error_code: ours 42)", OLD_FORMAT),
    Rule("broken_frames", r"^array -2: ", STRICTER),
    Rule("describe_configs", r"^v0 .*is_default: ours True, Kafka's False", SETTINGS),
    Rule("describe_configs", r"\.synonyms", SETTINGS),
    Rule("describe_configs", r" logger ", SETTINGS),
    Rule("describe_configs", r"^twice: ", TWICE),
    Rule("metadata", r"^v12 neither: ", ACCIDENT),
    Rule("metadata", r"^v12 an id, and a name: ", IDS),
    Rule("create_topics", r"(config|partition) twice: ", TWICE),
    Rule("create_topics", r"^v7 timeout .*topic_id: ours 'no id'", IDS),
    Rule("create_topics", r"^v\d twice: ", TWICE),
    Rule("delete_topics", r"^(v\d|by id:) .*twice: ", TWICE),
    Rule("delete_topics", r"topic_id: ours 'id of .*', Kafka's 'no id'$", IDS),
    Rule("delete_topics", r"^by id: neither: .*error_code", ACCIDENT),
    Rule("files_after_kill", r"\.snapshot: only in theirs$", RECOVERY),
    Rule("torn_tail", r"\.snapshot: only in theirs$", RECOVERY),
    Rule("elect_of_unknown_type", r"error_code: ours 42, Kafka's -1$", ACCIDENT),
    Rule("describe_a_whole_topic_after_changes", r"\.synonyms", SETTINGS),
    Rule("values_of_segment_ms", r"\.synonyms", SETTINGS),
    Rule("values_of_segment_jitter_ms", r"\.synonyms", SETTINGS),
    Rule("values_of_flush_ms", r"\.synonyms", SETTINGS),
    Rule("incremental_append_nothing", r"^v[01] (validated|done)", NOTHING),
    Rule("incremental_operation_4", r"error_code: ours 42, Kafka's -1$", ACCIDENT),
    Rule("incremental_operation_minus_1", r"error_code: ours 42, Kafka's -1$", ACCIDENT),
    Rule("incremental_bad_resources", r" group .*error_code: ours 40, Kafka's 42$", GROUPS),
    Rule("replace_bad_resources", r" group .*error_code: ours 40, Kafka's 42$", GROUPS),
    Rule("broker_refuses_a_key_of_topics", r"error_code: ours 40, Kafka's 0$", UNKNOWN_KEYS),
    Rule("quotas_of_a_name_that_is_a_path", r"error_code: ours 42, Kafka's -1$", ACCIDENT),
    Rule("quotas_of_a_password", r"error_code: ours 42, Kafka's -1$", ACCIDENT),
    Rule("quotas_to_no_number", r"(validated|done): .*error_code: ours 42, Kafka's 0$", STRICTER),
    Rule("quotas_to_no_number", r"done, shown: .*only in theirs: .*'\(nan\)'", STRICTER),
    Rule("quotas_asked_by_match_3", r"error_code: ours 42, Kafka's -1$", ACCIDENT),
    Rule("quotas_asked_by_match_minus_1", r"error_code: ours 42, Kafka's -1$", ACCIDENT),
    Rule("quotas_asked_for_no_name", r"error_code: ours 42, Kafka's -1$", ACCIDENT),
    Rule("quotas_asked_for_an_empty_name", r" strictly: ", ACCIDENT),
)
