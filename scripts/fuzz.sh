#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Fuzzes the file readers with libFuzzer, ASan and UBSan, from a corpus made by formula. Wants clang with its runtime libraries, and a built gpuwb.
# Usage: scripts/fuzz.sh [SECONDS]     60 by default; the corpus grows in build/fuzz/corpus, a crashing input stays in build/fuzz
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}
command -v clang >/dev/null || { echo "fuzz: no clang here (Debian: clang libclang-rt-dev)" >&2; exit 1; }
mkdir -p build/fuzz/corpus
echo "fuzz: building"
if command -v premake5 >/dev/null; then premake5 --fuzz gmake >/dev/null; else premake4 --file=premake5.lua --fuzz gmake >/dev/null; fi
make -C build/fuzz --no-print-directory -j"$(nproc)" CC=clang >/dev/null
build/release/gpuwb scripts/fuzz_corpus.lua build/fuzz/corpus
cd build/fuzz
# Each worker has its own seed; the first crash ends all.
jobs=${FUZZ_JOBS:-$(nproc)}
./fuzz -max_total_time="$seconds" -max_len=4096 -timeout=10 -rss_limit_mb=2048 -jobs="$jobs" -workers="$jobs" -print_final_stats=1 corpus
grep -h -E "stat::number_of_executed_units|stat::peak_rss_mb|SUMMARY" fuzz-*.log || true
