"""Writes the tables and measurements of problems/*/data: rows of solutions that the problem files name.

    python3 tests/reference/make_library.py [FOLDER]        (default: problems/ of this repository)

    deepxde/lotka_volterra   scaled predators and prey, DOP853 at a relative tolerance of 1e-13
    deepxde/lorenz*          Lorenz system, 10, 15, 8/3, without and with a force 10 sin(2 pi t), DOP853 at 1e-12
    deepxde/vortices         Taylor-Green vortices that drift with speed 1, closed form, scattered points
    deepxde/brinkman         flow in a porous channel, closed form, five points
    deepxde/diffusion        exp(-1) sin(pi x), ten points
    deepxde/reaction_rate    two-point problem by scipy's solve_bvp at 1e-10
    deepxde/elliptic         sin(pi x), 100 points
    deepxde/reaction         two substances by the method of lines, second order on 801 nodes
    format/field             prey of Lotka and Volterra every quarter, with noise of 2
    format/sensors           exp(-t) sin(pi x), scattered points
    format/ghia-re100        horizontal velocity on the vertical centre line of the cavity at Re 100: the 17 figures of
                             U. Ghia, K. N. Ghia and C. T. Shin, J. Comput. Phys. 48 (1982), table I
    pinnacle/*_inverse       noisy values of the exact solutions, standard deviation 0.1

Random numbers come from a fixed seed, so the files are always the same. Needs numpy and scipy; runs half a minute.
"""
import sys
from pathlib import Path

import numpy as np
from scipy.integrate import solve_bvp, solve_ivp

ROOT = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[2] / "problems"


def write(name, columns, rows, digits=17):
    path = ROOT / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", newline="\n") as file:
        file.write(",".join(columns) + "\n")
        for row in rows:
            file.write(",".join("%.*g" % (digits, value) for value in row) + "\n")


def integrate(f, y0, times, tolerance):
    got = solve_ivp(f, (times[0], times[-1]), y0, method="DOP853", rtol=tolerance, atol=tolerance * 1e-3, t_eval=times)
    assert got.success, got.message
    return got.y


def lotka_volterra():
    unit, span = 200, 20

    def f(_, y):
        r, p = y
        return [span * (2 * r - 0.04 * unit * r * p), span * (0.02 * unit * r * p - 1.06 * p)]

    t = np.linspace(0, 1, 2001)
    r, p = integrate(f, [0.5, 0.075], t, 1e-13)
    invariant = 0.02 * unit * r - 1.06 * np.log(r) + 0.04 * unit * p - 2 * np.log(p)
    assert np.ptp(invariant) < 1e-9 * abs(invariant[0])
    write("deepxde/data/lotka_volterra.csv", "trp", zip(t, r, p), 14)


def lorenz():
    times = np.linspace(0, 3, 26)[1:]
    dense = np.linspace(0, 3, 601)
    for name, size in (("lorenz", 0), ("lorenz_forced", 10)):

        def f(t, y):
            a, b, c = y
            return [10 * (b - a), a * (15 - c) - b, a * b - 8 / 3 * c + size * np.sin(2 * np.pi * t)]

        y = integrate(f, [-8, 7, 27], np.concatenate(([0], times)), 1e-12)[:, 1:]
        write(f"deepxde/data/{name}.csv", ["t", "a_obs", "b_obs", "c_obs"], zip(times, *y), 12)
    write("deepxde/data/lorenz_force.csv", "tf", zip(dense, 10 * np.sin(2 * np.pi * dense)), 15)


def vortices(random):
    x, y, t = random.uniform(1, 8, 500), random.uniform(-2, 2, 500), random.uniform(0, 7, 500)
    fade = np.exp(-0.02 * t)
    u = 1 + np.cos(x - t) * np.sin(y) * fade
    v = -np.sin(x - t) * np.cos(y) * fade
    write("deepxde/data/vortices.csv", ["x", "y", "t", "u_obs", "v_obs"], zip(x, y, t, u, v), 15)


def channel():
    x = np.linspace(1 / 6, 1, 5, endpoint=False)
    k = np.sqrt(1e-3 * 0.4 / 1e-6)
    write("deepxde/data/brinkman.csv", ["x", "u_obs"], zip(x, 1 - np.cosh(k * (x - 0.5)) / np.cosh(k / 2)))


