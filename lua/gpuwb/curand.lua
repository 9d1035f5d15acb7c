-- SPDX-License-Identifier: MIT
-- Random numbers by cuRAND, by FFI.
--
--     local gpu, curand = require "gpuwb", require "gpuwb.curand"
--     local g = curand.generator {seed = 42, device = "cuda"}
--     local noise = g:normal(gpu.mat(640, 480, "f32", {device = "cuda"}), 0, 2.5)      -- mean 0, deviation 2.5
--     local share = g:uniform(gpu.mat(640, 480, "f32", {device = "cuda"}))            -- above 0, up to 1
--     local bits = g:bits(gpu.mat(640, 480, "u32", {device = "cuda"}))
--     print(gpu.reduce(noise, "mean"), share:at(0, 0), bits:at(0, 0))
--
-- A generator goes on where it stopped; the same seed and the same calls give the same numbers, whatever the step of the mats.
local ffi = require "ffi"
local check = require "gpuwb.check"
local library = require "gpuwb.library"
local mat = require "gpuwb.mat"
local types = require "gpuwb.types"
local C = require("gpuwb.cdef").C

local curand = {}

local WHAT = "cuRAND"

ffi.cdef [[
    int curandCreateGenerator(void **generator, int type);
    int curandDestroyGenerator(void *generator);
    int curandSetStream(void *generator, void *stream);
    int curandSetPseudoRandomGeneratorSeed(void *generator, unsigned long long seed);
    int curandGenerate(void *generator, unsigned *out, size_t n);
    int curandGenerateUniform(void *generator, float *out, size_t n);
    int curandGenerateUniformDouble(void *generator, double *out, size_t n);
    int curandGenerateNormal(void *generator, float *out, size_t n, float mean, float deviation);
    int curandGenerateNormalDouble(void *generator, double *out, size_t n, double mean, double deviation);
]]

local statuses = {
    [100] = "CURAND_STATUS_VERSION_MISMATCH", [101] = "CURAND_STATUS_NOT_INITIALIZED", [102] = "CURAND_STATUS_ALLOCATION_FAILED",
    [103] = "CURAND_STATUS_TYPE_ERROR", [104] = "CURAND_STATUS_OUT_OF_RANGE", [105] = "CURAND_STATUS_LENGTH_NOT_MULTIPLE",
    [106] = "CURAND_STATUS_DOUBLE_PRECISION_REQUIRED", [201] = "CURAND_STATUS_LAUNCH_FAILURE", [202] = "CURAND_STATUS_PREEXISTING_FAILURE",
    [203] = "CURAND_STATUS_INITIALIZATION_FAILED", [204] = "CURAND_STATUS_ARCH_MISMATCH", [999] = "CURAND_STATUS_INTERNAL_ERROR",
}
local kinds = {xorwow = 101, mrg32k3a = 121, mt19937 = 142, philox = 161}

local function open(op)
    return library.open(op, WHAT, library.names("libcurand.so", {10}))
end

local function must(op, status, symbol)
    library.check(op, WHAT, statuses, status, symbol)
end

local methods = {}
local meta = {__index = methods, __name = "cuRAND generator"}

--- curand.generator([{seed=0, kind="xorwow", device=}]) -> generator on a cuda device. kind: "xorwow", "mrg32k3a", "mt19937" or "philox"; seed: a whole
-- number up to 2^53. g:uniform, g:normal and g:bits fill mats of its
-- device, g:close() releases it now. Errors: UNSUPPORTED on the host device or without cuRAND; of the methods BAD_ARGUMENT, CLOSED.
function curand.generator(opts)
    local op = "curand.generator"
    opts = check.options(op, opts, {"seed", "kind", "device"})
    local seed = opts.seed == nil and 0 or check.integer(op, "seed", opts.seed, 0, 2 ^ 53)
    local kind = kinds[check.choice(op, "kind", opts.kind == nil and "xorwow" or opts.kind, {"xorwow", "mrg32k3a", "mt19937", "philox"})]
    local position = library.named_device(op, WHAT, opts.device)
    local lib, out = open(op), ffi.new("void *[1]")
    local g = library.run(op, position, {}, {}, nil, function()
        must(op, lib.curandCreateGenerator(out, kind), "curandCreateGenerator")
        local g = library.own(position, out[0], lib.curandDestroyGenerator)
        must(op, lib.curandSetPseudoRandomGeneratorSeed(g.handle, seed), "curandSetPseudoRandomGeneratorSeed")
        return g
    end)
    return setmetatable(g, meta)
