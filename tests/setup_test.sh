#!/bin/sh
# ci/deps.sh says nothing where all is there and no package manager is, and names what is missing in the words of the
# distribution; a build needs neither cmocka nor a compiler without new warnings.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
  echo "$*" >&2
  exit 1
}

# A machine without a package manager, on which nobody is root: links to what packages.txt and the script itself use.
mkdir "$work/bin"
for program in sh sed awk tr paste grep ls dirname cat cc gcc cmake ninja pkg-config protoc-c env as ld ldconfig \
  dpkg-architecture getconf; do
  path=$(PATH=$PATH:/sbin:/usr/sbin command -v "$program") && ln -s "$path" "$work/bin/$program"
done
printf '#!/bin/sh\necho 1000\n' >"$work/bin/id"
chmod +x "$work/bin/id"
deps() { # distribution, arguments
  printf '%s\n' "$1" >"$work/os-release"
  shift
  OS_RELEASE="$work/os-release" PATH="$work/bin" "$here/ci/deps.sh" "$@" 2>&1
}
said=$(deps ID=arch) || fail "all is there, but deps.sh fails: $said"
[ -z "$said" ] || fail "all is there, but deps.sh says: $said"

rm "$work/bin/protoc-c" "$work/bin/ninja"
expect() { # distribution, line
  if said=$(deps "$1"); then fail "$1: ninja is missing, but deps.sh succeeds"; fi
  echo "$said" | grep -qxF "  program ninja" || fail "$1: ninja is not named: $said"
  echo "$said" | grep -qxF "$2" || fail "$1: no line '$2': $said"
}
expect ID=debian "Install it with: apt-get install ninja-build protobuf-c-compiler"
expect 'ID=linuxmint
ID_LIKE="ubuntu debian"' "Install it with: apt-get install ninja-build protobuf-c-compiler"
expect ID=fedora "Install it with: dnf install ninja-build protobuf-c-compiler"
expect ID=arch "Install it with: pacman -S ninja protobuf-c"
expect ID=other "On Debian and Ubuntu: apt-get install ninja-build protobuf-c-compiler"
expect ID=other "On Fedora: dnf install ninja-build protobuf-c-compiler"
expect ID=other "On Arch: pacman -S ninja protobuf-c"

# The modules that pkg-config sees, without cmocka: the products are configured, the tests are not, and `make test` says
# what it lacks.
mkdir "$work/modules"
for folder in $(pkg-config --variable pc_path pkg-config | tr ':' ' '); do
  for module in "$folder"/*.pc; do
    case $module in */cmocka.pc | *'*'*) ;; *) ln -sf "$module" "$work/modules/" ;; esac
  done
done
export PKG_CONFIG_LIBDIR="$work/modules"
if said=$("$here/ci/deps.sh" 2>&1); then :; else fail "the build needs no cmocka, but deps.sh fails: $said"; fi
if said=$(OS_RELEASE=/dev/null "$here/ci/deps.sh" tests 2>&1); then fail "the tests need cmocka"; fi
echo "$said" | grep -q "On Fedora: dnf install libcmocka-devel" || fail "cmocka is not named: $said"
cmake -S "$here" -B "$work/build" -G Ninja -Wno-dev >"$work/log" || fail "$(cat "$work/log")"
ninja -C "$work/build" -t targets all >"$work/targets"
grep -q '^products:' "$work/targets" || fail "there are no products"
if grep -q 'cmocka\|_test:' "$work/targets"; then fail "tests are built without cmocka"; fi
if grep -q -e -Werror "$work/build/build.ninja"; then fail "warnings are errors in a user's build"; fi
cmake "$work/build" -DBRAID_WERROR=ON >/dev/null
grep -q -e -Werror "$work/build/build.ninja" || fail "BRAID_WERROR does nothing"
