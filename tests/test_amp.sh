#!/usr/bin/env bash
# test_amp.sh: a run in float16, mixed: what it says, how it resumes, and that looking at it changes nothing.
# ctest: labels=full,precision timeout=300
set -u
bad=0
fail() { echo "$*"; bad=1; }
digest() { sed -n 's/.*"weights_sha256": "\([0-9a-f]*\)".*/\1/p' "$1/summary.json"; }

# 140 steps of adam and 60 of ssbroyden, with new points in between.
sed 's/^steps = 1000$/steps = 140/; s/^steps = 3000$/steps = 60/; s/^every = 500$/every = 50/' \
  "$SOURCE_DIR/problems/burgers.toml" | sed 's/^error = 1e-3$/error = 1e-30/' >short.toml
grep -q 'steps = 140' short.toml && grep -q 'error = 1e-30' short.toml || fail "the problem file has changed"

"$PINN" solve short.toml --set precision.compute=f16 --threads 1 --out whole >whole.txt
[ $? -eq 1 ] || fail "the whole run failed"
grep -q 'float16 products, else float32, weights float64; then triple float16' whole.txt || fail "the formats are not told"
tr -s ' \n' ' ' <whole.txt | grep -q 'errors and fresh points in float32' || fail "the format of the errors is not told"
grep -q 'loss scale 2^16 from step 0' whole.txt || fail "the loss scale is not told"
share=$(tr -d '\n' <whole/summary.json | sed -n 's/.*"share": \([0-9.]*\).*/\1/p')
awk -v s="$share" 'BEGIN { exit !(s >= 0.9 && s <= 1) }' || fail "share of products in 16 bits: $share, expected 0.9 at least"
echo "share of products in 16 bits: $share"

# The same without an exact solution: nothing is evaluated while it trains.
awk '/^\[exact\]/ || /^\[accept\]/ { skip = 1; next } /^\[/ { skip = 0 } !skip' short.toml >blind.toml
"$PINN" solve blind.toml --set precision.compute=f16 --threads 1 --quiet --no-check --out blind
[ "$(digest blind)" = "$(digest whole)" ] || fail "evaluating errors changes the weights"

# Stages that are all of another format than the file's run, each with its own model.
for format in f32 bf16 f16; do
  "$PINN" solve "$SOURCE_DIR/problems/heat.toml" --no-check --quiet --out "all-$format" --set points.interior=200 \
    --set "stage=[{optimizer=\"adam\", steps=4, precision=\"$format\"}]" 2>all.err
  [ $? -le 1 ] && [ -n "$(digest "all-$format")" ] || fail "one stage in $format: $(cat all.err)"
done

# More threads, the same bits.
"$PINN" solve short.toml --set precision.compute=f16 --threads 2 --quiet --out two
[ "$(digest two)" = "$(digest whole)" ] || fail "two threads give other weights"

# kill -9 and --resume.
resume() { # name, then arguments
  local name=$1
  shift
  local begin=$(date +%s%N) length expected good=0
  "$PINN" solve short.toml "$@" --threads 1 --quiet --out "$name"
  length=$(($(date +%s%N) - begin))
  expected=$(digest "$name")
  for i in 1 2 3 4; do
    PINN_SAVE_SECONDS=0.02 "$PINN" solve short.toml "$@" --threads 1 --quiet --out "$name$i" &
    child=$!
    sleep "$(awk -v l="$length" -v i="$i" 'BEGIN { printf "%.3f", l * 1e-9 * i / 5 }')"
    kill -9 $child 2>/dev/null
    wait $child 2>/dev/null
    if [ -s "$name$i/result.h5" ]; then
      "$PINN" solve short.toml "$@" --threads 2 --quiet --out "$name$i" --resume
    else
      rm -rf "$name$i"
      "$PINN" solve short.toml "$@" --threads 1 --quiet --out "$name$i"
    fi
    if [ "$(digest "$name$i")" = "$expected" ]; then good=$((good + 1)); else fail "$name: resumed run $i has other weights"; fi
    for key in share skipped_steps updates_lost; do
      a=$(tr -d '\n' <"$name/summary.json" | sed -n "s/.*\"$key\": \([0-9.e+-]*\).*/\1/p")
      b=$(tr -d '\n' <"$name$i/summary.json" | sed -n "s/.*\"$key\": \([0-9.e+-]*\).*/\1/p")
      [ "$a" = "$b" ] || fail "$name: $key is $b after run $i was resumed, and $a without a break"
    done
  done
  echo "$name: $good of 4 runs end in the same bits"
}
resume mixed --set precision.compute=f16 --set precision.interval=20
# A finished run that is asked for again tells the same of its channels.
channels() { tr -d '\n ' <mixed/summary.json | sed -n 's/.*"channels":\({"u_x".*}}\).*/\1/p' | cut -c1-80; }
before=$(channels)
"$PINN" solve short.toml --set precision.compute=f16 --set precision.interval=20 --threads 1 --quiet --out mixed --resume
[ -n "$before" ] && [ "$before" = "$(channels)" ] || fail "channels of a finished run: \`$before\`, after --resume \`$(channels)\`"
resume pure --set precision.compute=bf16 --set precision.master=bf16 --set stage.2.optimizer=adam

# A gradient that no scale makes finite: down to 1, then the run ends and names the place.
cat >nan.toml <<'END'
[domain]
x = [0, 1]
[unknowns]
u = "x"
[equations]
e = "u_x = sqrt(max(-1 - u^2, 0))"
[conditions]
c = { on = "x = 0", equation = "u = 1" }
[precision]
compute = "f16"
END
"$PINN" solve nan.toml --no-check --threads 1 --out nan >nan.txt 2>&1
[ $? -eq 4 ] || fail "a gradient that is not finite: exit status is not 4"
grep -q 'not finite at a loss scale of 1 too' nan.txt || fail "the floor of the loss scale is not told"
grep -q '17 steps' nan.txt || fail "the scale did not fall from 2^16 to 1 in 16 steps"
grep -q 'nan.toml:6:12: step 16: division of 0.5 by 0' nan.txt || fail "the place is not told"

# Refusals by check and solve, in the same words.
for verb in check solve; do
  "$PINN" $verb short.toml --set precision.compute=f16 --set stage.2.optimizer=lm >out.txt 2>&1
  [ $? -eq 2 ] && grep -q 'lm works in f64 only' out.txt || fail "$verb does not refuse lm in f16"
  "$PINN" $verb short.toml --set precision.compute=f16 --set precision.master=f16 >out.txt 2>&1
  [ $? -eq 2 ] && grep -q 'set precision.master = "f64"' out.txt || fail "$verb does not refuse ssbroyden on f16 weights"
done
exit $bad
