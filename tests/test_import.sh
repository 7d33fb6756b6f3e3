# Weights of PyTorch give PyTorch's values and derivatives; results of them, and runs that start from another run.
set -euo pipefail
data=$SOURCE_DIR/tests/data/import
fail() { echo "FAILED: $*" >&2; exit 1; }
refused() { # refused WORDS COMMAND...: exit status 2 and these words
  local words=$1 status=0
  shift
  "$PINN" "$@" >out.txt 2>&1 || status=$?
  [ "$status" = 2 ] || fail "status $status of $*: $(cat out.txt)"
  tr -s ' \n' ' ' <out.txt | grep -qF -- "$words" || fail "$*: expected \`$words\`: $(cat out.txt)"
}

file() { # file UNKNOWNS NETWORK
  printf '[domain]\nx = [-1, 1]\nt = [0, 2]\n[unknowns]\n%b\n[equations]\ne = "u_t = u_xx"\n[network]\n%b\n' "$1" "$2"
}
file 'u = "x, t"' 'activation = "tanh"' >tanh.toml
file 'v = "x, t"\nu = "x, t"' 'activation = "silu"' >silu.toml
file 'u = "x, t"' 'activation = "sin"\nomega = 3' >sine.toml

# ---- Parity: values and derivatives up to order 3, within 4 ulp-scales -------------------------------------------
parity() { # parity NAME ENDING COLUMNS
  "$PINN" import "$1.toml" "$data/$1.$2" --parity "$data/$1.csv" --out "$1.out" --threads 1 >"$1.txt" ||
    fail "parity of $1: $(cat "$1.txt")"
  [ "$(grep -c '^parity' "$1.txt")" = "$3" ] || fail "$1: not $3 columns: $(cat "$1.txt")"
  awk '/^parity/ { if (!($6 < 4)) exit 1 }' "$1.txt" || fail "$1 beyond 4 ulp-scales: $(cat "$1.txt")"
}
parity tanh safetensors 8
parity silu npz 16
parity sine safetensors 8

# The comparison can fail: another activation, outputs swapped, a value changed in its 14th digit.
status=0
"$PINN" import tanh.toml "$data/tanh.safetensors" --set 'network.activation="erf"' --parity "$data/tanh.csv" --out no1 >/dev/null || status=$?
[ $status = 1 ] || fail "another activation passes"
status=0
file 'u = "x, t"\nv = "x, t"' 'activation = "silu"' >swapped.toml
"$PINN" import swapped.toml "$data/silu.npz" --parity "$data/silu.csv" --out no2 >/dev/null || status=$?
[ $status = 1 ] || fail "swapped outputs pass"
awk -F, -v OFS=, 'NR == 7 { $3 *= 1 + 1e-13 } { for (i = 1; i <= NF; ++i) if (NR > 1 && (NR == 7 && i == 3)) $i = sprintf("%.17g", $i); print }' \
  "$data/tanh.csv" >changed.csv
status=0
"$PINN" import tanh.toml "$data/tanh.safetensors" --parity changed.csv --out no3 >changed.txt || status=$?
[ $status = 1 ] && grep -q 'row 6' changed.txt || fail "a changed value passes: $(cat changed.txt)"

# ---- The result is one: eval, check, export, resume ----------------------------------------------------------------
"$PINN" eval tanh.out --points "$data/tanh.csv" u u_x >values.csv
[ "$(wc -l <values.csv)" = 51 ] || fail "eval of an imported result"
set -- --set network.width=20 --set network.depth=3 --set network.normalise=false
printf '[[stage]]\noptimizer = "adam"\nsteps = 3\n' >>tanh.toml
"$PINN" import tanh.toml "$data/tanh.safetensors" --out go >/dev/null
status=0
"$PINN" solve tanh.toml --no-check --resume --out go "$@" --threads 1 >go.txt || status=$?
[ $status -le 1 ] && grep -q 'resumed' go.txt || fail "resume of an import: $(cat go.txt)"
refused 'the folder holds a run already' import tanh.toml "$data/tanh.safetensors" --out go

