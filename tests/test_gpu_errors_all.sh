# test_gpu_errors_all.sh: test_gpu_errors with each call of each library and each code, which takes minutes.
# ctest: labels=full timeout=1800
set -eu
PINN_TEST_ERRORS=all "$(dirname "$PINN")/tests/test_gpu_errors"
