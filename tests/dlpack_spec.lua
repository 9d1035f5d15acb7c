-- SPDX-License-Identifier: MIT
-- DLPack: tensors given out and taken in, their owners and deleters, on every device at hand; against a library of its own (tests/c/dlpack.c).
local gpu = require "gpuwb"
local ffi = require "ffi"
local helper = require "tests.helper"
local raises = helper.raises

local TYPES = {u8 = {1, 8}, i8 = {0, 8}, u16 = {1, 16}, i16 = {0, 16}, u32 = {1, 32}, i32 = {0, 32}, f16 = {2, 16}, f32 = {2, 32}, f64 = {2, 64}}

local function collect()
    collectgarbage()
    collectgarbage()
end

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

-- ---- another library

local folder, lib

-- A tensor of 64x64 over that memory is kept until the work on it is done.
local function held_by_its_work(name, ...)
    local before, s = lib.test_deleted(), gpu.stream {device = name}
    local t = lib.test_versioned(...)
    t.dl_tensor.shape[0], t.dl_tensor.shape[1], t.dl_tensor.strides = 64, 64, nil
    local m = gpu.from_dlpack(t)
    assert.equal(name, m.device)
    assert.truthy(tostring(m):find("foreign"))
    s:sleep(60)
    m:fill(3, {stream = s})
    m:close()
    gpu.mat(2, 2, "u8"):close()
    assert.equal(before, lib.test_deleted())
    s:synchronize()
    gpu.synchronize()
    assert.equal(1, lib.test_deleted() - before)
end

local function build()
    folder = helper.folder()
    local out, status = helper.run("${CC:-cc} -std=c11 -O1 -Wall -Wextra -Werror -fPIC -shared -pthread -fvisibility=hidden -Isrc tests/c/dlpack.c -o "
        .. folder .. "/dlpack.so")
    assert(status == 0, out)
    ffi.cdef [[
        int test_deleted(void);
        gwb_dl_managed *test_plain(void *data, int type, int id);
        gwb_dl_versioned *test_versioned(void *data, int type, int id);
        gwb_dl_versioned *test_newer(void);
        void test_arm_newer(gwb_dl_versioned *t);
        void test_delete_start(void **list, int count, int n, int versioned);
        void test_delete_join(void);
    ]]
    lib = ffi.load(folder .. "/dlpack.so")
end

