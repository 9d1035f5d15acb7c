-- SPDX-License-Identifier: MIT
-- gpu.kernel: CUDA C from a string on each device, its order, errors and cache.
local gpu = require "gpuwb"
local ffi = require "ffi"
local helper = require "tests.helper"
local kernels = require "tests.kernels"
local raises = helper.raises
local C = require("gpuwb.cdef").C
if not kernels.compiler_at_hand() and helper.devices()[1] == "host" then
    pending("kernels on the host device need a C or C++ compiler")
    return
end

local numbers = kernels.numbers

-- Every source goes through here, so that all of them are tried on the cuda device too.
local sources = {}
local kernel = kernels.recorder(sources)

local SUM = [[
// sums blocks of numbers
__global__ void block_sum(const float *__restrict__ in, float *out, int n)
{
    __shared__ float part[256];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    part[threadIdx.x] = i < n ? in[i] : 0.0f;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half)
            part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        out[blockIdx.x] = part[0];
}
]]

local TRANSPOSE = [[
__global__ void transpose(gwb_view out, gwb_view in)
{
    __shared__ uint16_t tile[16][17];
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    if (x < in.width && y < in.height)
        tile[threadIdx.y][threadIdx.x] = ((const uint16_t *)(in.data + y * in.step))[x];
    __syncthreads();
    x = blockIdx.y * 16 + threadIdx.x, y = blockIdx.x * 16 + threadIdx.y;
    if (x < out.width && y < out.height)
        ((uint16_t *)(out.data + y * out.step))[x] = tile[threadIdx.x][threadIdx.y];
}
]]

