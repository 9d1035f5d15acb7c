-- SPDX-License-Identifier: MIT
-- Pictures on the terminal, in a window and in files: what is written is decoded back to pixels.
local gpu = require "gpuwb"
local ffi = require "ffi"
local display = require "gpuwb.display"
local terminal = require "gpuwb.terminal"
local helper = require "tests.helper"
local command = require "tests.command_helper"
local raises = helper.raises

local function rgb(w, h, pixel)
    local bytes = {}
    for y = 0, h - 1 do
        for x = 0, w - 1 do
            bytes[#bytes + 1] = string.char(pixel(x, y))
        end
    end
    return gpu.mat(w, h, "u8x3", {packed = true, device = "host"}):upload(table.concat(bytes))
end

local function gradient(x, y) return (x * 7) % 256, (y * 11) % 256, (x * y) % 256 end

-- ---- decoders of what terminals read

local from_base64 = require "tests.base64"

-- Pixels of sixel text, as rows of {r, g, b} in 0..255; nil where nothing was drawn.
local function from_sixel(text)
    local body = assert(text:match("^\27P[%d;]*q(.*)\27\\$"), "no sixel text")
    local width, height = body:match('^"1;1;(%d+);(%d+)')
    local colors, rows, color, x, top = {}, {}, nil, 0, 0
    local at = #body:match('^"[%d;]*') + 1
    while at <= #body do
        local char = body:sub(at, at)
        local number, r, g, b = body:match("^#(%d+);2;(%d+);(%d+);(%d+)", at)
        if number then
            colors[number] = {r * 2.55, g * 2.55, b * 2.55}
            at = at + #body:match("^#[%d;]+", at)
        elseif char == "#" then
            color = colors[body:match("^#(%d+)", at)]
            at = at + #body:match("^#%d+", at)
        elseif char == "$" or char == "-" then
            x = 0
            top = char == "-" and top + 6 or top
            at = at + 1
        else
            local count, letter = body:match("^!(%d+)(.)", at)
            at = at + (count and #count + 2 or 1)
            local set = (letter or char):byte() - 63
            assert(set >= 0 and set < 64, "a byte that is no sixel")
            for _ = 1, tonumber(count or 1) do
                for bit = 0, 5 do
                    if math.floor(set / 2 ^ bit) % 2 == 1 then
                        rows[top + bit] = rows[top + bit] or {}
                        assert(rows[top + bit][x] == nil, "a pixel is drawn twice")
                        rows[top + bit][x] = color
                    end
                end
                x = x + 1
            end
        end
    end
    return rows, tonumber(width), tonumber(height)
end

-- Rows of {upper {r, g, b}, lower} of half blocks.
local function from_blocks(text)
    local rows = {}
    for line in (text .. "\n"):gmatch("(.-)\n") do
        local row, upper, lower = {}, nil, nil
        for codes, block in line:gmatch("([\27%[%d;m]*)(\226\150\128)") do
            for kind, r, g, b in codes:gmatch("\27%[(%d)8;2;(%d+);(%d+);(%d+)m") do
                local color = {tonumber(r), tonumber(g), tonumber(b)}
                if kind == "3" then upper = color else lower = color end
            end
            row[#row + 1] = block and {upper, lower}
        end
        assert.truthy(line:find("\27%[0m$"))
        rows[#rows + 1] = row
    end
    return rows
end

describe("on the terminal", function()
    it("base64 is right at every length", function()
        for n = 0, 50 do
            local text = helper.bytes(n, n + 1)
            assert.equal(text, from_base64(terminal.base64(text)))
            assert.equal(math.ceil(n / 3) * 4, #terminal.base64(text))
        end
    end)

    it("kitty gets a PNG in pieces", function()
        local m = rgb(97, 61, function(x, y) return (x * y * 37) % 256, (x * 91 + y) % 256, y * 4 end)
        local text = terminal.kitty(gpu.encode(m, "png"), 10, 4)
        local data, last, pieces = {}, nil, 0
        for head, body in text:gmatch("\27_G([^;]*);([^\27]*)\27\\") do
            assert.truthy(#body <= 4096)
            assert.equal(pieces == 0, head:find("a=T,f=100,q=2,c=10,r=4,", 1, true) == 1)
            assert.is_not.equal("m=0", last)
            data[#data + 1], last, pieces = body, head:match("m=%d$"), pieces + 1
        end
        assert.equal("m=0", last)
        assert.truthy(pieces > 1)
        assert.equal(0, gpu.diff(m, gpu.decode(from_base64(table.concat(data)), {device = "host"}).planes[1]).count)
    end)

    it("iTerm2 gets a PNG with its size", function()
        local m = rgb(5, 3, gradient)
        local size, width, height, body = terminal.iterm2(gpu.encode(m, "png"), 5, 3)
            :match("^\27%]1337;File=inline=1;size=(%d+);width=(%d+)px;height=(%d+)px;preserveAspectRatio=1:([^\7]*)\7$")
        local png = from_base64(body)
        assert.same({tostring(#png), "5", "3"}, {size, width, height})
        assert.equal(0, gpu.diff(m, gpu.decode(png, {device = "host"}).planes[1]).count)
    end)

    it("sixel holds each pixel once, in a colour near to its own, right in the mean", function()
        for _, size in ipairs {{1, 1}, {7, 5}, {64, 6}, {33, 13}, {130, 20}} do
            local w, h = size[1], size[2]
            local m = rgb(w, h, gradient)
            local rows, width, height = from_sixel(terminal.sixel(m))
            assert.same({w, h}, {width, height})
            for y = 0, h - 1 do
                for x = 0, w - 1 do
                    local got, r, g, b = rows[y][x], m:at(x, y)
                    assert.truthy(math.abs(got[1] - r) < 53 and math.abs(got[2] - g) < 45 and math.abs(got[3] - b) < 53)
                end
                assert.is_nil(rows[y][w])
            end
            assert.is_nil(rows[h])
        end
        local sum, flat = {0, 0, 0}, rgb(64, 64, function() return 100, 33, 200 end)
        for _, row in pairs((from_sixel(terminal.sixel(flat)))) do
            for _, color in pairs(row) do
                for c = 1, 3 do sum[c] = sum[c] + color[c] / 4096 end
            end
        end
        assert.near(100, sum[1], 2)
        assert.near(33, sum[2], 2)
        assert.near(200, sum[3], 2)
    end)

    it("half blocks hold two rows a line", function()
        for _, size in ipairs {{1, 1}, {3, 2}, {7, 5}, {20, 8}} do
            local w, h = size[1], size[2]
            local m = rgb(w, h, gradient)
            local rows = from_blocks(terminal.blocks(m))
            assert.equal(math.ceil(h / 2), #rows)
            for y = 0, h - 1 do
                for x = 0, w - 1 do
                    assert.same({m:at(x, y)}, rows[math.floor(y / 2) + 1][x + 1][y % 2 + 1])
                end
            end
        end
    end)

    it("is judged by its answers, and tmux is respected", function()
        local kitty, sixel, plain = "\27_Gi=31;OK\27\\\27P>|kitty(0.26)\27\\\27[?62;c", "\27P>|foot(1)\27\\\27[?62;4;22c", "\27[?1;2c"
        local term = {TERM = "xterm"}
        assert.equal("kitty", terminal.judge(kitty, term))
        assert.equal("sixel", terminal.judge(sixel, term))
        assert.equal("iterm2", terminal.judge("\27P>|iTerm2 3.5\27\\\27[?62;4c", term))
        assert.equal("blocks", terminal.judge(plain, term))
        assert.equal("blocks", terminal.judge("", term))
        assert.equal("blocks", terminal.judge("\27[?64;42;14c", term))
        assert.is_nil(terminal.judge("", {TERM = "dumb"}))
        assert.is_nil(terminal.judge("", {}))
        assert.equal("blocks", terminal.judge(kitty, {TERM = "screen", TMUX = "/tmp/tmux"}))
        assert.equal("sixel", terminal.judge(sixel, {TERM = "tmux", TMUX = "/tmp/tmux"}))
        assert.equal("blocks", terminal.judge("\27P>|tmux 3.3a\27\\\27[?1;2c" .. kitty, term))
    end)

    -- Runs code on a terminal that gives `answer` to the question, and what it then wrote.
    local function on_terminal(code, answer, env)
        env = env or {}
        for name, value in pairs {TERM = "xterm", TMUX = false, STY = false, DISPLAY = false, WAYLAND_DISPLAY = false, GPUWB_SHOW = false} do
            if env[name] == nil then env[name] = value end
        end
        local t = command.terminal({"-e", "m = gpu.mat(9, 6, 'u8x3', {device = 'host', fill = {200, 100, 50}}) " .. code .. " print 'end'"}, env)
        if answer ~= nil then
            t:expect("\27[c")
            t:send(answer)
        end
        t:expect("end\r\n")
        t:wait()
        return t.output
    end

    it("is asked, and gets what it draws", function()
        assert.truthy(on_terminal("m:show()", "\27_Gi=31;OK\27\\\27[?62;c"):find("\27_Ga=T,f=100", 1, true))
        assert.truthy(on_terminal("m:show()", "\27[?62;4;c"):find("\27P0;1;0q", 1, true))
        assert.truthy(on_terminal("m:show()", "\27[?1;2c"):find("\27[38;2;200;100;50m", 1, true))
        assert.truthy(on_terminal("m:show() m:show()", "\27P>|iTerm2 3\27\\\27[?1;2c"):find("1337;File=.*1337;File="))
    end)

    it("is not waited for longer than a tenth of a second, and typing is left alone", function()
        local output = on_terminal("local c = require('gpuwb.posix').now() m:show() print((require('gpuwb.posix').now() - c) < 0.3)", nil)
        assert.truthy(output:find("\27[38;2;200;100;50m", 1, true))
        assert.truthy(output:find("true\r\nend", 1, true))
    end)

    it("does what GPUWB_SHOW says, unasked", function()
        for how, text in pairs {kitty = "\27_Ga=T", iterm2 = "\27]1337;", sixel = "\27P0;1;0q", blocks = "\27[38;2;"} do
            local output = on_terminal("m:show()", nil, {GPUWB_SHOW = how})
            assert.truthy(output:find(text, 1, true))
            assert.falsy(output:find("\27[c", 1, true))
        end
        assert.equal("end\r\n", on_terminal("m:show()", nil, {GPUWB_SHOW = "none"}))
        local result = command.run({"-e", "gpu.mat(1, 1, 'u8', {fill = 1}):show()"}, {env = {GPUWB_SHOW = "paper"}})
        assert.truthy(result.err:find("GPUWB_SHOW must be one of kitty, iterm2", 1, true))
    end)

    it("of the prompt shows images small", function()
        local t = command.terminal({}, {TERM = "xterm", GPUWB_SHOW = "blocks", NO_COLOR = "1", HOME = "/nonexistent", XDG_STATE_HOME = false,
                                        XDG_CONFIG_HOME = false})
        t:expect("> ")
        t:send("gpu.load_raw('/dev/zero', 'gray', 40, 30)\r")
        t:expect("image 40x30 gray\r\n")
        t:send("i = gpu.image('rgb24', 300, 200) i.planes[1]:fill{1, 2, 3}\r")
        t:send("i\r")
        t:expect("image 300x200 rgb24\r\n")
        t:expect("\27[38;2;1;2;3m")
        t:send("i.planes[1]\r")
        t:expect("mat 300x200 u8x3")
        t:expect("\27[?2004h> ")
        t:send("\4")
        assert.equal(0, t:wait())
        assert.falsy(t.output:match("mat 300x200 u8x3.*$"):find("38;2"))
    end)

    it("in tmux gets half blocks that tmux shows", function()
        local tmux = command.find "tmux"
        if not tmux then return pending "needs tmux" end
        local folder = command.folder()
        local socket = folder .. "/socket"
        local function run(words)
            return command.shell(("env -u TMUX LC_ALL=C.UTF-8 %s -f /dev/null -S %s %s"):format(tmux, socket, words))
        end
        local script = command.write(folder .. "/show.lua", "gpu.mat(4, 4, 'u8x3', {fill = {10, 200, 30}}):show() print 'shown' io.read()")
        run(("-u new-session -d -x 60 -y 20 env -u GPUWB_SHOW -u DISPLAY %s %s"):format(command.quote(command.gpuwb), script))
        local text = ""
        for _ = 1, 50 do
            text = run("capture-pane -e -p").out
            if text:find("shown", 1, true) then break end
            command.shell("sleep 0.1")
        end
        run("kill-server")
        command.remove(folder)
        assert.truthy(text:find("▀▀▀▀", 1, true), text)
        assert.truthy(text:find("38;2;10;200;30", 1, true) or text:find("38;5;", 1, true), text)
    end)
end)

helper.each_device(function()
    describe("what is shown", function()
        it("of 8 bits is as it is", function()
            local m = gpu.mat(3, 2, "u8x3"):upload {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18}
            local out, note = display.rgb("x", m)
            assert.same(m:totable(), out:totable())
            assert.is_nil(note)
            local gray = gpu.image("gray", 2, 1)
            gray.planes[1]:upload {5, 250}
            assert.same({{{5, 5, 5}, {250, 250, 250}}}, display.rgb("x", gray):totable())
            local two = gpu.mat(1, 1, "u8x2"):upload {40, 50}
            assert.same({{{40, 50, 0}}}, display.rgb("x", two):totable())
            local alpha = gpu.mat(3, 1, "u8x4"):upload {200, 100, 0, 255, 200, 100, 0, 0, 255, 0, 128, 51}
            assert.same({{{200, 100, 0}, {128, 128, 128}, {153, 102, 128}}}, display.rgb("x", alpha):totable())
        end)

        it("of other types is stretched from least to most, and said", function()
            local function shown(kind, list, range)
                local m = gpu.mat(#list, 1, kind):upload(list)
                local out, note = display.rgb("x", m, range)
                local levels = {}
                for i, pixel in ipairs(out:totable()[1]) do levels[i] = pixel[1] end
                return levels, note
            end
            local levels, note = shown("u16", {1000, 2000, 1500})
            assert.same({0, 255, 128}, levels)
            assert.equal("u16, 1000 is black and 2000 is white", note)
            levels, note = shown("f32", {0, 0.5, 0.25})
            assert.same({0, 128, 64}, levels)
            assert.equal("f32, 0 is black and 1 is white", note)
            levels, note = shown("f32", {-1, 3, 1, 1 / 0, -1 / 0})
            assert.same({0, 255, 128, 255, 0}, levels)
            assert.equal("f32, -1 is black and 3 is white", note)
            assert.same({0, 255, 64}, (shown("f16", {-2, 2, -1})))
            assert.same({0, 255, 51}, (shown("i32", {-5, 5, -3}, {-5, 5})))
            assert.same({0, 0, 255}, (shown("f64", {0, 10, 30}, {10, 30})))
            assert.same({0, 0}, (shown("i16", {7, 7})))
            local nan = gpu.mat(2, 1, "f32"):upload {0 / 0, 1}
            assert.same({{{255, 0, 255}, {255, 255, 255}}}, display.rgb("x", nan):totable())
            assert.same({{{255, 0, 255}}}, display.rgb("x", gpu.mat(1, 1, "f32"):upload {0 / 0}):totable())
        end)

        it("of YUV is converted, and what is assumed is said", function()
            for _, format in ipairs(gpu.formats()) do
                local img = gpu.image(format, 12, 8)
                for i = 1, #img.planes do img.planes[i]:fill(0) end
                local out, note = display.rgb("x", img)
                assert.same({12, 8, "u8x3"}, {out.width, out.height, out.type})
                if gpu.format(format).model == "yuv" then
                    assert.truthy(note:find("matrix not known, shown as bt601; range not known, shown as limited", 1, true))
                end
            end
            local red = gpu.image("yuv444p", 1, 1, {matrix = "bt601", range = "limited"})
            for i, v in ipairs {81, 90, 240} do red.planes[i]:fill(v) end
            local out, note = display.rgb("x", red)
            assert.is_nil(note)
            local r, g, b = out:at(0, 0)
            assert.truthy(r >= 253 and g <= 2 and b <= 2)
        end)

        it("side by side has each picture at its place, below its label", function()
            local a, b = rgb(20, 10, gradient), rgb(7, 13, gradient)
            local m = display.compose({a, b}, {"", ""})
            assert.same({8 + 20 + 8 + 7 + 8, 13 + 16}, {m.width, m.height})
            assert.equal(0, gpu.diff(m:roi(8, 8, 20, 10), a).count)
            assert.equal(0, gpu.diff(m:roi(36, 8, 7, 13), b).count)
            m = display.compose({a, b}, {"one", "a longer one"})
            assert.equal(0, gpu.diff(m:roi(8, 24, 20, 10), a).count)
            assert.equal(0, gpu.diff(m:roi(36, 24, 7, 13), b).count)
            assert.equal(230, (gpu.reduce(m:roi(8, 8, 18, 8), "max")))
        end)

        it("goes to a file whose path is printed", function()
            local path = os.tmpname()
            local m = gpu.mat(9, 6, "u8x3", {fill = {1, 2, 3}})
            local v = gpu.show(m, {path = path .. ".png"})
            assert.same({"file", path .. ".png"}, {v.how, v.path})
            assert.equal(0, gpu.diff(gpu.load(path .. ".png").planes[1], m).count)
            v:show(m:roi(0, 0, 4, 4))
            assert.equal(4, gpu.load(path .. ".png").width)
            v:close()
            assert.is_false(v:is_open())
            assert.equal(v, v:wait())
            os.remove(path)
            os.remove(path .. ".png")
        end)
    end)
end)

describe("gpu.show", function()
    it("finds a new file each time, and says where nothing else is", function()
        local folder = command.folder()
        local result = command.run({"-e", "local m = gpu.mat(4, 3, 'f32', {fill = 2}) m:show() gpu.show{m, m} gpu.show(gpu.mat(0, 3, 'u8'))"},
            {env = {TMPDIR = folder, DISPLAY = false, WAYLAND_DISPLAY = false, GPUWB_SHOW = false}})
        assert.equal("", result.err)
        local first, second, rest = result.out:match("^shown in ([^\n]*)\nf32, 2 is black and 2 is white\nshown in ([^\n]*)\n(.*)$")
        assert.equal("1: f32, 2 is black and 2 is white; 2: f32, 2 is black and 2 is white\na picture of 0x3 has nothing to show\n", rest)
        assert.is_not.equal(first, second)
        assert.equal(4, gpu.load(first).width)
        assert.truthy(gpu.load(second).width > 8)
        command.remove(folder)
    end)

    it("shows the pictures that the command is given, with a line about each", function()
        local folder = command.folder()
        local function file(name) return folder .. "/" .. name end
        local function look(names, how)
            local words = {}
            for i, name in ipairs(names) do words[i] = file(name) end
            return command.run(words, {env = {GPUWB_SHOW = how, DISPLAY = false, WAYLAND_DISPLAY = false}})
        end
        local img = gpu.image("yuv420p", 8, 6, {matrix = "bt709", range = "limited"})
        for _, plane in ipairs(img.planes) do plane:fill(128) end
        gpu.save({img, img}, file "clip.y4m", {rate = "30000/1001"})
        img:convert("rgb24"):save(file "card.png")
        gpu.mat(3, 2, "f32", {fill = 0.5}):save(file "list.npy")
        command.write(file "code.lua", "x = = 1")
        command.write(file "cut.png", "\137PNG\r\n\26\n\0")
        command.write(file "bytes.bin", "\0\1\2\3")
        local drawn = look({"card.png"}, "blocks").out
        assert.equal(file "card.png: png 8x6 rgb24 8 bits", drawn:match("^[^\n]*"))
        assert.truthy(drawn:find("\27[38;2;130;130;130m", 1, true), drawn)
        local lines = look({"list.npy", "clip.y4m"}, "blocks").out
        assert.equal(file "list.npy: npy 3x2 f32 32 bits\n" .. file "clip.y4m: y4m 8x6 yuv420p 8 bits limited 2 frames 29.97 frames a second\n",
            lines:match("^[^\n]*\n[^\n]*\n"))
        assert.truthy(lines:find "\27%[38;2")
        assert.same({file "card.png: png 8x6 rgb24 8 bits", ""}, {look({"card.png"}, false).out:match("^[^\n]*"), look({"card.png"}, false).err})
        for name, text in pairs {["code.lua"] = "code.lua:1: unexpected symbol near '='\n", ["cut.png"] = "cut.png: truncated PNG",
                                 ["bytes.bin"] = "bytes.bin: no picture that is known here"} do
            local result = look({name}, "none")
            assert.equal(1, result.status)
            assert.truthy(result.err:find("gpuwb: " .. folder .. "/" .. text, 1, true), result.err)
            assert.truthy(not result.err:find "traceback")
        end
        if command.find "ffmpeg" then
            command.shell("ffmpeg -v error -f lavfi -i testsrc=size=16x12:rate=25:duration=1 -pix_fmt yuv420p " .. command.quote(file "film.mp4"))
            local film = look({"film.mp4"}, "blocks")
            assert.truthy(film.out:find("film.mp4: h264 16x12 yuv420p .*25 frames 25 frames a second 1.0 s\n.*\27%[38;2"), film.out .. film.err)
        end
        command.remove(folder)
    end)

    it("says what it does not take", function()
        local m = gpu.mat(2, 2, "u8", {fill = 0})
        raises("BAD_ARGUMENT", {"gpu.show", "nil"}, gpu.show)
        raises("BAD_ARGUMENT", "picture 2", gpu.show, {m, 5})
        raises("BAD_ARGUMENT", "list of them", gpu.show, {})
        raises("BAD_ARGUMENT", {"how", "kitty"}, gpu.show, m, {how = "paper"})
        raises("BAD_ARGUMENT", {"mat:show", "known: how"}, m.show, m, {titel = "x"})
        raises("BAD_ARGUMENT", "range", gpu.show, m, {range = {3, 1}, how = "none"})
        raises("BAD_ARGUMENT", "range", gpu.show, m, {range = 3, how = "none"})
        raises("BAD_ARGUMENT", "labels", gpu.show, {m, m}, {labels = "x", how = "none"})
        raises("BAD_ARGUMENT", "labels[1]", gpu.show, {m, m}, {labels = {5}, how = "none"})
        raises("BAD_ARGUMENT", "title", gpu.show, m, {title = 5})
        raises("BAD_ARGUMENT", {"is a file's name", 'save(obj, "out.jpeg")', '{title = "out.jpeg"}'}, m.show, m, "out.jpeg")
        raises("BAD_ARGUMENT", "call it as a method", gpu.show(m, {how = "none"}).close, 5)
        raises("NO_FILE", "/no/such", gpu.show, m, {path = "/no/such/x.png"})
    end)
end)

-- SDL's dummy driver draws windows that nobody sees; the window is read back from SDL.
describe("the window", function()
    local window = require "gpuwb.window"
    local a, b, view

    setup(function()
        ffi.cdef "int setenv(const char *name, const char *value, int replace);"
        ffi.C.setenv("SDL_VIDEODRIVER", os.getenv("SDL_VIDEODRIVER") or "dummy", 1)
    end)

    before_each(function()
        if window.available() then
            a, b = rgb(200, 150, gradient), rgb(200, 150, function(x, y) return 255 - x, y, 7 end)
            view = gpu.show({a, b}, {how = "window", title = "spec"})
        end
    end)
    after_each(function()
        if view then view:close() end
    end)

    local function key(symbol)
        window.push(0x300, view.window, function(e) ffi.cast("int32_t *", e + 20)[0] = type(symbol) == "string" and symbol:byte() or symbol end)
    end

    local function pointer(x, y, buttons, dx, dy)
        window.push(0x400, view.window, function(e)
            local words = ffi.cast("int32_t *", e)
            words[4], words[5], words[6], words[7], words[8] = buttons or 0, x, y, dx or 0, dy or 0
        end)
    end

    local function shot()
        assert.is_true(view:is_open())
        return view.window:screenshot()
    end

    it("says why there is none", function()
        local result = command.run({"-e", "print(select(2, pcall(gpu.show, gpu.mat(1, 1, 'u8', {fill = 0}), {how = 'window'})))"},
            {env = {SDL_VIDEODRIVER = "no_such_driver"}})
        assert.truthy(result.out:find("UNSUPPORTED", 1, true) or result.out:find("SDL2 has no display", 1, true) or result.out:find("not installed", 1, true),
            result.out)
    end)

    it("shows pictures side by side, one alone, in turn", function()
        if not window.available() then return pending(select(2, window.available())) end
        local whole = display.compose({a, b}, {"1: u8x3 200x150", "2: u8x3 200x150"})
        assert.equal(0, gpu.diff(shot(), whole).count)
        key(9)
        local alone = shot()
        local x, y = math.floor(view.window.x), math.floor(view.window.y)
        assert.equal(0, gpu.diff(alone:roi(-x, -y, 200, 150), a).count)
        key(9)
        assert.equal(0, gpu.diff(shot():roi(-x, -y, 200, 150), b).count)
        key("a")
        assert.equal(0, gpu.diff(shot(), whole).count)
    end)

    it("stands on a real screen with all that it holds", function()
        if not (command.find "Xvfb" and command.find "ffmpeg" and window.available()) then return pending "needs SDL2, Xvfb and ffmpeg" end
        local folder = command.folder()
        command.write(folder .. "/script.lua", [[
            local m = gpu.load(arg[1])
            local v = gpu.show({m, m}, {labels = {"left", "right"}})
            for _ = 1, 20 do assert(v:is_open()) require("gpuwb.posix").sleep(0.02) end
            os.execute("ffmpeg -v error -f x11grab -draw_mouse 0 -video_size 800x600 -i $DISPLAY -frames:v 1 -pix_fmt rgb24 " .. arg[2])]])
        rgb(300, 200, gradient):save(folder .. "/picture.png")
        local result = command.shell(("cd %s; Xvfb -displayfd 3 -screen 0 800x600x24 3>number 2>/dev/null & server=$!; "
            .. "for i in 1 2 3 4 5 6 7 8 9 10; do [ -s %s/number ] && break; sleep 0.2; done; "
            .. "DISPLAY=:$(cat %s/number) SDL_VIDEODRIVER=x11 GPUWB_SHOW=window %s %s/script.lua %s/picture.png %s/screen.png; kill $server")
            :format(folder, folder, folder, command.gpuwb, folder, folder, folder))
        local file = io.open(folder .. "/screen.png")
        if not file then return pending("no screenshot: " .. result.err) end
        file:close()
        local m = gpu.load(folder .. "/picture.png").planes[1]
        local whole = display.compose({m, m}, {"left", "right"})
        local x, y = math.floor((800 - whole.width) / 2), math.floor((600 - whole.height) / 2)
        assert.equal(0, gpu.diff(gpu.load(folder .. "/screen.png").planes[1]:roi(x, y, whole.width, whole.height), whole).count)
        command.remove(folder)
    end)

    it("zooms, pans, picks a channel, stretches", function()
        if not window.available() then return pending(select(2, window.available())) end
        key(9)
        shot()
        local w = view.window
        w.x, w.y, w.zoom = 0, 0, 1
        pointer(0, 0)
        window.push(0x403, w, function(e) ffi.cast("int32_t *", e + 20)[0] = 1 end)
        shot()
        assert.near(1.25, w.zoom, 1e-9)
        key("-")
        key("+")
        shot()
        assert.near(1.25, w.zoom, 1e-9)
        w.zoom, w.x, w.y = 4, 0, 0
        pointer(40, 40, 1, -40, -20)
        local zoomed = shot()
        assert.same({10, 5}, {w.x, w.y})
        for _, at in ipairs {{0, 0}, {3, 3}, {4, 0}, {401, 77}} do
            assert.same({a:at(10 + math.floor(at[1] / 4), 5 + math.floor(at[2] / 4))}, {zoomed:at(at[1], at[2])})
        end
        key("2")
        local _, g = a:at(10, 5)
        assert.same({g, g, g}, {shot():at(0, 0)})
        key("0")
        key("r")
        shot()
        assert.is_true(w.stretched)
        key(0x4000004F)
        shot()
        assert.truthy(w.x > 10)
    end)

    it("closes with q, with close(), and at once for those who wait", function()
        if not window.available() then return pending(select(2, window.available())) end
        assert.is_true(view:is_open())
        key("q")
        view:wait()
        assert.is_false(view:is_open())
        view:show(a)
        assert.is_true(view:is_open())
        view:close()
        view:close()
        assert.is_false(view:is_open())
    end)

    it("says that its pictures went with a reset", function()
        if not window.available() then return pending(select(2, window.available())) end
        local before = gpu.device()
        gpu.scope(function()        -- the reduced copy that it makes is not the window's last
            key("-")
            shot()
        end)
        shot()
        gpu.reset("host")
        gpu.device(before)
        helper.raises("CLOSED", "reset", shot)
    end)

    it("is seen on a display", function()
        local xvfb = command.find "Xvfb"
        if not xvfb or not window.available() then return pending "needs Xvfb and SDL2" end
        local folder = command.folder()
        local script = command.write(folder .. "/window.lua", [[
            local m = gpu.mat(120, 90, "u8x3", {fill = {10, 200, 30}, device = "host"})
            local v = gpu.show(m, {how = "window", title = "seen"})
            for _ = 1, 20 do assert(v:is_open()) end
            local shot = v.window:screenshot()
            print(gpu.diff(shot:roi(math.floor(-v.window.x * v.window.zoom), math.floor(-v.window.y * v.window.zoom), 120, 90), m).count)
        ]])
        local text = command.shell(("%s :73 -screen 0 800x600x24 >/dev/null 2>&1 & pid=$!; sleep 1; env DISPLAY=:73 SDL_VIDEODRIVER=x11 "
            .. "LIBGL_ALWAYS_SOFTWARE=1 SDL_RENDER_DRIVER=software %s %s; kill $pid"):format(xvfb, command.quote(command.gpuwb), script))
        command.remove(folder)
        assert.equal("0\n", text.out, text.err)
    end)

    it("keeps its place when another picture of the size comes", function()
        if not window.available() then return pending(select(2, window.available())) end
        key("+")
        shot()
        local zoom, x = view.window.zoom, view.window.x
        view:show({b, a})
        assert.same({zoom, x}, {view.window.zoom, view.window.x})
        local id = view.window.id
        view:show(a)
        assert.equal(id, view.window.id)
    end)
end)