describe("with another library", function()
    if select(2, helper.run("test -f tests/c/dlpack.c && command -v ${CC:-cc}")) ~= 0 then
        pending("needs a checkout and a C compiler")
        return
    end

    setup(build)
    teardown(function() helper.remove(folder) end)

    helper.each_device(function(name)
        local device_type, device_id = kind(name)

        describe("gpu.from_dlpack", function()
            -- A tensor of that library over memory of the device at hand, which `under` holds.
            local under
            local function tensor(versioned, set)
                under = gpu.mat(256, 16, "u8", {packed = true, fill = 5}):wait()
                local t = (versioned and lib.test_versioned or lib.test_plain)(under.data, device_type, device_id)
                t.dl_tensor.shape[0], t.dl_tensor.shape[1] = 3, 4
                t.dl_tensor.strides[0], t.dl_tensor.strides[1] = 16, 1
                if set then set(t.dl_tensor, t) end
                return t
            end

            -- The deleter has run `n` times since `before`, once what holds the memory is gone.
            local function deletes(n, before)
                collect()
                gpu.synchronize()
                gpu.trim()
                assert.equal(n, lib.test_deleted() - before)
            end

            it("takes both structs, and calls the deleter once", function()
                for _, versioned in ipairs {true, false} do
                    local before = lib.test_deleted()
                    local m = gpu.from_dlpack(tensor(versioned))
                    assert.same({3, 4}, m.shape)
                    assert.equal(16, m.step)
                    assert.equal("u8", m.type)
                    assert.equal(name, m.device)
                    assert.equal(under.data, m.data)
                    under:fill(6)
                    assert.equal(6, m:at(3, 2))     -- ordered with the mats that show the same memory
                    m:close()
                    m:close()
                    deletes(1, before)
                end
            end)

            it("takes a pointer whose C type does not say the struct, with versioned=", function()
                local before = lib.test_deleted()
                local t = ffi.cast("void *", tensor(true))
                raises("BAD_ARGUMENT", {"versioned = true", "nothing was taken over"}, gpu.from_dlpack, t)
                raises("BAD_ARGUMENT", "8 bytes", gpu.from_dlpack, ffi.new("uint8_t[8]"), {versioned = true})
                assert.equal(before, lib.test_deleted())
                gpu.from_dlpack(t, {versioned = true}):close()
                gpu.from_dlpack(ffi.cast("intptr_t *", tensor(false)), {versioned = false}):close()
                deletes(2, before)
            end)

            it("reads NULL strides, byte_offset, one to three dimensions and every type", function()
                local before, count = lib.test_deleted(), 0
                local function take(set, versioned)
                    count = count + 1
                    return gpu.from_dlpack(tensor(versioned, set))
                end
                for _, versioned in ipairs {true, false} do
                    local m = take(function(t) t.strides = nil end, versioned)
                    assert.same({4, 1}, m.strides)
                    m = take(function(t) t.byte_offset = 32 end, versioned)
                    assert.equal(ffi.cast("uint8_t *", under.data) + 32, ffi.cast("uint8_t *", m.data))
                    m = take(function(t) t.ndim, t.shape[0], t.strides[0] = 1, 10, 1 end, versioned)
                    assert.same({1, 10}, m.shape)
                    m = take(function(t)
                        t.ndim, t.shape[2], t.dtype.bits = 3, 3, 16
                        t.strides[0], t.strides[1], t.strides[2] = 32, 3, 1
                    end, versioned)
                    assert.equal("u16x3", m.type)
                    assert.equal(64, m.step)
                    for element, dtype in pairs(TYPES) do
                        m = take(function(t) t.dtype.code, t.dtype.bits = dtype[1], dtype[2] end, versioned)
                        assert.equal(element, m.type)
                    end
                    -- an extent of 1 makes its stride meaningless
                    m = take(function(t) t.shape[0], t.strides[0] = 1, -7 end, versioned)
                    assert.same({1, 4}, m.shape)
                    m = take(function(t) t.shape[1], t.strides[1] = 1, 2 ^ 62 end, versioned)
                    assert.same({3, 1}, m.shape)
                    m = take(function(t) t.ndim, t.shape[2], t.strides[2] = 3, 1, 0 end, versioned)
                    assert.equal("u8", m.type)
                    -- no element: no pointer, no stride
                    m = take(function(t) t.data, t.shape[0], t.strides[0] = nil, 0, -1 end, versioned)
                    assert.same({0, 4}, m.shape)
                end
                deletes(count, before)
            end)

            it("refuses what a mat is not, says the value, and runs the deleter before the error", function()
                local cases = {
                    {"SHAPE", {"stride of -16", "dimension 0"}, function(t) t.strides[0] = -16 end},
                    {"SHAPE", {"stride of -1", "dimension 1", "wanted 1"}, function(t) t.strides[1] = -1 end},
                    {"SHAPE", {"stride of 2", "dimension 1"}, function(t) t.strides[1] = 2 end},
                    {"SHAPE", {"stride of 0", "dimension 0"}, function(t) t.strides[0] = 0 end},
                    {"SHAPE", {"stride of 3", "wanted 4 or more"}, function(t) t.strides[0] = 3 end},
                    {"SHAPE", {"more than any memory"}, function(t) t.strides[0] = 2 ^ 62 end},
                    {"SHAPE", {"stride of", "more than any memory"}, function(t) t.strides[0], t.dtype.bits = 2 ^ 62, 32 end},
                    {"SHAPE", {"-2 elements"}, function(t) t.shape[1] = -2 end},
                    {"SHAPE", {"4294967296 elements"}, function(t) t.shape[1] = 2 ^ 32 end},
                    {"SHAPE", {"0 dimensions"}, function(t) t.ndim = 0 end},
                    {"SHAPE", {"4 dimensions"}, function(t) t.ndim = 4 end},
                    {"SHAPE", {"-1 dimensions"}, function(t) t.ndim = -1 end},
                    {"SHAPE", {"5 channels", "chw"}, function(t) t.ndim, t.shape[2], t.strides[2], t.strides[1] = 3, 5, 1, 5 end},
                    {"SHAPE", {"0 channels"}, function(t) t.ndim, t.shape[2] = 3, 0 end},
                    {"BAD_ARGUMENT", {"2 dimensions", "no shape"}, function(t) t.shape = nil end},
                    {"BAD_ARGUMENT", {"NULL"}, function(t) t.data = nil end},
                    {"BAD_ARGUMENT", {"byte_offset", "past the end"}, function(t) t.byte_offset = -1ULL end},
                    {"BAD_ARGUMENT", {"multiples of the 4 bytes"}, function(t) t.dtype.bits, t.byte_offset, t.strides[0] = 32, 2, 4 end},
                    {"UNSUPPORTED", {"bool", "view it as uint8"}, function(t) t.dtype.code = 6 end},
                    {"UNSUPPORTED", {"code 4 (bfloat)", "16 bits"}, function(t) t.dtype.code, t.dtype.bits = 4, 16 end},
                    {"UNSUPPORTED", {"code 5 (complex)"}, function(t) t.dtype.code, t.dtype.bits = 5, 64 end},
                    {"UNSUPPORTED", {"code 99 (unknown)"}, function(t) t.dtype.code = 99 end},
                    {"UNSUPPORTED", {"64 bits"}, function(t) t.dtype.bits = 64 end},
                    {"UNSUPPORTED", {"4 lanes"}, function(t) t.dtype.lanes = 4 end},
                    {"UNSUPPORTED", {"0 lanes"}, function(t) t.dtype.lanes = 0 end},
                    {"UNSUPPORTED", {"device type 10"}, function(t) t.device.device_type = 10 end},
                    {"UNSUPPORTED", {"device type -1"}, function(t) t.device.device_type = -1 end},
                    {"NO_DEVICE", {"number 77"}, function(t) t.device.device_type, t.device.device_id = 2, 77 end},
                    {"NO_DEVICE", {"number -3"}, function(t) t.device.device_type, t.device.device_id = 2, -3 end},
                }
                for _, case in ipairs(cases) do
                    for _, versioned in ipairs {true, false} do
                        local before = lib.test_deleted()
                        raises(case[1], case[2], gpu.from_dlpack, tensor(versioned, case[3]))
                        assert.equal(1, lib.test_deleted() - before, case[2][1])
                    end
                end
                if name ~= "host" then      -- the driver knows better than the tensor
                    local before = lib.test_deleted()
                    raises("BAD_ARGUMENT", {"memory of " .. name, "not of host"}, gpu.from_dlpack, tensor(true, function(t) t.device.device_type = 1 end))
                    assert.equal(1, lib.test_deleted() - before)
                end
                assert.equal(5, under:at(0, 0))
            end)

            it("runs the deleter where the options are wrong", function()
                for _, bad in ipairs {{layout = "nchw"}, {lay = 1}, {stream = 5}, {versioned = false}, 5} do
                    local before = lib.test_deleted()
                    raises("BAD_ARGUMENT", "", gpu.from_dlpack, tensor(true), bad)
                    assert.equal(1, lib.test_deleted() - before)
                end
            end)

            it("touches nothing but the deleter of another major version", function()
                local before = lib.test_deleted()
                local t = lib.test_newer()      -- poisoned, and its memory ends behind the deleter
                lib.test_arm_newer(t)
                raises("UNSUPPORTED", {"DLPack 2.0", "1.x"}, gpu.from_dlpack, t)
                assert.equal(1, lib.test_deleted() - before)
                t = lib.test_newer()
                lib.test_arm_newer(t)
                raises("UNSUPPORTED", "DLPack 2.0", gpu.from_dlpack, ffi.cast("char *", t), {versioned = true})
                assert.equal(2, lib.test_deleted() - before)
                -- a later minor version is read
                gpu.from_dlpack(tensor(true, function(_, p) p.version.minor = 9 end)):close()
                deletes(3, before)
            end)

            it("takes a tensor without a deleter, and flags", function()
                local before, deleter = lib.test_deleted(), nil
                local t = tensor(true, function(_, p)
                    deleter = p.deleter
                    p.deleter, p.flags = nil, 3
                end)
                local m = gpu.from_dlpack(t)
                assert.is_true(m.readonly)
                raises("READ_ONLY", "", m.fill, m, 1)
                m:close()
                deletes(0, before)
                deleter(t)
            end)

            it("refuses what is no pointer, and a tensor that was taken", function()
                for _, wrong in ipairs {5, "x", {}, true, gpu.mat(1, 1, "u8"), io.stdout} do
                    raises("BAD_ARGUMENT", "ptr", gpu.from_dlpack, wrong)
                end
                raises("BAD_ARGUMENT", "ptr", gpu.from_dlpack)
                raises("BAD_ARGUMENT", "NULL", gpu.from_dlpack, ffi.cast("gwb_dl_versioned *", nil))
                local t = gpu.mat(3, 3, "u8"):dlpack()
                gpu.from_dlpack(t)
                raises("CLOSED", "one consumer", gpu.from_dlpack, t)
            end)

            it("shows planes one behind the other as a list of mats", function()
                local before = lib.test_deleted()
                local t = tensor(true, function(t)
                    t.ndim = 3
                    t.shape[0], t.shape[1], t.shape[2] = 3, 2, 5
                    t.strides[0], t.strides[1], t.strides[2] = 100, 7, 1
                end)
                local planes = gpu.from_dlpack(t, {layout = "chw"})
                assert.equal(3, #planes)
                for i, m in ipairs(planes) do
                    assert.same({2, 5}, m.shape)
                    assert.equal(7, m.step)
                    assert.equal(ffi.cast("uint8_t *", under.data) + (i - 1) * 100, ffi.cast("uint8_t *", m.data))
                    m:fill(i)
                end
                assert.equal(3, (under:at(204, 0)))
                assert.equal(5, (under:at(205, 0)))
                planes = nil
                deletes(1, before)
                raises("SHAPE", "5 planes", gpu.from_dlpack, tensor(true, function(u) u.ndim, u.shape[0], u.shape[2] = 3, 5, 1 end), {layout = "chw"})
                raises("SHAPE", "3: planes", gpu.from_dlpack, tensor(true), {layout = "chw"})
                raises("SHAPE", {"dimension 0", "stride of -16"}, gpu.from_dlpack, tensor(true, function(u)
                    u.ndim, u.shape[2], u.strides[0], u.strides[1], u.strides[2] = 3, 4, -16, 4, 1
                end), {layout = "chw"})
            end)
        end)

        if name ~= "host" then
            it("has the memory of a tensor that it deleted reused behind the work that it issued", function()
                local fake = gpu.devices()[1].model:find("^Fake")     -- whose legacy stream waits for no other
                for _, how in ipairs {"tensor", "interface"} do
                    for _, s in ipairs {gpu.wrap_stream(1), not fake and gpu.stream() or nil} do
                        collect()
                        gpu.synchronize()
                        gpu.trim()
                        local m = gpu.mat(333, 77, "u8")
                        local data, t = m.data, nil
                        if how == "tensor" then t = m:dlpack {stream = -1} else t = m:cuda_array_interface {stream = -1} end
                        m:close()
                        s:sleep(80)         -- the library's work on the memory, of which gpuwb knows nothing
                        if how == "tensor" then
                            lib.test_delete_start(ffi.new("void *[1]", {ffi.gc(t, nil)}), 1, 1, 1)
                            lib.test_delete_join()
                        end
                        t = nil
                        collect()
                        local other = gpu.mat(333, 77, "u8")
                        assert.is_false(s:query())
                        assert.are_not.equal(data, other.data)
                        gpu.synchronize()
                        assert.equal(data, gpu.mat(333, 77, "u8").data)
                    end
                end
            end)
        end

        it("has its tensors deleted on other threads, while the script goes on", function()
            local threads, each = 4, 50
            for _, versioned in ipairs {true, false} do
                collect()
                local used = gpu.memory().used
                local tensors = ffi.new("void *[?]", threads * each)
                for i = 0, threads * each - 1 do
                    tensors[i] = ffi.gc(gpu.mat(64, 16, "u8"):dlpack {versioned = versioned, stream = -1}, nil)
                end
                collect()
                assert.is_true(gpu.memory().used >= used + threads * each * 1024)
                lib.test_delete_start(tensors, each, threads, versioned and 1 or 0)
                for i = 1, 200 do
                    assert.equal(i % 256, (gpu.mat(64, 16, "u8", {fill = i % 256}):at(63, 15)))
                end
                lib.test_delete_join()
                collect()
                assert.is_true(gpu.memory().used < used + 5 * 1024)
            end
        end)
    end)

    for _, name in ipairs(helper.devices()) do
        if name ~= "host" then
            describe("and memory of its own on " .. name, function()
                local cu, context

                local function check(result) assert.equal(0, result) end

                setup(function()
                    ffi.cdef [[
                        int cuDevicePrimaryCtxRetain(void **context, int device);
                        int cuDevicePrimaryCtxRelease_v2(int device);
                        int cuCtxSetCurrent(void *context);
                        int cuMemAlloc_v2(unsigned long long *memory, size_t bytes);
                        int cuMemAllocManaged(unsigned long long *memory, size_t bytes, unsigned flags);
                        int cuMemFree_v2(unsigned long long memory);
                    ]]
                    cu, context = ffi.load("libcuda.so.1"), ffi.new("void *[1]")
                    check(cu.cuDevicePrimaryCtxRetain(context, select(2, kind(name))))
                end)
                teardown(function() cu.cuDevicePrimaryCtxRelease_v2(select(2, kind(name))) end)

                local function memory(managed)
                    local p = ffi.new("unsigned long long[1]")
                    check(cu.cuCtxSetCurrent(context[0]))
                    if managed then check(cu.cuMemAllocManaged(p, 8192, 1)) else check(cu.cuMemAlloc_v2(p, 8192)) end
                    check(cu.cuCtxSetCurrent(nil))
                    return ffi.cast("void *", ffi.cast("uintptr_t", p[0]))
                end

                local function free(p)
                    gpu.synchronize(name)
                    check(cu.cuCtxSetCurrent(context[0]))
                    check(cu.cuMemFree_v2(ffi.cast("uintptr_t", p)))
                    check(cu.cuCtxSetCurrent(nil))
                end

                it("keeps it until the work on it is done", function()
                    local p = memory()
                    held_by_its_work(name, p, kind(name))
                    free(p)
                end)

                it("refuses a tensor that leaves its allocation", function()
                    local p, before = memory(), lib.test_deleted()
                    local t = lib.test_versioned(p, kind(name))
                    t.dl_tensor.shape[0], t.dl_tensor.shape[1], t.dl_tensor.strides = 2 ^ 20, 2 ^ 20, nil
                    raises("BAD_ARGUMENT", "the allocation holds", gpu.from_dlpack, t)
                    t = lib.test_versioned(p, kind(name))
                    t.dl_tensor.ndim, t.dl_tensor.shape[0], t.dl_tensor.shape[1], t.dl_tensor.shape[2] = 3, 3, 4, 4
                    t.dl_tensor.strides[0], t.dl_tensor.strides[1], t.dl_tensor.strides[2] = 2 ^ 40, 4, 1
                    raises("BAD_ARGUMENT", "the allocation holds", gpu.from_dlpack, t, {layout = "chw"})
                    assert.equal(2, lib.test_deleted() - before)
                    free(p)
                end)

                it("knows managed memory as that", function()
                    local p = memory(true)
                    local m = gpu.wrap {ptr = p, width = 16, height = 16, type = "u8"}
                    assert.same({13, 0}, {m:dlpack_device()})
                    local t = m:dlpack()
                    assert.same({13, 0}, {t.dl_tensor.device.device_type, t.dl_tensor.device.device_id})
                    local back = gpu.from_dlpack(t)
                    assert.equal(m, back)
                    assert.equal(5, (back:fill(5):at(15, 15)))
                    assert.equal(m.data, m:cuda_array_interface().data[1])
                    m:close()
                    back:close()
                    free(p)
                end)
            end)
        end
    end

    it("is told of memory of its own when no mat shows it any more", function()
        gpu.on("host", function()
            local bytes = ffi.new("uint8_t[4096]", 5)
            local before = lib.test_deleted()
            local function tensor(set)
                local t = lib.test_plain(bytes, 1, 0)
                t.dl_tensor.ndim, t.dl_tensor.strides = 3, nil
                set(t.dl_tensor.shape)
                return t
            end
            local function untouched(n)
                collect()
                gpu.trim()
                assert.equal(n, lib.test_deleted() - before)
            end
            local m = gpu.from_dlpack(tensor(function(s) s[0], s[1], s[2] = 8, 16, 1 end))
            local view = m:roi(1, 1, 2, 2)
            m:close()
            m = nil
            untouched(0)
            assert.equal(5, view:at(1, 1))
            view:close()
            untouched(1)

            local planes = gpu.from_dlpack(tensor(function(s) s[0], s[1], s[2] = 3, 8, 16 end), {layout = "chw"})
            planes[1]:close()
            planes[3]:close()
            untouched(1)
            assert.equal(5, planes[2]:at(15, 7))
            planes = nil
            untouched(2)

            -- two tensors of the same memory: both owners stay until the last mat is gone
            local a = gpu.from_dlpack(tensor(function(s) s[0], s[1], s[2] = 8, 16, 1 end))
            local b = gpu.from_dlpack(tensor(function(s) s[0], s[1], s[2] = 4, 16, 1 end))
            a:close()
            untouched(2)
            b:close()
            untouched(4)
        end)
    end)

    it("is told of memory of its own only when the work on it is done", function()
        gpu.on("host", function()
            local bytes = ffi.new("uint8_t[4096]")
            held_by_its_work("host", bytes, 1, 0)
            assert.equal(3, bytes[4095])
        end)
    end)

    it("is told at the end of the program, whatever is still alive", function()
        local code = [[
            local ffi = require "ffi"
            local gpu = require "gpuwb"
            gpu.device("host")
            ffi.cdef "gwb_dl_versioned *test_versioned(void *data, int type, int id); int test_deleted(void);"
            local lib = ffi.load("%s/dlpack.so")
            bytes = ffi.new("uint8_t[4096]")
            local t = lib.test_versioned(bytes, 1, 0)
            t.dl_tensor.shape[0], t.dl_tensor.shape[1], t.dl_tensor.strides = 64, 64, nil
            s, m = gpu.stream(), gpu.from_dlpack(t)
            s:sleep(30)
            m:fill(1, {stream = s})
            exported = gpu.mat(5, 5, "u8"):dlpack()
            print(lib.test_deleted())]]
        local out, status = helper.run("DLPACK_REPORT=1 " .. helper.command() .. " -e '" .. code:format(folder) .. "'")
        assert.equal("0\n1 deleted\n", out)
        assert.equal(0, status)
    end)
end)
