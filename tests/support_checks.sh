# support_checks.sh: counted checks of what the program says, for shell tests; to be sourced. The test ends by what
# `failed` and `count` hold.
failed=0
count=0
check() { # check TEXT STATUS
  count=$((count + 1))
  if [ "$2" -ne 0 ]; then
    failed=$((failed + 1))
    echo "FAILED: $1"
    sed 's/^/    /' out err 2>/dev/null | head -40
  fi
}
expect() { # expect STATUS WORDS...
  local status=$1
  shift
  timeout 100 "$PINN" "$@" >out 2>err
  local got=$?
  [ "$got" -eq "$status" ]
  check "exit status $got, expected $status: pinn $*" $?
}
says() { # says FILE PATTERN
  grep -q -e "$2" "$1"
  check "\`$2\` in $1" $?
}
