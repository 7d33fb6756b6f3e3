"""Writes the measured points of the inverse cases: tests/data/cases/i*.csv, tests/data/problems/{field,sensors}.csv.

    python3 tests/reference/make_measured.py

Numbers are those of the exact solutions at random places of a fixed seed, with and without noise; those of the
hidden component come from the equations by Taylor series of order 30 with 40 digits.
"""
import math
import random
from pathlib import Path

import mpmath

DATA = Path(__file__).resolve().parents[1] / "data"


def write(name, header, rows, folder="cases"):
    lines = [",".join(header)] + [",".join(format(x, ".12g") for x in row) for row in rows]
    (DATA / folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


def speed(noise):
    draw = random.Random(1)
    rows = []
    for _ in range(200):
        x, t = draw.uniform(0, 2 * math.pi), draw.uniform(0, 1)
        u = math.exp(-0.1 * t) * math.sin(x - 2 * t)
        rows.append((x, t, u + draw.gauss(0, noise)))
    return rows


def predator_prey(times):
    """r' = 2 r - 0.04 r p, p' = 0.02 r p - 1.06 p from (100, 15), by steps of Taylor series."""
    mpmath.mp.dps = 40
    order, step = 30, mpmath.mpf(1) / 64
    r, p, t, out = mpmath.mpf(100), mpmath.mpf(15), mpmath.mpf(0), []
    for target in times:
        while t < target - mpmath.mpf("1e-20"):
            a, b = [r], [p]
            for k in range(order):
                product = sum(a[i] * b[k - i] for i in range(k + 1))
                a.append((2 * a[k] - mpmath.mpf("0.04") * product) / (k + 1))
                b.append((mpmath.mpf("0.02") * product - mpmath.mpf("1.06") * b[k]) / (k + 1))
            r = sum(c * step**k for k, c in enumerate(a))
            p = sum(c * step**k for k, c in enumerate(b))
            t += step
        out.append((float(target), float(r), float(p)))
    return out


def main():
    write("i01_speed.csv", ("x", "t", "u_obs"), speed(0))
    write("i01_noise.csv", ("x", "t", "u_obs"), speed(0.01))
    places = [-1 + 2 * (i + 0.5) / 50 for i in range(50)]
    write("i05_field.csv", ("x", "u"), [(x, math.sin(math.pi * x)) for x in places])
    write("i06_coefficient.csv", ("x", "u"), [(x, math.sin(math.pi * x)) for x in ((i + 0.5) / 50 for i in range(50))])
    prey = predator_prey([mpmath.mpf(i) / 4 for i in range(41)])
    write("i08_hidden.csv", ("day", "hares"), [(t, r) for t, r, _ in prey])
    draw = random.Random(2)
    write("field.csv", ("day", "hares"), [(t, r + draw.gauss(0, 2)) for t, r, _ in prey], "problems")
    places = [(draw.uniform(0, 1), draw.uniform(0, 1)) for _ in range(200)]
    write("sensors.csv", ("x", "t", "u_obs"), [(x, t, math.exp(-t) * math.sin(math.pi * x)) for x, t in places], "problems")


if __name__ == "__main__":
    main()
