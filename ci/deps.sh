#!/bin/sh
# Is what packages.txt lists there? `ci/deps.sh` looks for what the build needs, `ci/deps.sh tests` also for what the
# tests need, `ci/deps.sh checks` for all. It asks no package manager: what is there counts, wherever it comes from. What
# is missing is installed (Debian and Ubuntu, as root) or named, with the command that installs it. `ci/deps.sh skipped`
# says which tests were skipped for want of a package.
set -eu
cd "$(dirname "$0")/.."
os_release=${OS_RELEASE:-/etc/os-release}

is_there() { # kind name
  # shellcheck disable=SC2086
  [ "$2" != cc ] || set -- program ${CC:-cc}
  case $1 in
    program) command -v "$2" >/dev/null ;;
    module) command -v pkg-config >/dev/null && pkg-config --exists "$2" ;;
    header) echo "#include <$2>" | ${CC:-cc} -E - >/dev/null 2>&1 ;;
    # shellcheck disable=SC2086
    file) ls $2 >/dev/null 2>&1 ;;
    library) { PATH=$PATH:/sbin:/usr/sbin ldconfig -p; } 2>/dev/null | grep -q "$2" ;;
    *) echo "packages.txt: unknown kind $1" >&2 && exit 2 ;;
  esac
}
# The rows of the groups whose thing is missing.
missing() {
  for group in "$@"; do
    while read -r of kind name debian fedora arch; do
      [ "$of" = "$group" ] || continue
      is_there "$kind" "$name" || echo "$of $kind $name $debian $fedora $arch"
    done <packages.txt
  done
}
# Column $1 of the rows, one package a word, each once.
column() { echo "$rows" | awk -v n="$1" '{ print $n }' | tr ',' '\n' | awk 'NF && !seen[$0]++' | paste -sd ' ' -; }

case ${1:-} in
  "") rows=$(missing build) ;;
  tests) rows=$(missing build tests optional) ;;
  checks) rows=$(missing build tests optional checks) ;;
  skipped)
    rows=$(missing optional)
    [ -z "$rows" ] || echo "Tests were skipped for want of $(echo "$rows" | awk '{ print $3 }' | paste -sd ' ' -); on Debian:" \
      "$(column 4)"
    exit 0
    ;;
  *) echo "usage: ci/deps.sh [tests|checks|skipped]" >&2 && exit 2 ;;
esac
[ -n "$rows" ] || exit 0

# ID and ID_LIKE of the distribution, in one line.
system=$(sed -n 's/^ID\(_LIKE\)\{0,1\}=//p' "$os_release" 2>/dev/null | tr -d '"' | paste -sd ' ' -)
case " $system " in
  *" debian "* | *" ubuntu "*)
    if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
      export DEBIAN_FRONTEND=noninteractive
      # shellcheck disable=SC2046
      if apt-get update -qq && apt-get install -y -qq --no-install-recommends $(column 4); then exit 0; fi
    fi
    ;;
esac
{
  echo "Missing:"
  echo "$rows" | awk '{ print "  " $2, $3 ($1 == "optional" ? "  (tests that need it are skipped)" : "") }'
  case " $system " in
    *" debian "* | *" ubuntu "*) echo "Install it with: apt-get install $(column 4)" ;;
    *" fedora "*) echo "Install it with: dnf install $(column 5)" ;;
    *" arch "*) echo "Install it with: pacman -S $(column 6)" ;;
    *)
      echo "On Debian and Ubuntu: apt-get install $(column 4)"
      echo "On Fedora: dnf install $(column 5)"
      echo "On Arch: pacman -S $(column 6)"
      ;;
  esac
} >&2
[ -z "$(echo "$rows" | grep -v '^optional ')" ]
