"""Confirms that every line of tests/data/mistakes.txt is a mistake: by sympy, independent of the program.

Kind `dropped`: all relations still vanish, so that only a count of conditions can notice it. Every other kind: the
named relation no longer vanishes, with the exact solution of the file put in, by at least 1e-3 of its largest term.

    python3 tests/reference/check_mistakes.py
"""
import sys
from pathlib import Path

import mpmath

from check_cases import edited, split
from language import Problem, defect

ROOT = Path(__file__).resolve().parents[2]


def main():
    wrong, count = 0, {}
    for number, line in enumerate((ROOT / "tests/data/mistakes.txt").read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        file, kind, edit, name = split(line)
        count[file] = count.get(file, 0) + 1
        path = ROOT / "problems" / f"{file}.toml"
        problem = Problem(text=edited(path.read_text(encoding="utf-8"), edit), folder=str(path.parent))
        worst = mpmath.mpf(0)
        for entry, _, piece, op, terms in problem.relations():
            if entry == name or (kind == "dropped" and "cole_hopf" not in str(problem.exact)):
                worst = max(worst, defect(problem, piece, op, terms, 2)[0])
        if (worst < 1e-3) != (kind == "dropped"):
            wrong += 1
            print(f"mistakes.txt:{number}: {line}: defect {mpmath.nstr(worst, 3)}")
    print(f"{sum(count.values())} mistakes in {len(count)} files ({min(count.values())} at least), {wrong} doubtful")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
