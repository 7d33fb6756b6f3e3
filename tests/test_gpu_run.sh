#!/usr/bin/env bash
# test_gpu_run.sh: tests/device/run without a device says so and ends well; on the emulated device its checks pass and
# its file is JSON with what they found.
# ctest: labels=full,gpu timeout=600 processors=2
set -u
export LC_ALL=C
build=$(dirname "$PINN")
good=0 total=0
say() { total=$((total + 1)); if [ "$1" = 0 ]; then good=$((good + 1)); else echo "FAILED $2"; fi; }
is_json() { # no parser of JSON is among the tools of the tests: braces, brackets and quotes must close
  awk '{ text = text $0 } END { gsub(/\\./, "", text); n = gsub(/"[^"]*"/, "", text); a = gsub(/\{/, "", text); b = gsub(/\}/, "", text)
         c = gsub(/\[/, "", text); d = gsub(/\]/, "", text); exit !(n > 3 && a == b && c == d && text !~ /"/) }' "$1"
}

env -u PINN_CUDA_PATH "$SOURCE_DIR/tests/device/run" --build "$build" --json none.json >out 2>&1
status=$?
if ! "$PINN" doctor --device cuda >/dev/null 2>&1; then
  [ $status -eq 0 ] && grep -q 'skipped, nothing was tested: .*driver' out && grep -q '"skipped": ".*driver' none.json && is_json none.json
  say $? "no device: status $status, $(cat out)"
fi

export PINN_CUDA_PATH=$EMULATED_CUDA_DIR PINN_DEVICE_SIZE="--set stage.1.steps=20 --set points.interior=100"
"$SOURCE_DIR/tests/device/run" --build "$build" --json all.json --only "doctor hash memory resume" >out 2>&1
status=$?
[ $status -eq 0 ] && is_json all.json && [ "$(grep -c '"status": "pass"' all.json)" = 4 ]
say $? "the emulated device: status $status, $(cat out)"
a=$(sed -n 's/.*"first": "\([0-9a-f]*\)".*/\1/p' all.json) d=$(sed -n 's/.*"cpu": "\([0-9a-f]*\)".*/\1/p' all.json)
[ ${#a} = 64 ] && [ "$a" = "$d" ]
say $? "hashes of device and CPU: $a $d"
grep -q '"failed_clearly": [1-9]' all.json
say $? "allocations that failed: $(grep '"memory"' all.json)"

# A check that fails makes the run fail: here every allocation does.
PINN_CUDA_FAIL_ALLOCATION=1 "$SOURCE_DIR/tests/device/run" --build "$build" --json bad.json --only "hash" >out 2>&1
[ $? -eq 1 ] && grep -q '"status": "fail"' bad.json && is_json bad.json
say $? "a failing check: $(cat out)"
"$SOURCE_DIR/tests/device/run" --surely >out 2>&1
[ $? -eq 2 ]
say $? "an unknown option"

echo "run: $good of $total"
[ "$good" = "$total" ]
