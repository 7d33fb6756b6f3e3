#!/usr/bin/env bash
# test_float_process.sh: hostile floating-point environments of a whole process, and of a build, end in a clear error.
#
# Six of each kind of trouble that is known from practice: a library built with -ffast-math, which sets FTZ and DAZ
# when it is loaded; libraries that set DAZ alone, or another rounding; and builds with -ffast-math, with parts of it,
# and for the x87. Each run must exit with 3 and say what is wrong, each build must stop at an #error.
set -u
failed=0 passed=0 skipped=0
check() { # check TEXT STATUS
  if [ "$2" -eq 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAILED $1"; fi
}

cat >decay.toml <<'END'
[domain]
t = [0, 1]
[unknowns]
u = "t"
[equations]
decay = "u_t = -u"
[conditions]
start = { on = "t = 0", equation = "u = 1" }
[[stage]]
optimizer = "adam"
steps = 2
END

cc=${CC:-gcc}
command -v "$cc" >/dev/null || cc=clang
if ! command -v "$cc" >/dev/null; then echo "SKIPPED: no compiler"; exit 0; fi

# ---- Builds ----

refuses() { # refuses TEXT FLAG...
  local text="$1"; shift
  echo '#include "tensor/tensor.h"' | "$cc" -std=c11 "$@" -I"$SOURCE_DIR" -fsyntax-only -x c - 2>err
  [ $? -ne 0 ] && grep -q "error.*$text" err
  check "a build with $* is refused" $?
}
echo '#include "tensor/tensor.h"' | "$cc" -std=c11 -O2 -I"$SOURCE_DIR" -fsyntax-only -x c -
check "a build without them is not" $?
refuses "must not be built with -ffast-math" -ffast-math
refuses "parts of -ffast-math" -ffinite-math-only
if [ "$("$cc" -dumpmachine | cut -d- -f1)" = x86_64 ] &&
   echo | "$cc" -mfpmath=387 -dM -E - 2>/dev/null | grep -q 'FLT_EVAL_METHOD__ 2'; then
  refuses "FLT_EVAL_METHOD" -mfpmath=387
else
  skipped=$((skipped + 1))
fi

# ---- Processes ----

case "$PINN" in *asan*|*ubsan*) echo "SKIPPED processes: a sanitizer wants to be loaded first"; exit $((failed > 0)) ;; esac
if ldd "$PINN" 2>/dev/null | grep -q -e libasan -e libubsan; then
  echo "SKIPPED processes: a sanitizer wants to be loaded first"; exit $((failed > 0))
fi

library() { # library NAME BODY FLAG...: one whose constructor runs BODY
  local name="$1" body="$2"; shift 2
  printf '#include <fenv.h>\n%s\n__attribute__((constructor)) static void spoil(void) { %s }\n' \
    "$([ "$(uname -m)" = x86_64 ] && echo '#include <xmmintrin.h>')" "$body" >"$name.c"
  "$cc" -shared -fPIC -O1 "$@" "$name.c" -o "$name.so" -lm 2>err
}
run() { # run LIBRARY TEXT ARGUMENT...
  local name="$1" text="$2"; shift 2
  LD_PRELOAD="$PWD/$name.so" "$PINN" "$@" >out 2>err
  local status=$?
  [ "$status" -eq 3 ] && grep -q "$text" err
  check "pinn $1 with $name: status $status, $(head -n 1 err)" $?
}

"$PINN" validate ops --only tanh --points 5 >out 2>err
check "pinn validate ops runs in peace: $(head -n 1 err)" $?
for case in "up:fesetround(FE_UPWARD);:nearest" "down:fesetround(FE_DOWNWARD);:nearest" \
            "zero:fesetround(FE_TOWARDZERO);:nearest" "ftz:_mm_setcsr(_mm_getcsr() | 0x8000);:FTZ" \
            "daz:_mm_setcsr(_mm_getcsr() | 0x40);:DAZ" "fast::TZ\|DAZ"; do
  IFS=: read -r name body text <<<"$case"
  flags=""
  [ "$name" = fast ] && flags=-ffast-math
  if ! library "$name" "$body" $flags; then skipped=$((skipped + 1)); continue; fi
  run "$name" "$text" solve decay.toml --out "$name.out"
  [ ! -e "$name.out/summary.json" ]
  check "pinn solve with $name leaves no result" $?
  run "$name" "$text" validate ops --only tanh --points 5
done

echo "$passed passed, $failed failed, $skipped skipped"
exit $((failed > 0))
