#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# From a fresh clone to a picture: takes a yuv420p frame apart, copies its planes on a stream, converts them, and writes a PNG.
# Usage: scripts/demo.sh [FILE [OPTION ...]]     FILE: your own frame (npy, y4m, yuv, mp4 ...); without one a test card is made.
#                                                OPTION: goes to scripts/planes.lua, as --wrong-split
set -euo pipefail
if [ $# -gt 0 ] && [ -e "$1" ]; then
    file=$(realpath "$1"); shift
    set -- "$file" "$@"
fi
cd "$(dirname "$0")/.."
scripts/setup.sh
scripts/build.sh release
build/release/gpuwb scripts/planes.lua "$@" build/demo.png
echo "demo: the picture is $PWD/build/demo.png"
