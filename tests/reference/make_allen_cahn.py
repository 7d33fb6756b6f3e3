"""Writes problems/data/allen_cahn.csv: the reference of problems/allen_cahn.toml.

    u_t = 1e-4 u_xx + 5 (u - u^3),   x in [-1, 1], t in [0, 1],   u = x^2 cos(pi x) at t = 0,   u_x = 0 at the ends.

u is even about 0 and about 1, so it is a cosine series on [0, 1]; time steps by ETDRK4 (Cox and Matthews 2002,
coefficients by contour integrals as Kassam and Trefethen 2005). The first data have u_x = -2 at x = 1: the ends form
a layer at once, and the series converges slowly there while t is small. Shown and written into the file: the
difference to the solution with half the resolution in x and t, and the error of a cubic spline through the rows
against the fine solution between them, away from the corner (t >= 0.02), which is what the reference is worth.

    python3 tests/reference/make_allen_cahn.py [OUTPUT.csv]

Needs numpy and scipy; runs a few seconds.
"""
import sys
from pathlib import Path

import numpy as np
import scipy.fft
from scipy.interpolate import CubicSpline

D, RATE = 1e-4, 5.0


def solve(n, m):
    """u at the nodes j/n, j = 0 .. n, and times i/m, i = 0 .. m."""
    x = np.linspace(0, 1, n + 1)
    linear = RATE - D * (np.pi * np.arange(n + 1)) ** 2
    h = 1 / m
    circle = np.exp(1j * np.pi * (np.arange(32) + 0.5) / 32)
    z = (h * linear)[:, None] + circle
    whole, half = np.exp(h * linear), np.exp(h * linear / 2)
    q = h * ((np.exp(z / 2) - 1) / z).mean(1).real
    f1 = h * ((-4 - z + np.exp(z) * (4 - 3 * z + z * z)) / z**3).mean(1).real
    f2 = h * ((2 + z + np.exp(z) * (z - 2)) / z**3).mean(1).real
    f3 = h * ((-4 - 3 * z - z * z + np.exp(z) * (4 - z)) / z**3).mean(1).real

    def series(u):
        return scipy.fft.dct(u, type=1) / n

    def values(c):
        return scipy.fft.dct(c, type=1) / 2

    def reaction(c):
        return series(-RATE * values(c) ** 3)

    c = series(x * x * np.cos(np.pi * x))
    rows = [values(c)]
    for _ in range(m):
        n0 = reaction(c)
        a = half * c + q * n0
        n1 = reaction(a)
        b = half * c + q * n1
        n2 = reaction(b)
        n3 = reaction(half * a + q * (2 * n2 - n0))
        c = whole * c + f1 * n0 + 2 * f2 * (n1 + n2) + f3 * n3
        rows.append(values(c))
    return np.array(rows)


def main():
    here = Path(__file__).resolve()
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else here.parents[2] / "problems/data/allen_cahn.csv"
    n, m = 4000, 4000
    fine, half = solve(n, m), solve(n // 2, m // 2)
    gap = np.abs(fine[::2, ::2] - half)[m // 100 :].max()
    knots = np.unique(np.concatenate([np.arange(0, 1720, 80), np.arange(1720, 2281, 10), np.arange(2280, 3600, 80),
                                      np.arange(3600, 3840, 20), np.arange(3840, 4001, 8)]))
    times = np.unique(np.concatenate([np.arange(0, 80, 20), np.arange(80, 400, 40), np.arange(400, 4001, 100)]))
    x = np.concatenate([-knots[:0:-1], knots]) / n
    table = fine[np.ix_(times, knots)]
    both = np.concatenate([table[:, :0:-1], table], 1)
    back = CubicSpline(x, CubicSpline(times / m, both)(np.arange(0, m + 1, 10) / m), axis=1)(np.arange(n + 1) / n)
    spline = np.abs(back - fine[::10])[m // 500 :].max()
    text = [f"# Allen-Cahn, d = 1e-4: cosine series and ETDRK4 (tests/reference/make_allen_cahn.py). For t >= 0.02 half the",
            f"# resolution differs by {gap:.1e} at most, and a cubic spline through the rows by {spline:.1e}.", "x,t,u"]
    for j, place in enumerate(x):
        text += [f"{place:.10g},{i / m:.10g},{both[row, j]:.7f}" for row, i in enumerate(times)]
    out.write_text("\n".join(text) + "\n")
    print(f"{out}: {len(x)} x {len(times)} rows; half the resolution {gap:.1e}, spline {spline:.1e}")


main()
