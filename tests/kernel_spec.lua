-- SPDX-License-Identifier: MIT
-- The built-in kernels compile with both compilers, and what the run-time compiler makes is kept on disk. Needs no GPU.
local ffi = require "ffi"
local helper = require "tests.helper"
local C = require("gpuwb.cdef").C

local OPTIONS = {"--fmad=false", "-default-device", "--std=c++17"}

local function read(path)
    local file = io.open(path, "rb")
    local text = file and file:read("*a")
    if file then file:close() end
    return text
end

local function need_nvrtc()
    if C.gwb_nvrtc_version() < 0 then
        pending(ffi.string(C.gwb_error_message()))
        return false
    end
    return true
end

-- Status, bytes made and the compiler's text.
local function compile(source, name, arch)
    local log, size = ffi.new("char[8192]"), ffi.new("int64_t[1]")
    local status = C.gwb_nvrtc_compile(source, name, ffi.new("const char *[3]", OPTIONS), 3, arch, log, 8192, size)
    return status, tonumber(size[0]), ffi.string(log)
end

describe("kernels/builtin.cu", function()
    local source = read("kernels/builtin.cu")

    it("compiles with nvcc", function()
        local nvcc = helper.run("command -v nvcc || ls ${CUDA_HOME:-/usr/local/cuda}/bin/nvcc"):match("^(/[^\n]*nvcc)\n")
        if not nvcc or not source or not read("src/abi_types.h") then
            pending(nvcc and "needs a checkout" or "there is no nvcc")
            return
        end
        local out, status = helper.run(nvcc .. " -cubin -arch=sm_90 -fmad=false -O3 --std=c++17 -Werror all-warnings -I kernels -I src "
            .. "-o /dev/null kernels/builtin.cu")
        assert.equal(0, status, out)
        assert.equal("", out)
    end)

    it("compiles with NVRTC, to machine code and to PTX", function()
        if not source then
            pending("needs a checkout")
            return
        end
        if not need_nvrtc() then return end
        for _, arch in ipairs {"sm_90", "compute_75"} do
            local status, size, log = compile(source, "builtin.cu", arch)
            assert.equal(0, status, log)
            assert.is_true(size > 10000)
            assert.equal("", log)
        end
    end)
end)

describe("the run-time compiler", function()
    it("says where a source is wrong", function()
        if not need_nvrtc() then return end
        local status, _, log = compile("__global__ void k(int *p)\n{\n    *p = missing;\n}\n", "mine.cu", "sm_90")
        assert.equal("COMPILE", ffi.string(C.gwb_status_name(status)))
        assert.truthy(log:find('mine.cu(3): error: identifier "missing" is undefined', 1, true), log)
        assert.truthy(ffi.string(C.gwb_error_message()):find("mine.cu does not compile for sm_90", 1, true))
    end)

    it("finds the types and headers of gpuwb by name", function()
        if not need_nvrtc() then return end
        local source = '#include "number.h"\n__global__ void k(gwb_view v) { v.data[0] = (uint8_t)gwb_double_to_half(v.step); }'
        local status, _, log = compile(source, "k.cu", "sm_90")
        assert.equal(0, status, log)
    end)

    it("refuses what is no source, and wrong options", function()
        assert.equal("BAD_ARGUMENT", ffi.string(C.gwb_status_name(C.gwb_nvrtc_compile(nil, "x", nil, 0, "sm_90", nil, 0, nil))))
        if not need_nvrtc() then return end
        local status, _, log = compile("__global__ void k() {}", "k.cu", "sm_1")
        assert.equal("COMPILE", ffi.string(C.gwb_status_name(status)))
        assert.truthy(log:find("architecture", 1, true), log)
    end)

    describe("keeps what it made", function()
        local folder
        before_each(function() folder = helper.folder() end)
        after_each(function() helper.remove(folder) end)

        -- Compiles a kernel with a warning in a process of its own; the log is empty where the result came from the cache.
        local function fresh(env, number)
            local code = ([[
                local ffi, C = require "ffi", require("gpuwb.cdef").C
                local log, size = ffi.new("char[4096]"), ffi.new("int64_t[1]")
                local text = "__global__ void k(int *p) { int unused; *p = %d; }"
                assert(C.gwb_nvrtc_compile(text, "k.cu", nil, 0, "sm_90", log, 4096, size) == 0, ffi.string(C.gwb_error_message()))
                print(size[0] > 0 and (ffi.string(log):find("unused") and "compiled" or "found"))
            ]]):format(number or 1)
            local out, status = helper.run(("env %s %s -e '%s'"):format(env, helper.command(), code))
            assert.equal(0, status, out)
            return (out:gsub("\n$", ""))
        end

        it("and finds it again", function()
            if not need_nvrtc() then return end
            local env = "XDG_CACHE_HOME=" .. folder .. "/a/b"
            assert.equal("compiled", fresh(env))
            assert.equal("found", fresh(env))
            assert.equal("compiled", fresh(env, 2))
            assert.equal("2\n", helper.run("ls " .. folder .. "/a/b/gpuwb | wc -l"))
        end)

        it("in ~/.cache where XDG_CACHE_HOME is not set", function()
            if not need_nvrtc() then return end
            assert.equal("compiled", fresh("-u XDG_CACHE_HOME HOME=" .. folder))
            assert.equal("1\n", helper.run("ls " .. folder .. "/.cache/gpuwb | wc -l"))
        end)

        it("and compiles anew where a file is damaged or cut off", function()
            if not need_nvrtc() then return end
            local env = "XDG_CACHE_HOME=" .. folder
            assert.equal("compiled", fresh(env))
            for _, damage in ipairs {"printf x | dd of=$f bs=1 seek=200 conv=notrunc", "truncate -s 100 $f", "truncate -s 0 $f"} do
                helper.run(("f=$(ls %s/gpuwb/*.kernel); %s"):format(folder, damage))
                assert.equal("compiled", fresh(env), damage)
                assert.equal("found", fresh(env), damage)
            end
        end)

        it("or does without a folder", function()
            if not need_nvrtc() then return end
            assert.equal("compiled", fresh("XDG_CACHE_HOME=/dev/null"))
            assert.equal("compiled", fresh("-u XDG_CACHE_HOME -u HOME"))
            assert.equal("compiled", fresh("XDG_CACHE_HOME=relative HOME=/dev/null"))
        end)

        it("and removes the oldest where it is too much", function()
            if not need_nvrtc() then return end
            local env = "XDG_CACHE_HOME=" .. folder
            assert.equal("compiled", fresh(env))
            helper.run(([[cd %s/gpuwb && for i in 1 2 3; do
                truncate -s 90M $i.kernel; touch -d 200$i-01-01 $i.kernel
            done; touch -d 2000-01-01 other]]):format(folder))
            assert.equal("compiled", fresh(env, 2))
            local left = helper.run("ls " .. folder .. "/gpuwb")
            assert.is_nil(("\n" .. left):find("\n1.kernel", 1, true), left)
            assert.truthy(left:find("3.kernel", 1, true), left)
            assert.truthy(left:find("other", 1, true), left)
            assert.equal("found", fresh(env))
            assert.equal("found", fresh(env, 2))
        end)
    end)
end)

