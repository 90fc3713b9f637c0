"""An interpreter of the subset of IEC 61131-3 Structured Text that exports are written in.

Types are BOOL, DINT, REAL, LREAL and one-dimensional arrays of them, never mixed without a
conversion; statements are assignments, IF, FOR with constant ends, and RETURN. What is outside is
refused. A block runs for many machines at once: every variable has a number for each lane, and a
branch changes the lanes whose condition holds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crosslearning.errors import NumericalError

_TOKEN = re.compile(
    r"(?P<space>\s+|\(\*.*?\*\))|(?P<real>\d+\.\d+(?:E[+-]?\d+)?)|(?P<int>\d+(?!\.\d))"
    r"|(?P<name>[A-Za-z](?:_?[A-Za-z0-9])*(?![A-Za-z0-9_]))"
    r"|(?P<mark>:=|\.\.|<=|>=|<>|[-+*/()\[\],;:<>=])",
    re.DOTALL | re.IGNORECASE,
)
_TYPES: dict[str, type[np.generic]] = {
    "BOOL": np.bool_, "DINT": np.int64, "REAL": np.float32, "LREAL": np.float64,
}  # fmt: skip
#: The type of a literal number: any that fits.
_LITERAL = "number"
#: Words of the language and of its standard library, which no variable may have as its name.
_WORDS = """
    ABS ACOS ACTION ADD AND ANY ARRAY ASIN AT ATAN BOOL BY BYTE CASE CONFIGURATION CONSTANT
    COS CTD CTU DATE DERIVATIVE DINT DIV DO DWORD ELSE ELSIF END_FOR END_FUNCTION
    END_FUNCTION_BLOCK END_IF END_VAR EQ EXIT EXP EXPT FALSE FOR FROM FUNCTION FUNCTION_BLOCK
    GE GT HYSTERESIS IF INT INTEGRAL LE LEN LIMIT LINT LN LOG LREAL LT LWORD MAX MID MIN MOD
    MOVE MUL MUX NE NOT OF ON OR PID PROGRAM RAMP REAL REPEAT REPLACE RESOURCE RETAIN RETURN
    ROL ROR SEL SHL SHR SIN SINT SQRT STEP STRING STRUCT SUB TAN TASK THEN TIME TO TOF TON TP
    TRANSITION TRUE TRUNC TYPE UDINT UINT ULINT UNTIL USINT VAR VAR_INPUT VAR_OUTPUT WHILE
    WITH WORD XOR
