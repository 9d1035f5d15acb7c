-- SPDX-License-Identifier: MIT
-- The prompt: from a pipe, and typed at a terminal.

local helper = require "tests.command_helper"

-- Gives the prompt some lines; what it printed.
local function feed(text, words)
    return helper.run(words or { "-i" }, { stdin = text })
end

local function answer(text)
    local result = feed(text)
    assert.equal("", result.err)
    assert.equal(0, result.status)
    return result.out
end

describe("the prompt, from a pipe,", function()
    it("prints values and no prompts (B5)", function()
        assert.equal("2\n2\n2\n", answer "1+1\n=1+1\n= 1+1")
        assert.equal('1\t"a"\tnil\n', answer "1, 'a', nil")
        assert.equal("nil\n", answer "undefined")
        assert.equal("", answer "")
        assert.equal("", answer "\n  \n-- a comment\n(function() end)()\n")
        assert.equal("3\t4\n", answer "return 3, 4")
    end)

    it("runs statements", function()
        assert.equal("5\n6\n", answer "x = 5\nx\nx = x + 1 print(x)")
        assert.equal("nil\n", answer "local y = 1\ny")
    end)

    it("evaluates once", function()
        assert.equal("1\n1\n2\n", answer "n = 0 function f() n = n + 1 return n end\nf()\nn\n=f()")
    end)

    it("is quiet after a semicolon, and keeps the last value in _", function()
        assert.equal("7\n14\n", answer "7;\n_\nx = 1;\n_ * 2")
        assert.equal("1\nnil\nnil\n", answer "1, 2;\n_\nnil\n_")
        assert.equal('"kept"\n"kept"\n', answer "'kept'\nprint()\n_" :gsub("\n\n", "\n"))
    end)

    it("joins lines to a chunk (B6)", function()
        assert.equal("1\n2\n", answer "for i = 1, 2 do\nprint(i)\nend")
        assert.equal("3\n", answer "x =\n\n3\nx")
        assert.equal("6\n", answer "1 +\n2 +\n3")
        assert.equal('"a\\nb"\n', answer "[[a\nb]]")
        assert.equal("1\n", answer "--[[ a\ncomment ]] 1")
        assert.equal('"a\\nb"\n', answer "'a\\\nb'")
        assert.equal("{1, 2}\n", answer "{ 1,\n2 }")
    end)

    it("tells errors on stderr and goes on", function()
        local result = feed "error 'one'\nlocal function f() error 'two' end f()\n2\nx y\n1 + * 2\n'open\nerror()\nerror({})\n3\nfor"
        assert.equal("2\n3\n", result.out)
        assert.equal(0, result.status)
        local expected = {
            "stdin:1: one\nstack traceback:\n\t[C]: in function 'error'\n\tstdin:1: in main chunk\n",
            "stdin:1: two\nstack traceback:\n\t[C]: in function 'error'\n\tstdin:1: in function 'f'\n\tstdin:1: in main chunk\n",
            "stdin:1: '=' expected near 'y'\n",
            "stdin:1: unexpected symbol near '*'\n",
            "stdin:1: unfinished string near '<eof>'\n(error object is a table value)\n",
            "stdin:1: '<name>' expected near '<eof>'\n",
        }
        local at = 1
        for _, text in ipairs(expected) do
            local first, last = result.err:find(text, at, true)
            assert.truthy(first, text .. "\nis not in\n" .. result.err)
            at = last + 1
        end
    end)

    it("shows tables nested, cut and with quoted strings", function()
        assert.equal("{1, 2, {3}, a = {b = \"c\"}, [\"not a name\"] = true}\n", answer "{1, 2, {3}, ['not a name'] = true, a = {b = 'c'}}")
        assert.equal("{{{{{…}}}}}\n", answer "{{{{{{}}}}}}" :gsub("{}", "…"))
        assert.equal("{[3] = 1, [4.5] = 2, [true] = 3}\n", answer "{[3] = 1, [4.5] = 2, [true] = 3}")
        assert.equal("{itself = <cycle>}\n", answer "t = {} t.itself = t\nt")
        assert.equal('"a\\"\\\\\\n\\000\\255é"\n', answer "'a\"\\\\\\n\\0\\255é'")
        local big = answer "t = {} for i = 1, 1e6 do t[i] = i end\nt"
        assert.truthy(#big < 1000 and big:find "{\n    1, 2, 3" and big:find "…\n}\n$")
        local wide = answer "t = {} for i = 1, 1e5 do t['key' .. i] = {i, {i}} end\nt"
        assert.truthy(#wide < 10000 and wide:find "…\n}\n$")
        assert.truthy(#answer "('x'):rep(1e6)" < 1100)
        local lines = answer "{first = ('x'):rep(60), second = {1, 2}, third = ('y'):rep(60)}"
        assert.equal(('{\n    first = "%s",\n    second = {1, 2},\n    third = "%s"\n}\n'):format(("x"):rep(60), ("y"):rep(60)), lines)
    end)

    it("shows the rest by tostring, and never fails at that", function()
        assert.equal("1ULL\ttrue\n", answer "1ULL, true")
        assert.truthy(answer "require('ffi').new('int[3]')":find "^cdata<int %[3%]>: 0x")
        assert.equal("the text\n", answer "setmetatable({}, {__tostring = function() return 'the text' end})")
        assert.equal("<table whose __tostring fails: stdin:1: bad>\n", answer "setmetatable({}, {__tostring = function() error 'bad' end})")
        assert.equal("<table whose __tostring gives a number>\n", answer "setmetatable({}, {__tostring = function() return 1 end})")
        assert.equal("{}\n", answer "setmetatable({}, {__index = error, __len = error, __pairs = error, __metatable = 1})")
        assert.equal("{x = 1}\n", answer "tostring = nil; type = nil; pairs = nil\n{x = 1}")
    end)

    it("leaves by os.exit with its status, and what runs keeps its output (B8)", function()
        local result = feed "io.write 'a';\nos.exit(3)\nprint 'not reached'"
        assert.same({ out = "a", err = "", status = 3 }, result)
    end)

    it("comes after -e and scripts, but not after an error", function()
        assert.equal("1\n2\n", feed("x + 1", { "-i", "-e", "x = 1 print(x)" }).out)
        local failed = feed("print 'not reached'", { "-i", "-e", "error()" })
        assert.same({ out = "", err = "", status = 1 }, failed)
    end)

    it("tells of names after ?, and shows sources after ??", function()
        local text = answer "?gpu.shard\n1"
        assert.truthy(text:find "^gpu%.shard%(list" and text:find "\n1\n$")
        assert.truthy(answer " ? m:roi ":find "^m:roi%(x, y")
        assert.truthy(answer "?":find "gpu%. .*explain_copy")
        assert.truthy(answer "??gpu.shard":find "^%-%- lua/gpuwb/batch%.lua:%d+\n%-%-%- gpu%.shard.*\nend\n$")
        assert.truthy(answer "??mat:roi":find "function methods:roi", 1, true)
        local result = feed "?nothing_such\n??nothing_such\n??print\n??\n3"
        assert.equal("3\n", result.out)
        assert.truthy(result.err:find "^there is no text for nothing_such[^\n]*\nnothing_such is no function[^\n]*\na function written in C")
    end)

    it("knows gpu's names, and hides none of Lua's", function()
        assert.equal("true\ttrue\ttrue\n", answer "mat == gpu.mat, pipe == gpu.pipe, version == gpu.version")
        assert.equal("5\tnil\n", answer "mat = 5\nmat, no_such_name")
        assert.equal("3\n", answer "load 'return 1 + 2' ()")
        assert.equal("nil\t[string \"x y\"]:1: '=' expected near 'y'\n", (answer "load 'x y'" :gsub('\\"', '"'):gsub('\t"', "\t"):gsub('"\n', "\n")))
        local picture = os.tmpname() .. ".png"
        require("gpuwb").mat(3, 2, "u8x3", { fill = 9 }):save(picture)
        assert.equal("image 3x2 rgb24 full srgb\n", (answer(("load %q"):format(picture)):gsub("24.*", "24 full srgb\n")))
        assert.truthy(feed "load 'missing.png'".err:find("missing.png", 1, true))
        os.remove(picture)
    end)

    it("runs the user's init.lua", function()
        local folder = helper.folder()
        os.execute("mkdir " .. folder .. "/gpuwb")
        helper.write(folder .. "/gpuwb/init.lua", "greeting = 'from init'")
        assert.equal('"from init"\n', helper.run({ "-i" }, { stdin = "greeting", env = { XDG_CONFIG_HOME = folder } }).out)
        helper.write(folder .. "/gpuwb/init.lua", "error 'bad init'")
        local result = helper.run({ "-i" }, { stdin = "1", env = { XDG_CONFIG_HOME = folder } })
        assert.equal("1\n", result.out)
        assert.truthy(result.err:find "bad init")
        helper.remove(folder)
    end)

    it("works under --strict", function()
        local result = feed("x = 1\nx\n_ + 1\ny\n", { "--strict", "-i" })
        assert.equal("1\n2\n", result.out)
        assert.truthy(result.err:find "^stdin:1: global 'y' is not declared")
    end)
end)

describe("the prompt, on a terminal,", function()
    local PROMPT, MORE = "\27[?2004h> ", "\27[?2004h>> " -- what switches bracketed paste on comes before
    local folder, env, terminal

    before_each(function()
        folder = helper.folder()
        env = { TERM = "xterm", XDG_STATE_HOME = folder .. "/state", HOME = folder, LC_ALL = "C.UTF-8", NO_COLOR = "1", XDG_CONFIG_HOME = false }
    end)

    after_each(function()
        if terminal then pcall(terminal.wait, terminal, 0) end
        terminal = nil
        os.execute("chmod -R u+w " .. helper.quote(folder))
        helper.remove(folder)
    end)

    local function start(words)
        terminal = helper.terminal(words or {}, env)
        terminal:expect(PROMPT)
        return terminal
    end

    local function history()
        return helper.read(folder .. "/state/gpuwb/history")
    end

    -- Types a line and waits until it stands there: Ctrl-C and its like throw away what was not read yet.
    local function type_in(text)
        terminal:send(text)
        terminal:expect(text)
    end

    -- What the terminal shows between the typed line and the next prompt.
    local function enter(text)
        terminal:send(text .. "\r")
        terminal:expect "\27[?2004l"
        return (terminal:expect(PROMPT):gsub("\r\n", "\n"):gsub("^\r", ""))
    end

    it("greets, evaluates, and leaves on Ctrl-D", function()
        start()
        assert.truthy(terminal.output:find "^gpuwb %d+%.%d+")
        assert.equal("2\n", enter "1+1")
        assert.equal('"äß日本"\n', enter "'äß日本'")
        terminal:send "\4"
        assert.equal(0, terminal:wait())
    end)

    it("comes after a script with -i, and not without", function()
        local script = helper.write(folder .. "/script.lua", "x = 41")
        start { "-i", script }
        assert.equal("42\n", enter "x + 1")
        terminal:send "\4"
        assert.equal(0, terminal:wait())
        terminal = helper.terminal({ script }, env)
        assert.equal(0, terminal:wait())
        assert.equal("", terminal.output)
    end)

    it("asks for more with another prompt", function()
        start()
        terminal:send "for i = 1, 2 do\r"
        terminal:expect(MORE)
        terminal:send "print(i)\r"
        terminal:expect(MORE)
        assert.equal("1\n2\n", enter "end")
        assert.equal("for i = 1, 2 do\\nprint(i)\\nend\n", history())
    end)

    it("takes its prompts from _PROMPT and _PROMPT2", function()
        start()
        terminal:send "_PROMPT, _PROMPT2 = 'one: ', 'two: '\r"
        terminal:expect "\27[?2004hone: "
        terminal:send "1 +\r"
        terminal:expect "\27[?2004htwo: "
        terminal:send "1\r"
        terminal:expect "2\r\n"
    end)

    it("takes a pasted block as one chunk (B4)", function()
        start()
        terminal:send "\27[200~local sum = 0\rfor i = 1, 3 do\n\tsum = sum + i\nend\rprint('sum', sum) return sum\r\27[201~"
        terminal:expect "return sum"
        assert.falsy(terminal:receive(0.1), "ran before Enter")
        assert.equal("sum\t6\n6\n", enter "")
        assert.equal("local sum = 0\\nfor i = 1, 3 do\\n\tsum = sum + i\\nend\\nprint('sum', sum) return sum\n", history())
    end)

    it("Ctrl-C cancels the line, also of a chunk half typed", function()
        start()
        type_in "print('not this')"
        terminal:send "\3"
        terminal:expect(PROMPT)
        terminal:send "x = {\r"
        terminal:expect(MORE)
        type_in "1,"
        terminal:send "\3"
        terminal:expect(PROMPT)
        assert.equal("nil\n", enter "x")
        assert.falsy(terminal.output:find "\nnot this")
    end)

    it("keeps the line over Ctrl-Z and a changed window", function()
        start()
        type_in "1 +"
        terminal:send "\26" -- no shell waits for this session, so it is told to stop and does not
        terminal:expect "\27[?2004l\r\n\27[?2004h"
        terminal:expect "1 +"
        terminal:resize(30, 40)
        assert.equal("42\n", enter " 41")
    end)

    it("Ctrl-C stops a chunk that waits for the device, whose work goes on", function()
        local waits = {
            "gpu.synchronize()", "gpu.default_stream():synchronize()", "gpu.default_stream():record():synchronize()", "m:download()", "m:at(0, 0)", "m:wait()",
            "gpu.reduce(m, 'sum')", "m:totable()", "m:save('" .. folder .. "/saved.png')",
        }
        start()
        -- a driver may make what is new wait for what runs: all is made, and each call made once, before anything runs long
        enter "list = {}"
        enter "for i = 1, 9 do list[i] = {gpu.mat(4, 4, 'u8', {fill = 1}), gpu.stream()} m = list[i][1] m:fill(1, {stream = list[i][2]:sleep(1)}) end"
        for _, wait in ipairs(waits) do
            enter(wait .. " print 'once'")
        end
        local before = os.time()
        for i, wait in ipairs(waits) do
            enter(("m, s = list[%d][1], list[%d][2]"):format(i, i))
            terminal:send("s:sleep(9000) m:fill(2, {stream = s}) gpu.default_stream():wait(s) print 'waits' " .. wait .. "\r")
            terminal:expect "waits\r\n"
            terminal:receive(0.2)
            terminal:send "\3"
            local text = terminal:expect(PROMPT)
            assert.truthy(text:find "interrupted", text)
        end
        assert.truthy(os.time() - before < 8, "it waited for the device")
        assert.equal("2\n", enter "1 + 1")
        terminal:send "collectgarbage() collectgarbage() os.exit(0)\r"      -- an event is no leak
        assert.equal(0, terminal:wait(15))
    end)

    it("is green where the terminal shows colours", function()
        env.NO_COLOR = false
        terminal = helper.terminal({}, env)
        terminal:expect "\27[?2004h\27[32m>\27[0m "
        terminal:send "x = {\r"
        terminal:expect "\27[?2004h\27[32m>>\27[0m "
    end)

    -- What Tab makes of a line; then the line is thrown away.
    local function tab(text)
        terminal:send(text .. "\t")
        terminal:receive(0.3)
        while terminal:receive(0.1) do end -- luacheck: ignore 542
        local shown = terminal.output:sub(terminal.seen)
        terminal:send "\3"
        terminal:expect(PROMPT)
        return (shown:gsub("\27%[[%d;]*%a", ""):gsub("\r", ""))
    end

    it("Tab completes names, fields, methods, modules, files, formats and option keys", function()
        helper.write(folder .. "/picture one.png", "")
        helper.write(folder .. "/picture two.png", "")
        os.execute("mkdir " .. folder .. "/some_folder")
        start()
        enter "m = gpu.mat(4, 4, 'u8', {fill = 1}) img = gpu.image('gray', 4, 4) t = {inner = {value_of_it = 1}} s = 'text'"
        enter "trap = setmetatable({}, {__index = function() error 'called' end})"
        for text, wanted in pairs {
            ["prin"] = "print", ["t.inn"] = "t.inner", ["t.inner.val"] = "t.inner.value_of_it", ["coroutine.wr"] = "coroutine.wrap",
            ["gpu.explain"] = "gpu.explain_copy", ["m:record"] = "m:record_stream", ["m.elem"] = "m.elem_size", ["img:letter"] = "img:letterbox",
            ["img.planes[1]:chan"] = "img.planes[1]:channels_split", ["gpu.load('x'):letter"] = "gpu.load('x'):letterbox",
            ["require 'gpuwb.comp"] = "require 'gpuwb.complete",
            ["gpu.load '" .. folder .. "/so"] = "some_folder/", ["gpu.load '" .. folder .. "/pic"] = "picture ",
            ["gpu.image('yuv444p12"] = "yuv444p12le", ["gpu.mat(4, 4, 'u8', {pac"] = "{packed = ", ["gpu.wrap{own"] = "{owner = ",
            ["m:clone{stream = s, pa"] = "packed = ", ["img:resize(4, 4, {anti"] = "antialias = ", ["img:resize(4, 4, 'lan"] = "lanczos3",
            ["gpu.image('gray', 4, 4, {matrix = 'bt2020"] = "bt2020", ["?explain_"] = "?explain_copy", ["s:gma"] = "s:gmatch", ["whi"] = "while",
            ["gpu.mat(4, 4, 'f64x"] = "f64x2", ["gpu.checks 'w"] = "warn", ["gpu.device('ho"] = "host", ["img:flip '"] = "both ", ["gpu.reduce(m, 'su"] = "sum",
            ["gpu.show(img, {how = 'ki"] = "kitty", ["m:split(2, 'r"] = "rows", ["img:resize{filter = 'lan"] = "lanczos3",
            ["gpu.mat(4, 4, 'u8', {device = 'ho"] = "host",
        } do
            assert.truthy(tab(text):find(wanted, 1, true), text .. " became " .. tab(text))
        end
        local list = tab "m:re"
        assert.truthy(list:find "record_stream%s+remap%s+reshape%s+resize", list)
        assert.falsy(tab "trap.x":find "called")
        assert.equal("2\n", enter "1+1")
    end)

    it("Ctrl-C stops a chunk that runs, compiled or not", function()
        start()
        enter "function empty() while true do end end"
        enter "function add(x) return x + 1 end function calls() local s = 0 while true do s = s % 9 == 0 and add(s) or s + 1 end end"
        enter "bytes = require('ffi').new('uint8_t[?]', 100) function fills() local i = 0 while true do bytes[i % 100] = i i = i + 1 end end"
        enter "function within(f) return coroutine.wrap(f)() end"
        local loops = {
            "while true do end", "while true do pcall(error) end", "for i = 1, 1e15 do local t = {i} end", "empty()", "calls()", "fills()", "within(calls)",
        }
        local function interrupt(code)
            terminal:send("print 'runs' " .. code .. "\r")
            terminal:expect "runs\r\n"
            terminal:receive(0.05)
            terminal:send "\3"
            terminal:expect "stdin:1: interrupted!"
            terminal:expect(PROMPT)
        end
        for _, code in ipairs(loops) do
            interrupt(code)
            interrupt(code)
        end
        assert.equal("2\n", enter "1 + 1")
        enter "profile = require 'jit.profile' profile.start('l', print) profile.stop()"     -- the profiler is Ctrl-C's way into compiled code
        interrupt "calls()"
        terminal:send "print 'runs' while true do pcall(calls) end\r"    -- pcall takes the first for an error like any other
        terminal:expect "runs\r\n"
        for _ = 1, 2 do
            terminal:receive(0.2)
            terminal:send "\3"
            terminal:expect "^C"
        end
        terminal:expect "stdin:1: interrupted!"
    end)

    it("ends a C function that takes no notice of Ctrl-C at a later one, with its history", function()
        start()
        enter "unbuffered = io.stdout:setvbuf 'no'"
        terminal:send "print 'runs'; ('a'):rep(60):find(('a?'):rep(60) .. ('a'):rep(60))\r"
        terminal:expect "runs\r\n"
        terminal:receive(0.5)       -- until it is inside
        terminal:send "\3"
        terminal:expect "^C"
        terminal:send "\3"      -- in haste: asks no more than the first
        terminal:expect "^C"
        os.execute "sleep 2.1"
        terminal:receive(0)
        assert.falsy(terminal.output:find("ended", 1, true))
        terminal:send "\3"
        terminal:expect "gpuwb: the call does not stop: ended"
        assert.equal(128 + 2, terminal:wait())
        assert.equal("unbuffered", history():match "^%w+")
        assert.truthy(history():find "find%(.*\n$")
    end)

    it("recalls what was typed, in this session and the next", function()
        start()
        enter "first = 'one\\\\two'"
        enter "second = 2"
        assert.equal('"one\\\\two"\n', enter "first")
        enter "\27[A\27[A"
        terminal:send "\4"
        terminal:wait()
        assert.equal("first = 'one\\\\\\\\two'\nsecond = 2\nfirst\nsecond = 2\n", history())
        start()
        terminal:send "\27[A\27[A\27[A\27[A"
        terminal:expect "first = 'one\\\\two'"
        terminal:send "\r"
        terminal:expect(PROMPT)
        assert.equal('"one\\\\two"\n', enter "first")
    end)

    it("keeps the history to the user, and to a thousand lines", function()
        os.execute(("mkdir -p %s/state/gpuwb"):format(helper.quote(folder)))
        local lines = {}
        for i = 1, 2500 do lines[i] = "x = " .. i .. "\n" end
        helper.write(folder .. "/state/gpuwb/history", table.concat(lines))
        start()
        assert.equal(table.concat(lines, "", 1501), history())
        enter "y = 1"
        assert.equal("-rw-------\n", helper.shell("ls -l " .. folder .. "/state/gpuwb/history | cut -c 1-10").out)
        assert.truthy(history():find "x = 2500\ny = 1\n$")
    end)

    it("does without a history that cannot be kept", function()
        env.XDG_STATE_HOME = "/dev/null/state"
        start()
        assert.equal("2\n", enter "1+1")
        terminal:send "\27[A\r"
        terminal:expect "2\r\n"
        terminal:expect(PROMPT)
        terminal:send "\4"
        assert.equal(0, terminal:wait())
    end)

    it("keeps it below HOME where XDG_STATE_HOME says nothing", function()
        env.XDG_STATE_HOME = false
        start()
        enter "1+1"
        assert.equal("1+1\n", helper.read(folder .. "/.local/state/gpuwb/history"))
    end)

    it("leaves by os.exit with its status and a terminal as it was", function()
        terminal = helper.terminal({}, env)
        terminal:expect(PROMPT)
        terminal:send "os.exit(5)\r"
        assert.equal(5, terminal:wait())
        assert.equal("\27[?2004l", terminal.output:match "^.*(\27%[%?2004%l)")
    end)

    it("reads plain lines on a terminal that can do nothing", function()
        env.TERM = "dumb"
        terminal = helper.terminal({}, env)
        terminal:expect "> "
        terminal:send "1+1\r"
        terminal:expect "\n2\r\n> "
        terminal:send "x = {\r"
        terminal:expect ">> "
        terminal:send "\3"
        terminal:expect "\n> "
        terminal:send "\4"
        assert.equal(0, terminal:wait())
        assert.falsy(terminal.output:find "\27")
    end)
end)
