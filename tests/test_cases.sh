#!/usr/bin/env bash
# ctest: labels=quick,cases timeout=240
#
# Runs the records of tests/data/cases/expected.txt (or of the file there that RECORDS names): small problems, right
# and spoilt, and what the program must say about them. The format stands in that file. Every record that fails is printed with the output; the last line is
# the count. A name as argument runs only the records of that case: tests/test_cases.sh f13_poisson
set -u
export LC_ALL=C
cases=$SOURCE_DIR/tests/data/cases
only=${1:-}
total=0 good=0

cp "$cases"/*.csv . # measured points that cases name

trim() { # trim TEXT: sets `trimmed`
  trimmed=${1#"${1%%[![:space:]]*}"}
  trimmed=${trimmed%"${trimmed##*[![:space:]]}"}
}

# has_number NAME VALUE UNSIGNED: does a line of output.txt hold, after NAME, a number within 1e-8 of VALUE?
has_number() {
  awk -v name="$1" -v want="$2" -v unsigned="$3" '
    BEGIN { bound = want < 0 ? -want : want; bound = 1e-8 * (bound > 1 ? bound : 1) }
    {
      at = index($0, name)
      if (!at) next
      rest = substr($0, at + length(name))
      while (match(rest, /[-+]?[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]+)?/)) {
        value = substr(rest, RSTART, RLENGTH) + 0
        rest = substr(rest, RSTART + RLENGTH)
        if (near(value) || (unsigned && near(-value))) { found = 1; exit }
      }
    }
    function near(v) { return v - want <= bound && want - v <= bound }
    END { exit !found }' output.txt
}

# meets DEMAND: one demand on output.txt
meets() {
  case $1 in
    *' ~~ '*) has_number "${1%% ~~ *}" "${1##* ~~ }" 1 ;;
    *' ~ '*) has_number "${1%% ~ *}" "${1##* ~ }" 0 ;;
    '! '*) ! grep -qF -- "${1#! }" output.txt ;;
    *) grep -qF -- "$1" output.txt ;;
  esac
}

# edit OLD => NEW: prints the case file with its first OLD replaced
edited() { # edited FILE EDIT
  local text old new
  text=$(cat "$1")
  if [ -n "$2" ]; then
    trim "${2%%=>*}"; old=${trimmed//\\n/$'\n'}
    trim "${2#*=>}"; new=${trimmed//\\n/$'\n'}
    case $text in
      *"$old"*) text=${text/"$old"/"$new"} ;;
      *) printf 'expected.txt: %s has no `%s`\n' "$1" "$old" >&2; return 1 ;;
    esac
  fi
  printf '%s\n' "$text"
}

fail() { # fail LINE TEXT
  printf '%s\n  %s\n' "$1" "$2"
  sed 's/^/    /' output.txt | head -40
}

cp "$cases"/*.csv "$cases"/*.stl . # what problem files refer to

while IFS= read -r line || [ -n "$line" ]; do
  case $line in '' | '#'*) continue ;; esac
  IFS='|' read -r file edit arguments statuses demands <<<"$line"
  trim "$file"; file=$trimmed
  trim "$edit"; edit=$trimmed
  trim "$arguments"; arguments=$trimmed
  trim "$statuses"; statuses=$trimmed
  [ -z "$only" ] || [ "$file" = "$only" ] || continue
  total=$((total + 1))
  edited "$cases/$file.toml" "$edit" >"$file.toml" || continue
  # shellcheck disable=SC2086 # arguments are words
  "$PINN" ${arguments//FILE/$file.toml} >output.txt 2>&1 </dev/null
  status=$?
  case ",$statuses," in
    *",$status,"*) ;;
    *) fail "$line" "exit status $status, not $statuses"; continue ;;
  esac
  missed=
  while [ -n "$demands" ]; do
    trim "${demands%%;;*}"
    [ -z "$trimmed" ] || meets "$trimmed" || { missed=$trimmed; break; }
    case $demands in *';;'*) demands=${demands#*;;} ;; *) demands= ;; esac
  done
  if [ -n "$missed" ]; then
    fail "$line" "the output lacks (or has): $missed"
  else
    good=$((good + 1))
  fi
done <"$cases/${RECORDS:-expected.txt}"

printf '%d of %d\n' "$good" "$total"
[ "$good" -eq "$total" ] && [ "$total" -gt 0 ]
