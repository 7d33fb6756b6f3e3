#!/usr/bin/env bash
# test_cli.sh: the program from outside: commands, options, exit statuses, messages, files of a run.
# ctest: labels=quick,cli timeout=120
set -u
. "$SOURCE_DIR/tests/support_checks.sh"
silent() { # silent FILE
  [ ! -s "$1" ]
  check "nothing in $1" $?
}

cat >decay.toml <<'END'
title = "Decay"
[domain]
t = [0, 1]
[unknowns]
u = "t"
[equations]
decay = "u_t = -u"
[conditions]
start = { on = "t = 0", equation = "u = 1" }
[exact]
u = "exp(-t)"
[accept]
error = 1e-2
[network]
width = 8
depth = 2
[points]
interior = 32
[[stage]]
optimizer = "adam"
steps = 20
[[stage]]
optimizer = "lbfgs"
steps = 300
END

# Commands and help
expect 0 --version && says out '^pinn [0-9]'
expect 0 --help && says out 'solve' && silent err
expect 2 && silent out && says err 'usage'
expect 2 slove && says err 'Did you mean `solve`'
expect 2 xyzzyx && says err 'pinn --help'
for command in solve check eval validate keys ops doctor; do
  expect 0 "$command" --help && says out "usage: pinn $command"
done
expect 2 solve && says err 'problem file is missing'
expect 2 solve decay.toml --sead 3 && says err 'Did you mean `--seed`'
expect 2 solve decay.toml --seed && says err 'needs a value'
expect 2 solve decay.toml --seed=-1 && says err 'whole number from 0'
expect 2 solve decay.toml --threads 0 && says err 'whole number from 1'
expect 2 solve decay.toml --seconds nan && says err 'positive number'
expect 2 solve decay.toml --quiet=1 && says err 'takes no value'
expect 2 solve decay.toml decay.toml && says err 'one word too many'

# Tables
expect 0 keys stage && says out 'optimizer'
expect 2 keys stag && says err 'stag'
expect 0 keys --schema && says out '"properties"'
expect 0 ops && says out '^tanh'
expect 0 ops --markdown && says out '^| `tanh` |'
expect 0 ops tanh && says out 'derivative'
expect 2 ops tahn && says err 'Did you mean `ta'
expect 0 doctor && says out '^cuda  *\(not \)\{0,1\}in this build'
TN_ISA=v9 expect 3 doctor && says err "TN_ISA=v9"
TN_ISA=base expect 0 doctor

# What validate says
expect 0 validate --help && says out 'pinn validate problem FILE'
expect 2 validate problem && says err 'problem file is missing'
expect 0 validate ops --only tanh --points 20 && says out ' 0 fail'
says out '^[0-9]* rows, 0 fail'
! grep -q 'FAIL' out
check "no row that fails" $?

# Bad input, with the place and a caret; no folder is left behind
expect 2 solve decay.toml --set stage.1.stepz=5 && says err 'Did you mean `steps`'
sed 's/u_t = -u/u_z = -u/' decay.toml >wrong.toml
expect 2 solve wrong.toml && says err '^wrong.toml:7:' && says err '\^\^\^'
while IFS='|' read -r edit words; do
  sed "$edit" decay.toml >wrong.toml
  expect 2 check wrong.toml && says err "$words" && says err '^wrong.toml:'
done <<'END'
s/u_t = -u/u_ttttttttttttttttt = -u/|order 17; the highest is 12
s/u_t = -u/(t*u_ttttttt)_ttttttt = -u/|order 14; the highest is 12
s/u_t = -u/u_t = -u(t=7)/|t = 7 lies outside the domain
s/u_t = -u/u_t = -u*(-2)^0.5/|the value is not a number
s/"u = 1" }/"u = 1", weight = "u" }/|an unknown; a weight cannot use it
s/^width = 8/width = 0/|`width` is 0
s/^depth = 2/depth = -1/|`depth` in \[network\] must not be negative, but is -1
s/^interior = 32/interior = 0/|`interior` is 0
s/^steps = 20/steps = 0/|`steps` is 0
s/^error = 1e-2/error = -1/|`error` must be positive
s/^error = 1e-2/residual = 0/|`residual` must be positive
END
expect 2 check decay.toml --set 'domain.t=[0,1e400]' && says err 'too large'
expect 2 check decay.toml --at t=5 && says err 'outside the domain'
expect 3 solve nowhere.toml && says err 'nowhere.toml'
mkdir -p no_gpu/libcuda.so.1 # no driver, on any machine
PINN_CUDA_PATH=$PWD/no_gpu expect 3 solve decay.toml --device cuda && says err '^cuda: ' && says err 'driver' && says err 'capability'
expect 2 solve decay.toml --device tpu && says err 'expected .cpu. or .cuda.'
sed 's/u_t = -u/u_t = u/' decay.toml >sign.toml
expect 2 solve sign.toml && says err '^sign.toml:7:' && says err 'exact solution'
expect 2 check sign.toml
expect 0 check decay.toml && says out '^checked'
[ -z "$(compgen -G '*.out*')" ]
check "no folder after an error" $?

