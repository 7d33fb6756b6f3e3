#!/usr/bin/env bash
# ctest: labels=quick,cases timeout=60
#
# What an ansatz or hard = true promises holds for every network: after one step from random weights, expressions
# that must vanish on a face are evaluated there. The bound in f64 is 1e-14 for values of size 1 (some tens of
# roundings of 2^-53) and 1e-13 for the slope of b12 (a difference of derivatives of the network), in f32 1e-6
# (2^-24 likewise). So that the test can fail, a wrong expression must miss the same bound.
set -u
export LC_ALL=C
cases=$SOURCE_DIR/tests/data/cases
bad=0 total=0

# solved FILE OUT SET...: one step of adam from seed 3; the exit status is 1 (not converged)
solved() {
  local file=$1 out=$2
  shift 2
  "$PINN" solve "$file" --out "$out" --seed 3 --set 'stage=[{optimizer = "adam", steps = 1}]' "$@" \
    >output.txt 2>&1 </dev/null
  local status=$?
  if [ "$status" -gt 1 ]; then
    printf '%s: exit status %d\n' "$file" "$status"
    sed 's/^/    /' output.txt
    bad=$((bad + 1)) total=$((total + 1))
    return 1
  fi
}

# largest OUT POINTS EXPRESSION: the largest |value| over the points
largest() {
  "$PINN" eval "$1" --points "$2" "$3" >values.csv 2>values.err </dev/null || {
    sed 's/^/    /' values.err >&2
    echo nan
    return
  }
  awk -F, 'NR > 1 { v = $NF < 0 ? -$NF : $NF; if (v > m) m = v; n++ } END { if (n) printf "%.3g\n", m; else print "nan" }' \
    values.csv
}

compare() { # compare OUT POINTS EXPRESSION OP BOUND: OP is <= or >
  local value
  value=$(largest "$1" "$2" "$3")
  total=$((total + 1))
  if ! awk -v v="$value" -v op="$4" -v b="$5" \
    'BEGIN { exit !(v != "nan" && v != "-nan" && (op == "<=" ? v + 0 <= b + 0 : v + 0 > b + 0)) }'; then
    printf '%s: `%s` is %s on %s, not %s %s\n' "$1" "$3" "$value" "$2" "$4" "$5"
    bad=$((bad + 1))
  fi
}

face() { # face FILE HEADER X T: 21 points; X or T as an awk expression of s in [0, 1]
  awk "BEGIN { print \"$2\"; for (i = 0; i <= 20; i++) { s = i / 20; printf \"%.17g,%.17g\\n\", $3, $4 } }" >"$1"
}
face left.csv x,t 0 s
face right.csv x,t 1 s
face minus.csv x,t -1 s
face start.csv x,t s 0
face middle.csv x,t s 0.5
face west.csv x,y 0 s
printf 'x\n0\n' >zero.csv
printf 'x\n1\n' >one.csv

for precision in f64 f32; do
  [ "$precision" = f64 ] && value=1e-14 slope=1e-13 || value=1e-6 slope=1e-5
  set=(--set "precision.compute=\"$precision\"")
  if solved "$cases/b11a_two_ends.toml" "a-$precision" "${set[@]}"; then
    compare "a-$precision" left.csv 'u - exp(-2*t)' '<=' $value
    compare "a-$precision" right.csv 'u - exp(-3*t)' '<=' $value
    compare "a-$precision" start.csv 'u - 1' '<=' $value
    compare "a-$precision" left.csv 'u - exp(-3*t)' '>' 1e-3
  fi
  if solved "$cases/b11b_one_face.toml" "b-$precision" "${set[@]}"; then
    compare "b-$precision" west.csv 'u - y^2' '<=' $value
    compare "b-$precision" west.csv 'u_x' '>' 1e-3
  fi
  if solved "$cases/b11c_allen_cahn.toml" "c-$precision" "${set[@]}"; then
    compare "c-$precision" start.csv 'u - x^2*cos(pi*x)' '<=' $value
    compare "c-$precision" right.csv 'u + 1' '<=' $value
    compare "c-$precision" minus.csv 'u + 1' '<=' $value
    compare "c-$precision" middle.csv 'u - x^2*cos(pi*x)' '>' 1e-3
  fi
  if solved "$cases/b12_hard_slope.toml" "d-$precision" "${set[@]}"; then
    compare "d-$precision" one.csv 'v_x' '<=' $slope
    compare "d-$precision" zero.csv 'v' '<=' $value
    compare "d-$precision" zero.csv 'v_x' '>' 1e-3
  fi
done

# The same by hard = true.
if solved "$SOURCE_DIR/problems/burgers.toml" burgers --set points.interior=256; then
  compare burgers right.csv 'u' '<=' 1e-14
  compare burgers minus.csv 'u' '<=' 1e-14
  compare burgers start.csv 'u + sin(pi*x)' '<=' 1e-14
  compare burgers middle.csv 'u + sin(pi*x)' '>' 1e-3
fi

printf '%d of %d\n' $((total - bad)) "$total"
[ "$bad" -eq 0 ] && [ "$total" -gt 0 ]
