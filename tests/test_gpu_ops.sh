#!/usr/bin/env bash
# test_gpu_ops.sh: `pinn validate ops` on the emulated device: our kernels and cuDNN's side by side in one report, and
# clear ends where there is no device or no sense in the request.
# ctest: labels=full,gpu timeout=300
set -u
export LC_ALL=C
good=0 total=0
say() { total=$((total + 1)); if [ "$1" = 0 ]; then good=$((good + 1)); else echo "FAILED $2"; cat t.txt; fi; }
ends() { # status, words, what, arguments...
  local status=$1 words=$2 what=$3
  shift 3
  "$PINN" validate "$@" >t.txt 2>&1
  [ $? -eq "$status" ] && grep -q -- "$words" t.txt
  say $? "$what"
}

export PINN_CUDA_PATH=$EMULATED_CUDA_DIR

# Values: rows of ours and of cuDNN at the same points, and a table of both. cuDNN has no tf32.
ends 0 '5 of 5 cells' 'tanh in every format' ops --device cuda --provider cudnn --only tanh --points 300 --json a.json
python3 - >>t.txt 2>&1 <<'PY'
import json
d = json.load(open("a.json"))
ours = {r["dtype"]: r for r in d["rows"] if r["method"] == "kernel"}
there = {r["dtype"]: r for r in d["rows"] if r["method"] == "cudnn"}
assert set(ours) == {"f64", "f32", "tf32", "bf16", "f16"}, ours
assert set(there) == {"f64", "f32", "bf16", "f16"}, there
assert all(r["order"] == 0 and r["pass"] for r in d["rows"])
assert all(ours[f]["points"] == there[f]["points"] for f in there)
assert d["points"] == sum(r["points"] for r in ours.values()), "a provider's points are not ours"
table = next(t for t in d["tables"] if "cudnn" in t["title"])
assert len(table["cells"]) == 4 and table["cells"][0][0] == "tanh", table
assert "emulated device" in d["title"], d["title"]
PY
say $? 'the report has both, in rows and in a table'
ends 0 'layer_norm | f64' 'rows by cuDNN' ops --device cuda --provider cudnn --only layer_norm --dtype f64
ends 0 '1 of 1 cells' 'what cuDNN lacks is left out' ops --device cuda --provider cudnn --only exp --dtype f32 --points 100
! grep -q 'exp |.*cudnn' t.txt
say $? 'no row of cuDNN for exp'

# Everything else runs as programs: moves, sums, products narrow and wide; derivatives where they are asked for.
for only in slice cast sum jet_lin; do
  ends 0 '1 of 1 cells' "$only" ops --device cuda --only $only --dtype f64 --points 100
done
ends 0 '1 of 1 cells' 'a derivative' ops --device cuda --only tanh --dtype f64 --order 1 --points 100

# The same kernels on both sides: the same figures.
figures() { "$PINN" validate ops --only sech2 --dtype f32 --points 200 --order 0 --json "$1" "${@:2}" >t.txt 2>&1; sed -n 's/.*\("rows".*"tables"\).*/\1/p' "$1"; }
here=$(figures c.json) there=$(figures d.json --device cuda)
[ -n "$here" ] && [ "$here" = "$there" ]
say $? 'CPU and device have the same worst errors at the same points'

# Requests without sense.
ends 2 'add --device cuda' 'a provider needs a device' ops --provider cudnn
ends 2 'expected cudnn' 'an unknown provider' ops --device cuda --provider mkl
ends 2 'device is `cudda`' 'an unknown device' ops --device cudda
ends 2 'are for `pinn validate ops`' 'another part' problem x.toml --device cuda

# No device: status 3 and what was looked for.
mkdir empty
PINN_CUDA_PATH=$PWD/empty
"$PINN" validate ops --device cuda --only tanh >t.txt 2>&1
status=$?
[ $status -eq 3 ] || [ -e /dev/nvidiactl ]
say $? "no device is status 3 (it was $status)"

echo "gpu ops: $good of $total"
[ "$good" -eq "$total" ]
