-- SPDX-License-Identifier: MIT
-- The files of the release build, what `make` rebuilds, and the scripts that set up and pack. Works on a copy of the checkout.
local helper = require "tests.helper"

local BUILD = "build/release"

-- Runs a shell command; gives its output (both streams) and its exit status.
local function sh(command, ...)
    local pipe = io.popen("{ " .. command:format(...) .. "\n} 2>&1; echo \" $?\"")
    local text = pipe:read("*a")
    pipe:close()
    local output, status = text:match("^(.*) (%d+)\n$")
    return output, tonumber(status)
end

local function run(command, ...)
    local output, status = sh(command, ...)
    assert(status == 0, ("`%s` ended with %d:\n%s"):format(command:format(...), status, output))
    return output
end

local function at_hand(program)
    return select(2, sh("command -v %s", program)) == 0
end

local function needed(file)
    local list = {}
    for name in run("readelf -d %s/%s", BUILD, file):gmatch("NEEDED.-%[(.-)%]") do list[#list + 1] = name end
    return list
end

local function is_checkout()
    return select(2, sh("test -f premake5.lua -a -f %s/libgpuwb.so && command -v readelf luajit make", BUILD)) == 0
end

describe("the build #build", function()
    if not is_checkout() then
        pending("needs a built checkout and the build tools")
        return
    end

    local copy

    setup(function()
        copy = helper.folder()
        run("mkdir -p %s/build/obj && cp -a src kernels lua scripts tests .busted LICENSE premake5.lua %s", copy, copy)
        run("cp -a build/release build/embed build/*.make build/Makefile %s/build && cp -a build/obj/release %s/build/obj", copy, copy)
    end)

    teardown(function()
        run("rm -rf '%s'", copy)
    end)

    local function make()
        return run("cd %s && GPUWB_SM=none make -C build -j2 config=release", copy)
    end

    local function generate()
        return run("cd %s && if command -v premake5 >/dev/null; then premake5 gmake; else premake4 --file=premake5.lua gmake; fi", copy)
    end

    -- Objects and products with the time of their last change.
    local function times()
        local list = {}
        local text = run("cd %s/build && find obj/release release -name '*.o' -printf '%%p %%T@\\n' -o -name 'gpuwb*' -printf '%%p %%T@\\n'", copy)
        for path, time in text:gmatch("(%S+) (%S+)\n") do list[path] = time end
        return list
    end

    local function changed(before, after)
        local list = {}
        for path, time in pairs(after) do
            if before[path] ~= time then list[#list + 1] = path:match("[^/]+$") end
        end
        table.sort(list)
        return list
    end

    it("has the readers of files apart from the rest, as the fuzzer takes them", function()
        local entry = "int LLVMFuzzerTestOneInput(const unsigned char *, unsigned long); int main(void) { return LLVMFuzzerTestOneInput((void *)0, 0); }"
        run("mkdir -p %s/build/fuzz", copy)
        run("cd %s && if command -v premake5 >/dev/null; then premake5 --fuzz gmake; else premake4 --file=premake5.lua --fuzz gmake; fi", copy)
        run("cd %s && sed -i 's/fuzzer,address,undefined/undefined/g; s/-O1/-O0/' build/fuzz/fuzz.make && sed -i '$ a %s' tests/c/fuzz.c", copy, entry)
        run("make -C %s/build/fuzz -j2 && %s/build/fuzz/fuzz", copy, copy)
    end)

    describe("products", function()
        it("make a command that needs the C library alone", function()
            for _, name in ipairs(needed "gpuwb") do
                assert.truthy(name:match("^libc%.so") or name:match("^libm%.so") or name:match("^libgcc_s%.so") or name:match("^ld%-linux"), name)
            end
        end)

        it("make a command that runs alone in another folder", function()
            run("cp %s/gpuwb %s/alone", BUILD, copy)
            local output = run("cd / && env -i %s/alone -e 'print(require(\"gpuwb\").mat(3, 2, \"u8\", {fill = 7}):at(2, 1))'", copy)
            assert.equal("7\n", output)
        end)

        it("make a library that takes the shared LuaJIT and shows no name but its own", function()
            assert.truthy(table.concat(needed "libgpuwb.so", " "):find("libluajit-5.1.so.2", 1, true))
            local count = 0
            for name in run("nm -D --defined-only %s/libgpuwb.so", BUILD):gmatch("%x+ %a (%S+)") do
                assert.truthy(name:match("^gwb_") or name == "luaopen_gpuwb", name)
                count = count + 1
            end
            assert.is_true(count > 20)
        end)

        it("make a module that a stock luajit loads and works with", function()
            assert.falsy(table.concat(needed "gpuwb.so", " "):find("luajit", 1, true))
            helper.write(copy .. "/module.lua", [[
                local gpu = require "gpuwb"
                assert(package.loaded.gpuwb == gpu)
                local m = gpu.mat(4, 2, "u8", { fill = 3 })
                local view = m:roi(1, 1, 2, 1)
                view:fill(9)
                gpu.synchronize()
                assert(m:at(1, 1) == 9 and m:at(0, 1) == 3)
                local ok, err = pcall(gpu.mat, -1, 2, "u8")
                assert(not ok and err.code)
                print(m.type, m:download():byte(-1))
            ]])
            local output = run("LUA_CPATH=$PWD/%s/?.so luajit %s/module.lua", BUILD, copy)
            assert.equal("u8\t3\n", output)
        end)

        it("read lua/ and kernels/ from $GPUWB_ROOT instead of their own", function()
            helper.write(copy .. "/lua/gpuwb/probe.lua", "return 'from disk'")
            local ask = ("%s/gpuwb -e 'print((select(2, pcall(require, \"gpuwb.probe\"))))'"):format(BUILD)
            assert.equal("from disk\n", run("GPUWB_ROOT=%s %s", copy, ask))
            assert.truthy(run(ask):find("gpuwb.probe' not found", 1, true))
            assert.truthy(run("GPUWB_ROOT= %s", ask):find("gpuwb.probe' not found", 1, true))
            run("rm %s/lua/gpuwb/probe.lua", copy)
        end)
    end)

    describe("make", function()
        setup(function()
            generate()
            make()
        end)

        it("does nothing where nothing changed", function()
            local before = times()
            generate()
            make()
            assert.same({}, changed(before, times()))
        end)

        it("compiles the embedded files alone after a change of a Lua file", function()
            local path = copy .. "/lua/gpuwb/init.lua"
            local before, text = times(), helper.read(path)
            helper.write(path, text .. "\n-- changed\n")
            make()
            assert.same({ "embedded_files.o", "gpuwb", "gpuwb.so" }, changed(before, times()))
            helper.write(path, text)
            make()
        end)

        it("compiles what includes a kernel file, and no more, after a change of it (B9)", function()
            -- The one with the fewest users: compiling them is what takes long.
            local name, users
            for file in run("ls %s/kernels", copy):gmatch("([%w_]+%.h)\n") do
                local list = run("cd %s/build && grep -lF /kernels/%s: -r obj/release --include='*.d' || true", copy, file)
                if list ~= "" and (not users or #list < #users) then name, users = file, list end
            end
            local path = copy .. "/kernels/" .. name
            local expected = { "embedded_files.o", "gpuwb", "gpuwb.so" }
            for user in users:gmatch("([^/\n]+)%.d\n") do expected[#expected + 1] = user .. ".o" end
            table.sort(expected)
            local before, text = times(), helper.read(path)
            helper.write(path, text .. "\n// changed\n")
            make()
            local after = times()
            assert.same(expected, changed(before, after))
            assert.is_true(#expected < #changed({}, after))
            helper.write(path, text)
            make()
        end)

        it("does nothing after a mere touch of a kernel or Lua file", function()
            local before = times()
            run("cd %s && touch lua/gpuwb/init.lua", copy)
            make()
            assert.same({}, changed(before, times()))
        end)

        it("takes up a new source file and forgets a removed one", function()
            local function has_probe()
                return run("nm -D --defined-only %s/build/release/libgpuwb.so", copy):find("gwb_probe", 1, true) ~= nil
            end
            local source = copy .. "/src/host/zz_probe.c"
            helper.write(source, '__attribute__((visibility("default"))) int gwb_probe(void);\nint gwb_probe(void) { return 1; }\n')
            generate()
            make()
            assert.is_true(has_probe())
            os.remove(source)
            generate()
            make()
            assert.is_false(has_probe())
        end)
    end)

    for _, premake in ipairs { "premake4 --file=premake5.lua", "premake5" } do
        it("is described to " .. premake:match("%w+") .. ", release first", function()
            if not at_hand(premake:match("%w+")) then
                pending("not at hand")
                return
            end
            local dir = helper.folder()
            run("cp -r premake5.lua src %s && cd %s && %s gmake", dir, dir, premake)
            for config in ("release debug asan tsan"):gmatch("%a+") do run("make -n -C %s/build config=%s help", dir, config) end
            for _, file in ipairs { "Makefile", "gpuwb.make", "gwb_core.make" } do
                assert.equal("release", helper.read(dir .. "/build/" .. file):match("ifndef config%s+config=(%a+)"))
            end
            assert.falsy(helper.read(dir .. "/build/gwb_core.make"):find("main.o", 1, true))
            run("rm -rf %s", dir)
        end)
    end

    describe("the generator", function()
        local dir

        setup(function()
            dir = helper.folder()
            run("mkdir -p %s/kernels %s/lua %s/src && cp src/abi_*.h %s/src && cp scripts/embed.lua %s", dir, dir, dir, dir, dir)
            helper.write(dir .. "/lua/odd.lua", "\0\1 ??= \"\\\" \200\255 1\n\n2" .. ("x"):rep(1000))
            helper.write(dir .. "/lua/empty.lua", "")
            helper.write(dir .. "/kernels/builtin.cu", '#include "twice.h"\nextern "C" __global__ void k(float *p) { p[0] = TWICE(p[0]); }\n')
            helper.write(dir .. "/kernels/twice.h", "#define TWICE(x) (2 * (x))\n")
        end)

        teardown(function()
            run("rm -rf '%s'", dir)
        end)

        local function embed(environment)
            return run("cd %s && %s luajit embed.lua out", dir, environment)
        end

        it("keeps every byte, and sorts the names", function()
            embed "GPUWB_SM=none"
            helper.write(dir .. "/dump.c", [[
                #include "embedded.h"
                #include <stdio.h>
                int main(void)
                {
                    for (size_t i = 0; i < gwb_embedded_count; i++) {
                        const gwb_embedded *file = &gwb_embedded_files[i];
                        if (file->data[file->size] != 0 || gwb_embedded_find(file->name) != file) return 1;
                        printf("%s %zu\n", file->name, file->size);
                        fwrite(file->data, 1, file->size, stdout);
                    }
                    return gwb_embedded_find("lua/none.lua") || gwb_embedded_fatbin_size != 0;
                }
            ]])
            run("gcc -std=c11 -Wall -Wextra -Wpedantic -Werror -I src -pthread %s/dump.c %s/out/embedded_files.c src/embedded.c -o %s/dump",
                dir, dir, dir)
            local expected = {}
            for name in run("cd %s && find lua kernels src -type f | LC_ALL=C sort", dir):gmatch("[^\n]+") do
                local text = helper.read(dir .. "/" .. name)
                expected[#expected + 1] = ("%s %d\n%s"):format(name, #text, text)
            end
            assert.is_true(#expected >= 6)
            assert.equal(table.concat(expected), (run("env -u GPUWB_ROOT %s/dump", dir)))
        end)

        it("makes the fatbin anew when its sources or architectures change, and only then", function()
            local nvcc = at_hand "nvcc" or at_hand "/usr/local/cuda/bin/nvcc" or at_hand "$CUDA_HOME/bin/nvcc"
            if not nvcc then
                pending("no nvcc")
                return
            end
            local function compiles(environment)
                return embed(environment):find("nvcc builtin.cu", 1, true) ~= nil
            end
            assert.is_true(compiles "GPUWB_SM=90")
            assert.truthy(helper.read(dir .. "/out/embedded_files.c"):match("gwb_embedded_fatbin_size = [1-9]%d+;"))
            assert.is_false(compiles "GPUWB_SM=90")
            run("touch %s/kernels/twice.h", dir)
            assert.is_false(compiles "GPUWB_SM=90")
            helper.write(dir .. "/lua/empty.lua", "return 1")
            assert.is_false(compiles "GPUWB_SM=90")
            helper.write(dir .. "/kernels/twice.h", "#define TWICE(x) ((x) + (x))\n")
            assert.is_true(compiles "GPUWB_SM=90")
            assert.is_true(compiles "GPUWB_SM=80")
            helper.write(dir .. "/kernels/twice.h", "#define TWICE(x) (broken\n")
            local output, status = sh("cd %s && GPUWB_SM=80 luajit embed.lua out", dir)
            assert.equal(1, status)
            assert.truthy(output:find("this command failed", 1, true))
        end)

        it("refuses an architecture that is none", function()
            if not (at_hand "nvcc" or at_hand "/usr/local/cuda/bin/nvcc") then
                pending("no nvcc")
                return
            end
            local output, status = sh("cd %s && GPUWB_SM='90 x' luajit embed.lua out", dir)
            assert.equal(1, status)
            assert.truthy(output:find('GPUWB_SM="90 x"', 1, true))
        end)
    end)

    describe("setup.sh", function()
        local stubs

        -- A folder of programs that stands first in the path: what they are asked is written to its file "log".
        before_each(function()
            stubs = helper.folder()
        end)

        after_each(function()
            run("rm -rf '%s'", stubs)
        end)

        local function stub(name, text)
            helper.write(stubs .. "/" .. name, ("#!/bin/sh\necho %s \"$@\" >>%s/log\n%s\n"):format(name, stubs, text))
            run("chmod +x %s/%s", stubs, name)
        end

        local function setup_sh()
            return sh("PATH=%s:$PATH bash scripts/setup.sh", stubs)
        end

        it("asks apt for nothing where all is there", function()
            stub("apt-get", "exit 1")
            stub("dpkg-query", "echo installed")
            local output, status = setup_sh()
            assert.equal(0, status)
            assert.falsy(output:find("installing", 1, true))
            assert.falsy(helper.read(stubs .. "/log"):find("apt-get", 1, true))
        end)

        it("names and installs what is missing, fetching the lists only when it must", function()
            stub("id", "echo 0")
            stub("dpkg-query", 'case "$*" in *premake4|*lua-check) exit 1;; esac; echo installed')
            stub("apt-get", "")
            local output, status = setup_sh()
            assert.equal(0, status)
            assert.truthy(output:find("installing premake4 lua-check\n", 1, true))
            assert.truthy(helper.read(stubs .. "/log"):find("apt%-get install [^\n]*premake4 lua%-check\n"))
            assert.falsy(helper.read(stubs .. "/log"):find("update", 1, true))

            stub("apt-get", ('test -e %s/lists || { test "$1" = update && touch %s/lists; }'):format(stubs, stubs))
            assert.equal(0, (select(2, setup_sh())))
            assert.truthy(helper.read(stubs .. "/log"):find("apt-get update", 1, true))

            stub("apt-get", "echo no such package; exit 100")
            output, status = setup_sh()
            assert.equal(1, status)
            assert.truthy(output:find("no such package", 1, true))
        end)

        it("says what to ask for where it has no rights", function()
            stub("dpkg-query", "exit 1")
            stub("id", "echo 1000")
            stub("apt-get", "")
            for name in ("bash rm mktemp env"):gmatch("%a+") do
                run("ln -s \"$(command -v %s)\" %s/%s", name, stubs, name)
            end
            local output, status = sh("PATH=%s bash scripts/setup.sh", stubs)
            assert.equal(1, status)
            assert.truthy(output:find("apt-get install gcc g++", 1, true))
            assert.falsy(helper.read(stubs .. "/log"):find("apt-get", 1, true))
        end)
    end)

    describe("bundle.sh", function()
        it("makes a folder that runs specs with nothing from outside", function()
            local dir = copy .. "/packed"
            run("cd %s && GPUWB_SM=none bash scripts/bundle.sh packed", copy)
            helper.write(dir .. "/tests/tiny_spec.lua", [[
                it("is inside", function()
                    for _, name in ipairs { "busted", "luassert", "pl.path", "lfs", "term.core", "system.core", "cliargs", "dkjson", "jit.v" } do
                        local path = assert(package.searchpath(name, package.path) or package.searchpath(name, package.cpath))
                        assert.equal(os.getenv("HERE"), path:sub(1, #os.getenv("HERE")))
                        require(name)
                    end
                end)
            ]])
            local output = run("cd / && env -i HERE=%s PATH=/usr/bin:/bin %s/run-tests.sh tests/tiny_spec.lua", dir, dir)
            assert.truthy(output:find("1 success / 0 failures", 1, true))
            assert.is_true(tonumber(run("du -sm %s", dir):match("%d+")) < 20)
        end)

        it("does not replace a folder that is no bundle", function()
            run("mkdir -p %s/precious && touch %s/precious/file", copy, copy)
            local output, status = sh("cd %s && bash scripts/bundle.sh precious", copy)
            assert.equal(1, status)
            assert.truthy(output:find("is no bundle", 1, true))
            assert.equal("", (helper.read(copy .. "/precious/file")))
        end)
    end)
end)
