#!/bin/sh
# Every C file stands as clang-format would write it.
set -eu
cd "$(dirname "$0")/.."
git ls-files '*.c' '*.h' | xargs clang-format --dry-run --Werror
