#!/bin/sh
# The library installs, and the examples and README's program build against what was installed, and run.
set -eu
cd "$(dirname "$0")/.."
build=$(cd "${BRAID_BUILD:-build}" && pwd)
braid_version() { sed -n 's/^#define BRAID_VERSION "\(.*\)"/\1/p' include/braid/version.h; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$build" --prefix "$work/usr" >/dev/null
export PKG_CONFIG_PATH="$work/usr/lib/pkgconfig" LD_LIBRARY_PATH="$work/usr/lib"
flags="-std=c17 -Wall -Wextra -Wpedantic -Werror"
for source in examples/*.c; do
  name=$(basename "$source" .c)
  also=-lm
  [ "$name" != make_pictures ] || also=$(pkg-config --libs libpng)
  case $name in plugin | unified) # backends for others to load
    # shellcheck disable=SC2046,SC2086
    ${CC:-cc} $flags -shared -fPIC "$source" -o "$work/$name.so" $(pkg-config --cflags braid)
    continue
    ;;
  esac
  # shellcheck disable=SC2046,SC2086
  ${CC:-cc} $flags "$source" -o "$work/$name" $(pkg-config --cflags --libs braid) $also
  # shellcheck disable=SC2046,SC2086
  ${CC:-cc} $flags "$source" -o "$work/$name-static" $(pkg-config --cflags braid) \
    "$work/usr/lib/libbraid.a" $(pkg-config --libs --static braid | sed 's/-lbraid//') $also
done
# The tutorial's program as it stands there.
awk '/^```c$/ { on = 1; next } /^```$/ { on = 0 } on' docs/tutorial.md >"$work/learn.c"
# shellcheck disable=SC2046,SC2086
${CC:-cc} $flags "$work/learn.c" -o "$work/learn" $(pkg-config --cflags --libs braid)
# That of docs/client.md needs libbraid-client alone, which needs libc alone.
awk '/^```c$/ { on = 1; next } /^```$/ { on = 0 } on' docs/client.md >"$work/client.c"
# shellcheck disable=SC2046,SC2086
${CC:-cc} $flags "$work/client.c" -o "$work/client" $(pkg-config --cflags --libs braid-client)
# shellcheck disable=SC2046,SC2086
${CC:-cc} $flags "$work/client.c" -o "$work/client-static" $(pkg-config --cflags braid-client) \
  "$work/usr/lib/libbraid-client.a" -pthread
! readelf -d "$work/usr/lib/libbraid-client.so" | grep NEEDED | grep -v 'libc\.so\|ld-linux'
# README's program as it stands there, built as a project that finds the package by CMake.
awk '/^```c$/ { on = 1; next } /^```$/ { on = 0 } on' README.md >"$work/first.c"
cat >"$work/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.22)
project(first LANGUAGES C)
find_package(braid 0.1 REQUIRED)
add_executable(first first.c)
target_link_libraries(first PRIVATE braid::braid)
END
cmake -S "$work" -B "$work/first-build" -DCMAKE_PREFIX_PATH="$work/usr" -DCMAKE_C_FLAGS="$flags" >/dev/null
cmake --build "$work/first-build" >/dev/null
# shellcheck disable=SC2046,SC2086
${CC:-cc} $flags "$work/first.c" -o "$work/first" $(pkg-config --cflags --libs braid)
# C++ programs take the same headers.
echo '#include <braid/braid.h>
int main() { return braid_status_text(BRAID_OK) == nullptr; }' >"$work/from_cpp.cpp"
# shellcheck disable=SC2046
${CXX:-c++} -std=c++17 -Wall -Wextra -Werror "$work/from_cpp.cpp" -o "$work/from_cpp" $(pkg-config --cflags --libs braid)
"$work/from_cpp"
"$work/usr/bin/braid" --version
# Other programs see the functions of the public headers and nothing else.
nm -D --defined-only "$work/usr/lib/libbraid.so" | awk '{ print $3 }' | while read -r symbol; do
  grep -qwr "$symbol" "$work/usr/include/braid" || { echo "libbraid.so exports $symbol, which no header names" >&2; exit 1; }
done
! nm -D --defined-only "$work/usr/lib/libbraid-client.so" | grep -v ' braid_client_'
# Before 1.0 a minor version may change the interface (docs/versions.md): the loader tells them apart.
readelf -d "$work/usr/lib/libbraid.so" | grep -q "SONAME.*\[libbraid.so.$(braid_version | cut -d. -f1-2)\]"
[ "$(readlink -f "$work/usr/lib/libbraid.so")" = "$(readlink -f "$work/usr/lib")/libbraid.so.$(braid_version)" ]
# Every command has its page, and the completion knows the commands and their options.
for command in $("$work/usr/bin/braid" --help | sed -n 's/^  \([a-z][a-z]*\)  .*/\1/p'); do
  grep -q 'Usage: braid' "$work/usr/share/man/man1/braid-$command.1"
  PATH="$work/usr/bin:$PATH" bash -c '. "$0"; COMP_WORDS=(braid "$1" --js) COMP_CWORD=2; _braid
    [ "${COMPREPLY[*]}" = --json ]' "$work/usr/share/bash-completion/completions/braid" "$command"
done
examples/run.sh "$work"
# README's commands as they stand, for one epoch and with short measurements.
mkdir "$work/readme"
ln -s "$PWD/models" "$PWD/examples" "$work/readme"
awk '/^```$/ { if (on) exit; on = 1; next } on' README.md | sed 's/--epochs 5/--epochs 1/; s/--ops all/--ops all --sizes small --seconds 0.01/' >"$work/commands"
[ "$(grep -c '^braid ' "$work/commands")" -ge 6 ]
(cd "$work/readme" && PATH="$work/usr/bin:$PATH" sh -e "$work/commands" >/dev/null)
"$work/first" "$work/trained.onnx" >/dev/null
"$work/first-build/first" "$work/trained.onnx" >/dev/null
"$work/make_pictures" "$work/pictures" 1000
"$work/learn" models/glyphs.cfg "$work/pictures" examples/pictures/star.png "$work/learnt.onnx" | tee "$work/learnt.txt"
grep -q 'star.png: [a-z]* (' "$work/learnt.txt"
# What was installed goes away again.
make --no-print-directory uninstall BUILD="$build" >/dev/null
[ -z "$(find "$work/usr" ! -type d)" ]
