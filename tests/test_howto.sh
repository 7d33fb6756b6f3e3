#!/usr/bin/env bash
# test_howto.sh: a new analytic operation is one row of ops.def, as docs/howto-add-op.md says, and a new optimizer one
# file and two words, as docs/howto-add-optimizer.md says.
# ctest: labels=full timeout=900 processors=2
# The row that the page shows is put into a copy of the sources; the copy is built; the audit of the new
# operation, with its derivative rule, its jets and its mutants, must pass; and the copy must differ from the
# original in one line of one file. The optimizer of the other page goes into the same copy and must train.
set -eu
copy=$TEST_DIR/copy
mkdir -p "$copy"
cp -r "$SOURCE_DIR"/{CMakeLists.txt,CMakePresets.json,tensor,autograd,pinn,validate,tests,docs,problems} "$copy"/
[ -d "$SOURCE_DIR/cuda" ] && cp -r "$SOURCE_DIR/cuda" "$copy"/
row=$(sed -n '/^```c$/,/^```$/p' "$SOURCE_DIR/docs/howto-add-op.md" | grep '^OP_UNARY(' | head -n 1)
[ -n "$row" ] || { echo "docs/howto-add-op.md shows no row"; exit 1; }
name=$(printf '%s' "$row" | sed 's/^OP_UNARY(\([a-z0-9_]*\),.*/\1/')
last=$(grep -n '^OP_UNARY(' "$copy/tensor/ops.def" | tail -n 1 | cut -d: -f1)
sed -i "${last}r /dev/stdin" "$copy/tensor/ops.def" <<<"$row"
changed=$(diff -rq "$SOURCE_DIR/tensor" "$copy/tensor" | wc -l)
lines=$(diff "$SOURCE_DIR/tensor/ops.def" "$copy/tensor/ops.def" | grep -c '^[<>]' || true)
echo "places changed: $changed file, $lines line"
[ "$changed" -eq 1 ] && [ "$lines" -eq 1 ]
page=$SOURCE_DIR/docs/howto-add-optimizer.md
file=$(sed -n 's/^`pinn\/\(opt_[a-z0-9]*\.c\)`:$/\1/p' "$page" | head -n 1)
method=$(printf '%s' "$file" | sed 's/^opt_\(.*\)\.c$/\1/')
[ -n "$method" ] || { echo "docs/howto-add-optimizer.md names no file"; exit 1; }
sed -n '/^```c$/,/^```$/p' "$page" | sed '/^```/d' >"$copy/pinn/$file"
sed -i "s/^\(#define LIST(ROW) .*\)\$/\1 ROW($method)/" "$copy/pinn/opt_list.c"
sed -i "/^KEY(stage, optimizer,/s/\"auto|/\"auto|$method|/" "$copy/pinn/keys.def"
changed=$(diff -rq "$SOURCE_DIR/pinn" "$copy/pinn" | wc -l)
echo "optimizer: $changed files"
[ "$changed" -eq 3 ]
cmake -S "$copy" -B "$TEST_DIR/build" -DCMAKE_BUILD_TYPE=Release -DBUILD_TESTING=OFF >"$TEST_DIR/log" 2>&1 || { cat "$TEST_DIR/log"; exit 1; }
cmake --build "$TEST_DIR/build" --target pinn -j 2 >"$TEST_DIR/log" 2>&1 || { tail -n 40 "$TEST_DIR/log"; exit 1; }
pinn=$TEST_DIR/build/pinn
"$pinn" ops | grep -w "$name"
"$pinn" validate ops --only "$name"
"$pinn" solve "$SOURCE_DIR/problems/oscillator.toml" --quiet --out "$TEST_DIR/trained" \
  --set "stage=[{optimizer=\"$method\", steps=200, rate=1e-4}]" || [ $? -eq 1 ]
grep -q '"steps": 200' "$TEST_DIR/trained/summary.json"
echo "howto: 2 of 2"
