-- SPDX-License-Identifier: MIT
-- A mat's pixels, in and out: numbers, lists, strings and memory of the host.
local ffi = require "ffi"
local core = require "gpuwb.core"
local check = require "gpuwb.check"
local types = require "gpuwb.types"
local mat = require "gpuwb.mat"
local C = require("gpuwb.cdef").C

local methods, live = mat.methods, mat.live
local mat_pointer, const_bytes, new_values = ffi.typeof("gwb_mat *"), ffi.typeof("const uint8_t *"), ffi.typeof("double[4]")
local new_mat = core.mat.new
local cast, tonumber, type = ffi.cast, tonumber, type

--- m:fill(v [, {stream=}]) -> m. v: a number for all channels, a list with one a channel, or a mat of one row, which every row becomes.
-- A value that does not fit the element type is an error.
function methods:fill(v, opts)
    local op = "mat:fill"
    local p = live(op, self)
    local stream
    if opts ~= nil then
        stream = check.stream(op, check.options(op, opts, {"stream"}).stream)
    end
    local values = new_values()
    if type(v) == "number" then
        values[0], values[1], values[2], values[3] = v, v, v, v
    elseif type(v) == "table" then
        if #v ~= p.channels then
            check.fail("BAD_ARGUMENT", op, "v must have one number a channel: wanted %d, got %d", p.channels, #v)
        end
        for c = 1, p.channels do
            values[c - 1] = check.number(op, "v[" .. c .. "]", v[c])
        end
    elseif check.is_mat(v) then
        check.status(C.gwb_fill_rows(self, check.mat(op, "v", v), stream), op)
        return self
    else
        check.fail("BAD_ARGUMENT", op, "v must be a number, a list of numbers or a mat of one row, got %s", check.show(v))
    end
    check.status(C.gwb_fill(self, values, stream), op)
    return self
end

-- Numbers of a list (flat, or rows of pixels, each a number or a list) into `out`, a cdata array of n elements of the named type.
local limits = {u8 = {0, 255}, i8 = {-128, 127}, u16 = {0, 65535}, i16 = {-32768, 32767}, u32 = {0, 4294967295}, i32 = {-2147483648, 2147483647}}

local function flatten(op, list, out, n, element)
    local range, at = limits[element], 0
    local function add(v, depth)
        if type(v) == "table" then
            if depth > 3 then
                check.fail("BAD_ARGUMENT", op, "the list has lists within lists within lists; wanted numbers, or rows of pixels")
            end
            for i = 1, #v do
                add(v[i], depth + 1)
            end
            return
        end
        check.number(op, "element " .. at + 1, v)
        if range and not (v >= range[1] and v <= range[2] and v == math.floor(v)) then
            check.fail("BAD_ARGUMENT", op, "element %d is %s, which does not fit %s (whole numbers %d..%.0f)", at + 1, tostring(v), element, range[1],
                range[2])
        end
        if at < n then
            out[at] = v
        end
        at = at + 1
    end
    add(list, 1)
    if at ~= n then
        check.fail("BAD_ARGUMENT", op, "the list has %d numbers; the mat holds %d (width * height * channels)", at, n)
    end
end

local function upload_list(op, self, p, list, stream)
    local n = p.width * p.height * p.channels
    local element = types.names[p.type + 1]
    if element == "f16" then    -- no C type: by way of f32
        local wide = ffi.new("float[?]", n)
        flatten(op, list, wide, n, "f32")
        local m = mat.allocate(op, p.device, p.width, p.height, types.code.f32, p.channels)
        check.status(C.gwb_upload(m, wide, 0, stream), op)
        check.status(C.gwb_cast(self, m, 1, 0, 0, stream), op)
        return
    end
    local out = ffi.new(types.ctype[element] .. "[?]", n)
    flatten(op, list, out, n, element)
    check.status(C.gwb_upload(self, out, 0, stream), op)
end

-- The address of `height` rows of `row` bytes that lie `step` bytes apart (0: tight); an array of a known size holds them all.
local function rows_at(op, name, object, height, row, step)
    local ptr, known = check.pointer(op, name, object)
    local apart = step > 0 and step or row
    local need = height > 0 and (height - 1) * apart + row or 0
    if known and known < need then
        check.fail("BAD_ARGUMENT", op, "%s is an array of %d bytes; %d rows of step %d need %.0f", name, known, height, apart, need)
    end
    return ptr
end

--- m:upload(src [, {step=, stream=}]) -> m. src: a string of exactly the tight pixels, a cdata pointer or array (step: its bytes a row, default tight),
-- a Lua list (flat, or rows of pixels), or a mat of the same shape. What src holds is taken before the call returns (a mat: in order).
-- Errors: BAD_ARGUMENT (too few bytes, a number that does not fit), SHAPE, READ_ONLY.
function methods:upload(src, opts)
    local op = "mat:upload"
    local p = live(op, self)
    opts = check.options(op, opts, {"step", "stream"})
    local stream = check.stream(op, opts.stream)
    local row = p.width * p.elem_size
    local step = opts.step and check.integer(op, "step", opts.step, 0, 2 ^ 53) or 0
    if check.is_mat(src) then
        check.status(C.gwb_copy(self, check.mat(op, "src", src), stream), op)
    elseif type(src) == "string" then
        local need = step > 0 and p.height > 0 and (p.height - 1) * step + row or row * p.height
        if #src ~= need then
            check.fail("BAD_ARGUMENT", op, "the string has %d bytes; %d rows of %d bytes need %.0f", #src, p.height, step > 0 and step or row, need)
        end
        check.status(C.gwb_upload(self, cast(const_bytes, src), step, stream), op)
    elseif type(src) == "table" then
        upload_list(op, self, p, src, stream)
    else
        check.status(C.gwb_upload(self, rows_at(op, "src", src, p.height, row, step), step, stream), op)
    end
    return self
end

--- m:download([dst] [, {step=, stream=}]): to a cdata pointer or array (step: its bytes a row, default tight), which is returned; without dst, a
-- tightly packed string. Waits for the work that writes m. Errors: BAD_ARGUMENT, LIMIT (a string of 2^31 bytes or more).
function methods:download(dst, opts)
    local op = "mat:download"
    local p = live(op, self)
    if type(dst) == "table" and opts == nil then
        dst, opts = nil, dst
    end
    opts = check.options(op, opts, {"step", "stream"})
    local stream = check.stream(op, opts.stream)
    local row = p.width * p.elem_size
    local step = opts.step and check.integer(op, "step", opts.step, 0, 2 ^ 53) or 0
    if dst == nil then
        local n = row * p.height
        if step ~= 0 and step ~= row then
            check.fail("BAD_ARGUMENT", op, "a string is always tight: step belongs to a destination pointer")
        end
        if n >= 2 ^ 31 then
            check.fail("LIMIT", op, "%.0f bytes do not fit a Lua string (2147483647 at most); give a destination pointer, or go row by row", n)
        end
        local bytes = ffi.new("uint8_t[?]", math.max(n, 1))
        check.status(C.gwb_download(bytes, 0, self, stream), op)
        return ffi.string(bytes, n)
    end
    check.status(C.gwb_download(rows_at(op, "dst", dst, p.height, row, step), step, self, stream), op)
    return dst
end

--- m:at(x, y) -> the values of that pixel, one number a channel. Waits for the work that writes m. Errors: BAD_ARGUMENT outside.
function methods:at(x, y)
    local op = "mat:at"
    local p = live(op, self)
    check.integer(op, "x", x, 0, math.max(p.width - 1, 0))
    check.integer(op, "y", y, 0, math.max(p.height - 1, 0))
    local out = ffi.new("double[4]")
    check.status(C.gwb_mat_at(self, x, y, out), op)
    local n = p.channels
    if n == 1 then
        return out[0]
    elseif n == 2 then
        return out[0], out[1]
    elseif n == 3 then
        return out[0], out[1], out[2]
    end
    return out[0], out[1], out[2], out[3]
end

--- m:totable() -> list of rows, each a list of pixels: numbers, or lists of numbers where m has channels. Waits.
function methods:totable()
    local op = "mat:totable"
    local p = live(op, self)
    local source = self
    if p.type == types.code.f16 then
        source = self:cast(types.text(types.code.f32, p.channels))
        p = cast(mat_pointer, source)
    end
    local width, height, channels = p.width, p.height, p.channels
    local rows = {}
    if width == 0 then
        for y = 1, height do
            rows[y] = {}
        end
        return rows
    end
    local line = ffi.new(types.ctype[types.names[p.type + 1]] .. "[?]", width * channels)
    local one = new_mat()
    for y = 1, height do
        check.status(C.gwb_mat_view(one, source, 0, y - 1, width, 1), op)
        local rc = C.gwb_download(line, 0, one, nil)
        C.gwb_mat_close(one)
        check.status(rc, op)
        local row = {}
        for x = 1, width do
            if channels == 1 then
                row[x] = tonumber(line[x - 1])
            else
                local pixel = {}
                for c = 1, channels do
                    pixel[c] = tonumber(line[(x - 1) * channels + c - 1])
                end
                row[x] = pixel
            end
        end
        rows[y] = row
    end
    return rows
end
