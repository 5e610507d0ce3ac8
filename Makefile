# Thin over CMake: see CMakeLists.txt and CMakePresets.json for everything that matters.
BUILD ?= build
PREFIX ?= /usr/local
CMAKE_FLAGS ?=
CTEST_FLAGS ?= --output-on-failure
DEMO ?= $(BUILD)/demo
export CTEST_PARALLEL_LEVEL ?= $(shell nproc)

PYTHON ?= python3

.PHONY: all configure deps demo test bench onnxruntime install uninstall clean tensorflow install-tensorflow

# What is installed; the tests and measurements have goals of their own.
all: configure
	@cmake --build $(BUILD) --target products

configure:
	@command -v cmake >/dev/null && command -v ninja >/dev/null || { echo "cmake or ninja is missing: \`make deps\` says which packages have them" >&2; exit 1; }
	@[ -f $(BUILD)/build.ninja ] && [ -z "$(CMAKE_FLAGS)" ] || cmake -S . -B $(BUILD) -G Ninja -Wno-dev $(CMAKE_FLAGS)

# What the build needs (packages.txt): installed on Debian and Ubuntu as root, else named where it is missing.
deps:
	@ci/deps.sh

# The execution provider for ONNX Runtime: docs/onnxruntime.md.
onnxruntime: configure
	@cmake --build $(BUILD) --target onnxruntime_plugin

# Trains a small network on generated pictures, tests it and classifies with it.
demo: deps
	@$(MAKE) --no-print-directory all
	@examples/demo.sh $(BUILD) $(DEMO)

test:
	@ci/deps.sh tests
	@$(MAKE) --no-print-directory configure
	@[ -d $(BUILD)/tests ] || cmake $(BUILD) # cmocka was not there before
	@cmake --build $(BUILD)
	@ci/test.sh $(BUILD) $(CTEST_FLAGS)

# The speed of the library beside its peers, in one run.
bench: deps
	@$(MAKE) --no-print-directory configure
	@cmake --build $(BUILD) --target products measurements
	@bench/run.sh $(BUILD)

install: all
	@cmake --install $(BUILD) --prefix $(PREFIX)

# The plug-in for TensorFlow (docs/tensorflow.md), for the tensorflow-cpu of PYTHON; and where that loads it by itself.
tensorflow: configure
	@folder=$$($(PYTHON) plugins/tensorflow/where.py) && cmake -S . -B $(BUILD) -DBRAID_TENSORFLOW="$$folder" >/dev/null && cmake --build $(BUILD) --target tensorflow

install-tensorflow: tensorflow
	@folder=$$($(PYTHON) plugins/tensorflow/where.py --plugins) && mkdir -p "$$folder" && cp $(BUILD)/libbraid_tensorflow.so "$$folder/" && echo "TensorFlow loads $$folder/libbraid_tensorflow.so from now on"

# What the last `make install` put there.
uninstall:
	@[ -f $(BUILD)/install_manifest.txt ] || { echo "$(BUILD)/install_manifest.txt is not there: nothing was installed from here" >&2; exit 1; }
	@xargs -d '\n' rm -fv <$(BUILD)/install_manifest.txt

clean:
	rm -rf $(BUILD)
