#!/usr/bin/env bash
# What the system itself must have. As root on Debian it is installed, else the line to type is
# printed. `--browser` asks for what tests need too: Chromium, and openssl for certificates.
set -euo pipefail

need=()
command -v python3 >/dev/null || need+=(python3)
python3 -c 'import venv, ensurepip' 2>/dev/null || need+=(python3-venv)
[ -e /etc/ssl/certs/ca-certificates.crt ] || need+=(ca-certificates)
if [ "${1:-}" = "--browser" ]; then
  command -v chromium >/dev/null || need+=(chromium)
  command -v openssl >/dev/null || need+=(openssl)
fi

if command -v python3 >/dev/null; then
  python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "stagewatch needs Python 3.11 or newer; this is $(python3 --version)" >&2
    exit 1
  }
fi

[ "${#need[@]}" -eq 0 ] && exit 0

line="apt-get update && apt-get install -y --no-install-recommends ${need[*]}"
if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
  echo "installing with apt-get: ${need[*]}"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq && apt-get install -y -qq --no-install-recommends "${need[@]}" >/dev/null
elif [ "${need[*]}" = "chromium" ]; then
  echo "no chromium: the browser tests will be skipped. To run them, as root: $line" >&2
else
  echo "the system lacks: ${need[*]}. Type, as root: $line" >&2
  exit 1
fi
