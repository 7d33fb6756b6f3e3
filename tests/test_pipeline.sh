#!/usr/bin/env bash
# test_pipeline.sh: layers split over ranks that mpirun starts: the loss and the gradient of a step have the bits of one
# process, for cases, formats and problem files, and no message is lost or left over however often the step runs.
# ctest: labels=full,mpi timeout=600 processors=2
set -u
. "$SOURCE_DIR/tests/support_mpi.sh"
good=0 total=0
say() { total=$((total + 1)); if [ "$1" = 0 ]; then good=$((good + 1)); else echo "FAILED $2"; sed 's/^/    /' err | head -5; fi; }
value() { sed -n "s/^  \"$2\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}\$/\1/p" "$1"; } # value FILE KEY

# same NAME RANKS... -- WORDS...
same() {
  local name=$1 counts=() r
  shift
  while [ "$1" != -- ]; do counts+=("$1"); shift; done
  shift
  "$PINN" bench scaling "$@" --seconds 0.02 --json "$name.1" >out 2>err
  say $? "$name on one rank"
  for r in "${counts[@]}"; do
    ranks "$r" "$PINN" bench scaling "$@" --split layers --seconds 0.02 --json "$name.$r" >out 2>err
    [ $? -eq 0 ] && [ "$(value "$name.$r" ranks) $(value "$name.$r" split) $(value "$name.$r" comm)" = "$r layers mpi" ]
    say $? "$name on $r ranks: status, ranks, split"
    [ -n "$(value "$name.1" loss)" ] && [ "$(value "$name.$r" loss)" = "$(value "$name.1" loss)" ] &&
      [ "$(value "$name.$r" gradient_norm)" = "$(value "$name.1" gradient_norm)" ] &&
      [ "$(value "$name.$r" loss_alone)" = "$(value "$name.1" loss)" ]
    say $? "$name on $r ranks: loss $(value "$name.$r" loss), gradient $(value "$name.$r" gradient_norm), expected $(value "$name.1" loss), $(value "$name.1" gradient_norm)"
    awk "BEGIN { exit !($(value "$name.$r" talk_calls) > 4) }"
    say $? "$name on $r ranks: values go from rank to rank: $(value "$name.$r" talk_calls) calls a step"
  done
}

same burgers 2 3 4 -- burgers --points 2000 --dtype f64
same burgers-f32 2 4 -- burgers --points 2000
same ns2d 2 4 -- ns2d --points 500
same kdv-bf16 2 -- kdv --points 700 --dtype bf16
same heat 2 4 -- "$SOURCE_DIR/problems/heat.toml" --points 300
same file 2 4 -- "$SOURCE_DIR/problems/burgers.toml" --points 500

# A whole run whose layers are divided ends in the weights of one process.
settings=(--set points.interior=300 --set stage.1.steps=12 --quiet)
"$PINN" solve "$SOURCE_DIR/tests/device/hash.toml" --out one "${settings[@]}" >out 2>err
for r in 2 3; do
  ranks "$r" "$PINN" solve "$SOURCE_DIR/tests/device/hash.toml" --split layers --out "split$r" "${settings[@]}" >out 2>err
  [ -n "$(digest one)" ] && [ "$(digest one)" = "$(digest "split$r")" ]
  say $? "solve --split layers on $r ranks: weights $(digest "split$r"), expected $(digest one)"
done
"$PINN" solve "$SOURCE_DIR/tests/device/hash.toml" --split sideways --out none >out 2>err
[ $? -eq 2 ] && grep -q 'expected points or layers' err
say $? "a split that there is not: $(cat err)"

echo "pipeline: $good of $total"
[ "$good" = "$total" ]
