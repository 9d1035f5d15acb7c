-- SPDX-License-Identifier: MIT
-- The command line: what it shares with luajit is compared with the luajit at hand, what is its own is stated.

local helper = require "tests.command_helper"
local run, shell, quote = helper.run, helper.shell, helper.quote

local LUAJIT = helper.find "luajit"
local BUSTED = helper.find "busted"
local NO_CUDA = { CUDA_VISIBLE_DEVICES = "" }

local FILES = {
    ["args.lua"] = "for i = -9, #arg do if arg[i] then io.write(i, '=', arg[i], ' ') end end print() print(select('#', ...), ...)",
    ["count.lua"] = "print(select('#', ...), #arg, (select(-1, 'none', ...)))",
    ["noext"] = "#!/usr/bin/env lua\nprint('no extension', ...)",
    ["shebang.lua"] = "#!/bin/false\nerror('line two')",
    ["bom.lua"] = "\239\187\191print('bom')",
    ["bom_shebang.lua"] = "\239\187\191#!/bin/false\nprint('bom and shebang')",
    ["crlf.lua"] = "print('crlf')\r\nerror('line two')\r\n",
    ["syntax.lua"] = "x = = 1",
    ["deep.lua"] = "local function f(n) if n == 0 then error('deep') end f(n - 1) return n end\nf(3)",
    ["main.lua"] = "print(pcall(debug.getlocal, 4, 1)) print(debug.getinfo(1, 'S').what, debug.getinfo(2, 'S').what, debug.getinfo(3))",
    ["value.lua"] = "return 5",
    ["gc.lua"] = "local u = newproxy(true) getmetatable(u).__gc = function() print('collected') end\n",
    ["mod.lua"] = "print('mod loaded', ...) return { name = 'mod' }",
    ["bad_mod.lua"] = "error('bad module')",
    ["init.lua"] = "print('init file', arg[0], arg[1])",
    ["read.lua"] = "print(io.read('*l')) print(io.read('*a'))",
    ["overflow.lua"] = "local function f() return 1 + f() end print((select(2, pcall(f)):gsub(':.*', '')))  f()",
    ["coroutine.lua"] = "local co = coroutine.create(function() error('inside') end) print(coroutine.resume(co)) "
        .. "coroutine.wrap(function() error('out') end)()",
    ["interrupt.lua"] = "local C = require('ffi').C require('ffi').cdef 'int raise(int);'\n"
        .. "print(pcall(function() C.raise(2) for i = 1, 10 do math.abs(i) end end))\nC.raise(2)\nfor i = 1, 10 do print(i) end",
    ["interrupt_uncaught.lua"] = "local C = require('ffi').C require('ffi').cdef 'int raise(int);'\nC.raise(2)\nfor i = 1, 10 do print(i) end",
}

