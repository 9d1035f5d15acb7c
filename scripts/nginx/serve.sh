#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Serves resize.lua with the nginx at hand, in the foreground: curl --data-binary @a.jpg 'http://127.0.0.1:8080/resize?width=320' >b.jpg
# Usage: scripts/nginx/serve.sh [PORT]      wants nginx with Lua: OpenResty, or on Debian libnginx-mod-http-lua
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
if ! command -v nginx >/dev/null; then
    echo "serve: no nginx on PATH; wanted OpenResty's, or Debian's package libnginx-mod-http-lua" >&2
    exit 1
fi
prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT
chmod 755 "$prefix"
sed "s/127.0.0.1:8080/127.0.0.1:${1:-8080}/" "$here/nginx.conf" >"$prefix/nginx.conf"
cp "$here/resize.lua" "$prefix"
for module in "$here"/../../{build/release,../../lib/lua/5.1}/gpuwb.so; do      # of a checkout, or installed; else LuaJIT finds it
    [ ! -f "$module" ] || { cp "$module" "$prefix"; break; }
done
modules=$(nginx -V 2>&1 | sed -n 's/.*--modules-path=\([^ ]*\).*/\1/p')
{
    [ "$(id -u)" != 0 ] || echo "user nobody $(id -gn nobody);"
    for name in ndk_http_module ngx_http_lua_module; do
        [ ! -e "$modules/$name.so" ] || echo "load_module $modules/$name.so;"
    done
} >"$prefix/here.conf"
nginx -p "$prefix/" -c nginx.conf &
trap 'kill -QUIT $! 2>/dev/null' INT TERM
wait $! || wait $!      # the first wait may end by a signal
