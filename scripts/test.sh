#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Sets up, builds and tests: luacheck, the specs on gpuwb itself (release and asan build), the C interface from C and C++.
# Usage: scripts/test.sh [BUSTED-OPTION ...]     as --filter='copy2d'
#        GPUWB_TSAN=1 scripts/test.sh            the specs in the tsan build too
# The last line is "N passed, M failed"; the exit status says the same.
set -uo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh || exit 1

passed=0 failed=0
failures=()
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Runs a command that is one check.
check() {
    local name=$1; shift
    local start=$SECONDS
    if "$@"; then
        passed=$((passed + 1))
        echo "ok      $name ($((SECONDS - start)) s)"
    else
        failed=$((failed + 1))
        failures+=("$name")
        echo "FAILED  $name"
    fi
}

# Runs the specs in a build, and keeps what they print and their exit status.
run_specs() {
    local config=$1 status=0; shift
    "build/$config/gpuwb" "$(command -v busted)" --output=plainTerminal "$@" 2>&1 | tee "$work/specs-$config" || status=1
    echo "$status $SECONDS" >"$work/status-$config"
}

# Counts the specs of a run; each counts.
count_specs() {
    local config=$1 start=$2 counts successes bad status ended
    read -r status ended <"$work/status-$config"
    # The first such line: behind it the failures may quote the output of another run.
    counts=$(grep -aEm 1 '^[0-9]+ success(es)? / [0-9]+ failures? / [0-9]+ errors? / [0-9]+ pending' "$work/specs-$config")
    read -r successes bad < <(awk -F'[ /]+' '{ print $1 + 0, $3 + $5 }' <<<"$counts")
    successes=${successes:-0} bad=${bad:-0}
    # A run that died, or failed without a count, is a failure of its own.
    [ "$status" = 0 ] || [ "$bad" -gt 0 ] || bad=1
    passed=$((passed + successes)) failed=$((failed + bad))
    [ "$bad" = 0 ] || failures+=("specs in the $config build: $bad")
    echo "specs in the $config build: ${counts:-no count} ($((ended - start)) s)"
}

# A C program that uses libgpuwb.so of a build.
c_program() {
    local config=$1 flags=(); shift
    [ "$config" != asan ] || flags=(-fsanitize=address,undefined -fno-sanitize-recover=undefined)
    gcc -std=c11 -Wall -Wextra -Wpedantic -Werror -g "${flags[@]}" -I src tests/c/api.c -o "$work/api-$config" \
        -L "build/$config" -lgpuwb -Wl,-rpath,"$PWD/build/$config" -pthread -lm && "$work/api-$config"
}

export TSAN_OPTIONS=suppressions=$PWD/tests/c/tsan.supp
configs=(release asan)
[ "${GPUWB_TSAN:-0}" != 1 ] || configs+=(tsan)

check "luacheck" luacheck --no-color -q lua scripts tests premake5.lua .busted .luacheckrc
check "gwb.h in C" gcc -std=c11 -pedantic -Wall -Wextra -Werror -fsyntax-only -I src tests/c/header.c
check "gwb.h in C++" g++ -x c++ -std=c++11 -pedantic -Wall -Wextra -Werror -fsyntax-only -I src tests/c/header.c
built=()
for config in "${configs[@]}"; do
    check "build $config" scripts/build.sh "$config"
    [ ! -x "build/$config/gpuwb" ] || built+=("$config")
done

# All builds at once, since the specs wait much of their time; the first one's output is shown as it comes, the others' behind it.
start=$SECONDS
for config in "${built[@]}"; do
    # What concerns the files of a build rather than the program is asked once; the thread sanitizer holds signals back.
    case $config in
    release) options=() ;;
    asan) options=(--exclude-tags=build) ;;
    tsan) options=(--exclude-tags=build --exclude-pattern=repl_spec '--filter-out=Ctrl%-C') ;;
    esac
    if [ "$config" = "${built[0]}" ]; then
        run_specs "$config" "${options[@]}" "$@" &
    else
        run_specs "$config" "${options[@]}" "$@" >/dev/null &
    fi
done
wait
for config in "${built[@]}"; do
    [ "$config" = "${built[0]}" ] || cat "$work/specs-$config"
    count_specs "$config" "$start"
    [ "$config" = tsan ] || check "C program with libgpuwb.so, $config" c_program "$config"
done

for failure in "${failures[@]}"; do echo "failed: $failure"; done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