def poisson_and_diffusion():
    x = np.linspace(-1, 1, 10)
    write("deepxde/data/diffusion.csv", ["x", "t", "u_obs"], zip(x, 0 * x + 1, np.exp(-1) * np.sin(np.pi * x)))
    x = np.linspace(-1, 1, 100)
    write("deepxde/data/elliptic.csv", ["x", "u_obs"], zip(x, np.sin(np.pi * x)))


def reaction_rate():
    def k(x):
        return 0.1 + np.exp(-0.5 * (x - 0.5) ** 2 / 0.15**2)

    x = np.linspace(0, 1, 401)
    got = solve_bvp(lambda x, y: np.vstack((y[1], (k(x) * y[0] + np.sin(2 * np.pi * x)) / 0.01)),
                    lambda a, b: np.array([a[0], b[0]]), x, np.zeros((2, x.size)), tol=1e-10, max_nodes=100000)
    assert got.success, got.message
    write("deepxde/data/reaction_rate.csv", "xu", zip(x, got.sol(x)[0]), 13)


def reaction():
    n, speed, diffusion = 801, 0.1, 2e-3
    x = np.linspace(0, 1, n)
    h = x[1] - x[0]
    ends = 1 - x

    def f(_, y):
        a, b = y[:n].copy(), y[n:].copy()
        a[[0, -1]], b[[0, -1]] = ends[[0, -1]], ends[[0, -1]]
        out = np.zeros(2 * n)
        rate = speed * a * b**2
        for field, name, share in ((a, 0, 1), (b, n, 2)):
            out[name + 1:name + n - 1] = diffusion * (field[2:] - 2 * field[1:-1] + field[:-2]) / h**2 - share * rate[1:-1]
        return out

    y0 = np.exp(-20 * np.concatenate((x, x)))
    times = np.linspace(0, 10, 11)[1:]
    got = solve_ivp(f, (0, 10), y0, method="BDF", rtol=1e-7, atol=1e-9, t_eval=times, lband=None)
    assert got.success, got.message
    rows = []
    for i, t in enumerate(times):
        for j in range(8, n - 1, 8):
            rows.append((x[j], t, got.y[j, i], got.y[n + j, i]))
    write("deepxde/data/reaction.csv", ["x", "t", "a_obs", "b_obs"], rows, 8)


def format_files(random):
    def f(_, y):
        r, p = y
        return [2 * r - 0.04 * r * p, 0.02 * r * p - 1.06 * p]

    t = np.linspace(0, 10, 41)
    r, _ = integrate(f, [100, 15], t, 1e-12)
    write("format/field.csv", ["day", "hares"], zip(t, r + random.normal(0, 2, t.size)), 8)
    x, t = random.uniform(0, 1, 200), random.uniform(0, 1, 200)
    write("format/sensors.csv", ["x", "t", "u_obs"], zip(x, t, np.exp(-t) * np.sin(np.pi * x)), 15)
    ghia = ((1, 1), (0.9766, 0.84123), (0.9688, 0.78871), (0.9609, 0.73722), (0.9531, 0.68717), (0.8516, 0.23151),
            (0.7344, 0.00332), (0.6172, -0.13641), (0.5, -0.20581), (0.4531, -0.21090), (0.2813, -0.15662),
            (0.1719, -0.10150), (0.1016, -0.06434), (0.0703, -0.04775), (0.0625, -0.04192), (0.0547, -0.03717), (0, 0))
    write("format/ghia-re100.csv", ["y", "u_ref"], ghia, 6)


def pinnacle(random):
    x, y = (side.ravel() for side in np.meshgrid(np.linspace(0, 1, 50), np.linspace(0, 1, 50)))
    u = np.sin(np.pi * x) * np.sin(np.pi * y) + random.normal(0, 0.1, x.size)
    write("pinnacle/data/poisson_inverse.csv", ["x", "y", "u_obs"], zip(x, y, u), 8)
    x, y, t = random.uniform(-1, 1, 2500), random.uniform(-1, 1, 2500), random.uniform(0, 1, 2500)
    u = np.exp(-t) * np.sin(np.pi * x) * np.sin(np.pi * y) + random.normal(0, 0.1, x.size)
    write("pinnacle/data/heat_inverse.csv", ["x", "y", "t", "u_obs"], zip(x, y, t, u), 8)


def main():
    lotka_volterra()
    lorenz()
    vortices(np.random.default_rng(1))
    channel()
    poisson_and_diffusion()
    reaction_rate()
    reaction()
    format_files(np.random.default_rng(2))
    pinnacle(np.random.default_rng(3))


main()
