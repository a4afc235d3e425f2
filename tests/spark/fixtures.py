"""The running Sparks that all tests share, one of each release: a plugin of tests/conftest.py."""

from collections.abc import Callable, Iterator

import pytest

from tests.spark.environment import RELEASES, Spark
from tests.spark.releases import present
from tests.spark.warm import WarmSpark


@pytest.fixture(scope="session", params=list(RELEASES))
def release(request: pytest.FixtureRequest) -> Spark:
    """Each tested release of Spark; in `make test` the newest one, unless `every_release`."""
    return present(request.param)


@pytest.fixture(scope="session")
def warm_sparks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Spark], WarmSpark]]:
    """A function that returns the one running Spark of a release, starting it first if need be."""
    running: dict[str, WarmSpark] = {}

    def of(spark: Spark) -> WarmSpark:
        if spark.name not in running:
            running[spark.name] = WarmSpark(spark, tmp_path_factory.mktemp("spark"))
        return running[spark.name]

    try:
        yield of
    finally:
        for spark in running.values():
            spark.close()


@pytest.fixture(scope="session")
def warm_spark(release: Spark, warm_sparks: Callable[[Spark], WarmSpark]) -> WarmSpark:
    """The Spark that the tests of one release share."""
    return warm_sparks(release)


@pytest.fixture(scope="session")
def warm_spark_4_0(warm_sparks: Callable[[Spark], WarmSpark]) -> WarmSpark:
    """The shared Spark 4.0, for what no older one has."""
    return warm_sparks(present("4.0"))
