-- `luarocks make scripts/gpuwb-0.1.0-1.rockspec` in a checkout: the module for a stock LuaJIT.
package = "gpuwb"
version = "0.1.0-1"
rockspec_format = "3.0"
source = {url = "file://gpuwb-0.1.0.tar.gz"}
description = {
    summary = "GPU image workbench: planes, streams, conversions and pipelines on CUDA and on the host",
    license = "MIT",
}
dependencies = {"lua == 5.1"}
build = {
    type = "command",
    build_command = "scripts/setup.sh && scripts/build.sh release",
    install = {lib = {gpuwb = "build/release/gpuwb.so"}},
}
