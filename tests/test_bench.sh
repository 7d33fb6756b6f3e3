#!/usr/bin/env bash
# test_bench.sh: `pinn bench` and `pinn profile`: what they write, and that the timed work is the work. Speed is test_baseline's.
# ctest: labels=quick,bench timeout=300
#
# The judge of a step: f32 and f64 agree, threads change no bit, and a short step of descent lowers the loss by the
# square of the gradient's norm times the rate, to first order: at a rate of 1e-3 the curvature changes that by less
# than a half. Against another engine: test_bench_cases.c.
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
value() { sed -n "s/^  \"$2\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}\$/\1/p" "$1"; } # value FILE KEY
holds() { awk "BEGIN { exit !($1) }"; say $? "$1 ($2)"; }

quick="--points 500 --seconds 0.01"
cases="burgers kdv ks ns2d helmholtz poisson10 wide"
for c in $cases; do
  p=$quick
  [ "$c" = wide ] && p="--points 64 --seconds 0.01"
  expect 0 bench step "$c" $p --dtype f64 --json "$c.64"
  expect 0 bench step "$c" $p --dtype f64 --threads 1 --check 1 --json "$c.64.1"
  expect 0 bench step "$c" $p --dtype f32 --json "$c.32"
  for key in case peer dtype min_ms median_ms max_ms steps peak_mib loss loss_after threads isa cpu share_of_peak \
    gemm_gflops fma_gflops start_mib points; do
    says "$c.64" "^  \"$key\": "
  done
  [ "$(value "$c.64" case) $(value "$c.64" peer) $(value "$c.64" dtype)" = "$c pinn f64" ]
  say $? "case, peer and dtype of $c"
  [ "$(value "$c.64" loss_after)" = null ]; say $? "loss_after without --check is null"
  holds "$(value "$c.64" min_ms) <= $(value "$c.64" median_ms) && $(value "$c.64" median_ms) <= $(value "$c.64" max_ms)" "$c"
  holds "$(value "$c.64" steps) >= 5" "$c"
  loss=$(value "$c.64" loss) norm=$(value "$c.64" gradient_norm)
  single=$(value "$c.32" loss)
  holds "($single - $loss)^2 <= (1e-4 * $loss)^2 && $loss > 0" "$c: f32 against f64"
  after=$(value "$c.64.1" loss_after)
  fall="1e-3 * $norm ^ 2"
  holds "$after < $loss && ($loss - $after) > 0.5 * $fall && ($loss - $after) < 1.5 * $fall" "$c: fall of a step"
done
# Without --check nothing moves: one thread gives the bits of two.
expect 0 bench step ns2d $quick --dtype f64 --threads 1 --json one
[ "$(value one loss) $(value one gradient_norm)" = "$(value ns2d.64 loss) $(value ns2d.64 gradient_norm)" ]
say $? "threads change no bit"
[ "$(value one threads)" = 1 ]; say $? "one thread was asked for"

# A data file: little-endian f64; 2-20x8-1 has 3021 weights and biases, then points.
expect 0 bench step burgers --points 3 --seconds 0.01 --dtype f64 --check 2 --json zero --data <(head -c $((8 * 3027)) /dev/zero)
[ "$(value zero loss) $(value zero loss_after)" = "0 0" ]; say $? "zero weights: u = 0 fulfils the equation"
head -c $((8 * 3026)) /dev/zero >short
expect 2 bench step burgers --points 3 --data short && says err 'too few numbers for `burgers` with 3 points'
head -c $((8 * 3028)) /dev/zero >long
expect 2 bench step burgers --points 3 --data long && says err 'too many numbers'
expect 3 bench step burgers --data none && says err 'cannot be opened'

# A problem file: its own loss and format.
expect 0 bench step "$SOURCE_DIR/problems/heat.toml" --seconds 0.01 --check 1 --json file
says out 'f64' && says file '"case": "heat.toml"'
expect 0 bench step "$SOURCE_DIR/problems/heat.toml" --seconds 0.01 --json before
holds "$(value file loss_after) < $(value before loss)" "a descent step on heat.toml"
expect 0 bench step "$SOURCE_DIR/problems/heat.toml" --seconds 0.01 --points 100 --dtype f32 --json small
holds "$(value small points) < $(value file points)" "fewer points"
[ "$(value small dtype)" = f32 ]; say $? "f32 of a file"

# Memory: at 10 000 points within 32 MiB; 100 000 more points of 2 f32 need 0.76 MiB (an allowance of 8).
expect 0 bench step burgers --seconds 0.01 --json at1
expect 0 bench step burgers --seconds 0.01 --points 110000 --json at11
# A sanitizer needs memory of its own.
[ -n "${ASAN_OPTIONS:-}" ] || holds "$(value at1 peak_mib) <= 32" "peak memory of burgers"
holds "$(value at11 peak_mib) <= $(value at1 peak_mib) + 0.76 + 8" "growth with points"

"$PINN" bench peak --seconds 0.05 --threads 1 --json peak >out 2>err # too short to hold the ratio: 0 or 1
[ $? -le 1 ]; say $? "bench peak"
for key in cpu isa blas fma_gflops_f64_one fma_gflops_f32_all openblas_gflops_f64_one memory_triad_gbytes_all least_ratio; do
  says peak "^  \"$key\": "
done
holds "$(value peak fma_gflops_f32_one) > 0.9 * $(value peak fma_gflops_f64_one)" "f32 is no slower than f64"

# A profile: its products are those that the share of the peak counts, and its rows fit into the step.
expect 0 profile burgers --points 2000 --seconds 0.1 --json profile.json --svg profile.svg --all
says out 'weight gradients, 3 x 400' && says out '^channels   net: 3 for 6 uses' && says out 'and [0-9]* more in [0-9]* instructions'
says profile.svg '^<svg' && says profile.svg 'operations a byte'
holds "$(value profile.json rows_ms) > 0 && $(value profile.json rows_ms) <= 1.02 * $(value profile.json profiled_ms)" profile
sum=$(sed -n 's/.*"work": "\(products\|weights\)".*"flops": \([^,]*\),.*/\2/p' profile.json | awk '{ s += $1 } END { print s }')
holds "($sum - 2e5 * 510)^2 <= (0.02 * 2e5 * 510)^2" "FLOPs of burgers' products: 51 000 a point"
expect 0 profile "$SOURCE_DIR/problems/heat.toml" --seconds 0.05 --threads 1 && says out 'of peak'
expect 2 profile && says err 'is missing'
expect 2 profile burgers --dtype f8 && says err 'expected f64, f32, tf32, bf16 or f16'

expect 2 bench && says err 'what to measure'
expect 2 bench speed && says err 'expected `peak` or `step'
expect 2 bench step && says err 'is missing'
expect 2 bench step bugers && says err 'Did you mean `burgers`'
expect 2 bench step burgers --dtype f8 && says err 'expected f64, f32, tf32, bf16 or f16'
expect 2 bench peak --points 3 && says err 'only --seconds'
expect 2 bench step "$SOURCE_DIR/problems/heat.toml" --data short && says err 'goes with a case'
expect 3 bench step none.toml
expect 0 bench --help && says out 'poisson10'
echo "bench: $((count - failed)) of $count"
[ "$failed" = 0 ]
