"""A second reading of the problem file, made with sympy and mpmath.

It shares nothing with the program: its own tokens, its own grammar, derivatives by sympy, values by mpmath
with DIGITS digits. With the exact solutions of a file put in for its unknowns, every relation becomes an
expression of the coordinates, which check_solutions.py and check_cases.py evaluate. Only the part of the
format that the files in problems/ and tests/data/cases/ use is understood.

Accuracy: values carry DIGITS digits, except those of a table (cubic spline, not-a-knot ends, through the
file's doubles) and of cole_hopf (trapezoid sum of NODES nodes, which converges faster than any power; it
agrees with twice the nodes to 30 digits for t <= 1), whose derivatives are taken by mpmath.diff.

Needs Python 3.11, sympy, mpmath; scipy for tables.
"""
import csv
import functools
import itertools
import os
import re
import tomllib

import mpmath
import sympy

DIGITS = 40
NODES = 400
ROUNDING = mpmath.mpf("1e-30")  # terms below it are zeros that were rounded
mpmath.mp.dps = DIGITS

FUNCTIONS = {
    "sqrt": sympy.sqrt, "exp": sympy.exp, "log": sympy.log, "log10": lambda x: sympy.log(x) / sympy.log(10),
    "sin": sympy.sin, "cos": sympy.cos, "tan": sympy.tan, "asin": sympy.asin, "acos": sympy.acos,
    "atan": sympy.atan, "atan2": sympy.atan2, "sinh": sympy.sinh, "cosh": sympy.cosh, "tanh": sympy.tanh,
    "erf": sympy.erf, "abs": sympy.Abs, "sign": sympy.sign, "min": sympy.Min, "max": sympy.Max,
}


class Refused(Exception):
    """The text is no part of the language."""


# ---- Functions without a formula ------------------------------------------------------------------------

def cole_hopf(x, t, nu):
    """Burgers from -sin(pi x): a weighted mean of -sin(pi y), y = x - 2 sqrt(nu t) z."""
    if t == 0:
        return -mpmath.sin(mpmath.pi * x)
    top = 1 / (2 * mpmath.pi * nu)
    reach = mpmath.sqrt(2 * top + 110)  # beyond it exp(-z^2) is below exp(-110) times the smallest other weight
    h = reach / NODES
    above = below = mpmath.mpf(0)
    spread = 2 * mpmath.sqrt(nu * t)
    for i in range(-NODES, NODES + 1):
        z = i * h
        y = x - spread * z
        w = mpmath.exp(-top * mpmath.cos(mpmath.pi * y) - z * z)
        above += w * mpmath.sin(mpmath.pi * y)
        below += w
    return -above / below


def numeric_function(name, value):
    """A sympy function whose value, and by mpmath.diff every derivative, is computed from numbers.
    `value(orders, args)`: the derivative of those orders at args."""
    classes = {}

    def make(orders):
        if orders in classes:
            return classes[orders]

        def fdiff(self, argindex=1):
            k = list(orders)
            k[argindex - 1] += 1
            return make(tuple(k))(*self.args)

        def evalf(self, prec):
            with mpmath.workdps(DIGITS):
                args = [mpmath.mpf(a.evalf(DIGITS)._mpf_) if a != 0 else mpmath.mpf(0) for a in self.args]
                return sympy.Float(value(orders, args), DIGITS)

        label = name if not any(orders) else name + "_" + "".join(map(str, orders))
        classes[orders] = type(label, (sympy.Function,), {"fdiff": fdiff, "_eval_evalf": evalf})
        return classes[orders]

    return make


def _cole_hopf_derivative(orders, args):
    if not any(orders):
        return cole_hopf(*args)
    with mpmath.workdps(DIGITS):
        return mpmath.diff(lambda x, t: cole_hopf(x, t, args[2]), tuple(args[:2]), tuple(orders[:2]),
                           h=mpmath.mpf(10) ** -10)


COLE_HOPF = numeric_function("cole_hopf", _cole_hopf_derivative)((0, 0, 0))


