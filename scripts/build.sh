#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Builds gpuwb into build/CONFIG/ with Premake 5, or premake4 where that is what there is. Prints the steps only where one fails.
# Usage: scripts/build.sh [CONFIG ...]     release (default), debug, asan, tsan
set -euo pipefail
cd "$(dirname "$0")/.."

quietly() {
    local log
    log=$("$@" 2>&1) || { printf '%s\n' "$log" >&2; exit 1; }
}

if command -v premake5 >/dev/null; then quietly premake5 gmake; else quietly premake4 --file=premake5.lua gmake; fi
for config in "${@:-release}"; do
    echo "build: $config"
    quietly make -C build --no-print-directory -j"$(nproc)" config="$config"
done
