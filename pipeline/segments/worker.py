"""Reduces the cost of what Spark's Python workers do around each task.

Before a task, a worker has Python's importers refresh their caches, for which Python 3.11 reads the
tables of contents of Spark's own archives once for each of their packages. After a task, it
collects garbage among all objects of all modules. Together, that takes longer than reading 10 MB.
"""

import gc
import re
import sys
from typing import Final

_OF_SPARK: Final = re.compile(r"/(spark-core_[^/]*\.jar|pyspark\.zip|py4j-[^/]*\.zip)(/|$)")


def spare_next_task() -> None:
    """Drop the importers of Spark's archives, and exempt existing objects from collection.

    The next import opens the archives again without reading them.
    """
    for place in list(sys.path_importer_cache):  # threads of the user may change it
        if _OF_SPARK.search(place):
            sys.path_importer_cache.pop(place, None)
    if not gc.get_freeze_count():
        gc.freeze()
