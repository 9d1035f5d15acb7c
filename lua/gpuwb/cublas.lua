-- SPDX-License-Identifier: MIT
-- Matrix products by cuBLAS, by FFI. A mat is a matrix of height rows and width columns, its step any multiple of its elements.
--
--     local gpu, cublas = require "gpuwb", require "gpuwb.cublas"
--     local a = gpu.mat(3, 2, "f32", {device = "cuda"}):upload {1, 2, 3, 4, 5, 6}       -- 2 rows of 3
--     local b = gpu.mat(2, 3, "f32", {device = "cuda"}):upload {1, 0, 0, 1, 1, 1}       -- 3 rows of 2
--     local c = cublas.gemm(a, b)                                                      -- 2 x 2: {4, 5}, {10, 11}
--     cublas.gemm(a, a, {transpose_b = true, out = c, alpha = 2, beta = 1})             -- c = 2 a a' + c
--     print(c:at(0, 0))
--
-- Work is ordered by data, and the products of one device one after the other, since they share cuBLAS's workspace.
local ffi = require "ffi"
local check = require "gpuwb.check"
local library = require "gpuwb.library"
local mat = require "gpuwb.mat"
local types = require "gpuwb.types"

local cublas = {}

local WHAT = "cuBLAS"

ffi.cdef [[
    int cublasCreate_v2(void **handle);
    int cublasDestroy_v2(void *handle);
    int cublasGetVersion_v2(void *handle, int *version);
    int cublasSetStream_v2(void *handle, void *stream);
    int cublasGemmEx(void *handle, int transpose_a, int transpose_b, int m, int n, int k, const void *alpha, const void *a, int a_type, int lda, const void *b,
        int b_type, int ldb, const void *beta, void *c, int c_type, int ldc, int compute_type, int algorithm);
]]

local statuses = {
    [1] = "CUBLAS_STATUS_NOT_INITIALIZED", [3] = "CUBLAS_STATUS_ALLOC_FAILED", [7] = "CUBLAS_STATUS_INVALID_VALUE", [8] = "CUBLAS_STATUS_ARCH_MISMATCH",
    [11] = "CUBLAS_STATUS_MAPPING_ERROR", [13] = "CUBLAS_STATUS_EXECUTION_FAILED", [14] = "CUBLAS_STATUS_INTERNAL_ERROR",
    [15] = "CUBLAS_STATUS_NOT_SUPPORTED", [16] = "CUBLAS_STATUS_LICENSE_ERROR",
}
-- cudaDataType and cublasComputeType_t; alpha and beta are of the compute type.
local kinds = {
    f16 = {type = 2, compute = 68, scale = "float[1]"}, f32 = {type = 0, compute = 68, scale = "float[1]"}, f64 = {type = 1, compute = 70, scale = "double[1]"},
}
local DEFAULT_ALGORITHM = -1
local max_size = 2147483647

local function open(op)
    return library.open(op, WHAT, library.names("libcublas.so", {13, 12, 11}))
end

local function must(op, status, symbol)
    library.check(op, WHAT, statuses, status, symbol)
end

-- The device's handle.
local handle_on = library.per_device(function(op, position)
    local lib, out = open(op), ffi.new("void *[1]")
    library.run(op, position, {}, {}, nil, function()
        must(op, lib.cublasCreate_v2(out), "cublasCreate")
    end)
    return library.own(position, out[0], lib.cublasDestroy_v2)
end)

--- cublas.version([device]) -> 130000 for 13.0. Errors: UNSUPPORTED on the host device or without cuBLAS.
function cublas.version(name)
    local op, out = "cublas.version", ffi.new("int[1]")
    local position = library.named_device(op, WHAT, name)   -- first: on the host device that is what to be told, whatever is installed
    must(op, open(op).cublasGetVersion_v2(handle_on(op, position).handle, out), "cublasGetVersion")
    return out[0]
end

