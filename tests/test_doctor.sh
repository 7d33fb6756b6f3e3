#!/usr/bin/env bash
# test_doctor.sh: what `pinn doctor` says about machines with and without GPU, and about what is set up wrongly.
# ctest: labels=full,cli timeout=180
set -u
. "$SOURCE_DIR/tests/support_checks.sh"
says_not() {
  ! grep -q -e "$2" "$1"
  check "no \`$2\` in $1" $?
}
unset LD_LIBRARY_PATH PINN_CUDA_PATH NVIDIA_TF32_OVERRIDE PINN_MPI_MODULE CUDA_VISIBLE_DEVICES
here=$PWD

# ---- Any build, any machine ----
expect 0 doctor --help && says out 'usage: pinn doctor \[--device cpu|cuda\]'
expect 2 doctor --device gpu && says err 'expected `cpu` or `cuda`'
expect 2 doctor --devise cuda && says err 'Did you mean `--device`'
expect 2 doctor word && says err 'one word too many'
expect 3 doctor --json "$here/missing/file.json"
expect 0 doctor && says out '^pinn ' && says out '^cpu .*kernels' && says out '^blas ' && says out '^MPI ' && says out '^rounding .*subnormals kept'
expect 0 doctor --device cpu --json cpu.json && says out '^use  *cpu$'
says cpu.json '"rounding state": "fine"' && says cpu.json '"status": 0'
if command -v python3 >/dev/null; then
  python3 -c 'import json, sys; json.load(open(sys.argv[1]))' cpu.json
  check 'the file is JSON' $?
fi

# Nothing of NVIDIA's or of MPI is linked, or loaded by a program that only starts.
if command -v ldd >/dev/null; then
  ldd "$PINN" >out 2>err
  says_not out 'libcuda\|libnvrtc\|libcublas\|libcusolver\|libcudnn\|libnccl\|libmpi'
fi
LD_DEBUG=files "$PINN" --version >out 2>err
says_not err 'libcuda\|libnvrtc\|libcublas\|libcusolver\|libcudnn\|libnccl\|libmpi'

# A launcher started ranks, so its MPI is asked for.
OMPI_COMM_WORLD_SIZE=4 PINN_MPI_MODULE=$here/none.so expect 3 doctor && says out '^MPI .*no module' && says out 'PINN_MPI_MODULE'
echo 'no library' >broken.so
PINN_MPI_MODULE=$here/broken.so expect 0 doctor && says out '^MPI  *BROKEN'

# ---- A build without CUDA ----
"$PINN" doctor >out 2>err
if grep -q '^cuda  *not in this build' out; then
  expect 0 doctor && says out '-> .*CUDA toolkit'
  expect 3 doctor --device cuda --json cuda.json && says err 'no CUDA backend' && says err 'driver' && says err 'capability'
  says cuda.json '"status": 3' && says cuda.json '"cuda state": "absent"'
  echo "$count checks, $failed failed (a build without CUDA)"
  exit $((failed > 0))
fi

# ---- A machine without a driver ----
expect 0 doctor && says out '^TF32  *off' && says out '^FTZ  *off' && says out '^NVRTC' && says out '^cuSOLVER' && says out '^cache '
if grep -q '^driver  *no libcuda.so.1' out; then
  says out '-> without it everything runs on the CPU'
  expect 3 doctor --device cuda --json cuda.json
  says err 'no libcuda.so.1' && says err 'driver: none was found' && says err 'compute capability: not known' && says err '^  code: '
  says cuda.json '"driver state": "absent"' && says cuda.json '"status": 3'
fi

# ---- Set up wrongly ----
mkdir -p a b toolkit/stubs dir/libcuda.so.1
echo 'one file' >a/libcudnn.so.9
echo 'another file' >b/libcudnn.so.9
ln -s ../a/libcudnn.so.9 toolkit/libcudnn.so.9
echo 'stub' >toolkit/stubs/libcuda.so

# Two files of one library: which one is taken is said. A link to the same file is none.
LD_LIBRARY_PATH=$here/a:$here/b expect 0 doctor && says out "-> .*$here/a/libcudnn.so.9 is taken and differs from $here/b/libcudnn.so.9"
LD_LIBRARY_PATH=$here/b:$here/a expect 0 doctor && says out "$here/b/libcudnn.so.9 is taken and differs from $here/a"
LD_LIBRARY_PATH=$here/a:$here/toolkit expect 0 doctor && says_not out 'is taken and differs'
# It cannot be loaded, and nothing else is taken in its place.
LD_LIBRARY_PATH=$here/a expect 0 doctor && says out '^cuDNN  *BROKEN: .*cannot be loaded' && says out 'remove or replace this file'
# A stub is no driver.
LD_LIBRARY_PATH=$here/toolkit/stubs expect 0 doctor && says out '-> .*toolkit/stubs/libcuda.so is a stub'
# Files that PINN_CUDA_PATH names were meant: broken ones are a failure.
PINN_CUDA_PATH=$here/a expect 3 doctor && says out '^cuDNN  *BROKEN'
PINN_CUDA_PATH=$here/dir expect 3 doctor && says out '^driver  *BROKEN: .*dir/libcuda.so.1 cannot be loaded'
PINN_CUDA_PATH=$here/dir expect 3 doctor --device cuda && says err 'dir/libcuda.so.1 cannot be loaded' && says err 'driver: cannot be used'
echo 'not a library' >b/libcuda.so.1
PINN_CUDA_PATH=:$here/b:: expect 3 doctor --device cuda && says err 'b/libcuda.so.1 cannot be loaded'
PINN_CUDA_PATH=$here/nowhere expect 0 doctor && says out "-> .*names $here/nowhere, which is no folder"
# Switches that change numbers.
NVIDIA_TF32_OVERRIDE=1 expect 0 doctor && says out '^TF32 .*NVIDIA_TF32_OVERRIDE=1' && says out '-> unset NVIDIA_TF32_OVERRIDE: it'
CUBLAS_EMULATE_DOUBLE_PRECISION=1 NVIDIA_TF32_OVERRIDE=0 expect 0 doctor &&
  says out '-> unset NVIDIA_TF32_OVERRIDE, unset CUBLAS_EMULATE_DOUBLE_PRECISION: it'
