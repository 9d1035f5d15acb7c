#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Installs what gpuwb is built and tested with from Debian's or Ubuntu's packages, as root or through sudo. Where all is there it does nothing.
# Usage: scripts/setup.sh [PACKAGE ...]     with further packages, for tests that are pending without them: python3-torch
set -euo pipefail

packages=(
    gcc g++ libc6-dev make pkg-config premake4  # the build; g++ also serves nvcc, where there is one
    luajit libluajit-5.1-dev libedit-dev libstb-dev
    libdeflate0 libjpeg-turbo-progs             # faster PNG and JPEG, opened at run time: the second brings libjpeg-turbo
    libsdl2-2.0-0                               # windows, opened at run time
    lua-busted lua-check lua-dkjson libpng-dev tmux     # the tests
    ffmpeg                                      # reads and writes video when gpuwb runs, and so in the tests: 105 packages and 69 MB more to
                                                # fetch beside the 75 and 76 MB of the others; about half a minute in all
    libavformat-dev libavcodec-dev libavutil-dev    # video without a program and a pipe, and by NVDEC: 8 MB more to fetch beside ffmpeg's
    python3 python3-numpy libpython3-dev        # and those of gpuwb.python: libpython3-dev brings the shared library, whatever its version
    python3-numba                               # NumPy's neighbour, with LLVM 22 packages and 41 MB; about 20 seconds
    "$@"
)
# Not here: python3-torch brings OpenCV, Qt and more, 68 packages and 61 MB; libnginx-mod-http-lua takes the place of the LuaJIT that gpuwb is built with.

if ! command -v dpkg-query >/dev/null; then
    echo "setup: no Debian or Ubuntu; these packages' programs and headers are taken to be there: ${packages[*]}"
    exit 0
fi

missing=()
for package in "${packages[@]}"; do
    state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$state" = installed ] || missing+=("$package")
done

if [ ${#missing[@]} -gt 0 ]; then
    as_root=()
    if [ "$(id -u)" != 0 ]; then
        if ! command -v sudo >/dev/null; then
            echo "setup: neither root nor sudo; ask an administrator for: apt-get install ${missing[*]}" >&2
            exit 1
        fi
        as_root=(sudo)
    fi
    install=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends -o Dpkg::Use-Pty=0 "${missing[@]}")
    echo "setup: installing ${missing[*]}"
    log=$(mktemp)
    trap 'rm -f "$log"' EXIT
    # The lists are fetched only where the packages are not to be had with those at hand.
    if ! "${install[@]}" >"$log" 2>&1; then
        echo "setup: fetching the package lists first"
        "${as_root[@]}" apt-get update -qq >>"$log" 2>&1 && "${install[@]}" >>"$log" 2>&1 || { cat "$log" >&2; exit 1; }
    fi
fi

if ! command -v nvcc >/dev/null && [ ! -x "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" ]; then
    echo "setup: no nvcc here: the kernels for a GPU are compiled by NVRTC when they are first used, where there is a GPU (no fault)"
fi
