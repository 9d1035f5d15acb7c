-- SPDX-License-Identifier: MIT
-- Fourier transforms by cuFFT, by FFI. Complex numbers are two channels: "f32x2", "f64x2".
--
--     local gpu, cufft = require "gpuwb", require "gpuwb.cufft"
--     local m = gpu.mat(64, 48, "f32", {device = "cuda", fill = 1})
--     local spectrum = cufft.forward(m)                        -- f32x2 of 33 x 48: what is left out is the conjugate of what is there
--     local back = cufft.inverse(spectrum, {width = 64})       -- f32 of 64 x 48, the numbers of m
--     local rows = cufft.forward(m, {rows = true})             -- each row for itself
--     print(spectrum:at(0, 0), back:at(5, 5), rows:at(0, 7))
--
-- A plan is made for each size, step and type, and kept; work is ordered by data, and the transforms of one plan one after the other.
local ffi = require "ffi"
local check = require "gpuwb.check"
local library = require "gpuwb.library"
local mat = require "gpuwb.mat"
local types = require "gpuwb.types"
local C = require("gpuwb.cdef").C

local cufft = {}

local WHAT = "cuFFT"

ffi.cdef [[
    int cufftPlanMany(int *plan, int rank, int *n, int *in_embed, int in_stride, int in_distance, int *out_embed, int out_stride, int out_distance, int type,
        int batch);
    int cufftDestroy(int plan);
    int cufftSetStream(int plan, void *stream);
    int cufftGetVersion(int *version);
    int cufftExecR2C(int plan, void *in, void *out);
    int cufftExecC2R(int plan, void *in, void *out);
    int cufftExecC2C(int plan, void *in, void *out, int direction);
    int cufftExecD2Z(int plan, void *in, void *out);
    int cufftExecZ2D(int plan, void *in, void *out);
    int cufftExecZ2Z(int plan, void *in, void *out, int direction);
]]

local statuses = {
    "CUFFT_INVALID_PLAN", "CUFFT_ALLOC_FAILED", "CUFFT_INVALID_TYPE", "CUFFT_INVALID_VALUE", "CUFFT_INTERNAL_ERROR", "CUFFT_EXEC_FAILED",
    "CUFFT_SETUP_FAILED", "CUFFT_INVALID_SIZE", "CUFFT_UNALIGNED_DATA", [11] = "CUFFT_INVALID_DEVICE", [13] = "CUFFT_NO_WORKSPACE",
    [14] = "CUFFT_NOT_IMPLEMENTED", [16] = "CUFFT_NOT_SUPPORTED", [17] = "CUFFT_MISSING_DEPENDENCY", [18] = "CUFFT_NVRTC_FAILURE",
    [19] = "CUFFT_NVJITLINK_FAILURE", [20] = "CUFFT_NVSHMEM_FAILURE",
}
local kinds = {R2C = 0x2a, C2R = 0x2c, C2C = 0x29, D2Z = 0x6a, Z2D = 0x6c, Z2Z = 0x69}
local MOST_PLANS = 32

local function open(op)
    return library.open(op, WHAT, library.names("libcufft.so", {12, 11, 10}))
end

local function must(op, status, symbol)
    library.check(op, WHAT, statuses, status, symbol)
end

--- cufft.version() -> 12000 for 12.0. Errors: UNSUPPORTED without the library.
function cufft.version()
    local out = ffi.new("int[1]")
    must("cufft.version", open("cufft.version").cufftGetVersion(out), "cufftGetVersion")
    return out[0]
end

local plans, order = {}, {}     -- key -> plan; keys, the latest last