-- What must be luajit's: {words, option = ...}. `numbers` is a count of further words; with `loose` the text on stderr may differ.
local SAME = {
    { "args.lua", "x", "y z", "-v" },
    { "-e", "x = 1", "args.lua", "q" },
    { "-e", "x = 1", "--", "args.lua", "q" },
    { "-lmod", "-jon", "-O2", "args.lua" },
    { "./args.lua" },
    { "-e", "arg[1] = 'changed'", "args.lua", "a", "b" },
    { "-e", "arg = nil", "noext", "a" },
    { "count.lua", numbers = 7 },
    { "count.lua", numbers = 12000 },
    { "noext", "--version", "-x", "" },
    { "-e", "print(1)", "-e", "print(2)" },
    { "-eprint(4)" },
    { "-e", "error('first')", "-e", "print(2)" },
    { "-e", "x = 1", "-e", "print(x, arg[0], arg[-1] ~= nil, ...)" },
    { "-l", "mod", "-e", "print(mod, package.loaded.mod.name)" },
    { "-l", "bad_mod" },
    { "-l", "no_such_module", loose = true },
    { "-", "a", "b", stdin = "print('stdin', arg[0], ...)" },
    { "--", "-", stdin = "print 'not this'" },
    { "--", stdin = "print('stdin', ...)" },
    { stdin = "print('stdin', ...)\nerror 'line two'", status = 1 }, -- luajit: 0
    { stdin = "x = = 1", status = 1 },
    { stdin = "" },
    { "-E", stdin = "print(1)" },
    { "-e", "print(1)", stdin = "print 'not read'" },
    { "read.lua", stdin = "line\nrest\nof it" },
    { "no_such_file.lua" },
    { "." },
    { "syntax.lua" },
    { "shebang.lua" },
    { "bom.lua" },
    { "bom_shebang.lua" },
    { "crlf.lua" },
    { "deep.lua" },
    { "main.lua" },
    { "value.lua" },
    { "overflow.lua", loose = true }, -- whether LuaJIT tells the place of an overflow depends on how much was allocated before
    { "coroutine.lua" },
    { "-e", "error()" },
    { "-e", "error(nil)" },
    { "-e", "error(12)" },
    { "-e", "error('no position', 0)" },
    { "-e", "error(true)", loose = true },
    { "-e", "error({})", loose = true },
    { "-e", "error(setmetatable({}, {__tostring = function() return 'the text' end}))" },
    { "-e", "error(setmetatable({}, {__tostring = function() return {} end}))", loose = true },
    { "-e", "local e = setmetatable({}, {__tostring = function() error 'in __tostring' end}) error(e)", loose = true },
    { "-e", "local t = nil; t.x = 1" },
    { "-e", "for i = 1, 1000 do pcall(error, i) pcall(string.rep) pcall(tonumber, {}, 99) end print 'still here'" },
    { "-e", "os.exit()" },
    { "-e", "os.exit(true)" },
    { "-e", "os.exit(false)" },
    { "-e", "os.exit(7)" },
    { "-e", "os.exit(7, true)" },
    { "-e", "io.write 'no newline' os.exit(0)" },
    { "gc.lua" },
    { "-e", "dofile 'gc.lua' os.exit(0)" },
    { "-e", "dofile 'gc.lua' os.exit(0, true)" },
    { "-e", "dofile 'gc.lua' error 'end'" },
    { "-e", "coroutine.wrap(function() os.exit(4, true) end)()" },
    { "args.lua", "a", env = { LUA_INIT = "print('init', arg[0], arg[1])" } },
    { "args.lua", "a", env = { LUA_INIT = "@init.lua" } },
    { "args.lua", env = { LUA_INIT = "@no_such_file.lua" } },
    { "args.lua", env = { LUA_INIT = "error 'bad init'" } },
    { "args.lua", env = { LUA_INIT = "x = = 1" } },
    { "-E", "-e", "print(package.path:match '^[^;]*')", env = { LUA_INIT = "print 'not this'", LUA_PATH = "/nowhere/?.lua" } },
    { "-e", "print(package.path:match '^[^;]*', package.cpath)", env = { LUA_PATH = "/nowhere/?.lua", LUA_CPATH = "/nowhere/?.so" } },
    { "-e", "print(package.cpath)" },
    { "-joff", "-e", "print(jit.status())" },
    { "-j", "off", "-e", "print((jit.status()))" },
    { "-jv", "-e", "for i = 1, 100 do end" },
    { "-jv=jit_v.txt", "-e", "for i = 1, 100 do end io.write(io.open('jit_v.txt'):read '*a')" },
    { "-jdump=,jit_dump.txt", "-e", "for i = 1, 100 do end print(#io.open('jit_dump.txt'):read '*a' > 0)" },
    { "-jno_such_command" },
    { "-O0", "-e", "print(jit.status())" },
    { "-O", "-e", "print(jit.status())" },
    { "-O1,+cse,-fold,hotloop=3", "-e", "print(jit.status())" },
    { "-Onothing" },
    { "-bl", "value.lua" },
    { "-b", "-l", "-e", "return 5" },
    { "-b", "args.lua", "args.out" },
    { "-b", "no_such_file.lua", "x.out" },
    { "args.out", "from bytecode" },
    { "interrupt.lua" },
    { "interrupt_uncaught.lua" },
    { "-e", "print(1)", redirect = ">&-", loose = true, status = 1 }, -- luajit: 0
}

