# SPDX-License-Identifier: MIT
# The usual words for the scripts that do the work: make, make test, make install PREFIX=/usr DESTDIR=/tmp/root, make uninstall, make package, make docs.
.PHONY: all test install uninstall package docs
all: ; scripts/build.sh release
test: ; scripts/test.sh
install: all ; PREFIX="$(PREFIX)" DESTDIR="$(DESTDIR)" scripts/install.sh
uninstall: ; PREFIX="$(PREFIX)" DESTDIR="$(DESTDIR)" scripts/install.sh --remove
package: ; scripts/package.sh
docs: all ; build/release/gpuwb scripts/docs.lua
