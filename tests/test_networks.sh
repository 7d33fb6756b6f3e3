# Kinds of networks in whole runs: trained, saved, read back, resumed, and the same bits with one thread and two.
set -euo pipefail
fail() { echo "FAILED: $*" >&2; exit 1; }

problem() { # problem NETWORK
  cat <<END
title = "Waves of heat"
[domain]
x = [0, 1]
t = [0, 1]
[unknowns]
u = "x, t"
[equations]
heat = "u_t = 0.1*u_xx"
[conditions]
initial = { on = "t = 0", equation = "u = sin(pi*x)" }
ends = { on = "boundary", equation = "u = 0" }
[exact]
u = "exp(-0.1*pi^2*t)*sin(pi*x)"
[points]
interior = 128
[network]
width = 8
depth = 2
$1
[[stage]]
optimizer = "adam"
steps = 20
[[stage]]
optimizer = "ssbroyden"
steps = 30
END
}

# The values of a result at points between the training's.
values() { # values FOLDER
  "$PINN" eval "$1" --grid x=0.1:0.9:5,t=0.2:0.8:4 u u_xx u_xt
}

number=0
while IFS= read -r network; do
  number=$((number + 1))
  file=net$number.toml
  problem "$(echo "$network" | sed 's/;/\n/g')" >"$file"
  "$PINN" check "$file" >check.txt || [ $? = 1 ] || fail "$network: check: $(cat check.txt)"
  "$PINN" solve "$file" --out one$number --threads 1 >/dev/null || [ $? = 1 ] || fail "$network: solve"
  "$PINN" solve "$file" --out two$number --threads 2 >/dev/null || [ $? = 1 ] || fail "$network: two threads"
  values one$number >one.csv
  values two$number >two.csv
  cmp -s one.csv two.csv || fail "$network: threads change bits"
  grep -q nan one.csv && fail "$network: not a number"
  # Killed and taken up: the same run.
  PINN_SAVE_SECONDS=0.01 "$PINN" solve "$file" --out three$number --threads 1 >/dev/null 2>&1 &
  child=$!
  for _ in $(seq 200); do
    [ -s three$number/result.h5 ] && break
    sleep 0.01
  done
  kill -9 $child 2>/dev/null || true
  wait $child 2>/dev/null || true
  "$PINN" solve "$file" --out three$number --resume --threads 1 >/dev/null || [ $? = 1 ] || fail "$network: resume"
  values three$number >three.csv
  cmp -s one.csv three.csv || fail "$network: a resumed run has other bits"
done <<'END'
kind = "modified"; fourier = 3; fourier_scale = [0.2, 0.5]
kind = "resnet"; activation = "sin"; init = "siren"; omega = 3
kind = "pirate"; factorised = true; adaptive = "layer"; fourier_time = 0.1
inputs = ["sin(pi*x)", "x", "t"]; activation = "mish"
period = { x = 2 }; learn_period = true; adaptive = "unit"; activation = "gaussian"; normalise = false
END

# The optimizer that uses rows of derivatives by every weight.
problem 'kind = "pirate"
adaptive = "unit"' | sed '/^\[\[stage\]\]/,$d' >lm.toml
printf '[[stage]]\noptimizer = "lm"\nsteps = 15\n' >>lm.toml
"$PINN" solve lm.toml --out lm --threads 1 >lm.txt || [ $? = 1 ] || fail "lm: $(cat lm.txt)"
grep -q 'pirate 8-8x2-1' lm.txt || fail "the network's line: $(cat lm.txt)"

refused() { # refused TEXT WORDS: the file with these lines of [network] is refused with these words
  problem "$1" >bad.toml
  "$PINN" check bad.toml >out.txt 2>&1 && fail "accepted: $1"
  grep -qF -- "$2" out.txt || fail "$1: $(cat out.txt)"
}
refused 'kind = "modifed"' 'Did you mean "modified"?'
refused 'fourier_scale = 2' '`fourier`, their number, is 0'
refused 'period = 3' 'period = { x = ... }'
refused 'period = { y = 3 }' '`y` in period is no coordinate'
refused 'omega = 0' '`omega` must be positive'
refused 'inputs = ["u"]' 'bad.toml:'
refused 'activation = "relux"' 'gaussian, mish, relu, relu3'
echo "networks: all good"
