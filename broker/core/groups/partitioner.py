"""Which partition of `__consumer_offsets` a group belongs to."""


def partition_of(group_id: str, partition_count: int) -> int:
    """Kafka's rule: Java's hash of the id's UTF-16 units, without its sign."""
    hashed = 0
    for unit in memoryview(group_id.encode("utf-16-le", "surrogatepass")).cast("H"):
        hashed = (31 * hashed + unit) & 0xFFFFFFFF
    if hashed >= 1 << 31:
        hashed -= 1 << 32
    return (0 if hashed == -(1 << 31) else abs(hashed)) % partition_count