# A run that meets its aim; names of folders; the verdict and the files
expect 0 solve decay.toml --seed 7
says out '^CONVERGED  u: relative L2'
says out '^equation   decay     u_t + u = 0'
says out 'float64'
[ -s decay.out/result.h5 ] && [ -s decay.out/report.html ]
check "result.h5 and report.html" $?
says decay.out/summary.json '"converged": true'
says decay.out/summary.json '"seed": 7'
[ "$(wc -L <out)" -le 80 ]
check "80 columns" $?
expect 0 solve decay.toml --seed 7 --threads 1 --quiet && silent out
[ -s decay.out-2/summary.json ]
check "the next free name" $?
[ "$(grep weights_sha256 decay.out/summary.json)" = "$(grep weights_sha256 decay.out-2/summary.json)" ]
check "same seed, same bits, whatever the threads" $?
expect 0 solve decay.toml --seed 8 --quiet --out other
[ "$(grep weights_sha256 decay.out/summary.json)" != "$(grep weights_sha256 other/summary.json)" ]
check "another seed, other weights" $?
expect 2 solve decay.toml --out other && says err 'holds a run already'
expect 2 solve decay.toml --out decay.toml && says err 'expected a folder'
grep -q -i -e '<script' -e 'src=.http' decay.out/report.html
[ $? -ne 0 ]
check "the report needs neither script nor network" $?
for word in '<math' '<svg' 'CONVERGED' 'SHA-256' 'u_t = -u'; do says decay.out/report.html "$word"; done

# An aim missed, a value that is not finite, time that is up, signals
expect 1 solve decay.toml --set accept.error=1e-30 --quiet --out missed
says missed/summary.json '"exit_status": 1'
expect 1 solve decay.toml --set accept.error=1e-30 --out missed2 && says out '^NOT CONVERGED  u: '
cp out missed2.log
sed 's/u_t = -u/u_t = -sqrt(u - 400)/' decay.toml >flame.toml
expect 2 solve flame.toml && says err 'no-check'
expect 4 solve flame.toml --no-check --out flame
says err 'square root of a negative number'
says err '^flame.toml:7:'
says err 'is saved in flame'
[ -s flame/result.h5 ]
check "weights saved before the bad step" $?
expect 1 solve decay.toml --set accept.error=1e-30 --set stage.2.steps=100000000 --seconds 0.5 --quiet --out timed

# A forgotten boundary condition is a warning at the start, and it stands below the verdict too
cat >open.toml <<'END'
[domain]
x = [0, 1]
t = [0, 1]
[unknowns]
u = "x, t"
[equations]
heat = "u_t = u_xx"
[conditions]
start = { on = "t = 0", equation = "u = 1" }
end   = { on = "x = 0", equation = "u = 1" }
[network]
width = 6
depth = 1
[points]
interior = 32
[[stage]]
optimizer = "adam"
steps = 10
END
expect 1 solve open.toml --out open --set accept.residual=1e-30
says out '^warning: ' && says out '^note       1 warning of the check stands above; the answer may not be unique$'
says open/summary.json '"warnings": \['
says open/summary.json 'needs one condition on x = 1'
! grep -q '^note' missed2.log
check "no note without a warning" $?

# A mean has no place, and the verdict names none: of two means that contradict each other one is the worst term; the large
# constant keeps the equation's relative residual below it
sed 's/"x, t"/"x"/; /^t = /d; s/u_t = u_xx/u_x + 1e6 = 1e6/
     s/^start.*/high = { equation = "mean(u, domain) = 50" }/; s/^end .*/low = { equation = "mean(u, domain) = -50" }/' \
  open.toml >means.toml
expect 1 solve means.toml --out means --no-check && says out '|residual| [0-9.e]*$'

sed 's/steps = 20$/steps = 100000000/; s/1e-2/1e-30/' decay.toml >long.toml

# One folder belongs to one run, and eval writes over none
"$PINN" solve long.toml --out shared --quiet --seconds 60 2>/dev/null &
child=$!
for _ in $(seq 100); do
  [ -d shared ] && break
  sleep 0.1
done
sleep 0.2
expect 2 solve long.toml --out shared --quiet && says err 'another run is writing'
kill -TERM $child
wait $child
expect 2 eval decay.out --grid t=0 --out shared/result.h5 u && says err 'another name'
expect 2 eval decay.out --grid t=0:1:1 u && says err 'both ends'
for signal in INT:130 TERM:143; do
  rm -rf stopped
  "$PINN" solve long.toml --out stopped >out 2>err &
  child=$!
  for _ in $(seq 100); do
    grep -q '^stage' out && break
    sleep 0.1
  done
  sleep 0.3
  (sleep 60; kill -9 $child) >/dev/null 2>&1 &
  watch=$!
  kill -"${signal%:*}" $child
  wait $child
  got=$?
  kill $watch 2>/dev/null
  [ "$got" -eq "${signal#*:}" ]
  check "exit status $got after SIG${signal%:*}, expected ${signal#*:}" $?
  [ -s stopped/result.h5 ]
  check "result.h5 after SIG${signal%:*}" $?
done

echo "$((count - failed)) of $count checks passed"
[ "$failed" -eq 0 ]
