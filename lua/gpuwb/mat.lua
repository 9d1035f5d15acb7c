-- SPDX-License-Identifier: MIT
-- Mats: one pitched plane of memory on a device, its views, and what can be done with it alone.
local ffi = require "ffi"
local bit = require "bit"
local core = require "gpuwb.core"
local check = require "gpuwb.check"
local types = require "gpuwb.types"
local device = require "gpuwb.device"
local live_objects = require "gpuwb.live"
local C = require("gpuwb.cdef").C

local mat = {}
local methods = {}
mat.methods = methods   -- other modules hang theirs here

local mat_pointer = ffi.typeof("gwb_mat *")
local new_mat = live_objects.scoped(core.mat.new)
local cast, tonumber, type = ffi.cast, tonumber, type
local max_size = 2147483647

-- What C reads is made for each call: a finalizer that runs in between may call the same.
local new_params, new_wrap_params = ffi.typeof("gwb_mat_params"), ffi.typeof("gwb_wrap_params")
local new_pointers = ffi.typeof("const gwb_mat *[4]")

-- A live mat's struct.
local function live(op, m)
    check.mat(op, "mat", m)
    return cast(mat_pointer, m)
end
mat.live = live

local function type_of(p)
    return types.text(p.type, p.channels)
end

-- ---- making

-- What a new mat is to be, checked: element type, channels, packed, align.
local function shape(op, width, height, kind, opts, known)
    check.integer(op, "width", width, 0, max_size)
    check.integer(op, "height", height, 0, max_size)
    local code, channels = types.parse(op, "type", kind)
    opts = check.options(op, opts, known)
    return code, channels, check.boolean(op, "packed", opts.packed), opts.align and check.integer(op, "align", opts.align, 1, 1048576)
end

--- gpu.mat(width, height, type [, {packed=, align=, fill=, stream=, device=, shared=}]) -> mat, owned by the script.
-- width, height: pixels, 0..2147483647. type: "u8", "u8x3", "8UC3", "float32" … packed: rows without gaps; align: step is a multiple of that many
-- bytes (a power of two); fill: a number or a list, one a channel, else the memory is not cleared; shared: other processes can open it
-- (m:ipc_handle()). Errors: BAD_ARGUMENT, OUT_OF_MEMORY, NO_DEVICE.
-- @example
-- local m = gpu.mat(3, 2, "u8x3", {fill = {10, 20, 30}})
-- print(m.width, m.height, m.type, m:at(2, 1))     --> 3  2  u8x3  10  20  30
function mat.create(width, height, kind, opts)
    local op = "gpu.mat"
    local code, channels, packed, align = shape(op, width, height, kind, opts, {"packed", "align", "fill", "stream", "device", "shared"})
    opts = opts or {}
    local stream = check.stream(op, opts.stream)
    local position = opts.device == nil and stream and cast("gwb_stream *", stream).device or device.position(op, opts.device)
    return mat.allocate(op, position, width, height, code, channels, packed, align, opts.fill, stream, check.boolean(op, "shared", opts.shared))
end

-- The same for modules: checked arguments, a device position.
function mat.allocate(op, position, width, height, code, channels, packed, align, fill, stream, shared, pinned)
    local m = new_mat()
    local p = new_params()
    p.packed, p.align, p.pinned = packed and 1 or 0, align or 0, pinned and 1 or 0
    device.allocate(op, position, shared and C.gwb_mat_create_shared or C.gwb_mat_create, m, position, width, height, code, channels, p)
    if fill ~= nil then
        m:fill(fill, stream and {stream = stream})
    end
    return m
end

--- gpu.host_mat(width, height, type [, {packed=, align=, fill=}]) -> mat in page-locked host memory (plain memory where there is no cuda device).
-- It belongs to the host device; a cuda device copies from and to it without a stop on the way.
function mat.host(width, height, kind, opts)
    local op = "gpu.host_mat"
    local code, channels, packed, align = shape(op, width, height, kind, opts, {"packed", "align", "fill"})
    return mat.allocate(op, 0, width, height, code, channels, packed, align, opts and opts.fill, nil, false, true)
end

