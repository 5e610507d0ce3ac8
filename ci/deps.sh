#!/bin/sh
# Installs the Debian packages of packages.txt that are missing: `ci/deps.sh` the first group, `ci/deps.sh tests` those of
# the tests too, `ci/deps.sh checks` all. Who is not root gets a list; the tests run without their group, and
# `ci/deps.sh skipped` says afterwards what they lacked.
set -eu
cd "$(dirname "$0")/.."
missing() { # the group's packages that are not installed; the first group has no name
  awk -v wanted="$1" '/^# (tests|checks):/ { group = substr($2, 1, length($2) - 1) }
    /^[a-z0-9]/ && group == wanted { print $1 }' packages.txt | while read -r package; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || echo "$package"
  done
}
if [ "${1:-}" = skipped ]; then
  tests=$(missing tests)
  # shellcheck disable=SC2086
  [ -z "$tests" ] || echo "Tests were skipped for want of these packages:" $tests
  exit 0
fi
base=$(missing "") tests='' checks=''
case ${1:-} in
  tests) tests=$(missing tests) ;;
  checks) tests=$(missing tests) checks=$(missing checks) ;;
esac
[ -n "$base$tests$checks" ] || exit 0
if [ "$(id -u)" -ne 0 ]; then
  # shellcheck disable=SC2086
  echo "These packages are missing:" $base $tests $checks >&2
  if [ -z "$base$checks" ]; then
    echo "Tests that need them will be skipped; \`make test\` as root installs them." >&2
    exit 0
  fi
  echo "Run \`make deps\` as root, or install them by hand." >&2
  exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# shellcheck disable=SC2086
apt-get install -y -qq --no-install-recommends $base $tests $checks
