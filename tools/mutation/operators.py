"""The mutants of a module: each one small change of its source, which a test should notice. Pure: text in, text out."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

Kind = Literal["comparison", "constant", "call", "with", "raise", "keyword", "and or", "not", "return"]
"""A comparison turned, a constant moved by one, a call, a `with`, a `raise` or a keyword argument left out, `and` for
`or` and `or` for `and`, a `not` taken away, a return value replaced."""

_TURNED: Final[dict[type[cst.BaseCompOp], type[cst.BaseCompOp]]] = {
    cst.LessThan: cst.LessThanEqual,
    cst.LessThanEqual: cst.LessThan,
    cst.GreaterThan: cst.GreaterThanEqual,
    cst.GreaterThanEqual: cst.GreaterThan,
    cst.Equal: cst.NotEqual,
    cst.NotEqual: cst.Equal,
    cst.Is: cst.IsNot,
    cst.IsNot: cst.Is,
    cst.In: cst.NotIn,
    cst.NotIn: cst.In,
}
_OTHER_TRUTH: Final = {"True": "False", "False": "True"}


@dataclass(frozen=True)
class Point:
    """Where a module can be mutated, and how."""

    index: int
    """Its place among the points of the module, from 0."""
    kind: Kind
    line: int
    """Where the change begins, from 1."""
    statement: int
    """The first line of the statement around it."""
    at_import: bool
    """Whether the line runs when the module is imported, and not in a function."""


@dataclass(frozen=True)
class Mutant:
    """A changed module; `before` and `after` are the lines that differ, without what surrounds them."""

    source: str
    before: str
    after: str


def points(source: str) -> list[Point]:
    """All points of a module, from its first line to its last. Raises libcst.ParserSyntaxError."""
    return [found.point for found in _found(source)]


def mutant(source: str, index: int) -> Mutant:
    """The module, changed at one of its points. Raises IndexError where there is no such point."""
    found = _found(source)[index]
    changed = cst.ensure_type(found.module.deep_replace(found.old, found.new), cst.Module).code
    before, after = _difference(source, changed)
    return Mutant(changed, before, after)


def _difference(source: str, changed: str) -> tuple[str, str]:
    lines = list(difflib.unified_diff(source.splitlines(), changed.splitlines(), n=0, lineterm=""))[2:]
    before, after = (
        " ".join(line[1:].strip() for line in lines if line.startswith(sign)) for sign in ("-", "+")
    )
    return before, after


@dataclass(frozen=True)
class _Found:
    point: Point
    module: cst.Module
    old: cst.CSTNode
    new: cst.CSTNode


@lru_cache(maxsize=1)  # the mutants of a module are often made one after the other
def _found(source: str) -> list[_Found]:
    wrapper = MetadataWrapper(cst.parse_module(source), unsafe_skip_copy=True)
    collector = _Collector(wrapper.module)
    wrapper.visit(collector)
    return collector.found


class _Collector(cst.CSTVisitor):
    """Collects the points of a module; annotations, decorators and imports for types have none."""

    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self, module: cst.Module) -> None:
        super().__init__()
        self.found: list[_Found] = []
        self._module = module
        self._statements: list[int] = []
        self._functions: list[cst.FunctionDef] = []

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.Annotation | cst.Decorator) or _is_for_types(node):
            return False
        if _is_statement(node):
            self._statements.append(self._line(node))
        returns_truth = bool(self._functions) and _returns_truth(self._functions[-1])
        for kind, old, new in _changes(node, returns_truth=returns_truth):
            point = Point(
                len(self.found), kind, self._line(old), self._statements[-1], at_import=not self._functions
            )
            self.found.append(_Found(point, self._module, old, new))
        return super().on_visit(node)

    def on_leave(self, original_node: cst.CSTNode) -> None:
        super().on_leave(original_node)
        if _is_statement(original_node) and not _is_for_types(original_node):
            self._statements.pop()

    def visit_FunctionDef_body(self, node: cst.FunctionDef) -> None:  # noqa: N802 - libcst calls it by this name
        self._functions.append(node)

    def leave_FunctionDef_body(self, node: cst.FunctionDef) -> None:  # noqa: ARG002, N802 - the same
        self._functions.pop()

    def _line(self, node: cst.CSTNode) -> int:
        return int(self.get_metadata(PositionProvider, node).start.line)


def _is_statement(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.BaseCompoundStatement | cst.SimpleStatementLine)


def _is_for_types(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.If) and isinstance(node.test, cst.Name) and node.test.value == "TYPE_CHECKING"


def _returns_truth(function: cst.FunctionDef) -> bool:
    returned = function.returns and function.returns.annotation
    return isinstance(returned, cst.Name) and returned.value == "bool"


Change = tuple[Kind, cst.CSTNode, cst.CSTNode]


def _changes(node: cst.CSTNode, *, returns_truth: bool) -> Iterator[Change]:
    """(Kind, node, what takes its place) for each way to change this node itself."""
    yield from _changes_of_expression(node)
    match node:
        case cst.Expr(value=cst.Call() | cst.Await(expression=cst.Call())):
            yield "call", node, cst.Pass()
        case cst.Raise():
            yield "raise", node, cst.Pass()
        case cst.Return(value=cst.BaseExpression() as value):
            replaced = _replaced_value(value, returns_truth=returns_truth)
            if replaced:
                yield "return", node, node.with_changes(value=replaced)
        case cst.With(items=items, body=body) if all(item.asname is None for item in items):
            # What a `with` gives a name to is missed at once; these are the ones that may be missed by nothing.
            yield "with", node, cst.If(cst.Name("True"), body, leading_lines=node.leading_lines)


def _changes_of_expression(node: cst.CSTNode) -> Iterator[Change]:
    match node:
        case cst.ComparisonTarget(operator=operator) if type(operator) in _TURNED:
            yield "comparison", node, node.with_changes(operator=_TURNED[type(operator)]())
        case cst.Integer():
            yield "constant", node, cst.Integer(str(node.evaluated_value + 1))
        case cst.Float():
            yield "constant", node, cst.Float(repr(node.evaluated_value + 1))
        case cst.BooleanOperation(operator=cst.And()):
            yield "and or", node, node.with_changes(operator=cst.Or())
        case cst.BooleanOperation(operator=cst.Or()):
            yield "and or", node, node.with_changes(operator=cst.And())
        case cst.UnaryOperation(operator=cst.Not(), expression=expression):
            yield "not", node, expression
        case cst.Call(args=arguments):
            for number, argument in enumerate(arguments):
                if argument.keyword:
                    yield "keyword", node, node.with_changes(args=_without(arguments, number))


def _without(arguments: Sequence[cst.Arg], number: int) -> list[cst.Arg]:
    return [argument for place, argument in enumerate(arguments) if place != number]


def _replaced_value(value: cst.BaseExpression, *, returns_truth: bool) -> cst.BaseExpression | None:
    """What is returned instead: the other truth, or None; None where None is returned anyway."""
    name = value.value if isinstance(value, cst.Name) else ""
    if name == "None":
        return None
    if name in _OTHER_TRUTH:
        return cst.Name(_OTHER_TRUTH[name])
    if not returns_truth:
        return cst.Name("None")
    bare = value.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    return cst.UnaryOperation(cst.Not(), bare)
