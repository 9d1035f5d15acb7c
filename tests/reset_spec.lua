-- SPDX-License-Identifier: MIT
-- gpu.reset: what was on the device is lost and says so, the rest goes on; and the faults after which it is needed.
local gpu = require "gpuwb"
local ffi = require "ffi"
local helper = require "tests.helper"
local kernels = require "tests.kernels"
local raises = helper.raises
local C = require("gpuwb.cdef").C

helper.each_device(function(name)
    describe("gpu.reset", function()
        it("loses mats, views, streams and events, and goes on", function()
            local m = gpu.mat(64, 64, "u8x3", {fill = 1})
            local view, empty = m:roi(1, 1, 5, 5), gpu.mat(0, 4, "u8")
            local s, default, e = gpu.stream(), gpu.default_stream(), gpu.event()
            s:record(e)
            s:sleep(30)
            m:fill(2, {stream = s})
            gpu.reset()
            assert.same({0, 0}, {gpu.memory().used, gpu.memory().cached})
            for what, call in pairs {
                download = function() m:download() end, at = function() m:at(0, 0) end, fill = function() view:fill(3) end,
                cast = function() m:cast("f32") end, clone = function() view:clone() end, roi = function() m:roi(0, 0, 1, 1) end,
                upload = function() view:upload(("x"):rep(75)) end, wait = function() m:wait() end, reduce = function() gpu.reduce(m, "sum") end,
                copy = function() gpu.copy(gpu.mat(64, 64, "u8x3"), m) end, synchronize = function() s:synchronize() end,
                query = function() default:query() end, event = function() e:synchronize() end, wait_event = function() gpu.stream():wait(e) end,
                stream = function() gpu.mat(2, 2, "u8"):fill(1, {stream = s}) end, save = function() gpu.encode(m, "png") end,
            } do
                local err = raises("CLOSED", {"lost", "reset"}, call)
                assert.truthy(tostring(err):find(what == "event" and "event" or what == "wait_event" and "event" or name, 1, true), what)
            end
            assert.equal("", empty:download())
            local fresh = gpu.mat(64, 64, "u8", {fill = 7})
            assert.equal(7, (fresh:at(63, 63)))
            gpu.stream():record(e)
            assert.is_true(e:synchronize():query())
            local again = gpu.stream()
            fresh:fill(8, {stream = again})
            assert.equal(8, (fresh:at(0, 0)))
            for _, object in ipairs {m, view, s, default, e} do
                object:close()
            end
            gpu.reset()
            gpu.reset(name)
            raises("CLOSED", "lost", fresh.at, fresh, 0, 0)
            m, view, s, default, fresh, again = nil, nil, nil, nil, nil, nil
            collectgarbage()
            collectgarbage()
            assert.equal(5, (gpu.mat(3, 3, "u8", {fill = 5}):at(2, 2)))
        end)

        it("gives wrapped memory back, which is its owner's", function()
            local bytes = gpu.on("host", gpu.mat, 16, 1, "u8", {fill = 9})
            local owner = setmetatable({}, {__mode = "k"})
            local w = gpu.on("host", gpu.wrap, {ptr = ffi.new("uint8_t[16]", 4), width = 16, height = 1, type = "u8"})
            owner[w] = true
            gpu.reset()
            if name == "host" then
                raises("CLOSED", "lost", w.at, w, 0, 0)
                raises("CLOSED", "lost", bytes.at, bytes, 0, 0)
            else
                assert.equal(4, (w:at(3, 0)))
                assert.equal(9, (bytes:at(3, 0)))
            end
            w:close()
            gpu.mat(1, 1, "u8")
        end)

        it("loses page-locked memory with the context that it came from", function()
            local h = gpu.host_mat(8, 8, "u8", {fill = 1})
            gpu.mat(8, 8, "u8"):upload(h)
            gpu.reset()
            raises("CLOSED", "lost", h.at, h, 0, 0)
            assert.equal(2, (gpu.host_mat(8, 8, "u8", {fill = 2}):at(7, 7)))
        end)

        it("loads kernels and pipelines again when they are next used", function()
            if name == "host" and not kernels.compiler_at_hand() then
                pending("needs a compiler")
                return
            end
            local k = gpu.kernel "__global__ void put(int *p, int v) { p[threadIdx.x] = v + 1; }"
            local pipe = gpu.pipe():resize(8, 8, "area"):mul(2)
            local function try(v)
                local m = gpu.mat(32, 1, "i32", {fill = 0})
                k.put {grid = 1, block = 32, args = {m, v}}
                assert.equal(v + 1, (m:at(31, 0)))
                assert.equal(20, (pipe(gpu.image_from("gray", {gpu.mat(16, 16, "u8", {fill = 10})})).planes[1]:at(7, 7)))
            end
            try(1)
            local before = tonumber(C.gwb_compilations())
            for v = 2, 4 do
                gpu.reset()
                try(v)
            end
            assert.equal(before, tonumber(C.gwb_compilations()))
            gpu.reset()
            k:close()
        end)
    end)
end)

