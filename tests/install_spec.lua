-- SPDX-License-Identifier: MIT
-- make install, the package, the rockspec: what is installed works from where it stands.
local gpu = require "gpuwb"
local helper = require "tests.command_helper"
local shell, quote = helper.shell, helper.quote

describe("an installed gpuwb #build", function()
    local root, base
    local function at_hand()
        if not (helper.find "install" and helper.read("scripts/install.sh") and io.open("build/release/libgpuwb.so")) then
            pending "needs a checkout with a release build"
            return false
        end
        return true
    end

    setup(function()
        root = helper.folder()
        base = root .. "/opt/gw"
        if io.open("build/release/libgpuwb.so") then
            local result = shell("PREFIX=/opt/gw DESTDIR=" .. quote(root) .. " scripts/install.sh")
            assert(result.status == 0, result.err)
        end
    end)
    teardown(function() helper.remove(root) end)

    it("runs, and so do its scripts", function()
        if not at_hand() then return end
        local result = shell(("cd %s && %s/bin/gpuwb %s/share/gpuwb/scripts/planes.lua demo.png"):format(quote(root), base, base))
        assert.equal(0, result.status, result.err)
        assert.truthy(gpu.load(root .. "/demo.png").width > 0)
    end)

    it("serves C programs by pkg-config", function()
        if not at_hand() then return end
        if not (helper.find "pkg-config" and helper.find "cc") then return pending "needs pkg-config and a C compiler" end
        helper.write(root .. "/use.c", '#include <gwb.h>\n#include <stdio.h>\nint main(void) { puts(gwb_version()); return 0; }\n')
        local result = shell(("cd %s && export PKG_CONFIG_PATH=%s/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=%s "
            .. "&& cc use.c -o use $(pkg-config --cflags --libs gpuwb) && LD_LIBRARY_PATH=%s/lib ./use && pkg-config --modversion gpuwb")
            :format(quote(root), base, root, base))
        assert.same({gpu.version .. "\n" .. gpu.version .. "\n", 0}, {result.out, result.status})
    end)

    it("serves a stock luajit", function()
        if not at_hand() then return end
        local luajit = helper.find "luajit"
        if not luajit then return pending "no luajit" end
        local result = shell(("LUA_CPATH='%s/lib/lua/5.1/?.so' %s -e 'print(require(\"gpuwb\").version)'"):format(base, luajit))
        assert.equal(gpu.version .. "\n", result.out)
    end)

    it("has the pictures that its README shows", function()
        if not at_hand() then return end
        local readme, count = helper.read(base .. "/share/doc/gpuwb/README.md"), 0
        for path in readme:gmatch("%]%(([%w/_.]+)%)") do
            count = count + 1
            assert.truthy(gpu.info(base .. "/share/doc/gpuwb/" .. path).width > 0)
        end
        assert.truthy(count > 0)
    end)

    it("reads videos through libav where it was built with it", function()
        if not at_hand() then return end
        local av = io.open("build/release/gpuwb_av.so")
        local code = "'print(require(\"gpuwb.cdef\").C.gwb_libav() ~= nil)'"
        local expected = tostring(av ~= nil) .. "\n"
        assert.equal(expected, shell(("cd / && %s/bin/gpuwb -e %s"):format(base, code)).out)
        assert.equal(expected, shell(("cd %s/bin && PATH=.:$PATH gpuwb -e %s"):format(base, code)).out)
        local luajit = helper.find "luajit"
        if luajit then
            assert.equal(expected, shell(("cd / && LUA_CPATH='%s/lib/lua/5.1/?.so' %s -e 'require \"gpuwb\"' -e %s"):format(base, luajit, code)).out)
        end
        assert.equal(av ~= nil, io.open(base .. "/lib/gpuwb/gpuwb_av.so") ~= nil)
    end)

    it("has a man page and completions that their readers take", function()
        if not at_hand() then return end
        local man = helper.read(base .. "/share/man/man1/gpuwb.1")
        for option in require("gpuwb.command").text:gmatch("\n  (%-%-%a+)") do
            assert.truthy(man:find(option:gsub("%-", "\\-"), 1, true), option)
            assert.truthy(helper.read(base .. "/share/bash-completion/completions/gpuwb"):find(option, 1, true), option)
            assert.truthy(helper.read(base .. "/share/zsh/site-functions/_gpuwb"):find("'" .. option .. "[", 1, true), option)
        end
        if helper.find "groff" then
            assert.same({"", 0}, {shell(("groff -man -Tascii -ww %s/share/man/man1/gpuwb.1 >/dev/null"):format(base)).err, 0})
        end
        if helper.find "bash" then
            local result = shell(("bash -c '. %s/share/bash-completion/completions/gpuwb; COMP_WORDS=(gpuwb --do); COMP_CWORD=1; _gpuwb; echo ${COMPREPLY[@]}; "
                .. "COMP_WORDS=(gpuwb --device cu); COMP_CWORD=2; _gpuwb; echo ${COMPREPLY[@]}'"):format(base))
            assert.equal("--doctor\ncuda cuda:0\n", result.out)
        end
    end)

    it("is taken away again", function()
        if not at_hand() then return end
        assert.equal(0, shell("PREFIX=/opt/gw DESTDIR=" .. quote(root) .. " scripts/install.sh --remove").status)
        assert.equal("", shell("find " .. base .. " -type f").out)
        assert.truthy(shell("PREFIX=here scripts/install.sh").err:find("PREFIX must begin with /", 1, true))
    end)

    it("is made a rock of by luarocks", function()
        if not at_hand() then return end
        local luarocks, luajit = helper.find "luarocks", helper.find "luajit"
        if not (luarocks and luajit) then return pending "needs luarocks and luajit" end
        local copy = root .. "/checkout"       -- with scripts that build nothing: a build would replace the program that runs this
        shell(("mkdir -p %s/scripts %s/build/release && cp scripts/*.rockspec %s/scripts && cp build/release/gpuwb.so %s/build/release")
            :format(copy, copy, copy, copy))
        for _, name in ipairs {"setup", "build"} do
            helper.write(("%s/scripts/%s.sh"):format(copy, name), "#!/bin/sh\necho " .. name .. " $* >>log\n")
        end
        local made = shell(("cd %s && chmod +x scripts/*.sh && luarocks --lua-version=5.1 --tree=%s/rocks make scripts/gpuwb-%s-1.rockspec")
            :format(copy, root, gpu.version))
        assert.equal(0, made.status, made.out .. made.err)
        assert.equal("setup\nbuild release\n", helper.read(copy .. "/log"))
        local result = shell(("cd / && LUA_CPATH='%s/rocks/lib/lua/5.1/?.so' %s -e 'print(require(\"gpuwb\").mat(2, 2, \"u8\", {fill = 3}):at(1, 1))'")
            :format(root, luajit))
        assert.same({"3\n", 0}, {result.out, result.status}, result.err)
    end)

    it("can be a rock of the same version", function()
        local text = helper.read("scripts/gpuwb-" .. gpu.version .. "-1.rockspec")
        if not text then return pending "needs a checkout" end
        local rock = {}
        setfenv(assert(loadstring(text)), rock)()
        assert.same({"gpuwb", gpu.version .. "-1", "build/release/gpuwb.so"}, {rock.package, rock.version, rock.build.install.lib.gpuwb})
    end)
end)
