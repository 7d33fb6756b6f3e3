#!/usr/bin/env bash
# ctest: labels=full,check timeout=300
#
# `pinn check` on every file below problems/: none has a finding, each takes at most a second of the CPU, and each says
# what it teaches and what its reference is. Of the published definitions in problems/pinnacle/original it must say
# what is wrong. An argument runs only files with that word in their path: tests/test_library.sh pinnacle
set -u
export LC_ALL=C
only=${1:-}
limit=1000 # ms of the CPU
[ -z "${ASAN_OPTIONS:-}${UBSAN_OPTIONS:-}" ] || limit=15000 # a sanitizer is slow
good=0 total=0 slowest=0 slowest_file=
TIMEFORMAT=%U

say() { # say STATUS TEXT
  total=$((total + 1))
  if [ "$1" -eq 0 ]; then good=$((good + 1)); else printf 'FAILED %s\n' "$2"; fi
}

# What must be said of each published definition: exit status, then texts.
original() {
  case $1 in
    wave_2d_long_time) printf '%s\n' 2 'the exact solution leaves' 'in `wave`' '`u_tt` needs two conditions at t = 0' ;;
    poisson_inverse) printf '%s\n' 2 'the exact solution leaves' 'in `poisson`' ;;
    ks) printf '%s\n' 0 'warning: ' '`u_xxxx` needs two conditions on x = 0' 'given: none' ;;
    gray_scott) printf '%s\n' 0 'warning: ' '`u_xx` needs two conditions on x = -1' '`u_yy` needs two conditions on y = -1' ;;
    *) printf '%s\n' 'no such file' ;;
  esac
}

check_original() { # check_original PATH STATUS
  local wanted status=1 text
  mapfile -t wanted < <(original "$(basename "$1" .toml)")
  [ "$2" = "${wanted[0]}" ] && status=0
  for text in "${wanted[@]:1}"; do
    grep -qF -- "$text" output.txt || status=1
  done
  say "$status" "$1: status $2, and what is wrong with it must be said:"
  [ "$status" -eq 0 ] || sed 's/^/    /' output.txt
}

check_right() { # check_right PATH STATUS
  local status=0
  [ "$2" -eq 0 ] && ! grep -qF 'warning: ' output.txt || status=1
  say "$status" "$1: exit status $2"
  [ "$status" -eq 0 ] || grep -vE '^(network|equation|condition|computes|predicted) ' output.txt | sed 's/^/    /'
}

while IFS= read -r file; do
  path=${file#"$SOURCE_DIR"/}
  case $path in *"$only"*) ;; *) continue ;; esac
  seconds=$({ time "$PINN" check "$file" >output.txt 2>&1 </dev/null; echo "$?" >status; } 2>&1)
  status=$(cat status)
  ms=$(awk -v s="$seconds" 'BEGIN { printf "%d", 1000 * s }')
  [ "$ms" -le "$slowest" ] || { slowest=$ms; slowest_file=$path; }
  case $path in
    problems/pinnacle/original/*) check_original "$path" "$status" ;;
    *) check_right "$path" "$status" ;;
  esac
  [ "$ms" -le "$limit" ]; say $? "$path took $ms ms, more than $limit"
  grep -q '^# Teaches: ' "$file" && grep -q '^# Reference: ' "$file"; say $? "$path: no line # Teaches: or no line # Reference:"
done < <(find "$SOURCE_DIR/problems" -name '*.toml' | sort)

files=$(find "$SOURCE_DIR/problems" -name '*.toml' | wc -l)
[ "$files" -ge 60 ]; say $? "only $files files"
printf 'slowest: %s, %d ms\n' "$slowest_file" "$slowest"
printf 'library: %d of %d\n' "$good" "$total"
[ "$total" -gt 0 ] && [ "$good" -eq "$total" ]
