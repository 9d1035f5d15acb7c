-- SPDX-License-Identifier: MIT
-- A kernel's arguments: every kind that fits, and every one that does not.
local gpu = require "gpuwb"
local ffi = require "ffi"
local helper = require "tests.helper"
local kernels = require "tests.kernels"
local raises = helper.raises
if not kernels.compiler_at_hand() and helper.devices()[1] == "host" then
    pending("kernels on the host device need a C or C++ compiler")
    return
end

-- Every source goes through here, so that all of them are tried on the cuda device too.
local sources = {}
local kernel = kernels.recorder(sources)

helper.each_device(function(name)
    describe("a kernel's arguments", function()
        local k, one
        setup(function()
            k = kernel [[
                struct params { float scale; int offset; unsigned char flags[4]; };
                __global__ void scalars(double *out, bool a, char b, unsigned char c, short d, unsigned short e, int f, unsigned g, long long h,
                                        unsigned long long i, size_t j, float l, double m, int8_t n, uint16_t o, int64_t p)
                {
                    const double all[] = {(double)a, (double)b, (double)c, (double)d, (double)e, (double)f, (double)g, (double)h, (double)i, (double)j,
                                          (double)l, m, (double)n, (double)o, (double)p};
                    for (int q = 0; q < 15; q++)
                        out[q] = all[q];
                }
                __global__ void vectors(float *out, float3 a, uchar4 b, int2 c, double2 d, params e, gwb_view v, const params *q)
                {
                    out[0] = a.x + a.y * 10 + a.z * 100;
                    out[1] = b.x + b.y + b.z + b.w;
                    out[2] = c.x - c.y;
                    out[3] = (float)(d.x + d.y);
                    out[4] = e.scale * e.offset + e.flags[3];
                    out[5] = v.width * 1000 + v.height;
                    out[6] = (float)v.step;
                    out[7] = q == nullptr ? -1.0f : q->scale;
                }
                __global__ void pointers(const void *any, const char *text, float *f, const uchar3 *p, float4 *v, unsigned short *bits, bool *flag)
                {
                    if (f)
                        *f = (any != nullptr) + 10 * (text != nullptr) + 100 * (p ? p[1].z : 0) + (v ? v->w : 0) + (bits ? *bits : 0) + (flag ? *flag : 0);
                }
            ]]
            one = {grid = 1, block = 1}
        end)
        local function run(f, args, more)
            local opts = {grid = one.grid, block = one.block, args = args}
            for key, value in pairs(more or {}) do
                opts[key] = value
            end
            f(opts)     -- no tail call: errors are told at this line
            return nil
        end

        it("are numbers of every type", function()
            local out = gpu.mat(15, 1, "f64")
            run(k.scalars, {out, true, -128, 255, -32768, 65535, -2 ^ 31, 2 ^ 32 - 1, -2 ^ 53, 2 ^ 53, 7, 0.5, 1e300, 127, 0, -1})
            assert.same({1, -128, 255, -32768, 65535, -2 ^ 31, 2 ^ 32 - 1, -2 ^ 53, 2 ^ 53, 7, 0.5, 1e300, 127, 0, -1}, out:totable()[1])
            run(k.scalars, {out, 0, 1, 2, 3, 4, 5, 6, ffi.new("int64_t", -5), ffi.new("uint64_t", 5), 2 ^ 63, ffi.new("float", 1.5), 3, -128, 65535, 2 ^ 62})
            assert.same({0, 1, 2, 3, 4, 5, 6, -5, 5, 2 ^ 63, 1.5, 3, -128, 65535, 2 ^ 62}, out:totable()[1])
        end)

        it("are refused where they do not fit the type", function()
            local out = gpu.mat(15, 1, "f64")
            local good = {out, true, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
            local bad = {
                {2, 2, "bool a"}, {2, "x", "argument 2"}, {3, 128, "char b"}, {3, -129, "-128..127"}, {4, 256, "0..255"}, {4, -1, "unsigned char c"},
                {5, 32768, "short d"}, {6, 65536, "0..65535"}, {7, 2 ^ 31, "int f"}, {7, 1.5, "whole number"}, {7, 0 / 0, "nan"}, {8, -1, "0..4294967295"},
                {9, 2 ^ 63, "long long h"}, {9, -2 ^ 64, "long long h"}, {10, 2 ^ 64, "0..18446744073709551615"}, {10, -1, "unsigned long long i"},
                {11, ffi.new("int64_t", -1), "size_t j"}, {12, true, "float l"}, {13, "1", "argument 13"}, {13, out, "double m"},
                {14, ffi.new("uint64_t", 200), "int8_t n"}, {15, 1 / 0, "uint16_t o"}, {16, {1}, "a list of 1 numbers"},
            }
            for _, case in ipairs(bad) do
                local args = {unpack(good, 1, 16)}
                args[case[1]] = case[2]
                local err = raises("BAD_ARGUMENT", {"kernel scalars", case[3]}, run, k.scalars, args)
                assert.truthy(err.where:find("kernel_args_spec", 1, true), err.where)
            end
            local err = raises("BAD_ARGUMENT", {"argument 7 (int f)", "got 0.5"}, run, k.scalars, {out, true, 0, 0, 0, 0, 0.5, 0, 0, 0, 0, 0, 0, 0, 0, 0})
            assert.truthy(err.message:find("scalars(double *out, bool a, char b", 1, true), err.message)
        end)

        it("are vectors, structs and views by value", function()
            pcall(ffi.cdef, "typedef struct { float scale; int offset; unsigned char flags[4]; } spec_params;")
            local params = ffi.new("spec_params", 2.5, 4, {0, 0, 0, 9})
            local out, m = gpu.mat(8, 1, "f32"), gpu.mat(30, 20, "u8", {align = 512})
            local there = gpu.mat(12, 1, "u8"):upload(ffi.string(params, ffi.sizeof(params)))
            run(k.vectors, {out, {1, 2, 3}, {1, 2, 3, 250}, {5, -7}, {0.5, 0.25}, params, m, there}, {reads = {m}})
            assert.same({321, 256, 12, 0.75, 19, 30020, 512, 2.5}, out:totable()[1])
            local vector = ffi.new("float[3]", 4, 5, 6)
            run(k.vectors, {out, vector, {0, 0, 0, 0}, {0, 0}, {0, 0}, params, ffi.new("gwb_view", {step = 7, width = 3, height = 4}), ffi.new("void *")})
            assert.same({654, 0, 0, 0, 19, 3004, 7, -1}, out:totable()[1])
            raises("BAD_ARGUMENT", {"float3 a", "list of 3 numbers", "12 bytes", "list of 2"}, run, k.vectors,
                {out, {1, 2}, {1, 2, 3, 4}, {1, 2}, {1, 2}, params, m, there})
            raises("BAD_ARGUMENT", {"uchar4 b", "fit its type"}, run, k.vectors, {out, {1, 2, 3}, {1, 2, 3, 256}, {1, 2}, {1, 2}, params, m, there})
            raises("BAD_ARGUMENT", {"int2 c"}, run, k.vectors, {out, {1, 2, 3}, {1, 2, 3, 4}, {1.5, 2}, {1, 2}, params, m, there})
            raises("BAD_ARGUMENT", {"params e", "12 bytes", "24 bytes"}, run, k.vectors,
                {out, {1, 2, 3}, {1, 2, 3, 4}, {1, 2}, {1, 2}, ffi.new("gwb_view"), m, there})
            raises("BAD_ARGUMENT", {"params e", "got 3"}, run, k.vectors, {out, {1, 2, 3}, {1, 2, 3, 4}, {1, 2}, {1, 2}, 3, m, there})
            raises("BAD_ARGUMENT", {"gwb_view v", "must be a mat"}, run, k.vectors, {out, {1, 2, 3}, {1, 2, 3, 4}, {1, 2}, {1, 2}, params, nil, there})
            raises("BAD_ARGUMENT", "must be a number", run, k.vectors, {out, {1, 2, "3"}, {1, 2, 3, 4}, {1, 2}, {1, 2}, params, m, there})
        end)

        it("are mats of the pointer's type, pointers, and NULL", function()
            local f, p, v = gpu.mat(1, 1, "f32"), gpu.mat(2, 1, "u8x3", {fill = {1, 2, 3}}), gpu.mat(1, 1, "f32x4", {fill = {0, 0, 0, 50}})
            local bits, flag = gpu.mat(1, 1, "f16", {fill = 1}), gpu.mat(1, 1, "u8", {fill = 1})
            run(k.pointers, {f, f, f, p, v, bits, flag})
            assert.equal(1 + 10 + 300 + 50 + 0x3c00 + 1, (f:at(0, 0)))
            run(k.pointers, {nil, nil, f, nil, nil, nil, ffi.new("void *")})
            assert.equal(0, (f:at(0, 0)))
            run(k.pointers, {f.data, ffi.cast("char *", f.data), f, p.data, v.data, bits.data, flag.data}, {reads = {p, v, bits, flag}})
            assert.equal(1 + 10 + 300 + 50 + 0x3c00 + 1, (f:at(0, 0)))
            run(k.pointers, {f = f, any = v, flag = flag})
            assert.equal(2, (f:at(0, 0)))
            local cases = {
                {{f, f, p, p, v, bits, flag}, {"float *f", "a mat of f32 numbers", "2x1 u8x3"}},
                {{f, f, f, flag, v, bits, flag}, {"uchar3 *p", "u8x3"}},
                {{f, f, f, p, f, bits, flag}, {"float4 *v", "f32x4"}},
                {{f, f, f, p, v, gpu.mat(1, 1, "i16"), flag}, {"unsigned short *bits", "u16 numbers (or f16)", "i16"}},
                {{f, f, 5, p, v, bits, flag}, {"float *f", "a mat, a cdata pointer or nil", "got 5"}},
                {{f, f, ffi.new("float[4]"), p, v, bits, flag}, {"float *f", "a value of 16 bytes"}},
                {{f, f, {1, 2}, p, v, bits, flag}, {"float *f", "a list of 2 numbers"}},
                {{f, f, "abc", p, v, bits, flag}, {"argument 3", '"abc"'}},
                {{f, f, gpu.image("gray", 2, 2), p, v, bits, flag}, {"argument 3", "planes"}},
                {{f, f, print, p, v, bits, flag}, {"argument 3", "function"}},
            }
            for _, case in ipairs(cases) do
                raises("BAD_ARGUMENT", case[2], run, k.pointers, case[1])
            end
            local closed = gpu.mat(1, 1, "f32")
            closed:close()
            raises("CLOSED", {"argument 3 (f)", "closed"}, run, k.pointers, {nil, nil, closed, nil, nil, nil, flag})
        end)

        it("must have the right count and names", function()
            local f = gpu.mat(1, 1, "f32")
            raises("BAD_ARGUMENT", {"wanted 7 arguments, got 2", "ffi.new", "pointers(const void *any"}, run, k.pointers, {f, f})
            raises("BAD_ARGUMENT", "wanted 7 arguments, got 8", run, k.pointers, {f, f, f, nil, nil, nil, nil, 3})
            raises("BAD_ARGUMENT", {"wanted 16 arguments, got 1", "scalars("}, run, k.scalars, {f})
            raises("BAD_ARGUMENT", {"no parameter", '"g"'}, run, k.pointers, {f = f, g = 1})
            raises("BAD_ARGUMENT", {"parameter a is missing"}, run, k.vectors, {out = f})
            raises("BAD_ARGUMENT", "the key", run, k.pointers, {f, f = f})
            raises("BAD_ARGUMENT", "args must be", run, k.pointers, 5)
            raises("BAD_ARGUMENT", "wanted 7", k.pointers, {grid = 1, block = 1})
            raises("BAD_ARGUMENT", {"unknown option", "over"}, k.pointers, {grids = 1})
        end)

        it("must have sizes within CUDA's limits", function()
            local f = gpu.mat(1, 1, "f32")
            local args = {f, f, f, nil, nil, nil, f.data}
            local function sizes(grid, block)
                return k.pointers {grid = grid, block = block, args = args}
            end
            raises("BAD_ARGUMENT", {"grid.y", "65536", "65535"}, sizes, {1, 65536}, 1)
            raises("BAD_ARGUMENT", {"grid.x", "2147483648"}, sizes, 2 ^ 31, 1)
            raises("BAD_ARGUMENT", {"grid.z", "-1"}, sizes, {1, 1, -1}, 1)
            raises("BAD_ARGUMENT", {"block.x", "1..1024", "1025"}, sizes, 1, 1025)
            raises("BAD_ARGUMENT", {"block.z", "65"}, sizes, 1, {1, 1, 65})
            raises("BAD_ARGUMENT", {"block.y", "0"}, sizes, 1, {1, 0})
            raises("BAD_ARGUMENT", {"2048 threads", "64 x 32 x 1", "1024"}, sizes, 1, {64, 32})
            raises("BAD_ARGUMENT", {"block.x", "1.5"}, sizes, 1, 1.5)
            raises("BAD_ARGUMENT", "neither over nor grid", sizes, nil, 1)
            raises("BAD_ARGUMENT", {"block must be", "nil"}, sizes, 1, nil)
            raises("BAD_ARGUMENT", {"grid must be"}, sizes, {1, 1, 1, 1}, 1)
            raises("BAD_ARGUMENT", "shared", k.pointers, {grid = 1, block = 1, shared = -1, args = args})
        end)

        it("must be on the kernel's device, and writable where they are written", function()
            local f = gpu.mat(1, 1, "f32", {fill = 3})
            local bytes = gpu.mat(4, 1, "u8", {packed = true, fill = 0})
            local readonly = gpu.wrap {ptr = f.data, width = 1, height = 1, type = "f32", owner = f, readonly = true, device = name}
            raises("READ_ONLY", {"argument 3 (f)", "read-only", "reads="}, run, k.pointers, {nil, nil, readonly, nil, nil, nil, bytes})
            run(k.pointers, {readonly, nil, f, nil, nil, nil, bytes})
            assert.equal(1, (f:at(0, 0)))
            raises("READ_ONLY", "writes", run, k.pointers, {nil, nil, f, nil, nil, nil, bytes}, {writes = {readonly}})
            if name ~= "host" then
                local other = gpu.on("host", gpu.mat, 1, 1, "f32")
                raises("BAD_ARGUMENT", {"on host", "on " .. name, "m:to"}, run, k.pointers, {nil, nil, other, nil, nil, nil, bytes})
            end
            raises("BAD_ARGUMENT", "C type", run, k.pointers, {ffi.typeof("float"), nil, f, nil, nil, nil, bytes})
            raises("BAD_ARGUMENT", "complex", run, k.pointers, {ffi.new("complex"), nil, f, nil, nil, nil, bytes})
            raises("BAD_ARGUMENT", "reads[1]", run, k.pointers, {nil, nil, f, nil, nil, nil, bytes}, {reads = {5}})
            raises("BAD_ARGUMENT", "writes must be", run, k.pointers, {nil, nil, f, nil, nil, nil, bytes}, {writes = f})
        end)
    end)
end)

it("compiles for sm_90, with the names and sizes that the cuda device asks for", function()
    kernels.try_on_cuda(sources, "vectors(float *out, float3 a, uchar4 b, int2 c, double2 d, params e, gwb_view v, const params *q)")
end)
