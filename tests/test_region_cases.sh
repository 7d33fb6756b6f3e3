#!/usr/bin/env bash
# ctest: labels=quick,cases timeout=90
#
# The records of tests/data/cases/regions.txt: problems on domains that are not boxes. See test_cases.sh. Then a
# solution is looked at inside and outside its region.
set -u
export LC_ALL=C
cases=$SOURCE_DIR/tests/data/cases
RECORDS=regions.txt bash "$SOURCE_DIR/tests/test_cases.sh" "$@" || exit 1

fail() { printf '%s\n' "$1"; exit 1; }

rm -rf cylinder
"$PINN" solve "$cases/b16_cylinder.toml" --out cylinder --set stage.1.optimizer=adam --set stage.1.steps=3 \
  --set network.width=4 --set network.depth=1 --set points.interior=64 --threads 1 >solve.txt 2>&1
[ $? -le 1 ] && [ -f cylinder/result.h5 ] || { cat solve.txt; fail "the run left no result"; }

# R09: 101 x 101 points; those strictly inside the disc have no number, all others have one.
"$PINN" eval cylinder --grid x=-3:3:101,y=-3:3:101 --out grid.csv f vx >eval.txt 2>&1 || { cat eval.txt; fail "eval failed"; }
[ "$(head -1 grid.csv)" = x,y,f,vx ] || fail "columns of grid.csv: $(head -1 grid.csv)"
awk -F, 'NR > 1 {
  ++n; r = $1*$1 + $2*$2; hole = $3 == "nan"
  if (hole != (r < 1 - 1e-9) && !(r > 1 - 1e-6 && r < 1 + 1e-6)) { print "x = " $1 ", y = " $2 ": " $3; bad = 1 }
  holes += hole
} END { exit bad || n != 10201 || holes < 800 }' grid.csv || fail "the disc is not masked"

"$PINN" eval cylinder --grid x=0.5,y=0.5 f >eval.txt 2>&1
[ $? -eq 2 ] && grep -q "x = 0.5, y = 0.5 lies outside the region" eval.txt || { cat eval.txt; fail "a point in the disc"; }
printf 'x,y\n2,0\n0.5,0.5\n' >points.csv
"$PINN" eval cylinder --points points.csv f >eval.txt 2>&1
[ $? -eq 2 ] && grep -q "points.csv:3: row 2" eval.txt || { cat eval.txt; fail "a row in the disc"; }
"$PINN" eval cylinder --grid x=1,y=0 f >eval.txt 2>&1 || { cat eval.txt; fail "a point on the rim"; }
