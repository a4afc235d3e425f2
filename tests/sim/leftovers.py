"""What can go wrong with a simulated program, and what it left behind."""

from .node import Node
from .trace import task_name


class SimulationError(AssertionError):
    """The simulated program went wrong in a way that no return value shows."""


class Deadlock(SimulationError):
    """Nothing is ready, no timer is set, and the program has not ended."""


class Endless(SimulationError):
    """Far more callbacks or virtual hours than any test means to use."""


class Leftovers(SimulationError):
    """The program ended and left tasks, timers, connections or servers behind."""


def tasks_of(node: Node) -> list[str]:
    """Where each pending task of a node waits."""
    lines = []
    for task in node.pending_tasks():
        stack = task.get_stack(limit=1)
        where = f" at {stack[-1].f_code.co_filename}:{stack[-1].f_lineno}" if stack else ""
        lines.append(f"{node.name}: task {task_name(task)}{where}")
    return sorted(lines)


def left_by(node: Node) -> list[str]:
    """Tasks, servers and connections that a node still has."""
    return [
        *tasks_of(node),
        *(f"{node.name}: server {server}" for server in node.servers),
        *(f"{node.name}: connection {transport}" for transport in node.transports),
    ]
