#!/usr/bin/env bash
# test_round_all.sh: every f32 number through the kernels that round to tf32, bf16 and f16 (test_round.c).
# ctest: labels=audit timeout=1800
set -eu
PINN_TEST_ROUND=all "$(dirname "$PINN")/tests/test_round" 2>&1 | tee out
grep -q '4294967296 numbers, 3 formats' out
! grep -q FAILED out