helper.each_device(function(name)
    describe("a kernel", function()
        it("shares memory and waits at barriers", function()
            local n = 1000
            local list, k = numbers(n), kernel(SUM)
            local a, out = gpu.mat(n, 1, "f32"):upload(list), gpu.mat(4, 1, "f32")
            k.block_sum {grid = 4, block = 256, args = {a, out, n}}
            for block = 0, 3 do
                local sum = 0
                for i = block * 256 + 1, math.min(block * 256 + 256, n) do
                    sum = sum + list[i]
                end
                assert.equal(sum, (out:at(block, 0)))
            end
        end)

        it("gives the sizes of shared memory at the launch, at file scope and inside", function()
            local k = kernel [[
                extern __shared__ int words[];
                __device__ void put(int i, int v) { words[i] = v; }
                __global__ void reverse(int *p)
                {
                    put(threadIdx.x, p[threadIdx.x]);
                    __syncthreads();
                    p[threadIdx.x] = words[blockDim.x - 1 - threadIdx.x];
                }
                __global__ void bytes(unsigned char *p, int n)
                {
                    extern __shared__ __align__(16) unsigned char more[];
                    for (int i = threadIdx.x; i < n; i += blockDim.x)
                        more[i] = p[i];
                    __syncthreads();
                    for (int i = threadIdx.x; i < n; i += blockDim.x)
                        p[i] = more[n - 1 - i];
                }
            ]]
            local m = gpu.mat(64, 1, "i32"):upload(numbers(64))
            local before = m:totable()[1]
            k.reverse {grid = 1, block = 64, shared = 256, args = {m}}
            local after = m:totable()[1]
            for i = 1, 64 do
                assert.equal(before[i], after[65 - i])
            end
            local large = gpu.mat(60000, 1, "u8"):upload(helper.bytes(60000))    -- more than 48 KiB must be asked for
            local bytes = large:download()
            k.bytes {grid = 1, block = 128, shared = 60000, args = {large, 60000}}
            assert.equal(bytes:reverse(), large:download())
            raises("BAD_ARGUMENT", {"shared", "2000000"}, k.bytes, {grid = 1, block = 1, shared = 2000000, args = {large, 1}})
        end)

        it("transposes in tiles at odd sizes, between views with steps, and writes nothing else", function()
            local k = kernel(TRANSPOSE)
            for _, size in ipairs {{1, 1}, {16, 16}, {17, 5}, {33, 47}, {3, 100}} do
                local w, h = size[1], size[2]
                local src, src_parent = helper.poisoned(w, h, "u16")
                local dst, dst_parent = helper.poisoned(h, w, "u16")
                src:upload(numbers(w * h, nil, w * 100 + h))
                k.transpose {grid = {math.ceil(w / 16), math.ceil(h / 16)}, block = {16, 16}, args = {dst, src}, reads = {src}}
                local a, b = src:totable(), dst:totable()
                for y = 1, h do
                    for x = 1, w do
                        assert.equal(a[y][x], b[x][y])
                    end
                end
                helper.untouched(dst, dst_parent)
                helper.untouched(src, src_parent)
            end
        end)

        it("counts with atomics from all blocks", function()
            local k = kernel [[
                __global__ void histogram(const unsigned char *p, unsigned *bins, unsigned long long *sum, float *real, int n)
                {
                    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
                        atomicAdd(bins + p[i], 1u);
                        atomicAdd(sum, (unsigned long long)p[i]);
                        atomicAdd(real, 0.5f);
                        atomicMax((int *)&bins[256], (int)p[i]);
                        atomicMin((int *)&bins[257], (int)p[i]);
                    }
                }
                __global__ void others(int *v, unsigned *u)
                {
                    atomicSub(&v[0], 2);
                    atomicOr(&v[1], 1 << (threadIdx.x & 7));
                    atomicXor(&v[2], 1);
                    atomicAnd(&v[3], ~(1 << (threadIdx.x & 7)));
                    atomicInc(&u[0], 9);
                    atomicDec(&u[1], 9);
                    atomicExch(&v[4], 5);
                    if (atomicCAS(&v[5], 0, 1) == 0)
                        atomicAdd(&v[6], 1);
                }
            ]]
            local n = 20000
            local bytes = helper.bytes(n)
            local m, bins = gpu.mat(n, 1, "u8"):upload(bytes), gpu.mat(258, 1, "u32", {fill = 0})
            local sum, real = gpu.mat(1, 1, "u32x2", {fill = 0}), gpu.mat(1, 1, "f32", {fill = 0})
            bins:roi(257, 0, 1, 1):fill(1000)
            k.histogram {grid = 7, block = 96, args = {m, bins, sum, real, n}}
            local want, total, low, high = {}, 0, 255, 0
            for i = 1, n do
                local v = bytes:byte(i)
                want[v] = (want[v] or 0) + 1
                total, low, high = total + v, math.min(low, v), math.max(high, v)
            end
            local got = bins:totable()[1]
            for v = 0, 255 do
                assert.equal(want[v] or 0, got[v + 1])
            end
            assert.equal(high, got[257])
            assert.equal(low, got[258])
            assert.equal(total, (sum:at(0, 0)))
            assert.equal(n / 2, (real:at(0, 0)))

            local v, u = gpu.mat(7, 1, "i32"):upload {1000, 0, 0, -1, 0, 0, 0}, gpu.mat(2, 1, "u32", {fill = 0})
            k.others {grid = 3, block = 35, args = {v, u}}
            assert.same({1000 - 210, 255, 1, -256, 5, 1, 1}, v:totable()[1])
            assert.same({5, 5}, u:totable()[1])       -- 105 steps of a counter of ten, up and down
        end)

        it("shuffles and votes in a warp", function()
            local k = kernel [[
                __global__ void shuffles(int *out, const float *in)
                {
                    const int i = threadIdx.x, lane = i & 31;
                    int *row = out + i * 16;
                    row[0] = __shfl_sync(0xffffffffu, i, 3);
                    row[1] = __shfl_up_sync(0xffffffffu, i, 2);
                    row[2] = __shfl_down_sync(0xffffffffu, i, 5);
                    row[3] = __shfl_xor_sync(0xffffffffu, i, 1);
                    row[4] = __shfl_sync(0xffffffffu, i, 1, 8);
                    row[5] = __shfl_down_sync(0xffffffffu, i, 3, 4);
                    row[6] = (int)__ballot_sync(0xffffffffu, lane & 1);
                    row[7] = __any_sync(0xffffffffu, lane == 31) + 10 * __all_sync(0xffffffffu, lane < 31);
                    row[8] = (int)__shfl_xor_sync(0xffffffffu, in[i], 16);
                    row[9] = __syncthreads_count(i < 40);
                    row[10] = __syncthreads_or(i == 63) + 10 * __syncthreads_and(i < 63);
                    row[11] = -1;
                    if (lane < 8) {
                        int sum = lane;
                        for (int n = 4; n > 0; n /= 2)
                            sum += __shfl_down_sync(0x000000ffu, sum, n, 8);
                        row[11] = __shfl_sync(0x000000ffu, sum, 0, 8);
                    }
                    __syncwarp();
                    row[12] = (int)(__shfl_sync(0xffffffffu, (long long)i << 33, 7) >> 33);
                    row[13] = (int)__match_any_sync(0xffffffffu, lane / 8);
                    double d = i * 0.5;
                    row[14] = (int)(2 * __shfl_up_sync(0xffffffffu, d, 1));
                    row[15] = warpSize;
                }
            ]]
            local out, input = gpu.mat(16, 64, "i32", {packed = true}), gpu.mat(64, 1, "f32"):upload(numbers(64))
            k.shuffles {grid = 1, block = 64, args = {out, input}}
            local rows, values = out:totable(), input:totable()[1]
            local bit = require "bit"
            for i = 0, 63 do
                local lane, base, r = i % 32, i - i % 32, rows[i + 1]
                assert.same({base + 3, lane >= 2 and i - 2 or i, lane + 5 <= 31 and i + 5 or i, bit.bxor(i, 1), i - i % 8 + 1,
                    i % 4 + 3 <= 3 and i + 3 or i, bit.tobit(0xaaaaaaaa), 1, values[bit.bxor(i, 16) + 1], 40, 1, lane < 8 and 28 or -1, base + 7,
                    bit.lshift(0xff, lane - lane % 8), lane >= 1 and i - 1 or i, 32}, r)
            end
        end)

        it("lets threads return early, and blocks be smaller than a warp", function()
            local k = kernel [[
                __global__ void early(int *out, int n)
                {
                    const int i = threadIdx.x;
                    if (i >= n)
                        return;
                    __syncthreads();
                    out[i] = __shfl_xor_sync(0xffffffffu >> (32 - (n < 32 ? n : 32)), i, 1);
                    __syncthreads();
                }
            ]]
            local out = gpu.mat(32, 1, "i32", {fill = -1})
            k.early {grid = 1, block = 24, args = {out, 6}}
            assert.same({1, 0, 3, 2, 5, 4, -1}, {unpack(out:totable()[1], 1, 7)})
        end)

        it("runs grids and blocks of three dimensions, each thread once", function()
            local k = kernel [[
                __device__ int position()
                {
                    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
                    const int z = blockIdx.z * blockDim.z + threadIdx.z;
                    return (z * (int)(gridDim.y * blockDim.y) + y) * (int)(gridDim.x * blockDim.x) + x;
                }
                __global__ void plain(int *out) { atomicAdd(&out[position()], position() + 1); }
                __global__ void waiting(int *out)
                {
                    const int before = position();
                    __syncthreads();
                    atomicAdd(&out[position()], before + 1);
                }
            ]]
            local n = 3 * 5 * 4 * 2 * 2 * 3
            for _, f in ipairs {"plain", "waiting"} do
                local out = gpu.mat(n, 1, "i32", {fill = 0})
                k[f] {grid = {3, 4, 2}, block = {5, 2, 3}, args = {out}}
                local list = out:totable()[1]
                for i = 1, n do
                    assert.equal(i, list[i])
                end
            end
        end)

        it("runs grids of many blocks, and none", function()
            local k = kernel [[
                __global__ void count(unsigned *n)
                {
                    if (threadIdx.x == 0)
                        atomicAdd(n, 1u);
                }
            ]]
            local n = gpu.mat(1, 1, "u32", {fill = 0})
            k.count {grid = {300000}, block = 1, args = {n}}
            k.count {grid = {3, 65535}, block = {1, 2}, args = {n}}
            k.count {grid = {2, 1, 65535}, block = {1, 1, 64}, args = {n}}
            assert.equal(300000 + 3 * 65535 * 1 + 2 * 65535, (n:at(0, 0)) - 3 * 65535 - 2 * 65535 * 63)
            k.count {grid = 0, block = 1, args = {n}}
            k.count {grid = {5, 0, 5}, block = 1, args = {n}}
            k.count {over = gpu.mat(0, 7, "u8"), args = {n}}
            assert.equal(300000 + 2 * 3 * 65535 + 2 * 64 * 65535, (n:at(0, 0)))
        end)

        it("picks a thread a pixel with over", function()
            local k = kernel [[
                __global__ void place(gwb_view out)
                {
                    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
                    if (x < out.width && y < out.height)
                        ((uint16_t *)(out.data + y * out.step))[x] = x * 100 + y;
                }
                __global__ void line(int *out, int n)
                {
                    const int i = blockIdx.x * blockDim.x + threadIdx.x;
                    if (i < n)
                        out[i] = i * blockDim.x;
                }
            ]]
            local m, parent = helper.poisoned(37, 19, "u16")
            k.place {over = m, args = {m}}
            for y, row in ipairs(m:totable()) do
                for x, v in ipairs(row) do
                    assert.equal((x - 1) * 100 + y - 1, v)
                end
            end
            helper.untouched(m, parent)
            m:fill(0)
            k.place {over = {37, 19}, block = {8, 4}, args = {m}}
            assert.equal(3618, (m:at(36, 18)))
            local line = gpu.mat(1000, 1, "i32")
            k.line {over = 1000, args = {line, 1000}}
            assert.equal(999 * 256, (line:at(999, 0)))
            raises("BAD_ARGUMENT", "exclude each other", k.line, {over = 1, grid = 1, args = {line, 1}})
            raises("BAD_ARGUMENT", {"neither over nor grid", "over = m"}, k.line, {args = {line, 1}})
            raises("BAD_ARGUMENT", {"k.line{over = m", "got a mat"}, k.line, line, 1)
            raises("BAD_ARGUMENT", {"by a function's name", "{over = m"}, k, {over = line})
        end)

        it("is found by name, its signatures can be read", function()
            local k = kernel([[
                #define WIDE long long
                typedef const float *input;
                using real = double;
                #if 0
                __global__ void never(int a) { if (a) { }
                #endif
                // __global__ void commented(int a) { }
                static __global__ void __launch_bounds__(64, 2) first(input a, const int b[4], real *c = nullptr) { c[0] = a[0] + b[3]; }
                extern "C" __global__ void second() { }
                #ifdef SIGNED
                __global__ void third(WIDE v, WIDE *p) { *p = v; }
                #else
                __global__ void third(unsigned WIDE v, unsigned WIDE *p) { *p = v; }
                #endif
                __global__ void fourth(void);
                const char *text = "__global__ void fifth(int a) { }";
                __global__ void fourth(void) { }
            ]], {name = "names"})
            assert.same({"first", "second", "third", "fourth"}, k:functions())
            assert.equal("first(input a, const int *b, real *c)", tostring(k.first))
            assert.equal("second()", tostring(k.second))
            assert.equal("third(unsigned WIDE v, unsigned WIDE *p)", tostring(k.third))
            assert.equal(8, k.first.line)
            local out = gpu.mat(1, 1, "f64")
            k.first {grid = 1, block = 1, args = {gpu.mat(1, 1, "f32", {fill = 1.5}), gpu.mat(4, 1, "i32", {fill = 7}), out}}
            assert.equal(8.5, (out:at(0, 0)))
            raises("BAD_ARGUMENT", {"no function", '"nothing"', "first, second, third, fourth"}, function() return k.nothing end)
            raises("READ_ONLY", "nothing", function() k.nothing = 1 end)
            assert.truthy(tostring(k):find("^kernel on " .. name .. "\n  first%("))
            local wide, signed = gpu.mat(1, 1, "u32x2"), kernel("#define SIGNED\n__global__ void third(long long v, long long *p) { *p = v; }")
            k.third {grid = 1, block = 1, args = {2 ^ 63, wide}}
            assert.same({0, 2 ^ 31}, {wide:at(0, 0)})
            signed.third {grid = 1, block = 1, args = {-2 ^ 63, wide}}
            assert.same({0, 2 ^ 31}, {wide:at(0, 0)})
            signed.third {grid = 1, block = 1, args = {ffi.new("int64_t", -2), wide}}
            assert.same({2 ^ 32 - 2, 2 ^ 32 - 1}, {wide:at(0, 0)})
        end)

        it("takes options and defines", function()
            local source = [[
                __global__ void put(T *p)
                {
                #ifdef FLAG
                    *p = VALUE + ADD;
                #else
                    *p = -1;
                #endif
                }
            ]]
            local k = kernel(source, {defines = {T = "float", VALUE = 2.5, FLAG = true, OFF = false}, options = {"-DADD=3", "--use_fast_math"}})
            local m = gpu.mat(1, 1, "f32")
            k.put {grid = 1, block = 1, args = {m}}
            assert.equal(5.5, (m:at(0, 0)))
            local other = kernel(source, {defines = {T = "int", VALUE = 2}})
            raises("BAD_ARGUMENT", {"T *p", "i32", "f32"}, other.put, {grid = 1, block = 1, args = {m}})
            raises("BAD_ARGUMENT", "options[1]", gpu.kernel, source, {options = {1}})
            raises("BAD_ARGUMENT", "defines", gpu.kernel, source, {defines = {"a"}})
            raises("BAD_ARGUMENT", "unknown option", gpu.kernel, source, {define = {}})
            raises("BAD_ARGUMENT", "source", gpu.kernel, 5)
        end)

        it("includes gpuwb's own headers", function()
            local k = kernel [[
                #include "abi_types.h"
                #include "prelude.h"
                #include "number.h"
                #include "bytes.h"
                __global__ void halves(uint16_t *p, gwb_view v)
                {
                    const double d = gwb_half_to_double(p[0]);
                    p[1] = (uint16_t)gwb_double_to_half(d * 2);
                    gwb_number_store_u8(v.data, 300.7, 0);
                }
            ]]
            local h, m = gpu.mat(2, 1, "f16", {fill = 1.25}), gpu.mat(1, 1, "u8")
            k.halves {grid = 1, block = 1, args = {h, m}}
            assert.equal(2.5, (h:at(1, 0)))
            assert.equal(255, (m:at(0, 0)))
        end)

        it("has the words of CUDA C", function()
            local k = kernel [[
                __constant__ float table[4] = {1.0f, 2.0f, 4.0f, 8.0f};
                __device__ int total;
                template <typename T> __device__ __forceinline__ T twice(T v) { return v + v; }
                struct pair { int a; float b; };
                __device__ __noinline__ float helper(const pair &p) { return p.a + p.b; }
                __global__ void words(float *f, int *n, const float *in)
                {
                    uchar4 q = make_uchar4(1, 2, 3, 4);
                    float3 v = make_float3(0.5f, 1.5f, 2.5f);
                    dim3 size(4, 5);
                    int k = 0;
                    f[k++] = table[2] + twice(1.5f) + helper(pair{2, 0.25f});
                    f[k++] = q.w + v.z + size.y * size.z;
                    f[k++] = fminf(3.0f, __saturatef(1.5f)) + max(2, 7) + min(2.5f, 1.5f);
                    f[k++] = __fmaf_rn(2.0f, 3.0f, 1.0f) + __fadd_rn(0.5f, 0.25f) + __fdividef(1.0f, 4.0f);
                    f[k++] = sqrtf(16.0f) + rsqrtf(4.0f) + floorf(1.5f) + fabsf(-2.0f);
                    f[k++] = __ldg(in) + __ldg(&in[1]);
                    f[k++] = __int_as_float(__float_as_int(1.25f)) + (float)__longlong_as_double(__double_as_longlong(0.75));
                    int i = 0;
                    n[i++] = __clz(1) + 100 * __popc(255u) + 10000 * __ffs(8);
                    n[i++] = (int)__brev(1u);
                    n[i++] = (int)__byte_perm(0x33221100u, 0x77665544u, 0x7531u);
                    n[i++] = (int)__funnelshift_l(0x80000000u, 1u, 1) + (int)__funnelshift_r(0u, 1u, 4);
                    n[i++] = __mul24(1000, 1000) + (int)__umulhi(1u << 31, 4u) + __clzll(1LL) + __popcll(~0ULL);
                    n[i++] = __float2int_rn(2.5f) + 10 * __float2int_rz(-2.7f) + 100 * __float2int_ru(1.1f) + 1000 * __float2int_rd(-1.1f);
                    n[i++] = (int)__sad(5, -5, 1u) + __hadd(3, 6) + __dp4a(0x01020304, 0x01010101, 5);
                    n[i++] = (int)__float2uint_rn(1e20f) == -1;
                    total = 3;
                    n[i++] = total + (int)sizeof(float4) + (int)alignof(float4);
                    n[i++] = abs(-4) + (int)abs(-4.5f) + (int)pow(2.0, 3.0);
                }
            ]]
            local f, n = gpu.mat(7, 1, "f32"), gpu.mat(10, 1, "i32")
            k.words {grid = 1, block = 1, args = {f, n, gpu.mat(2, 1, "f32"):upload {10, 20}}}
            assert.same({9.25, 11.5, 9.5, 8, 7.5, 30, 2}, f:totable()[1])
            local bit = require "bit"
            assert.same({31 + 800 + 40000, bit.tobit(0x80000000), 0x77553311, 3 + 0x10000000, 1000000 + 2 + 63 + 64, 2 - 20 + 200 - 2000,
                11 + 4 + 15, 1, 35, 16}, n:totable()[1])
        end)
    end)

    describe("a kernel's order", function()
        local SOURCE = [[
            __global__ void add(int *out, const int *in, int n)
            {
                for (int i = threadIdx.x; i < n; i += blockDim.x)
                    out[i] = in[i] + 1;
            }
            __global__ void add_view(gwb_view out, gwb_view in)
            {
                for (int i = threadIdx.x; i < in.width; i += blockDim.x)
                    ((int *)out.data)[i] = ((const int *)in.data)[i] + 1;
            }
        ]]
        it("follows the data across streams", function()
            local k = kernel(SOURCE)
            local s1, s2 = gpu.stream(), gpu.stream()
            for _ = 1, 20 do
                local a, b, c = gpu.mat(100, 1, "i32", {fill = 1}), gpu.mat(100, 1, "i32", {fill = 0}), gpu.mat(100, 1, "i32", {fill = 0})
                s1:sleep(2)
                k.add {grid = 1, block = 32, stream = s1, args = {b, a, 100}}       -- b = a + 1
                k.add {grid = 1, block = 32, stream = s2, args = {c, b, 100}}       -- c = b + 1, waits for s1
                k.add {grid = 1, block = 32, stream = s1, args = {a, c, 100}}       -- a = c + 1, waits for s2
                b:fill(9, {stream = s2})                                            -- after what read b
                assert.equal(4, (a:at(99, 0)))
                assert.equal(3, (c:at(0, 0)))
                assert.equal(9, (b:at(50, 0)))
            end
        end)

        it("is a read where the parameter is const or reads says so, else a write", function()
            local k = kernel(SOURCE)
            local s1, s2 = gpu.stream(), gpu.stream()
            local a, b, c = gpu.mat(10, 1, "i32", {fill = 1}), gpu.mat(10, 1, "i32", {fill = 0}), gpu.mat(10, 1, "i32", {fill = 0})
            local d = gpu.mat(1, 1, "i32", {fill = 0})
            -- Whether the second launch is done on its stream while the first still waits on another, which sleeps.
            local function apart(first, second)
                gpu.synchronize()
                s1:sleep(150)
                first.grid, first.block, first.stream = 1, 1, s1
                second.grid, second.block, second.stream = 1, 1, s2
                k[table.remove(first, 1)](first)
                k[table.remove(second, 1)](second)
                s2:synchronize()
                return not s1:query()
            end
            assert.is_true(apart({"add", args = {b, a, 10}}, {"add", args = {c, a, 10}}))     -- both read a
            assert.is_false(apart({"add", args = {a, b, 10}}, {"add", args = {c, a, 10}}))
            assert.is_false(apart({"add", args = {b, a, 10}}, {"add", args = {a, c, 10}}))
            assert.is_true(apart({"add_view", args = {b, a}, reads = {a}}, {"add_view", args = {c, a}, reads = {a}}))
            assert.is_false(apart({"add_view", args = {b, a}}, {"add_view", args = {c, a}, reads = {a}}))
            assert.is_false(apart({"add", args = {b, a, 10}, writes = {a}}, {"add", args = {c, a, 10}}))
            assert.is_true(apart({"add", args = {b, a, 10}, reads = {d}}, {"add", args = {c, a, 10}, reads = {d}}))
            assert.is_false(apart({"add", args = {b, a, 10}, writes = {d}}, {"add", args = {c, a, 10}, reads = {d}}))     -- no argument of either
        end)

        it("keeps memory and the kernel until the work is done (T1)", function()
            local s = gpu.stream()
            local out = gpu.mat(1000, 1, "i32", {fill = 0})
            for round = 1, 30 do
                local k = kernel(SOURCE)
                local a = gpu.mat(1000, 1, "i32", {fill = round})
                s:sleep(1)
                k.add {grid = 1, block = 64, stream = s, args = {out, a, 1000}}
                a:close()
                k:close()
                raises("CLOSED", "kernel is closed", k.add, {grid = 1, block = 1, args = {out, out, 1}})
                collectgarbage()
                gpu.mat(1000, 1, "i32", {fill = -5, stream = s})
                assert.equal(round + 1, (out:at(999, 0)))
                table.remove(sources)
            end
        end)
    end)

    describe("a kernel that does not compile", function()
        local here = debug.getinfo(1, "S").short_src

        it("is told with the script's lines, the source around and the options", function()
            local line = debug.getinfo(1, "l").currentline
            local err = raises("COMPILE", {"does not compile for " .. name, "options: ", "-DSIZE=3"}, gpu.kernel, [[
__global__ void broken(int *p)
{
    int a = 1;
    *p = undeclared_thing + a;
    p[1] = 2;
}
]], {defines = {SIZE = 3}})
            local at = line + 5
            assert.truthy(err.message:find(("%s:%d"):format(here, at), 1, true), err.message)
            assert.truthy(err.message:find(("> %5d |     *p = undeclared_thing + a;"):format(at), 1, true), err.message)
            assert.truthy(err.message:find(("  %5d | {"):format(at - 2), 1, true), err.message)
            assert.truthy(err.message:find(("  %5d | }"):format(at + 2), 1, true), err.message)
            assert.falsy(err.message:find("gwb_k_", 1, true), err.message)
            assert.falsy(err.message:find("kernel.cu", 1, true), err.message)
        end)

        it("is told by the name it was given, with the source's own lines", function()
            local err = raises("COMPILE", {"blur does not compile"}, gpu.kernel, "__global__ void f(int *p)\n{\n    *p = 1 +;\n}", {name = "blur"})
            assert.truthy(err.message:find("blur:3", 1, true), err.message)
            assert.truthy(err.message:find(">     3 |     *p = 1 +;", 1, true), err.message)
        end)

        it("is told where a signature cannot be called", function()
            local cases = {
                {"template <typename T> __global__ void f(T *p) { *p = 0; }", {"f is a template", "__device__ template"}},
                {"__global__ void f(int &a) { }", {"no references", "int &a"}},
                {"__global__ void f(void (*g)(int)) { }", "no functions"},
                {"__device__ int f(int a) { return a; }", "no __global__ function"},
                {"#if 0\n__global__ void f(int a) { }\n#endif\nint a;", "no __global__ function"},
                {"__global__ void f(int a) { if (a) { }", "}"},
                {"", "no __global__ function"},
            }
            for _, case in ipairs(cases) do
                raises("COMPILE", case[2], gpu.kernel, case[1])
            end
            local many = {}
            for i = 1, 65 do
                many[i] = "int a" .. i
            end
            raises("COMPILE", {"more than 64", "struct"}, gpu.kernel, "__global__ void f(" .. table.concat(many, ", ") .. ") { }")
        end)
    end)

    describe("a compiled kernel", function()
        it("is kept on disk, and compiled once", function()
            local unique = tostring(os.time()) .. tostring(math.random(2 ^ 30))
            local source = "// " .. unique .. "\n__global__ void set(int *p) { *p = " .. unique:sub(-6):gsub("^0+", "") .. "; }"
            local before = tonumber(C.gwb_compilations())
            gpu.kernel(source)
            assert.equal(before + 1, tonumber(C.gwb_compilations()))
            local start = os.clock()
            local k = gpu.kernel(source)
            assert.is_true(os.clock() - start < 0.1)
            assert.equal(before + 1, tonumber(C.gwb_compilations()))
            local m = gpu.mat(1, 1, "i32")
            k.set {grid = 1, block = 1, args = {m}}
            assert.equal(tonumber(unique:sub(-6)), (m:at(0, 0)))
            gpu.kernel(source, {defines = {OTHER = 1}})
            assert.equal(before + 2, tonumber(C.gwb_compilations()))
        end)

        it("is not kept where it includes files that may change", function()
            local folder = helper.folder()
            local m = gpu.mat(1, 1, "i32")
            for value = 1, 2 do
                helper.write(folder .. "/own_value.h", "#define OWN_VALUE " .. value .. "\n")
                local k = gpu.kernel('#include "own_value.h"\n__global__ void set(int *p) { *p = OWN_VALUE; }', {options = {"-I" .. folder}})
                k.set {grid = 1, block = 1, args = {m}}
                assert.equal(value, (m:at(0, 0)))
            end
            helper.remove(folder)
        end)
    end)
end)

it("compiles for sm_90, with the names and sizes that the cuda device asks for", function()
    kernels.try_on_cuda(sources, "words(float *f, int *n, const float *in)")
end)
