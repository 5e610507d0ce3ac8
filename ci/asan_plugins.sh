#!/bin/sh
# Plug-ins under AddressSanitizer and UndefinedBehaviorSanitizer, in a python that is built without:
# `ci/asan_plugins.sh onnxruntime PYTHON` (or `python`, `tensorflow`) runs a part of their tests, with "all" behind it all
# that make sense there, which takes minutes. The library is that of ci/clang.sh, whose tree is built first where it is not
# there. PYTHON has the framework, and pytest for `python`.
set -eu
what=$1
python=$2
cd "$(dirname "$0")/.."
tree=$PWD/build-ci-clang
[ -f "$tree/build.ninja" ] || ci/clang_tree.sh >/dev/null
cmake --build "$tree" --target braid braid_shared onnxruntime_plugin plugin_metered
preload=$(clang -print-file-name="libclang_rt.asan-$(uname -m).so")
[ -f "$preload" ] || { echo "skipped (clang): it has no shared runtime of AddressSanitizer" >&2 && exit 77; }
# Python keeps memory until its end. pytest hides what is printed by a process that ends: reports go to files.
reports=$(mktemp -d)
trap 'cat "$reports"/* 2>/dev/null || :; rm -rf "$reports"' EXIT
export ASAN_OPTIONS="detect_leaks=0:allocator_may_return_null=1:detect_stack_use_after_return=1:log_path=$reports/asan"
export UBSAN_OPTIONS="print_stacktrace=1:log_path=$reports/ubsan" OMP_WAIT_POLICY=passive
run() { LD_PRELOAD="$preload" "$@"; }
case $what in
onnxruntime)
  export BRAID_ORT_PLUGIN="$tree/plugins/libbraid_onnxruntime.so" BRAID_PLUGIN_METERED="$tree/tests/plugins/metered.so"
  # The runtime opens libraries in the program's place, and so not those that lie beside the one that asks.
  export LD_LIBRARY_PATH="$tree/plugins"
  tests=plugins/onnxruntime/test
  run "$python" $tests/models_test.py
  [ "${3:-}" != all ] || run "$python" $tests/weather_test.py
  run "$python" $tests/node_cases.py --every "$([ "${3:-}" = all ] && echo 1 || echo 12)" >"$reports/cases" 2>&1
  tail -n 2 "$reports/cases" && rm "$reports/cases"
  ;;
python)
  BRAID_BUILD=$tree "$python" -m pip wheel -q --disable-pip-version-check --no-index --no-deps plugins/python \
    -w "$tree/python"
  "$python" -m pip install -q --disable-pip-version-check --no-index --no-deps --upgrade --target "$tree/python/site" \
    "$tree"/python/*.whl
  export PYTHONPATH="$tree/python/site" BRAID_BUILD="$tree"
  part="tests/test_abi.py tests/test_arrays.py tests/test_lifetimes.py tests/test_run.py tests/test_sentences.py"
  cd plugins/python
  # What measures memory would measure the sanitizer's; the command has a runtime of its own inside.
  # shellcheck disable=SC2086
  run "$python" -m pytest -q -p no:cacheprovider $([ "${3:-}" = all ] && echo tests || echo $part) -m "not long" \
    -k "not nothing_leaks and not the_command"
  ;;
tensorflow)
  cmake -B "$tree" -S . -DBRAID_TENSORFLOW="$("$python" plugins/tensorflow/where.py)" >/dev/null
  cmake --build "$tree" --target tensorflow
  export BRAID_TF_PLUGIN="$tree/libbraid_tensorflow.so" OCL_ICD_VENDORS="$reports/" # the runtime refuses PoCL's libraries
  tests=plugins/tensorflow/tests
  run "$python" $tests/ops.py
  if [ "${3:-}" = all ]; then
    run "$python" $tests/training.py
    # Not those that measure memory, or look for GNU's OpenMP.
    run "$python" $tests/devices.py no_devices platform_file plans missing_kernels logged overlap synchronous \
      refused_update out_of_memory memory_returns failures passed_failure names_kept
  fi
  ;;
*)
  echo "asan_plugins.sh: $what, expected onnxruntime, python or tensorflow" >&2
  exit 1
  ;;
esac
