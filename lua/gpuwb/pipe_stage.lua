-- SPDX-License-Identifier: MIT
-- The stage table (src/ops.h) as scripts see it, and how the arguments of a stage become the numbers of a step.
local ffi = require "ffi"
local check = require "gpuwb.check"
local device = require "gpuwb.device"
local expr = require "gpuwb.expr"
local format = require "gpuwb.format"
local image = require "gpuwb.image"
local mat = require "gpuwb.mat"
local types = require "gpuwb.types"
local C = require("gpuwb.cdef").C

local stage = {list = {}}

local nan = 0 / 0
local max_size = 2147483647
local tags = format.tags
local step_type = ffi.typeof("gwb_pipe_step")

-- ---- the table

local function parse_params(text)
    local list = {}
    for name, rest in text:gmatch("(%w+):(%S+)") do
        local kind, default = rest:match("^([^=]*)=(.*)$")
        local p = {name = name, kind = kind or rest, default = default}
        if p.kind:find("|", 1, true) then
            p.choices = {}
            for choice in p.kind:gmatch("[^|]+") do
                p.choices[#p.choices + 1] = choice
            end
        end
        list[#list + 1] = p
    end
    return list
end

for position = 0, C.gwb_op_count() - 1 do
    stage.list[position + 1] = {
        op = position, name = ffi.string(C.gwb_op_name(position)), kind = ffi.string(C.gwb_op_kind(position)):lower(),
        params = parse_params(ffi.string(C.gwb_op_params(position))), text = ffi.string(C.gwb_op_text(position)),
    }
end

-- ---- lists and tables

-- A list of least to most numbers.
function stage.numbers(op, name, v, least, most)
    if type(v) ~= "table" or #v < least or #v > most then
        check.fail("BAD_ARGUMENT", op, "%s must be a list of %s numbers, got %s", name, least == most and least or least .. " to " .. most,
            type(v) == "table" and "a list of " .. #v or check.show(v))
    end
    for i = 1, #v do
        check.number(op, name .. "[" .. i .. "]", v[i])
    end
    return v
end

local numbers = stage.numbers

-- A list of numbers, or of as many lists, as an f32 mat of one row a list.
local function table_mat(op, name, v, cube)
    if check.is_mat(v) then
        if v.type ~= "f32" then
            check.fail("BAD_ARGUMENT", op, "%s must be an f32 mat, got %s", name, v.type)
        end
        return check.mat(op, name, v)
    end
    if type(v) ~= "table" or #v == 0 then
        check.fail("BAD_ARGUMENT", op, "%s must be a list of numbers, got %s", name, type(v) == "table" and "an empty table" or check.show(v))
    end
    local rows = type(v[1]) == "table" and v or {v}
    for i, row in ipairs(rows) do
        numbers(op, #rows > 1 and ("%s[%d]"):format(name, i) or name, row, cube and 24 or 2, cube and 3 * 129 ^ 3 or 65536)
        if #row ~= #rows[1] then
            check.fail("BAD_ARGUMENT", op, "the lists of %s have %d and %d numbers; wanted as many each", name, #rows[1], #row)
        end
    end
    return mat.allocate(op, device.position(op), #rows[1], #rows, types.code.f32, 1, true):upload(rows)
end

-- The numbers of a .cube file.
local function read_cube(op, path)
    local file, why = io.open(check.path(op, "table", path), "r")
    if not file then
        check.fail("NO_FILE", op, "%s", why)
    end
    local list, size = {}, nil
    local text, reason = file:read("*a")    -- a folder opens, and cannot be read
    if not text then
        file:close()
        check.fail("IO", op, "%s: %s", path, reason)
    end
    for line in text:gmatch("[^\r\n]+") do
        size = size or tonumber(line:match("^%s*LUT_3D_SIZE%s+(%d+)"))
        local r, g, b = line:match("^%s*([-%d.eE+]+)%s+([-%d.eE+]+)%s+([-%d.eE+]+)%s*$")
        if tonumber(r) and tonumber(g) and tonumber(b) then
            list[#list + 1], list[#list + 2], list[#list + 3] = tonumber(r), tonumber(g), tonumber(b)
        end
    end
    file:close()
    if not size or size < 2 or size > 129 or #list ~= 3 * size ^ 3 then
        check.fail("BAD_FILE", op, "%s holds %d colours; a .cube file names LUT_3D_SIZE n, 2..129, and holds n^3", path, #list / 3)
    end
    return list
end

-- ---- each kind of parameter: puts a value into the step. `at` counts the next n and v; `keep` takes what must live as long as the stage.

local put = {}

local function put_number(at, step, value)
    step.v[at.v] = value
    at.v = at.v + 1
end

local function put_int(at, step, value)
    step.n[at.n] = value
    at.n = at.n + 1
end

function put.int(op, p, v, step, at)
    put_int(at, step, check.integer(op, p.name, v, -max_size, max_size))
end

function put.size(op, p, v, step, at)
    local auto = p.default == "auto" and v == "auto"
    put_int(at, step, auto and 0 or check.integer(op, p.name, v, p.default == "0" and 0 or 1, max_size))
end

function put.choice(op, p, v, step, at)
    local text = type(v) == "number" and ("%g"):format(v) or v
    for i, choice in ipairs(p.choices) do
        if text == choice then
            return put_int(at, step, i - 1)
        end
    end
    check.choice(op, p.name, v, p.choices)
end

put["bool"] = function(op, p, v, step, at)
    put_int(at, step, check.boolean(op, p.name, v) and 1 or 0)
end

local function real(op, name, v)
    check.number(op, name, v)
    if v ~= v then
        check.fail("BAD_ARGUMENT", op, "%s must be a number, got nan", name)
    end
    return v
end

function put.number(op, p, v, step, at)
    put_number(at, step, v == "max" and p.default == "max" and nan or real(op, p.name, v))
end

function put.color(op, p, v, step, at)
    local list = v
    if type(v) == "number" then
        list = {v, v, v}
    elseif v == "black" and p.default == "black" then
        list = {}
    elseif type(v) ~= "table" or #v < 1 or #v > 4 then
        check.fail("BAD_ARGUMENT", op, "%s must be a number, or a list of numbers, one a channel%s; got %s", p.name,
            p.default == "black" and ', or "black"' or "", type(v) == "table" and "a list of " .. #v or check.show(v))
    end
    for i = 1, 4 do
        put_number(at, step, list[i] == nil and nan or real(op, list == v and ("%s[%d]"):format(p.name, i) or p.name, list[i]))
    end
end

function put.matrix9(op, p, v, step, at)
    numbers(op, p.name, v, 9, 9)
    for i = 1, 9 do
        put_number(at, step, real(op, ("%s[%d]"):format(p.name, i), v[i]))
    end
end

function put.matrix12(op, p, v, step, at)
    local flat = v
    if type(v) == "table" and type(v[1]) == "table" then    -- rows
        flat = {}
        for i, row in ipairs(v) do
            for _, number in ipairs(numbers(op, ("%s[%d]"):format(p.name, i), row, #v[1], #v[1])) do
                flat[#flat + 1] = number
            end
        end
    end
    if type(flat) ~= "table" or (#flat ~= 9 and #flat ~= 12) then
        check.fail("BAD_ARGUMENT", op, "%s must be 9 or 12 numbers, row by row, got %s", p.name, type(flat) == "table" and #flat or check.show(v))
    end
    local columns = #flat / 3
    for i = 0, 2 do
        for j = 1, 4 do
            put_number(at, step, j > columns and 0 or real(op, ("%s[%d]"):format(p.name, i * columns + j), flat[i * columns + j]))
        end
    end
end

function put.list(op, p, v, step, _, keep)
    local cube = op == "pipe:cube"
    if cube and type(v) == "string" then
        v = read_cube(op, v)
    end
    local m = table_mat(op, p.name, v, cube)
    if cube then
        local n = math.floor((m.width / 3) ^ (1 / 3) + 0.5)
        if 3 * n ^ 3 ~= m.width or m.height ~= 1 or n < 2 or n > 129 then
            check.fail("BAD_ARGUMENT", op, "%s has %d numbers; wanted 3 * n^3 for an n of 2..129", p.name, m.width * m.height)
        end
        step.count = n
    end
    step.operand = m
    keep[#keep + 1] = m
end

function put.mat(op, p, v, step, _, keep)
    step.operand = check.mat(op, p.name, v)
    keep[#keep + 1] = v
end

function put.image(op, p, v, step, _, keep)
    if check.is_mat(v) then
        v = stage.as_image(op, p.name, v)
    end
    image.fill(op, p.name, v, step.target)
    if #v.planes ~= 1 then
        check.fail("UNSUPPORTED", op, "%s must have its channels in one plane, as rgb24 or rgba; got %s", p.name, v.format)
    end
    step.operand = v.planes[1]
    keep[#keep + 1] = v.planes[1]
end

function put.format(op, _, v, step, _, _, opts)
    local f = format.find(op, v)
    step.target.format = f.position
    for _, tag in ipairs(tags) do
        step.target[tag] = format.tag(op, tag, opts[tag])
    end
    if f.range and opts.range == nil then
        step.target.range = format.tag(op, "range", f.range)
    end
end

function put.type(op, p, v, step, at)
    local code, channels = types.parse(op, p.name, v)
    if channels ~= 1 then
        check.fail("BAD_ARGUMENT", op, "%s is the element type alone, as \"f32\"; got %s", p.name, v)
    end
    put_int(at, step, code)
end

local letters = {r = 0, g = 1, b = 2, a = 3, ["0"] = 4, ["1"] = 5}

function put.text(op, p, v, step)
    check.string(op, p.name, v)
    if #v < 1 or #v > 4 or v:find("[^rgba01]") then
        check.fail("BAD_ARGUMENT", op, "%s must be 1 to 4 letters of r g b a 0 1, got %s", p.name, check.show(v))
    end
    for i = 1, #v do
        step.n[i - 1] = letters[v:sub(i, i)]
    end
    step.count = #v
end

function put.expression(op, p, v, step, _, keep)
    local program, list = expr.compile(op, p.name, v)
    local bytes = ffi.new("uint8_t[?]", #program, program)
    step.program, step.program_size = bytes, #program
    for i, number in ipairs(list) do
        step.v[i - 1] = number
    end
    keep[#keep + 1] = bytes
end

local function default_of(p)
    if p.default == "true" or p.default == "false" then
        return p.default == "true"
    end
    return tonumber(p.default) or p.default
end

-- What a value looks like in tostring(pipe).
local function brief(v)
    if type(v) == "table" and getmetatable(v) == nil then
        local parts = {}
        for i = 1, math.min(#v, 4) do
            parts[i] = type(v[i]) == "table" and "…" or brief(v[i])
        end
        return "{" .. table.concat(parts, ", ") .. (#v > 4 and ", …}" or "}")
    end
    return type(v) == "number" and ("%g"):format(v) or type(v) == "string" and v or check.show(v)
end

-- The arguments of a stage, in order or by name in a table that comes last -> step, what it needs to be kept, text.
function stage.make(row, op, ...)
    local given, count, named = {...}, select("#", ...), nil
    while count > 0 and given[count] == nil do
        count = count - 1
    end
    local last = given[count]
    -- a table with numbers in it is a list, and no options
    if type(last) == "table" and getmetatable(last) == nil and #last == 0 and (next(last) ~= nil or count > #row.params) then
        named, count = last, count - 1
    end
    local known = row.name == "convert" and {unpack(tags)} or {}
    for _, p in ipairs(row.params) do
        known[#known + 1] = p.name
    end
    named = check.options(op, named, known)
    if count > #row.params then
        check.fail("BAD_ARGUMENT", op, "%d arguments; it takes %s", count, #row.params == 0 and "none" or table.concat(known, ", "))
    end
    local step, at, keep, shown = step_type(), {n = 0, v = 0}, {}, {}
    step.op = row.op
    for i, p in ipairs(row.params) do
        local v
        if i <= count then
            v = given[i]
        end
        if v == nil then
            v = named[p.name]
        elseif named[p.name] ~= nil then
            check.fail("BAD_ARGUMENT", op, "%s is given twice", p.name)
        end
        if v ~= nil then
            shown[#shown + 1] = (i > count and p.name .. "=" or "") .. brief(v)
        elseif p.default == nil then
            check.fail("BAD_ARGUMENT", op, "%s is missing (%s); ?%s tells all that it takes", p.name,
                p.choices and table.concat(p.choices, ", ") or p.kind, row.name)
        else
            v = default_of(p)
        end
        put[p.choices and "choice" or p.kind](op, p, v, step, at, keep, named)
    end
    for _, tag in ipairs(tags) do
        if named[tag] ~= nil and row.name == "convert" then
            shown[#shown + 1] = tag .. "=" .. tostring(named[tag])
        end
    end
    return step, keep, row.name .. "(" .. table.concat(shown, ", ") .. ")"
end

-- ---- mats as pictures

stage.plain_formats = {
    u8 = {"gray", "ya8", "rgb24", "rgba"}, u16 = {"gray16le", "ya16le", "rgb48le", "rgba64le"},
    f16 = {"grayf16le", nil, "rgbf16le", "rgbaf16le"}, f32 = {"grayf32le", nil, "rgbf32le", "rgbaf32le"},
}

-- The format of the picture that a mat's channels most plainly are: gray, gray with alpha, rgb or rgba.
local function plain_format(op, name, m)
    check.mat(op, name, m)
    local list = stage.plain_formats[m.dtype]
    local f = list and list[m.channels]
    if not f then
        check.fail("UNSUPPORTED", op, "%s is %s; a pipeline takes mats of u8, u16, f16 or f32 with 1, 3 or 4 channels (and 2 of u8, u16), and images", name,
            m.type)
    end
    return f
end

-- A mat as that picture.
function stage.as_image(op, name, m)
    return image.public.image_from(plain_format(op, name, m), {m})
end

-- The same into a C struct.
function stage.fill_plain(op, name, m, c)
    c.format = format.find(op, plain_format(op, name, m)).position
    c.width, c.height, c.planes, c.plane[0] = m.width, m.height, 1, m
end

return stage
