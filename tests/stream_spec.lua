-- SPDX-License-Identifier: MIT
-- Streams, events, the ordering by data, and the lifetime of what streams use.
local gpu = require "gpuwb"
local ffi = require "ffi"
local helper = require "tests.helper"
local raises = helper.raises

helper.each_device(function(name)
    describe("a stream", function()
        it("runs its work later, in order", function()
            local s = gpu.stream()
            local m = gpu.mat(64, 64, "u8", {fill = 0})
            gpu.synchronize()
            assert.is_true(s:query())
            s:sleep(60)
            m:fill(1, {stream = s})
            m:fill(2, {stream = s})
            assert.is_false(s:query())
            assert.is_true(m:is_pending())
            s:synchronize()
            assert.is_true(s:query())
            assert.is_false(m:is_pending())
            assert.equal(2, (m:at(63, 63)))
        end)

        it("returns from an upload, and from copies of page-locked memory, before the work is done (T3)", function()
            local s = gpu.stream()
            local m, h, back = gpu.mat(512, 512, "u8"), gpu.host_mat(512, 512, "u8", {fill = 3}), gpu.host_mat(512, 512, "u8", {fill = 0})
            local bytes = helper.bytes(512 * 512)
            h:wait()
            back:wait()
            m:upload(bytes, {stream = s})       -- the first one may make staging memory
            s:synchronize()
            s:sleep(100)
            m:upload(bytes, {stream = s})
            assert.is_false(s:query())
            if name ~= "host" then
                gpu.copy(m, h, {stream = s})
                gpu.copy(back, m, {stream = s})
                assert.is_false(s:query())
                assert.equal(3, (back:at(511, 511)))
            else
                assert.equal(bytes, m:download())
            end
        end)

        it("is waited for by whoever reads what it copies to the host (T4)", function()
            local s = gpu.stream {blocking = false}
            local m, h = gpu.mat(300, 200, "u8", {fill = 6}), gpu.host_mat(300, 200, "u8", {fill = 0})
            for _, read in ipairs {function() return (h:at(299, 199)) end, function() return h:download():byte(60000) end,
                                   function() return ffi.cast("uint8_t *", h:wait().data)[199 * h.step + 299] end} do
                h:fill(0):wait()
                s:sleep(20)
                gpu.copy(h, m, {stream = s})
                assert.equal(6, read())
            end
        end)

        if name ~= "host" then
            it("is behind CUDA's legacy stream, or beside it with blocking = false (T6) #legacy", function()
                local legacy = gpu.wrap_stream(1)
                for _, blocking in ipairs {true, false} do
                    local s = gpu.stream {blocking = blocking}
                    s:sleep(200)
                    legacy:sleep(1)
                    legacy:synchronize()
                    assert.equal(blocking, s:query())
                    s:synchronize()
                end
            end)
        end

        it("has a handle that cannot be written", function()
            local s = gpu.stream()
            assert.is_true(ffi.istype("void *", s.handle))
            raises("READ_ONLY", "handle", function() s.handle = nil end)
            assert.truthy(tostring(s):find("^stream " .. name .. " 0x"))
            assert.equal(name, s.device)
            assert.is_true(gpu.default_stream() == gpu.default_stream())
            assert.is_false(s == gpu.default_stream())
        end)

        it("takes priorities and options by name", function()
            for _, priority in ipairs {-5, 0, 3} do
                local s = gpu.stream {priority = priority, blocking = false}
                assert.equal(4, (gpu.mat(2, 2, "u8"):fill(4, {stream = s}):at(1, 1)))
            end
            raises("BAD_ARGUMENT", "blocking", gpu.stream, {block = true})
            raises("BAD_ARGUMENT", "priority", gpu.stream, {priority = "high"})
        end)

        it("is closed once, and used no more", function()
            local s = gpu.stream()
            local m = gpu.mat(32, 32, "u8")
            s:sleep(10)
            m:fill(9, {stream = s})
            s:close()
            s:close()
            assert.equal("stream (closed)", tostring(s))
            raises("CLOSED", "stream", m.fill, m, 1, {stream = s})
            raises("CLOSED", "stream", s.synchronize, s)
            raises("CLOSED", "", function() return s.handle end)
            assert.equal(9, (m:at(31, 31)))
        end)

        it("is checked wherever one is named", function()
            local m = gpu.mat(2, 2, "u8")
            for _, wrong in ipairs {5, "x", {}, m, io.stdout, ffi.new("int[1]")} do
                raises("BAD_ARGUMENT", "stream", m.fill, m, 1, {stream = wrong})
                raises("BAD_ARGUMENT", "", gpu.stream().wait, gpu.stream(), wrong)
                raises("BAD_ARGUMENT", "stream", gpu.stream().synchronize, wrong)
            end
            raises("BAD_ARGUMENT", "sleep", gpu.stream().sleep, gpu.stream(), -1)
            raises("BAD_ARGUMENT", "sleep", gpu.stream().sleep, gpu.stream(), 0 / 0)
        end)
    end)

    describe("ordering by data", function()
        it("makes a reader on another stream wait for the writer", function()
            local a, b = gpu.stream {blocking = false}, gpu.stream {blocking = false}
            for i = 1, 10 do
                local src, dst = gpu.mat(100, 50, "u8", {fill = 0}), gpu.mat(100, 50, "u8")
                a:sleep(5)
                src:fill(i, {stream = a})
                gpu.copy(dst, src, {stream = b})
                assert.equal(string.char(i):rep(5000), dst:download())
            end
        end)

        it("makes a writer on another stream wait for the readers", function()
            local a, b, c = gpu.stream {blocking = false}, gpu.stream {blocking = false}, gpu.stream {blocking = false}
            for i = 1, 10 do
                local src, one, two = gpu.mat(100, 50, "u8", {fill = i}), gpu.mat(100, 50, "u8"), gpu.mat(100, 50, "u8")
                a:sleep(5)
                b:sleep(3)
                gpu.copy(one, src, {stream = a})
                gpu.copy(two, src, {stream = b})
                src:fill(99, {stream = c})
                assert.equal(string.char(i):rep(5000), one:download())
                assert.equal(string.char(i):rep(5000), two:download())
                assert.equal(99, (src:at(99, 49)))
            end
        end)

        it("lets streams that share nothing run side by side", function()
            local a, b = gpu.stream {blocking = false}, gpu.stream {blocking = false}
            local m = gpu.mat(8, 8, "u8", {fill = 0})
            m:wait()
            a:sleep(200)
            m:fill(5, {stream = b})
            b:synchronize()
            assert.equal(5, (m:at(0, 0)))
            assert.is_false(a:query())
            a:synchronize()
        end)

        it("waits for streams and events that are named", function()
            local a, b = gpu.stream {blocking = false}, gpu.stream {blocking = false}
            a:sleep(40)
            b:wait(a)
            b:synchronize()
            assert.is_true(a:query())
            a:sleep(40)
            local e = a:record()
            a:sleep(60)
            b:wait(e)
            b:synchronize()
            assert.is_true(e:query())
            assert.is_false(a:query())
            a:synchronize()
        end)

        it("knows of foreign work that a script tells it", function()
            local s = gpu.stream {blocking = false}
            local m = gpu.mat(8, 8, "u8", {fill = 1})
            m:wait()
            s:sleep(50)
            assert.is_true(rawequal(m, m:record_stream(s, "read")))
            m:fill(2)
            m:wait()
            assert.is_true(s:query())
            raises("BAD_ARGUMENT", "read, write", m.record_stream, m, s, "both")
            raises("BAD_ARGUMENT", "stream", m.record_stream, m)
        end)

        it("keeps the work that it knew of before", function()
            local s, other = gpu.stream {blocking = false}, gpu.stream {blocking = false}
            local m = gpu.mat(8, 8, "u8", {fill = 1})
            s:sleep(50)
            m:fill(2, {stream = s})
            m:record_stream(other)
            assert.equal(2, (m:at(7, 7)))
            assert.is_true(s:query())
        end)
    end)

    describe("lifetime", function()
        it("of a mat dropped while its work runs is the work's (T1)", function()
            local s = gpu.stream {blocking = false}
            local keep = {}
            for i = 1, 200 do
                local src, dst = gpu.mat(64, 64, "u8"), gpu.mat(64, 64, "u8")
                if i % 20 == 1 then
                    s:sleep(3)
                end
                src:fill(i, {stream = s})
                gpu.copy(dst, src, {stream = s})
                src = nil
                if i % 10 == 0 then
                    collectgarbage()
                end
                gpu.mat(64, 64, "u8", {fill = 255})     -- must not get the memory that is still read
                keep[i] = dst
            end
            for i = 1, 200 do
                assert.equal(string.char(i):rep(4096), keep[i]:download())
            end
        end)

        it("holds when one stream releases what another one uses", function()
            local a, b = gpu.stream {blocking = false}, gpu.stream {blocking = false}
            for i = 1, 50 do
                local m, copy = gpu.mat(128, 128, "u8"), gpu.mat(128, 128, "u8")
                m:fill(i, {stream = a})
                b:sleep(1)
                gpu.copy(copy, m, {stream = b})
                m:close()
                local next_one = gpu.mat(128, 128, "u8")
                next_one:fill(200, {stream = a})
                assert.equal(string.char(i):rep(16384), copy:download())
            end
        end)

        it("lets mats go in any order (T7)", function()
            local random = helper.random(7)
            for _ = 1, 20 do
                local list = {}
                for i = 1, 12 do
                    list[i] = gpu.mat(1 + random(300), 1 + random(200), "u8", {fill = i})
                end
                while #list > 0 do
                    local i = 1 + random(#list)
                    assert.is_true((list[i]:at(0, 0)) > 0)
                    table.remove(list, i):close()
                end
            end
        end)

        it("of many mats that nobody releases stays within bounds (T13)", function()
            gpu.trim()
            collectgarbage()
            collectgarbage()
            require("gpuwb.cdef").C.gwb_collected()     -- what lived in earlier specs does not count
            local before, most = gpu.memory().used, 0
            for _ = 1, 1000 do
                gpu.mat(8192, 8192, "u8")
                most = math.max(most, gpu.memory().used)
            end
            assert.is_true(most - before < 2 ^ 30, "the collector does not see the mats")
        end)

        it("gives all memory back (T8)", function()
            collectgarbage()
            collectgarbage()
            gpu.synchronize()
            gpu.trim()
            local start = gpu.memory()
            for i = 1, 300 do
                local m = gpu.mat(500, 500, "u8x3", {fill = i % 256})
                m:roi(1, 1, 5, 5):close()
                m:close()
            end
            gpu.trim()
            local now = gpu.memory()
            assert.equal(start.used, now.used)
            assert.equal(0, now.cached)
        end)
    end)

    describe("gpu.limit", function()
        it("bounds the bytes of mats and says so, after a collection was tried", function()
            collectgarbage()
            collectgarbage()
            gpu.trim()
            local used = gpu.memory().used
            gpu.limit(used + 2 ^ 24)
            local ok, err = pcall(function()
                local m = gpu.mat(3000, 3000, "u8")     -- 9 MB
                m = nil                                 -- luacheck: ignore
                m = gpu.mat(3000, 3000, "u8", {fill = 1})
                assert.equal(1, (m:at(0, 0)))
                raises("OUT_OF_MEMORY", {"limit", "gpu.limit"}, gpu.mat, 3000, 3000, "u8")
                m:close()
                assert.equal(2, (gpu.mat(3000, 3000, "u8", {fill = 2}):at(0, 0)))
            end)
            gpu.limit(0)
            assert(ok, tostring(err))
            assert.equal(0, gpu.memory().limit)
            raises("BAD_ARGUMENT", "bytes", gpu.limit, -1)
            raises("BAD_ARGUMENT", "bytes", gpu.limit, 0 / 0)
        end)

        it("leaves a workbench that works after memory ran out", function()
            raises("OUT_OF_MEMORY", "", gpu.mat, 2 ^ 31 - 1, 2 ^ 20, "u8")
            assert.equal(6, (gpu.mat(3, 3, "u8", {fill = 6}):at(2, 2)))
        end)
    end)

    describe("an event", function()
        it("tells when it is reached, and how long it took", function()
            local s, e1, e2 = gpu.stream(), gpu.event(), gpu.event()
            assert.is_true(e1:query())
            s:record(e1)
            s:sleep(50)
            assert.is_true(rawequal(e2, s:record(e2)))
            assert.is_false(e2:query())
            e2:synchronize()
            assert.is_true(e2:query())
            local ms = gpu.elapsed(e1, e2)
            assert.is_true(ms >= 45 and ms < 2000, tostring(ms))
            assert.is_true(gpu.elapsed(e1, e1) == 0)
        end)

        it("says what is missing", function()
            local s, e, never, plain = gpu.stream(), gpu.event(), gpu.event(), gpu.event {timing = false}
            s:record(e)
            s:record(plain)
            raises("NOT_READY", "second", gpu.elapsed, e, never)
            raises("NOT_READY", "first", gpu.elapsed, never, e)
            raises("BAD_ARGUMENT", "timing=true", gpu.elapsed, e, plain)
            raises("BAD_ARGUMENT", "event", gpu.elapsed, e, 5)
            raises("BAD_ARGUMENT", "event", e.synchronize, s)
            e:close()
            e:close()
            raises("CLOSED", "event", e.query, e)
            raises("CLOSED", "event", s.record, s, e)
        end)

        it("may be recorded again, also while it is pending", function()
            local s, e = gpu.stream(), gpu.event()
            for _ = 1, 50 do
                s:sleep(0.2)
                s:record(e)
            end
            e:synchronize()
            assert.is_true(s:query())
        end)
    end)
end)

describe("devices", function()
    it("are listed, the host always", function()
        local list = gpu.devices()
        local host = list[#list]
        assert.equal("host", host.name)
        assert.equal("host", host.kind)
        assert.is_true(host.memory > 2 ^ 28)
        assert.is_true(host.units >= 1)
    end)

    it("are chosen by name", function()
        local before = gpu.device()
        assert.equal("host", gpu.device("host"))
        raises("BAD_ARGUMENT", {"\"gpu9\"", "cuda:N"}, gpu.device, "gpu9")
        raises("NO_DEVICE", "cuda:99", gpu.device, "cuda:99")
        raises("BAD_ARGUMENT", "string", gpu.device, 1)
        assert.equal("host", gpu.device())
        gpu.device(before)
    end)

    it("are current for the time of a function, also when it fails", function()
        local before = gpu.device()
        assert.same({"host", 1, nil, 3}, {gpu.on("host", function(...) return gpu.device(), ... end, 1, nil, 3)})
        raises("BAD_ARGUMENT", "width", gpu.on, "host", function() gpu.mat(-1, 1, "u8") end)
        assert.is_false(pcall(gpu.on, "host", error, "plain"))
        assert.equal(before, gpu.device())
        raises("BAD_ARGUMENT", "function", gpu.on, "host", 5)
        local co = coroutine.create(function() gpu.on("host", function() coroutine.yield(1) end) end)
        local ok, err = coroutine.resume(co)
        assert.same({false, "UNSUPPORTED", before, "dead"}, {ok, err.code, gpu.device(), coroutine.status(co)})
        assert.same({2, 3}, {gpu.on("host", function() return coroutine.wrap(function() coroutine.yield(2) end)(), 3 end)})
    end)

    it("name the reason where there is no cuda", function()
        local why = gpu.why_no_cuda()
        if #gpu.devices() > 1 then
            assert.is_nil(why)
        else
            assert.is_true(#why > 10)
            raises("NO_DEVICE", why, gpu.device, "cuda")
        end
    end)

    it("refuse each other's streams", function()
        if #helper.devices() > 1 then
            local s, m = gpu.stream {device = "host"}, gpu.mat(2, 2, "u8", {device = "cuda:0"})
            raises("BAD_ARGUMENT", {"host", "cuda:0"}, m.fill, m, 1, {stream = s})
            local other = gpu.stream {device = "cuda:0"}
            local h = gpu.mat(2, 2, "u8", {device = "host"})
            raises("BAD_ARGUMENT", {"host", "cuda:0"}, h.fill, h, 1, {stream = other})
            s:sleep(20)
            other:wait(s)
            s:wait(other)
            s:synchronize()
        end
        raises("BAD_ARGUMENT", "CUDA", gpu.wrap_stream, ffi.new("int[1]"), {device = "host"})
    end)
end)
