#!/bin/sh
# Makes the captures that have a script here anew: tests/golden/make/all.sh OUT
# OUT gets one folder a capture; compare it with tests/golden/otlp before you replace anything there:
# ids, times and the libraries' versions differ each time.
set -eu
cd "$(dirname "$0")/../../.."
out=$(realpath "$1")
env=.venv-captures
test -e $env/done || {
  python3 -m venv --clear --without-pip $env
  .venv/bin/uv pip install --quiet --python $env/bin/python -r requirements/captures.in
  touch $env/done
}
python=$env/bin/python
export TRACELOOP_TELEMETRY=false
for script in openinference_haystack openinference_dspy traceloop_llamaindex traceloop_qdrant \
    otel_genai_langchain otel_genai_openai_events pydantic_ai_agent; do
  $python tests/golden/make/$script.py "$out"
done
for way in split cut hidden twice; do
  $python tests/golden/make/openinference_app.py "$out" $way
done
# Node comes with `make install-frameworks`.
node=$PWD/.venv-frameworks/bin
packages=$env/node
test -e $packages/done || {
  mkdir -p $packages
  cp tests/golden/make/package.json $packages/
  PATH="$node:$PATH" npm install --prefix $packages --no-package-lock --ignore-scripts --no-audit --no-fund
  touch $packages/done
}
NODE=$node/node NODE_MODULES_OF=$PWD/$packages $python tests/golden/make/vercel_ai_7.py "$out"
