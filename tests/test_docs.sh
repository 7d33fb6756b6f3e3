#!/usr/bin/env bash
# test_docs.sh: generated pages are what the program generates, and links between pages lead somewhere.
set -u
good=0 total=0
say() { total=$((total + 1)); if [ "$1" = 0 ]; then good=$((good + 1)); else echo "FAILED $2"; fi; }
"$PINN" ops --markdown >ops.md && diff -u "$SOURCE_DIR/docs/ops.md" ops.md; say $? "docs/ops.md is out of date: ./dev doc"
"$PINN" keys --markdown >keys.md && diff -u "$SOURCE_DIR/docs/problem-format.md" keys.md
say $? "docs/problem-format.md is out of date: ./dev doc"
LC_ALL=C
(cd "$SOURCE_DIR" && "$PINN" problems --markdown problems/*.toml problems/*/*.toml problems/*/*/*.toml) >problems.md &&
  diff -u "$SOURCE_DIR/docs/problems.md" problems.md
say $? "docs/problems.md is out of date: ./dev doc"
"$PINN" fuse burgers kdv ks ns2d helmholtz poisson10 wide "$SOURCE_DIR"/problems/*.toml >fused.inc &&
  cmp "$SOURCE_DIR/tensor/fused.inc" fused.inc
say $? "tensor/fused.inc is out of date: ./dev fuse"
for page in "$SOURCE_DIR"/README.md "$SOURCE_DIR"/CONTRIBUTING.md "$SOURCE_DIR"/docs/*.md "$SOURCE_DIR"/docs/design/*.md; do
  while IFS= read -r link; do
    case $link in http*|mailto:*|\#*|'') continue ;; esac
    [ -e "$(dirname "$page")/${link%%#*}" ]; say $? "${page#"$SOURCE_DIR"/}: link to $link"
  done < <(grep -o '](\([^)]*\))' "$page" | sed 's/^](//; s/)$//')
done
# The page of cases names files and tests that exist; `f14_*` stands for at least one file.
cases=$SOURCE_DIR/tests/data/cases
while IFS= read -r word; do
  case $word in
    test_*) compgen -G "$SOURCE_DIR/tests/$word.*" >/dev/null ;;
    *) compgen -G "$cases/$word.toml" >/dev/null ;;
  esac
  say $? "tests/data/cases/README.md: there is no $word"
done < <(grep -oE '\b(test|[afbix][0-9]{2}[a-c]?|metric|parameter|poisson)_[a-z0-9_]+\*?|\b[fbi][0-9]{2}_\*' "$cases/README.md" | sort -u)
head -n 40 "$SOURCE_DIR/README.md" | grep -q './dev solve problems/burgers.toml'; say $? "README opens with the solve command"
head -n 40 "$SOURCE_DIR/README.md" | grep -q './dev test'; say $? "README opens with the test command"
echo "docs: $good of $total"
[ "$good" = "$total" ]
