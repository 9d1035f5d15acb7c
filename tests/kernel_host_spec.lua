-- SPDX-License-Identifier: MIT
-- Kernels on the host device alone: what stops them, what it has not, and its compilers.
local gpu = require "gpuwb"
local helper = require "tests.helper"
local kernels = require "tests.kernels"
local raises = helper.raises
describe("a kernel on the host device", function()
    if helper.devices()[1] ~= "host" or not kernels.compiler_at_hand() then
        return
    end
    local before
    setup(function()
        before = gpu.device()
        gpu.device("host")
    end)
    teardown(function() gpu.device(before) end)

    -- Runs a script in a process of its own; CC and the cache as wanted.
    local function run(env, script)
        return helper.run(("env %s %s --device host -e '%s'"):format(env, helper.command(), script))
    end

    it("ends with an error where its threads cannot go on, and the workbench goes on", function()
        local k = gpu.kernel [[
            __global__ void stuck(int *p)
            {
                if (threadIdx.x < 16)
                    __syncwarp();
                else
                    __syncthreads();
                p[threadIdx.x] = 1;
            }
            __global__ void mixed(int *p)
            {
                if (threadIdx.x < 16)
                    p[threadIdx.x] = __any_sync(0xffffffffu, 1);
                else
                    p[threadIdx.x] = __shfl_sync(0xffffffffu, 1, 0);
            }
            __global__ void outside(int *p) { p[threadIdx.x] = __shfl_sync(1u, (int)threadIdx.x, 0); }
            __global__ void width(int *p) { p[threadIdx.x] = __shfl_sync(0xffffffffu, (int)threadIdx.x, 0, 5); }
            __global__ void trapped(int *p)
            {
                if (threadIdx.x == 7)
                    __trap();
                p[threadIdx.x] = 2;
            }
            __global__ void fine(int *p)
            {
                __syncthreads();
                p[threadIdx.x] = 3;
            }
        ]]
        local m = gpu.mat(32, 1, "i32", {fill = 0})
        for f, words in pairs {
            stuck = {"the kernel stuck failed", "block (1, 0, 0)", "deadlock", "16 wait in __syncthreads()", "16 wait for others of their warp", "0xffffffff"},
            mixed = {"mixed", "different operations"}, outside = {"outside", "lane 1", "mask 0x00000001"}, width = {"width", "power of two"},
            trapped = {"trapped", "thread (7, 0, 0)", "__trap()"},
        } do
            local grid = f == "stuck" and {2, 1, 1} or 1
            k[f] {grid = grid, block = 32, args = {m}}
            local err = raises("DEVICE", f == "stuck" and {words[1], words[3], words[4], words[5], words[6]} or words, gpu.synchronize)
            assert.truthy(err.message:find("block (", 1, true))
            gpu.synchronize()       -- told once
            k.fine {grid = 1, block = 32, args = {m}}
            assert.equal(3, (m:at(31, 0)))
        end
        k.trapped {grid = 1, block = 32, args = {m}}
        raises("DEVICE", "trapped", m.download, m)
        local s = gpu.stream()
        k.trapped {grid = 1, block = 32, args = {m}, stream = s}
        raises("DEVICE", "trapped", s.synchronize, s)
    end)

    it("names what it does not have", function()
        for code, words in pairs {
            ["int v = tex2D(t, 1, 2);"] = "textures", ["asm(\"nop;\");"] = "inline PTX", ["unsigned m = __activemask();"] = "__activemask",
            ["__half h;"] = "half", ["int v = __vadd4(1, 2);"] = "packed", ["g<<<1, 1>>>();"] = "launches by kernels", ["int v = __shfl(1, 2);"] = "_sync",
        } do
            local source = "__global__ void f(int *p)\n{\n    " .. code .. "\n}"
            local err = raises("UNSUPPORTED", {words, "the host device has no"}, gpu.kernel, source, {name = "k"})
            assert.truthy(err.message:find("k:3", 1, true), err.message)
        end
        for file, words in pairs {cooperative_groups = "cooperative groups", ["cuda_fp16.h"] = "half", ["cuda/barrier"] = "cuda::", ["cub/cub.cuh"] = "CUB"} do
            raises("UNSUPPORTED", words, gpu.kernel, "#include <" .. file .. ">\n__global__ void f(int *p) { }")
        end
        -- in comments and strings, and as part of other names, these words mean nothing
        gpu.kernel [[
            // asm __half <cuda_fp16.h>
            /* #include <cub/cub.cuh>
             */ __global__ void f(int half) { const char *s = "asm"; int masm = half; (void)s, (void)masm; }
        ]]
        raises("BAD_ARGUMENT", {"--made-up", "does not know"}, gpu.kernel, "__global__ void f(int *p) { }", {options = {"--made-up"}})
    end)

    it("says that there is no compiler, and which was looked for", function()
        local script = [[local ok, err = pcall(gpu.kernel, "__global__ void f(int *p) { }"); print(ok, err.code, err.message)]]
        local out = run("CC=/no/such/compiler", script)
        assert.truthy(out:find("false\tUNSUPPORTED", 1, true) and out:find("$CC names /no/such/compiler", 1, true), out)
        out = run("-u CC PATH=/nowhere", script)
        assert.truthy(out:find("cc, gcc and clang are not in $PATH", 1, true), out)
        out = run("TMPDIR=/no/such/place XDG_CACHE_HOME=/no/such/place", script)
        assert.truthy(out:find("set TMPDIR", 1, true), out)
    end)

    it("compiles as C where the compiler knows no C++, and with others", function()
        local folder = helper.folder()
        helper.write(folder .. "/only-c",
            "#!/bin/sh\nfor a; do [ \"$a\" = c++ ] && { echo 'cannot execute cc1plus' >&2; exit 1; }; done\nexec ${REAL_CC:-cc} \"$@\"\n")
        helper.run("chmod +x " .. folder .. "/only-c")
        local source = [[
            __device__ int twice(int v) { return 2 * v; }
            __global__ void f(float *p, const int *q, unsigned *u)
            {
                extern __shared__ float s[];
                __shared__ int t[32];
                uchar4 c = make_uchar4(1, 2, 3, 4);
                t[threadIdx.x] = q[threadIdx.x];
                s[threadIdx.x] = p[threadIdx.x];
                __syncthreads();
                __syncwarp();
                __syncwarp(0xffffffffu);
                int v = __shfl_xor_sync(0xffffffffu, t[threadIdx.x], 1) + __shfl_sync(0xffffffffu, twice(c.w), 0, 8);
                atomicAdd(&u[0], 1u);
                atomicAdd(p + 40, 0.5f);
                atomicMax((int *)&u[1], v);
                p[threadIdx.x] = max(v, 3) + min(s[31 - threadIdx.x], 2.5f) + rsqrtf(4.0f) + abs(-2) + sqrt(4.0f) + __match_any_sync(0xffffffffu, 1) % 2
                    + __reduce_add_sync(0xffffffffu, 1) + (blockDim.x == 32) + warpSize;
            }
        ]]
        local script = "local k = gpu.kernel[==[" .. source .. "]==]\n"
            .. "local p, q, u = gpu.mat(41, 1, \"f32\", {fill = 1}), gpu.mat(32, 1, \"i32\", {fill = 7}), gpu.mat(2, 1, \"u32\", {fill = 0})\n"
            .. "k.f {grid = 1, block = 32, shared = 128, args = {p, q, u}}\n"
            .. "print(p:at(5, 0), (p:at(40, 0)), u:at(0, 0), (u:at(1, 0)))"
        local wanted = table.concat({15 + 1 + 0.5 + 2 + 2 + 1 + 32 + 1 + 32, 17, 32, 15}, "\t") .. "\n"
        local compilers = {folder .. "/only-c"}
        for _, compiler in ipairs {"gcc", "clang"} do
            if select(2, helper.run("command -v " .. compiler)) == 0 then
                compilers[#compilers + 1] = compiler
                compilers[#compilers + 1] = "'" .. compiler .. " -O1'"
            end
        end
        for _, compiler in ipairs(compilers) do
            assert.equal(wanted, (run("XDG_CACHE_HOME=" .. folder .. " CC=" .. compiler, script)), compiler)
        end
        helper.remove(folder)
    end)
end)