--- gpu.wrap{ptr=, width=, height=, type=, step=, owner=, stream=, readonly=, device=} -> mat over memory of another library.
-- ptr: cdata pointer to row 0; step: bytes (default: tight rows); owner: any value, kept alive as long as the memory is used; stream: the stream on
-- which the memory is used so far: operations on other streams wait for it. The device that the pointer belongs to is asked of the driver.
-- @example
-- local ffi = require "ffi"
-- local theirs = ffi.new("uint8_t[12]", {1, 2, 3, 0, 4, 5, 6, 0, 7, 8, 9, 0})
-- local m = gpu.wrap {ptr = theirs, width = 3, height = 3, type = "u8", step = 4}
-- print(m:at(0, 2), m.device, m:is_contiguous())   --> 7  host  false
function mat.wrap(opts)
    local op = "gpu.wrap"
    opts = check.options(op, opts or {}, {"ptr", "width", "height", "type", "step", "owner", "stream", "readonly", "device"})
    local width = check.integer(op, "width", opts.width, 0, max_size)
    local height = check.integer(op, "height", opts.height, 0, max_size)
    local code, channels = types.parse(op, "type", opts.type)
    local step = opts.step and check.integer(op, "step", opts.step, 0, 2 ^ 53) or 0
    local stream = check.stream(op, opts.stream)
    local readonly = check.boolean(op, "readonly", opts.readonly)
    local position = opts.device ~= nil and device.position(op, opts.device) or -1
    local ptr, known
    if (width > 0 and height > 0) or opts.ptr ~= nil then
        ptr, known = check.pointer(op, "ptr", opts.ptr)
    end
    local row = width * types.size[types.names[code + 1]] * channels
    local need = height > 0 and (height - 1) * (step > 0 and step or row) + row or 0
    if known and known < need then
        check.fail("BAD_ARGUMENT", op, "ptr is an array of %d bytes; %d rows of step %d need %d", known, height, step > 0 and step or row, need)
    end
    local owner = opts.owner
    if owner == nil and known then
        owner = opts.ptr    -- an array lives as long as its own cdata
    end
    local m = new_mat()
    local p = new_wrap_params()
    p.ptr, p.step, p.width, p.height, p.type, p.channels = ptr, step, width, height, code, channels
    p.device, p.readonly = position, readonly and 1 or 0
    p.owner = owner ~= nil and device.keep(owner) or 0
    local rc = C.gwb_mat_wrap(m, p)
    if rc < 0 and p.owner ~= 0 then
        device.forget(tonumber(p.owner))
    end
    check.status(rc, op)
    if stream then
        check.status(C.gwb_mat_record_stream(m, stream, 1), op)
    end
    return m
end

-- ---- fields

--- Fields of a mat, which cannot be assigned. Reading one never waits.
-- @field width integer pixels
-- @field height integer rows
-- @field channels integer 1 to 4, interleaved
-- @field dtype string element type of a channel: "u8"
-- @field type string element type and channels: "u8x3"
-- @field elem_size integer bytes of a pixel, all its channels
-- @field step integer bytes from one row to the next
-- @field bytes integer bytes of the pixels, without the gaps between rows
-- @field data ffi.cdata* void * to the first pixel, in the device's memory; nil where there is no pixel
-- @field device string "host", "cuda:0"
-- @field readonly boolean no operation may write through it
-- @field pinned boolean page-locked host memory
-- @field shape integer[] NumPy's: {height, width[, channels]}
-- @field strides integer[] NumPy's, bytes
-- @field nbytes integer NumPy's name of bytes
-- @field itemsize integer NumPy's: bytes of one channel
local fields = {}

function fields.width(p) return p.width end
function fields.height(p) return p.height end
function fields.channels(p) return p.channels end
function fields.dtype(p) return types.names[p.type + 1] end
function fields.type(p) return type_of(p) end
function fields.elem_size(p) return p.elem_size end
function fields.step(p) return tonumber(p.step) end
function fields.bytes(p) return p.width * p.height * p.elem_size end
function fields.data(p)
    local data = p.data
    if data == nil then
        return nil
    end
    return cast("void *", data)
end
function fields.device(p) return device.name(p.device) end
function fields.readonly(p) return bit.band(p.flags, C.GWB_MAT_READONLY) ~= 0 end
function fields.pinned(p) return bit.band(p.flags, C.GWB_MAT_PINNED) ~= 0 end
fields.nbytes = fields.bytes
function fields.itemsize(p) return p.elem_size / p.channels end
function fields.shape(p)
    return p.channels > 1 and {p.height, p.width, p.channels} or {p.height, p.width}
end
function fields.strides(p)
    local element = p.elem_size / p.channels
    return p.channels > 1 and {tonumber(p.step), p.elem_size, element} or {tonumber(p.step), element}
end

mat.fields = fields

local meta = core.mat.meta