local function plan_for(op, position, kind, width, height, rows, in_step, out_step)
    local key = ("%d %s %d %d %s %d %d"):format(position, kind, width, height, tostring(rows), in_step, out_step)
    local plan = plans[key]
    if plan and plan.resets == C.gwb_resets(position) then
        return plan
    elseif not plan then
        order[#order + 1] = key
    end
    local lib, out = open(op), ffi.new("int[1]")
    local flat = rows or height == 1
    local rank = flat and 1 or 2
    local n = flat and ffi.new("int[2]", width) or ffi.new("int[2]", height, width)
    local in_embed = flat and ffi.new("int[2]", in_step) or ffi.new("int[2]", height, in_step)
    local out_embed = flat and ffi.new("int[2]", out_step) or ffi.new("int[2]", height, out_step)
    local lines = rank == 2 and height or 1
    library.run(op, position, {}, {}, nil, function()
        must(op, lib.cufftPlanMany(out, rank, n, in_embed, 1, in_step * lines, out_embed, 1, out_step * lines, kinds[kind], flat and height or 1),
            "cufftPlanMany")
    end)
    plan = library.own(position, out, function(handle)
        lib.cufftDestroy(handle[0])
    end)
    plans[key] = plan
    if #order > MOST_PLANS then
        plans[table.remove(order, 1)] = nil
    end
    return plan
end

local function checked(op, name, m)
    check.mat(op, name, m)
    local element = types.size[m.dtype]
    if (m.dtype ~= "f32" and m.dtype ~= "f64") or m.channels > 2 then
        check.fail("UNSUPPORTED", op, "cuFFT transforms f32, f64 and complex f32x2, f64x2, and %s is %s", name, m.type)
    elseif m.width < 1 or m.height < 1 then
        check.fail("SHAPE", op, "%s is %dx%d: wanted a number at least", name, m.width, m.height)
    elseif m.step % m.elem_size ~= 0 or tonumber(ffi.cast("uintptr_t", m.data) % (2 * element)) ~= 0 then
        check.fail("SHAPE", op, "%s begins or has rows where no complex number can (a step of %.0f bytes): use m:clone()", name, m.step)
    end
    return m.step / m.elem_size
end

local function run(op, kind, direction, src, out, width, rows, stream)
    local in_step, out_step = checked(op, "the mat", src), checked(op, "out", out)
    if src ~= out and library.shared(src, out) > 0 then
        check.fail("BAD_ARGUMENT", op, "out shares memory with the mat, and is not the same; only that can be done in place")
    end
    local position = library.device(op, WHAT, {src, out})
    local plan = plan_for(op, position, kind, width, src.height, rows, in_step, out_step)
    local lib, symbol = open(op), "cufftExec" .. kind
    local writes = (kind == "C2R" or kind == "Z2D") and {src, out} or {out}
    library.run(op, position, {src}, writes, stream, function(cuda_stream)
        must(op, lib.cufftSetStream(plan.handle[0], cuda_stream), "cufftSetStream")
        if direction then
            must(op, lib[symbol](plan.handle[0], src.data, out.data, direction), symbol)
        else
            must(op, lib[symbol](plan.handle[0], src.data, out.data), symbol)
        end
    end, plan)
    return out
end

local function make(op, src, width, channels)
    return mat.allocate(op, ffi.cast("gwb_mat *", src).device, width, src.height, types.code[src.dtype], channels)
end

--- cufft.forward(m [, {rows=, out=, stream=}]) -> the transform of a mat, in two dimensions, or with rows=true of each row. A real one (f32, f64) of width w
-- gives floor(w / 2) + 1 complex columns; a complex one as many as it has, in place where out is m. Nothing is scaled.
-- Errors, of the inverse too: UNSUPPORTED (the host device, no cuFFT, another type), SHAPE, BAD_ARGUMENT, DEVICE (cuFFT's status).
function cufft.forward(m, opts)
    local op = "cufft.forward"
    checked(op, "the mat", m)
    opts = check.options(op, opts, {"rows", "out", "stream"})
    local stream, rows = check.stream(op, opts.stream), check.boolean(op, "rows", opts.rows)
    library.device(op, WHAT, {m})
    local real, double = m.channels == 1, m.dtype == "f64"
    local width = real and math.floor(m.width / 2) + 1 or m.width
    local out = library.result(op, opts.out, width, m.height, m.dtype .. "x2", function()
        return make(op, m, width, 2)
    end)
    return run(op, real and (double and "D2Z" or "R2C") or (double and "Z2Z" or "C2C"), not real and -1 or nil, m, out, m.width, rows, stream)
end

--- cufft.inverse(m [, {width=, rows=, scale=true, out=, stream=}]) -> the inverse transform of a complex mat; with width, of the columns that forward made
-- of a real mat that wide: that mat. It is divided by the number of elements, so that it gives back what was transformed; scale=false leaves that out.
function cufft.inverse(m, opts)
    local op = "cufft.inverse"
    checked(op, "the mat", m)
    opts = check.options(op, opts, {"width", "rows", "scale", "out", "stream"})
    local stream, rows = check.stream(op, opts.stream), check.boolean(op, "rows", opts.rows)
    local scale = opts.scale == nil or check.boolean(op, "scale", opts.scale)
    if m.channels ~= 2 then
        check.fail("UNSUPPORTED", op, "the inverse is of complex numbers (f32x2, f64x2), and the mat is %s", m.type)
    end
    local real, double = opts.width ~= nil, m.dtype == "f64"
    local width = real and check.integer(op, "width", opts.width, 1, 2147483647) or m.width
    if real and math.floor(width / 2) + 1 ~= m.width then
        check.fail("SHAPE", op, "a real mat of width %d has %d columns when transformed, and the mat has %d", width, math.floor(width / 2) + 1, m.width)
    end
    library.device(op, WHAT, {m})
    local out = library.result(op, opts.out, width, m.height, real and m.dtype or m.dtype .. "x2", function()
        return make(op, m, width, real and 1 or 2)
    end)
    local src = m
    if real then    -- cuFFT works in what it reads there
        src = make(op, m, m.width, 2)
        check.status(C.gwb_copy(src, m, stream), op)
    end
    run(op, real and (double and "Z2D" or "C2R") or (double and "Z2Z" or "C2C"), not real and 1 or nil, src, out, width, rows, stream)
    if scale then
        check.status(C.gwb_cast(out, out, 1 / (width * (rows and 1 or m.height)), 0, 0, stream), op)
    end
    return out
end

return cufft
