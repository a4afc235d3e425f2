"""Single create, set and delete operations, shared by all sessions."""

from abc import ABC, abstractmethod

from .interface import ANY_VERSION, Create, Delete, MultiFailed, Op, Result, Set, Stat


class SingleWrites(ABC):
    """A mixin for a `Session`, which implements `_write_one` and the rest."""

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> str:
        """Create a node; return its path."""
        result = await self._do(Create(path, data, ephemeral, sequential))
        assert isinstance(result, str)
        return result

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        """Replace the data of a node."""
        result = await self._do(Set(path, data, version))
        assert isinstance(result, Stat)
        return result

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Delete a node."""
        await self._do(Delete(path, version))

    async def _do(self, op: Op) -> Result:
        try:
            (result,) = await self._write_one(op)
        except MultiFailed as failed:
            raise failed.error from None
        return result

    @abstractmethod
    async def _write_one(self, op: Op) -> list[Result]:
        """Perform one operation; return a list of its one result.  Raises: MultiFailed."""
