-- SPDX-License-Identifier: MIT
-- Mats as arrays of Python and arrays as mats: the protocols by hand, and NumPy.
local gpu = require "gpuwb"
local ffi = require "ffi"
local helper = require "tests.helper"
local python = require "tests.python_helper"

local py = python.py

if not py then
    describe("mats in Python", function()
        pending("there is no Python to open: " .. python.why)
    end)
    return
end

local kinds = {u8 = "|u1", i8 = "|i1", u16 = "<u2", i16 = "<i2", u32 = "<u4", i32 = "<i4", f16 = "<f2", f32 = "<f4", f64 = "<f8"}
local CPU, CUDA = 1, 2

-- Python's side of the tests: an array that offers what it is told to, and counts what is left of it.
local names = py.builtins.dict()
py.exec([[
import weakref

class Offer:
    def __init__(self, capsule, device, old=False):
        self.capsule, self.device, self.old, self.asked = capsule, device, old, []
    def __dlpack_device__(self):
        return self.device
    def __dlpack__(self, **kwargs):
        if self.old and "max_version" in kwargs:
            raise TypeError("an unexpected keyword argument")
        self.asked.append(kwargs)
        return self.capsule

class Interface:
    def __init__(self, name, interface, keep=None):
        setattr(self, name, interface)
        self.keep = keep

class Box:
    pass

def flags_of(capsule):
    import ctypes
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    return ctypes.c_uint64.from_address(get(capsule, b"dltensor_versioned") + 24).value

def name_of(capsule):
    text = repr(capsule)
    return text[text.index('"') + 1:text.rindex('"')]
]], names)
local offer, interface, name_of, flags_of = py.item(names, "Offer"), py.item(names, "Interface"), py.item(names, "name_of"), py.item(names, "flags_of")

local shared, collect = python.shared, python.collect

