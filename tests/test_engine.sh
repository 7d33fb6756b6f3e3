#!/usr/bin/env bash
# test_engine.sh: the examples of docs/engine.md and docs/howto-custom-op.md compile without a warning, as C11 and against
# the built libraries, and print what the pages say: one program for all steps, the captured loss equal, the look inside
# refused; derivatives of a user's operation.
set -eu
build=$(dirname "$PINN")
setting() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }
compiler=$(setting CMAKE_C_COMPILER) sanitize=$(setting PINN_SANITIZE)
for page in engine howto-custom-op; do
  sed -n '/^```c$/,/^```$/p' "$SOURCE_DIR/docs/$page.md" | sed '/^```/d' >$page.c
  [ -s $page.c ] || { echo "docs/$page.md shows no program"; exit 1; }
  "$compiler" -std=c11 -Wall -Wextra -Wpedantic -Werror ${sanitize:+-fsanitize=$sanitize} -I"$SOURCE_DIR" $page.c \
    "$build/libag.a" "$build/libtn.a" -lm -lpthread -o $page
  ./$page | tee -a output
done
good=0
expect() { if grep -Eq "$1" output; then good=$((good + 1)); else echo "FAILED: no line like $1"; fi; }
# Least squares by hand: residual a(1 - x) + b(2x - x^2) - 1, moments 1/3, 1/4, 8/15 and 1/2, 2/3: a = 72/83,
# b = 70/83, loss 1/249; the midpoint rule of 100 points moves the fourth digit by at most one.
expect '^a = 0\.86[678][0-9], b = 0\.84[234][0-9], loss 0\.0040[0-9]$'
expect '^400 steps, 1 program$'
loss=$(sed -n 's/^a = .* loss //p' output)
expect "^captured: loss $loss\$"
expect '^refused: eval of div '
# s = x / r, r^2 = 1 + x^2; its third derivative is (12 x^2 - 3) / r^7: at 0, 1, 2: -3, 9 / 2^3.5, 45 / 5^3.5. The sums are
# 0, 0.70711, 1.60154; the gradient is twice the sums from p on, times r^-3.
expect '^s +0\.00000 +0\.70711 +0\.89443$'
expect '^s_xxx +-3\.00000 +0\.79550 +0\.16100$'
expect '^gradient +4\.61728 +1\.63246 +0\.28649$'
expect '^refused: .*running_sum_vjp'
echo "engine: $good of 8"
[ "$good" = 8 ]
