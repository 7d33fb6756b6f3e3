#!/usr/bin/env bash
# test_gpu_solve.sh: `pinn solve --device cuda` on the emulated device ends with the weights of the CPU, bit for bit.
#
# Whole runs (points, scales, optimizers, refinement, metrics, report) with adam, lbfgs and ssbroyden; mixed f16; lm,
# whose factorisations are the vendor's, to 1e-10 of the loss; a run that changes its device half-way; no driver.
# ctest: labels=full,gpu timeout=900
set -u
export PINN_CUDA_PATH="$EMULATED_CUDA_DIR"
fail() { echo "$1"; exit 1; }
digest() { sed -n 's/.*"weights_sha256": "\([0-9a-f]*\)".*/\1/p' "$1/summary.json"; }
final_loss() { sed -n 's/^ *"loss": \([-+0-9.eE]*\),*$/\1/p' "$1/summary.json" | head -1; }
same() { # name of the folder on the CPU, on the device
  [ -n "$(digest "$1")" ] && [ "$(digest "$1")" = "$(digest "$2")" ] || fail "$2: weights $(digest "$2"), CPU $(digest "$1")"
  echo "$2: $(digest "$2") as on the CPU"
}
solve() { # device folder arguments...
  local device=$1 folder=$2
  shift 2
  "$PINN" solve "$@" --device "$device" --quiet --threads 2 --out "$folder" >"$folder.log" 2>&1
  local code=$?
  [ $code -eq 0 ] || [ $code -eq 1 ] || { cat "$folder.log"; fail "$folder: exit $code"; }
}

# Adam, then a quasi-Newton method, points refined between.
short="--set points.interior=150 --set points.every=10 --set network.width=8 --set stage.1.steps=25 --set stage.2.steps=12"
problem=$SOURCE_DIR/problems/burgers.toml
solve cpu burgers_cpu "$problem" $short
solve cuda burgers_cuda "$problem" $short
same burgers_cpu burgers_cuda

cat >swing.toml <<'END'
title = "Swing"
[domain]
t = [0, 3]
[unknowns]
u = "t"
[equations]
swing = "u_tt + u = 0"
[conditions]
start = { on = "t = 0", equation = ["u = 1", "u_t = 0"] }
[exact]
u = "cos(t)"
[accept]
error = 1e-30
[network]
width = 10
depth = 2
[points]
interior = 64
batch = 20
[[stage]]
optimizer = "adam"
steps = 60
[[stage]]
optimizer = "lbfgs"
steps = 40
END
solve cpu swing_cpu swing.toml
solve cuda swing_cuda swing.toml
same swing_cpu swing_cuda
PINN_CUDA_GRAPH=0 solve cuda swing_plain swing.toml
same swing_cpu swing_plain

# Mixed precision, with its loss scale.
solve cpu mixed_cpu swing.toml --set 'precision.compute="f16"' --set stage.2.steps=5
solve cuda mixed_cuda swing.toml --set 'precision.compute="f16"' --set stage.2.steps=5
same mixed_cpu mixed_cuda

# Stopped on the device, continued on the CPU, and the other way round. A save after every step makes runs slow enough.
long="--set stage.1.steps=400"
solve cpu long_cpu swing.toml $long
for first in cuda cpu; do
  second=$([ $first = cuda ] && echo cpu || echo cuda)
  PINN_SAVE_SECONDS=0.0001 "$PINN" solve swing.toml $long --device $first --quiet --threads 2 --out "from_$first" >kill.log 2>&1 &
  child=$!
  for _ in $(seq 1000); do [ -s "from_$first/result.h5" ] && break; sleep 0.01; done
  kill -TERM $child 2>/dev/null
  wait $child
  code=$?
  [ $code -eq 143 ] || { cat kill.log; fail "on $first: exit $code, expected 143: the run was to be stopped"; }
  solve $second "from_$first" swing.toml $long --resume
  same long_cpu "from_$first"
done

# Levenberg-Marquardt: the rows are ours, the factorisations LAPACK's and the vendor's.
lm="--set points.interior=80 --set network.width=6 --set stage.1.steps=6"
solve cpu lm_cpu "$SOURCE_DIR/problems/poisson_lm.toml" $lm
solve cuda lm_cuda "$SOURCE_DIR/problems/poisson_lm.toml" $lm
awk -v a="$(final_loss lm_cpu)" -v b="$(final_loss lm_cuda)" 'BEGIN {
  d = a - b; if (d < 0) d = -d; printf "lm: loss %s, CPU %s\n", b, a; exit !(a != "" && b != "" && d <= 1e-10 * a) }' ||
  fail "lm: the loss is another"

# No driver: exit 3, with what to do; nothing runs on the CPU instead.
mkdir -p broken
: >broken/libcuda.so.1 # what is in PINN_CUDA_PATH counts, also where the machine has a driver
PINN_CUDA_PATH=$PWD/broken "$PINN" solve swing.toml --device cuda --quiet --out none >none.log 2>&1
code=$?
[ $code -eq 3 ] || { cat none.log; fail "no driver: exit $code, expected 3"; }
[ -e none/summary.json ] && fail "no driver: a run took place"
echo "no driver: exit 3: $(head -1 none.log)"
