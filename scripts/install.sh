#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Installs what scripts/build.sh built: the command, the C library with its headers and pkg-config file, the LuaJIT module, video by libav, man page,
# completions, the reference, the file for editors, the scripts. Builds first where nothing is built.
# Usage: [PREFIX=/usr/local] [DESTDIR=] scripts/install.sh             PREFIX: where it will stand; DESTDIR: a folder that stands for / meanwhile
#        [PREFIX=/usr/local] [DESTDIR=] scripts/install.sh --remove    takes it away again
set -euo pipefail
cd "$(dirname "$0")/.."
prefix=${PREFIX:-/usr/local}
root=${DESTDIR:-}$prefix
[ "${prefix#/}" != "$prefix" ] || { echo "install: PREFIX must begin with /, got $prefix" >&2; exit 1; }

if [ "${1:-}" = --remove ]; then
    rm -f "$root/bin/gpuwb" "$root/lib/libgpuwb.so" "$root/lib/pkgconfig/gpuwb.pc" "$root/lib/lua/5.1/gpuwb.so" "$root/share/man/man1/gpuwb.1" \
        "$root/share/bash-completion/completions/gpuwb" "$root/share/zsh/site-functions/_gpuwb"
    rm -rf "$root/include/gpuwb" "$root/lib/gpuwb" "$root/share/gpuwb" "$root/share/doc/gpuwb"
    echo "install: removed from $root"
    exit
fi
[ $# = 0 ] || { sed -n '3,7s/^# //p' "$0" >&2; exit 1; }

for product in gpuwb libgpuwb.so gpuwb.so; do
    [ -e "build/release/$product" ] || { scripts/build.sh release; break; }
done
docs=$(mktemp -d)
trap 'rm -rf "$docs"' EXIT
build/release/gpuwb scripts/docs.lua "$docs" >/dev/null
version=$(build/release/gpuwb -e 'print(gpu.version)')

put() { install -D -m "$1" "$2" "$root/$3"; }
put 755 build/release/gpuwb bin/gpuwb
put 644 build/release/libgpuwb.so lib/libgpuwb.so
put 644 build/release/gpuwb.so lib/lua/5.1/gpuwb.so
[ ! -e build/release/gpuwb_av.so ] || put 644 build/release/gpuwb_av.so lib/gpuwb/gpuwb_av.so     # where libav's packages are
for header in gwb.h abi_types.h abi_calls.h; do put 644 "src/$header" "include/gpuwb/$header"; done
put 644 "$docs/gpuwb.1" share/man/man1/gpuwb.1
put 644 "$docs/gpuwb.bash" share/bash-completion/completions/gpuwb
put 644 "$docs/_gpuwb" share/zsh/site-functions/_gpuwb
put 644 "$docs/meta/gpuwb.lua" share/gpuwb/meta/gpuwb.lua
put 644 "$docs/reference.html" share/doc/gpuwb/reference.html
put 644 README.md share/doc/gpuwb/README.md
put 644 scripts/readme.png share/doc/gpuwb/scripts/readme.png      # which it shows
put 644 CHANGES.md share/doc/gpuwb/CHANGES.md
put 644 LICENSE share/doc/gpuwb/copyright
put 644 lua/gpuwb.py share/gpuwb/gpuwb.py
for script in scripts/*.lua; do
    case $script in */embed.lua | */blue_noise.lua | */fuzz_corpus.lua) continue ;; esac     # of the build and the tests
    put 644 "$script" "share/gpuwb/scripts/${script##*/}"
done
for file in nginx.conf resize.lua; do put 644 "scripts/nginx/$file" "share/gpuwb/scripts/nginx/$file"; done
put 755 scripts/nginx/serve.sh share/gpuwb/scripts/nginx/serve.sh

install -d "$root/lib/pkgconfig"
cat >"$root/lib/pkgconfig/gpuwb.pc" <<PC
prefix=$prefix
libdir=\${prefix}/lib
includedir=\${prefix}/include/gpuwb

Name: gpuwb
Description: GPU image workbench: pitched mats, planes, streams, conversions and pipelines on CUDA and on the host
Version: $version
Cflags: -I\${includedir}
Libs: -L\${libdir} -lgpuwb
PC
chmod 644 "$root/lib/pkgconfig/gpuwb.pc"
echo "install: gpuwb $version in $root"
