#!/usr/bin/env bash
# ctest: labels=quick,cli timeout=60
#
# Every kind of `pinn new` writes a file that `pinn check` finds nothing to say about; files are never overwritten.
set -u
export LC_ALL=C
bad=0
fail() { printf 'FAILED: %s\n' "$1"; bad=1; }

kinds=$("$PINN" new --help | sed -n '/^Kinds:/,$p' | awk 'NR > 1 && NF { print $1 }')
[ "$(printf '%s\n' "$kinds" | wc -l)" -ge 4 ] || fail 'help lists the kinds'
for kind in $kinds; do
  "$PINN" new "$kind.toml" --kind "$kind" >out.txt || fail "$kind: written"
  "$PINN" check "$kind.toml" >out.txt 2>&1 || fail "$kind: checks"
  grep -q 'warning:' out.txt && fail "$kind: no warning"
  grep -q 'exact' out.txt || fail "$kind: its solution is checked"
done
before=$(cksum heat.toml)
"$PINN" new heat.toml --kind ode >out.txt 2>&1
[ $? = 2 ] || fail 'an existing file: status 2'
[ "$before" = "$(cksum heat.toml)" ] || fail 'an existing file stays'
"$PINN" new b.toml --kind odd >out.txt 2>&1
[ $? = 2 ] && grep -qF 'Did you mean `ode`?' out.txt || fail 'the nearest kind is named'
[ ! -e b.toml ] || fail 'a wrong kind writes nothing'
"$PINN" new nowhere/b.toml >out.txt 2>&1
[ $? = 3 ] || fail 'a folder that is not there: status 3'
exit $bad
