#!/bin/sh
# What documents name is there: the pages and folders they link to, the pages that code refers to, models of ours; and
# every room and gate is in the lists of docs/architecture.md.
set -eu
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
pages=$(echo README.md CONTRIBUTING.md SECURITY.md CHANGELOG.md docs/*.md)

for page in $pages; do
  grep -oE '\]\([^)#]+' "$page" | sed 's/^](//' | while read -r link; do
    case $link in http*) continue ;; esac
    [ -e "$(dirname "$page")/$link" ] || echo "$page links to $link"
  done
done >"$work/missing"
# shellcheck disable=SC2086
grep -noE '(docs/[a-z-]+\.md|models/[a-z0-9-]+\.cfg|examples/[a-z_]+\.(c|sh)|ci/[a-z0-9]+\.sh)' -r $pages include src cli \
  examples --include='*.md' --include='*.h' --include='*.c' |
  while IFS=: read -r file line name; do
    [ -e "$name" ] || echo "$file:$line names $name"
  done >>"$work/missing"

rooms=$(sed -n '/^## Rooms/,/^Dependencies/p' docs/architecture.md)
for folder in src/*/ src/backend/*/ */; do
  case $folder in build*/ | docs/ | include/ | src/ | src/backend/ | shared/) continue ;; esac
  echo "$rooms" | grep -q "^$folder " || echo "docs/architecture.md: the rooms have no $folder"
done >>"$work/missing"
for gate in $(sed -n 's/.*foreach(gate \(.*\))/\1/p' tests/CMakeLists.txt); do
  grep -qF "| \`ci/$gate.sh\` |" docs/architecture.md || echo "docs/architecture.md: the gates have no ci/$gate.sh"
done >>"$work/missing"

cat "$work/missing"
[ ! -s "$work/missing" ]