local function title(case)
    local words = {}
    for i, word in ipairs(case) do words[i] = word:find "[^%w%-%./=,]" and quote(word) or word end
    if case.numbers then words[#words + 1] = "1 ... " .. case.numbers end
    if case.stdin then words[#words + 1] = "< " .. quote(case.stdin) end
    for name, value in pairs(case.env or {}) do table.insert(words, 1, name .. "=" .. quote(value)) end
    return (table.concat(words, " "):gsub("\n", "\\n"):gsub("^$", "no arguments"))
end

-- Output without what may differ: the program's name, addresses.
local function normal(text, program)
    local first, last = text:find(program, 1, true)
    if first then text = text:sub(1, first - 1) .. "gpuwb" .. text:sub(last + 1) end
    return (text:gsub("0x%x+", "0x"))
end

describe("the command", function()
    local folder

    setup(function()
        folder = helper.folder()
        for name, text in pairs(FILES) do helper.write(folder .. "/" .. name, text) end
    end)

    teardown(function()
        helper.remove(folder)
    end)

    local function at(options)
        options = options or {}
        options.cwd = folder
        return options
    end

    describe("does what luajit does:", function()
        for _, case in ipairs(SAME) do
            it(title(case), function()
                if not LUAJIT then return pending "no luajit to compare with" end
                for i = 1, case.numbers or 0 do case[#case + 1] = tostring(i) end
                local options = { cwd = folder, env = case.env, stdin = case.stdin, redirect = case.redirect }
                local own = run(case, options)
                options.program = LUAJIT
                local other = run(case, options)
                assert.equal(normal(other.out, LUAJIT), normal(own.out, helper.gpuwb))
                assert.equal(case.status or other.status, own.status)
                if not case.loose then assert.equal(normal(other.err, LUAJIT), own.err:gsub("0x%x+", "0x")) end
            end)
        end
    end)

    describe("has its own options:", function()
        it("--help and -h print the usage and end", function()
            for _, option in ipairs { "--help", "-h" } do
                local result = run { "-e", "print 'not this'", option, "no_such_file.lua" }
                assert.equal(0, result.status)
                assert.equal("", result.err)
                assert.truthy(result.out:find("usage: gpuwb [options] [script [args]]", 1, true))
                for option_name in ("-e -l -i -v -j -O -b -E -- --device --devices --strict --version --help"):gmatch "%S+" do
                    assert.truthy(result.out:find("  " .. option_name, 1, true), option_name)
                end
                assert.falsy(result.out:find "not this")
            end
        end)

        it("a wrong one is named, with the usage on stderr", function()
            local wrong = {
                ["there is no option '-x'"] = { "-x" }, ["there is no option '-iv'"] = { "-iv" },
                ["there is no option '--device-list'"] = { "--device-list" }, ["there is no option '--strictly'"] = { "--strictly", "args.lua" },
                ["a value is missing after '-e'"] = { "-e" }, ["a value is missing after '-l'"] = { "-v", "-l" },
                ["a value is missing after '-j'"] = { "-j" }, ["a value is missing after '-b'"] = { "-b" },
                ["a value is missing after '--device'"] = { "--device" }, ["a value is missing after '--device='"] = { "--device=", "args.lua" },
            }
            for message, words in pairs(wrong) do
                local result = run(words, at { env = { LUA_INIT = "print 'nothing runs'" } })
                assert.equal("gpuwb: " .. message .. "\nusage: gpuwb [options] [script [args]]\ngpuwb --help lists the options\n", result.err)
                assert.equal("", result.out)
                assert.equal(1, result.status)
            end
        end)

        it("-v prints one line each of gpuwb, LuaJIT and CUDA, with no driver too, and goes on", function()
            local result = run({ "-v", "-e", "print 'and on'" }, { env = NO_CUDA })
            assert.equal("", result.err)
            assert.equal(0, result.status)
            local lines = {}
            for line in result.out:gmatch "[^\n]+" do lines[#lines + 1] = line end
            assert.equal(4, #lines)
            assert.truthy(lines[1]:find "^gpuwb %d+%.%d+")
            assert.equal(jit.version, lines[2])
            assert.truthy(lines[3]:find "^no CUDA: .")
            assert.equal("and on", lines[4])
        end)

        it("-v alone and --version end without a prompt or a script from stdin", function()
            for _, option in ipairs { "-v", "--version" } do
                local result = run({ option }, { stdin = "print 'not read'", env = NO_CUDA })
                assert.equal(0, result.status)
                assert.equal(3, select(2, result.out:gsub("\n", "")))
            end
        end)

        it("--devices lists the host, and says why there is no other", function()
            local result = run({ "--devices" }, { env = NO_CUDA })
            assert.equal("", result.err)
            assert.truthy(result.out:find "^host +%S.*, %d+%.%d GiB\nno CUDA: %S")
            assert.equal(0, result.status)
        end)

        it("--device names the device for the whole process", function()
            for _, words in ipairs { { "--device", "host" }, { "--device=host" } } do
                words[#words + 1], words[#words + 2] = "-e", "print(os.getenv 'GPUWB_DEVICE', gpu.device(), arg[0], arg[-1] ~= nil)"
                assert.equal("host\thost\tnil\ttrue\n", run(words, { env = { GPUWB_DEVICE = "cuda:7" } }).out)
            end
        end)

        it("a device that is not there is an error at its first use, not before", function()
            for _, words in ipairs { { "--device", "cuda" }, { "--device", "abacus" } } do
                words[#words + 1], words[#words + 2], words[#words + 3] = "-e", "print 'no device needed' io.stdout:flush()", "-e"
                words[#words + 1] = "gpu.mat(1, 1, 'u8')"
                local result = run(words, { env = NO_CUDA })
                assert.equal("no device needed\n", result.out)
                assert.truthy(result.err:find("^gpuwb: .*" .. words[2]), result.err)
                assert.equal(1, result.status)
            end
        end)

        it("--strict makes undeclared globals an error where they are used", function()
            local function strict(code, ...)
                return run({ "--strict", "-e", code, ... }, at())
            end
            local read = strict "x = 1\nlocal function f()\nreturn x, y end\nf()"
            assert.truthy(read.err:find("^gpuwb: %(command line%):3: global 'y' is not declared"), read.err)
            assert.equal(1, read.status)
            local assigned = strict "local function f()\nz = 1 end\nf()"
            assert.truthy(assigned.err:find("^gpuwb: %(command line%):2: global 'z' is assigned but not declared"), assigned.err)
            local fine = strict("later = nil function f() later = 1 end f() print(later, rawget(_G, 'absent'), type(gpu), ...)", "noext")
            assert.equal("1\tnil\ttable\nno extension\n", fine.out)
            assert.equal("", fine.err)
            assert.equal("nil\n", run({ "-e", "print(undeclared)" }).out)
        end)
    end)

    describe("and the workbench:", function()
        it("`gpu` is what require gives, and loaded when it is first used", function()
            local before = "print(rawget(_G, 'gpu'), package.loaded.gpuwb) "
            local result = run { "-e", before .. "print(gpu == require 'gpuwb', rawget(_G, 'gpu') == gpu, nothing)" }
            assert.equal("nil\tnil\ntrue\ttrue\tnil\n", result.out)
        end)

        it("a script without it runs where it cannot be loaded; with it the error says why", function()
            local broken = { env = { GPUWB_ROOT = "/nowhere" } }
            assert.same({ out = "1\n", err = "", status = 0 }, run({ "-e", "print(1)" }, broken))
            local result = run({ "-e", "print(gpu.version)" }, broken)
            assert.equal("", result.out)
            assert.equal(1, result.status)
            assert.truthy(result.err:find("^gpuwb: .*module 'gpuwb' "), result.err)
        end)

        it("installed Lua files come last on the path", function()
            local path = run({ "-e", "io.write(package.path)" }).out
            assert.equal(helper.gpuwb:match "^(.*)/" .. "/../share/gpuwb/lua/?.lua", path:match "[^;]*$")
            if not LUAJIT then return end
            assert.equal(run({ "-e", "io.write(package.path)" }, { program = LUAJIT }).out, path:match "^(.*);")
        end)

        it("FFI finds the program's functions, and C modules find Lua's (L15)", function()
            local code = "ffi = require 'ffi' ffi.cdef 'const char *gwb_version(void);' print(ffi.string(ffi.C.gwb_version()) == gpu.version)"
            assert.equal("true\n", run({ "-e", code }).out)
            if not pcall(require, "lfs") then return pending "no lfs to load" end
            assert.equal("directory\n", run({ "-e", "print(require('lfs').attributes('/', 'mode'))" }).out)
        end)

        it("its errors print their text", function()
            local result = run { "-e", "gpu.mat(-1, 2, 'u8')" }
            assert.equal(1, result.status)
            assert.truthy(result.err:find "^gpuwb: [^\n]*gpu%.mat[^\n]*%-1")
            assert.equal("(error object is a table value)", run({ "-e", "error({})" }).err:match "gpuwb: ([^\n]*)")
        end)
    end)

    it("begins the traceback of gpuwb's errors where the script called", function()
        local code = "local function make(n)\n    local m = gpu.mat(n, 1, 'u8')\n    return m\nend\nlocal m = make(-1)\n"
        local script = helper.write(folder .. "/calls.lua", code)
        local place = "stack traceback:\n\t" .. script .. ":2: in function 'make'\n\t" .. script .. ":5: in main chunk\n"
        local result = run { script }
        assert.equal(1, result.status)
        assert.truthy(result.err:find(script .. ":2: gpu.mat: width must be", 1, true), result.err)
        assert.truthy(result.err:find(place, 1, true), result.err)
    end)

    describe("tells when output is lost:", function()
        it("on a full disk, at every way out", function()
            if not io.open("/dev/full", "w") then return pending "no /dev/full" end
            for _, code in ipairs { "", "os.exit(0)", "os.exit(0, true)", "os.exit(7)", "io.stdout:flush()", "error()" } do
                local result = run({ "-e", "print 'lost' " .. code }, { redirect = ">/dev/full" })
                assert.equal(1, result.status)
                assert.truthy(result.err:find "^gpuwb: cannot write standard output: ", result.err)
            end
            assert.truthy(run({ "-e", "print 'lost'" }, { redirect = ">/dev/full" }).err:find "No space left on device")
            assert.equal(1, run({ "--help" }, { redirect = ">/dev/full" }).status)
        end)

        it("and still writes the other open files", function()
            local path = folder .. "/kept.txt"
            run({ "-e", "f = io.open(arg[1], 'w') f:write 'kept' print 'lost' os.exit(0)", "--", "noext", path }, at { redirect = ">/dev/full" })
            run({ "-e", "f = io.open('kept.txt', 'w') f:write 'kept' print 'lost' os.exit(0)" }, at { redirect = ">/dev/full" })
            assert.equal("kept", helper.read(path))
        end)

        it("but not when nothing was written, nor for a reader that is gone", function()
            assert.same({ out = "", err = "", status = 0 }, run({ "-e", "x = 1" }, { redirect = ">/dev/full" }))
            local result = shell(("{ %s -e 'while true do print(1) end'; echo $? >&2; } | head -n 1"):format(quote(helper.gpuwb)))
            assert.equal("1\n", result.out)
            assert.equal("141\n", result.err)
        end)
    end)

    it("knows gpu's names in -e, and there alone", function()
        local picture = folder .. "/a.png"
        require("gpuwb").mat(8, 6, "u8x3", { fill = 9 }):save(picture)
        local code = ("load(%q):resize(4, 3):save(%q)"):format(picture, folder .. "/b.jpg")
        assert.same({ out = "", err = "", status = 0 }, run { "-e", code })
        assert.equal(4, require("gpuwb").load(folder .. "/b.jpg").width)
        assert.equal("true\t1\ttrue\n", run({ "-e", "local mat = 1 print(pipe == gpu.pipe, mat, diff == gpu.diff)" }).out)
        assert.equal("nil\ttrue\n", run({ "-e", "x = mat", "-e", "x = nil", "-" }, { stdin = "print(mat, load == loadstring or load('return 1')() == 1)" }).out)
        assert.equal("3\n", run({ "-e", "print(load('return 3')())" }).out)
        assert.equal("4\n", run({ "-e", "local n = 3 print(load(function() n = n - 1 return n == 2 and 'return 4' or nil end)())" }).out)
        assert.truthy(run({ "-e", "load('missing.png')" }).err:find("missing.png", 1, true))
        assert.truthy(run({ "--strict", "-e", "print(mat ~= nil) print(no_such)" }).out == "true\n")
    end)

    it("a second Ctrl-C ends what a first one did not", function()
        local result = run { "-e", "io.popen('kill -INT $PPID; sleep 0.2; kill -INT $PPID'):close() print 'not reached'" }
        assert.equal("", result.out)
        assert.equal(130, result.status)
    end)

    describe("runs busted (B2):", function()
        local SPECS = {
            good = "it('passes', function() assert.equal(2, 1 + 1) end)",
            bad = "it('fails', function() assert.equal(3, 1 + 1) end)",
            own = "it('is gpuwb', function() assert.truthy(gpu.version) end)",
        }
        local STATUS = { good = 0, bad = 1, missing = 1, own = 0 }

        setup(function()
            for name, text in pairs(SPECS) do helper.write(folder .. "/" .. name .. "_spec.lua", text) end
            os.execute(("ln -sf %s %s/gpuwb"):format(quote(helper.gpuwb), quote(folder)))
        end)

        local function path()
            return { PATH = folder .. ":" .. os.getenv "PATH" }
        end

        for _, name in ipairs { "good", "bad", "missing", "own" } do
            it("as a script, " .. name, function()
                if not BUSTED then return pending "no busted" end
                local result = run({ BUSTED, "--output=plainTerminal", name .. "_spec.lua" }, at())
                assert.equal("", result.err)
                assert.equal(STATUS[name], result.status)
            end)

            it("as busted's --lua, " .. name, function()
                if not (BUSTED and helper.find "lua") then return pending "no busted or no lua to start it" end
                local result = run({ "--lua=gpuwb", "--output=plainTerminal", name .. "_spec.lua" }, at { program = BUSTED, env = path() })
                assert.equal("", result.err)
                assert.equal(STATUS[name], result.status)
            end)
        end

        it("as .busted says (B3)", function()
            if not (BUSTED and helper.find "lua") then return pending "no busted or no lua to start it" end
            helper.write(folder .. "/.busted", "return { default = { lua = 'gpuwb', output = 'plainTerminal' } }")
            local result = run({ "own_spec.lua" }, at { program = BUSTED, env = path() })
            os.remove(folder .. "/.busted")
            assert.equal(0, result.status)
        end)

        it("over several files that require gpuwb, in any order (L9)", function()
            if not BUSTED then return pending "no busted" end
            helper.write(folder .. "/both_spec.lua", "it('both', function() assert.equal(1, require('gpuwb').mat(1, 1, 'u8', {fill = 1}):at(0, 0)) end)")
            local result = run({ BUSTED, "--output=plainTerminal", "--shuffle", "own_spec.lua", "both_spec.lua" }, at())
            assert.truthy(result.out:find "2 successes / 0 failures / 0 errors", result.out)
        end)

        it("with words that hold blanks", function()
            if not BUSTED then return pending "no busted" end
            local result = run({ BUSTED, "--output=plainTerminal", "--filter=is gpuwb", "own_spec.lua", "bad_spec.lua" }, at())
            assert.equal(0, result.status)
            assert.truthy(result.out:find "1 success")
        end)
    end)
end)
