-- SPDX-License-Identifier: MIT
-- Looking at work: differences, times, live mats, scopes, traces.
local gpu = require "gpuwb"
local json = require "dkjson"
local helper = require "tests.helper"
local command = require "tests.command_helper"
local raises = helper.raises

helper.each_device(function(name)
    describe("gpu.diff", function()
        it("finds what differs, first in the order of rows", function()
            for _, kind in ipairs {"u8", "i8", "u16", "i16", "u32", "i32", "f16", "f32", "f64", "u8x3", "f32x2"} do
                local random = helper.random(7)
                for _, size in ipairs {{1, 1}, {7, 5}, {64, 3}, {33, 31}} do
                    local w, h = size[1], size[2]
                    local a = gpu.mat(w, h, kind, {fill = 5})
                    local b = a:clone {packed = true}
                    assert.same({0, 0, math.huge, 0}, {gpu.diff(a, b).max, gpu.diff(a, b).mean, gpu.diff(a, b).psnr, gpu.diff(a, b).count})
                    assert.is_nil(gpu.diff(a, b).first)
                    local x, y = random(w), random(h)
                    b:roi(x, y, 1, 1):fill(8)
                    b:roi(w - 1, h - 1, 1, 1):fill(9)
                    local d, last = gpu.diff(a, b), x == w - 1 and y == h - 1
                    assert.same({x = x, y = y, c = 0, plane = 1}, d.first)
                    assert.equal(a.channels * (last and 1 or 2), d.count)
                    assert.equal(4, d.max)
                    assert.near((last and 4 or 7) / (w * h), d.mean, 1e-12)
                    assert.equal(w * h * a.channels, d.samples)
                end
            end
        end)

        it("gives the signal to noise ratio of the type, the depth or a peak", function()
            local a, b = gpu.mat(4, 4, "u8", {fill = 0}), gpu.mat(4, 4, "u8", {fill = 1})
            assert.near(20 * math.log10(255), gpu.diff(a, b).psnr, 1e-9)
            assert.near(20 * math.log10(100), gpu.diff(a, b, {peak = 100}).psnr, 1e-9)
            for format, peak in pairs {yuv420p10le = 1023, p010le = 65472, gray16le = 65535, gbrpf32le = 1, rgb24 = 255} do
                local p, q = gpu.image(format, 6, 4), gpu.image(format, 6, 4)
                for i = 1, #p.planes do
                    p.planes[i]:fill(0)
                    q.planes[i]:fill(1)
                end
                assert.near(20 * math.log10(peak), gpu.diff(p, q).psnr, 1e-9)
            end
        end)

        it("names the plane, and tells itself", function()
            local a = gpu.image("yuv420p", 7, 5)
            for i = 1, 3 do a.planes[i]:fill(9) end
            local b = a:clone()
            assert.equal("equal, all 59 samples", tostring(gpu.diff(a, b)))
            b.planes[2]:roi(1, 2, 1, 1):fill(7)
            assert.same({x = 1, y = 2, c = 0, plane = 2}, gpu.diff(a, b).first)
            assert.equal("1 of 59 samples differ, by 2 at most and 0.0338983 in the mean, PSNR 59.82 dB; the first at x 1, y 2, channel 0 of plane 2",
                tostring(gpu.diff(a, b)))
        end)

        it("counts a NaN on one side, and takes two for equal", function()
            local a, b = gpu.mat(3, 1, "f32"):upload {0 / 0, 0 / 0, 1 / 0}, gpu.mat(3, 1, "f32"):upload {0 / 0, 1, 1 / 0}
            local d = gpu.diff(a, b)
            assert.same({1, 1, 0, 0, 1}, {d.count, d.nan, d.max, d.mean, d.first.x})
            assert.truthy(tostring(d):find("1 have a NaN"))
        end)

        it("takes mats of nothing, of several devices, and says what does not fit", function()
            assert.equal(0, gpu.diff(gpu.mat(0, 3, "u8"), gpu.mat(0, 3, "u8")).count)
            local a = gpu.mat(5, 4, "u16", {fill = 3})
            assert.equal(0, gpu.diff(a, a:to("host")).count)
            raises("SHAPE", {"gpu.diff", "5x4"}, gpu.diff, a, gpu.mat(4, 5, "u16"))
            raises("SHAPE", "u8", gpu.diff, a, gpu.mat(5, 4, "u8"))
            raises("SHAPE", "convert one", gpu.diff, gpu.image("gray", 4, 4), gpu.image("rgb24", 4, 4))
            raises("UNSUPPORTED", "rgb565le", gpu.diff, gpu.image("rgb565le", 4, 4), gpu.image("rgb565le", 4, 4))
            raises("BAD_ARGUMENT", "b must be a mat", gpu.diff, a, 5)
            raises("BAD_ARGUMENT", "a must be a mat", gpu.diff)
            raises("BAD_ARGUMENT", "peak", gpu.diff, a, a, {peak = "x"})
            raises("BAD_ARGUMENT", "known: peak", gpu.diff, a, a, {peek = 1})
        end)
    end)

    describe("gpu.time", function()
        it("times the stream's work and the whole", function()
            local s = gpu.stream()
            local t = gpu.time(function() s:sleep(5) end, {n = 4, stream = s})
            assert.equal(4, t.n)
            for _, which in ipairs {"device", "wall"} do
                local m = t[which]
                assert.truthy(m.min >= 4 and m.min <= m.median and m.median <= m.max and m.max < 1000, which .. " " .. tostring(t))
            end
            assert.truthy(tostring(t):find("^device %d+%.%d+ ms %(.*%), wall .*, 4 runs$"))
        end)

        it("runs often enough by itself, once more to warm up", function()
            local runs = 0
            local t = gpu.time(function() runs = runs + 1 end)
            assert.equal(runs - 1, t.n)
            assert.truthy(t.n >= 5 and t.n <= 1000)
            assert.equal(5, gpu.time(function() gpu.default_stream():sleep(60) end).n)
        end)

        it("keeps many times", function()
            local t = gpu.time(function() end, {n = 20000})
            assert.equal(20000, t.n)
            assert.truthy(t.wall.min <= t.wall.median and t.wall.median <= t.wall.max)
        end)

        it("passes errors on, refuses nonsense", function()
            local ok, why = pcall(gpu.time, function() error("stop", 0) end)
            assert.same({false, "stop"}, {ok, why})
            raises("BAD_ARGUMENT", "fn", gpu.time)
            raises("BAD_ARGUMENT", "n must be", gpu.time, print, {n = 0})
            raises("BAD_ARGUMENT", "stream", gpu.time, print, {stream = 1})
        end)
    end)

    describe("gpu.who", function()
        it("lists the live mats with where they were made and which global holds them", function()
            local function entries()
                local found = {}
                for _, e in ipairs(gpu.who()) do
                    if e.width == 123 and e.device == name then found[#found + 1] = e end
                end
                return found
            end
            assert.same({}, entries())
            local m = gpu.mat(123, 45, "u8", {packed = true})
            local v = m:rows(2, 3)
            rawset(_G, "who_test", {m})
            local found = entries()
            rawset(_G, "who_test", nil)
            assert.equal(2, #found)
            assert.same({name = "who_test[1]", width = 123, height = 45, type = "u8", bytes = 5535, view = false, device = name, readonly = false,
                         where = found[1].where}, found[1])
            assert.truthy(found[1].where:find("workbench_spec.lua:%d+$"))
            assert.same({true, 3}, {found[2].view, found[2].height})
            assert.truthy(tostring(gpu.who()):find("123x45"))
            v:close()
            assert.equal(1, #entries())
            m:close()
            assert.same({}, entries());
            (function() gpu.mat(123, 45, "u8") end)()
            assert.same({}, entries())
        end)
    end)

    describe("gpu.scope", function()
        it("closes what was made inside and not returned", function()
            local inside = {}
            local a, list, n = gpu.scope(function(...)
                local m = gpu.mat(9, 9, "u8", {fill = 1})
                local img = gpu.image("yuv420p", 8, 8)
                local s, e = gpu.stream(), gpu.event()
                inside = {m = m, img = img, s = s, e = e, kept = gpu.mat(2, 2, "u8", {fill = 3})}
                return m:clone(), {deep = {inside.kept, img}}, select("#", ...)
            end, 1, nil, nil)
            assert.equal(3, n)
            assert.equal(1, a:at(0, 0))
            assert.equal(3, list.deep[1]:at(1, 1))
            assert.equal("mat (closed)", tostring(inside.m))
            assert.equal("stream (closed)", tostring(inside.s))
            assert.equal("event (closed)", tostring(inside.e))
            assert.equal(8, list.deep[2].planes[1].width)
        end)

        it("keeps a view's memory, a pipeline's operands, and what was there before", function()
            local before = gpu.mat(4, 4, "u8", {fill = 2})
            local view, p = gpu.scope(function()
                local m = gpu.mat(16, 16, "u8", {fill = 7})
                before:fill(5)
                return m:roi(3, 3, 4, 4), gpu.pipe():lut({0, 1})
            end)
            assert.equal(7, view:at(1, 1))
            assert.equal(5, before:at(0, 0))
            assert.equal(4, p(before).width)
        end)

        it("nests, and closes all after an error, which passes", function()
            local outer, inner
            local kept = gpu.scope(function()
                outer = gpu.scope(function()
                    inner = gpu.mat(3, 3, "u8", {fill = 1})
                    return gpu.mat(4, 4, "u8", {fill = 1})
                end)
                return gpu.mat(5, 5, "u8", {fill = 6})
            end)
            assert.same({"mat (closed)", "mat (closed)", 6}, {tostring(outer), tostring(inner), kept:at(4, 4)})
            local m
            local ok, why = pcall(gpu.scope, function()
                m = gpu.mat(3, 3, "u8")
                error({code = 5})
            end)
            assert.same({false, {code = 5}, "mat (closed)"}, {ok, why, tostring(m)})
            assert.equal(1, gpu.mat(1, 1, "u8", {fill = 1}):at(0, 0))   -- no scope is left open
            raises("BAD_ARGUMENT", "fn", gpu.scope, 5)
            raises("BAD_ARGUMENT", "fn", gpu.scope, require("ffi").new("int[2]"))
            assert.equal(4, gpu.scope(setmetatable({}, {__call = function(_, x) return x end}), 4))
        end)
    end)

    describe("gpu.scope and coroutines", function()
        it("is in force only while its coroutine, or what that resumes, runs", function()
            local co = coroutine.wrap(function()
                return gpu.scope(function()
                    local inner = gpu.mat(2, 2, "u8", {fill = 1})
                    coroutine.yield(inner)
                    return coroutine.wrap(function() return inner, gpu.mat(3, 3, "u8", {fill = 2}) end)()
                end)
            end)
            local inner = co()
            local outside = gpu.mat(4, 4, "u8", {fill = 3})
            local lost
            gpu.scope(function()
                lost = gpu.mat(5, 5, "u8")
                local kept, made = co()
                assert.same({inner, 2, 3}, {kept, made:at(0, 0), outside:at(0, 0)})
            end)
            assert.same({"mat (closed)", 3}, {tostring(lost), (outside:at(0, 0))})
        end)

        it("keeps nothing alive that is dropped before its end, and closes what gpu.files gives", function()
            local path, last = os.tmpname(), nil
            gpu.save(gpu.mat(64, 64, "u8", {fill = 3}), path, {format = "png"})
            gpu.scope(function()
                local held = setmetatable({}, {__mode = "k"})
                for _ = 1, 5 do
                    held[gpu.mat(4, 4, "u8")] = true
                end
                collectgarbage()
                collectgarbage()
                assert.is_nil(next(held))
                for img in gpu.files {path, path} do
                    last = img.planes[1]
                end
            end)
            os.remove(path)
            assert.equal("mat (closed)", tostring(last))
        end)

        it("goes with a coroutine that is dropped in it", function()
            coroutine.wrap(function() gpu.scope(coroutine.yield) end)()
            local held = setmetatable({}, {__mode = "k"})
            for _ = 1, 2 do
                collectgarbage()
            end
            for _ = 1, 5 do
                held[gpu.mat(4, 4, "u8")] = true
            end
            for _ = 1, 2 do
                collectgarbage()
            end
            assert.is_nil(next(held))
        end)
    end)

    describe("gpu.trace", function()
        local path

        before_each(function() path = os.tmpname() end)
        after_each(function() os.remove(path) end)

        -- The complete events of a trace by category, each checked for what Perfetto needs; and the names of rows.
        local function events()
            local list, position, problem = json.decode(helper.read(path))
            assert.is_nil(problem)
            assert.truthy(position)
            local found, rows = {}, {}
            for _, e in ipairs(list) do
                if e.ph == "X" then
                    assert.truthy(e.ts >= 0 and e.dur >= 0 and e.pid >= 0 and e.name ~= "")
                    found[e.cat] = found[e.cat] or {}
                    table.insert(found[e.cat], e)
                else
                    assert.equal("M", e.ph)
                    rows[#rows + 1] = e.args.name
                end
            end
            return found, table.concat(rows, "\n")
        end

        it("has copies and kernels by stream, with bytes, and the script's ranges", function()
            local s = gpu.stream()
            local a = gpu.mat(100, 50, "u8x3", {packed = true, fill = 1})
            local results = {gpu.trace(path, function(...)
                local b = gpu.mat(100, 50, "u8x3", {packed = true})
                gpu.range('a "range" \\ \n', function() gpu.copy(b, a, {stream = s}) end)
                s:sleep(20)
                b:fill(3)
                return ...
            end, 1, nil, 3)}
            assert.same({1, nil, 3}, results)
            local found, rows = events()
            assert.truthy(rows:find("script\n", 1, true) and rows:find(name .. " ", 1, true) and rows:find("stream ", 1, true))
            assert.equal('a "range" \\ \n', found.range[1].name)
            local copy = found.copy[1]
            assert.equal(15000, copy.args.bytes)
            assert.truthy(copy.args.rows[1] == "1 x 15000 bytes, step 15000 to 15000" or copy.args.rows[1] == "50 x 300 bytes, step 300 to 300")
            assert.truthy(found.wait[1].dur > 15e3 and found.wait[1].dur < 1e6)
            assert.truthy(found.wait[1].ts >= copy.ts + copy.dur - 100)
            assert.equal(copy.tid, found.wait[1].tid)
            local fill = found.kernel[1]
            assert.same({"fill", 15000}, {fill.name, fill.args.bytes_written})
            assert.not_equal(copy.tid, fill.tid)
            assert.truthy(fill.ts >= copy.ts + copy.dur - 100, "ordered by data behind the other stream")
        end)

        it("has conversions, pipelines and reductions with their bytes #kernels", function()
            local a = gpu.mat(100, 50, "u8x3", {packed = true, fill = 1})
            local img = gpu.image("rgb24", 64, 48, {matrix = "bt601", range = "full"})
            gpu.trace(path, function()
                img:convert("yuv420p", {matrix = "bt601", range = "limited"})
                gpu.pipe():resize(32, 24):mul(2)(img)
                gpu.reduce(a, "sum")
            end)
            local names = {}
            for _, e in ipairs(events().kernel) do
                names[e.name] = e.args
            end
            assert.same({"rgb24", "yuv420p", 9216, 4608}, {names.convert.from, names.convert.to, names.convert.bytes_read, names.convert.bytes_written})
            assert.same({32, 24, 1, 9216, 2304}, {names.pipe.width, names.pipe.height, names.pipe.pictures, names.pipe.bytes_read, names.pipe.bytes_written})
            assert.equal(15000, names.reduce.bytes_read)
            local several = gpu.pipe():resize(9, 7, "lanczos3"):to("nchw", "f32")       -- with an intermediate result
            gpu.trace(path, function() several:batch {img, img} end)
            local plan, read, written = several:plan(img), 0, 0
            for _, e in ipairs(events().kernel) do
                assert.same({"pipe", 2}, {e.name, e.args.pictures})
                read, written = read + e.args.bytes_read, written + e.args.bytes_written
            end
            assert.truthy(plan.launches > 1)
            assert.same({2 * plan.bytes_read, 2 * plan.bytes_written}, {read, written})
        end)

        it("has the arguments of a script's kernel", function()
            local ok, k = pcall(gpu.kernel, [[
                __global__ void lighten(gwb_view v, float by, const unsigned char *other, int n) { if (n == -1) v.data[0] = (unsigned char)(other[0] * by); }]])
            if not ok then
                assert.equal("UNSUPPORTED", k.code)
                return pending("no compiler here: " .. tostring(k))
            end
            local m = gpu.mat(33, 7, "u8", {packed = true, fill = 0})
            gpu.trace(path, function() k.lighten {grid = {2, 1}, block = {32, 8}, args = {m, 0.5, m, 4}} end)
            local e = events().kernel[1]
            assert.equal("lighten", e.name)
            assert.same({grid = {2, 1, 1}, block = {32, 8, 1}, shared = 0, bytes = 462,
                         args = {v = "mat 33x7 u8x1 step 33", by = 0.5, other = "mat 33x7 u8x1 step 33", n = 4}}, e.args)
        end)

        it("is whole after an error, and another can follow", function()
            local ok, why = pcall(gpu.trace, path, function()
                gpu.range("outer", function()
                    gpu.mat(8, 8, "u8", {fill = 1})
                    error("stop", 0)
                end)
            end)
            assert.same({false, "stop"}, {ok, why})
            local found = events()
            assert.same({"outer", "fill"}, {found.range[1].name, found.kernel[1].name})
            gpu.trace(path, function() end)
            assert.same({}, (events()))
        end)

        it("ends with a coroutine that is dropped in it", function()
            coroutine.wrap(function()
                gpu.trace(path, function()
                    gpu.mat(8, 8, "u8", {fill = 1})
                    coroutine.yield()
                end)
            end)()
            collectgarbage()
            collectgarbage()
            assert.equal("fill", events().kernel[1].name)
            gpu.trace(path, function() end)
        end)

        it("is whole after os.exit, with the ranges that were open (L19)", function()
            for _, how in ipairs {"os.exit(3)", "os.exit(3, true)"} do
                local code = ([[gpu.device(%q) gpu.trace(%q, function() gpu.range("open", function()
                    local m = gpu.mat(640, 480, "u8", {fill = 1}) gpu.default_stream():sleep(30) m:fill(2) %s end) end)]]):format(name, path, how)
                local result = command.run {"-e", code}
                assert.same({"", 3}, {result.err, result.status})
                local found = events()
                assert.equal("open", found.range[1].name)
                assert.equal(2, #found.kernel)
                assert.equal(1, #found.wait)
            end
        end)

        it("holds many operations", function()
            local m = gpu.mat(3, 3, "u8", {fill = 0})
            gpu.trace(path, function()
                for i = 1, 2000 do m:fill(i % 256) end
            end)
            local list, last = events().kernel, 0
            assert.equal(2000, #list)
            for _, e in ipairs(list) do
                assert.truthy(e.ts >= last - 10, "kernels of one stream in their order")
                last = e.ts
            end
        end)

        it("refuses what makes no sense", function()
            raises("IO", "/no/such/folder", gpu.trace, "/no/such/folder/t.json", print)
            raises("BAD_ARGUMENT", "path", gpu.trace, 5, print)
            raises("BAD_ARGUMENT", "fn", gpu.trace, path)
            raises("BAD_ARGUMENT", {"gpu.trace", "one at a time"}, gpu.trace, path, function() gpu.trace(path .. "2", print) end)
            raises("BAD_ARGUMENT", "name", gpu.range, nil, print)
            raises("BAD_ARGUMENT", "fn", gpu.range, "x")
            assert.equal(4, gpu.range("no trace", function(x) return x end, 4))
            raises("IO", "cannot be written", gpu.trace, "/dev/full", function() end)
        end)
    end)

    it("GPUWB_LOG=debug tells each launch and copy", function()
        local code = ("gpu.device %q local m = gpu.mat(20, 10, 'u8', {packed = true, fill = 1}) m:clone{packed = true}"):format(name)
        local result = command.run({"-e", code}, {env = {GPUWB_LOG = "debug"}})
        assert.equal(0, result.status)
        assert.truthy(result.err:find("gpuwb: " .. name .. ' stream 1: fill {"items":[20,10,1],"bytes_read":0,"bytes_written":200}\n', 1, true), result.err)
        assert.truthy(result.err:find('stream 1: copy {"bytes":200,', 1, true), result.err)
        assert.equal("", command.run({"-e", code}, {env = {GPUWB_LOG = false}}).err)
        assert.truthy(command.run({"-e", code}, {env = {GPUWB_LOG = "all"}}).err:find("wanted debug", 1, true))
    end)
end)
