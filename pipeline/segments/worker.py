"""What Spark's Python workers do around each task, made cheap.

Before a task a worker has Python's importers look again at what they know, for which Python 3.11
reads the tables of contents of Spark's own archives once for each of their packages. After a task
it collects garbage among all objects of all modules. Both together take longer than reading 10 MB.
"""

import gc
import re
import sys
from typing import Final

_OF_SPARK: Final = re.compile(r"/(spark-core_[^/]*\.jar|pyspark\.zip|py4j-[^/]*\.zip)(/|$)")


def spare_next_task() -> None:
    """Have the importers forget Spark's archives until the next import, which opens them again
    without reading, and take what is there already out of the collector's sight.
    """
    for place in list(sys.path_importer_cache):  # which threads of the user's may change
        if _OF_SPARK.search(place):
            sys.path_importer_cache.pop(place, None)
    if not gc.get_freeze_count():
        gc.freeze()