describe("after a kernel has failed on cuda", function()
    local folder, real
    setup(function()
        local devices = helper.devices()
        real = devices[#devices] ~= "host"
        folder = not real and kernels.fake_driver() or nil
    end)
    teardown(function()
        if folder then
            helper.run("rm -rf " .. folder)
        end
    end)

    local function run(env, script)
        return helper.run(("env -u GPUWB_DEVICE -u CUDA_VISIBLE_DEVICES %s %s %s --device cuda:0 -e '%s'"):format(
            folder and "ASAN_OPTIONS=detect_leaks=0 LD_LIBRARY_PATH=" .. folder or "", env, helper.command(), script))
    end

    -- On the fake driver a launch of `bad` is a fault; on a real one it writes to an address that is nobody's.
    local SCRIPT = [[
        local k = gpu.kernel "__global__ void good(int *p) { *p = 1; }\n__global__ void bad(int *p) { *(volatile int *)8 = 1; }"
        local m = gpu.mat(1, 1, "i32")
        k.good {grid = 1, block = 1, args = {m}}
        gpu.synchronize()
        k.bad {grid = 1, block = 1, args = {m}}
        local ok, err = pcall(gpu.synchronize)
        print(ok, err.code, err.message)
        ok, err = pcall(m.download, m)
        print(ok, err.code, err.message)
        gpu.reset()
        local opens, fresh = pcall(gpu.mat, 2, 2, "u8")
        if not opens then   -- a driver may keep the fault for the process
            print("kept", fresh.code, fresh.message)
            gpu.device("host")
            print(gpu.mat(1, 1, "u8", {fill = 7}):at(0, 0))
            os.exit(0)
        end
        fresh:upload("abcd")
        print(fresh:download())
        k.good {grid = 1, block = 1, args = {gpu.mat(1, 1, "i32")}}
        gpu.synchronize()
        print(pcall(m.at, m, 0, 0))
        print("end")]]

    it("the error names the launch and the way on, which works", function()
        if not real and (not folder or C.gwb_nvrtc_version() < 0) then
            pending("needs a cuda device, or NVRTC, a checkout and a C compiler")
            return
        end
        local out, status = run("FAKE_FAULT=bad", SCRIPT)
        assert.equal(0, status, out)
        local first, second = out:match("^([^\n]*)\n([^\n]*)\n")
        for _, line in ipairs {first, second} do
            assert.truthy(line:find("false\tDEVICE", 1, true), out)
            assert.truthy(line:find("outside its memory", 1, true), out)
            assert.truthy(line:find("newest first: bad;", 1, true), out)
            assert.truthy(line:find('gpu.reset("cuda:0") reopens the device where the driver allows it', 1, true), out)
        end
        if real and out:find("\nkept\t", 1, true) then
            assert.truthy(out:find("kept\tNO_DEVICE\t", 1, true) and out:find("start the program again", 1, true) and out:find("\n7\n", 1, true), out)
            return
        end
        assert.truthy(out:find("\nabcd\nfalse\t", 1, true) and out:find("lost when cuda:0 was reset", 1, true) and out:find("\nend\n", 1, true), out)
    end)

    it("GPUWB_SYNC=1 makes the launch itself raise the error", function()
        if not real and (not folder or C.gwb_nvrtc_version() < 0) then
            pending("needs a cuda device, or NVRTC, a checkout and a C compiler")
            return
        end
        local out = run("FAKE_FAULT=bad GPUWB_SYNC=1", [[
            local k = gpu.kernel "__global__ void good(int *p) { *p = 1; }\n__global__ void bad(int *p) { *(volatile int *)8 = 1; }"
            local m = gpu.mat(1, 1, "i32")
            k.good {grid = 1, block = 1, args = {m}}
            print(pcall(k.bad, {grid = 1, block = 1, args = {m}}))]])
        assert.truthy(out:find("false\t", 1, true) and out:find("kernel bad: ", 1, true) and out:find("newest first: bad;", 1, true), out)
    end)

    it("a fault of a built-in kernel is told as well, and the other device goes on", function()
        if not folder or C.gwb_nvrtc_version() < 0 then
            pending("needs the fake driver: a checkout, a C compiler and NVRTC, and no cuda device")
            return
        end
        local out, status = run("FAKE_FAULT=gwb_fill", [[
            local other = gpu.on("cuda:1", gpu.mat, 4, 1, "u8")
            other:upload("1234")
            local m = gpu.mat(4, 1, "u8")
            m:upload("abcd")
            local s = gpu.stream()
            gpu.synchronize()
            m:fill(1)
            local ok, err = pcall(s.synchronize, s)
            print(ok, err.code, err.message)
            print(other:download())
            gpu.reset("cuda:0")
            print(other:download())
            local copy = gpu.mat(4, 1, "u8")
            gpu.copy(copy, other)
            print(copy:download())
            gpu.reset("cuda:1")
            print(copy:download())
            print(pcall(other.download, other))]])
        assert.equal(0, status, out)
        assert.truthy(out:find("newest first: fill;", 1, true), out)
        assert.truthy(out:find("\n1234\n1234\n1234\n1234\nfalse\t", 1, true), out)
        assert.truthy(out:find("lost when cuda:1 was reset", 1, true), out)
    end)
end)
