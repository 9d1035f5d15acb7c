-- SPDX-License-Identifier: MIT
-- gpuwb --watch and gpuwb --doctor.
local helper = require "tests.command_helper"

describe("gpuwb --watch", function()
    local folder, terminal, env

    before_each(function()
        folder = helper.folder()
        env = {TERM = "xterm", DISPLAY = false, WAYLAND_DISPLAY = false, GPUWB_SHOW = "none", LUA_PATH = folder .. "/?.lua;;"}
    end)
    after_each(function()
        if terminal then pcall(terminal.wait, terminal, 0) end
        terminal = nil
        helper.remove(folder)
    end)

    local function write(name, text)
        return helper.write(folder .. "/" .. name, text)
    end

    local function start(...)
        terminal = helper.terminal({"--watch", ...}, env)
    end

    it("runs again when the script changes, saved in place or renamed over", function()
        local script = write("script.lua", "print('one', ...) count = (count or 0) + 1 print('count ' .. count)")
        start(script, "argument")
        terminal:expect "\27[H\27[2J"
        terminal:expect "one\targument\r\ncount 1\r\n"
        terminal:expect "watch: done"
        write("script.lua", "print('two', ...) count = (count or 0) + 1 print('count ' .. count)")
        terminal:expect "two\targument\r\ncount 1\r\n"
        terminal:expect "watch: done"
        write("other.lua", "print 'three'")
        os.rename(folder .. "/other.lua", script)
        terminal:expect "three\r\n"
        terminal:expect "watch: done"
        terminal:send "\3"
        assert.equal(0, terminal:wait())
    end)

    it("runs again when a file changes that the script loaded", function()
        local png = folder .. "/picture.png"
        require("gpuwb").mat(3, 2, "u8x3", {fill = 1}):save(png)
        write("part.lua", "return 'first'")
        write("chunk.lua", "chunk_says = 'a'")
        write("data.txt", "text")
        local script = write("script.lua", ([[
            print('module ' .. require 'part') dofile '%s/chunk.lua' print('chunk ' .. chunk_says)
            for line in io.lines '%s/data.txt' do print('data ' .. line) end
            print('picture ' .. gpu.load('%s').width)
            io.open('%s/written.txt', 'w'):close()
        ]]):format(folder, folder, png, folder))
        start(script)
        terminal:expect "module first\r\nchunk a\r\ndata text\r\npicture 3\r\n"
        terminal:expect "watch: done"
        write("part.lua", "return 'second'")
        terminal:expect "module second\r\n"
        terminal:expect "watch: done"
        write("chunk.lua", "chunk_says = 'b'")
        terminal:expect "chunk b\r\n"
        terminal:expect "watch: done"
        write("data.txt", "changed")
        terminal:expect "data changed\r\n"
        terminal:expect "watch: done"
        require("gpuwb").mat(5, 2, "u8x3", {fill = 1}):save(png)
        terminal:expect "picture 5\r\n"
        terminal:expect "watch: done"
        write("unrelated.txt", "x")     -- neither this one nor the file that the script writes
        assert.is_false(terminal:receive(0.4))
    end)

    it("shows errors and waits for their end", function()
        local script = write("script.lua", "error 'broken'")
        start(script)
        terminal:expect "script.lua:1: broken"
        terminal:expect "watch: failed"
        write("script.lua", "x = = 1")
        terminal:expect "unexpected symbol near '='"
        terminal:expect "watch: failed"
        write("script.lua", "print 'mended'")
        terminal:expect "mended\r\n"
    end)

    it("Ctrl-C ends it, also while the script runs", function()
        start(write("script.lua", "print 'runs' while true do string.rep('x', 9):gsub('x', 'y') end"))
        terminal:expect "runs\r\n"
        terminal:send "\3"
        assert.equal(0, terminal:wait())
    end)

    it("keeps the windows, in which a loop ends when a change comes", function()
        if not pcall(require("ffi").load, "libSDL2-2.0.so.0") then return pending "no SDL2" end
        env.GPUWB_SHOW, env.SDL_VIDEODRIVER = "window", "dummy"
        local text = [[
            local m = gpu.mat(64, 48, "u8x3", {device = "host", fill = %d})
            local v = gpu.show(m)
            print("window " .. v.window.id .. " shows " .. v.window:screenshot():at(60, 60))
            while v:is_open() do end
            print "loop ended" %s
        ]]
        start(write("script.lua", text:format(10, "")))
        terminal:expect "window 1 shows 10\r\n"
        write("script.lua", text:format(20, ""))
        terminal:expect "loop ended\r\n"
        terminal:expect "window 1 shows 20\r\n"
        write("script.lua", "error 'broken'")
        terminal:expect "broken"
        terminal:expect "watch: failed"
        write("script.lua", text:format(30, "v:close()"))
        terminal:expect "window 1 shows 30\r\n"
        write("script.lua", "gpu.show(gpu.mat(64, 48, 'u8', {fill = 1})):close() print 'closed'")
        terminal:expect "closed\r\n"
        assert.equal(0, terminal:wait())        -- the last window is closed
    end)

    it("wants a script that is there", function()
        local result = helper.run {"--watch"}
        assert.same({"gpuwb: --watch wants a script\n", 1}, {result.err, result.status})
        result = helper.run {"--watch", folder .. "/missing.lua"}
        assert.equal(1, result.status)
        assert.truthy(result.err:find("missing.lua cannot be read", 1, true))
    end)
end)

describe("gpuwb --doctor", function()
    it("tells what there is and what to do about what is missing", function()
        local folder = helper.folder()
        local result = helper.run({"--doctor"}, {env = {XDG_CACHE_HOME = folder, XDG_STATE_HOME = "/dev/null/x", CUDA_VISIBLE_DEVICES = "", GPUWB_LOG = false,
                                                        GPUWB_DEVICE = false, ASAN_OPTIONS = "detect_leaks=0"}})     -- Python keeps memory to its end
        assert.same({"", 0}, {result.err, result.status})
        for _, name in ipairs {"gpuwb ", "CUDA driver", "host ", "CUDA toolkit", "NVRTC", "C compiler", "libSDL2", "libturbojpeg", "libdeflate",
                               "ffmpeg", "Python", "kernel cache", "history", "terminal",
                               "environment"} do
            assert.truthy(("\n" .. result.out):find("\n[-o!][-k!]  " .. name), name .. " is not in\n" .. result.out)
        end
        assert.truthy(result.out:find("%-%-  CUDA driver[^\n]*\n%s+%-> "))
        assert.truthy(result.out:find("ok  host [^\n]*: works\n"))
        assert.truthy(result.out:find("CUDA_VISIBLE_DEVICES=", 1, true))
        assert.falsy(result.out:find("fault in gpuwb", 1, true))
        helper.remove(folder)
    end)

    it("tells of a folder that cannot be written", function()
        local result = helper.run({"--doctor"}, {env = {XDG_CACHE_HOME = "/proc/1", HOME = false, XDG_STATE_HOME = false}})
        assert.truthy(result.out:find("kernel cache%s+/proc/1/gpuwb"))
        assert.truthy(result.out:find("neither XDG_STATE_HOME nor HOME is set", 1, true))
    end)

    it("tells what the terminal draws", function()
        local t = helper.terminal({"--doctor"}, {TERM = "xterm", TMUX = false, STY = false})
        t:expect "\27[c"
        t:send "\27_Gi=31;OK\27\\\27[?62;c"
        t:expect "pictures: kitty"
        t:wait()
        assert.truthy(t.output:find "xterm, 80 x 24 letters")
    end)
end)
