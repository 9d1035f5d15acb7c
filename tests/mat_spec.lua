-- SPDX-License-Identifier: MIT
-- Mats: shapes, views, pixels in and out, on every device at hand.
local gpu = require "gpuwb"
local ffi = require "ffi"
local bit = require "bit"
local helper = require "tests.helper"
local raises = helper.raises

local TYPES = {"u8", "i8", "u16", "i16", "u32", "i32", "f16", "f32", "f64"}
local SIZE = {u8 = 1, i8 = 1, u16 = 2, i16 = 2, u32 = 4, i32 = 4, f16 = 2, f32 = 4, f64 = 8}

helper.each_device(function(name)
    describe("gpu.mat", function()
        it("has the fields of its shape, for every type and channel count", function()
            for _, t in ipairs(TYPES) do
                for channels = 1, 4 do
                    local kind = channels > 1 and t .. "x" .. channels or t
                    local m = gpu.mat(5, 3, kind)
                    assert.equal(kind, m.type)
                    assert.equal(t, m.dtype)
                    assert.equal(channels, m.channels)
                    assert.equal(SIZE[t] * channels, m.elem_size)
                    assert.equal(SIZE[t], m.itemsize)
                    assert.is_true(m.step >= 5 * m.elem_size)
                    assert.equal(0, m.step % (name == "host" and 64 or 256))
                    assert.equal(15 * m.elem_size, m.bytes)
                    assert.equal(m.bytes, m.nbytes)
                    assert.equal(name, m.device)
                    assert.is_false(m.readonly)
                    assert.same(channels > 1 and {3, 5, channels} or {3, 5}, m.shape)
                    assert.same(channels > 1 and {m.step, m.elem_size, SIZE[t]} or {m.step, SIZE[t]}, m.strides)
                    assert.equal("cdata", type(m.data))
                    assert.is_true(ffi.istype("void *", m.data))
                end
            end
        end)

        it("takes OpenCV's and NumPy's type names", function()
            for given, wanted in pairs {["8UC3"] = "u8x3", CV_8UC3 = "u8x3", CV_32F = "f32", ["32FC1"] = "f32", ["16SC4"] = "i16x4", uint8 = "u8",
                                        ["<u2"] = "u16", ["|u1"] = "u8", float32 = "f32", ["<f8"] = "f64", float16 = "f16", int32 = "i32"} do
                assert.equal(wanted, gpu.mat(2, 2, given).type)
            end
            for _, bad in ipairs {"u9", "u8x5", "u8x0", "", "8UC9", ">u2", "f32 ", 8, true, {}} do
                raises("BAD_ARGUMENT", "element type", gpu.mat, 2, 2, bad)
            end
        end)

        it("refuses sizes that are no whole numbers in range (C14)", function()
            for _, bad in ipairs {-1, 2.5, 2 ^ 31, 2 ^ 53, 0 / 0, 1 / 0, "8", {}, true} do
                raises("BAD_ARGUMENT", {"width", "whole number"}, gpu.mat, bad, 3, "u8")
                raises("BAD_ARGUMENT", {"height", "whole number"}, gpu.mat, 3, bad, "u8")
            end
            raises("BAD_ARGUMENT", "width", gpu.mat)
            raises("OUT_OF_MEMORY", "", gpu.mat, 2 ^ 31 - 1, 2 ^ 31 - 1, "f64x4")
            assert.equal(1, gpu.mat(1, 1, "u8").width)
        end)

        it("lists the options it knows", function()
            raises("BAD_ARGUMENT", {"\"pitch\"", "packed", "align", "fill", "stream"}, gpu.mat, 2, 2, "u8", {pitch = 3})
            raises("BAD_ARGUMENT", "table", gpu.mat, 2, 2, "u8", 5)
            raises("BAD_ARGUMENT", "align", gpu.mat, 2, 2, "u8", {align = 3})
            raises("BAD_ARGUMENT", "exclude", gpu.mat, 2, 2, "u8", {align = 64, packed = true})
            raises("BAD_ARGUMENT", "true or false", gpu.mat, 2, 2, "u8", {packed = 1})
        end)

        it("counts in Lua's numbers, which find their place in a table (L4)", function()
            local m = gpu.mat(5, 3, "u8x3", {packed = true})
            local sizes = {[5] = true, [3] = true, [1] = true, [15] = true, [45] = true}
            for _, field in ipairs {"width", "height", "channels", "elem_size", "itemsize", "step", "bytes", "nbytes"} do
                assert.is_true(sizes[m[field]], field)
            end
            assert.is_number(gpu.memory().used)
        end)

        it("packs, aligns and fills as asked", function()
            assert.equal(15, gpu.mat(5, 2, "u8x3", {packed = true}).step)
            assert.equal(1024, gpu.mat(5, 2, "u8x3", {align = 1024}).step)
            assert.equal(16, gpu.mat(5, 2, "u8x3", {align = 16}).step)
            assert.equal(("\1\2\3"):rep(10), gpu.mat(5, 2, "u8x3", {fill = {1, 2, 3}}):download())
        end)

        it("has zero sizes that hold nothing and do nothing (L6)", function()
            for _, size in ipairs {{0, 5}, {5, 0}, {0, 0}} do
                local m = gpu.mat(size[1], size[2], "u8x3", {fill = 7})
                assert.is_nil(m.data)
                assert.equal("", m:download())
                assert.equal(0, m.bytes)
                m:upload("")
                m:upload({})
                assert.same({}, m:clone():roi(0, 0, 0, 0):download() == "" and {} or {1})
                assert.equal(size[2], #m:totable())
                gpu.copy(m, m:clone())
                assert.equal(3, #m:channels_split())
                assert.equal("f32x3", m:cast("f32").type)
                assert.equal("", m:packed():download())
                raises("BAD_ARGUMENT", "", m.at, m, 0, 0)
            end
        end)

        it("is neither indexed, counted nor assigned", function()
            local m = gpu.mat(2, 2, "u8")
            raises("BAD_ARGUMENT", "m:at(x, y)", function() return m[1] end)
            raises("BAD_ARGUMENT", "m.width", function() return #m end)
            raises("BAD_ARGUMENT", "\"widht\"", function() return m.widht end)
            raises("READ_ONLY", "data", function() m.data = nil end)
        end)

        it("prints itself on one line and compares by memory and shape (L3)", function()
            local m = gpu.mat(4, 3, "u8x3")
            assert.truthy(tostring(m):find("^mat 4x3 u8x3 step %d+ " .. name .. " 0x%x+$"))
            assert.is_true(m == m:roi(0, 0, 4, 3))
            assert.is_false(m == m:roi(0, 0, 3, 3))
            assert.is_false(m == gpu.mat(4, 3, "u8x3"))
            assert.is_true(m.data == m:roi(0, 0, 1, 1).data)
            assert.truthy(("" .. m):find("mat 4x3"))
            assert.truthy(m:layout():find("allocation"))
        end)
    end)

    describe("pixels", function()
        it("go in and out by string, pointer with a step, and list", function()
            local bytes = helper.bytes(7 * 5 * 3)
            local m = gpu.mat(7, 5, "u8x3"):upload(bytes)
            assert.equal(bytes, m:download())
            local dst = ffi.new("uint8_t[?]", 5 * 30)
            ffi.fill(dst, 150, 0xEE)
            assert.equal(dst, m:download(dst, {step = 30}))
            for y = 0, 4 do
                assert.equal(bytes:sub(y * 21 + 1, y * 21 + 21), ffi.string(dst + y * 30, 21))
                assert.equal(("\xEE"):rep(9), ffi.string(dst + y * 30 + 21, 9))
            end
            local again = gpu.mat(7, 5, "u8x3"):upload(dst, {step = 30})
            assert.equal(bytes, again:download())
            local list = gpu.mat(3, 2, "u16"):upload {1, 2, 3, 4, 5, 65535}
            assert.same({{1, 2, 3}, {4, 5, 65535}}, list:totable())
            local nested = gpu.mat(2, 2, "u8x2"):upload {{{1, 2}, {3, 4}}, {{5, 6}, {7, 8}}}
            assert.equal("\1\2\3\4\5\6\7\8", nested:download())
            assert.same({{{1, 2}, {3, 4}}, {{5, 6}, {7, 8}}}, nested:totable())
        end)

        it("keep the host's memory outside the picture as it is (C6)", function()
            local src = ffi.new("uint8_t[?]", 4 * 16)
            ffi.fill(src, 64, 0xEE)
            gpu.mat(5, 4, "u8", {fill = 9}):download(src, {step = 16})
            for y = 0, 3 do
                for x = 0, 15 do
                    assert.equal(x < 5 and 9 or 0xEE, src[y * 16 + x])
                end
            end
        end)

        it("of a source that is dropped at once still arrive (T2)", function()
            local s = gpu.stream()
            local m = gpu.mat(300, 200, "u8")
            for i = 1, 20 do
                s:sleep(1)
                local src = ffi.new("uint8_t[?]", 60000)
                ffi.fill(src, 60000, i)
                m:upload(src, {stream = s})
                ffi.fill(src, 60000, 0xEE)
                src = nil
                collectgarbage()
                assert.equal(string.char(i):rep(60000), m:download())
            end
        end)

        it("are refused where the source or destination is too small or no memory", function()
            local m = gpu.mat(5, 4, "u8")
            raises("BAD_ARGUMENT", {"19 bytes", "20"}, m.upload, m, ("x"):rep(19))
            raises("BAD_ARGUMENT", {"19 bytes", "20"}, m.upload, m, ffi.new("uint8_t[19]"))
            raises("BAD_ARGUMENT", {"19 bytes", "20"}, m.download, m, ffi.new("uint8_t[19]"))
            raises("BAD_ARGUMENT", "step 4 is less than a row of 5", m.upload, m, ffi.new("uint8_t[64]"), {step = 4})
            raises("BAD_ARGUMENT", "NULL", m.upload, m, ffi.cast("uint8_t *", nil))
            raises("BAD_ARGUMENT", "ffi.cast", m.upload, m, 1234567)
            raises("BAD_ARGUMENT", "cdata", m.upload, m, 5ULL)
            raises("BAD_ARGUMENT", "cdata", m.upload, m, io.stdout)
            raises("BAD_ARGUMENT", "cdata", m.download, m, print)
            raises("BAD_ARGUMENT", "3 numbers", m.upload, m, {1, 2, 3})
            raises("BAD_ARGUMENT", {"element 2", "300", "u8"}, m.upload, m, {1, 300})
            raises("BAD_ARGUMENT", {"element 1", "0.5"}, m.upload, m, {0.5})
            raises("BAD_ARGUMENT", "element 1", m.upload, m, {"a"})
        end)

        it("of a picture of 3840x2160 fit into lists (L18)", function()
            local list = gpu.mat(3840, 2160, "u8", {fill = 3}):totable()
            assert.same({2160, 3840, 3}, {#list, #list[2160], list[2160][3840]})
        end)

        it("are read one at a time, x and y from 0", function()
            local m = gpu.mat(3, 2, "i16x3"):upload {{{1, 2, 3}, {4, 5, 6}, {7, 8, 9}}, {{-1, -2, -3}, {-4, -5, -6}, {-7, -8, -32768}}}
            assert.same({4, 5, 6}, {m:at(1, 0)})
            assert.same({-7, -8, -32768}, {m:at(2, 1)})
            for _, bad in ipairs {-1, 3, 0.5, 0 / 0} do
                raises("BAD_ARGUMENT", "x", m.at, m, bad, 0)
            end
            raises("BAD_ARGUMENT", "y", m.at, m, 0, 2)
            local f = gpu.mat(2, 1, "f32"):upload {0 / 0, 1 / 0}
            assert.is_true(f:at(0, 0) ~= f:at(0, 0))
            assert.equal(1 / 0, (f:at(1, 0)))
        end)

        it("survive every type at its limits (L21)", function()
            local limits = {u8 = {0, 255}, i8 = {-128, 127}, u16 = {0, 65535}, i16 = {-32768, 32767}, u32 = {0, 4294967295},
                            i32 = {-2147483648, 2147483647}, f16 = {-65504, 2 ^ -24}, f32 = {-2 ^ 127, 2 ^ -149}, f64 = {-2 ^ 1023, 2 ^ -1074}}
            for t, range in pairs(limits) do
                local m = gpu.mat(2, 1, t):upload(range)
                assert.same(range, {m:at(0, 0), (m:at(1, 0))})
                assert.same({range}, m:totable())
                for i = 1, 2 do
                    assert.equal(range[i], (m:fill(range[i]):at(1, 0)))
                end
            end
            for t, bad in pairs {u8 = {300, -1, 255.9, 0 / 0, 1 / 0}, i8 = {128, -129}, u16 = {65536}, i16 = {32768}, u32 = {2 ^ 32, -1}, i32 = {2 ^ 31},
                                 f16 = {70000}, f32 = {1e300}} do
                local m = gpu.mat(2, 1, t, {fill = 1})
                for _, v in ipairs(bad) do
                    raises("BAD_ARGUMENT", {"does not fit " .. t}, m.fill, m, v)
                end
                assert.equal(1, (m:at(0, 0)))
            end
        end)

        it("are not looked for in a list that holds itself", function()
            local list = {}
            list[1] = list
            raises("BAD_ARGUMENT", "lists within lists", function() gpu.mat(1, 1, "u8"):upload(list) end)
        end)

        it("are not those of a finalizer that runs in between", function()
            local function disturb()
                local m = gpu.mat(3, 3, "u8x2", {packed = true, fill = {7, 8}})
                gpu.merge(m:channels_split()):cast("f32", {scale = 2})
                gpu.copy2d {dst = m, src = m:clone {packed = true}, width = 2, height = 1}
            end
            for i = 1, 400 do
                getmetatable(newproxy(true)).__gc = disturb
                if i % 7 == 0 then
                    collectgarbage("step", 50)
                end
                local m = gpu.mat(16, 4, "u8x3", {fill = {1, 2, 3}})
                assert.is_false(gpu.mat(5, 5, "u8").step == 5)
                local list = m:channels_split()
                assert.same({1, 2, 3}, {gpu.merge(list):at(15, 3)})
                gpu.copy2d {dst = list[1], src = list[3], width = 16, height = 4}
                assert.equal(6, (list[1]:cast("f32", {scale = 2}):at(15, 3)))
            end
        end)
    end)

    describe("fill", function()
        it("writes the picture and nothing else, at every size and type", function()
            for _, t in ipairs(TYPES) do
                for channels = 1, 4 do
                    local kind = channels > 1 and t .. "x" .. channels or t
                    local values = {}
                    for c = 1, channels do
                        values[c] = 3 + 11 * c
                    end
                    for _, size in ipairs {{1, 1}, {2, 3}, {7, 2}, {16, 1}, {33, 3}, {67, 2}} do
                        local v, parent = helper.poisoned(size[1], size[2], kind)
                        v:fill(values)
                        helper.untouched(v, parent)
                        for _, at in ipairs {{0, 0}, {size[1] - 1, size[2] - 1}, {math.floor(size[1] / 2), 0}} do
                            assert.same(values, {v:at(at[1], at[2])})
                        end
                    end
                end
            end
        end)

        it("repeats a row", function()
            local m = gpu.mat(5, 4, "u8", {fill = 0})
            local row = gpu.mat(5, 1, "u8"):upload {1, 2, 3, 4, 5}
            m:rows(1, 2):fill(row)
            assert.equal(("\0"):rep(5) .. ("\1\2\3\4\5"):rep(2) .. ("\0"):rep(5), m:download())
            raises("SHAPE", "one row", m.fill, m, gpu.mat(4, 1, "u8"))
            raises("BAD_ARGUMENT", "clone", m.fill, m, m:row(2))
        end)

        it("refuses what is no value", function()
            local m = gpu.mat(2, 2, "u8x3")
            raises("BAD_ARGUMENT", "wanted 3, got 2", m.fill, m, {1, 2})
            raises("BAD_ARGUMENT", "number", m.fill, m, {1, 2, "x"})
            raises("BAD_ARGUMENT", "number", m.fill, m, "x")
            raises("BAD_ARGUMENT", "number", m.fill, m)
        end)
    end)

    describe("views", function()
        it("share memory and step, and keep the parent alive (L12)", function()
            local m = gpu.mat(8, 6, "u8", {fill = 0})
            local v = m:roi(2, 1, 3, 2)
            assert.equal(m.step, v.step)
            assert.is_true(v:is_view())
            assert.is_false(m:is_view())
            assert.is_false(v:is_contiguous())
            v:fill(7)
            assert.equal(7, (m:at(2, 1)))
            assert.equal(0, (m:at(1, 1)))
            m = nil
            collectgarbage()
            collectgarbage()
            local other = gpu.mat(8, 6, "u8", {fill = 99})
            assert.equal(7, (v:at(2, 1)))
            assert.equal(99, (other:at(0, 0)))
        end)

        it("take rows, columns, one row, and parts", function()
            local m = gpu.mat(4, 3, "u8"):upload {0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23}
            assert.same({{10, 11, 12, 13}, {20, 21, 22, 23}}, m:rows(1, 2):totable())
            assert.same({{2, 3}, {12, 13}, {22, 23}}, m:cols(2, 2):totable())
            assert.same({{20, 21, 22, 23}}, m:row(2):totable())
            local parts = m:split(3, "cols")
            assert.same({3, 1}, {parts[1].width, parts[2].width})
            assert.same({{3}, {13}, {23}}, parts[2]:totable())
            parts = m:split(2, "rows")
            assert.same({2, 1}, {parts[1].height, parts[2].height})
            assert.equal(0, #gpu.mat(4, 0, "u8"):split(2, "rows"))
            raises("BAD_ARGUMENT", "rows, cols", m.split, m, 2, "planes")
            raises("BAD_ARGUMENT", "n", m.split, m, 0, "rows")
        end)

        it("stay inside", function()
            local m = gpu.mat(4, 3, "u8")
            for _, bad in ipairs {{-1, 0, 1, 1}, {0, 0, 5, 1}, {0, 0, 1, 4}, {4, 0, 1, 1}, {0, 3, 1, 1}, {0, 0, -1, 1}, {2 ^ 31 - 1, 0, 2 ^ 31 - 1, 1}} do
                raises("BAD_ARGUMENT", "leaves the mat of 4x3", m.roi, m, unpack(bad))
            end
            raises("BAD_ARGUMENT", "whole number", m.roi, m, 0.5, 0, 1, 1)
            raises("BAD_ARGUMENT", "height", m.roi, m, 0, 0, 1)
            assert.equal(0, m:roi(4, 3, 0, 0).width)
        end)

        it("reshape where the memory is contiguous", function()
            local m = gpu.mat(6, 4, "u8", {packed = true}):upload(helper.bytes(24))
            local r = m:reshape(3, 2, "u32")
            assert.equal("u32", r.type)
            assert.equal(m:download(), r:download())
            assert.equal(m:download(), m:reshape(24, 1):download())
            raises("SHAPE", {"5x5", "24 bytes"}, m.reshape, m, 5, 5)
            raises("SHAPE", "packed()", gpu.mat(6, 4, "u8").reshape, gpu.mat(6, 4, "u8"), 24, 1)
            raises("SHAPE", "contiguous", m.reshape, m:cols(0, 3), 12, 1)
            raises("SHAPE", "u32", m.reshape, m:rows(0, 1):cols(1, 4), 1, 1, "u32")
        end)

        it("at odd bytes give every operation what a copy of them gives, and nothing around them (C10) #kernels", function()
            local whole = gpu.mat(40, 24, "u8x3"):upload(helper.bytes(40 * 24 * 3))
            for _, size in ipairs {{1, 1}, {7, 3}, {17, 9}, {33, 22}} do
                local view, parent = whole:roi(1, 1, size[1], size[2]), gpu.mat(size[1] + 2, size[2] + 2, "u8x3", {fill = 0xEE})
                local copy, out = view:clone {packed = true}, parent:roi(1, 1, size[1], size[2])
                for what, fn in pairs {
                    cast = function(m) return m:cast("f32", {scale = 2}) end,
                    split = function(m) return m:channels_split()[3] end,
                    merge = function(m) return gpu.merge(m:channels_split()) end,
                    gray = function(m) return gpu.image_from("rgb24", {m}):convert("gray", {matrix = "bt709", range = "full"}).planes[1] end,
                    nv12 = function(m) return gpu.image_from("rgb24", {m}):convert("nv12", {matrix = "bt601", range = "limited"}).planes[2] end,
                    resize = function(m) return m:resize(11, 5) end,
                    flip = function(m) return m:flip("both") end,
                } do
                    assert.equal(fn(copy):download(), fn(view):download(), what)
                end
                gpu.copy(out, view)
                assert.equal(copy:download(), out:download())
                out:fill(0xEE)
                assert.equal(("\xEE"):rep(parent.bytes), parent:download())
            end
        end)

        it("slice bytes with a step of their own", function()
            local m = gpu.mat(12, 2, "u8", {packed = true}):upload(helper.bytes(24))
            assert.equal(m:download():sub(4, 6) .. m:download():sub(12, 14), m:slice(3, 3, 2, "u8", 8):download())
            assert.equal(m:download():sub(3, 10), m:slice(2, 4, 1, "u16"):download())
            raises("SHAPE", "leave", m.slice, m, 20, 5, 1, "u8")
            raises("SHAPE", "alignment", m.slice, m, 1, 2, 1, "u16")
            raises("BAD_ARGUMENT", "step", m.slice, m, 0, 4, 2, "u8", 3)
        end)
    end)

    describe("new mats", function()
        it("are cloned, packed and copied from regions (C7, D9)", function()
            local m = gpu.mat(9, 7, "u16x3"):upload(helper.bytes(9 * 7 * 6))
            local v = m:roi(1, 1, 5, 4)
            local clone = v:clone()
            assert.equal(v:download(), clone:download())
            v:fill(0)
            assert.are_not.equal(v:download(), clone:download())
            local packed = clone:packed()
            assert.equal(30, packed.step)
            assert.is_true(packed:is_contiguous() and packed:is_continuous())
            assert.is_true(rawequal(packed, packed:packed()))
            local padded = gpu.mat(416, 3, "u8", {align = 512, fill = 1})
            assert.same({512, false, 416, 1248}, {padded.step, padded:is_continuous(), padded:packed().step, #padded:packed():download()})
            local dst = gpu.mat(5, 4, "u16x3")
            assert.is_true(rawequal(dst, packed:copy_to(dst)))
            assert.equal(clone:download(), dst:download())
        end)

        it("split and merge channels, at every size of channel", function()
            for _, t in ipairs {"u8", "i16", "f32", "f64"} do
                for channels = 1, 4 do
                    for _, size in ipairs {{1, 1}, {5, 3}, {17, 2}, {64, 1}} do
                        local w, h = size[1], size[2]
                        local kind = channels > 1 and t .. "x" .. channels or t
                        local bytes = helper.bytes(w * h * channels * SIZE[t])
                        local wide = gpu.mat(w, h, kind):upload(bytes)
                        local planes = wide:channels_split()
                        assert.equal(channels, #planes)
                        for c = 1, channels do
                            local wanted = {}
                            for i = 0, w * h - 1 do
                                wanted[i + 1] = bytes:sub((i * channels + c - 1) * SIZE[t] + 1, (i * channels + c) * SIZE[t])
                            end
                            assert.equal(table.concat(wanted), planes[c]:download())
                        end
                        local merged = gpu.merge(planes)
                        assert.equal(kind, merged.type)
                        assert.equal(bytes, merged:download())
                    end
                end
            end
            raises("SHAPE", "plane 2", gpu.merge, {gpu.mat(2, 2, "u8"), gpu.mat(3, 2, "u8")})
            raises("SHAPE", "plane 1", gpu.merge, {gpu.mat(2, 2, "u8x2"), gpu.mat(2, 2, "u8")})
            raises("BAD_ARGUMENT", "1 to 4", gpu.merge, {})
            raises("BAD_ARGUMENT", "mat 1", gpu.merge, {5})
        end)
    end)

    describe("cast", function()
        it("saturates and rounds to nearest even", function()
            local m = gpu.mat(9, 1, "f64"):upload {-1, 0.5, 1.5, 2.5, 254.5, 255.5, 300, 0 / 0, 1 / 0}
            assert.same({{0, 0, 2, 2, 254, 255, 255, 0, 255}}, m:cast("u8"):totable())
            assert.same({{-1, 0, 1, 2, 127, 127, 127, 0, 127}}, m:cast("i8", {round = "zero"}):totable())
            assert.same({{0, 0, 1, 2, 254, 255, 255, 0, 255}}, m:cast("u8", {round = "down"}):totable())
            assert.same({{0, 1, 2, 3, 255, 255, 255, 0, 255}}, m:cast("u8", {round = "up"}):totable())
            assert.same({{0, 128, 255}}, gpu.mat(3, 1, "u8"):upload({0, 128, 255}):cast("f32", {scale = 1 / 255}):cast("u8", {scale = 255}):totable())
            assert.same({{10, 20}}, gpu.mat(2, 1, "u8"):upload({0, 5}):cast("u16", {scale = 2, offset = 10}):totable())
            raises("BAD_ARGUMENT", "nearest, zero, down, up", m.cast, m, "u8", {round = "even"})
            raises("BAD_ARGUMENT", "channels", m.cast, m, "u8x2")
        end)

        it("agrees with double arithmetic for every pair of types", function()
            local values = {0, 1, 2, 100, 127, 128, 255, 256, 1000, 32767, 32768, 65504, 65535, 65536, 2147483647, 4294967295, -1, -128, -129, -32768,
                            -2147483648, 0.5, 1.5, -0.5, -2.5, 0.25, 1e-8, 5.9604644775390625e-8, 3e-8, 1e9, -1e9, 65519, 65520, 1 / 3}
            local wide = gpu.mat(#values, 1, "f64"):upload(values)
            local range = {u8 = {0, 255}, i8 = {-128, 127}, u16 = {0, 65535}, i16 = {-32768, 32767}, u32 = {0, 4294967295}, i32 = {-2147483648, 2147483647}}
            local function even(x)
                local r = math.floor(x + 0.5)
                return r - x == 0.5 and r % 2 == 1 and r - 1 or r
            end
            local single = ffi.new("float[1]")
            for _, from in ipairs(TYPES) do
                local src = wide:cast(from)
                for _, to in ipairs(TYPES) do
                    local got, given = src:cast(to):totable()[1], src:totable()[1]
                    for i = 1, #values do
                        local wanted = given[i]
                        if range[to] then
                            wanted = math.min(math.max(even(wanted), range[to][1]), range[to][2])
                        elseif to == "f32" then
                            single[0] = wanted
                            wanted = single[0]
                        elseif to == "f16" then
                            local a = math.abs(wanted)
                            local step = 2 ^ math.max(select(2, math.frexp(a)) - 11, -24)
                            a = a == 1 / 0 and a or even(a / step) * step
                            wanted = (wanted < 0 and -1 or 1) * (a > 65504 and 1 / 0 or a)
                        end
                        assert(got[i] == wanted, ("%s %.17g to %s: wanted %.17g, got %.17g"):format(from, given[i], to, wanted, got[i]))
                    end
                end
            end
        end)
    end)

    describe("more than 2^31 bytes", function()
        it("are filled, copied and read to the last one (L11)", function()
            if gpu.memory().free < 8e9 then
                return pending("wants 8 GB of free memory")
            end
            local w, h = 2 ^ 16 + 16, 2 ^ 15 + 1
            local m = gpu.mat(w, h, "u8", {fill = 7})
            assert.is_true(m.bytes > 2 ^ 31)
            m:roi(w - 3, h - 1, 3, 1):upload("\1\2\3")
            assert.same({{7, 1, 2, 3}}, m:roi(w - 4, h - 1, 4, 1):totable())
            local last = gpu.mat(16, 2, "u8", {fill = 0})
            gpu.copy(last, m:roi(w - 16, h - 2, 16, 2))
            assert.same({{7, 7}, {2, 3}}, last:cols(14, 2):totable())
            raises("LIMIT", "2147483647", m.download, m)
            m:close()
            gpu.trim()
        end)
    end)

    describe("gpu.host_mat", function()
        it("is host memory with a mat's interface, and copies both ways", function()
            local h = gpu.host_mat(7, 5, "u8x3", {fill = 4})
            assert.equal("host", h.device)
            assert.is_boolean(h.pinned)
            local m = gpu.mat(7, 5, "u8x3")
            gpu.copy(m, h)
            assert.equal(("\4"):rep(105), m:download())
            m:fill {1, 2, 3}
            gpu.copy(h, m)
            assert.equal(("\1\2\3"):rep(35), h:download())
        end)
    end)

    describe("closing", function()
        it("makes every use an error, and twice is harmless", function()
            local m, other = gpu.mat(2, 2, "u8"), gpu.mat(2, 2, "u8", {fill = 3})
            local view = m:roi(0, 0, 1, 1)
            m:close()
            m:close()
            assert.equal("mat (closed)", tostring(m))
            for _, use in ipairs {"width", "data", "step", "device"} do
                raises("CLOSED", "closed", function() return m[use] end)
            end
            raises("CLOSED", "", m.fill, m, 1)
            raises("CLOSED", "", m.download, m)
            raises("CLOSED", "", m.roi, m, 0, 0, 1, 1)
            raises("CLOSED", "", gpu.copy, other, m)
            raises("CLOSED", "", other.upload, other, m)
            assert.equal(1, view:fill(1):at(0, 0))
            assert.equal("\3\3\3\3", other:download())
        end)
    end)
end)

describe("methods", function()
    it("check what they are called on (L13)", function()
        local m = gpu.mat(2, 2, "u8")
        local s = gpu.stream()
        for name, method in pairs(require("gpuwb.mat").methods) do
            for _, wrong in ipairs {5, "x", {}, print, io.stdout, s, newproxy(true), ffi.new("int[4]")} do
                local ok, err = pcall(method, wrong, 1, 1, 1, 1)
                assert(not ok, name .. " accepted " .. tostring(wrong))
                assert(err.code == "BAD_ARGUMENT", name .. ": " .. tostring(err))
            end
            assert.is_false(pcall(method))
        end
        assert.equal(2, m.width)
    end)
end)

describe("gpu.wrap", function()
    it("shows foreign memory with its step, and keeps the owner (C13)", function()
        local bytes = ffi.new("uint8_t[?]", 48)
        for i = 0, 47 do
            bytes[i] = i
        end
        local m = gpu.wrap {ptr = bytes, width = 5, height = 3, type = "u8", step = 16}
        assert.same({{0, 1, 2, 3, 4}, {16, 17, 18, 19, 20}, {32, 33, 34, 35, 36}}, m:totable())
        assert.equal("host", m.device)
        local collected = false
        local owner = newproxy(true)
        getmetatable(owner).__gc = function() collected = true end
        m = gpu.wrap {ptr = ffi.cast("uint8_t *", bytes), width = 5, height = 3, type = "u8", owner = owner}
        assert.equal(5, m.step)
        owner = nil
        collectgarbage()
        collectgarbage()
        assert.is_false(collected)
        m:close()
        gpu.mat(1, 1, "u8")     -- owners are let go when mats are made
        collectgarbage()
        collectgarbage()
        assert.is_true(collected)
        assert.equal(47, bytes[47])
    end)

    it("keeps an array that has no other owner (L1)", function()
        local m = gpu.wrap {ptr = ffi.new("uint8_t[64]", 7), width = 8, height = 8, type = "u8"}
        for _ = 1, 20 do
            ffi.new("uint8_t[64]", 0)
        end
        collectgarbage()
        assert.equal(("\7"):rep(64), (m:fill(7):download()))
    end)

    it("is read-only where asked, in its views too", function()
        local m = gpu.wrap {ptr = ffi.new("uint8_t[16]"), width = 4, height = 4, type = "u8", readonly = true}
        assert.is_true(m.readonly)
        for _, write in ipairs {function() m:fill(1) end, function() m:roi(0, 0, 2, 2):fill(1) end, function() m:upload(("x"):rep(16)) end,
                                function() gpu.copy(m, gpu.mat(4, 4, "u8", {device = "host"})) end,
                                function() gpu.copy2d {dst = m, src = gpu.mat(4, 4, "u8", {device = "host"}), width = 1, height = 1} end,
                                function() gpu.mat(4, 4, "u16", {device = "host", fill = 0}):cast("u8", {out = m}) end} do
            raises("READ_ONLY", "clone", write)
        end
        assert.equal(("\0"):rep(16), m:download())
    end)

    it("orders work on memory that a mat has already", function()
        local m = gpu.mat(64, 64, "u8", {device = "host", fill = 1})
        local again = gpu.wrap {ptr = m.data, width = 64, height = 64, type = "u8", step = m.step}
        local s = gpu.stream {device = "host"}
        s:sleep(20)
        m:fill(2, {stream = s})
        assert.equal(2, (again:at(63, 63)))
        m:close()
        assert.equal(2, (again:at(0, 0)))
    end)

    it("refuses what cannot be", function()
        local p = ffi.new("uint8_t[64]")
        raises("BAD_ARGUMENT", "ptr", gpu.wrap, {width = 4, height = 4, type = "u8"})
        raises("BAD_ARGUMENT", "ffi.cast", gpu.wrap, {ptr = 12345, width = 4, height = 4, type = "u8"})
        raises("BAD_ARGUMENT", "step 3 is less", gpu.wrap, {ptr = ffi.cast("void *", p), width = 4, height = 4, type = "u8", step = 3})
        raises("BAD_ARGUMENT", {"64 bytes", "need"}, gpu.wrap, {ptr = p, width = 9, height = 9, type = "u8"})
        raises("BAD_ARGUMENT", "multiples of the 2 bytes", gpu.wrap, {ptr = ffi.cast("uint8_t *", p) + 1, width = 2, height = 2, type = "u16"})
        raises("BAD_ARGUMENT", "unknown option", gpu.wrap, {ptr = p, w = 4})
        raises("BAD_ARGUMENT", "width", gpu.wrap)
        assert.equal(0, gpu.wrap {width = 0, height = 4, type = "u8"}.width)
    end)
end)

describe("FFI", function()
    it("takes a mat as gwb_mat * and gives pointers as void *", function()
        local C = require("gpuwb.cdef").C
        local m = gpu.mat(4, 3, "u8", {device = "host", fill = 5})
        assert.equal(1, C.gwb_mat_same(m, m))
        assert.equal(5, ffi.cast("uint8_t *", m:wait().data)[m.step * 2 + 3])
        assert.equal(bit.band(tonumber(ffi.cast("uintptr_t", m.data)), 63), 0)
    end)
end)