end

-- Fills m by generate(generator, pointer, n).
local function fill(op, g, m, known, stream, symbol, generate)
    if type(g) ~= "table" or getmetatable(g) ~= meta then
        check.fail("BAD_ARGUMENT", op, "call it as a method of a generator, got %s", check.show(g))
    end
    check.mat(op, "the mat", m)
    if not known[m.dtype] then
        local names = {}
        for name in pairs(known) do
            names[#names + 1] = name
        end
        table.sort(names)
        check.fail("UNSUPPORTED", op, "it fills %s, and the mat is %s", table.concat(names, " and "), m.type)
    end
    if library.device(op, WHAT, {m}) ~= g.position then
        check.fail("BAD_ARGUMENT", op, "the mat belongs to %s and the generator to another device", m.device)
    end
    local n = m.width * m.height * m.channels
    if n == 0 then
        return m
    end
    -- cuRAND fills tight memory, and pairs of normal numbers.
    local even = n + n % 2
    local direct = m:is_contiguous() and even == n
    local to = m
    if not direct then
        local width = math.min(even, 2 ^ 24)
        to = mat.allocate(op, g.position, width, math.ceil(even / width), types.code[m.dtype], 1, true)
        if m.readonly then
            check.fail("READ_ONLY", op, "the mat is read-only")
        end
    end
    library.run(op, g.position, {}, {to}, stream, function(cuda_stream)
        must(op, open(op).curandSetStream(g.handle, cuda_stream), "curandSetStream")
        must(op, generate(g.handle, ffi.cast(known[m.dtype] .. " *", to.data), even), symbol)
    end, g)
    if not direct then
        local tight = to:slice(0, m.width, m.height, m.type, m.width * m.elem_size)
        check.status(C.gwb_copy(m, tight, stream), op)
    end
    return m
end

local reals = {f32 = "float", f64 = "double"}

--- g:uniform(m [, {stream=}]) -> m, an f32 or f64 mat, filled with numbers above 0 and up to 1.
function methods:uniform(m, opts)
    local op = "generator:uniform"
    local stream = check.stream(op, check.options(op, opts, {"stream"}).stream)
    local symbol = check.is_mat(m) and check.mat(op, "the mat", m).dtype == "f64" and "curandGenerateUniformDouble" or "curandGenerateUniform"
    return fill(op, self, m, reals, stream, symbol, function(...)
        return open(op)[symbol](...)
    end)
end

--- g:normal(m [, mean=0 [, deviation=1 [, {stream=}]]]) -> m, an f32 or f64 mat, filled with normally distributed numbers.
function methods:normal(m, mean, deviation, opts)
    local op = "generator:normal"
    mean = mean == nil and 0 or check.number(op, "mean", mean)
    deviation = deviation == nil and 1 or check.number(op, "deviation", deviation)
    local stream = check.stream(op, check.options(op, opts, {"stream"}).stream)
    local symbol = check.is_mat(m) and check.mat(op, "the mat", m).dtype == "f64" and "curandGenerateNormalDouble" or "curandGenerateNormal"
    return fill(op, self, m, reals, stream, symbol, function(generator, out, n)
        return open(op)[symbol](generator, out, n, mean, deviation)
    end)
end

--- g:bits(m [, {stream=}]) -> m, a u32 mat, filled with random bits.
function methods:bits(m, opts)
    local op = "generator:bits"
    local stream = check.stream(op, check.options(op, opts, {"stream"}).stream)
    return fill(op, self, m, {u32 = "unsigned"}, stream, "curandGenerate", function(...)
        return open(op).curandGenerate(...)
    end)
end

--- g:close(): releases the generator now. Twice is harmless.
function methods:close()
    if type(self) ~= "table" or getmetatable(self) ~= meta then
        check.fail("BAD_ARGUMENT", "generator:close", "call it as a method of a generator, got %s", check.show(self))
    end
    library.release(self)
end

return curand