def table_function(name, path, argument, column):
    from scipy.interpolate import CubicSpline
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.reader(line for line in file if line.strip() and not line.startswith("#")))
    header = [cell.strip() for cell in rows[0]]
    x = [float(row[header.index(argument)]) for row in rows[1:]]
    y = [float(row[header.index(column)]) for row in rows[1:]]
    spline = CubicSpline(x, y)
    return numeric_function(name, lambda orders, args: mpmath.mpf(float(spline(float(args[0]), orders[0]))))((0,))


# ---- Grammar --------------------------------------------------------------------------------------------

TOKEN = re.compile(r"\s*(?:(\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)|([A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)*"
                   r"(?:\.(?:min|max))?)|(<=|>=|[-+*/^()=<>,_]))")


def tokens(text):
    out, at = [], 0
    while text[at:].strip():
        m = TOKEN.match(text, at)
        if not m:
            raise Refused(f"{text!r}: no token at {text[at:]!r}")
        out.append(m.group(1) or m.group(2) or m.group(3))
        at = m.end()
    return out + [None]


def flat(value):
    return value if isinstance(value, list) else [value]


class Parser:
    """Evaluates while it reads: the value of a phrase is a sympy expression, or a list for a vector."""

    def __init__(self, problem, text, piece=None):
        self.p, self.text, self.piece = problem, text, piece
        self.t, self.i = tokens(text), 0

    def peek(self):
        return self.t[self.i]

    def take(self, expected=None):
        token = self.t[self.i]
        if token is None or (expected and token != expected):
            raise Refused(f"{self.text!r}: {token!r} where {expected or 'more'!r} should stand")
        self.i += 1
        return token

    def end(self):
        if self.peek() is not None:
            raise Refused(f"{self.text!r}: {self.peek()!r} is left over")

    def relation(self):
        """(sign, lhs terms, rhs terms): a term is a sympy expression or a list."""
        left = self.terms()
        op = self.take()
        if op not in ("=", "<=", ">="):
            raise Refused(f"{self.text!r}: no relation")
        right = self.terms()
        self.end()
        return op, left, right

    def value(self):
        out = self.sum()
        self.end()
        return out

    def terms(self):
        out, sign = [], 1
        while True:
            out.append(scale(sign, self.term()))
            if self.peek() not in ("+", "-"):
                return out
            sign = 1 if self.take() == "+" else -1

    def sum(self):
        parts = self.terms()
        out = parts[0]
        for part in parts[1:]:
            if isinstance(out, list) != isinstance(part, list):
                raise Refused(f"{self.text!r}: a vector and a scalar added")
            out = [a + b for a, b in zip(out, part, strict=True)] if isinstance(out, list) else out + part
        return out

    def term(self):
        out = self.unary()
        while self.peek() in ("*", "/"):
            op, b = self.take(), self.unary()
            if op == "/":
                b = 1 / b
            out = scale(b, out) if isinstance(out, list) else scale(out, b)
        return out

    def unary(self):
        if self.peek() in ("+", "-"):
            return scale(1 if self.take() == "+" else -1, self.unary())
        base = self.primary()
        if self.peek() == "^":
            self.take()
            return base ** self.unary()
        return base

    def primary(self):
        token = self.take()
        if token == "(":
            parts = [self.sum()]
            while self.peek() == ",":
                self.take()
                parts.append(self.sum())
            self.take(")")
            out = parts if len(parts) > 1 else parts[0]
            if self.peek() == "_":
                self.take()
                return self.differentiate(out, self.take())
            if self.peek() and re.fullmatch(r"_[A-Za-z]+", self.peek() or ""):
                return self.differentiate(out, self.take()[1:])
            return out
        if re.match(r"[\d.]", token):
            return sympy.Rational(token)
        if not token[0].isalpha():
            raise Refused(f"{self.text!r}: {token!r} starts no value")
        if self.peek() == "(":
            return self.call(token)
        return self.p.name(token, self.piece)

    def differentiate(self, value, axes):
        for axis in self.p.split(axes):
            value = [sympy.diff(v, axis) for v in value] if isinstance(value, list) else sympy.diff(value, axis)
        return value

    def call(self, name):
        self.take("(")
        if name == "where":
            condition = self.predicate_or()
            self.take(",")
            a = self.sum()
            self.take(",")
            b = self.sum()
            self.take(")")
            return sympy.Piecewise((a, condition), (b, True))
        if name == "mean":
            return self.mean()
        if name == "int":
            return self.integral()
        if name in ("sum", "prod") and self.p.counted:
            return self.counted(name)
        args, at = [], {}
        while True:
            if self.t[self.i + 1] == "=":
                key = self.take()
                self.take("=")
                at[sympy.Symbol(key, real=True)] = self.sum()
            else:
                args.append(self.sum())
            if self.take() == ")":
                break
        return self.apply(name, args, at)

    def mean(self):
        """Over the whole box only."""
        value, size = self.sum(), 1
        if self.peek() == ",":
            self.take()
            self.take("domain")
        self.take(")")
        for c, (lo, hi) in self.p.ranges.items():
            value, size = sympy.integrate(value, (c, lo, hi)), size * (hi - lo)
        return value / size

    def arguments(self):
        """The texts of the arguments of a call, whose bracket is open, as lists of tokens."""
        out, depth = [[]], 1
        while depth:
            token = self.take()
            depth += {"(": 1, ")": -1}.get(token, 0)
            if token == "," and depth == 1:
                out.append([])
            elif depth:
                out[-1].append(token)
        return out

    def inside(self, tokens, names=()):
        """The value of some tokens, with some names given."""
        return Parser(self.p.with_names(dict(names)), " ".join(tokens), self.piece).value()

    def integral(self):
        args = self.arguments()
        if len(args) == 4 and args[1][0] in self.p.axes:
            s = self.p.axes[args[1][0]]
            ends = self.inside(args[2]), self.inside(args[3])
            dummy = sympy.Dummy(real=True)
            return sympy.integrate(self.inside(args[0]).subs(s, dummy), (dummy, *ends))
        if len(args) == 4:
            s = sympy.Dummy(args[1][0], real=True)
            ends = self.inside(args[2]), self.inside(args[3])
            return sympy.integrate(self.inside(args[0], {args[1][0]: s}), (s, *ends))
        value = self.inside(args[0])
        for name in args[1:]:
            s = self.p.axes[name[0]]
            value = sympy.integrate(value, (s, *self.p.ranges[s]))
        return value

    def counted(self, name):
        body, (group,) = self.arguments()
        parts = []
        for k in range(1, self.p.counted[group] + 1):
            text = [re.sub(rf"(^|_){group}(?=_|$)", rf"\g<1>{group}{k}", t) for t in body]
            parts.append(self.inside(text))
        return sum(parts) if name == "sum" else sympy.prod(parts)

    def apply(self, name, args, at):
        if name in self.p.functions:
            symbol, raw, value = self.p.functions[name]()
            if args:
                return raw.subs(symbol, args[0])
            return raw.subs(symbol, value).subs(at, simultaneous=True) if symbol not in at else raw.subs(at)
        if args and name in self.p.unknowns:
            of = self.p.data["unknowns"][name]
            of = (of["of"] if isinstance(of, dict) else of).split(",")
            at = {self.p.axes[c.strip()]: a for c, a in zip(of, args, strict=True)}
        if at:
            value = self.p.name(name, self.piece)
            return sympy.sympify(value).subs(at, simultaneous=True)
        space = self.p.space
        if name == "cole_hopf":
            return COLE_HOPF(*args)
        if name in FUNCTIONS:
            return FUNCTIONS[name](*args)
        if name in ("lap", "grad", "div", "curl") and self.p.metric != "cartesian":
            return self.p.curvilinear(name, args[0])
        if name == "lap":
            return [sum(sympy.diff(a, s, 2) for s in space) for a in args[0]] if isinstance(args[0], list) else \
                sum(sympy.diff(args[0], s, 2) for s in space)
        if name == "grad":
            return [sympy.diff(args[0], s) for s in space]
        if name == "div":
            return sum(sympy.diff(a, s) for a, s in zip(args[0], space, strict=True))
        if name == "dot":
            return sum(a * b for a, b in zip(*args, strict=True))
        if name == "norm":
            return sympy.sqrt(sum(a * a for a in args[0]))
        if name == "dn":
            axis, sign = self.p.normal(self.piece)
            length = self.p.lengths()[self.p.space.index(axis)]
            return sign * sympy.diff(args[0], axis) / length
        if name == "diff":
            return sympy.diff(*args)
        if name in self.p.definitions and self.p.definitions[name][1]:
            text, formals = self.p.definitions[name]
            return Parser(self.p.with_names(dict(zip(formals, args, strict=True))), text, self.piece).value()
        raise Refused(f"{self.text!r}: no function {name}")

    # Predicates: truth on a piece (for regions), or a sympy condition (for where).
    def predicate(self):
        out = self.predicate_or()
        self.end()
        return out

    def predicate_or(self):
        out = self.predicate_and()
        while self.peek() == "or":
            self.take()
            out = sympy.Or(out, self.predicate_and())
        return out

    def predicate_and(self):
        out = self.predicate_not()
        while self.peek() == "and":
            self.take()
            out = sympy.And(out, self.predicate_not())
        return out

    def predicate_not(self):
        if self.peek() == "not":
            self.take()
            return sympy.Not(self.predicate_not())
        if self.peek() == "boundary":
            self.take()
            return sympy.true if self.p.on_boundary(self.piece) else sympy.false
        if self.peek() in ("box", "domain"):
            self.take()
            return sympy.true
        start = self.i
        if self.peek() == "(":
            try:
                self.take()
                out = self.predicate_or()
                self.take(")")
                if self.peek() in (None, ")", "and", "or", ","):
                    return out
            except Refused:
                pass
            self.i = start
        a, out = self.sum(), sympy.true
        if self.peek() not in ("=", "<", ">", "<=", ">="):
            raise Refused(f"{self.text!r}: no test")
        while self.peek() in ("=", "<", ">", "<=", ">="):
            op, b = self.take(), self.sum()
            if self.piece is not None:
                a, b = (sympy.sympify(v).subs(self.piece) for v in (a, b))
            test = {"=": sympy.Eq, "<": sympy.Lt, ">": sympy.Gt, "<=": sympy.Le, ">=": sympy.Ge}[op]
            difference = sympy.simplify(a - b)
            if op == "=":
                out = sympy.And(out, sympy.true if difference == 0 else
                                (test(a, b) if self.piece is None else sympy.false))
            else:
                out = sympy.And(out, test(a, b))
            a = b
        return out


