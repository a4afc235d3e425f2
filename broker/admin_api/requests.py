"""How a request of the admin API finds its route, and what becomes of it."""

import inspect
import logging

from .controls import Controls
from .fields import Json, parse_body, parse_query
from .gate import Gate
from .http import Answer, Head, Respond
from .problems import Problem
from .routes import find

logger = logging.getLogger(__name__)


class Requests:
    """Answers the requests that come through a gate."""

    def __init__(self, gate: Gate, controls: Controls) -> None:
        self._gate = gate
        self._controls = controls

    def admit(self, head: Head) -> Respond:
        """Check a request's head, and find its route.  Raises: Problem."""
        self._gate.check(head.method, head.headers)
        route, arguments = find(head.method, head.path)
        is_post = route.method == "POST"
        if is_post and head.query:
            raise Problem(400, "a POST has its fields in the body, not in a query")

        async def respond(body: bytes) -> Answer:
            if body and not is_post:
                raise Problem(400, f"a {route.method} has no body")
            given = route.fields
            fields = parse_body(body, given) if is_post else parse_query(head.query, given)
            level = logging.DEBUG if route.method == "GET" else logging.INFO
            logger.log(level, "admin method=%s path=%.200s", head.method, head.path)
            try:
                result = route.resource(self._controls, arguments, fields)
                content: Json = await result if inspect.isawaitable(result) else result
            except Problem:
                raise
            except Exception as error:  # a bug: the client must hear of it, the broker go on
                logger.exception("admin request failed path=%.200s", head.path)
                raise Problem(500, f"this failed: {error!r}; the log says where") from error
            return Answer(route.status, content)

        return respond
