#!/bin/sh
# Installs the Debian packages of packages.txt that are missing: the first group, or with CHECKS=1 all of them.
set -eu
cd "$(dirname "$0")/.."
list=$(awk -v all="${CHECKS:-0}" '/^# checks/ && all != 1 { exit } /^[a-z0-9]/ { print $1 }' packages.txt)
missing=
for package in $list; do
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0
if [ "$(id -u)" -ne 0 ]; then
  echo "These packages are missing:$missing" >&2
  echo "Run \`make deps\` as root, or install them by hand." >&2
  exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# shellcheck disable=SC2086
apt-get install -y -qq --no-install-recommends $missing
