"""Expressions such as `w*.3+u(0,1)` as functions: arithmetic on names, and calls of functions that the caller gives."""

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

Names = Mapping[str, Any]
_OPERATORS: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def compiled(expression: str) -> Callable[[Names], Any]:
    """Return the function that computes an expression from the values of its names."""
    return _function(ast.parse(expression, mode="eval").body)


def _function(node: ast.expr) -> Callable[[Names], Any]:
    match node:
        case ast.Constant(value=int() | float() as value):
            return lambda names: value
        case ast.Name(id=name):
            return lambda names: names[name]
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _OPERATORS:
            sign, inner = _OPERATORS[type(op)], _function(operand)
            return lambda names: sign(inner(names))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _of_two(op, left, right)
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _OPERATORS:
            return _of_two(op, left, right)
        case ast.Call(func=ast.Name(id=name), args=parts, keywords=[]):
            functions = [_function(part) for part in parts]
            return lambda names: names[name](*(function(names) for function in functions))
        case _:
            raise ValueError(f"no arithmetic: {ast.unparse(node)!r}")


def _of_two(op: Any, left: ast.expr, right: ast.expr) -> Callable[[Names], Any]:
    combine, one, other = _OPERATORS[type(op)], _function(left), _function(right)
    return lambda names: combine(one(names), other(names))