# The cache.
PINN_CUDA_CACHE= expect 0 doctor && says out '^cache  *none'
PINN_CUDA_CACHE=$here/b/libcuda.so.1/below expect 0 doctor && says out '-> it cannot be written'
mkdir -p kernels && echo x >kernels/1.cubin && echo y >kernels/other
PINN_CUDA_CACHE=$here/kernels expect 0 doctor && says out "^cache  *$here/kernels, 1 file, 0.0 MiB"

# ---- A file that lacks a function ----
if command -v "${CC:-cc}" >/dev/null; then
  mkdir -p partial
  echo 'int cuInit(unsigned x) { return (int)x; }' >partial.c
  "${CC:-cc}" -shared -fPIC partial.c -o partial/libcuda.so.1 2>err
  PINN_CUDA_PATH=$here/partial expect 3 doctor --device cuda && says err 'partial/libcuda.so.1 lacks the function cuDriverGetVersion'
fi

# ---- A device, emulated ----
if [ -e "${EMULATED_CUDA_DIR:-/none}/libcuda.so.1" ]; then
  export PINN_CUDA_PATH=$EMULATED_CUDA_DIR
  expect 0 doctor && says out '^driver  *CUDA 1[2-9]' && says out "^device 0 .*compute capability .*, code sm_"
  expect 0 doctor --device cuda --json emulated.json && says out '^use  *emulated device (tests)'
  says emulated.json '"status": 0'
  says emulated.json '"driver state": "fine"'
  # Each call on the way to an open device fails: exit 3, the call and its error are named.
  for call in cuInit cuDeviceGetCount cuDeviceGet cuDeviceGetAttribute cuDeviceTotalMem cuDevicePrimaryCtxRetain \
    cuCtxSetCurrent cuStreamCreate cuEventCreate; do
    EMULATED_CUDA_FAIL="$call:1+=999" expect 3 doctor --device cuda && says err "cuda: $call: .*999"
    says err '^  driver: CUDA 1' && says err '^  compute capability: ' && says err '^  code: sm_'
  done
  EMULATED_CUDA_FAIL='cuInit:1+=100' expect 3 doctor --device cuda && says err 'no GPU is visible' && says out '^devices .*(100)'
  EMULATED_CUDA_FAIL='cuInit:1+=100' expect 0 doctor # the driver is there, a GPU was not asked for
  EMULATED_CUDA_FAIL='cuInit:1+=34' expect 3 doctor --device cuda && says err "the toolkit's stub"
  EMULATED_CUDA_FAIL='cuInit:1+=803' expect 3 doctor --device cuda && says err 'restart after an update'

  # Drivers and devices that do not fit: functions of the emulated driver's names that answer what they are told.
  if command -v "${CC:-cc}" >/dev/null && command -v nm >/dev/null; then
    answers() { # answers FOLDER VERSION MAJOR MINOR
      mkdir -p "$1"
      {
        nm -D --defined-only "$EMULATED_CUDA_DIR/libcuda.so.1" | sed -n 's/^.* T \(cu[A-Z][A-Za-z0-9_]*\)$/\1/p' |
          grep -v -x -e cuDriverGetVersion -e cuDeviceGetCount -e cuDeviceGetAttribute |
          sed 's/.*/int &(void) { return 0; }/'
        echo "int cuDriverGetVersion(int *x) { *x = $2; return 0; }"
        echo "int cuDeviceGetCount(int *x) { *x = 1; return 0; }"
        echo "int cuDeviceGetAttribute(int *x, int which) { *x = which == 75 ? $3 : which == 76 ? $4 : 1; return 0; }"
      } >"$1.c"
      "${CC:-cc}" -w -shared -fPIC "$1.c" -o "$1/libcuda.so.1" 2>err
      export PINN_CUDA_PATH=$here/$1:$EMULATED_CUDA_DIR
    }
    answers old 11080 9 0
    expect 3 doctor --device cuda && says err 'the driver runs CUDA 11.8; CUDA 12.0 or newer is needed (this program was built with 1'
    says err '^  driver: CUDA 11.8' && says out '^driver  *BROKEN: CUDA 11.8'
    answers twelve 12040 9 0
    expect 3 doctor --device cuda && says err 'no libnvrtc.so.12 .*the driver runs nothing beyond CUDA 12'
    answers pascal 13000 6 1
    expect 3 doctor --device cuda && says err 'compute capability 6.1; 7.0 or more is needed' && says err '^  compute capability: 6.1'
    says out '^device 0 *BROKEN'
    answers volta 13000 7 0
    expect 3 doctor --device cuda && says err 'code for sm_75 and newer, not for compute capability 7.0'
    answers newest 13000 31 7
    expect 0 doctor --device cuda && says out '^device 0 .*capability 31.7, code PTX of compute_121'
  fi
fi

echo "$count checks, $failed failed"
exit $((failed > 0))
