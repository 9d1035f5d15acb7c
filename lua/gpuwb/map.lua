-- SPDX-License-Identifier: MIT
-- Elementwise kernels from an expression, and reductions.
local ffi = require "ffi"
local check = require "gpuwb.check"
local device = require "gpuwb.device"
local kernel = require "gpuwb.kernel"
local mat = require "gpuwb.mat"
local types = require "gpuwb.types"
local C = require("gpuwb.cdef").C

local map = {}

local mat_pointer = ffi.typeof("gwb_mat *")

-- ---- gpu.map

local rounds = {nearest = 0, zero = 1, down = 2, up = 3}
local own_names = {x = true, y = true, c = true, out = true}

-- Every number is a double, also in the functions: they would choose by type otherwise, and GPUs and hosts choose differently.
local HEAD = [[
#include "number.h"
#undef min
#undef max
#define min(a, b) fmin((double)(a), (double)(b))
#define max(a, b) fmax((double)(a), (double)(b))
#define pow(a, b) pow((double)(a), (double)(b))
#define abs(a) fabs((double)(a))
#define mod(a, b) gwb_mod((a), (b))
#define clamp(v, low, high) gwb_number_clamp((v), (low), (high))
GWB_FN double gwb_mod(double a, double b) { return a - floor(a / b) * b; }
]]

local ENTRY = [[
__global__ void map(%s)
{
    const int64_t gwb_n = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (gwb_n >= (int64_t)gwb_out.width * %d)
        return;
    const double x = (double)(gwb_n / %d), c = (double)(gwb_n %% %d);
    for (int64_t gwb_row = (int64_t)blockIdx.y * blockDim.y + threadIdx.y; gwb_row < gwb_out.height; gwb_row += (int64_t)gridDim.y * blockDim.y) {
        const double y = (double)gwb_row;
%s        gwb_number_store_%s(gwb_out.data + gwb_row * gwb_out.step + gwb_n * %d,
#line 1 "expression"
%s
        , %d);
    }
}
]]

