-- SPDX-License-Identifier: MIT
-- Array interfaces, CUDA's and NumPy's: what mats and images say of themselves, and mats over what others say; foreign streams; the modules' examples.
local gpu = require "gpuwb"
local ffi = require "ffi"
local core = require "gpuwb.core"
local helper = require "tests.helper"
local raises = helper.raises

local TYPESTR = {u8 = "|u1", i8 = "|i1", u16 = "<u2", i16 = "<i2", u32 = "<u4", i32 = "<i4", f16 = "<f2", f32 = "<f4", f64 = "<f8"}

local collect = helper.collect

-- An owner goes when gpuwb has let go of it and the collector has seen that.
local function settle()
    for _ = 1, 3 do
        collect()
        gpu.trim()
    end
end

local function address(p)
    return tonumber(ffi.cast("uintptr_t", p))
end

-- Runs the example in a module's header comment, with `gpuwb` in a shell command standing for the program under test.
local function example(module)
    local lines = {}
    for line in core.embedded("lua/gpuwb/" .. module .. ".lua"):gmatch("[^\n]*\n") do
        if not line:find("^%-%-") then break end
        lines[#lines + 1] = line:match("^%-%-     (.*)")
    end
    assert(#lines > 5, "there is no example")
    local code = "local gpu = require 'gpuwb' " .. table.concat(lines):gsub("gpuwb %-e", function() return helper.command():sub(2, -2) .. " -e" end)
    assert(loadstring(code, module))()
end

helper.each_device(function(name)
    -- The interface that memory of this device has.
    local function interface(m, opts)
        if name == "host" then return m:array_interface() end
        return m:cuda_array_interface(opts)
    end

    it("runs the examples of the modules", function()
        example "exchange"
        example "ipc"
    end)

    describe("the interface of a mat", function()
        it("has shape, typestr, strides in bytes, data and version, for every type and channel count", function()
            for element, typestr in pairs(TYPESTR) do
                for channels = 1, 4 do
                    for _, opts in ipairs {{packed = true}, {align = 1024}} do
                        local m = gpu.mat(5, 3, channels > 1 and element .. "x" .. channels or element, opts)
                        local t = interface(m)
                        assert.same(m.shape, t.shape)
                        assert.equal(typestr, t.typestr)
                        assert.equal(3, t.version)
                        assert.equal(m.data, t.data[1])
                        assert.is_false(t.data[2])
                        if opts.packed then assert.is_nil(t.strides) else assert.same(m.strides, t.strides) end
                        assert.equal(m, gpu.from_array_interface(t))
                    end
                end
            end
        end)

        it("adjusts the pointer of a region", function()
            local m = gpu.mat(9, 7, "u16x3", {packed = true})
            local t = interface(m:roi(2, 3, 4, 2))
            assert.equal(address(m.data) + 3 * 54 + 12, address(t.data[1]))
            assert.same({2, 4, 3}, t.shape)
            assert.same({54, 6, 2}, t.strides)
            assert.is_nil(interface(m:rows(1, 3)).strides)
            assert.is_nil(interface(m:row(6)).strides)
            assert.is_nil(interface(m:roi(2, 3, 4, 2):packed()).strides)
            assert.is_nil(interface(m:roi(3, 3, 1, 1)).strides)
        end)

        it("has a NULL pointer and no strides for a size of zero", function()
            for _, size in ipairs {{0, 5}, {5, 0}, {0, 0}} do
                local t = interface(gpu.mat(size[1], size[2], "f32x2"))
                assert.same({size[2], size[1], 2}, t.shape)
                assert.is_true(ffi.istype("void *", t.data[1]) and t.data[1] == nil)
                assert.is_nil(t.strides)
                assert.same(t.shape, gpu.from_array_interface(t).shape)
            end
        end)

        it("says what is read-only, also on the way back (D4)", function()
            local m = gpu.mat(4, 4, "u8", {fill = 1})
            local w = gpu.wrap {ptr = m.data, width = 4, height = 4, type = "u8", step = m.step, readonly = true, owner = m}
            local t = interface(w)
            assert.is_true(t.data[2])
            local back = gpu.from_array_interface(t)
            raises("READ_ONLY", "", back.fill, back, 2)
            assert.equal(1, (back:at(3, 3)))
        end)

        it("owns the memory: neither closing nor collecting the mat takes it (D10)", function()
            local bytes = helper.bytes(61 * 17)
            local m = gpu.mat(61, 17, "u8"):upload(bytes)
            local t = interface(m)
            m:close()
            m = nil
            collect()
            for _ = 1, 5 do gpu.mat(61, 17, "u8", {fill = 0xEE}):wait() end
            local back = gpu.from_array_interface(t)
            assert.equal(bytes, back:download())
            t = nil
            collect()
            assert.equal(bytes, back:download())
        end)

        it("lets the memory go when it is collected", function()
            settle()
            local before = gpu.memory().used
            for _ = 1, 50 do
                local t = interface(gpu.mat(100, 100, "u8"))
                gpu.from_array_interface(t)
            end
            settle()
            assert.is_true(gpu.memory().used < before + 5 * 16384)      -- a dead slot of the stack may hold one
        end)

        it("is for a live mat, with options by name", function()
            local m = gpu.mat(2, 2, "u8")
            raises("BAD_ARGUMENT", {"\"steam\"", "stream"}, m.cuda_array_interface, m, {steam = 1})
            m:close()
            raises("CLOSED", "", m.array_interface, m)
            raises("CLOSED", "", m.cuda_array_interface, m)
            raises("BAD_ARGUMENT", "must be a mat", m.cuda_array_interface, {})
        end)
    end)

    it("goes from stream to stream 200 times, while the collector takes what is dropped", function()
        local a, b, dst = gpu.stream {blocking = false}, gpu.stream {blocking = false}, gpu.mat(64, 64, "u8")
        for i = 1, 200 do
            local m = gpu.mat(64, 64, "u8", {packed = i % 2 == 0})
            if i % 5 == 0 then a:sleep(1) end
            m:fill(i, {stream = a})
            local from
            if i % 4 < 2 then
                from = gpu.from_dlpack(m:dlpack {stream = b, versioned = i % 4 == 0})
            else
                from = gpu.from_array_interface(interface(m, {stream = b}))
            end
            m = nil
            if i % 10 == 0 then collect() end
            gpu.copy(dst, from, {stream = b})
            from = nil
            if i % 10 == 5 then collect() end
            assert.equal(i, (dst:at(i % 64, 63)))
        end
    end)

    if name == "host" then
        it("is NumPy's for host memory, and waits", function()
            local s, m = gpu.stream(), gpu.mat(16, 16, "u8", {fill = 0})
            s:sleep(50)
            m:fill(7, {stream = s})
            local t = m:array_interface()
            assert.is_true(s:query())
            assert.equal(7, ffi.cast("uint8_t *", t.data[1])[0])
            assert.is_nil(t.stream)
            raises("BAD_ARGUMENT", {"plain host memory", "array_interface()"}, m.cuda_array_interface, m)
        end)
    else
        it("names a stream that is never 0, and makes it wait (D5)", function()
            local s, m = gpu.stream {blocking = false}, gpu.mat(16, 16, "u8", {fill = 0})
            raises("BAD_ARGUMENT", {name, "cuda_array_interface"}, m.array_interface, m)
            local t = m:cuda_array_interface()
            assert.is_true(ffi.istype("void *", t.stream))
            assert.equal(gpu.default_stream().handle, t.stream)
            gpu.synchronize()
            s:sleep(80)
            m:fill(7, {stream = s})
            assert.is_nil(m:cuda_array_interface({stream = -1}).stream)
            assert.is_true(gpu.default_stream():query())
            m:cuda_array_interface()
            assert.is_false(gpu.default_stream():query())
            local own = gpu.stream {blocking = false}
            assert.equal(own.handle, m:cuda_array_interface({stream = own}).stream)
            assert.equal(own.handle, m:cuda_array_interface({stream = own.handle}).stream)
            assert.is_false(own:query())
            for _, plain in ipairs {1, 2} do
                assert.equal(plain, m:cuda_array_interface({stream = plain}).stream)
                assert.equal(plain, m:cuda_array_interface({stream = gpu.wrap_stream(plain)}).stream)
            end
            raises("BAD_ARGUMENT", "stream 0", m.cuda_array_interface, m, {stream = 0})
            raises("BAD_ARGUMENT", "stream", m.cuda_array_interface, m, {stream = 3})
            raises("BAD_ARGUMENT", "stream", m.cuda_array_interface, m, {stream = "x"})
            gpu.synchronize()
        end)

        it("wraps a stream without owning it, and knows CUDA's two default streams (T6, T16)", function()
            local s, m = gpu.stream(), gpu.mat(8, 8, "u8", {fill = 0})
            for _ = 1, 3 do
                local w = gpu.wrap_stream(s.handle, {owner = s})
                m:fill(3, {stream = w})
                w:close()
            end
            gpu.wrap_stream(s.handle)
            collect()
            m:fill(4, {stream = s})
            assert.is_true(s:synchronize():query())
            assert.equal(4, (m:at(7, 7)))
            for _, handle in ipairs {1, 2} do
                local w = gpu.wrap_stream(handle)
                assert.equal(handle, address(w.handle))
                m:fill(handle, {stream = w})
                assert.equal(handle, (m:at(3, 3)))
                w:close()
            end
        end)

        it("keeps a stream that it names", function()
            local t = gpu.mat(4, 4, "u8"):cuda_array_interface {stream = gpu.stream()}
            collect()
            local s = gpu.wrap_stream(t.stream)
            assert.is_true(s:synchronize():query())
        end)

        it("of page-locked memory waits and names none", function()
            local s, h = gpu.stream(), gpu.host_mat(8, 8, "u8", {fill = 0})
            s:sleep(40)
            gpu.copy(h, gpu.mat(8, 8, "u8", {fill = 6}), {stream = s})
            local t = h:cuda_array_interface()
            assert.is_true(s:query())
            assert.is_nil(t.stream)
            assert.equal(6, ffi.cast("uint8_t *", t.data[1])[0])
            assert.equal(h, gpu.from_array_interface(t))
        end)

        it("tells an import which stream to wait for", function()
            local m = gpu.mat(16, 16, "u8")
            for _, by_number in ipairs {false, true} do
                local theirs = gpu.stream {blocking = false}
                local t = m:cuda_array_interface {stream = -1}
                gpu.synchronize()
                theirs:sleep(80)
                gpu.from_array_interface(t):fill(1)
                gpu.default_stream():synchronize()
                assert.is_false(theirs:query())     -- no stream was named
                t.stream = by_number and address(theirs.handle) or theirs.handle
                gpu.from_array_interface(t):fill(1)
                assert.is_false(gpu.default_stream():query())
                gpu.default_stream():synchronize()
                assert.is_true(theirs:query())
            end
            for _, plain in ipairs {1, 2} do
                local t = m:cuda_array_interface {stream = -1}
                t.stream = plain
                assert.equal(m, gpu.from_array_interface(t))
            end
            local t = m:cuda_array_interface()
            t.stream = 0
            raises("BAD_ARGUMENT", "stream 0", gpu.from_array_interface, t)
            t.stream = -1
            raises("BAD_ARGUMENT", "stream", gpu.from_array_interface, t)
        end)
    end

    describe("the interface of an image", function()
        it("is a list of its planes', or one of planes x height x width", function()
            local method = name == "host" and "array_interface" or "cuda_array_interface"
            local img = gpu.image("yuv420p", 7, 5)
            local list = img[method](img)
            assert.equal(3, #list)
            for i, t in ipairs(list) do assert.equal(img.planes[i], gpu.from_array_interface(t)) end
            local frame = gpu.mat(6, 12, "f32", {packed = true}):planes("rgbpf32le", 6, 4)
            local t = frame[method](frame, {layout = "chw"})
            assert.same({3, 4, 6}, t.shape)
            assert.is_nil(t.strides)
            local planes = gpu.from_array_interface(t, {layout = "chw"})
            for i = 1, 3 do assert.equal(frame.planes[i], planes[i]) end
            raises("SHAPE", "another allocation", img[method], gpu.image("rgbp", 4, 4), {layout = "chw"})
            raises("BAD_ARGUMENT", "layout", img[method], img, {layout = "cwh"})
        end)
    end)

    describe("gpu.from_array_interface", function()
        local under
        local function array(set)
            under = gpu.mat(256, 16, "u8", {packed = true, fill = 5}):wait()
            local t = {shape = {3, 4}, typestr = "|u1", data = {under.data, false}, strides = {16, 1}, version = 3}
            if set then set(t) end
            return t
        end

        it("reads strides or none, one to three dimensions, and every type (D3)", function()
            local function take(set) return gpu.from_array_interface(array(set)) end
            local m = take()
            assert.same({3, 4}, m.shape)
            assert.equal(16, m.step)
            assert.equal(name, m.device)
            assert.equal(under.data, m.data)
            under:fill(6)
            assert.equal(6, m:at(3, 2))
            assert.equal(4, take(function(t) t.strides = nil end).step)
            assert.same({1, 10}, take(function(t) t.shape, t.strides = {10}, {1} end).shape)
            m = take(function(t) t.shape, t.strides, t.typestr = {2, 5, 3}, {64, 6, 2}, "<u2" end)
            assert.equal("u16x3", m.type)
            assert.equal(64, m.step)
            assert.equal("u8", take(function(t) t.shape, t.strides = {3, 4, 1}, {16, 1, -9} end).type)
            for element, typestr in pairs(TYPESTR) do
                assert.equal(element, take(function(t) t.typestr, t.strides = typestr, nil end).type)
                assert.equal(element, take(function(t) t.typestr, t.strides = typestr:gsub("[<|]", "="), nil end).type)
            end
            assert.equal("u8", take(function(t) t.typestr = ">u1" end).type)
            for version = 0, 3 do assert.same({3, 4}, take(function(t) t.version = version end).shape) end
        end)

        it("takes an address as a pointer or as a number, as Python has it", function()
            local forms = {
                address, function(p) return 0ULL + address(p) end, function(p) return 0LL + address(p) end,
                function(p) return ffi.cast("char *", p) end,
            }
            for _, form in ipairs(forms) do
                local m = gpu.from_array_interface(array(function(t) t.data[1] = form(under.data) end))
                assert.equal(under.data, m.data)
            end
            for _, wrong in ipairs {-1, 0.5, 2 ^ 60, 0 / 0, "x", {}, true} do
                raises("BAD_ARGUMENT", "data[1]", gpu.from_array_interface, array(function(t) t.data[1] = wrong end))
            end
        end)

        it("refuses what a mat is not, and says the value", function()
            local cases = {
                {"SHAPE", {"stride of -16 bytes", "dimension 0"}, function(t) t.strides = {-16, 1} end},
                {"SHAPE", {"stride of 2 bytes", "dimension 1", "wanted 1"}, function(t) t.strides = {16, 2} end},
                {"SHAPE", {"stride of 0 bytes"}, function(t) t.strides = {0, 1} end},
                {"SHAPE", {"stride of 3 bytes", "wanted 4 or more"}, function(t) t.strides = {3, 1} end},
                {"SHAPE", {"stride of 9 bytes", "multiple of the 2"}, function(t) t.typestr, t.strides = "<u2", {9, 2} end},
                {"SHAPE", {"3 strides", "2 dimensions"}, function(t) t.strides = {16, 1, 1} end},
                {"SHAPE", {"0 dimensions"}, function(t) t.shape, t.strides = {}, {} end},
                {"SHAPE", {"5 dimensions"}, function(t) t.shape, t.strides = {1, 1, 1, 1, 1}, nil end},
                {"SHAPE", {"7 channels"}, function(t) t.shape, t.strides = {3, 4, 7}, nil end},
                {"BAD_ARGUMENT", {"shape[2]", "-4"}, function(t) t.shape = {3, -4} end},
                {"BAD_ARGUMENT", {"shape[1]", "2.5"}, function(t) t.shape = {2.5, 4} end},
                {"BAD_ARGUMENT", {"shape[1]", "4294967296"}, function(t) t.shape = {2 ^ 32, 4} end},
                {"BAD_ARGUMENT", {"strides[1]", "nan"}, function(t) t.strides = {0 / 0, 1} end},
                {"BAD_ARGUMENT", {"shape", "list"}, function(t) t.shape = 5 end},
                {"BAD_ARGUMENT", {"strides", "list"}, function(t) t.strides = "x" end},
                {"BAD_ARGUMENT", {"typestr"}, function(t) t.typestr = nil end},
                {"BAD_ARGUMENT", {"data"}, function(t) t.data = nil end},
                {"BAD_ARGUMENT", {"data[1]"}, function(t) t.data = {} end},
                {"BAD_ARGUMENT", {"data[2]"}, function(t) t.data[2] = 1 end},
                {"BAD_ARGUMENT", {"NULL"}, function(t) t.data[1] = ffi.cast("void *", nil) end},
                {"BAD_ARGUMENT", {"version"}, function(t) t.version = nil end},
                {"UNSUPPORTED", {"version 4"}, function(t) t.version = 4 end},
                {"UNSUPPORTED", {"mask"}, function(t) t.mask = {} end},
                {"UNSUPPORTED", {"\">u2\"", "big-endian"}, function(t) t.typestr = ">u2" end},
                {"UNSUPPORTED", {"\"|b1\"", "view it as uint8"}, function(t) t.typestr = "|b1" end},
                {"UNSUPPORTED", {"\"<c8\""}, function(t) t.typestr = "<c8" end},
                {"UNSUPPORTED", {"\"<i8\""}, function(t) t.typestr = "<i8" end},
                {"UNSUPPORTED", {"\"|V3\""}, function(t) t.typestr = "|V3" end},
                {"UNSUPPORTED", {"\"u1\""}, function(t) t.typestr = "u1" end},
            }
            for _, case in ipairs(cases) do
                raises(case[1], case[2], gpu.from_array_interface, array(case[3]))
            end
            for _, wrong in ipairs {5, "x", under, true} do raises("BAD_ARGUMENT", "table", gpu.from_array_interface, wrong) end
            raises("BAD_ARGUMENT", "table", gpu.from_array_interface)
            raises("BAD_ARGUMENT", {"\"lay\"", "layout"}, gpu.from_array_interface, array(), {lay = 1})
            raises("BAD_ARGUMENT", "stream", gpu.from_array_interface, array(), {stream = 7})
            assert.equal(5, under:at(0, 0))
        end)

        it("waits for the stream that an option names", function()
            local s, t = gpu.stream {blocking = false}, array()
            gpu.synchronize()
            s:sleep(60)
            local m = gpu.from_array_interface(t, {stream = s})
            assert.equal(5, m:at(0, 0))
            assert.is_true(s:query())
        end)
    end)
end)

describe("gpu.from_array_interface over memory of the script", function()
    it("keeps the table and the owner until no mat uses the memory", function()
        gpu.on("host", function()
            local gone = {}
            local function owner(key)
                local p = newproxy(true)
                getmetatable(p).__gc = function() gone[key] = true end
                return p
            end
            local bytes = ffi.new("uint8_t[4096]", 7)
            local t = {shape = {64, 64}, typestr = "|u1", data = {ffi.cast("void *", bytes)}, version = 3, base = owner "table"}
            local m = gpu.from_array_interface(t, {owner = owner "owner"})
            local view = m:roi(1, 1, 3, 3)
            t = nil
            m:close()
            settle()
            assert.same({}, gone)
            assert.equal(7, view:at(2, 2))
            view:close()
            settle()
            assert.same({table = true, owner = true}, gone)
        end)
    end)

    it("is ordered behind work on the same memory whose mats are gone", function()
        gpu.on("host", function()
            local bytes, s = ffi.new("uint8_t[8192]"), gpu.stream()
            local function wrap(first, rows)
                return gpu.wrap {ptr = bytes + first, width = 64, height = rows, type = "u8", owner = bytes}
            end
            for round, place in ipairs {{0, 64}, {640, 20}, {64, 100}, {0, 64}} do     -- the same bytes, a part of them, and more
                s:sleep(30)
                wrap(0, 64):fill(round, {stream = s}):close()
                local again = wrap(place[1], place[2])
                assert.is_true(again:is_pending())
                assert.equal(round, (again:at(5, 5)))
                assert.is_true(s:query())
                again:close()
            end
        end)
    end)

    it("lets a table go that it refused", function()
        local gone = setmetatable({}, {__mode = "k"})
        for _ = 1, 20 do
            local t = {shape = {3, 4}, strides = {-4, 1}, typestr = "|u1", data = {ffi.new("uint8_t[16]")}, version = 3}
            gone[t] = true
            raises("SHAPE", "-4", gpu.from_array_interface, t)
        end
        collect()
        assert.is_nil((next(gone)))
    end)
end)
