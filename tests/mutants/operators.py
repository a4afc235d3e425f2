"""What a mutant changes: one expression or one statement of a function's body, as syntax trees.

Left alone, since a change there is no change of what the code does: asserts, logging, the words of
an error, annotations.
"""

import ast
from collections.abc import Iterator
from typing import Final

COMPARISONS: Final[dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
ARITHMETIC: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
CALLS: Final = {"min": "max", "max": "min", "any": "all", "all": "any"}
LOGGERS: Final = frozenset(("log", "logger"))


def alternatives(node: ast.AST) -> Iterator[ast.AST]:
    """What may stand in the place of one node.

    Names that a deleted part uses go on being used: a function keeps the variables that it closes
    over, without which its code can't be exchanged.
    """
    match node:
        case ast.Compare(left, ops, comparators):
            for at, op in enumerate(ops):
                for other in COMPARISONS[type(op)]:
                    yield ast.Compare(left, [*ops[:at], other(), *ops[at + 1 :]], comparators)
        case ast.BoolOp(op, values):
            yield ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
        case ast.UnaryOp(ast.Not(), operand):
            yield operand
        case ast.BinOp(left, op, right) if type(op) in ARITHMETIC:
            yield ast.BinOp(left, ARITHMETIC[type(op)](), right)
        case ast.Constant(bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(int() | float() as value):
            yield ast.Constant(value + 1)
        case ast.Call(ast.Name(name), arguments, keywords) if name in CALLS:
            yield ast.Call(ast.Name(CALLS[name], ast.Load()), arguments, keywords)
        case ast.expr():
            return
        case _:
            yield from _other_statements(node)


def _other_statements(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.If(test, body, orelse) if _is_plain(test):
            yield ast.If(ast.UnaryOp(ast.Not(), test), body, orelse)
        case ast.While(test, body, orelse) if _is_plain(test):
            yield ast.While(ast.UnaryOp(ast.Not(), test), body, orelse)
        case ast.AugAssign(target, op, value):
            yield deleted(node)
            if type(op) in ARITHMETIC:
                yield ast.AugAssign(target, ARITHMETIC[type(op)](), value)
        case ast.Assign([ast.Attribute() | ast.Subscript()]) | ast.Raise() | ast.Delete():
            yield deleted(node)
        case ast.Expr(ast.Call() | ast.Await() | ast.Yield() | ast.YieldFrom()):
            yield deleted(node)
        case ast.Return(ast.expr() as value) if not isinstance(value, ast.Constant):
            yield ast.Return(ast.BoolOp(ast.And(), [ast.Constant(None), value]))
        case ast.Break():
            yield ast.Continue()
        case ast.Continue():
            yield ast.Break()


def _is_plain(test: ast.expr) -> bool:
    """Whether a condition has no operator of its own that is exchanged anyway."""
    return isinstance(test, ast.Name | ast.Attribute | ast.Call | ast.NamedExpr | ast.Subscript)


def deleted(statement: ast.AST) -> ast.If:
    assert isinstance(statement, ast.stmt)
    return ast.If(ast.Constant(False), [statement], [])


def is_deleted(node: ast.AST) -> bool:
    match node:
        case ast.If(ast.Constant(False)):
            return True
    return False


def left_alone(node: ast.AST) -> bool:
    """Whether nothing in this node is changed."""
    match node:
        case ast.Assert() | ast.JoinedStr() | ast.Import() | ast.ImportFrom():
            return True
        case ast.Expr(ast.Call(ast.Attribute(ast.Name(name)))):
            return name in LOGGERS
    return False


def parts(node: ast.AST) -> Iterator[tuple[str, int | None, ast.AST]]:
    """The nodes right below one that may change: field, place in the field's list, node."""
    skipped = {"annotation", "returns", "args", "decorator_list", "pattern", "bases"}
    if isinstance(node, ast.Raise):
        skipped |= {"exc", "cause"}
    if isinstance(node, ast.Call):
        skipped -= {"args"}
    for field, value in ast.iter_fields(node):
        if field in skipped:
            continue
        if isinstance(value, ast.AST):
            yield field, None, value
        elif isinstance(value, list):
            for at, part in enumerate(value):
                if isinstance(part, ast.AST):
                    yield field, at, part
