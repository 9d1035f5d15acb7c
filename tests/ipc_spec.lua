-- SPDX-License-Identifier: MIT
-- Mats and events between processes: this one and children of its own, on every device at hand.
local gpu = require "gpuwb"
local helper = require "tests.helper"
local kernels = require "tests.kernels"
local python = require "tests.python_helper"
local raises = helper.raises

local function collect()
    for _ = 1, 3 do
        collectgarbage()
        collectgarbage()
        gpu.trim()
    end
end

-- The driver of tests/c has no events between processes: there they count as reached.
local fake = gpu.devices()[1].model:find("^Fake") ~= nil

helper.each_device(function(name)
    local possible, err = pcall(gpu.mat, 1, 1, "u8", {shared = true, device = name})
    if not possible and err.code == "UNSUPPORTED" then
        pending("the driver shares no memory here: " .. tostring(err))
        return
    end

    -- A child runs `code` with `handles` as its arguments, on the same device.
    local function command(code, ...)
        local file = os.tmpname()
        local f = assert(io.open(file, "w"))
        f:write("local gpu, ffi = require 'gpuwb', require 'ffi' ", code)
        f:close()
        local words = {helper.command(), "--device", name, file}
        for _, handle in ipairs {...} do words[#words + 1] = "'" .. handle .. "'" end
        return table.concat(words, " ") .. "; status=$?; rm -f " .. file .. "; exit $status"
    end

    local function child(code, ...)
        local out, status = helper.run("( " .. command(code, ...) .. " )")
        assert.equal(0, status, out)
        return out
    end

    -- A child that goes on beside this process: its first lines, a function that says a word to it, and one that waits for its end.
    local function companion(code, lines, ...)
        local fifo = os.tmpname()
        helper.run("rm " .. fifo .. "; mkfifo " .. fifo)
        local pipe = assert(io.popen("( " .. command("local told = io.open('" .. fifo .. "') " .. code, ...) .. " )", "r"))
        local to = assert(io.open(fifo, "w"))
        local first = {}
        for i = 1, lines do first[i] = pipe:read() end
        return first, function(word)
            to:write(word, "\n")
            to:flush()
            return pipe:read()
        end, function()
            to:close()
            os.remove(fifo)
            local rest = pipe:read("*a")
            pipe:close()
            return rest
        end
    end

    describe("a shared mat", function()
        it("is an ordinary mat", function()
            local bytes = helper.bytes(61 * 17 * 3)
            local m = gpu.mat(61, 17, "u8x3", {shared = true})
            assert.equal(name, m.device)
            assert.equal(gpu.mat(61, 17, "u8x3").step, m.step)
            assert.truthy(tostring(m):find("shared", 1, true))
            assert.falsy(tostring(m):find("foreign", 1, true))
            m:upload(bytes)
            assert.equal(bytes, m:clone():download())
            assert.equal(bytes, m:download())
            assert.equal(183, gpu.mat(61, 17, "u8x3", {shared = true, packed = true}).step)
            assert.equal(9, (gpu.mat(5, 3, "f32", {shared = true, fill = 9, align = 512}):at(4, 2)))
            assert.same({0, 0}, {gpu.mat(0, 3, "u8", {shared = true}).bytes, gpu.mat(3, 0, "u8", {shared = true}).bytes})
            raises("OUT_OF_MEMORY", "", gpu.mat, 2 ^ 31 - 1, 2 ^ 31 - 1, "f64x4", {shared = true})
            raises("BAD_ARGUMENT", "true or false", gpu.mat, 2, 2, "u8", {shared = 1})
        end)

        it("has the same pixels in another process", function()
            for _, case in ipairs {{"u8", 1, 1}, {"u8x3", 61, 17}, {"f32x4", 7, 5}, {"u16", 1025, 3}, {"f64", 3, 300}} do
                local kind, w, h = unpack(case)
                local m = gpu.mat(w, h, kind, {shared = true})
                m:upload(helper.bytes(w * h * m.elem_size))
                local code = "local m = gpu.from_ipc(arg[1]) io.write(m.type, ' ', m.step, ' ', m.device, '\\n', m:download())"
                assert.equal(("%s %d %s\n"):format(kind, m.step, name) .. m:download(), child(code, m:ipc_handle()))
            end
        end)

        it("is written by another process, through a region", function()
            local m = gpu.mat(20, 10, "u8", {shared = true, fill = 1})
            child("gpu.from_ipc(arg[1]):fill(2) gpu.synchronize()", m:roi(3, 2, 5, 4):ipc_handle())
            for _, at in ipairs {{3, 2, 2}, {7, 5, 2}, {2, 2, 1}, {8, 2, 1}, {3, 1, 1}, {3, 6, 1}} do
                assert.equal(at[3], (m:at(at[1], at[2])), at[1] .. ", " .. at[2])
            end
        end)

        it("has zero sizes, and stays read-only", function()
            local code = "local m = gpu.from_ipc(arg[1]) print(m.width, m.height, m.type, m.device)"
            assert.equal("0\t5\tf32x2\t" .. name .. "\n", child(code, gpu.mat(0, 5, "f32x2", {shared = true}):ipc_handle()))
            local m = gpu.mat(4, 4, "u8", {shared = true, fill = 6})
            local w = gpu.wrap {ptr = m.data, width = 4, height = 4, type = "u8", step = m.step, readonly = true, owner = m}
            assert.equal("true\tREAD_ONLY\t6\n", child("local m = gpu.from_ipc(arg[1]) print(m.readonly, select(2, pcall(m.fill, m, 1)).code, m:at(3, 3))",
                w:ipc_handle()))
        end)

        it("is finished when its handle is given", function()
            local s, m = gpu.stream(), gpu.mat(64, 64, "u8", {shared = true, fill = 0})
            s:sleep(60)
            m:fill(3, {stream = s})
            local handle = m:ipc_handle()
            assert.is_true(s:query())
            assert.equal("3\n", child("print((gpu.from_ipc(arg[1]):at(63, 63)))", handle))
        end)

        it("is the same memory in its own process", function()
            local m = gpu.mat(9, 7, "u16", {shared = true, fill = 4})
            local handle, part = m:ipc_handle(), m:roi(2, 1, 3, 3):ipc_handle()
            assert.equal(m, gpu.from_ipc(handle))
            assert.equal(m:roi(2, 1, 3, 3), gpu.from_ipc(part .. "\n"))
            local s, view = gpu.stream(), gpu.from_ipc(part)
            s:sleep(40)
            m:fill(5, {stream = s})
            assert.equal(5, (view:at(0, 0)))    -- ordered by data
            m:close()
            assert.equal(5, (view:at(2, 2)))
            view:close()
            collect()
            raises("CLOSED", "has closed it", gpu.from_ipc, handle)
        end)

        it("is opened twice, and in parts, by another process", function()
            local m = gpu.mat(32, 8, "u8", {shared = true, fill = 1})
            assert.equal("7\t7\ttrue\t1\n", child([[
                local part = gpu.from_ipc(arg[2])
                local whole, again = gpu.from_ipc(arg[1]), gpu.from_ipc(arg[1])
                part:fill(7)
                print((whole:at(4, 4)), (again:at(4, 4)), whole == again, (again:at(0, 0)))]], m:ipc_handle(), m:roi(4, 4, 2, 2):ipc_handle()))
        end)

        it("is passed on by the process that opened it", function()
            local m = gpu.mat(5, 5, "u8", {shared = true, fill = 1})
            local lines, _, finish = companion("local m = gpu.from_ipc(arg[1]) print(m:ipc_handle()) io.flush() told:read() m:close()", 1, m:ipc_handle())
            assert.equal(m, gpu.from_ipc(lines[1]))
            assert.equal("1\n", child("print((gpu.from_ipc(arg[1]):at(4, 4)))", lines[1]))
            finish()
        end)

        it("leaves nothing behind", function()
            local code = [[
                local function open_files()
                    gpu.synchronize()
                    for _ = 1, 3 do collectgarbage() collectgarbage() gpu.trim() end
                    local pipe = io.popen("ls /proc/" .. ffi.C.getpid() .. "/fd | wc -l")
                    local n = pipe:read("*n")
                    pipe:close()
                    return n
                end
                ffi.cdef "int getpid(void);"
                local function round()
                    gpu.from_ipc(arg[1])
                    gpu.event_from_ipc(arg[2])
                    gpu.mat(300, 300, "u8", {shared = true}):fill(1)
                    gpu.event {shared = true}
                end
                round()
                local files, free = open_files(), gpu.memory().free
                for i = 1, 50 do
                    round()
                    if i % 10 == 0 then open_files() end
                end
                -- a dead slot of the stack may hold an object
                print(open_files() <= files + 4, gpu.device() == "host" or gpu.memory().free >= free - 2^24)]]
            assert.equal("true\ttrue\n", child(code, gpu.mat(64, 64, "u8", {shared = true}):ipc_handle(), gpu.event {shared = true}:ipc_handle()))
        end)

        it("ends well with the program, whatever is still alive", function()
            assert.equal("", child([[
                s, m, e = gpu.stream(), gpu.mat(512, 512, "u8", {shared = true}), gpu.event {shared = true}
                other = gpu.from_ipc(arg[1])
                s:sleep(30)
                m:fill(1, {stream = s})
                other:fill(2, {stream = s})
                s:record(e)]], gpu.mat(64, 64, "u8", {shared = true}):ipc_handle()))
        end)

        if name == "host" then
            it("lives as long as any process has it", function()
                local lines, _, finish = companion("local m = gpu.mat(50, 40, 'u8', {shared = true, fill = 8}) "
                    .. "print(m:ipc_handle()) io.flush() told:read()", 1)
                local m = gpu.from_ipc(lines[1])
                finish()
                assert.equal(8, (m:at(49, 39)))
                m:close()
                collect()
                raises("NO_FILE", {"does not share this any more"}, gpu.from_ipc, lines[1])
            end)

            it("is a file to map for other libraries", function()
                local interpreter = python.interpreter()
                if not interpreter then return pending("no python3") end
                local m = gpu.mat(20, 10, "u8", {shared = true, fill = 1})
                local path, offset = m:roi(3, 2, 5, 4):ipc_handle {raw = true}
                assert.equal(2 * m.step + 3, offset)
                local code = "import mmap, sys; f = open(sys.argv[1], 'r+b'); m = mmap.mmap(f.fileno(), 0); m[int(sys.argv[2])] = 9; print(m[0])"
                local out = helper.run(table.concat({interpreter, "-c", helper.quote(code), path, offset}, " "))
                assert.equal("1\n", out)
                assert.same({9, 1, 1}, {(m:at(3, 2)), (m:at(2, 2)), (m:at(4, 2))})
            end)
        else
            it("gives the driver's own handle", function()
                local m = gpu.mat(20, 10, "u8", {shared = true, fill = 1})
                local raw, offset = m:roi(3, 2, 5, 4):ipc_handle {raw = true}
                assert.equal(64, #raw)
                assert.equal(2 * m.step + 3, offset)
                local hex = raw:gsub(".", function(c) return ("%02x"):format(c:byte()) end)
                assert.equal("5\t4\tfalse\n", child([[
                    local raw = arg[1]:gsub("%x%x", function(h) return string.char(tonumber(h, 16)) end)
                    local shape = {width = 5, height = 4, type = "u8", step = tonumber(arg[3]), offset = tonumber(arg[2])}
                    local m = gpu.from_ipc(raw, shape)
                    m:fill(4)
                    gpu.synchronize()
                    shape.height = 100000000
                    print(m.width, m.height, (pcall(gpu.from_ipc, raw, shape)))]], hex, offset, m.step))
                assert.same({4, 1}, {(m:at(3, 2)), (m:at(2, 2))})
                raises("BAD_ARGUMENT", "say no shape", gpu.from_ipc, raw)
                raises("BAD_ARGUMENT", "width", gpu.from_ipc, raw, {height = 2, type = "u8"})
                raises("BAD_ARGUMENT", "element type", gpu.from_ipc, raw, {width = 2, height = 2})
            end)

            it("is lost with its device, and closed in peace", function()
                assert.equal("CLOSED\tCLOSED\t3\n", child([[
                    local m, e, other = gpu.mat(64, 64, "u8", {shared = true}), gpu.event {shared = true}, gpu.from_ipc(arg[1])
                    gpu.reset(gpu.device())
                    local code = select(2, pcall(m.fill, m, 1)).code
                    print(code, select(2, pcall(e.synchronize, e)).code, (gpu.mat(2, 2, "u8", {shared = true, fill = 3}):at(1, 1)))
                    m:close() e:close() other:close()]], gpu.mat(64, 64, "u8", {shared = true}):ipc_handle()))
            end)
        end

        it("is what scripts/interop_ipc.lua shows", function()
            if fake and name ~= "host" or not kernels.compiler_at_hand() then return pending("needs a compiler and the driver's events") end
            local out, status = helper.run(helper.command() .. " --device " .. name .. " scripts/interop_ipc.lua")
            assert.equal(0, status, out)
            local _, rest = assert.truthy(out:match("^(gpuwb\t" .. name .. "\t10\t245\n)(.*)$"), out)
            local before, after = 245, 10       -- each library that is there turns the picture into its negative
            for _, library in ipairs(name == "host" and {"numpy"} or {"cupy", "torch"}) do
                local line = assert(rest:match("(" .. library .. "\t[^\n]*)\n"), out)
                if not line:find("\tabsent: ", 1, true) then
                    local theirs = name == "host" and "" or "\tand its own memory\t7\t8.0"
                    assert.equal(("%s\t%s\t%d\t%d%s"):format(library, name, before, after, theirs), line)
                    before, after = after, before
                end
            end
        end)

        it("alone has a handle", function()
            local m = gpu.mat(3, 3, "u8")
            raises("UNSUPPORTED", "shared = true", m.ipc_handle, m)
            raises("UNSUPPORTED", "shared = true", m.ipc_handle, gpu.host_mat(3, 3, "u8"))
            raises("BAD_ARGUMENT", "\"rav\"", m.ipc_handle, m, {rav = true})
            m = gpu.mat(0, 3, "u8", {shared = true})
            raises("UNSUPPORTED", "no memory", m.ipc_handle, m, {raw = true})
            m:close()
            raises("CLOSED", "", m.ipc_handle, m)
            raises("BAD_ARGUMENT", "must be a mat", m.ipc_handle, "x")
        end)

        it("is not opened by what is no handle, and nothing crashes", function()
            local m = gpu.mat(9, 7, "u16x3", {shared = true, fill = 4})
            local handle = m:ipc_handle()
            for _, wrong in ipairs {5, {}, true, m} do raises("BAD_ARGUMENT", "handle", gpu.from_ipc, wrong) end
            raises("BAD_ARGUMENT", "handle", gpu.from_ipc)
            for _, wrong in ipairs {"", "x", "gpuwb1:mat", handle .. ":1", handle:gsub("gpuwb1", "gpuwb2"), ("x"):rep(5000),
                                    gpu.event({shared = true}):ipc_handle()} do
                raises("BAD_ARGUMENT", {"no handle of a mat"}, gpu.from_ipc, wrong)
            end
            raises("BAD_ARGUMENT", "ipc_handle()", gpu.from_ipc, handle .. "\0")
            raises("BAD_ARGUMENT", "unknown option", gpu.from_ipc, handle, {width = 3})
            for _, size in ipairs {66, 128} do
                raises("BAD_ARGUMENT", {"64 bytes, got " .. size}, gpu.from_ipc, ("x"):rep(size), {width = 2, height = 2, type = "u8"})
            end
            raises("BAD_ARGUMENT", "is the host", gpu.from_ipc, ("x"):rep(64), {width = 2, height = 2, type = "u8", device = "host"})
            -- every prefix, and every character changed, but for what only the driver reads
            local random, last = helper.random(7), name == "host" and #handle or handle:find("[^:]*$") - 1
            for i = 1, last do
                pcall(gpu.from_ipc, handle:sub(1, i))
                for _ = 1, 4 do
                    local c = ("0123456789abcdef:-x "):sub(random(20) + 1):sub(1, 1)
                    local ok, other = pcall(gpu.from_ipc, handle:sub(1, i - 1) .. c .. handle:sub(i + 1))
                    if ok then
                        assert.is_true(other.bytes >= 0)
                        assert.equal(other.bytes, #other:download())
                    else
                        assert.truthy(type(other) == "table" and other.code, tostring(other))
                    end
                end
            end
            assert.equal(4, (m:at(8, 6)))
        end)
    end)

    describe("a shared event", function()
        it("is an ordinary event", function()
            local e, s = gpu.event {shared = true}, gpu.stream()
            assert.equal(name, e.device)
            assert.is_true(e:query())           -- not recorded counts as reached
            e:synchronize()
            s:sleep(60)
            assert.equal(e, s:record(e))
            assert.is_false(e:query())
            local other = gpu.stream()
            other:wait(e)
            other:synchronize()
            assert.is_true(s:query())
            e:synchronize()
            assert.is_true(e:query())
            raises("BAD_ARGUMENT", "keeps no time", gpu.elapsed, e, e)
            s:sleep(20)
            s:record(e)
            e:close()
            e:close()
            raises("CLOSED", "", e.query, e)
            raises("CLOSED", "", e.ipc_handle, e)
            s:synchronize()
        end)

        it("has options that agree", function()
            raises("BAD_ARGUMENT", "keeps no time", gpu.event, {shared = true, timing = true})
            raises("BAD_ARGUMENT", "shared = true", gpu.event, {device = name})
            raises("BAD_ARGUMENT", "true or false", gpu.event, {shared = 1})
            assert.equal("host", gpu.event({shared = true, timing = false, device = "host"}).device)
            if name ~= "host" then
                local e, s = gpu.event {shared = true, device = "host"}, gpu.stream()
                raises("BAD_ARGUMENT", "stays on its device", s.record, s, e)
            end
        end)

        it("orders another process behind this one", function()
            if fake and name ~= "host" then return pending("the fake driver's events stay in their process") end
            local s, m, e = gpu.stream {blocking = false}, gpu.mat(64, 64, "u8", {shared = true, fill = 1}), gpu.event {shared = true}
            local first, second = m:ipc_handle(), e:ipc_handle()
            local _, say, finish = companion([[
                local m, e, s = gpu.from_ipc(arg[1]), gpu.event_from_ipc(arg[2]), gpu.stream {blocking = false}
                local copy = gpu.mat(64, 64, "u8")
                print((m:at(0, 0))) io.flush()
                told:read()
                local reached = e:query()
                s:wait(e)
                gpu.copy(copy, m, {stream = s})
                print(reached, (copy:at(63, 63)), e:query()) io.flush()]], 1, first, second)
            s:sleep(500)
            m:fill(2, {stream = s})
            s:record(e)
            assert.equal("false\t2\ttrue", say("go"))
            finish()
        end)

        it("orders this process behind another", function()
            if fake and name ~= "host" then return pending("the fake driver's events stay in their process") end
            local lines, say, finish = companion([[
                local m, e, s = gpu.mat(64, 64, "u8", {shared = true, fill = 1}), gpu.event {shared = true}, gpu.stream()
                print(m:ipc_handle()) print(e:ipc_handle()) io.flush()
                for i = 2, 6 do
                    told:read()
                    s:sleep(60)
                    m:fill(i, {stream = s})
                    s:record(e)
                    print("recorded") io.flush()
                end
                told:read()
                s:synchronize()]], 2)
            local m, e, s = gpu.from_ipc(lines[1]), gpu.event_from_ipc(lines[2]), gpu.stream()
            for i = 2, 6 do
                assert.equal("recorded", say("go"))
                if i % 2 == 0 then e:synchronize() else s:wait(e) end
                local copy = gpu.mat(64, 64, "u8")
                gpu.copy(copy, m, {stream = s})
                assert.equal(i, (copy:at(63, 63)))
            end
            m:close()
            s:synchronize()
            finish()
        end)

        if name == "host" then
            it("tells waiters when the process that was to reach it has ended", function()
                local lines, say, finish = companion([[
                    local e, s = gpu.event {shared = true}, gpu.stream()
                    print(e:ipc_handle()) io.flush()
                    told:read()
                    s:sleep(10000)
                    s:record(e)
                    print("recorded") io.flush()
                    told:read()
                    ffi.cdef "void _exit(int status);"
                    ffi.C._exit(0)]], 1)
                local e, s = gpu.event_from_ipc(lines[1]), gpu.stream()
                assert.equal("recorded", say("go"))
                assert.is_false(e:query())
                finish()
                raises("DEVICE", {"has ended"}, e.synchronize, e)
                s:wait(e)
                local m = gpu.mat(4, 4, "u8", {fill = 3})
                raises("DEVICE", {"has ended"}, gpu.synchronize)
                assert.equal(3, (m:at(1, 1)))
                s:record(e)         -- and it can be recorded anew
                e:synchronize()
                assert.is_true(e:query())
            end)
        end

        it("is told from one that is not shared, and from what is no handle", function()
            local plain, e = gpu.event(), gpu.event {shared = true}
            raises("UNSUPPORTED", "shared = true", plain.ipc_handle, plain)
            raises("BAD_ARGUMENT", "this process made the event", gpu.event_from_ipc, e:ipc_handle())
            local handle = e:ipc_handle()
            for _, wrong in ipairs {"", "gpuwb1:event:", handle .. ":", handle:gsub("event", "mat"), gpu.mat(2, 2, "u8", {shared = true}):ipc_handle()} do
                raises("BAD_ARGUMENT", "no handle of an event", gpu.event_from_ipc, wrong)
            end
            for _, wrong in ipairs {5, {}, e} do raises("BAD_ARGUMENT", "handle", gpu.event_from_ipc, wrong) end
            raises("NO_DEVICE", "does not see", gpu.event_from_ipc, (handle:gsub("^gpuwb1:event:%x*[host]*", "gpuwb1:event:" .. ("0"):rep(32))))
            for i = 1, #handle do pcall(gpu.event_from_ipc, handle:sub(1, i)) end
        end)
    end)
end)
