#!/usr/bin/env bash
# precision_and_failure.sh: the runs behind precision-and-failure.md, in one table.
#
#   docs/studies/precision_and_failure.sh [--pinn build/pinn] [--out DIR] [--seeds "0 1 2"] [--formats "f64 f32 ..."]
#                                         [--problems "convection burgers allen_cahn"] [--methods "file lbfgs adam"]
#
# Each problem of problems/ is trained in each format from the same weights and points, with the stages of its file
# and, for convection, also with lbfgs and adam alone. tf32, bf16 and f16: one product for one; with x3 behind the
# name: three products of high and low parts for one (precision.products). No run ends early by being accepted (accept.error = 1e-12), so
# the errors are what the format lets through. The gradient is audited against MPFR at the weights where a run ended, in the
# format that it ran in. One thread, about an hour in all; runs that exist are kept, so it can go on where it stopped.
# Lines: problem, method, format, seed, relative L2 error, loss, steps, why it stopped, error of the gradient.
set -eu
export LC_ALL=C
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
pinn=build/pinn out=precision_and_failure seeds="0 1 2" formats="f64 f32 tf32 bf16 f16 tf32x3 bf16x3 f16x3"
problems="convection burgers allen_cahn" methods="file lbfgs adam"
while [ $# -gt 0 ]; do
  case $1 in
  --pinn) pinn=$2 ;; --out) out=$2 ;; --seeds) seeds=$2 ;; --formats) formats=$2 ;;
  --problems) problems=$2 ;; --methods) methods=$2 ;;
  *)
    echo "precision_and_failure.sh: \`$1\`: expected --pinn, --out, --seeds, --formats, --problems or --methods" >&2
    exit 2
    ;;
  esac
  shift 2
done

field() { # field NAME FILE: the first value of that name in a JSON file of one value a line
  sed -n "s/^ *\"$1\": *\"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}\$/\1/p" "$2" | head -n 1
}

noise() { awk -F'|' -v f=" $2 " '$2 == f { gsub(/ /, "", $7); print $7; exit }' "$1"; } # of the gradient in a format

reason() { tr -d '\n' <"$1" | sed -n 's/.*"stop_reasons": *\[ *\([^]]*\)\].*/\1/p' | sed 's/  */ /g' | tr -d '"'; }

run() { # run PROBLEM METHOD FORMAT SEED
  local folder="$out/$1-$2-$3-$4" format=${3%x3} more=()
  [ "$format" = "$3" ] || more+=(--set precision.products=3)
  case $3 in tf32 | bf16 | f16) more+=(--set precision.products=1) ;; esac
  [ "$2" = file ] || more+=(--set "stage.1.optimizer=$2")
  [ "$2" = adam ] && more+=(--set stage.1.rate=2e-3 --set stage.1.schedule=cosine)
  if [ ! -f "$folder/summary.json" ]; then
    "$pinn" solve "$here/../../problems/$1.toml" --threads 1 --seed "$4" --out "$folder" --set accept.error=1e-12 \
      --set "precision.compute=$format" "${more[@]}" >"$folder.txt" 2>&1 </dev/null || true
  fi
  if [ -f "$folder/result.h5" ] && [ ! -f "$folder/audit.txt" ]; then
    "$pinn" validate problem "$here/../../problems/$1.toml" --weights "$folder" --dtype "$3" --points 32 \
      >"$folder/audit.txt" 2>&1 </dev/null || true
  fi
  [ -f "$folder/summary.json" ] || { printf '%s\t%s\t%s\t%s\tno result\n' "$1" "$2" "$3" "$4"; return; }
  printf '%s\t%s\t%s\t%s\t%.1e\t%.1e\t%s\t%s\t%s\n' "$1" "$2" "$3" "$4" "$(field rel_l2 "$folder/summary.json")" \
    "$(field loss "$folder/summary.json")" "$(field steps "$folder/summary.json")" "$(reason "$folder/summary.json")" \
    "$([ -f "$folder/audit.txt" ] && noise "$folder/audit.txt" "$3")"
}

mkdir -p "$out"
for problem in $problems; do
  for method in $methods; do
    [ "$method" = file ] || [ "$problem" = convection ] || continue
    for format in $formats; do
      for seed in $seeds; do run "$problem" "$method" "$format" "$seed"; done
    done
  done
done
