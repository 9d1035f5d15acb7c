-- SPDX-License-Identifier: MIT
-- DLPack: tensors given out, their owners and streams, on every device at hand.
local gpu = require "gpuwb"
local ffi = require "ffi"
local helper = require "tests.helper"
local raises = helper.raises

local TYPES = helper.dlpack_types

local collect = helper.collect

local function list(p, n)
    local out = {}
    for i = 0, n - 1 do out[i + 1] = tonumber(p[i]) end
    return out
end

-- Device type and number of a mat's memory, as DLPack has them.
local function kind(name)
    return name == "host" and 1 or 2, tonumber(name:match("%d+$") or 0)
end

describe("the structs", function()
    it("lie as dlpack.h says", function()
        local offsets = {
            DLTensor = {48, data = 0, device = 8, ndim = 16, dtype = 20, shape = 24, strides = 32, byte_offset = 40},
            DLManagedTensor = {64, dl_tensor = 0, manager_ctx = 48, deleter = 56},
            DLManagedTensorVersioned = {80, version = 0, manager_ctx = 8, deleter = 16, flags = 24, dl_tensor = 32},
        }
        for name, fields in pairs(offsets) do
            assert.equal(fields[1], ffi.sizeof(name))
            for field, offset in pairs(fields) do
                if field ~= 1 then assert.equal(offset, ffi.offsetof(name, field), name .. "." .. field) end
            end
        end
    end)

    it("leave the names to a script that declares them itself", function()
        local code = [[
            local ffi = require "ffi"
            local text = "typedef struct { int x[20]; } DLManagedTensorVersioned; typedef struct DLTensor { int y; } DLTensor;"
            if %s then ffi.cdef(text) end
            local gpu = require "gpuwb"
            local t = gpu.mat(3, 2, "u8", {device = "host", fill = 4}):dlpack()
            if not %s then ffi.cdef(text) end
            assert(ffi.sizeof("DLManagedTensorVersioned") == 80 and ffi.sizeof("DLTensor") == 4)
            local theirs = ffi.cast("DLManagedTensorVersioned *", ffi.gc(t, nil))
            print(gpu.from_dlpack(theirs, {versioned = true}):at(2, 1))]]
        local out, status = helper.run(helper.command() .. " -e '" .. code:format("true", "true") .. "'")
        assert.equal("4\n", out)
        assert.equal(0, status)
    end)
end)

