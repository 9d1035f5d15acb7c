#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Makes a folder that runs the tests and the benchmark on a machine with nothing but glibc: no package manager, no network, no LuaJIT, no busted.
# Usage: scripts/bundle.sh [DIR]     default build/bundle; what stood there is replaced
# There: ./run-tests.sh [BUSTED-OPTION ...], ./run-bench.sh [OPTION ...], ./gpuwb SCRIPT
set -euo pipefail
[ $# = 0 ] || set -- "$(realpath -m "$1")"
cd "$(dirname "$0")/.."
dir=${1:-build/bundle}
if [ -e "$dir" ] && [ ! -x "$dir/run-tests.sh" ]; then
    echo "bundle: $dir is there and is no bundle; give another folder" >&2
    exit 1
fi
scripts/setup.sh
scripts/build.sh release

rm -rf "$dir"
mkdir -p "$dir/build/release" "$dir/bin" "$dir/share/lua/5.1"
cp -r lua kernels scripts src tests .busted LICENSE "$dir"   # src: specs compile kernels and programs with it
cp build/release/gpuwb "$dir/build/release/gpuwb"
strip --strip-debug "$dir/build/release/gpuwb"
# For Python there, which loads lua/gpuwb.py: the library, and the LuaJIT that it needs.
cp build/release/libgpuwb.so "$dir/build/release/libgpuwb.so"
strip --strip-debug "$dir/build/release/libgpuwb.so"
if [ -e build/release/gpuwb_av.so ]; then      # for gpu.frames, where the libraries of libav are there
    cp build/release/gpuwb_av.so "$dir/build/release/gpuwb_av.so"
    strip --strip-debug "$dir/build/release/gpuwb_av.so"
fi
cp -L "$(dpkg -L libluajit-5.1-2 | grep -m 1 '/libluajit-5\.1\.so\.2$')" "$dir/build/release/"
cp "$(command -v busted)" "$dir/bin/busted"

# busted and all that it requires, as the packages have it for Lua 5.1; and LuaJIT's own modules (jit.v, jit.dump, ...).
packages=(lua-busted lua-cliargs lua-dkjson lua-filesystem lua-luassert lua-mediator lua-penlight lua-say lua-system lua-term)
dpkg -L "${packages[@]}" | grep '/lua/5\.1/' | while read -r path; do
    [ -f "$path" ] || continue
    to=$dir/share/lua/5.1/${path##*/lua/5.1/}
    mkdir -p "${to%/*}"
    cp -L "$path" "$to"
done
jit=$(dpkg -L libluajit-5.1-common | grep '/jit/v\.lua$')
cp -r "${jit%/*}" "$dir/share/lua/5.1/jit"

runner() {
    cat >"$dir/$1" <<RUNNER
#!/bin/sh
# $2
here=\$(cd "\$(dirname "\$0")" && pwd) || exit 1
export LUA_PATH="\$here/share/lua/5.1/?.lua;\$here/share/lua/5.1/?/init.lua;;"
export LUA_CPATH="\$here/share/lua/5.1/?.so;;"
export PATH="\$here/bin:\$PATH"
export LD_LIBRARY_PATH="\$here/build/release\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}"
$3
RUNNER
    chmod +x "$dir/$1"
}
runner gpuwb "gpuwb with the bundle's Lua modules." 'exec "$here/build/release/gpuwb" "$@"'
runner run-tests.sh "The specs; arguments go to busted." 'cd "$here" && exec build/release/gpuwb bin/busted "$@"'
runner run-bench.sh "The benchmark." 'cd "$here" && exec build/release/gpuwb scripts/bench.lua "$@"'
echo "bundle: $dir ($(du -sh "$dir" | cut -f 1))"
