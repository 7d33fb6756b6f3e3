"""Recomputes every number of tests/data/cases/ with sympy and mpmath, independent of the program.

values.txt: each value from the exact solution of its file, or, where the file has none, from the series or formula
below. expected.txt: for each record, its edit is made, the exact solution put in, and a number that is demanded
after the name of a relation must be the residual or a term there; a file that shall pass without warning must have
residuals that vanish. Exit status 1 with a line for each disagreement; -v prints what the files give.

    python3 tests/reference/check_cases.py [-v]
"""
import sys
from pathlib import Path

import mpmath
import sympy

from language import Parser, Problem, Refused, defect, evaluate

FOLDER = Path(__file__).resolve().parents[1] / "data" / "cases"
VERBOSE = "-v" in sys.argv


def robin(x, t):
    """u_t = u_xx, u_x(0) = 0, u_x(1) + 2 u(1) = 0, u = 1 at t = 0: sum over k tan k = 2."""
    total = mpmath.mpf(0)
    for n in range(40):
        ends = (n * mpmath.pi + mpmath.mpf("1e-3"), n * mpmath.pi + mpmath.pi / 2)
        k = mpmath.findroot(lambda k: k * mpmath.sin(k) - 2 * mpmath.cos(k), ends, solver="anderson")
        total += 4 * mpmath.sin(k) / (2 * k + mpmath.sin(2 * k)) * mpmath.cos(k * x) * mpmath.exp(-k * k * t)
    return total


def call_price(S, t):
    """Black and Scholes: strike 100, rate 0.1, volatility 0.2, end at t = 1."""
    tau = 1 - t
    d1 = (mpmath.log(S / 100) + mpmath.mpf("0.12") * tau) / (mpmath.mpf("0.2") * mpmath.sqrt(tau))
    d2 = d1 - mpmath.mpf("0.2") * mpmath.sqrt(tau)
    return S * mpmath.ncdf(d1) - 100 * mpmath.exp(-tau / 10) * mpmath.ncdf(d2)


FORMULAS = {"b01_robin": robin, "f36_option": call_price}


def split(line):
    fields = [field.strip() for field in (line + " ").replace(" |", "\x00").split("\x00")]
    return fields


def lines_of(name):
    for number, line in enumerate((FOLDER / name).read_text(encoding="utf-8").splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            yield number, split(line)


def edited(text, edit):
    if not edit:
        return text
    old, new = (part.strip().replace("\\n", "\n") for part in edit.split("=>", 1))
    if old not in text:
        raise SystemExit(f"nothing to replace by {edit!r}")
    return text.replace(old, new, 1)


def point_of(problem, text):
    return {problem.axes[k.strip()]: sympy.Rational(v) for k, v in (part.split("=") for part in text.split(","))}


def digits(text):
    return len(text.lstrip("-").replace(".", "").lstrip("0").split("e")[0])


def agrees(value, text):
    """`value` rounds to the digits of `text` (a unit in the last one is allowed); short numbers are exact."""
    want = mpmath.mpf(text)
    if digits(text) < 8:
        return abs(value - want) < mpmath.mpf("1e-12") * max(1, abs(want))
    scale = mpmath.mpf(10) ** (mpmath.floor(mpmath.log10(abs(want))) + 1 - digits(text))
    return abs(value - want) <= scale


def check_values():
    wrong = 0
    for number, (file, point, expression, text, _grade) in lines_of("values.txt"):
        problem = Problem(str(FOLDER / f"{file}.toml"))
        if file in FORMULAS:
            value = FORMULAS[file](*(mpmath.mpf(part.split("=")[1]) for part in point.split(",")))
        else:
            value = evaluate(Parser(problem, expression).value(), point_of(problem, point))
        fine = agrees(value, text)
        wrong += not fine
        if VERBOSE or not fine:
            print(f"values.txt:{number}: {file} {expression} at {point}: {mpmath.nstr(value, 16)}"
                  + ("" if fine else f", not {text}"))
    return wrong


def rounding(file, problem):
    """What may be left of a solution that fits: constants and power series of 16 digits, derivatives by differences."""
    rough = file in ("b01_series", "b24_stefan", "f32_mixed") or "cole_hopf" in str(problem.exact)
    return mpmath.mpf("1e-14" if rough else "1e-28")


def check_numbers(where, name, terms, at, demands):
    """The demanded numbers of one relation against its residual and terms at a point."""
    values = [evaluate(t, at) for t in terms]
    residual = sum(values)
    said = f"{where} {name} residual {mpmath.nstr(residual, 16)} terms " + " ".join(mpmath.nstr(v, 12) for v in values)
    wrong = 0
    for demand in demands:
        text = demand.split("~")[-1].strip()
        found = any(agrees(v, text) or ("~~" in demand and agrees(-v, text)) for v in [residual, *values])
        wrong += not found
        if not found:
            print(f"{said}: not {demand}")
    if VERBOSE and demands:
        print(said)
    return wrong


def check_record(where, file, edit, arguments, demands):
    problem = Problem(text=edited((FOLDER / f"{file}.toml").read_text(encoding="utf-8"), edit), folder=str(FOLDER))
    at = point_of(problem, arguments.split("--at ")[1]) if "--at " in arguments else None
    wrong = 0
    for name, k, piece, op, terms in problem.relations():
        if at and all(at[s] == v for s, v in piece.items()):
            own = [d for d in demands if " ~" in d and d.split(" ~")[0].strip() == name]
            wrong += check_numbers(f"{where} {file}", name, terms, at, own)
        if "! warning:" in demands:
            relative, _, point = defect(problem, piece, op, terms, 3)
            if relative > rounding(file, problem):
                wrong += 1
                print(f"{where} {file} {name}.{k + 1}: the exact solution leaves {mpmath.nstr(relative, 3)} at {point}")
    return wrong


def main():
    wrong, checked, left = check_values(), 0, 0
    for number, (file, edit, arguments, _status, demands) in lines_of("expected.txt"):
        wanted = [d.strip() for d in demands.split(";;")]
        numeric = any(" ~" in d for d in wanted)
        if not numeric and not ("! warning:" in wanted and arguments.startswith("check")):
            edited((FOLDER / f"{file}.toml").read_text(encoding="utf-8"), edit)
            left += 1
            continue
        where = f"expected.txt:{number}:"
        try:
            wrong += check_record(where, file, edit, arguments, wanted)
            checked += 1
        except Refused as reason:  # without an exact solution there is nothing to put in
            left += 1
            if numeric:
                wrong += 1
                print(f"{where} {file}: {reason}")
    print(f"{checked} records recomputed, {left} of texts alone, {wrong} disagreements")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
