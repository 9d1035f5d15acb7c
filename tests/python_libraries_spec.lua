-- SPDX-License-Identifier: MIT
-- PyTorch, CuPy and Numba on gpuwb's memory and streams and the other way round, where they are at hand; scripts/interop_*.lua.
local gpu = require "gpuwb"
local ffi = require "ffi"
local helper = require "tests.helper"
local python = require "tests.python_helper"

local py, shared, collect = python.py, python.shared, python.collect

if not py then
    describe("the libraries of Python", function()
        pending("there is no Python to open: " .. python.why)
    end)
    return
end

local function on_cuda(name, fn)
    describe(name .. " and mats", function()
        local cuda = false
        for _, d in ipairs(helper.devices()) do
            cuda = cuda or d:find("^cuda") ~= nil
        end
        if cuda and os.getenv("FAKE_JITTER") then       -- tests/driver_spec.lua
            pending("the driver is a fake")
            return
        elseif not cuda then
            pending("no cuda device: " .. tostring(gpu.why_no_cuda() or "GPUWB_TEST_DEVICE names another"))
            return
        end
        local module, why = python.library(name)
        if not module then
            pending("no " .. name .. ": " .. why)
            return
        end
        local before
        setup(function()
            before = gpu.device()
            gpu.device("cuda:0")
        end)
        teardown(function()
            gpu.device(before)
        end)
        fn(module)
    end)
end

describe("PyTorch and mats", function()
    local torch, why = python.library("torch")
    if not torch then
        pending("no torch: " .. why)
        return
    end

    it("share host memory", function()
        local m = gpu.mat(5, 3, "f32x3", {fill = {1, 2, 3}, device = "host"})
        local t = torch.from_dlpack(shared(m))
        assert.equal("[3, 5, 3]", tostring(py.builtins.list(t.shape)))
        t.mul_(2)
        assert.same({2, 4, 6}, {m:at(4, 2)})
        local n = py.mat(torch.full(py.tuple {4, 6}, 1.5))
        assert.same({6, 4, "f32", 1.5}, {n.width, n.height, n.type, n:at(5, 3)})
        helper.raises("PYTHON", "grad", py.mat, torch.zeros(py.tuple {2, 2}, py.kw {requires_grad = true}))
    end)
end)

on_cuda("torch", function(torch)
    it("share cuda memory: a plane normalised in place", function()
        local m = gpu.mat(640, 480, "f32", {fill = 5})
        local legacy = gpu.wrap_stream(1)       -- torch's default stream
        local t = torch.from_dlpack(shared(m))
        assert.equal(tonumber(ffi.cast("uintptr_t", m.data)), t.data_ptr())
        assert.equal("cuda:0", tostring(t.device))
        t.sub_(1).div_(2)
        m:record_stream(legacy)
        assert.equal(2, m:at(639, 479))
        local image = torch.full(py.tuple {4, 6, 3}, 7, py.kw {dtype = torch.uint8, device = "cuda"})
        local n = py.mat(image)
        assert.is_true(n.data == ffi.cast("void *", ffi.cast("uintptr_t", image.data_ptr())))
        assert.same({7, 7, 7}, {n:at(5, 3)})
        n:fill(9)
        n:wait()
        assert.equal(9 * 72, image.sum().item())
    end)

    it("work on a stream of gpuwb's", function()
        local s = gpu.stream()
        local theirs = py.stream(s, "torch")
        assert.equal(tonumber(ffi.cast("uintptr_t", s.handle)), theirs.cuda_stream)
        local m = gpu.mat(512, 512, "i32", {fill = 0, stream = s})
        local t = py.with(torch.cuda.stream(theirs), function() return torch.from_dlpack(shared(m)) end)
        for i = 1, 200 do
            m:fill(i, {stream = s})
            py.with(torch.cuda.stream(theirs), function() t.add_(1000) end)
            m:record_stream(s)
            assert.equal(i + 1000, m:at(511, 511))
        end
    end)
end)