"""
RESERVED = frozenset(_WORDS.split())
_MATH: dict[str, Callable[[Any], Any]] = {
    "ABS": np.abs, "SQRT": np.sqrt, "EXP": np.exp, "LN": np.log,
    "SIN": np.sin, "COS": np.cos, "ATAN": np.arctan,
}  # fmt: skip
_CONVERSIONS = {
    "REAL_TO_LREAL": ("REAL", "LREAL"), "LREAL_TO_REAL": ("LREAL", "REAL"),
    "DINT_TO_LREAL": ("DINT", "LREAL"), "DINT_TO_REAL": ("DINT", "REAL"),
}  # fmt: skip
_COMPARED: dict[str, Callable[[Any, Any], Any]] = {
    "=": np.equal, "<>": np.not_equal, "<": np.less, ">": np.greater,
    "<=": np.less_equal, ">=": np.greater_equal,
}  # fmt: skip
_COMPUTED: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b,
    "*": lambda a, b: a * b, "/": lambda a, b: a / b,
}  # fmt: skip

Lanes = NDArray[Any]
_Value = Callable[["_Frame"], Any]
_Statement = Callable[["_Frame", Lanes], None]


class _Expression(NamedTuple):
    type: str
    value: _Value


class Variable(NamedTuple):
    """A declared variable."""

    section: str  #: VAR, VAR_INPUT, VAR_OUTPUT or VAR CONSTANT
    type: str
    size: int | None  #: of an array
    start: list[Any] | None


@dataclass
class _Frame:
    """The numbers of one call."""

    numbers: dict[str, Any]
    returned: Lanes


@dataclass
class Unit:
    """A function or a function block: its variables, and its statements."""

    variables: dict[str, Variable] = field(default_factory=dict)
    body: list[_Statement] = field(default_factory=list)

    def fresh(self, lanes: int) -> dict[str, Any]:
        """Return the numbers that its variables begin with."""
        numbers = {}
        for name, (_, kind, size, start) in self.variables.items():
            shape = (lanes,) if size is None else (size, lanes)
            numbers[name] = np.zeros(shape, dtype=_TYPES[kind])
            if start is not None:
                given = np.array(start, dtype=_TYPES[kind])
                numbers[name][:] = given[:, None] if size is not None else given
        return numbers


class Block:
    """A function block at work in a number of lanes."""

    def __init__(self, text: str, lanes: int = 1) -> None:
        self.unit = _Parser(text).block()
        self.lanes, self.numbers = lanes, self.unit.fresh(lanes)

    def names(self, section: str) -> list[str]:
        """Return the names of the variables of a section, such as VAR_INPUT."""
        return [name for name, one in self.unit.variables.items() if one.section == section]

    def __call__(self, inputs: Mapping[str, Any]) -> dict[str, Lanes]:
        """Call it with numbers of shape (lanes,); return its outputs."""
        for name, value in inputs.items():
            self.numbers[name.lower()][:] = value
        frame = _Frame(self.numbers, np.zeros(self.lanes, dtype=np.bool_))
        with np.errstate(all="ignore"):
            _run(self.unit.body, frame, np.ones(self.lanes, dtype=np.bool_))
        return {name: self.numbers[name].copy() for name in self.names("VAR_OUTPUT")}


def _run(body: list[_Statement], frame: _Frame, lanes: Lanes) -> None:
    for statement in body:
        statement(frame, lanes)
        if frame.returned.any():
            lanes = lanes & ~frame.returned
            if not lanes.any():
                return


class _Parser:
    """Reads units; expressions and statements become functions of a frame."""

    def __init__(self, text: str) -> None:
        self.tokens: list[tuple[str, str]] = []
        place = 0
        while place < len(text):
            found = _TOKEN.match(text, place)
            if found is None:
                raise _refusal(f"{text[place : place + 20]!r} is not of the subset")
            place, kind = found.end(), str(found.lastgroup)
            if kind != "space":
                self.tokens.append((kind, found.group()))
        self.tokens.append(("end", ""))
        self.at = 0
        self.functions: dict[str, Unit] = {}
        self.unit = Unit()

    def block(self) -> Unit:
        """Read functions and one function block, to the end."""
        while self.next_is("FUNCTION"):
            name = self.name()
            self.expect(":")
            self.unit = Unit({name: Variable("RESULT", self.type(), None, None)})
            self.functions[name] = self.content("END_FUNCTION")
        self.expect("FUNCTION_BLOCK")
        self.name()
        self.unit = Unit()
        unit = self.content("END_FUNCTION_BLOCK")
        if self.tokens[self.at][0] != "end":
            raise self.unexpected("nothing more")
        return unit

    def content(self, end: str) -> Unit:
        for section in iter(self.section, None):
            while not self.next_is("END_VAR"):
                self.declaration(section)
        self.unit.body = self.statements(end)
        return self.unit

    def section(self) -> str | None:
        for section in ("VAR_INPUT", "VAR_OUTPUT", "VAR"):
            if self.next_is(section):
                return f"{section} CONSTANT" if self.next_is("CONSTANT") else section
        return None

    def declaration(self, section: str) -> None:
        name = self.name()
        self.expect(":")
        size, start = None, None
        if self.next_is("ARRAY"):
            for mark in ("[", "0", ".."):
                self.expect(mark)
            size = self.integer() + 1
            self.expect("]")
            self.expect("OF")
        kind = self.type()
        if self.next_is(":="):
            start = self.numbers(kind) if size is not None else [self.literal(kind)]
            if len(start) != (size or 1):
                raise _refusal(f"{name} has {len(start)} numbers for {size}")
        self.expect(";")
        if name in self.unit.variables or name in self.functions:
            raise _refusal(f"{name} is declared twice")
        self.unit.variables[name] = Variable(section, kind, size, start)

    def numbers(self, kind: str) -> list[Any]:
        self.expect("[")
        numbers = [self.literal(kind)]
        while self.next_is(","):
            numbers.append(self.literal(kind))
        self.expect("]")
        return numbers

    def literal(self, kind: str) -> Any:
        sign = -1 if self.next_is("-") else 1
        wanted = "int" if kind == "DINT" else "real"
        return sign * (int if wanted == "int" else float)(self.take(wanted))

    # Statements ---------------------------------------------------------------------------

    def statements(self, *ends: str) -> list[_Statement]:
        """Read statements up to one of some words, which is taken and kept in ``ended``."""
        body = []
        while not any(self.next_is(end) for end in ends):
            body.append(self.statement())
        self.ended = self.tokens[self.at - 1][1].upper()
        return body

    def statement(self) -> _Statement:
        if self.next_is("IF"):
            return self.branch()
        if self.next_is("FOR"):
            return self.loop()
        if self.next_is("RETURN"):
            self.expect(";")
            return _return
        return self.assignment()

    def branch(self) -> _Statement:
        condition = self.expression()
        _same(condition.type, "BOOL")
        self.expect("THEN")
        then, otherwise = self.statements("ELSE", "END_IF"), list[_Statement]()
        if self.ended == "ELSE":
            otherwise = self.statements("END_IF")
        self.expect(";")

        def run(frame: _Frame, lanes: Lanes) -> None:
            holds = np.broadcast_to(condition.value(frame), lanes.shape)
            for body, chosen in ((then, lanes & holds), (otherwise, lanes & ~holds)):
                if body and chosen.any():
                    _run(body, frame, chosen)

        return run

    def loop(self) -> _Statement:
        name = self.name()
        if self.declared(name)[:3] != ("VAR", "DINT", None):
            raise _refusal(f"{name} counts, but is no variable of the type DINT")
        self.expect(":=")
        first = self.integer()
        self.expect("TO")
        last, step = self.integer(), 1
        if self.next_is("BY"):
            step = self.integer()
        self.expect("DO")
        body = self.statements("END_FOR")
        self.expect(";")

        def run(frame: _Frame, lanes: Lanes) -> None:
            for number in range(first, last + (1 if step > 0 else -1), step):
                frame.numbers[name] = number
                _run(body, frame, lanes & ~frame.returned)
            frame.numbers[name] = np.full(lanes.shape, last + step)

        return run

    def assignment(self) -> _Statement:
        name = self.name()
        section, kind, size, _ = self.declared(name)
        if section in ("VAR_INPUT", "VAR CONSTANT"):
            raise _refusal(f"{name} cannot be assigned")
        index = self.index(size, name)
        self.expect(":=")
        given = self.expression()
        _same(given.type, kind)
        self.expect(";")
        value = given.value

        def run(frame: _Frame, lanes: Lanes) -> None:
            target = frame.numbers[name]
            if index is not None:
                target = target[index(frame)]
            np.copyto(target, value(frame), where=lanes, casting="same_kind")

        return run

    # Expressions --------------------------------------------------------------------------

    def expression(self) -> _Expression:
        return self.logic("OR", lambda: self.logic("AND", self.comparison))

    def logic(self, word: str, inner: Callable[[], _Expression]) -> _Expression:
        given = inner()
        while self.next_is(word):
            other = inner()
            given = _logic(np.logical_or if word == "OR" else np.logical_and, given, other)
        return given

    def comparison(self) -> _Expression:
        given = self.sum()
        for mark, compare in _COMPARED.items():
            if self.next_is(mark):
                other = self.sum()
                _same(given.type, other.type)
                return _Expression("BOOL", _both(compare, given, other))
        return given

    def sum(self) -> _Expression:
        return self.computed("+-", lambda: self.computed("*/", self.sign))

    def computed(self, marks: str, inner: Callable[[], _Expression]) -> _Expression:
        given = inner()
        while self.tokens[self.at][1] in tuple(marks):
            mark = self.take("mark")
            other = inner()
            kind = _same(given.type, other.type)
            if kind == "BOOL" or (kind == "DINT" and mark == "/"):
                raise _refusal(f"{mark} has no numbers of the type {kind}")
            given = _Expression(kind, _both(_COMPUTED[mark], given, other))
        return given

    def sign(self) -> _Expression:
        if self.next_is("-"):
            given = self.sign()
            return _Expression(given.type, lambda frame: -given.value(frame))
        if self.next_is("NOT"):
            other = self.sign()
            _same(other.type, "BOOL")
            return _Expression("BOOL", lambda frame: np.logical_not(other.value(frame)))
        return self.primary()

    def primary(self) -> _Expression:
        if self.next_is("("):
            given = self.expression()
            self.expect(")")
            return given
        kind, text = self.tokens[self.at]
        if kind in ("real", "int"):
            self.at += 1
            number = float(text) if kind == "real" else int(text)
            return _Expression(_LITERAL if kind == "real" else "DINT", lambda _: number)
        if text.upper() in ("TRUE", "FALSE"):
            self.at += 1
            truth = np.bool_(text.upper() == "TRUE")
            return _Expression("BOOL", lambda _: truth)
        if self.tokens[self.at + 1][1] == "(":
            return self.call(self.take("name"))
        name = self.name()
        _, kind, size, _ = self.declared(name)
        index = self.index(size, name)
        if index is None:
            return _Expression(kind, lambda frame: frame.numbers[name])
        return _Expression(kind, lambda frame: frame.numbers[name][index(frame)])

    def index(self, size: int | None, name: str) -> Callable[[_Frame], int] | None:
        if size is None:
            return None
        self.expect("[")
        given = self.expression()
        _same(given.type, "DINT")
        self.expect("]")

        def place(frame: _Frame) -> int:
            at = int(given.value(frame))
            if not 0 <= at < size:
                raise _refusal(f"{name}[{at}] is beyond its {size} numbers")
            return at

        return place

    def call(self, name: str) -> _Expression:
        self.expect("(")
        arguments = [self.expression()]
        while self.next_is(","):
            arguments.append(self.expression())
        self.expect(")")
        if name.lower() in self.functions:
            return self.own(self.functions[name.lower()], name.lower(), arguments)
        if len(arguments) != 1:
            raise _refusal(f"{name} was given {len(arguments)} numbers")
        (given,) = arguments
        if name in _MATH:
            if given.type not in ("REAL", "LREAL"):
                raise _refusal(f"{name} takes a REAL or an LREAL, not {given.type}")
            return _Expression(given.type, lambda frame: _MATH[name](given.value(frame)))
        if name == "TRUNC":
            whole = np.int64
            return _Expression("DINT", lambda frame: np.trunc(given.value(frame)).astype(whole))
        if name not in _CONVERSIONS:
            raise _refusal(f"there is no function {name}")
        before, after = _CONVERSIONS[name]
        _same(given.type, before)
        return _Expression(after, lambda frame: _TYPES[after](given.value(frame)))

    def own(self, unit: Unit, name: str, arguments: list[_Expression]) -> _Expression:
        inputs = [key for key, one in unit.variables.items() if one.section == "VAR_INPUT"]
        for key, given in zip(inputs, arguments, strict=True):
            _same(given.type, unit.variables[key].type)

        def value(frame: _Frame) -> Any:
            lanes = len(frame.returned)
            inside = _Frame(unit.fresh(lanes), np.zeros(lanes, dtype=np.bool_))
            for key, given in zip(inputs, arguments, strict=True):
                inside.numbers[key][:] = given.value(frame)
            _run(unit.body, inside, np.ones(lanes, dtype=np.bool_))
            return inside.numbers[name]

        return _Expression(unit.variables[name].type, value)

    # Tokens -------------------------------------------------------------------------------

    def next_is(self, text: str) -> bool:
        """Take the next token, if it is this one."""
        found = self.tokens[self.at][1].upper() == text
        self.at += found
        return found

    def expect(self, text: str) -> None:
        if not self.next_is(text):
            raise self.unexpected(text)

    def take(self, kind: str) -> str:
        found, text = self.tokens[self.at]
        if found != kind:
            raise self.unexpected(f"a {kind}")
        self.at += 1
        return text

    def name(self) -> str:
        """Take the name of a variable, whose case does not count."""
        text = self.take("name")
        if text.upper() in RESERVED:
            raise _refusal(f"{text} is reserved")
        return text.lower()

    def integer(self) -> int:
        return (-1 if self.next_is("-") else 1) * int(self.take("int"))

    def type(self) -> str:
        text = self.take("name")
        if text not in _TYPES:
            raise _refusal(f"there is no type {text}")
        return text

    def declared(self, name: str) -> Variable:
        if name not in self.unit.variables:
            raise _refusal(f"{name} is not declared")
        return self.unit.variables[name]

    def unexpected(self, wanted: str) -> NumericalError:
        near = " ".join(text for _, text in self.tokens[max(0, self.at - 5) : self.at + 3])
        return _refusal(f"{wanted} was expected near {near!r}")


def _return(frame: _Frame, lanes: Lanes) -> None:
    frame.returned |= lanes


def _same(one: str, other: str) -> str:
    """Return the type of two that go together."""
    if one == other or (other == _LITERAL and one in ("REAL", "LREAL")):
        return one
    if one == _LITERAL and other in ("REAL", "LREAL"):
        return other
    raise _refusal(f"{one} and {other} are mixed without a conversion")


def _both(operation: Callable[[Any, Any], Any], one: _Expression, other: _Expression) -> _Value:
    first, second = one.value, other.value
    return lambda frame: operation(first(frame), second(frame))


def _logic(
    operation: Callable[[Any, Any], Any], one: _Expression, other: _Expression
) -> _Expression:
    _same(one.type, "BOOL")
    _same(other.type, "BOOL")
    return _Expression("BOOL", _both(operation, one, other))


def _refusal(what: str) -> NumericalError:
    return NumericalError(f"the Structured Text is wrong: {what}")
