#!/bin/bash
# test_gpu_compile.sh: the compilers of the CUDA toolkit take the text of kernels, and all samples run on the emulated
# device.
# ctest: labels=full,gpu timeout=1800 processors=2
#
# NVRTC compiles samples (tests/support_gpu_samples.c) without a warning: a short list for compute capability 8.0, 9.0
# and 10.0, the others for 9.0; with PINN_TEST_ALL in the environment all of them for all three. nvcc does so for some,
# and ptxas tells the registers and spills of the loops' kernels. A kernel of 256 threads
# is to have at most 128 registers, so that two blocks share a multiprocessor, and may spill a few bytes. What the
# machine lacks is said and left out: a toolkit is not needed to build the program. No GPU is needed.
set -u
tests=${PINN%/*}/tests
failed=0
note() { printf '%s\n' "$*"; }

if ! PINN_TEST_ALL=1 "$tests/test_gpu_text" > bits.log 2>&1; then
  note "samples differ on the emulated device"
  cat bits.log
  failed=1
fi
grep differing bits.log

mkdir -p texts
"$tests/test_gpu_text" --texts texts || exit 1
note "texts: $(ls texts | wc -l), $(cat texts/*.cu | wc -c) bytes"

toolkit=${CUDA_PATH:-/usr/local/cuda}
nvcc=$(command -v nvcc || echo "$toolkit/bin/nvcc")
library=
for file in "$toolkit"/lib64/libnvrtc.so "$toolkit"/lib64/libnvrtc.so.1[0-9]; do
  [ -e "$file" ] && library=$file
done

# ---- NVRTC, loaded as the program loads it
cat > rtc.c <<'EOF'
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int (*create_fn)(void **, const char *, const char *, int, const char *const *, const char *const *);
typedef int (*compile_fn)(void *, int, const char *const *);
typedef int (*size_fn)(void *, size_t *);
typedef int (*log_fn)(void *, char *);
typedef int (*destroy_fn)(void **);

static void *library;
static void *find(const char *name) {
  void *f = dlsym(library, name);
  if (!f) exit(fprintf(stderr, "no %s\n", name));
  return f;
}

int main(int argc, char **argv) { /* library, a letter for the targets, files */
  static const char *const targets[] = {"sm_90", "sm_80", "sm_100"};
  int failed = 0, compiled = 0, n_targets = argv[2][0] == 'a' ? 3 : 1;
  library = dlopen(argv[1], RTLD_NOW);
  if (!library) return fprintf(stderr, "%s\n", dlerror());
  for (int i = 3; i < argc; ++i) {
    FILE *file = fopen(argv[i], "rb");
    char *text = calloc(1, 1 << 22);
    if (!file || !text || !fread(text, 1, (1 << 22) - 1, file)) return 1;
    fclose(file);
    for (int t = 0; t < n_targets; ++t) {
      char target[64];
      void *program = NULL;
      size_t n = 0, bytes = 0;
      snprintf(target, sizeof target, "--gpu-architecture=%s", targets[t]);
      const char *const options[] = {target, "--std=c++17", "--fmad=false"};
      int status = ((create_fn)find("nvrtcCreateProgram"))(&program, text, argv[i], 0, NULL, NULL);
      if (!status) status = ((compile_fn)find("nvrtcCompileProgram"))(program, 3, options);
      ((size_fn)find("nvrtcGetProgramLogSize"))(program, &n);
      char *log = calloc(1, n + 1);
      ((log_fn)find("nvrtcGetProgramLog"))(program, log);
      if (!status) status = ((size_fn)find("nvrtcGetCUBINSize"))(program, &bytes);
      if (status || strlen(log) > 0 || !bytes) {
        printf("%s, %s: status %d\n%.2000s\n", argv[i], targets[t], status, log);
        failed = 1;
      } else ++compiled;
      free(log);
      ((destroy_fn)find("nvrtcDestroyProgram"))(&program);
    }
    free(text);
  }
  printf("NVRTC: %d of %d compiled without a word\n", compiled, n_targets * (argc - 3));
  return failed;
}
EOF
if [ -z "$library" ]; then
  note "no NVRTC here: its part is left out"
elif ! cc -O1 -std=gnu11 rtc.c -o rtc -ldl; then
  failed=1
else
  short="burgers_f64_20 burgers_f32_20 burgers_bf16_20 allen_cahn_f32_32 rows_f64_20 structure_f64_12 structure_bf16_12"
  for name in $short; do ls "texts/$name.cu"; done > short.txt || failed=1
  ls texts/*.cu | grep -vxFf short.txt > others.txt
  [ -n "${PINN_TEST_ALL:-}" ] && others=all || others=one
  ./rtc "$library" all $(cat short.txt) > rtc1.log 2>&1 & # side by side
  first=$!
  ./rtc "$library" $others $(cat others.txt) > rtc2.log 2>&1 || failed=1
  wait "$first" || failed=1
  cat rtc1.log rtc2.log
fi

# ---- nvcc and ptxas
if [ ! -x "$nvcc" ]; then
  note "no nvcc here: its part is left out"
else
  for name in burgers_f64_20 burgers_f32_20 allen_cahn_f64_32; do
    for target in 80 90 100; do
      if ! "$nvcc" -std=c++17 -fmad=false -gencode "arch=compute_$target,code=sm_$target" -cubin -Xptxas -v \
        "texts/$name.cu" -o kernel.cubin > nvcc.log 2>&1; then
        note "nvcc, $name for sm_$target:"
        head -40 nvcc.log
        failed=1
        continue
      fi
      if grep -q warning nvcc.log; then
        note "nvcc warns, $name for sm_$target: $(grep -m 3 warning nvcc.log)"
        failed=1
      fi
      awk -v name="$name sm_$target" '
        /Compiling entry function/ { kernel = $7; gsub(/\047/, "", kernel) }
        /spill stores/ { spills = $5 }
        /Used [0-9]+ registers/ {
          if (kernel ~ /^loop/) printf "%s %s: %d registers, %d bytes of spill stores\n", name, kernel, $5, spills
          if (kernel ~ /^loop/ && ($5 > 128 || spills > 64)) bad = 1
        }
        END { exit bad }' nvcc.log || { note "more registers or spills than promised"; failed=1; }
    done
  done
fi
exit $failed
