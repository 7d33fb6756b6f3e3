#!/usr/bin/env bash
# ctest: labels=audit,inverse timeout=1800
#
# The inverse cases trained: parameters and fields against what is right, their intervals, and the same bits again. The
# files hold mathematics alone; networks and stages come by --set so that a run takes seconds.
set -u
export LC_ALL=C
good=0 total=0
say() { total=$((total + 1)); if [ "$1" = 0 ]; then good=$((good + 1)); else echo "FAILED $2"; fi; }
cp "$SOURCE_DIR"/tests/data/cases/i0*.csv "$SOURCE_DIR"/tests/data/cases/i0*.toml .

solve() { # solve NAME STEPS OPTION...: trains NAME.toml into NAME
  local name=$1 steps=$2
  shift 2
  "$PINN" solve "$name.toml" --out "$name" --threads 1 --set "stage=[{optimizer=\"lm\",steps=$steps}]" "$@" >"$name.txt" 2>&1
}
field() { # field NAME EXPRESSION: a number of summary.json by jq-like path with awk's help: value after "NAME": {
  awk -v name="\"$2\":" -v key="\"$3\":" '
    index($0, name) { inside = 1 }
    inside && index($0, key) { sub(/.*: /, ""); sub(/,.*/, ""); print; exit }' "$1/summary.json"
}
near() { awk -v a="$1" -v b="$2" -v tol="$3" 'BEGIN { d = a - b; if (d < 0) d = -d; exit !(a != "" && d <= tol) }'; }
below() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a != "" && a < b) }'; }

# I01, I09: s = 2 within a percent, also from data with a percent of noise; the trace has digits below 1e-8
solve i01_speed 40 --set network.width=16 --set network.depth=3 --set points.interior=1024
say $? "i01_speed converges"
near "$(field i01_speed s value)" 2 0.02; say $? "s = 2 from clean data"
grep -A40 '"s": {' i01_speed/summary.json | grep -q '"trace": \[[0-9., ]*[0-9]\.[0-9]\{10\}'; say $? "the trace has ten digits and more"
solve i01_noise 40 --set network.width=16 --set network.depth=3 --set points.interior=1024
say $? "i01_noise converges"
near "$(field i01_noise s value)" 2 0.02; say $? "s = 2 from noisy data"
below "$(field i01_noise s low)" 2 && below 2 "$(field i01_noise s high)"; say $? "2 lies in the interval of s"
grep -q 'measured .*sigma)' i01_noise.txt; say $? "the misfit is given in sigma"

# The same bits with two threads, and from the middle
"$PINN" solve i01_speed.toml --out threads --threads 2 --set 'stage=[{optimizer="lm",steps=40}]' --set network.width=16 \
  --set network.depth=3 --set points.interior=1024 >/dev/null 2>&1
[ "$(grep weights_sha256 threads/summary.json)" = "$(grep weights_sha256 i01_speed/summary.json)" ]
say $? "two threads give the bits of one"

# I03: a factor of 780 away
solve i03_arrhenius 60 --set network.width=16; say $? "i03_arrhenius converges"
near "$(field i03_arrhenius A value)" 7.8e8 7.8e6; say $? "A = 7.8e8"

# I05: q = x^2, unknown where u = 0
solve i05_field 30 --set network.width=16; say $? "i05_field converges"
near "$("$PINN" eval i05_field q --grid x=0.5 | tail -1 | cut -d, -f2)" 0.25 0.0125; say $? "q(0.5) = 0.25"
grep -q '"not_identifiable_near": \[-1, 1\]' i05_field/summary.json; say $? "where u = 0 at the ends nothing is known of q"

# I08: predators that nobody counted
solve i08_hidden 100 --set network.width=20; say $? "i08_hidden converges"
"$PINN" eval i08_hidden p --grid t=0:1:2 >p.csv
near "$(sed -n 2p p.csv | cut -d, -f2)" 15 0.75; say $? "p(0) = 15"
near "$(sed -n 3p p.csv | cut -d, -f2)" 108.651741918 5.4; say $? "p(1) = 108.65"

# R10: beside a table, rows and columns in any order
printf 'u_ref,t,x\n0.8414709848,0,1\n0,0,0\n' >ref.csv
"$PINN" eval i01_speed --compare ref.csv >compare.txt; say $? "--compare"
grep -q '^u: relative L2 .*, max .* at x = .*, mean .*, 2 rows$' compare.txt; say $? "L2, max and mean are printed"
printf 'x,u_ref\n0,0\n' >short.csv
"$PINN" eval i01_speed --compare short.csv 2>error.txt; [ $? = 2 ] && grep -q 'no column `t`.*the header is `x,u_ref`' error.txt
say $? "a table of one coordinate is refused with its header"
printf 'x,t,z\n0,0,0\n' >wrong.csv
"$PINN" eval i01_speed --compare wrong.csv 2>error.txt; [ $? = 2 ] && grep -q 'column `z`.*the header is `x,t,z`' error.txt
say $? "a column without meaning is refused with the header"

echo "inverse: $good of $total"
[ "$good" = "$total" ]
