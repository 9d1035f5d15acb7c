-- SPDX-License-Identifier: MIT
-- DLPack: tensors of another library (tests/c/dlpack.c) taken in, and what becomes of their deleters, on every device at hand.
local gpu = require "gpuwb"
local ffi = require "ffi"
local helper = require "tests.helper"
local raises = helper.raises

local TYPES = helper.dlpack_types

local collect = helper.collect

-- Device type and number of a mat's memory, as DLPack has them.
local function kind(name)
    return name == "host" and 1 or 2, tonumber(name:match("%d+$") or 0)
end

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
