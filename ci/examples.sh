#!/bin/sh
# The library installs, and the examples build against what was installed through pkg-config, and run.
set -eu
cd "$(dirname "$0")/.."
build=$(cd "${BRAID_BUILD:-build}" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$build" --prefix "$work/usr" >/dev/null
export PKG_CONFIG_PATH="$work/usr/lib/pkgconfig" LD_LIBRARY_PATH="$work/usr/lib"
flags="-std=c17 -Wall -Wextra -Wpedantic -Werror"
for source in examples/*.c; do
  name=$(basename "$source" .c)
  if [ "$name" = plugin ]; then # a backend for others to load
    # shellcheck disable=SC2046,SC2086
    ${CC:-cc} $flags -shared -fPIC "$source" -o "$work/plugin.so" $(pkg-config --cflags braid)
    continue
  fi
  # shellcheck disable=SC2046,SC2086
  ${CC:-cc} $flags "$source" -o "$work/$name" $(pkg-config --cflags --libs braid)
  # shellcheck disable=SC2046,SC2086
  ${CC:-cc} $flags "$source" -o "$work/$name-static" $(pkg-config --cflags braid) \
    "$work/usr/lib/libbraid.a" $(pkg-config --libs --static braid | sed 's/-lbraid//')
done
# C++ programs take the same headers.
echo '#include <braid/braid.h>
int main() { return braid_status_text(BRAID_OK) == nullptr; }' >"$work/from_cpp.cpp"
# shellcheck disable=SC2046
${CXX:-c++} -std=c++17 -Wall -Wextra -Werror "$work/from_cpp.cpp" -o "$work/from_cpp" $(pkg-config --cflags --libs braid)
"$work/from_cpp"
"$work/usr/bin/braid" --version
examples/run.sh "$work"
