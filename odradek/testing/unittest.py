"""A broker for the tests of `unittest`, with and without pytest.

class TestOrders(WithBroker, unittest.TestCase):
    odradek_wants = {"topics": {"orders": 6}}

    def test_one_order(self):
        self.odradek.produce("orders", b"one")
"""

import functools
import inspect
import time
import unittest
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from .broker import Broker
from .marker import Refused, Wanted, read_marker
from .report import Report
from .servers import Load, Servers

__all__ = ["WithBroker"]


class WithBroker(unittest.TestCase):
    """A test case whose tests share a broker, and each find it as it was when it started.

    Rules for faults and the journal of requests end with the test. If it passes although a rule of
    its own has never acted, it fails, unless the rule is optional. A test that fails reports what
    happened at the broker.

    `setUp` and `setUpClass` of a subclass must call those of this class.
    """

    odradek_wants: ClassVar[Mapping[str, Any]] = {}
    """What `@pytest.mark.odradek` has: brokers, topics, settings, auto_create, tls, sasl, acls."""
    odradek_in_process: ClassVar[bool] = False
    """Whether it runs on a thread of this process, and not in a child."""
    odradek_load: ClassVar[Sequence[Load]] = ()
    """What it is filled with: files, and functions that take the broker."""

    odradek: Broker
    """The broker, while a test runs."""

    _servers: ClassVar[Servers | None] = None

    def __init__(self, methodName: str = "runTest") -> None:  # its name in unittest
        super().__init__(methodName)
        self._method_name = methodName
        self._is_clean = False

    @classmethod
    def setUpClass(cls) -> None:
        """Start the broker.  Raises: ValueError for `odradek_wants`, BrokerFailed."""
        super().setUpClass()
        if not isinstance(cls.odradek_wants, Mapping):
            raise ValueError(f"odradek_wants={cls.odradek_wants!r} is not a dict")
        if "share" in cls.odradek_wants:
            raise ValueError("odradek_wants has no argument share: each class has its own broker")
        try:
            wanted, topics = read_marker(cls.odradek_wants, (), Wanted(), ())
            servers = Servers(
                wanted._replace(in_process=cls.odradek_in_process), topics, cls.odradek_load
            )
            cls.addClassCleanup(servers.close)
            servers.get(servers.usual)
            cls._servers = servers
        except Refused as error:
            sentence = str(error).replace("@pytest.mark.odradek", "odradek_wants")
            raise ValueError(sentence) from None

    @classmethod
    def tearDownClass(cls) -> None:
        """The broker is closed after it, as a class cleanup."""
        cls._servers = None
        super().tearDownClass()

    def setUp(self) -> None:
        """Return to the state of the start.  Raises: BrokerFailed."""
        super().setUp()
        if self._servers is None:
            raise RuntimeError("setUpClass must call super().setUpClass()")
        server = self._servers.get(self._servers.usual)
        server.clean(())
        self.odradek = server.broker
        self.addCleanup(server.end)
        self._is_clean = True

    def run(self, result: unittest.TestResult | None = None) -> unittest.TestResult | None:
        """As unittest's; the test's method is watched."""
        method = getattr(self, self._method_name)
        setattr(self, self._method_name, self._watched(method))
        self._is_clean = False
        try:
            return super().run(result)
        finally:
            setattr(self, self._method_name, method)

    def _watched(self, method: Callable[[], object]) -> Callable[[], object]:
        if inspect.iscoroutinefunction(method):
            coroutine: Callable[[], Awaitable[object]] = method

            @functools.wraps(method)
            async def watched_coroutine() -> object:
                with self._watch():
                    return await coroutine()

            return watched_coroutine

        @functools.wraps(method)
        def watched() -> object:
            with self._watch():
                return method()

        return watched

    @contextmanager
    def _watch(self) -> Iterator[None]:
        """Add to the error of a test what happened at the broker; let no rule be unused."""
        if not self._is_clean:
            raise RuntimeError("setUp must call super().setUp()")
        began_s = time.time()
        try:
            yield
        except unittest.SkipTest:
            raise
        except Exception as error:
            for title, text in Report(self.odradek, began_s).sections():
                error.add_note(f"{title}:\n{text}")
            raise
        self.odradek._wake()
        if unused := self.odradek.faults.end():
            raise self.failureException("rules that never acted:\n" + "\n".join(unused))