function meta.__index(self, key)
    local method = methods[key]
    if method then
        return method
    end
    local field = fields[key]
    if field then
        local p = cast(mat_pointer, self)
        if p.tag == 0 then
            check.fail("CLOSED", "mat." .. key, "the mat is closed")
        end
        return field(p)
    end
    if type(key) == "number" then
        check.fail("BAD_ARGUMENT", "mat", "a mat has no m[%s]; m:at(x, y) reads a pixel, m:row(y) is a view of a row", tostring(key))
    end
    return check.fail("BAD_ARGUMENT", "mat", "a mat has no field or method %s", check.show(key))
end

function meta.__newindex(_, key)
    check.fail("READ_ONLY", "mat", "a mat's %s cannot be assigned; m:fill(v), m:upload(…) and gpu.copy write pixels", check.show(key))
end

function meta.__len()
    check.fail("BAD_ARGUMENT", "mat", "a mat has no #; use m.width, m.height, m.bytes")
end

function meta.__eq(a, b)
    return C.gwb_mat_same(a, b) == 1
end

function meta.__tostring(self)
    local p = cast(mat_pointer, self)
    if p.tag == 0 then
        return "mat (closed)"
    end
    local flags = {}
    for name, flag in pairs {view = C.GWB_MAT_VIEW, readonly = C.GWB_MAT_READONLY, pinned = C.GWB_MAT_PINNED, foreign = C.GWB_MAT_FOREIGN,
                             shared = C.GWB_MAT_SHARED} do
        if bit.band(p.flags, flag) ~= 0 then
            flags[#flags + 1] = " " .. name
        end
    end
    table.sort(flags)
    local address = p.data == nil and "empty" or tostring(cast("void *", p.data)):match("0x%x+")
    return ("mat %dx%d %s step %d %s %s%s"):format(p.width, p.height, type_of(p), tonumber(p.step), device.name(p.device), address, table.concat(flags))
end

function meta.__concat(a, b)
    return tostring(a) .. tostring(b)
end

-- ---- views

local function view(op, self, x, y, width, height)
    local m = new_mat()
    check.status(C.gwb_mat_view(m, self, x, y, width, height), op)
    return m
end

local function coordinate(op, name, v)
    return check.integer(op, name, v, -max_size, max_size)
end

--- m:roi(x, y, width, height) -> view of that region in pixels: the same memory and step; the memory lives as long as the view.
-- @example
-- local m = gpu.mat(120, 80, "u8", {fill = 0})
-- m:roi(30, 20, 60, 40):fill(200)
-- m:roi(60, 20, 10, 10):fill(90)
-- print(m:at(30, 20), m:at(90, 20), m:at(65, 25))     --> 200  0  90
function methods:roi(x, y, width, height)
    local op = "mat:roi"
    live(op, self)
    return view(op, self, coordinate(op, "x", x), coordinate(op, "y", y), coordinate(op, "width", width), coordinate(op, "height", height))
end

--- m:rows(y, n) -> view of n whole rows from row y.
function methods:rows(y, n)
    local op = "mat:rows"
    local p = live(op, self)
    return view(op, self, 0, coordinate(op, "y", y), p.width, coordinate(op, "n", n))
end

--- m:cols(x, n) -> view of n columns from column x.
function methods:cols(x, n)
    local op = "mat:cols"
    local p = live(op, self)
    return view(op, self, coordinate(op, "x", x), 0, coordinate(op, "n", n), p.height)
end

--- m:row(y) -> view of one row.
function methods:row(y)
    local op = "mat:row"
    local p = live(op, self)
    return view(op, self, 0, coordinate(op, "y", y), p.width, 1)
end

--- m:split(n, "rows" | "cols") -> list of views of n rows or columns each, the last one what is left.
function methods:split(n, axis)
    local op = "mat:split"
    local p = live(op, self)
    check.integer(op, "n", n, 1, max_size)
    check.choice(op, "axis", axis, {"rows", "cols"})
    local list, rows = {}, axis == "rows"
    local size = rows and p.height or p.width
    for at = 0, size - 1, n do
        local length = math.min(n, size - at)
        list[#list + 1] = rows and view(op, self, 0, at, p.width, length) or view(op, self, at, 0, length, p.height)
    end
    return list
end

--- m:reshape(width, height [, type]) -> view of the same bytes in another shape; SHAPE error where rows have gaps or the bytes do not match.
function methods:reshape(width, height, kind)
    local op = "mat:reshape"
    local p = live(op, self)
    check.integer(op, "width", width, 0, max_size)
    check.integer(op, "height", height, 0, max_size)
    local code, channels = p.type, p.channels
    if kind ~= nil then
        code, channels = types.parse(op, "type", kind)
    end
    local m = new_mat()
    check.status(C.gwb_mat_reshape(m, self, width, height, code, channels), op)
    return m
end

--- m:slice(offset, width, height, type [, step]) -> view from `offset` bytes behind m's first byte, with a step of its own (bytes; default: tight).
function methods:slice(offset, width, height, kind, step)
    local op = "mat:slice"
    live(op, self)
    check.integer(op, "offset", offset, 0, 2 ^ 53)
    check.integer(op, "width", width, 0, max_size)
    check.integer(op, "height", height, 0, max_size)
    local code, channels = types.parse(op, "type", kind)
    step = step and check.integer(op, "step", step, 0, 2 ^ 53) or width * C.gwb_type_size(code) * channels
    local m = new_mat()
    check.status(C.gwb_mat_slice(m, self, offset, step, width, height, code, channels), op)
    return m
end

--- m:is_contiguous(), m:is_continuous() -> true where rows have no gap. m:is_view() -> true where m shows a part of another mat's memory.
function methods:is_contiguous()
    live("mat:is_contiguous", self)
    return C.gwb_mat_contiguous(self) == 1
end
methods.is_continuous = methods.is_contiguous     -- OpenCV's name

function methods:is_view()
    return bit.band(live("mat:is_view", self).flags, C.GWB_MAT_VIEW) ~= 0
end

--- m:close(): releases now; the memory is reused after the work that uses it. Twice is harmless.
function methods:close()
    if not check.is_mat(self) then
        check.mat("mat:close", "mat", self)
    end
    C.gwb_mat_close(self)
    device.release_owners()
end

-- ---- new mats from this one

local function like(op, p, code, channels, packed)
    return mat.allocate(op, p.device, p.width, p.height, code or p.type, channels or p.channels, packed)
end

--- m:clone([{stream=, packed=}]) -> a new mat with the same pixels on the same device.
function methods:clone(opts)
    local op = "mat:clone"
    local p = live(op, self)
    opts = check.options(op, opts, {"stream", "packed"})
    local stream = check.stream(op, opts.stream)
    local m = like(op, p, nil, nil, check.boolean(op, "packed", opts.packed))
    check.status(C.gwb_copy(m, self, stream), op)
    return m
end

--- m:packed([{stream=}]) -> m itself where rows are tight, else a tight copy.
function methods:packed(opts)
    local p = live("mat:packed", self)
    opts = check.options("mat:packed", opts, {"stream"})
    if p.step == p.width * p.elem_size then
        return self
    end
    return self:clone {packed = true, stream = opts.stream}
end

--- m:copy_to(dst [, {stream=}]) -> dst, a mat of the same shape on any device.
function methods:copy_to(dst, opts)
    local op = "mat:copy_to"
    live(op, self)
    check.mat(op, "dst", dst)
    local stream = check.stream(op, check.options(op, opts, {"stream"}).stream)
    check.status(C.gwb_copy(dst, self, stream), op)
    return dst
end

--- m:to(device [, {stream=}]) -> a mat with the same pixels on that device; m itself where it is there.
function methods:to(name, opts)
    local op = "mat:to"
    local p = live(op, self)
    local position = device.position(op, check.string(op, "device", name))
    local stream = check.stream(op, check.options(op, opts, {"stream"}).stream)
    if p.device == position then
        return self
    end
    local m = mat.allocate(op, position, p.width, p.height, p.type, p.channels)
    check.status(C.gwb_copy(m, self, stream), op)
    return m
end

local rounds = {nearest = 0, zero = 1, down = 2, up = 3}

--- m:cast(type [, {scale=, offset=, round=, out=, stream=}]) -> mat of that element type: value * scale + offset, in double, saturating.
-- round: "nearest" (ties to even, the default), "zero", "down", "up", for integer results. NaN becomes 0 there. Channels stay.
-- @example
-- local m = gpu.mat(4, 1, "f32"):upload {-1, 0.5, 1.5, 300}
-- print(table.concat(m:cast("u8"):totable()[1], " "))     --> 0 0 2 255
function methods:cast(kind, opts)
    local op = "mat:cast"
    local p = live(op, self)
    local code, channels = types.parse(op, "type", kind)
    if channels ~= p.channels and not (channels == 1 and not tostring(kind):find("[xC]")) then
        check.fail("BAD_ARGUMENT", op, "type %s has %d channels, the mat has %d; a cast keeps them", kind, channels, p.channels)
    end
    opts = check.options(op, opts, {"scale", "offset", "round", "out", "stream"})
    local stream = check.stream(op, opts.stream)
    local scale = opts.scale == nil and 1 or check.number(op, "scale", opts.scale)
    local offset = opts.offset == nil and 0 or check.number(op, "offset", opts.offset)
    local round = rounds[opts.round == nil and "nearest" or opts.round]
    if not round then
        check.choice(op, "round", opts.round, {"nearest", "zero", "down", "up"})
    end
    local m = opts.out
    if m == nil then
        m = like(op, p, code)
    elseif cast(mat_pointer, check.mat(op, "out", m)).type ~= code then
        check.fail("SHAPE", op, "out has the type %s, wanted %s", m.type, types.text(code, p.channels))
    end
    check.status(C.gwb_cast(m, self, scale, offset, round, stream), op)
    return m
end

--- m:channels_split([{stream=}]) -> list of single-channel mats, one a channel.
function methods:channels_split(opts)
    local op = "mat:channels_split"
    local p = live(op, self)
    local stream = check.stream(op, check.options(op, opts, {"stream"}).stream)
    local list, pointers = {}, new_pointers()
    for c = 1, p.channels do
        list[c] = like(op, p, nil, 1)
        pointers[c - 1] = list[c]
    end
    check.status(C.gwb_split(pointers, self, stream), op)
    return list
end

--- gpu.merge({m1, m2, …} [, {stream=}]) -> one mat with the single-channel mats as its channels (1 to 4).
function mat.merge(list, opts)
    local op = "gpu.merge"
    if type(list) ~= "table" or #list < 1 or #list > 4 then
        check.fail("BAD_ARGUMENT", op, "wanted a list of 1 to 4 mats, got %s", type(list) == "table" and "a list of " .. #list or check.show(list))
    end
    local stream = check.stream(op, check.options(op, opts, {"stream"}).stream)
    for c = 1, #list do
        check.mat(op, "mat " .. c, list[c])
    end
    local p = cast(mat_pointer, list[1])
    local m, pointers = like(op, p, nil, #list), new_pointers()
    for c = 1, #list do
        pointers[c - 1] = list[c]
    end
    check.status(C.gwb_merge(m, pointers, stream), op)
    return m
end

--- m:wait() -> m. Waits for the work that writes m. m:is_pending() -> true while work uses m's memory.
function methods:wait()
    live("mat:wait", self)
    check.status(C.gwb_mat_wait(self, 0), "mat:wait")
    return self
end

function methods:is_pending()
    live("mat:is_pending", self)
    return C.gwb_mat_pending(self) == 1
end

--- m:record_stream(stream [, "read" | "write"]) -> m. Tells the ordering that another library uses m on `stream` from here on: later operations
-- on other streams wait for what the stream holds now ("write", the default) or only writes do ("read").
function methods:record_stream(stream, how)
    local op = "mat:record_stream"
    live(op, self)
    if stream == nil then
        check.fail("BAD_ARGUMENT", op, "stream must be a stream, got nil")
    end
    how = check.choice(op, "use", how == nil and "write" or how, {"read", "write"})
    check.status(C.gwb_mat_record_stream(self, check.stream(op, stream), how == "write" and 1 or 0), op)
    return self
end

-- ---- a drawing of the memory

--- m:layout() -> text: the allocation, where m lies in it, its rows with their bytes and their padding, drawn.
function methods:layout()
    local p = live("mat:layout", self)
    local row, step, offset = p.width * p.elem_size, tonumber(p.step), tonumber(C.gwb_mat_offset(self))
    local total, padding = tonumber(C.gwb_mat_buffer_bytes(self)), step - row
    local lines = {
        tostring(self),
        ("allocation %.0f bytes; first byte at offset %.0f; %d rows of %.0f bytes (%d pixels x %d), step %.0f"):format(total, offset, p.height, row,
            p.width, p.elem_size, step),
    }
    if row == 0 or p.height == 0 then
        lines[#lines + 1] = "no pixels"
        return table.concat(lines, "\n")
    end
    local columns = 48
    local filled = math.max(1, math.floor(columns * row / step + 0.5))
    local bar = "|" .. ("#"):rep(filled) .. ("."):rep(columns - filled) .. "|"
    local shown = p.height <= 4 and p.height or 3
    for y = 0, shown - 1 do
        lines[#lines + 1] = ("row %-6d %10.0f %s"):format(y, offset + y * step, bar)
    end
    if shown < p.height then
        lines[#lines + 1] = ("  … %d rows"):format(p.height - shown - 1)
        lines[#lines + 1] = ("row %-6d %10.0f %s"):format(p.height - 1, offset + (p.height - 1) * step, bar)
    end
    lines[#lines + 1] = padding > 0 and ("# pixels, %.0f bytes a row   . %.0f bytes a row that are not this mat's"):format(row, padding)
        or "# pixels, no padding: contiguous"
    return table.concat(lines, "\n")
end

return mat
