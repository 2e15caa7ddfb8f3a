#!/bin/sh
# Re-make the pins. No index addresses are written: the installer's own configuration decides.
set -eu
cd "$(dirname "$0")/.."
UV="${UV:-.venv/bin/uv}"
OPTS="-q --generate-hashes --no-annotate --no-header --no-emit-index-url --universal --python-version 3.11"
# shellcheck disable=SC2086
$UV pip compile $OPTS pyproject.toml -o requirements/sdk.txt "$@"
# shellcheck disable=SC2086
$UV pip compile $OPTS --extra demo pyproject.toml -o requirements/server.txt "$@"
# shellcheck disable=SC2086
$UV pip compile $OPTS --extra demo --extra local --group dev pyproject.toml -o requirements/dev.txt "$@"
# shellcheck disable=SC2086
$UV pip compile $OPTS --extra local pyproject.toml -o requirements/local.txt "$@"
# shellcheck disable=SC2086
$UV pip compile $OPTS requirements/frameworks.in -o requirements/frameworks.txt "$@"
