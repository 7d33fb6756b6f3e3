"""Writes problems/data/predator_prey.csv: the reference of problems/predator_prey.toml.

    r' = 2 r - 0.04 r p,   p' = 0.02 r p - 1.06 p,   r(0) = 100, p(0) = 15,   t in [0, 10].

Method: Taylor series of order ORDER with 50 digits and fixed steps of 0.005, coefficients by the recurrence of
products. The last term of the series bounds the error of a step below 1e-30, so the printed doubles are right to
rounding. Checked here in three independent ways: the invariant 0.02 r - 1.06 ln r + 0.04 p - 2 ln p, scipy's
DOP853 at a relative tolerance of 1e-13, and half the step. The error of a cubic spline through the rows (ends:
not a knot) is measured against the series between the rows and written into the file.

    python3 tests/reference/make_predator_prey.py [OUTPUT.csv]

Needs mpmath, numpy and scipy; runs a few seconds.
"""
import sys
from pathlib import Path

import mpmath
import numpy as np
from scipy.integrate import solve_ivp
from scipy.interpolate import CubicSpline

ORDER = 16
STEPS = 2000
END = 10
mpmath.mp.dps = 50
A, B, C, D = (mpmath.mpf(s) for s in ("2", "0.04", "0.02", "1.06"))


def series(r, p):
    """Taylor coefficients of r and p about a point."""
    rs, ps = [r], [p]
    for k in range(ORDER):
        product = mpmath.fsum(rs[j] * ps[k - j] for j in range(k + 1))
        rs.append((A * rs[k] - B * product) / (k + 1))
        ps.append((C * product - D * ps[k]) / (k + 1))
    return rs, ps


def value(coefficients, h):
    return mpmath.polyval(coefficients[::-1], h)


def march(steps):
    """Values at the steps, values half-way between them, and the largest last term of a series."""
    h = mpmath.mpf(END) / steps
    r, p = mpmath.mpf(100), mpmath.mpf(15)
    at, middle, last = [(r, p)], [], mpmath.mpf(0)
    for _ in range(steps):
        rs, ps = series(r, p)
        middle.append((value(rs, h / 2), value(ps, h / 2)))
        last = max(last, abs(rs[-1]) * h**ORDER, abs(ps[-1]) * h**ORDER)
        r, p = value(rs, h), value(ps, h)
        at.append((r, p))
    return at, middle, last


def invariant(r, p):
    return C * r - D * mpmath.log(r) + B * p - A * mpmath.log(p)


def main():
    root = Path(__file__).resolve().parents[2]
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else root / "problems" / "data" / "predator_prey.csv"
    at, middle, last = march(STEPS)
    finer, _, _ = march(2 * STEPS)
    drift = max(abs(invariant(r, p) - invariant(*at[0])) for r, p in at)
    halved = max(max(abs(a - c), abs(b - d)) for (a, b), (c, d) in zip(at, finer[::2]))
    t = np.linspace(0, END, STEPS + 1)
    other = solve_ivp(lambda _, y: [2 * y[0] - 0.04 * y[0] * y[1], 0.02 * y[0] * y[1] - 1.06 * y[1]], (0, END),
                      [100.0, 15.0], method="DOP853", rtol=1e-13, atol=1e-11, t_eval=t)
    numbers = np.array([[float(r), float(p)] for r, p in at])
    difference = np.max(np.abs(other.y.T - numbers) / np.max(np.abs(numbers), axis=0))
    between = np.array([[float(r), float(p)] for r, p in middle])
    spline = np.max(np.abs(CubicSpline(t, numbers)(t[:-1] + END / STEPS / 2) - between), axis=0)
    relative = spline / np.max(np.abs(numbers), axis=0)
    print(f"last term of a series      {mpmath.nstr(last, 3)}")
    print(f"half the step              {mpmath.nstr(halved, 3)}")
    print(f"invariant                  {mpmath.nstr(invariant(*at[0]), 12)}, drift {mpmath.nstr(drift, 3)}")
    print(f"DOP853, relative           {difference:.2e}")
    print(f"spline between rows        r {spline[0]:.2e}  p {spline[1]:.2e}  relative {max(relative):.2e}")
    for k in (1, 5, 10):
        r, p = at[k * STEPS // END]
        print(f"t = {k:2d}  r = {mpmath.nstr(r, 14)}  p = {mpmath.nstr(p, 14)}")
    assert last < 1e-30 and halved < 1e-30 and drift < 1e-30 and difference < 1e-11 and max(relative) < 1e-7
    lines = [
        "# Predator and prey: r' = 2 r - 0.04 r p, p' = 0.02 r p - 1.06 p, r(0) = 100, p(0) = 15.",
        "# Taylor series with 50 digits (tests/reference/make_predator_prey.py): rows are right to the last",
        f"# digit; a cubic spline through them is off by at most {spline[0]:.1e} in r and {spline[1]:.1e} in p.",
        "t,r,p",
    ]
    lines += [f"{i * END / STEPS:.10g},{mpmath.nstr(r, 17)},{mpmath.nstr(p, 17)}" for i, (r, p) in enumerate(at)]
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("\n".join(lines) + "\n", encoding="ascii")
    print(f"wrote {out} ({out.stat().st_size} bytes)")


if __name__ == "__main__":
    main()