local function matrix(op, name, m)
    check.mat(op, name, m)
    local size = types.size[m.dtype]
    if not kinds[m.dtype] or m.channels ~= 1 then
        check.fail("UNSUPPORTED", op, "cuBLAS multiplies f16, f32 and f64 of one channel, and %s is %s", name, m.type)
    elseif m.width < 1 or m.height < 1 then
        check.fail("SHAPE", op, "%s is %dx%d: wanted an element at least", name, m.width, m.height)
    elseif m.step % size ~= 0 or m.step / size > max_size then
        check.fail("SHAPE", op, "the step of %s is %.0f bytes, no whole number of elements that fits; m:clone() has one", name, m.step)
    end
    return m, m.step / size
end

--- cublas.gemm(a, b [, {transpose_a=, transpose_b=, alpha=1, beta=0, out=, stream=}]) -> alpha a b + beta out, a mat of the height of a and the width of b
-- (as they are after their transposition). f16, f32 or f64, all alike; f16 is added up in f32; f32 is multiplied in full. out may be neither a nor b.
-- Errors: UNSUPPORTED (the host device, no cuBLAS, another type), SHAPE, BAD_ARGUMENT, DEVICE (cuBLAS's status).
function cublas.gemm(a, b, opts)
    local op = "cublas.gemm"
    local _, lda = matrix(op, "a", a)
    local _, ldb = matrix(op, "b", b)
    opts = check.options(op, opts, {"transpose_a", "transpose_b", "alpha", "beta", "out", "stream"})
    local stream = check.stream(op, opts.stream)
    local ta, tb = check.boolean(op, "transpose_a", opts.transpose_a), check.boolean(op, "transpose_b", opts.transpose_b)
    local alpha = opts.alpha == nil and 1 or check.number(op, "alpha", opts.alpha)
    local beta = opts.beta == nil and 0 or check.number(op, "beta", opts.beta)
    if a.dtype ~= b.dtype then
        check.fail("SHAPE", op, "a is %s and b is %s; they must be alike", a.type, b.type)
    end
    local height, inner = ta and a.width or a.height, ta and a.height or a.width
    local width, other = tb and b.height or b.width, tb and b.width or b.height
    if inner ~= other then
        check.fail("SHAPE", op, "a has %d columns and b %d rows%s: they must be as many", inner, other, (ta or tb) and ", as transposed" or "")
    elseif beta ~= 0 and opts.out == nil then
        check.fail("BAD_ARGUMENT", op, "beta adds to out, which is not given")
    end
    local position = library.device(op, WHAT, {a, b, opts.out ~= nil and check.mat(op, "out", opts.out) or nil})
    local handle = handle_on(op, position)
    local out = library.result(op, opts.out, width, height, a.type, function()
        return mat.allocate(op, position, width, height, types.code[a.dtype], 1)
    end)
    local _, ldc = matrix(op, "out", out)
    for name, m in pairs {a = a, b = b} do
        if opts.out ~= nil and library.shared(m, out) > 0 then
            check.fail("BAD_ARGUMENT", op, "out shares memory with %s, which is still read while it is written", name)
        end
    end
    local kind, lib = kinds[a.dtype], open(op)
    local one, two = ffi.new(kind.scale, alpha), ffi.new(kind.scale, beta)
    library.run(op, position, {a, b}, {out}, stream, function(cuda_stream)
        must(op, lib.cublasSetStream_v2(handle.handle, cuda_stream), "cublasSetStream")
        -- cuBLAS counts by columns: its matrices are ours transposed, and c' = b' a'.
        must(op, lib.cublasGemmEx(handle.handle, tb and 1 or 0, ta and 1 or 0, width, height, inner, one, b.data, kind.type, ldb, a.data, kind.type, lda, two,
            out.data, kind.type, ldc, kind.compute, DEFAULT_ALGORITHM), "cublasGemmEx")
    end, handle)
    return out
end

return cublas
