#!/usr/bin/env bash
# test_trained_audit.sh: rounding of training steps at trained weights, in f32 and with low formats.
# ctest: labels=full,validate timeout=900 processors=2
#
# Burgers, Allen-Cahn, KdV (third order) and Kovasznay (three networks) are trained for some hundred steps; then every
# gradient and every value of the step is held against MPFR. `pinn validate problem` ends with 0 only if each output's
# norm-2 error is within 64 u kappa and no running bound of any value is below its error. Over all files at least
# 1e5 values must have been held. PINN_TEST_SCALE=4 and more trains with the steps of the files.
set -u
export LC_ALL=C
fail() { printf 'FAILED: %s\n' "$*"; exit 1; }
scale=${PINN_TEST_SCALE:-1}
entries=0
for name in burgers allen_cahn kdv kovasznay; do
  steps=(--set stage.1.steps=200 --set stage.2.steps=250)
  [ "$scale" -lt 4 ] || steps=()
  "$PINN" solve "$SOURCE_DIR/problems/$name.toml" "${steps[@]}" --out "$name" >"$name.txt" 2>&1 </dev/null
  status=$?
  [ "$status" -le 1 ] || fail "$name: solve ended with $status: $(tail -n 3 "$name.txt")"
  for format in f64 f32 bf16 f16; do
    "$PINN" validate problem "$SOURCE_DIR/problems/$name.toml" --weights "$name" --dtype "$format" --points 48 \
      --json "$name.$format.json" >"$name.$format.txt" 2>&1 ||
      fail "$name in $format: $(grep -a FAIL "$name.$format.txt" | head -n 5; tail -n 1 "$name.$format.txt")"
    n=$(grep -o '"subject":"running bound >= error".*' "$name.$format.json" | grep -o '"points":[0-9]*' | cut -d: -f2)
    entries=$((entries + n))
    worst=$(awk -F'|' '/^## Outputs/ { on = 1 } /^## Layers/ { on = 0 } on && $3 + 0 > 0 && $7 + 0 > c { c = $7 + 0 } END { print c }' \
      "$name.$format.txt")
    printf '%-11s %-5s %8d values held, largest c of an output %s\n' "$name" "$format" "$n" "$worst"
  done
  sed -n 3p "$name.f32.txt"
done
[ "$entries" -ge 100000 ] || fail "only $entries values"
echo "trained audits: $entries values, no bound below its error"
