"""Puts the exact solution of every problem file into its equations and conditions, by sympy and mpmath alone.

Prints one line a relation: the largest |residual| over the largest term. Formulas must vanish to 30 of 40 digits
(cole_hopf, differentiated by differences: 12), tables to what their cubic spline allows. Exit status 1 if one
does not. It takes a minute or two, most of it for Burgers.

    python3 tests/reference/check_solutions.py [FILE.toml ...]      (default: all of problems/)
"""
import sys
from pathlib import Path

import mpmath

from language import Problem, defect


def bound(problem):
    if problem.tables:
        return mpmath.mpf("1e-6")  # the spline's first derivative: h^3 times the fourth derivative
    text = " ".join(str(v) for v in problem.exact.values())
    return mpmath.mpf("1e-12") if "cole_hopf" in text else mpmath.mpf("1e-30")


def main():
    root = Path(__file__).resolve().parents[2]
    files = [Path(f) for f in sys.argv[1:]] or sorted((root / "problems").glob("*.toml"))
    wrong = 0
    for path in files:
        problem = Problem(str(path))
        limit = bound(problem)
        for name, number, piece, op, terms in problem.relations():
            relative, residual, point = defect(problem, piece, op, terms)
            place = ", ".join(f"{s} = {v}" for s, v in piece.items())
            fine = relative <= limit
            wrong += not fine
            print(f"{path.stem:14s} {name}.{number + 1} {place:16s} {mpmath.nstr(relative, 3):>12s}"
                  + ("" if fine else f"   WRONG: {mpmath.nstr(residual, 12)} at {point}"), flush=True)
    print(f"{len(files)} files, {wrong} relations wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
