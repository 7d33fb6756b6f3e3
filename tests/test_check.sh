#!/usr/bin/env bash
# ctest: labels=full,check timeout=300
#
# `pinn check` on the files of problems/: as they are it finds nothing and takes at most a second of the CPU each; with the
# single mistakes of tests/data/mistakes.txt it notices at least 95 of 100. The format stands in that file. Mistakes
# that are not noticed are printed; an argument runs only those of one file: tests/test_check.sh burgers
set -u
export LC_ALL=C
only=${1:-}
found=0 total=0 right=0 files=0
limit=1000 # ms of the CPU: other work on the machine must not count
TIMEFORMAT=%U
[ -z "${ASAN_OPTIONS:-}${UBSAN_OPTIONS:-}" ] || limit=10000 # a sanitizer is slow
cp -r "$SOURCE_DIR/problems/." .

trim() { # trim TEXT: sets `trimmed`
  trimmed=${1#"${1%%[![:space:]]*}"}
  trimmed=${trimmed%"${trimmed##*[![:space:]]}"}
}

# noticed STATUS NAME: does output.txt refuse the file, or warn, with NAME?
noticed() {
  if [ "$1" -eq 2 ]; then
    grep -qF -- "\`$2\`" output.txt
  else
    [ "$1" -eq 0 ] && grep -F 'warning: ' output.txt | grep -qwF -- "$2"
  fi
}

for file in *.toml; do
  [ -z "$only" ] || [ "$file" = "$only.toml" ] || continue
  files=$((files + 1))
  seconds=$({ time "$PINN" check "$file" >output.txt 2>&1 </dev/null; echo "$?" >status; } 2>&1)
  status=$(cat status)
  ms=$(awk -v s="$seconds" 'BEGIN { printf "%d", 1000 * s }')
  if [ "$status" -ne 0 ] || grep -qF 'warning: ' output.txt; then
    printf '%s as it is: exit status %d\n' "$file" "$status"
    sed 's/^/    /' output.txt
  elif [ "$ms" -gt "$limit" ]; then
    printf '%s took %d ms, more than %d\n' "$file" "$ms" "$limit"
  else
    right=$((right + 1))
  fi
done

while IFS= read -r line || [ -n "$line" ]; do
  case $line in '' | '#'*) continue ;; esac
  IFS='|' read -r file kind edit name <<<"$line"
  trim "$file"; file=$trimmed
  [ -z "$only" ] || [ "$file" = "$only" ] || continue
  trim "$name"; name=$trimmed
  trim "${edit%%=>*}"; old=$trimmed
  trim "${edit#*=>}"; new=$trimmed
  text=$(cat "$SOURCE_DIR/problems/$file.toml")
  total=$((total + 1))
  case $text in
    *"$old"*) ;;
    *) printf 'mistakes.txt: problems/%s.toml has no `%s`\n' "$file" "$old"; continue ;;
  esac
  printf '%s\n' "${text/"$old"/"$new"}" >"$file.toml"
  "$PINN" check "$file.toml" >output.txt 2>&1 </dev/null
  status=$?
  if noticed "$status" "$name"; then
    found=$((found + 1))
  else
    printf 'not noticed (exit status %d): %s\n' "$status" "$line"
    tail -n 5 output.txt | sed 's/^/    /'
  fi
done <"$SOURCE_DIR/tests/data/mistakes.txt"

printf 'right files: %d of %d without a finding, within %d ms each\n' "$right" "$files" "$limit"
printf 'found %d of %d (>= 95 %%)\n' "$found" "$total"
[ "$right" -eq "$files" ] && [ "$total" -gt 0 ] && [ $((100 * found)) -ge $((95 * total)) ]
