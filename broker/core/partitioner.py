"""The partition of an internal topic that a group or a transactional id belongs to."""


def partition_of(key: str, partition_count: int) -> int:
    """As in Kafka: the absolute value of Java's string hash, modulo the partition count."""
    hashed = 0
    for unit in memoryview(key.encode("utf-16-le", "surrogatepass")).cast("H"):
        hashed = (31 * hashed + unit) & 0xFFFFFFFF
    if hashed >= 1 << 31:
        hashed -= 1 << 32
    return (0 if hashed == -(1 << 31) else abs(hashed)) % partition_count
