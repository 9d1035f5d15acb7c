#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Makes a Debian package of the release build, build/gpuwb_VERSION_ARCH.deb.
# Usage: scripts/package.sh
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/build.sh release
version=$(build/release/gpuwb -e 'print(gpu.version)')
arch=$(dpkg --print-architecture)
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
chmod 755 "$root"
PREFIX=/usr DESTDIR=$root scripts/install.sh >/dev/null
av=$root/usr/lib/gpuwb/gpuwb_av.so suggests=libsdl2-2.0-0
objects=("$root/usr/bin/gpuwb" "$root/usr/lib/libgpuwb.so" "$root/usr/lib/lua/5.1/gpuwb.so")
if [ -e "$av" ]; then       # libavcodec.so.59 is of the package libavcodec59
    objects+=("$av")
    suggests+=", ffmpeg$(objdump -p "$av" | sed -n 's/^ *NEEDED *\(libav[a-z]*\)\.so\.\([0-9]*\)$/, \1\2/p' | tr -d '\n')"
fi
strip --strip-unneeded "${objects[@]}" 2>/dev/null || strip --strip-debug "${objects[@]}"
gzip -9n "$root/usr/share/man/man1/gpuwb.1"

# The newest version of the C library's symbols that the files ask for.
glibc=$(objdump -T "${objects[@]}" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -1)
install -d "$root/DEBIAN"
cat >"$root/DEBIAN/control" <<CONTROL
Package: gpuwb
Version: $version
Architecture: $arch
Maintainer: gpuwb developers <gpuwb@localhost>
Section: graphics
Priority: optional
Installed-Size: $(du -sk "$root/usr" | cut -f 1)
Depends: libc6 (>= ${glibc#GLIBC_}), libluajit-5.1-2
Recommends: gcc, g++
Suggests: $suggests
Description: GPU image workbench, scripted in Lua
 Opens pictures and frames, takes them apart into planes, copies, converts and
 filters them on CUDA devices or on the host, hands the memory to any other
 library, and shows the result. CUDA is opened at run time where it is there.
CONTROL
(cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
package=build/gpuwb_${version}_$arch.deb
dpkg-deb --root-owner-group --build "$root" "$package" >/dev/null
echo "package: $package ($(du -h "$package" | cut -f 1))"