# ---- A start from weights -------------------------------------------------------------------------------------------
still='[[stage]]\noptimizer = "adam"\nsteps = 1\nrate = 1e-300\n' # moves nothing
conditions='[conditions]\nstart = { on = "t = 0", equation = "u = 3*x" }\nends = { on = "boundary", equation = "u = 0" }\n'
grid=x=-0.9:0.9:5,t=0.1:1.9:4
run() { # run NAME ARGUMENTS...
  local name=$1 status=0
  shift
  "$PINN" solve "$name.toml" --no-check --quiet --threads 1 --out "$name.out" "$@" >"$name.txt" 2>&1 || status=$?
  [ $status -le 1 ] || fail "solve $name: $(cat "$name.txt")"
}
cp "$data/sine.safetensors" w.safetensors
{ file 'u = "x, t"' 'activation = "sin"\nomega = 3\nfrom = "w.safetensors"'; printf "$conditions$still"; } >start.toml
run start
"$PINN" eval start.out --grid $grid u u_xt >a.csv
"$PINN" eval sine.out --grid $grid u u_xt >b.csv
cmp a.csv b.csv || fail "a start from weights is another function than their import"
rm w.safetensors
"$PINN" eval start.out --grid $grid u u_xt >b.csv
cmp a.csv b.csv || fail "a result needs the file it started from"

# Another equation on another box, with sizes and scale of its own: the same function, to the bit.
kind='activation = "sin"\nkind = "pirate"\nfourier = 5\nadaptive = "unit"\nfactorised = true\nwidth = 8\ndepth = 2'
{ file 'v = "x, t"\nu = "x, t"' "$kind"; printf "$conditions"; printf '[[stage]]\noptimizer = "adam"\nsteps = 5\n[run]\nseed = 4\n'; } >first.toml
run first
{ printf '[domain]\nx = [-1, 3]\nt = [0, 5]\n[unknowns]\nu = { of = "x, t", scale = 64 }\n[equations]\nwave = "u_tt = u_xx + u^2"\n'
  printf "[network]\nactivation = \"sin\"\nkind = \"pirate\"\nfourier = 5\nadaptive = \"unit\"\nfactorised = true\nfrom = \"first.out\"\n$still"; } >second.toml
run second
"$PINN" eval first.out --grid $grid u u_xt u_xxx >a.csv
"$PINN" eval second.out --grid $grid u u_xt u_xxx >b.csv
cmp a.csv b.csv || fail "a start from a result is another function"
cp second.toml third.toml
sed -i 's/from = .*/from = "second.out\/result.h5"/' third.toml
run third
"$PINN" eval third.out --grid $grid u u_xt u_xxx >b.csv
cmp a.csv b.csv || fail "a start from a start is another function"
rm -r first.out
"$PINN" eval second.out --grid $grid u u_xt u_xxx >b.csv
cmp a.csv b.csv || fail "a result needs the run it started from"
refused 'there is no' check second.toml

# ---- What does not fit ------------------------------------------------------------------------------------------------
refused '`0.weight` is [20, 2], expected [30, 2] (from the inputs to width)' import tanh.toml "$data/tanh.safetensors" --set network.width=30
refused 'holds 4 layers, and depth = 5 has 6: write depth = 3' import tanh.toml "$data/tanh.safetensors" --set network.depth=5
refused '`6.weight` is [1, 20], expected [2, 20] (from width to the unknowns)' import silu.toml "$data/tanh.safetensors"
refused 'they want kind = "mlp"' import tanh.toml "$data/tanh.safetensors" --set 'network.kind="resnet"'
refused 'they want no `fourier`' import tanh.toml "$data/tanh.safetensors" --set network.fourier=4
refused 'is a result of pinn' import tanh.toml tanh.out
plain='u = "x, t"'
from() { # from NETWORK [UNKNOWNS]: a problem that starts from second.out
  { printf '[domain]\nx = [-1, 3]\nt = [0, 5]\n[unknowns]\n%b\n[equations]\ne = "u_t = u_xx"\n[network]\nfrom = "second.out"\n' "${2:-$plain}"
    printf "$1\n"; } >bad.toml
}
whole='activation = "sin"\nkind = "pirate"\nfourier = 5\nadaptive = "unit"\nfactorised = true'
from "$whole" 'u = "x, t"\nw = "x, t"'
refused 'second.out has no unknown `w` to start from; it has u' solve bad.toml --no-check
from "${whole/sin/tanh}"
refused 'was trained with activation = sin, expected tanh' solve bad.toml --no-check
from "$whole\nwidth = 9"
refused 'is [10, 8], expected [10, 9]: write width = 8, depth = 2' solve bad.toml --no-check
from "${whole/fourier = 5/fourier = 6}"
refused 'was trained with fourier = 5, expected 6' solve bad.toml --no-check
from "$whole\nnormalise = false"
refused 'another map of `x`' solve bad.toml --no-check
from "$whole" 'u = "t, x"'
refused 'was trained with coordinate 1 = x, expected t' solve bad.toml --no-check
head -c 300 "$data/tanh.safetensors" >cut.safetensors
refused 'the header claims' import tanh.toml cut.safetensors
head -c 4000 "$data/silu.npz" >cut.npz
refused 'cut off' import silu.toml cut.npz
echo "import: all good"