helper.each_device(function(name)
    local device_type, device_id = kind(name)

    describe("m:dlpack", function()
        it("describes every type and channel count, with strides in elements", function()
            for element, dtype in pairs(TYPES) do
                for channels = 1, 4 do
                    for _, versioned in ipairs {true, false} do
                        local m = gpu.mat(5, 3, channels > 1 and element .. "x" .. channels or element)
                        local p = m:dlpack {versioned = versioned}
                        assert.is_true(ffi.istype(versioned and "DLManagedTensorVersioned *" or "DLManagedTensor *", p))
                        local t = p.dl_tensor
                        assert.equal(m.data, t.data)
                        assert.equal(device_type, t.device.device_type)
                        assert.equal(device_id, t.device.device_id)
                        assert.same({dtype[1], dtype[2], 1}, {t.dtype.code, t.dtype.bits, t.dtype.lanes})
                        assert.equal(channels > 1 and 3 or 2, t.ndim)
                        assert.same(m.shape, list(t.shape, t.ndim))
                        local strides = {m.step / m.itemsize, channels, 1}
                        if channels == 1 then strides = {m.step / m.itemsize, 1} end
                        assert.same(strides, list(t.strides, t.ndim))
                        assert.equal(0, tonumber(t.byte_offset))
                        if versioned then
                            assert.same({1, 0}, {p.version.major, tonumber(p.flags)})
                        end
                    end
                end
            end
        end)

        it("shows a region by its own first byte", function()
            local m = gpu.mat(9, 7, "u16x3", {fill = 1})
            local t = m:roi(2, 3, 4, 2):dlpack().dl_tensor
            assert.equal(ffi.cast("uint8_t *", m.data) + 3 * m.step + 2 * 6, ffi.cast("uint8_t *", t.data))
            assert.equal(0, tonumber(t.byte_offset))
            assert.same({2, 4, 3}, list(t.shape, 3))
            assert.same({m.step / 2, 3, 1}, list(t.strides, 3))
        end)

        it("has zero sizes", function()
            for _, size in ipairs {{0, 5}, {5, 0}, {0, 0}} do
                for _, versioned in ipairs {true, false} do
                    local p = gpu.mat(size[1], size[2], "f32x2"):dlpack {versioned = versioned}
                    assert.is_true(p.dl_tensor.data == nil)
                    assert.same({size[2], size[1], 2}, list(p.dl_tensor.shape, 3))
                    assert.is_true(p.dl_tensor.strides ~= nil)
                    local m = gpu.from_dlpack(p)
                    assert.same({size[2], size[1], 2}, m.shape)
                    assert.equal("", m:download())
                    assert.equal(name, m.device)
                end
            end
        end)

        it("owns the memory: neither closing nor collecting the mat takes it (D10)", function()
            for _, versioned in ipairs {true, false} do
                local bytes = helper.bytes(61 * 17)
                local m = gpu.mat(61, 17, "u8"):upload(bytes)
                collect()
                local used = gpu.memory().used
                local p = m:dlpack {versioned = versioned}
                m:close()
                m = nil
                collect()
                for _ = 1, 5 do gpu.mat(61, 17, "u8", {fill = 0xEE}):wait() end
                collect()
                assert.is_true(gpu.memory().used >= used)
                local back = gpu.from_dlpack(p)
                assert.equal(bytes, back:download())
                back:close()
                assert.is_true(gpu.memory().used < used)
            end
        end)

        it("lets the memory go when the cdata is collected untaken", function()
            collect()
            local before = gpu.memory().used
            for _ = 1, 50 do gpu.mat(100, 100, "u8"):dlpack() end
            collect()
            assert.is_true(gpu.memory().used < before + 5 * 16384)      -- a dead slot of the stack may hold one
        end)

        it("tells read-only memory by the flag, and not at all in the old struct (D4)", function()
            local m = gpu.mat(4, 4, "u8", {fill = 1})
            local w = gpu.wrap {ptr = m.data, width = 4, height = 4, type = "u8", step = m.step, readonly = true, owner = m}
            assert.equal(1, tonumber(w:dlpack().flags))
            raises("READ_ONLY", {"versioned = true", "clone"}, w.dlpack, w, {versioned = false})
            local back = gpu.from_dlpack(w:dlpack())
            assert.is_true(back.readonly)
            raises("READ_ONLY", "", back.fill, back, 2)
            assert.equal(1, back:at(3, 3))
        end)

        it("makes the consumer's stream wait, and nothing where it is told so (D6)", function()
            local s, theirs = gpu.stream {blocking = false}, gpu.stream {blocking = false}
            local m, dst = gpu.mat(64, 64, "u8", {fill = 0}), gpu.mat(64, 64, "u8", {fill = 0})
            gpu.synchronize()
            s:sleep(80)
            m:fill(9, {stream = s})
            local p = m:dlpack {stream = -1}
            assert.is_false(s:query())
            p = m:dlpack {stream = theirs}
            assert.is_false(s:query())
            theirs:synchronize()
            assert.is_false(m:is_pending())
            assert.equal(9, (gpu.from_dlpack(p):at(0, 0)))
            s:sleep(40)
            m:fill(8, {stream = s})
            p = m:dlpack()
            if name == "host" then
                assert.is_true(s:query())       -- whoever reads host memory has no stream, so the call waits
            else
                gpu.copy(dst, gpu.from_dlpack(p))
                assert.equal(8, (dst:at(5, 5)))
            end
        end)

        it("refuses a stream that is none", function()
            local m = gpu.mat(2, 2, "u8")
            raises("BAD_ARGUMENT", "stream", m.dlpack, m, {stream = 0})
            for _, wrong in ipairs {3, -2, 0.5, "legacy", {}, m} do
                raises("BAD_ARGUMENT", "stream", m.dlpack, m, {stream = wrong})
            end
            if name == "host" then
                raises("BAD_ARGUMENT", "host memory", m.dlpack, m, {stream = 1})
            else
                for _, stream in ipairs {1, 2, gpu.stream().handle} do assert.truthy(m:dlpack {stream = stream}) end
            end
            raises("BAD_ARGUMENT", {"\"steam\"", "stream", "versioned"}, m.dlpack, m, {steam = 1})
            raises("BAD_ARGUMENT", "true or false", m.dlpack, m, {versioned = 1})
            m:close()
            raises("CLOSED", "", m.dlpack, m)
            raises("BAD_ARGUMENT", "must be a mat", m.dlpack, 5)
        end)

        it("copies to another device where one is asked for", function()
            local m = gpu.mat(6, 5, "u8", {fill = 7})
            local here, there = m:dlpack {device = name}, m:dlpack {device = "host"}
            assert.equal(m.data, here.dl_tensor.data)
            assert.equal(0, tonumber(here.flags))
            assert.equal(1, there.dl_tensor.device.device_type)
            assert.equal(name == "host" and 0 or 2, tonumber(there.flags))
            assert.equal(7, ffi.cast("uint8_t *", there.dl_tensor.data)[4])
        end)

        it("refuses a step that is no multiple of the element", function()
            local m = gpu.mat(5, 3, "f32")
            local p = ffi.cast("gwb_mat *", m)
            local step = p.step
            p.step = 257
            raises("SHAPE", {"257", "multiple of the 4 bytes of f32", "packed()"}, m.dlpack, m)
            p.step = step
        end)

        it("says where the memory is", function()
            assert.same({device_type, device_id}, {gpu.mat(3, 3, "u8"):dlpack_device()})
            assert.same({device_type, device_id}, {gpu.mat(0, 3, "u8"):dlpack_device()})
            local pinned = gpu.host_mat(3, 3, "u8")
            assert.same({#gpu.devices() > 1 and 3 or 1, 0}, {pinned:dlpack_device()})
            assert.equal(#gpu.devices() > 1 and 3 or 1, pinned:dlpack().dl_tensor.device.device_type)
            assert.equal(pinned, gpu.from_dlpack(pinned:dlpack()))
        end)
    end)

    describe("i:dlpack", function()
        it("gives a tensor a plane", function()
            local img = gpu.image("yuv420p", 7, 5)
            local tensors = img:dlpack()
            assert.equal(3, #tensors)
            for i, t in ipairs(tensors) do
                assert.equal(img.planes[i].data, t.dl_tensor.data)
                assert.same(img.planes[i].shape, list(t.dl_tensor.shape, 2))
            end
            assert.same({3, 4, 2}, list(gpu.image("nv12", 7, 5):dlpack()[2].dl_tensor.shape, 3))
        end)

        it("gives planes of one buffer as one tensor", function()
            for _, element in ipairs {"u8", "f32"} do
                local frame = gpu.mat(6, 12, element, {packed = true})
                local img = frame:planes(element == "u8" and "rgbp" or "rgbpf32le", 6, 4)
                for i, m in ipairs(img.planes) do m:fill(i) end
                local p = img:dlpack {layout = "chw"}
                local t = p.dl_tensor
                assert.same({3, 4, 6}, list(t.shape, 3))
                assert.same({24, 6, 1}, list(t.strides, 3))
                assert.equal(frame.data, t.data)
                local planes = gpu.from_dlpack(p, {layout = "chw"})
                assert.equal(3, #planes)
                for i, m in ipairs(planes) do assert.equal(img.planes[i], m) end
            end
        end)

        it("keeps the order of the components, and refuses what no tensor is", function()
            local rows = gpu.mat(4, 9, "u8")      -- R, G and B take turns row by row
            local lines = {}
            for i = 0, 2 do lines[i + 1] = rows:slice(i * rows.step, 4, 3, "u8", 3 * rows.step):fill(i) end
            local t = gpu.image_from("gbrp", {lines[2], lines[3], lines[1]}):dlpack({layout = "chw"}).dl_tensor
            assert.equal(rows.data, t.data)
            assert.same({rows.step, 3 * rows.step, 1}, list(t.strides, 3))

            local gbr = gpu.mat(4, 9, "u8", {packed = true}):planes("gbrp", 4, 3)
            raises("SHAPE", {"plane 2", "-24 bytes", "more than 0"}, gbr.dlpack, gbr, {layout = "chw"})
            local apart = gpu.image("rgbp", 4, 3)
            raises("SHAPE", {"another allocation", "planes("}, apart.dlpack, apart, {layout = "chw"})
            local yuv = gpu.mat(4, 6, "u8", {packed = true}):planes("yuv420p", 4, 4)
            raises("SHAPE", {"plane 2 is 2x2", "plane 1 is 4x4"}, yuv.dlpack, yuv, {layout = "chw"})
            local packed = gpu.image("rgb24", 4, 3)
            raises("SHAPE", {"rgb24", "rgbp"}, packed.dlpack, packed, {layout = "chw"})
            raises("BAD_ARGUMENT", {"layout", "chw"}, packed.dlpack, packed, {layout = "nchw"})
            packed:close()
            raises("CLOSED", "", packed.dlpack, packed)
        end)
    end)
end)
