-- SPDX-License-Identifier: MIT
-- Recorded streams: what is recorded, what holds and orders the memory, new mats for the same operations, and what does not go.
local gpu = require "gpuwb"
local helper = require "tests.helper"

helper.each_device(function(device)
    describe("a graph", function()
        local s
        before_each(function() s = gpu.stream() end)
        after_each(function() s:close() end)

        -- A stream of a device or driver that cannot record says so once, and the specs have nothing to ask.
        local function capture(fn)
            local ok, graph = pcall(s.capture, s, fn)
            if not ok and graph.code == "UNSUPPORTED" and tostring(graph):find("driver", 1, true) then
                pending(tostring(graph))
                return nil
            end
            assert(ok, graph)
            return graph
        end

        it("does at each launch what was recorded, and nothing before", function()
            local a, b = gpu.mat(37, 11, "u8", {fill = 3}), gpu.mat(37, 11, "u8", {fill = 0})
            local graph = capture(function(stream)
                assert.equal(s, stream)
                gpu.copy(b, a, {stream = stream})
            end)
            if not graph then return end
            assert.equal(0, b:at(36, 10))
            for value = 5, 7 do
                a:fill(value)               -- on another stream: the launch waits for it
                graph:launch()
                assert.equal(value, b:at(36, 10))
            end
            assert.matches("^graph " .. device .. " 1 operation over 2 allocations$", tostring(graph))
        end)

        it("records fills, copies of regions, conversions and pipelines in their order", function()
            local img = gpu.image("nv12", 64, 34, {matrix = "bt709", range = "limited"})
            local rgb, small = gpu.image("rgb24", 64, 34), gpu.mat(16, 8, "u8x3")
            local p = gpu.pipe():convert("rgb24"):crop(3, 1, 32, 16):resize(16, 8, {antialias = false})
            local out = p(img)
            img.planes[2]:fill {90, 170}
            local planes = gpu.mat(64, 34, "u8", {fill = 0})
            local graph = capture(function(stream)
                planes:roi(5, 2, 20, 9):fill(77, {stream = stream})
                gpu.copy(img.planes[1], planes, {stream = stream})
                img:convert("rgb24", {out = rgb, stream = stream})
                p(img, {out = out, stream = stream})
                gpu.copy(small, out.planes[1], {stream = stream})
            end)
            if not graph then return end
            for _, value in ipairs {0, 200} do
                planes:fill(value)
                graph:launch()
                local want = gpu.mat(64, 34, "u8", {fill = value})
                want:roi(5, 2, 20, 9):fill(77)
                local copy = gpu.image_from("nv12", {want, img.planes[2]}, {matrix = "bt709", range = "limited"})
                assert.equal(copy:convert("rgb24").planes[1]:download(), rgb.planes[1]:download())
                assert.equal(p(copy).planes[1]:download(), small:download())
            end
        end)

        it("runs on another stream, and many times in a row #script", function()
            local a, b, other = gpu.mat(1000, 100, "u32", {fill = 1}), gpu.mat(1000, 100, "u32", {fill = 0}), gpu.stream()
            local k = pcall(gpu.kernel, "__global__ void empty() {}") and gpu.kernel [[
                __global__ void add(unsigned *to, const unsigned *from, int n)
                {
                    const int i = blockIdx.x * blockDim.x + threadIdx.x;
                    if (i < n) to[i] += from[i];
                }]]
            if not k then return pending("needs a compiler of kernels") end
            local n = a.step / 4 * 100
            local graph = capture(function(stream) k.add {grid = math.ceil(n / 256), block = 256, stream = stream, args = {b, a, n}} end)
            if not graph then return end
            k:close()                       -- the graph still has it
            for i = 1, 50 do
                graph:launch(i % 2 == 0 and other or nil)
            end
            assert.equal(50, b:at(999, 99))
            assert.equal(50, b:at(0, 0))
        end)

        it("takes other mats in place of the recorded ones", function()
            local a, b = {}, {}
            for i = 1, 3 do
                a[i], b[i] = gpu.mat(9, 5, "u16", {fill = 100 * i}), gpu.mat(9, 5, "u16", {fill = 0})
            end
            local function from(i)
                return function(stream)
                    gpu.copy(b[i], a[i], {stream = stream})
                    b[i]:row(0):fill(i, {stream = stream})
                end
            end
            local graph = capture(from(1))
            if not graph then return end
            graph:launch()
            for i = 2, 3 do
                graph:update(from(i)):launch()
            end
            for i = 1, 3 do
                assert.same({i, 100 * i}, {b[i]:at(8, 0), (b[i]:at(8, 1))})
            end
            -- of other operations too; and an error changes nothing
            graph:update(function(stream) b[1]:fill(9, {stream = stream}) end):launch()
            assert.equal(9, b[1]:at(8, 4))
            assert.has_error(function() graph:update(function() error("stop", 0) end) end, "stop")
            b[1]:fill(0)
            graph:launch()
            assert.equal(9, b[1]:at(8, 4))
        end)

        it("holds the memory that it uses", function()
            local b = gpu.mat(50, 20, "u8", {fill = 0})
            local graph
            do
                local a = gpu.mat(50, 20, "u8", {fill = 42})
                graph = capture(function(stream) gpu.copy(b, a, {stream = stream}) end)
                if not graph then return end
                a:close()
            end
            collectgarbage()
            collectgarbage()
            local other = gpu.mat(50, 20, "u8", {fill = 1})     -- would take the place of what is free
            graph:launch()
            assert.equal(42, b:at(49, 19))
            assert.equal(1, other:at(0, 0))
            local before = gpu.memory().used
            graph:close()
            graph:close()
            assert.is_true(gpu.memory().used < before)
            assert.equal(42, b:at(49, 19))
            helper.raises("CLOSED", "closed", graph.launch, graph)
            assert.equal("graph (closed)", tostring(graph))
        end)

        it("refuses in there what waits for the stream, and goes on", function()
            local a, host, other, event = gpu.mat(8, 8, "u8", {fill = 5}), gpu.host_mat(8, 8, "u8"), gpu.stream(), gpu.event()
            local b, tried = gpu.mat(8, 8, "u8", {fill = 0}), 0
            local function refused(fn, ...)
                helper.raises("UNSUPPORTED", "record", fn, ...)
                tried = tried + 1
            end
            local graph = capture(function(stream)
                refused(stream.synchronize, stream)
                refused(stream.query, stream)
                refused(stream.record, stream, event)
                refused(stream.wait, stream, other)
                refused(other.wait, other, stream)
                refused(stream.wait, stream, gpu.event())
                refused(a.download, a, {stream = stream})
                refused(a.upload, a, ("x"):rep(64), {stream = stream})
                refused(stream.capture, stream, function() end)
                assert.equal(5, a:at(0, 0))     -- what another stream has is not touched
                gpu.copy(b, a, {stream = stream})
                gpu.copy(host, b, {stream = stream})
            end)
            if not graph then return end
            assert.equal(9, tried)
            graph:launch()
            s:synchronize()
            assert.equal(5, host:at(7, 7))
            a:upload(("x"):rep(64), {stream = s})
            assert.equal(("x"):rep(64), a:download {stream = s})
        end)

        it("gives no result of what is recorded, on the default stream too", function()
            local a, b = gpu.mat(8, 8, "u8", {fill = 5}), gpu.mat(8, 8, "u8", {fill = 1})
            gpu.synchronize()
            local graph = capture(function(stream)
                b:fill(2, {stream = stream})
                for name, read in pairs {at = function() return b:at(0, 0) end, download = function() return b:download() end, wait = function() b:wait() end,
                                         table = function() return b:totable() end, file = function() return gpu.encode(b, "png") end} do
                    assert.truthy(helper.raises("UNSUPPORTED", "record", read), name)
                end
                assert.equal(5, a:at(0, 0))
            end)
            if not graph then return end
            assert.equal(2, graph:launch() and b:at(0, 0))
        end)

        it("refuses on the default stream what waits without naming one, but not a pipeline's first run #kernels", function()
            local a, b, d = gpu.mat(8, 8, "u8", {fill = 5}), gpu.mat(8, 8, "u8", {fill = 2}), gpu.default_stream()
            gpu.synchronize()
            s:close()
            s = d
            local graph = capture(function()
                a:fill(7)
                helper.raises("UNSUPPORTED", "record", gpu.reduce, b, "sum")
                helper.raises("UNSUPPORTED", "record", a.at, a, 0, 0)
            end)
            s = gpu.stream()
            if not graph then return end
            assert.equal(128, gpu.reduce(b, "sum"))
            assert.equal(5, (a:at(0, 0)))
            graph:launch()
            assert.equal(7, (a:at(0, 0)))
            local out, p = gpu.mat(5, 3, "u8"), gpu.pipe():resize(5, 3, "lanczos3")     -- whose weights are made meanwhile
            d:capture(function() p(b, {out = out}) end):launch()
            assert.equal(2, (out:at(4, 2)))
        end)

        it("is refused to other wrappers of its stream", function()
            if device == "host" then return pending "needs a cuda device" end
            local a, b, w = gpu.mat(8, 8, "u8", {fill = 1}), gpu.mat(8, 8, "u8", {fill = 1}), gpu.wrap_stream(s.handle, {owner = s})
            b:fill(3, {stream = w})
            local graph = capture(function(stream)
                for _, use in ipairs {function() w:synchronize() end, function() w:query() end, function() a:fill(4, {stream = w}) end,
                                      function() w:capture(function() end) end, function() s:wait(w) end, function() a:record_stream(w) end} do
                    helper.raises("UNSUPPORTED", "record", use)
                end
                assert.equal(3, (b:at(0, 0)))
                a:fill(2, {stream = stream})
            end)
            if not graph then return end
            graph:launch(w)
            assert.equal(2, (a:at(7, 7)))
            w:close()
        end)

        it("bears its function's closing it, a reset, and a coroutine that is dropped", function()
            local a = gpu.mat(8, 8, "u8", {fill = 1})
            local function fill(stream) a:fill(2, {stream = stream}) end
            local graph = capture(fill)
            if not graph then return end
            helper.raises("CLOSED", "closed", graph.update, graph, function(stream)
                graph:close()
                fill(stream)
            end)
            graph = s:capture(fill)
            coroutine.wrap(function() graph:update(function(stream)
                fill(stream)
                coroutine.yield()
            end) end)()
            helper.raises("UNSUPPORTED", "recording", s.synchronize, s)
            collectgarbage()
            collectgarbage()
            s:synchronize()
            assert.equal(2, graph:launch() and a:at(7, 7))
            helper.raises("CLOSED", "reset", s.capture, s, function(stream)
                fill(stream)
                gpu.reset(device)
            end)
            helper.raises("CLOSED", "reset", graph.launch, graph)
            assert.equal(3, gpu.mat(4, 4, "u8", {fill = 3}):at(3, 3))
        end)

        it("is none where nothing was recorded, or the function fails", function()
            local a = gpu.mat(4, 4, "u8", {fill = 1})
            if not capture(function(stream) a:fill(2, {stream = stream}) end) then return end
            helper.raises("BAD_ARGUMENT", "stream = s", s.capture, s, function() a:fill(3) end)
            assert.equal(3, a:at(0, 0))
            assert.has_error(function() s:capture(function() error("no", 0) end) end, "no")
            for _, bad in ipairs {1, "x", {}, false} do
                helper.raises("BAD_ARGUMENT", "function", s.capture, s, bad)
            end
            helper.raises("BAD_ARGUMENT", "stream", s.capture, 1, print)
            local graph = s:capture(function(stream) a:fill(4, {stream = stream}) end)
            helper.raises("BAD_ARGUMENT", "stream", graph.launch, graph, 1)
            helper.raises("BAD_ARGUMENT", "graph", graph.launch, {})
            helper.raises("BAD_ARGUMENT", "graph", graph.close, s)
            local late = gpu.stream()
            graph = late:capture(function(stream) a:fill(4, {stream = stream}) late:close() end)
            helper.raises("CLOSED", "closed", graph.launch, graph)
            graph:launch(s)
            assert.equal(4, a:at(3, 3))
        end)
    end)
end)
