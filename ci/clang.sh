#!/bin/sh
# clang compiles the products and the tests that run here without a warning, and these pass under AddressSanitizer and
# UndefinedBehaviorSanitizer.
set -eu
cd "$(dirname "$0")/.."
ci/clang_tree.sh
export ASAN_OPTIONS=detect_stack_use_after_return=1:allocator_may_return_null=1
# Not those of kernels that an OpenCL driver compiles, which no sanitizer sees, nor those that train, search, try policies
# or the simulated card at random, or start the command for minutes: what they stand on has tests of its own, which run
# here, as do trainer, trainer_torn, step, checkpoint and ledger of training.
# cuda_cupti loads CUPTI itself, which loads a library in a way that AddressSanitizer ends the program for.
long='cl_(conv|integer|kernels|layers|layout|ledger|nets|products|recurrent)|opencl|opencl_(in_place|session)|in_place'
long="$long|device_conformance|conformance_samples|cuda_(tensor|few_channels)|cuda_cupti|winograd_conv|optimizer|foreign"
long="$long|threads|cli|mutants|policy|policy_memory|share_policy|share_costs|card_tenants|isolation|timing_reference"
long="$long|stops|program|steering|planning|parallel|finder"
long="$long|scale|cuda_texts|trainer_resume|trainer_targets|precision_train|own_loss|integer_train|audit|update"
long="$long|cli_(audit|call|explore|group|hybrid|overlay|profile|quantize|remote|share|steering|train|train_ways)"
tests=$(ctest --test-dir build-ci-clang -N -E "^($long)_test\$" | awk '$2 ~ /^#/ { print $3 }')
cmake --build build-ci-clang --target products $tests
ci/test.sh build-ci-clang --output-on-failure -E "^($long)_test\$"
