"""What a reader sees in an archive that knows nothing of Spark or of manifests: pyarrow.

Run with a Spark's interpreter: `python -m tests.pipeline.plain_parquet DIR`; prints JSON.
"""

import json
import sys
from typing import Any

PARTITIONS = 4


def summary(directory: str) -> dict[str, Any]:
    """Rows, distinct offsets, and rows that are not as `tests.pipeline.filling` produced them."""
    import pyarrow.compute as pc
    import pyarrow.dataset as ds

    table = ds.dataset(directory, format="parquet", partitioning="hive").to_table(
        columns=["partition", "offset", "key", "value"]
    )
    place = pc.add(pc.cast(table["partition"], "int64"), pc.multiply(table["offset"], PARTITIONS))
    number = pc.cast(pc.cast(table["key"], "string"), "int64")
    wrong = pc.not_equal(place, number)
    return {
        "rows": table.num_rows,
        "distinct": pc.count_distinct(place).as_py(),
        "last": pc.max(place).as_py(),
        "wrong": pc.sum(pc.cast(wrong, "int64")).as_py(),
        "value_bytes": pc.sum(pc.binary_length(table["value"])).as_py(),
    }


if __name__ == "__main__":
    print(json.dumps(summary(sys.argv[1])))
