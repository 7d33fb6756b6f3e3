#!/usr/bin/env bash
# test_engine.sh: the example of docs/engine.md compiles without a warning, as C11 and against the built libraries,
# and prints what the page says: one program for all steps, the captured loss equal, the look inside refused.
set -eu
build=$(dirname "$PINN")
setting() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }
compiler=$(setting CMAKE_C_COMPILER) sanitize=$(setting PINN_SANITIZE)
sed -n '/^```c$/,/^```$/p' "$SOURCE_DIR/docs/engine.md" | sed '/^```/d' >example.c
[ -s example.c ] || { echo "docs/engine.md shows no program"; exit 1; }
"$compiler" -std=c11 -Wall -Wextra -Wpedantic -Werror ${sanitize:+-fsanitize=$sanitize} -I"$SOURCE_DIR" example.c \
  "$build/libag.a" "$build/libtn.a" -lm -lpthread -o example
./example | tee output
good=0
expect() { if grep -Eq "$1" output; then good=$((good + 1)); else echo "FAILED: no line like $1"; fi; }
# Least squares by hand: residual a(1 - x) + b(2x - x^2) - 1, moments 1/3, 1/4, 8/15 and 1/2, 2/3: a = 72/83,
# b = 70/83, loss 1/249; the midpoint rule of 100 points moves the fourth digit by at most one.
expect '^a = 0\.86[678][0-9], b = 0\.84[234][0-9], loss 0\.0040[0-9]$'
expect '^400 steps, 1 program$'
loss=$(sed -n 's/^a = .* loss //p' output)
expect "^captured: loss $loss\$"
expect '^refused: eval of div '
echo "engine: $good of 4"
[ "$good" = 4 ]
