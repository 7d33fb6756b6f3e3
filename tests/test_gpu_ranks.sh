#!/usr/bin/env bash
# test_gpu_ranks.sh: ranks on emulated devices: gathers by NCCL where each rank has a device, through the host where
# they share one; the weights are those of one rank in every case. A gather that fails, and a rank that stops, end the
# run with a reason.
# ctest: labels=full,gpu,ranks timeout=300 processors=2
set -u
. "$SOURCE_DIR/tests/support_mpi.sh"
export PINN_CUDA_PATH=$EMULATED_CUDA_DIR TMPDIR=$PWD
good=0 total=0
say() { total=$((total + 1)); if [ "$1" = 0 ]; then good=$((good + 1)); else echo "FAILED $2"; cat t.txt; fi; }
pair() { ranks 2 "$PINN" solve p.toml --device cuda --threads 1 "$@" >t.txt 2>&1; }

cat >p.toml <<'END'
domain = { x = [0, 1] }
unknowns = { u = "x" }
equations = { a = "u_xx + u = 0" }
conditions = { left = { on = "x = 0", equation = "u = 1" }, right = { on = "x = 1", equation = "u = 0" } }
network = { width = 8, depth = 2 }
points = { interior = 400 }
[[stage]]
optimizer = "adam"
steps = 5
END
"$PINN" solve p.toml --device cuda --threads 1 --quiet --out one >t.txt 2>&1
one=$(digest one)
[ -n "$one" ]
say $? 'one rank'

# NCCL takes one rank a device: nothing of it is called then.
EMULATED_CUDA_DEVICES=1 EMULATED_CUDA_FAIL='ncclAllGather:1+=3,ncclCommInitRankConfig:1+=3' pair --out shared
[ "$(digest shared)" = "$one" ]
say $? 'two ranks on one device: through the host, the same weights'

EMULATED_CUDA_DEVICES=2 pair --out two
[ "$(digest two)" = "$one" ]
say $? 'two ranks on two devices: the same weights'

# That it was NCCL: its gather fails, and the run ends with NCCL's reason.
EMULATED_CUDA_DEVICES=2 EMULATED_CUDA_FAIL='ncclAllGather:3=3' pair --out fails
[ $? -eq 3 ] && grep -q 'NCCL, ncclAllGather: internal error' t.txt
say $? 'a gather that fails is status 3, in words of NCCL'

# One rank stops for good.
EMULATED_CUDA_DEVICES=2 PINN_COMM_SECONDS=2 mpirun -n 2 "$PINN" solve p.toml --device cuda --threads 1 \
  --set 'stage=[{optimizer="adam", steps=1000000}]' --out stops >t.txt 2>&1 &
launcher=$!
for _ in $(seq 300); do
  sleep 0.1
  grep -q '^1/1' t.txt && break
done
victim=$(pgrep -P $launcher | tail -n 1)
kill -STOP "$victim"
wait $launcher
status=$?
[ $status -eq 5 ] && grep -q 'no answer from rank [01]' t.txt
say $? "a rank that stops is named, status 5 (it was $status)"
echo "gpu ranks: $good of $total"
[ "$good" -eq "$total" ]
