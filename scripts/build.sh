#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Builds gpuwb into build/CONFIG/ with Premake 5, or premake4 where that is what there is.
# Usage: scripts/build.sh [CONFIG ...]     release (default), debug, asan, tsan
set -euo pipefail
cd "$(dirname "$0")/.."
if command -v premake5 >/dev/null; then premake5 gmake >/dev/null; else premake4 --file=premake5.lua gmake >/dev/null; fi
for config in "${@:-release}"; do
    echo "build: $config"
    log=$(make -C build --no-print-directory -j"$(nproc)" config="$config" 2>&1) || { printf '%s\n' "$log" >&2; exit 1; }
done