def scale(factor, value):
    return [factor * v for v in value] if isinstance(value, list) else factor * value


# ---- The file -------------------------------------------------------------------------------------------

class Problem:
    """A file with its exact solutions put in. `relations()` gives what should vanish, and where."""

    def __init__(self, path=None, text=None, folder=None):
        self.folder = folder or os.path.dirname(path)
        self.data = tomllib.loads(text if text is not None else open(path, encoding="utf-8").read())
        d = self.data
        self.names, self.axes, self.cache = {}, {}, {}
        self.constants = d.get("constants", {})
        self.definitions = {}
        for name, value in d.get("definitions", {}).items():
            entry = value if isinstance(value, dict) else {"value": value}
            self.definitions[name] = (entry["value"], [n.strip() for n in entry.get("of", "").split(",") if n.strip()])
        self.exact = d.get("exact", {})
        self.unknowns = list(d["unknowns"])
        self.ranges, self.space, self.periodic = {}, [], set()
        self.tables = {}
        self.metric = d["domain"].get("metric", "cartesian")
        self.counted, self.functions = {}, {}
        domain = {}
        for name, value in d["domain"].items():
            if name in ("metric", "region"):
                continue
            count = value.get("count") if isinstance(value, dict) else None
            if count:
                self.counted[name] = count
            domain.update({f"{name}{k}": value for k in range(1, count + 1)} if count else {name: value})
        for name in domain:
            self.axes[name] = sympy.Symbol(name, real=True)
        for name, value in d["unknowns"].items():
            of = value["of"] if isinstance(value, dict) else value
            if of.strip() in self.unknowns:
                self.functions[name] = functools.partial(self.function_of, name, of.strip())
        for name, t in d.get("tables", {}).items():
            function = table_function(name, os.path.join(self.folder, t["file"]), t["of"], t.get("column", name))
            self.tables[name] = function(self.axes[t["of"]])
        for name, value in domain.items():
            entry = value if isinstance(value, dict) else {"range": value}
            symbol = self.axes[name]
            self.ranges[symbol] = tuple(self.number(v) for v in entry["range"])
            if entry.get("role", "time" if name == "t" else "space") == "space":
                self.space.append(symbol)
            if entry.get("periodic"):
                self.periodic.add(symbol)

    def function_of(self, name, of):
        """b(u): its argument, its expression in it, and the value of the argument."""
        symbol = sympy.Symbol(f"argument {of}", real=True)
        other = self.with_names({of: symbol})
        other.cache = {}
        return symbol, other.number(self.exact[name]), self.declared(of)

    def lengths(self):
        """h_i of the metric; 1 for what is left out."""
        s = self.space
        if self.metric == "polar":
            return [1, s[0]][:len(s)]
        if self.metric == "spherical":
            return [1, s[0], s[0] * sympy.sin(s[1]) if len(s) > 1 else 1][:len(s)]
        return [1] * len(s)

    def curvilinear(self, name, value):
        """Operators by the general formulas with h_i and their product, the angle around the axis included."""
        s, h = self.space, self.lengths()
        volume = {"polar": s[0], "axisymmetric": s[0]}.get(self.metric)
        if self.metric == "spherical":
            volume = s[0]**2 * (sympy.sin(s[1]) if len(s) > 1 else 1)
        if name == "grad":
            return [sympy.diff(value, x) / k for x, k in zip(s, h)]
        if name == "lap":
            value = [sympy.diff(value, x) / k for x, k in zip(s, h)]
        if name in ("lap", "div"):
            return sum(sympy.diff(a * volume / k, x) for a, x, k in zip(value, s, h)) / volume
        raise Refused(f"no {name} in this metric")

    def with_names(self, names):
        other = object.__new__(Problem)
        other.__dict__ = dict(self.__dict__)
        other.names = dict(self.names, **names)
        return other

    def number(self, value):
        return Parser(self, value).value() if isinstance(value, str) else sympy.Rational(str(value))

    def declared(self, name, piece=None):
        """The value of a declared name, or None."""
        if name in self.names:
            return self.names[name]
        if name in self.axes:
            return self.axes[name]
        if name == "pi":
            return sympy.pi
        if name in self.cache and piece is None:
            return self.cache[name]
        out = None
        if name in self.constants:
            out = self.number(self.constants[name])
        elif name in self.definitions and not self.definitions[name][1]:
            out = Parser(self, self.definitions[name][0], piece).value()
        elif name in self.tables:
            out = self.tables[name]
        elif name in self.functions:
            symbol, raw, value = self.functions[name]()
            out = raw.subs(symbol, value)
        elif name in self.unknowns or name in self.data.get("parameters", {}):
            if name not in self.exact:
                raise Refused(f"no exact solution of {name}")
            value = self.exact[name]
            out = self.number(value if not isinstance(value, dict) else value["value"])
        if piece is None and out is not None:
            self.cache[name] = out
        return out

    def name(self, name, piece=None):
        if name.endswith((".min", ".max")):
            return self.ranges[self.axes[name[:-4]]][name.endswith(".max")]
        if name.startswith("normal_"):
            axis, sign = self.normal(piece)
            return sign if axis == self.axes[name[7:]] else 0
        out = self.declared(name, piece)
        if out is not None:
            return out
        head, _, of = name.partition("_")
        if head in self.functions and self.data["unknowns"][head] == of:
            symbol, raw, value = self.functions[head]()
            return sympy.diff(raw, symbol).subs(symbol, value)
        for at in [m.start() for m in re.finditer("_", name)][::-1]:
            field = self.declared(name[:at], piece)
            if field is None:
                continue
            for axis in self.split(name[at + 1:]):
                field = [sympy.diff(f, axis) for f in field] if isinstance(field, list) else sympy.diff(field, axis)
            return field
        raise Refused(f"no name {name}")

    def split(self, text):
        text = text.replace("_", "")
        if not text:
            return []
        for name, symbol in self.axes.items():
            if text.startswith(name):
                try:
                    return [symbol] + self.split(text[len(name):])
                except Refused:
                    pass
        raise Refused(f"no coordinates {text!r}")

    # Pieces: {symbol: value} of the coordinates that are fixed.
    def on_boundary(self, piece):
        return any(s in self.space and s not in self.periodic and v in self.ranges[s] for s, v in piece.items())

    def normal(self, piece):
        sides = [(s, -1 if v == self.ranges[s][0] else 1) for s, v in (piece or {}).items() if s in self.space]
        if len(sides) != 1:
            raise Refused("no normal here")
        return sides[0]

    def pieces(self, text):
        """The largest pieces on which a predicate holds; inequalities are tried at inner points."""
        named = {s: set(r) for s, r in self.ranges.items()}
        for a, b in re.findall(r"([A-Za-z]\w*)\s*=\s*([^=<>]+?)(?:\)|\band\b|\bor\b|$)", text):
            if a in self.axes:
                named[self.axes[a]].add(self.number(b.strip()))
        choices = [[None, *values] for values in named.values()]
        found = []
        for choice in sorted(itertools.product(*choices), key=lambda c: sum(v is not None for v in c)):
            piece = {s: v for s, v in zip(named, choice) if v is not None}
            if any(set(f.items()) <= set(piece.items()) for f in found) or not piece:
                continue
            truth = Parser(self, text, piece).predicate()
            inside = truth != sympy.false and any(truth.subs(x) == sympy.true for x in self.inner(piece, 5))
            if truth == sympy.true or inside:
                found.append(piece)
        if not found:
            raise Refused(f"{text!r} selects no points")
        return found

    def inner(self, piece, count):
        """Points of a piece, spread by multiples of irrational steps."""
        steps = [sympy.Rational(k) for k in ("0.6180339887", "0.4142135624", "0.7320508076", "0.2360679775")]
        for k in range(count):
            point = dict(piece)
            for j, (s, (lo, hi)) in enumerate(self.ranges.items()):
                if s not in piece:
                    point[s] = lo + (hi - lo) * ((k + sympy.Rational(1, 2)) * steps[j % len(steps)] ** (1 + j // len(steps)) % 1)
            yield {s: sympy.sympify(v).subs(point) for s, v in point.items()} # ends may depend on the time

    def relations(self):
        """Yields (entry, relation number, piece, op, terms of lhs - rhs); a vector gives several."""
        for group in ("equations", "conditions"):
            for name, entry in self.data.get(group, {}).items():
                entry = entry if isinstance(entry, dict) else {"equation": entry}
                if "data" in entry:  # holds in its rows
                    continue
                pieces = self.pieces(entry["on"]) if "on" in entry else [{}]
                number = 0
                for text in flat(entry["equation"]):
                    for piece in pieces:
                        op, left, right = Parser(self, text, piece).relation()
                        terms = left + [scale(-1, r) for r in right]
                        width = max(len(flat(t)) for t in terms)
                        for k in range(width):
                            parts = [flat(t)[min(k, len(flat(t)) - 1)] for t in terms]
                            yield name, number + k, piece, op, [sympy.sympify(v) for v in parts]
                    number += width


def evaluate(expression, point):
    """An mpf; NaN where the expression has no value."""
    value = sympy.sympify(expression).subs(point, simultaneous=True)
    value = value.evalf(DIGITS)
    return mpmath.mpf(value._mpf_) if value.is_Float else mpmath.mpf(str(value))


def defect(problem, piece, op, terms, count=6):
    """(largest |residual| / largest |term| over points, the residual and point there)."""
    worst = (mpmath.mpf(0), mpmath.mpf(0), None)
    for point in problem.inner(piece, count):
        values = [evaluate(t, point) for t in terms]
        residual = sum(values)
        if op == "<=":
            residual = max(residual, 0)
        if op == ">=":
            residual = min(residual, 0)
        size = max(abs(v) for v in values)
        relative = abs(residual) / size if size > ROUNDING else mpmath.mpf(0)
        if relative > worst[0] or worst[2] is None:
            worst = (relative, residual, point)
    return worst