helper.each_device(function(device)
    describe("a mat in Python", function()
        it("is a gpuwb.Mat that shows it", function()
            for kind, typestr in pairs(kinds) do
                for _, channels in ipairs {1, 3} do
                    local m = gpu.mat(5, 3, channels > 1 and kind .. "x3" or kind)
                    local o = shared(m)
                    assert.equal(5, o.width)
                    assert.equal(3, o.height)
                    assert.equal(channels, o.channels)
                    assert.equal(kind, o.dtype)
                    assert.equal(typestr, o.typestr)
                    assert.equal(m.step, o.step)
                    assert.equal(m.device, o.device)
                    assert.equal(m.bytes, o.nbytes)
                    assert.equal(tonumber(ffi.cast("uintptr_t", m.data)), o.data)
                    assert.equal(channels > 1 and "(3, 5, 3)" or "(3, 5)", tostring(o.shape))
                    assert.is_false(o.readonly)
                    assert.truthy(tostring(o):find("5x3", 1, true))
                    assert.is_true(py.mat(o) == m)
                end
            end
        end)

        it("lives as long as it is used there, and no longer", function()
            collect()
            local before = gpu.memory().used
            local m = gpu.mat(300, 200, "u8", {fill = 3})
            local used = gpu.memory().used
            local o = shared(m)
            m:close()
            assert.equal(used, gpu.memory().used)
            local again = py.mat(o)
            assert.equal(3, again:at(299, 199))
            again:close()
            o.close()
            o.close()
            assert.equal(before, gpu.memory().used)
            helper.raises("PYTHON", "closed", function() return o.width end)
            helper.raises("PYTHON", "closed", py.mat, o)
            assert.truthy(tostring(o):find("closed"))
            shared(gpu.mat(300, 200, "u8"))
            collect()
            assert.equal(before, gpu.memory().used)
        end)

        if device ~= "host" then
            it("whose interface was read is reused behind the work of whoever read it", function()
                collect()
                gpu.synchronize()
                gpu.trim()
                local m = gpu.mat(333, 77, "u8")
                local data, o = m.data, shared(m)
                assert.truthy(o.__cuda_array_interface__)
                m:close()
                local s = gpu.wrap_stream(1)
                s:sleep(80)         -- the library's work on the memory, of which gpuwb knows nothing
                o.close()
                local other = gpu.mat(333, 77, "u8")
                assert.is_false(s:query())
                assert.are_not.equal(data, other.data)
                gpu.synchronize()
                assert.equal(data, gpu.mat(333, 77, "u8").data)
            end)
        end

        it("tells its DLPack device", function()
            local place = py.totable(shared(gpu.mat(1, 1, "u8")).__dlpack_device__())
            assert.equal(device == "host" and CPU or CUDA, place[1])
            assert.equal(0, place[2])
        end)

        it("has the interface of its memory, and no other", function()
            local o = shared(gpu.mat(7, 2, "u16"))
            local has = py.builtins.hasattr
            assert.equal(device == "host", has(o, "__array_interface__"))
            assert.equal(device ~= "host", has(o, "__cuda_array_interface__"))
            local t = o[device == "host" and "__array_interface__" or "__cuda_array_interface__"]
            assert.equal("(2, 7)", tostring(py.item(t, "shape")))
            assert.equal("<u2", py.item(t, "typestr"))
            assert.equal(3, py.item(t, "version"))
            assert.equal(o.data, py.item(t, "data")[0])
            assert.is_false(py.item(t, "data")[1])
            assert.equal(("(%d, 2)"):format(o.step), tostring(py.item(t, "strides")))
            if device ~= "host" then
                assert.is_true(py.item(t, "stream") > 0)
                helper.raises("PYTHON", {"TypeError", "m:to(\"host\")"}, function() return o.__array__() end)
            end
            local tight = shared(gpu.mat(7, 2, "u16", {packed = true}))
            t = tight[device == "host" and "__array_interface__" or "__cuda_array_interface__"]
            assert.is_nil(py.item(t, "strides"))
        end)

        it("makes capsules by the rules, and an import takes them over", function()
            collect()
            local before = gpu.memory().used
            local m = gpu.mat(5, 3, "f32x2", {fill = {1, 2}})
            local o = shared(m)
            local place = py.totable(o.__dlpack_device__())
            for _, versioned in ipairs {true, false} do
                local name = versioned and "dltensor_versioned" or "dltensor"
                local capsule = versioned and o.__dlpack__(py.kw {max_version = py.tuple {1, 0}}) or o.__dlpack__()
                assert.equal(name, name_of(capsule))
                local array = offer(capsule, py.tuple(place), not versioned)
                local n = py.mat(array)
                assert.is_true(n.data == m.data)
                assert.equal(m.step, n.step)
                assert.equal("f32x2", n.type)
                assert.same({1, 2}, {n:at(4, 2)})
                assert.equal("used_" .. name, name_of(capsule))
                helper.raises("PYTHON", "capsule", py.mat, array)       -- a tensor has one consumer
                local asked = array.asked[0]
                assert.equal(device ~= "host", py.builtins.dict.__contains__(asked, "stream"))
                if device ~= "host" then
                    assert.is_true(py.item(asked, "stream") > 0)
                end
                n:close()
            end
            local unused = o.__dlpack__(py.kw {max_version = py.tuple {1, 0}})
            o.close()
            m:close()
            assert.is_true(gpu.memory().used > before)
            py.release(unused)
            collect()
            assert.equal(before, gpu.memory().used)
        end)

        it("makes capsules with every keyword of the standard", function()
            local m = gpu.mat(5, 3, "u8", {fill = 9})
            local o = shared(m)
            local place = py.tuple(py.totable(o.__dlpack_device__()))
            local v1 = py.tuple {1, 1}
            for _, case in ipairs {
                {kw = {}, same = true}, {kw = {stream = -1}, same = true}, {kw = {copy = false}, same = true}, {kw = {dl_device = place}, same = true},
                {kw = {copy = true}, same = false}, {kw = {dl_device = py.tuple {CPU, 0}}, same = device == "host", host = true},
                {kw = {dl_device = py.tuple {CPU, 0}, copy = true}, same = false, host = true},
            } do
                case.kw.max_version = v1
                local capsule = o.__dlpack__(py.kw(case.kw))
                assert.equal(case.same and 0 or 2, flags_of(capsule))       -- 2: a copy
                local n = py.mat(offer(capsule, case.host and py.tuple {CPU, 0} or place))
                assert.equal(case.same, n.data == m.data)
                assert.equal(case.host and "host" or device, n.device)
                assert.equal(9, n:at(4, 2))
                n:fill(9)
                n:close()
            end
            if device ~= "host" then
                for _, stream in ipairs {1, 2} do
                    assert.equal("dltensor", name_of(o.__dlpack__(py.kw {stream = stream})))
                end
                local s = gpu.stream()
                assert.equal("dltensor", name_of(o.__dlpack__(py.kw {stream = ffi.cast("uintptr_t", s.handle)})))
                helper.raises("PYTHON", "BufferError", function() return o.__dlpack__(py.kw {dl_device = py.tuple {CPU, 0}, copy = false}) end)
                helper.raises("PYTHON", "either default stream", function() return o.__dlpack__(py.kw {stream = 0}) end)
            else
                helper.raises("PYTHON", "stream must be None or -1", function() return o.__dlpack__(py.kw {stream = 1}) end)
            end
            helper.raises("PYTHON", "cannot copy to", function() return o.__dlpack__(py.kw {dl_device = py.tuple {CUDA, 99}}) end)
            helper.raises("PYTHON", "cannot copy to", function() return o.__dlpack__(py.kw {dl_device = py.tuple {4, 0}}) end)
        end)

        it("that is read-only says so, or is refused", function()
            local owner = gpu.mat(4, 4, "u8", {fill = 1})
            local m = gpu.wrap {ptr = owner.data, width = 4, height = 4, type = "u8", step = owner.step, owner = owner, readonly = true}
            local o = shared(m)
            assert.is_true(o.readonly)
            assert.is_true(py.mat(o).readonly)
            helper.raises("PYTHON", {"BufferError", "read-only"}, function() return o.__dlpack__() end)
            local place = py.tuple(py.totable(o.__dlpack_device__()))
            assert.is_true(py.mat(offer(o.__dlpack__(py.kw {max_version = py.tuple {1, 0}}), place)).readonly)
        end)

        it("of any size goes there and comes back, regions too", function()
            for _, size in ipairs {{0, 0}, {0, 3}, {5, 0}, {1, 1}, {1, 7}, {7, 1}, {13, 11}} do
                for _, kind in ipairs {"u8", "u16x3", "f32x4"} do
                    local m = gpu.mat(size[1], size[2], kind)
                    local n = py.mat(shared(m))
                    assert.same({size[1], size[2], kind}, {n.width, n.height, n.type})
                    local o = shared(m)
                    local place = py.tuple(py.totable(o.__dlpack_device__()))
                    n = py.mat(offer(o.__dlpack__(py.kw {max_version = py.tuple {1, 0}}), place))
                    assert.same({size[1], size[2], kind}, {n.width, n.height, n.type})
                end
            end
            local view, parent = helper.poisoned(13, 11, "u16x3")
            view:fill {1, 2, 3}
            local n = py.mat(shared(view))
            assert.same({n:at(12, 10)}, {1, 2, 3})
            n:fill {4, 5, 6}
            assert.same({view:at(0, 0)}, {4, 5, 6})
            helper.untouched(view, parent)
        end)

        it("is made of an interface of gpuwb's own memory", function()
            local owner = gpu.mat(6, 5, "u16", {fill = 77})
            local o = shared(owner)
            local name = device == "host" and "__array_interface__" or "__cuda_array_interface__"
            local n = py.mat(interface(name, o[name], o))
            assert.is_true(n.data == owner.data and n.step == owner.step)
            assert.equal(77, n:at(5, 4))
        end)

        it("what it cannot express is refused", function()
            local m = gpu.mat(8, 8, "u8", {packed = true})
            local at = shared(m).data
            local name = device == "host" and "__array_interface__" or "__cuda_array_interface__"
            local function array(t)
                local d = {shape = py.tuple {8, 8}, typestr = "|u1", data = py.tuple {at, false}, version = 3}
                for key, v in pairs(t) do
                    d[key] = v
                end
                return interface(name, d, shared(m))
            end
            assert.equal(8, py.mat(array {}).width)
            helper.raises("SHAPE", "-8", py.mat, array {strides = py.tuple {-8, 1}})
            helper.raises("UNSUPPORTED", "c8", py.mat, array {typestr = "<c8"})
            helper.raises("SHAPE", {"4 dimensions"}, py.mat, array {shape = py.tuple {2, 2, 4, 4}})
            helper.raises("SHAPE", {"8 channels"}, py.mat, array {shape = py.tuple {2, 4, 8}})
            helper.raises("UNSUPPORTED", "numpy.asarray", py.mat, array {data = py.bytes "x"})
            helper.raises("BAD_ARGUMENT", "neither", py.mat, names)
            helper.raises("BAD_ARGUMENT", "got 5", py.mat, 5)
            helper.raises("BAD_ARGUMENT", "unknown option", py.mat, names, {strem = 1})
            helper.raises("BAD_ARGUMENT", "stream must be", py.mat, names, {stream = 5})
            helper.raises("PYTHON", {"BufferError", "wanted a capsule"}, py.mat, offer("no capsule", py.tuple {CPU, 0}))
            assert.equal(8, py.mat(array {}).width)
        end)

        it("of a stream's work is ready when it is read", function()
            local s = gpu.stream()
            local m = gpu.mat(64, 64, "u8", {fill = 1})
            gpu.synchronize()
            s:sleep(60)
            m:fill(2, {stream = s})
            if device == "host" then
                assert.equal(2, py.eval("__import__('ctypes').c_uint8.from_address(m.__array_interface__['data'][0]).value", {m = m}))
            else
                assert.is_true(py.item(shared(m).__cuda_array_interface__, "stream") > 0)
                assert.equal(2, py.mat(offer(shared(m).__dlpack__(py.kw {stream = 1}), py.tuple {CUDA, 0}, true)):at(63, 63))
            end
        end)
    end)

    describe("a stream in Python", function()
        it("is a gpuwb.Stream, which keeps it", function()
            local s = gpu.stream()
            local handle = tonumber(ffi.cast("uintptr_t", s.handle))
            local o = py.stream(s)
            assert.equal(handle, o.handle)
            assert.equal(s.device, o.device)
            assert.truthy(tostring(o):find("gpuwb.Stream " .. device, 1, true))
            s:sleep(20)
            s:close()
            assert.equal(handle, o.handle)
            if device == "host" then
                helper.raises("PYTHON", "knows streams of a cuda device", function() return o.__cuda_stream__() end)
                helper.raises("PYTHON", "CuPy knows streams", py.stream, gpu.stream(), "cupy")
                helper.raises("PYTHON", "PyTorch knows streams", py.stream, gpu.stream(), "torch")
                helper.raises("PYTHON", "Numba knows streams", py.stream, gpu.stream(), "numba")
            else
                assert.equal(handle, o.__cuda_stream__()[1])
            end
            helper.raises("CLOSED", "closed", py.stream, s)
            helper.raises("BAD_ARGUMENT", "got nil", py.stream)
            helper.raises("BAD_ARGUMENT", "cupy, torch, numba", py.stream, gpu.stream(), "jax")
        end)
    end)
end)

