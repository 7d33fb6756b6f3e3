#!/usr/bin/env bash
# test_isa.sh: every build of tensor/ computes the same bits.
# ctest: labels=full timeout=300 processors=2
#
# Builds tests/tensor_static/bits.c with tensor/ by gcc and by clang for this machine, and with a cross compiler for
# AArch64, where it runs under qemu; runs each at every instruction set level it has, and compares what they print.
# What is missing on this machine is skipped, and said so.
set -u
# Warnings are the main build's matter, and so is speed: kernels are compiled without the costly optimisations.
flags="-std=c11 -w -ffp-contract=off -fno-math-errno -D_POSIX_C_SOURCE=200809L -I$SOURCE_DIR"
same=0; total=0; reference=""

# build COMPILER: objects and program in the folder of that name; kernels once a level.
build() {
  mkdir -p "$1" || return 1
  local levels="base" have="" level file compiler="$1"
  case "$("$compiler" -dumpmachine)" in
    x86_64*) levels="base v3"; have="-DTN_HAVE_V3=1"
      if grep -q avx512dq /proc/cpuinfo; then levels="base v3 v4"; have="$have -DTN_HAVE_V4=1"; fi ;;
  esac
  for file in "$SOURCE_DIR"/tensor/*.c "$SOURCE_DIR/tests/tensor_static/bits.c"; do
    case "$file" in
      */kernels_*) for level in $levels; do
          local march=""; [ "$level" = base ] || march="-march=x86-64-$level"
          echo "$compiler $flags $have -O1 $march -DTN_ISA=$level -c $file -o $1/$(basename "$file" .c).$level.o"
        done ;;
      *) echo "$compiler $flags $have -O1 -c $file -o $1/$(basename "$file" .c).o" ;;
    esac
  done > "$1/commands"
  # The longest first, two at a time; any failure fails all.
  { grep kernels_map "$1/commands"; grep -v kernels_map "$1/commands"; } |
    xargs -P 2 -I{} sh -c '{} || exit 255' || return 1
  "$compiler" $2 -o "$1/bits" "$1"/*.o -lm -lpthread
}

# compare NAME COMMAND...: the program prints what the first one printed.
compare() {
  local name="$1"; shift
  total=$((total + 1))
  if ! "$@" > "$name.out" 2> "$name.err"; then
    echo "FAILED $name: $(cat "$name.err")"; return
  fi
  if [ -z "$reference" ]; then reference="$name.out"; fi
  if diff "$reference" "$name.out" > "$name.diff"; then
    same=$((same + 1)); echo "ok      $name: $(tail -n 1 "$name.out")"
  else
    echo "FAILED  $name differs from ${reference%.out}:"; cat "$name.diff"
  fi
}

for compiler in gcc clang; do
  if ! command -v "$compiler" > /dev/null; then echo "SKIPPED $compiler: not installed"; continue; fi
  if ! build "$compiler" "" > "$compiler.log" 2>&1; then
    total=$((total + 1)); echo "FAILED  $compiler does not build:"; head -n 20 "$compiler.log"; continue
  fi
  has=$("./$compiler/bits" 2>&1 > /dev/null | sed 's/.* of //')
  for level in base v3 v4; do
    case ",$has," in
      *[\ ,]"$level",*) compare "$compiler-$level" env TN_ISA="$level" "./$compiler/bits" ;;
      *) echo "SKIPPED $compiler-$level: this CPU has $has" ;;
    esac
  done
done
cross=aarch64-linux-gnu-gcc
emulator=$(command -v qemu-aarch64-static || command -v qemu-aarch64)
if ! command -v "$cross" > /dev/null; then
  echo "SKIPPED AArch64: $cross is not installed"
elif [ -z "$emulator" ]; then
  echo "SKIPPED AArch64: neither qemu-aarch64-static nor qemu-aarch64 is installed"
elif ! build "$cross" -static > "$cross.log" 2>&1; then
  total=$((total + 1)); echo "FAILED  $cross does not build:"; head -n 20 "$cross.log"
else
  compare aarch64 "$emulator" "./$cross/bits"
fi
echo "$same of $total builds give the same bits"
[ "$total" -ge 2 ] && [ "$same" = "$total" ]
