#!/bin/sh
# Every C file stands as clang-format would write it, and static functions have names of their own.
set -eu
cd "$(dirname "$0")/.."
git ls-files '*.c' '*.h' | xargs clang-format --dry-run --Werror
# A static function's name says its subject (conv_match, not match), for grep and for backtraces.
bare='run|match|describe|create|check|layouts|fill|build|allocate|ask|record|find|add|pack'
if git grep -nE "^static [^=;(]*[ *]($bare)\(" -- 'src/*.c' 'cli/*.c' ':!*_test.c' ':!*_bench.c' ':!*_fuzz.c'; then
  echo 'name the subject: conv_match, not match' >&2
  exit 1
fi