describe("an array interface of foreign memory", function()
    it("keeps its object as long as a mat shows it", function()
        local d = py.builtins.dict()
        py.exec("import ctypes, weakref\nbuffer = ctypes.create_string_buffer(b'\\x4d' * 60)\nat = ctypes.addressof(buffer)", d)
        local t = {shape = py.tuple {5, 6}, typestr = "<u2", data = py.tuple {py.item(d, "at"), false}, version = 3}
        local array = interface("__array_interface__", t, py.item(d, "buffer"))
        local alive = py.item(d, "weakref").ref(array)
        local n = py.mat(array)
        py.release(array)
        collect()
        assert.is_false(py.is(alive(), nil))
        assert.equal(0x4d4d, n:at(5, 4))
        local part = n:roi(1, 1, 2, 2)
        n:close()
        collect()
        assert.is_false(py.is(alive(), nil))
        part:close()
        collect()
        assert.is_true(py.is(alive(), nil))
    end)
end)

describe("NumPy and mats", function()
    local np, before

    setup(function()
        before = gpu.device()
        gpu.device("host")
    end)
    teardown(function()
        gpu.device(before)
    end)

    local found, why = python.library("numpy")
    if not found then
        pending("no NumPy: " .. why)
        return
    end
    np = found

    it("are as the module's example says", function()
        local lines = {}
        for line in require("gpuwb.core").embedded("lua/gpuwb/python.lua"):gmatch("[^\n]*\n") do
            if not line:find("^%-%-") then
                break
            end
            lines[#lines + 1] = line:match("^%-%-     (.*)")
        end
        assert.is_true(#lines > 10)
        assert(loadstring("local gpu = require 'gpuwb' " .. table.concat(lines), "=example"))()
    end)

    it("share memory, whatever the type, the size and the step", function()
        local random = helper.random(5)
        for kind in pairs(kinds) do
            for _, case in ipairs {{1, 1, 1}, {7, 5, 1}, {13, 11, 3}, {5, 3, 4}} do
                local width, height, channels = case[1], case[2], case[3]
                local full = channels > 1 and kind .. "x" .. channels or kind
                local view, parent = helper.poisoned(width, height, full)
                local value, x, y = random(100), random(width), random(height)
                view:fill(0)
                local a = np.asarray(view)
                assert.equal(channels > 1 and ("(%d, %d, %d)"):format(height, width, channels) or ("(%d, %d)"):format(height, width), tostring(a.shape))
                assert.equal(kinds[kind], a.dtype.str)
                a[py.tuple {y, x}] = value
                assert.equal(value, (view:at(x, y)))
                assert.equal(value * channels, py.number(a.sum()))
                view:fill(1):wait()
                assert.equal(width * height * channels, py.number(a.astype("float64").sum()))
                local n = py.mat(a)
                assert.is_true(n.data == view.data)
                assert.same({width, height, full, view.step}, {n.width, n.height, n.type, height > 1 and n.step or view.step})
                helper.untouched(view, parent)
            end
        end
    end)

    it("agree on empty ones", function()
        for _, size in ipairs {{0, 0}, {0, 3}, {5, 0}} do
            local a = np.asarray(gpu.mat(size[1], size[2], "u8"))
            assert.equal(("(%d, %d)"):format(size[2], size[1]), tostring(a.shape))
            local n = py.mat(a)
            assert.same({size[1], size[2]}, {n.width, n.height})
        end
    end)

    it("make mats of arrays and their parts", function()
        local a = np.arange(60, py.kw {dtype = "int32"}).reshape(5, 4, 3)
        local m = py.mat(a)
        assert.same({4, 5, "i32x3"}, {m.width, m.height, m.type})
        assert.same({57, 58, 59}, {m:at(3, 4)})
        local part = py.eval("a[1:4, 1:3]", {a = a})
        local n = py.mat(part)
        assert.same({15, 16, 17}, {n:at(0, 0)})
        n:fill(0):wait()
        assert.equal(0, a[1][1][0])
        assert.equal(12, a[1][0][0])
        assert.same({5, 1}, {py.mat(np.arange(5)["astype"]("uint8")).width, py.mat(np.zeros(5, "u1")).height})
        local planes = py.mat(np.arange(24, py.kw {dtype = "uint8"}).reshape(3, 2, 4), {layout = "chw"})
        assert.equal(3, #planes)
        assert.equal(23, planes[3]:at(3, 1))
        helper.raises("SHAPE", "stride", py.mat, py.eval("a[::-1]", {a = a}))
        helper.raises("SHAPE", "stride", py.mat, np.zeros(py.tuple {4, 6}, "u1").T)
        helper.raises("UNSUPPORTED", {}, py.mat, np.zeros(py.tuple {2, 2}, "complex64"))
        helper.raises("UNSUPPORTED", {}, py.mat, np.zeros(py.tuple {2, 2}, ">f4"))
        helper.raises("UNSUPPORTED", {}, py.mat, np.zeros(py.tuple {2, 2}, "int64"))
        helper.raises("SHAPE", {}, py.mat, np.zeros(py.tuple {2, 2, 2, 2}, "u1"))
    end)

    it("respect what is read-only", function()
        local a = np.ones(py.tuple {2, 3}, "f4")
        a.flags.writeable = false
        local m = py.mat(a)
        assert.is_true(m.readonly)
        assert.equal(1, m:at(2, 1))
        helper.raises("READ_ONLY", {}, m.fill, m, 2)
        assert.is_false(np.asarray(m).flags.writeable)
    end)

    it("keep each other's memory", function()
        local a = np.full(py.tuple {100, 100}, 5, "u1")
        local alive = py.import("weakref").ref(a)
        local m = py.mat(a):roi(3, 3, 4, 4)
        py.release(a)
        collect()
        assert.equal(5, m:at(3, 3))
        assert.is_false(py.is(alive(), nil))
        m:close()
        collect()
        assert.is_true(py.is(alive(), nil))

        local used = gpu.memory().used
        m = gpu.mat(100, 100, "u8", {fill = 6})
        a = np.asarray(m)
        local part = py.eval("a[10:20, 10:20]", {a = a})
        m:close()
        py.release(a)
        collect()
        assert.equal(600, py.number(part.sum()))
        assert.is_true(gpu.memory().used > used)
        py.release(part)
        collect()
        assert.equal(used, gpu.memory().used)
    end)

    it("take DLPack tensors of each other", function()
        if not py.builtins.hasattr(np, "from_dlpack") then
            pending("this NumPy has no from_dlpack")
        end
        collect()
        local used = gpu.memory().used
        local m = gpu.mat(5, 3, "i16x2", {fill = {3, 4}})
        local a = np.from_dlpack(shared(m))
        assert.equal("(3, 5, 2)", tostring(a.shape))
        assert.equal(3 * 5 * 7, py.number(a.sum()))
        m:close()
        assert.equal(4, py.number(a[2][4][1]))
        py.release(a)
        collect()
        assert.equal(used, gpu.memory().used)
    end)

    it("let go of a mat that a Python object holds, and break a cycle by close", function()
        py.exec([[
import numpy as np
class Array(np.ndarray): pass
class Box: pass
]], names)
        -- Lua holds a box, the box holds a mat over an array that the box holds: no cycle, all goes with the box.
        local box = py.item(names, "Box")()
        box.array = np.ones(py.tuple {50, 50}, "u1")
        local alive = py.import("weakref").ref(box.array)
        box.mat = py.mat(box.array)
        collect()
        assert.equal(1, py.mat(box.mat):at(1, 1))
        py.release(box)
        collect()
        assert.is_true(py.is(alive(), nil))

        -- An array that holds the mat over itself: neither collector sees it whole. close() lets it go.
        local array = np.ones(py.tuple {50, 50}, "u1").view(py.item(names, "Array"))
        alive = py.import("weakref").ref(array)
        array.mat = py.mat(array)
        collect()
        array.mat.close()
        collect()
        py.release(array)
        array = nil
        collect()
        assert.is_true(py.is(alive(), nil))
    end)

    it("pass the planes of an image", function()
        local img = gpu.image("yuv420p", 6, 4, {matrix = "bt601", range = "limited"})
        local planes = py.builtins.list(img.planes)
        assert.equal(3, #planes)
        np.asarray(planes[1]).fill(200)
        assert.equal(200, img.planes[2]:at(2, 1))
        local rgb = gpu.image("rgb24", 6, 4)
        np.asarray(rgb).fill(9)
        assert.same({9, 9, 9}, {rgb.planes[1]:at(5, 3)})
    end)

    it("give their scalars as numbers", function()
        for _, kind in ipairs {"int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64"} do
            assert.equal(7, np[kind](7))
        end
        assert.equal(true, np.bool_(1))
        assert.is_true(ffi.istype("uint64_t", np.uint64(18446744073709551615ULL)))
    end)

    it("stay right while threads of both work", function()
        local m = gpu.mat(200, 200, "u8", {fill = 0})
        local s = gpu.stream()
        local a = np.asarray(m)
        for i = 1, 200 do
            m:fill(i, {stream = s})
            assert.equal(i * 40000, py.number(np.asarray(m).sum()))
            a.fill(0)
        end
    end)
end)
