#!/bin/sh
# Runs the tests of a build tree, `ci/test.sh BUILD [ctest's options]`, and lists what was skipped and why: programs of
# which nothing ran (ctest's "Skipped"), and cases of others, which ctest knows nothing of; then the packages that were
# missing.
set -eu
build=$1
shift
status=0
ctest --test-dir "$build" "$@" || status=$?
awk '/^[0-9]+\/[0-9]+ Test: / { test = $3 }
  /^skipped \(/ {
    if (!(($0, test) in count)) tests[$0] = tests[$0] " " test
    count[$0, test]++
    all++
  }
  END {
    if (all) print all " test cases did not run:"
    for (reason in tests) {
      print "  " reason
      many = split(tests[reason], names, " ")
      for (i = 1; i <= many; i++) print "    " names[i] ": " count[reason, names[i]]
    }
  }' "$build/Testing/Temporary/LastTest.log"
"$(dirname "$0")/deps.sh" skipped
exit $status
