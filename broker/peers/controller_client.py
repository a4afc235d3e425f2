"""Requests of this broker to the controller, wherever that is: AlterPartition and its like."""

from odradek.protocol.schema import Message


class ControllerClient:
    """Finds the controller in the metadata, and asks again when it has moved.

    With the controller in this process the request goes to its handler by direct call.
    """

    async def ask(self, request: Message, version: int) -> Message:
        """Ask until there is an answer of a controller; NOT_CONTROLLER is not one.

        Raises: PeerFailed if it is closed.
        """
        raise NotImplementedError
