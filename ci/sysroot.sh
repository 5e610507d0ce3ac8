#!/bin/sh
# The headers and libraries of packages.txt for another processor: `ci/sysroot.sh ARCHITECTURE FOLDER [SUITE]` unpacks
# Debian's packages of that architecture (arm64, riscv64 ...) and what they need into FOLDER; nothing is installed. SUITE
# names the release to take them from, for a processor that this machine's release does not have yet. 77: there is no apt.
set -eu
architecture=$1
suite=${3:-}
mkdir -p "$2"
folder=$(cd "$2" && pwd)
cd "$(dirname "$0")/.."
packages=$(awk '($1 == "build" || $1 == "tests") && ($2 == "module" || $2 == "header") { print $4 }' packages.txt)
[ ! -e "$folder/complete" ] || [ "$(cat "$folder/complete")" != "$packages" ] || exit 0
command -v apt-get >/dev/null || { echo "skipped (apt): only Debian's packages are unpacked here" >&2 && exit 77; }
mkdir -p "$folder/apt/lists/partial" "$folder/apt/archives/partial"
: >"$folder/apt/installed"
apt() {
  apt-get -qq -o APT::Architecture="$architecture" -o APT::Architectures="$architecture" -o Dir::State="$folder/apt" \
    -o Dir::State::status="$folder/apt/installed" -o Dir::Cache="$folder/apt" -o APT::Sandbox::User= "$@"
}
if [ -n "$suite" ]; then
  # The archive that this machine uses, another release of it.
  archive=$(apt-get indextargets --format '$(ORIGIN) $(LABEL) $(COMPONENT) $(REPO_URI)' 'Identifier: Packages' |
    awk '$1 == "Debian" && $2 == "Debian" && $3 == "main" { print $4; exit }')
  [ -n "$archive" ] || { echo "skipped (apt): no list of packages of Debian's (apt-get update makes it)" >&2 && exit 77; }
  echo "deb $archive $suite main" >"$folder/apt/sources"
  set -- -o Dir::Etc::sourcelist="$folder/apt/sources" -o Dir::Etc::sourceparts=/dev/null
else
  set --
fi
apt "$@" update
# shellcheck disable=SC2086
apt "$@" install --yes --download-only --no-install-recommends $packages
for package in "$folder"/apt/archives/*.deb; do dpkg -x "$package" "$folder"; done
rm -r "$folder/apt"
echo "$packages" >"$folder/complete"
