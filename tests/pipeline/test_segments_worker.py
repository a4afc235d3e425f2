"""What a Python worker of Spark is spared, in this process.  No Spark."""

import gc
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from zipfile import ZipFile

import pytest

from odradek.pipeline.segments import worker
from odradek.pipeline.segments.worker import spare_next_task


@pytest.fixture(autouse=True)
def thaw() -> Iterator[None]:
    yield
    gc.unfreeze()


def test_only_sparks_own_archives_are_forgotten_until_an_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = [str(tmp_path / name) for name in ("spark-core_2.13-0.jar", "pyspark.zip", "py4j-1.zip")]
    archives = [*own, str(tmp_path / "others.jar"), str(tmp_path / "mypyspark.zip")]
    for number, archive in enumerate(archives):
        with ZipFile(archive, "w") as file:
            file.writestr(f"zipped_of_test_{number}.py", "here = True")
        monkeypatch.syspath_prepend(archive)
    with pytest.raises(ImportError):
        importlib.import_module("nowhere_of_test")
    spare_next_task()
    assert [place in sys.path_importer_cache for place in archives] == [False] * 3 + [True] * 2
    for number in range(len(archives)):
        assert importlib.import_module(f"zipped_of_test_{number}").here


def test_a_thread_may_import_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = {"one": None, "another": None}

    def search(place: str) -> bool:
        cache.clear()
        return True

    monkeypatch.setattr(sys, "path_importer_cache", cache)
    monkeypatch.setattr(worker, "_OF_SPARK", SimpleNamespace(search=search))
    spare_next_task()
    assert cache == {}


@pytest.mark.slow
def test_what_is_there_is_no_garbage_once() -> None:
    spare_next_task()
    frozen = gc.get_freeze_count()
    assert frozen > 0
    later: list[list[int]] = [[] for _ in range(1_000)]
    spare_next_task()
    # None of `later`; what was frozen before may be freed in between.
    assert frozen - len(later) < gc.get_freeze_count() <= frozen