on_cuda("cupy", function(cp)
    it("share an identity matrix, which CuPy multiplies by 42", function()
        local m = gpu.mat(3, 3, "f32", {fill = 0})
        for i = 0, 2 do
            m:roi(i, i, 1, 1):fill(1)
        end
        local s = gpu.stream()
        local a
        py.with(py.stream(s, "cupy"), function()
            a = cp.asarray(shared(m))
            a.__imul__(42)
        end)
        m:record_stream(s)
        assert.same({{42, 0, 0}, {0, 42, 0}, {0, 0, 42}}, m:totable())
        assert.equal(tonumber(ffi.cast("uintptr_t", m.data)), a.data.ptr)
    end)

    it("keep steps, types and each other's memory", function()
        for _, kind in ipairs {"u8", "u16x3", "f32x4", "f64", "i32", "f16"} do
            local view, parent = helper.poisoned(13, 11, kind)
            view:fill(3)
            local a = cp.asarray(shared(view))
            assert.equal(view.channels * 13 * 11 * 3, py.number(a.astype("float64").sum().item()))
            a.fill(4)
            cp.cuda.get_current_stream().synchronize()
            assert.equal(4, (view:at(12, 10)))
            helper.untouched(view, parent)
            local n = py.mat(a)
            assert.is_true(n.data == view.data and n.step == view.step and n.type == kind)
        end
        local a = cp.arange(24, py.kw {dtype = "uint8"}).reshape(4, 6)
        local n = py.mat(a)
        py.release(a)
        collect()
        assert.equal(23, n:at(5, 3))
        local m = gpu.mat(64, 64, "u8", {fill = 7})
        a = cp.from_dlpack(shared(m))
        m:close()
        collect()
        assert.equal(7 * 4096, a.sum().item())
    end)

    it("race on streams of their own, and lose nothing", function()
        local ours = gpu.stream()
        local theirs = cp.cuda.Stream(py.kw {non_blocking = true})
        local wrapped = gpu.wrap_stream(ffi.cast("void *", ffi.cast("uintptr_t", theirs.ptr)), {owner = theirs})
        local m = gpu.mat(512, 512, "i32", {fill = 0})
        local view = shared(m)
        for i = 1, 200 do
            m:fill(i, {stream = ours})
            py.with(theirs, function()
                cp.asarray(view).__iadd__(1000)     -- the interface names a stream on which the fill is done
            end)
            m:record_stream(wrapped)
            assert.equal(i + 1000, m:at(511, 511))
        end
    end)
end)

-- The line that says that Numba itself cannot compile here: it has no NVVM, or does not go with the NumPy that is there.
local function numba_fails(text)
    return text:match("[^\n]*[Nn][Vv][Vv][Mm][^\n]*") or text:match("[^\n]*module 'numpy' has no attribute[^\n]*")
end

on_cuda("numba.cuda", function(cuda)
    it("share memory, and a kernel runs on a stream of gpuwb's", function()
        local m = gpu.mat(37, 5, "f32", {fill = 2})
        local a = cuda.as_cuda_array(shared(m))
        assert.equal("(5, 37)", tostring(a.shape))
        assert.equal(2 * 37 * 5, py.number(a.copy_to_host().sum()))
        local n = py.mat(a)
        assert.is_true(n.data == m.data and n.step == m.step)
        local s = gpu.stream()
        local theirs = py.stream(s, "numba")
        m:fill(3, {stream = s})
        local d = py.builtins.dict()
        local ok, err = pcall(py.exec, [[
from numba import cuda
@cuda.jit
def scale(a, factor):
    y, x = cuda.grid(2)
    if y < a.shape[0] and x < a.shape[1]:
        a[y, x] *= factor
def launch(a, stream):
    scale[(8, 8), (8, 8), stream](a, 14)
]], d)
        assert.is_true(ok, tostring(err))
        ok, err = pcall(py.item(d, "launch"), a, theirs)
        if not ok and numba_fails(tostring(err)) then
            pending("Numba compiles nothing here: " .. numba_fails(tostring(err)))
        end
        assert.is_true(ok, tostring(err))
        m:record_stream(s)
        assert.equal(42, m:at(36, 4))
    end)
end)

describe("the script", function()
    local function script(name, module, device, wanted)
        it(("interop_%s.lua runs on %s"):format(name, device), function()
            if os.getenv("FAKE_JITTER") and device ~= "host" then
                pending("the driver is a fake")
            end
            local found, why = python.library(module)
            if not found then
                pending("no " .. module .. ": " .. why)
            end
            -- what a library loses while it is imported is its own matter
            local text, status = helper.run(("ASAN_OPTIONS=detect_leaks=0 %s --device %s scripts/interop_%s.lua"):format(helper.command(), device, name))
            if name == "numba" and status ~= 0 and numba_fails(text) then
                pending("Numba compiles nothing here: " .. numba_fails(text))
            end
            assert.truthy(text:find(wanted, 1, true), text)
            assert.equal(0, status, text)
            local addresses = {}        -- each memory is told twice: as gpuwb and as the library sees it
            for address in text:gmatch("%f[%w]0x%x+") do addresses[#addresses + 1] = address end
            assert.is_true(#addresses >= 2 and #addresses % 2 == 0, text)
            for i = 1, #addresses, 2 do assert.equal(addresses[i], addresses[i + 1], text) end
        end)
    end

    script("numpy", "numpy", "host", "inverted by NumPy\t55\t155\t205\n")
    for _, device in ipairs(helper.devices()) do
        script("torch", "torch", device, "u8x3 step 18 " .. device)
        if device ~= "host" then
            script("cupy", "cupy", device, "42\t0\t0\n0\t42\t0\n0\t0\t42\n")
        end
        script("numba", device == "host" and "numba" or "numba.cuda", device, "result 42")
    end
end)
