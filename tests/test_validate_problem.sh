#!/usr/bin/env bash
# test_validate_problem.sh: `pinn validate problem` on fresh weights, in each format, and its files.
# ctest: labels=full timeout=300
set -u
export LC_ALL=C
fail() { printf 'FAILED: %s\n' "$*"; exit 1; }
file=$SOURCE_DIR/problems/heat.toml

"$PINN" validate problem "$file" --points 16 --json r.json --markdown r.md --html r.html >out.txt 2>err.txt ||
  fail "status $?: $(tail -n 3 err.txt out.txt)"
# The advice is the first sentence of every form.
sed -n 3p out.txt | grep -q '^f32 carries this problem to about ' || fail "no advice: $(sed -n 3p out.txt)"
sed -n 3p r.md | grep -q '^f32 carries this problem to about ' || fail 'no advice in r.md'
grep -q '"advice":"f32 carries' r.json || fail 'no advice in r.json'
grep -q '"subject":"running bound >= error".*"pass":true' r.json || fail 'no running bounds in r.json'
grep -q '"failures":0}' r.json || fail 'failures in r.json'
[ "$(grep -c '<svg ' r.html)" -eq 3 ] || fail 'r.html has not three pictures'
grep -q 'entries)' r.html || fail 'pictures do not say how many entries'
! grep -q '<script\|src=\|url(' r.html || fail 'r.html needs something'
for title in 'What each format carries' 'By order of derivative' 'Outputs in f64' 'Layers and channels' 'Worst offenders'; do
  grep -q "$title" out.txt || fail "no table: $title"
done
for format in float32 tf32 bf16 f16 f16x3; do
  "$PINN" validate problem "$file" --points 16 --dtype "$format" >out.txt 2>err.txt ||
    fail "$format: status $?: $(tail -n 3 err.txt out.txt)"
done
for format in bf16 f16; do
  "$PINN" validate problem "$file" --points 16 --dtype "$format" --pure >out.txt 2>err.txt ||
    fail "pure $format: status $?: $(tail -n 3 err.txt out.txt)"
  grep -q "pure $format" out.txt || fail "pure $format is not named"
done
"$PINN" validate problem "$file" --dtype f8 >out.txt 2>err.txt
[ $? -eq 2 ] && grep -q 'expected f64, f32, tf32, bf16, f16, tf32x3, bf16x3 or f16x3' err.txt || fail 'f8 is not refused'
"$PINN" validate problem "$file" --dtype f32 --pure >out.txt 2>err.txt
[ $? -eq 2 ] && grep -q 'goes with' err.txt || fail 'pure f32 is not refused'
echo ok
