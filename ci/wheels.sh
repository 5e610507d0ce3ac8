#!/bin/sh
# `ci/wheels.sh VENV PACKAGE...` makes a virtual environment of Python with packages from PyPI, for tests beside other
# programs; Python compiles of them what is imported. Exits with 77, which ctest takes for skipped, where they cannot be
# installed.
set -eu
venv=$1
shift
if [ -f "$venv/wheels" ] && [ "$(cat "$venv/wheels")" = "$*" ]; then exit 0; fi
if ! { python3 -m venv "$venv" && "$venv/bin/pip" install -q --disable-pip-version-check --prefer-binary --no-compile "$@"; }; then
  echo "skipped (pip): $* cannot be installed" >&2
  exit 77
fi
echo "$*" >"$venv/wheels"