-- The source for an expression over the inputs, a list of {name=, mat=, number=}, with `channels` numbers a pixel.
local function write(expr, inputs, channels, element, round)
    local params, loads = {"gwb_view gwb_out"}, {}
    for _, input in ipairs(inputs) do
        if input.mat then
            local p = ffi.cast(mat_pointer, input.mat)
            local own = types.names[p.type + 1]
            params[#params + 1] = "gwb_view gwb_in_" .. input.name
            local at = p.channels == channels and "gwb_n" or "(int64_t)x"
            loads[#loads + 1] = ("        const double %s = gwb_number_load_%s(gwb_in_%s.data + gwb_row * gwb_in_%s.step + %s * %d);\n"):format(
                input.name, own, input.name, input.name, at, types.size[own])
        else
            params[#params + 1] = "double " .. input.name
        end
    end
    return HEAD .. ENTRY:format(table.concat(params, ", "), channels, channels, channels, table.concat(loads), element, types.size[element], expr,
        round)
end

local function check_expression(op, expr)
    check.string(op, "expr", expr)
    if expr:find("[;{}#\\\"'\n%z]") or not expr:find("%S") then
        check.fail("BAD_ARGUMENT", op, "expr must be one C expression as \"(a + 2*b) / 3\", got %s", check.show(expr))
    end
    local whole = expr:match("%f[%w_.]%d+%s*/%s*%d+%f[^%w_.]")
    if whole then
        check.fail("BAD_ARGUMENT", op, "%s in expr divides whole numbers as C does, so its fraction is lost; write %s", whole,
            (whole:gsub("^%d+", "%0.0")))
    end
    return expr
end

-- The inputs by name, in order; the mats' common size, device and channels.
local function read_inputs(op, inputs)
    if type(inputs) ~= "table" then
        check.fail("BAD_ARGUMENT", op, "inputs must be a table as {a = m1, b = 3}, got %s", check.show(inputs))
    end
    local list, first = {}, nil
    for name, value in pairs(inputs) do
        if type(name) ~= "string" or not name:find("^%a[%w_]*$") or own_names[name] or name:find("^gwb_") then
            check.fail("BAD_ARGUMENT", op, "inputs must have names that are letters and digits, and not x, y, c or out; got %s", check.show(name))
        end
        if check.is_mat(value) then
            list[#list + 1] = {name = name, mat = check.mat(op, name, value)}
        elseif type(value) == "number" then
            list[#list + 1] = {name = name, number = value}
        else
            check.fail("BAD_ARGUMENT", op, "%s must be a mat or a number, got %s", name, check.show(value))
        end
    end
    table.sort(list, function(a, b) return a.name < b.name end)
    local channels = 1
    for _, input in ipairs(list) do
        local p = input.mat and ffi.cast(mat_pointer, input.mat)
        if p then
            first = first or input
            local f = ffi.cast(mat_pointer, first.mat)
            if p.width ~= f.width or p.height ~= f.height then
                check.fail("SHAPE", op, "%s is %dx%d and %s is %dx%d; wanted one size", first.name, f.width, f.height, input.name, p.width, p.height)
            end
            if p.channels ~= 1 and channels ~= 1 and p.channels ~= channels then
                check.fail("SHAPE", op, "%s has %d channels, another mat %d; wanted the same number, or 1", input.name, p.channels, channels)
            end
            channels = math.max(channels, p.channels)
        end
    end
    return list, first, channels
end

-- Type code, channels and element name of the result.
local function result_type(op, kind, list, out, channels)
    if out then
        local p = ffi.cast(mat_pointer, out)
        if kind ~= nil and types.parse(op, "type", kind) ~= p.type then
            check.fail("SHAPE", op, "out has the type %s, and type says %s", out.type, kind)
        end
        if p.channels ~= channels and channels ~= 1 then
            check.fail("SHAPE", op, "out has %d channels, the inputs %d", p.channels, channels)
        end
        return p.type, p.channels, types.names[p.type + 1]
    end
    if kind ~= nil then
        local code, wanted, element = types.parse(op, "type", kind)
        if wanted ~= channels and channels ~= 1 and wanted ~= 1 then
            check.fail("BAD_ARGUMENT", op, "type %s has %d channels, the inputs %d", kind, wanted, channels)
        end
        return code, math.max(wanted, channels), element
    end
    local code
    for _, input in ipairs(list) do
        local p = input.mat and ffi.cast(mat_pointer, input.mat)
        if p and code and code ~= p.type then
            check.fail("BAD_ARGUMENT", op, "the mats are of several types; give the result's, as gpu.map(expr, inputs, \"f32\")")
        end
        code = p and p.type or code
    end
    return code, channels, types.names[code + 1]
end

local kernels, kernel_count = {}, 0     -- device and source -> kernel

local function find_kernel(op, source, position, expr)
    local key = position .. "\n" .. source
    local k = kernels[key]
    if not k then
        if kernel_count == 256 then
            kernels, kernel_count = {}, 0
        end
        local ok, made = pcall(kernel.kernel, source, {name = "map", device = device.name(position)})
        if not ok then
            if type(made) ~= "table" or made.code ~= "COMPILE" then
                error(made, 0)
            end
            local said = {}
            for line in made.message:gmatch("[^\n]*expression[^\n]*") do
                said[#said + 1] = line:match("error:?%s*(.*)")
            end
            check.fail("COMPILE", op, "the expression %s does not compile: %s", check.show(expr),
                #said > 0 and table.concat(said, "; ") or made.message)
        end
        k = made
        kernels[key] = k
        kernel_count = kernel_count + 1
    end
    return k
end

--- gpu.map(expr, inputs [, type] [, {type=, out=, round=, stream=, width=, height=, device=}]) -> mat with expr's value for each number.
-- expr: a C expression, as "(a + 2*b) / 3" or "a > t ? a : 0". inputs: mats and numbers by name, {a = m1, b = m2, t = 0.5}; mats have one size, and one
-- number of channels or a single one, which then counts for all. Every name is a double; x, y and c are the pixel's position and the channel. C's
-- functions of doubles can be used, and min, max, clamp(v, low, high), mod(a, b) with b's sign. Numbers are arguments: another value compiles nothing.
-- type: the result's element type (default: the mats'); it saturates and rounds as m:cast does (round=). out: a mat for the result, which may be an
-- input. With no mat among the inputs: out, or width, height and type. On the host device this needs a compiler, as gpu.kernel does.
-- Errors: COMPILE, SHAPE, BAD_ARGUMENT, UNSUPPORTED (no compiler).
-- @example
-- local rings = gpu.map("127.5 + 127.5 * sin(hypot(x - 120, y - 80) / 6)", {}, {type = "u8", width = 240, height = 160})
-- local colours = gpu.map("c == 0 ? x : c == 1 ? y : a", {a = rings}, "u8x3")
-- print(rings:at(120, 80), colours:at(10, 20))     --> 128  10  20  242
function map.map(expr, inputs, kind, opts)
    local op = "gpu.map"
    check_expression(op, expr)
    if type(kind) == "table" and opts == nil then
        kind, opts = nil, kind
    end
    opts = check.options(op, opts, {"type", "out", "round", "stream", "width", "height", "device"})
    kind = kind == nil and opts.type or kind
    local round = rounds[opts.round == nil and "nearest" or opts.round]
    if not round then
        check.choice(op, "round", opts.round, {"nearest", "zero", "down", "up"})
    end
    local stream = check.stream(op, opts.stream)
    local out = opts.out ~= nil and check.mat(op, "out", opts.out) or nil
    local list, first, channels = read_inputs(op, inputs)
    local like = first and ffi.cast(mat_pointer, first.mat) or out and ffi.cast(mat_pointer, out)
    if not like and not (opts.width and opts.height and kind) then
        check.fail("BAD_ARGUMENT", op, "there is no mat to take the size from; give out, or width, height and type")
    end
    local width = like and like.width or check.integer(op, "width", opts.width, 0, 2 ^ 31 - 1)
    local height = like and like.height or check.integer(op, "height", opts.height, 0, 2 ^ 31 - 1)
    local position = like and like.device or device.position(op, opts.device)
    local code, result_channels, element = result_type(op, kind, list, out, channels)
    if not out then
        out = mat.allocate(op, position, width, height, code, result_channels)
    end
    local p = ffi.cast(mat_pointer, out)
    if p.width ~= width or p.height ~= height then
        check.fail("SHAPE", op, "out is %dx%d, the inputs %dx%d", p.width, p.height, width, height)
    end
    local args, reads = {out}, {}
    for i, input in ipairs(list) do
        args[i + 1] = input.mat or input.number
        if input.mat then
            local q = ffi.cast(mat_pointer, input.mat)
            local same = q.data == p.data and q.step == p.step and q.elem_size == p.elem_size
            if not same and C.gwb_mat_shared(input.mat, out) > 0 then
                check.fail("BAD_ARGUMENT", op, "out overlaps %s without being the same pixels", input.name)
            end
            if not same then
                reads[#reads + 1] = input.mat
            end
        end
    end
    local k = find_kernel(op, write(expr, list, result_channels, element, round), position, expr)
    local grid = {math.ceil(width * result_channels / 32), math.min(math.ceil(height / 8), 65535)}
    k.map {grid = grid, block = {32, 8}, args = args, reads = reads, writes = {out}, stream = stream}
    return out
end

-- ---- gpu.reduce

local reductions = {
    sum = {C.GWB_REDUCE_SUM}, min = {C.GWB_REDUCE_MIN}, max = {C.GWB_REDUCE_MAX}, norm1 = {C.GWB_REDUCE_ABS}, nonzero = {C.GWB_REDUCE_NONZERO},
    mean = {C.GWB_REDUCE_SUM, function(v, n) return v / n end}, norm2 = {C.GWB_REDUCE_SQUARES, math.sqrt},
}

--- gpu.reduce(m, what [, {stream=}]) -> a number for each channel. what: "sum", "mean", "min", "max", "norm1" (sum of magnitudes), "norm2" (root of the
-- sum of squares), "nonzero" (how many). Summed in double, in an order that depends on the size alone: every device gives the same bits. A NaN makes the
-- result one. Waits. Mean, min and max of no pixels are an error.
-- @example
-- local m = gpu.mat(2, 2, "f32"):upload {1, 2, 3, 4}
-- print(gpu.reduce(m, "sum"), gpu.reduce(m, "mean"), gpu.reduce(m, "max"))     --> 10  2.5  4
function map.reduce(m, what, opts)
    local op = "gpu.reduce"
    local p = ffi.cast(mat_pointer, check.mat(op, "m", m))
    local r = reductions[what]
    if not r then
        check.choice(op, "what", what, {"sum", "mean", "min", "max", "norm1", "norm2", "nonzero"})
    end
    local stream = check.stream(op, check.options(op, opts, {"stream"}).stream)
    local n = p.width * p.height
    if n == 0 and (what == "mean" or what == "min" or what == "max") then
        check.fail("BAD_ARGUMENT", op, "the %s of no pixels (%dx%d) is nothing", what, p.width, p.height)
    end
    local values, list = ffi.new("double[4]"), {}
    check.status(C.gwb_reduce(m, r[1], values, stream), op)
    for c = 1, p.channels do
        list[c] = r[2] and r[2](values[c - 1], n) or values[c - 1]
    end
    return unpack(list)
end

map.public = {map = map.map, reduce = map.reduce}

return map
