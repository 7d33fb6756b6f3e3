# support_mpi.sh: ranks for shell tests; to be sourced. Ends the test as passed, saying so, where there is no mpirun or
# the build has no ranks.
export LC_ALL=C
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_btl_vader_single_copy_mechanism=none # containers forbid it, and say so

# Open MPI leaves some kilobytes to the end of a process; a sanitizer would count them as ours.
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0

# ranks N COMMAND...: N processes, at most 120 s
ranks() {
  local n=$1
  shift
  timeout -k 5 120 mpirun -n "$n" "$@"
}
digest() { sed -n 's/.*"weights_sha256": "\([0-9a-f]*\)".*/\1/p' "$1/summary.json"; }
number() { sed -n "s/^ *\"$2\": *\([^,]*\),*\$/\1/p" "$1/summary.json" | head -n 1; }

if ! command -v mpirun >mpirun.txt; then
  echo "skipped: there is no mpirun"
  exit 0
fi
ranks 2 "$PINN" solve no-such-file.toml >probe.txt 2>&1
if grep -q 'module for MPI cannot be loaded' probe.txt; then
  echo "skipped: this build has no ranks"
  exit 0
fi
