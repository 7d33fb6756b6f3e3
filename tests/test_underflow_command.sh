#!/usr/bin/env bash
# test_underflow_command.sh: `pinn validate underflow`: what it writes, its exit status, and what it refuses. Numbers are judged
# by test_underflow.c; here it is seen that they arrive, for fresh and for trained weights.
# ctest: labels=quick timeout=120
set -u
export LC_ALL=C
failed=0 count=0
say() { # say STATUS TEXT
  count=$((count + 1))
  if [ "$1" -ne 0 ]; then
    failed=$((failed + 1))
    echo "FAILED: $2"
    sed 's/^/    /' out err 2>/dev/null | head -n 12
  fi
}
expect() { # expect STATUS WORDS...: runs pinn, keeps out and err
  local status=$1
  shift
  "$PINN" "$@" >out 2>err
  local got=$?
  [ "$got" -eq "$status" ]
  say $? "exit status $got, expected $status: pinn $*"
}
says() { grep -q -e "$2" "$1"; say $? "\`$2\` in $1"; }
number() { sed -n "s/.*\"$2\": \([-+.e0-9]*\).*/\1/p" "$1" | head -n 1; } # number FILE KEY: the first one
holds() { awk "BEGIN { exit !($1) }"; say $? "$1 ($2)"; }

burgers="$SOURCE_DIR/problems/burgers.toml"
few="--points 300 --steps 10"

# Fresh weights are benign: f16 carries the step, which is exit status 0.
expect 0 validate underflow "$burgers" $few --json f.json --html f.html --markdown f.md
says out '^\*\*f16 carries this step at '
says out '^| points | 300 of each equation, 300 in all, in 1 block; the file trains with 2600 |'
says out '^## Gradient against f64'
says out '^## Channels, all layers together'
says out '^## Operands, worst first'
says out '^## Updates that change nothing'
says out '^## The scaler in 10 steps of training'
says f.md '^## Every operand, worst first'
for key in title advice carried format facts scales moved_by_scale gradient groups updates scaler channels; do
  says f.json "^  \"$key\": "
done
for key in best_scale limit layer channel points kind rounded window reference headroom margin counts runs zero subnormal edge normal \
  overflow nan flushed below_normal lost lost_norm2 error cosine not_finite master tracker skipped channel_scale; do
  says f.json "\"$key\": "
done
[ "$(grep -c '"step": ' f.json)" -eq 10 ]; say $? "ten steps of the scaler"
[ "$(grep -c '"kind": "adjoint"' f.json)" -eq 12 ]; say $? "adjoints of 3 channels, 2 layers, 2 groups"
if command -v python3 >/dev/null; then
  python3 -c 'import json; json.load(open("f.json"))'; say $? "f.json is JSON"
fi
for figure in "Gradient against the loss scale" "Loss scales that each channel bears" "Exponents of activations" \
  "Zeros and lost mass" "The loss scale during training"; do
  says f.html "<title>$figure"
done
grep -q -e '<script' -e 'http[s]*://[^w]' f.html; [ $? -ne 0 ]; say $? "the page needs nothing from elsewhere"

# The same input gives the same bytes, also with other threads.
expect 0 validate underflow "$burgers" $few --json again.json
cmp -s f.json again.json; say $? "two runs, one JSON"

# Formats with the exponents of f32 need no scale; f16 as the only format is coarser than in products alone.
expect 0 validate underflow "$burgers" $few --dtype bfloat16 --json b.json
says out 'bf16 carries this step at every loss scale'
says out '^| scaler | none: '
expect 0 validate underflow "$burgers" $few --dtype tf32
expect 0 validate underflow "$burgers" $few --pure --json p.json
error() { sed -n '/"block": "whole"/,$p' "$1" | sed -n 's/.*"scale": 8,.*"error": \([^,]*\),.*/\1/p' | head -n 1; }
holds "$(error f.json) < $(error p.json)" "mixed is nearer to f64 than pure f16"
holds "$(error f.json) < $(error b.json)" "f16 has more digits than bf16"

# Trained weights: the gradient is small against what it is made of, and rounding shows.
expect 1 solve "$burgers" --out b.out --set stage.1.steps=150 --set stage.2.steps=60 --seconds 40
"$PINN" validate underflow "$burgers" $few --weights b.out --json t.json >out 2>err
[ $? -le 1 ]; say $? "trained weights: exit status 0 or 1"
says out '^| weights | 921, trained: b.out |'
holds "$(error t.json) > 3 * $(error f.json)" "trained: further off than fresh"

# Refused.
expect 2 validate underflow "$burgers" --dtype f64
says err 'expected f16, bf16 or tf32'
expect 2 validate underflow "$burgers" --dtype half
expect 2 validate underflow "$burgers" --only tanh
says err 'only is for'
expect 2 validate underflow "$burgers" --order 1
says err 'order is for'
expect 2 validate problem "$burgers" --steps 3
says err 'steps is for'
expect 2 validate underflow "$burgers" --points 0
expect 2 validate underflow
expect 3 validate underflow nowhere.toml
expect 3 validate underflow "$burgers" --weights nowhere.out
expect 2 validate underflow "$burgers" $few --weights b.out --set network.width=24
says err 'net1.layer1'
expect 3 validate underflow "$burgers" $few --json nowhere/f.json

# Not finite in f64 either, which is nothing to say of a format; and an overflow is no result within its bound.
cat >nan.toml <<'EOF'
domain = { x = [0, 1] }
unknowns = { u = "x" }
equations = { e = "u_xx = sqrt(x - 0.5)" }
EOF
sed 's/sqrt(x - 0.5)/1e30*u/' nan.toml >huge.toml
sed 's/"u_xx = .*"/"1e5*u_xx = 1e5"/' nan.toml >constant.toml
expect 1 validate underflow constant.toml $few --pure
says out 'f16 does not carry this step: .* A number beside them, as a constant'
expect 4 validate underflow nan.toml $few
says err 'undefined at these weights'
expect 1 validate problem nan.toml --points 4
says out '^The loss is not finite at these weights'
expect 1 validate problem huge.toml --points 4 --dtype f16 --pure
says out 'gradient net1.layer1.weight .*FAIL'

# Too narrow for a low format, and that is said.
expect 1 validate underflow "$burgers" $few --set network.width=8
says out 'no product of matrices is wide enough'

echo "$count checks, $failed failed"
[ "$failed" -eq 0 ]
