-- SPDX-License-Identifier: MIT
-- Pixel formats, read from the program's own table, and the names of what a picture's numbers mean.
local ffi = require "ffi"
local check = require "gpuwb.check"
local types = require "gpuwb.types"
local C = require("gpuwb.cdef").C

local format = {public = {}}

local models = {[0] = "gray", "rgb", "yuv", "bayer"}
local layouts = {[0] = "interleaved", "planar", "semiplanar", "packed422", "word", "v210", "bayer"}
local max_size = 2147483647

local methods = {}
format.methods = methods
local meta = {__index = methods, __name = "pixel format"}

local function own(op, f)
    if type(f) ~= "table" or getmetatable(f) ~= meta then
        check.fail("BAD_ARGUMENT", op, "call it as a method of a format, got %s", check.show(f))
    end
end

local function size(op, width, height)
    check.integer(op, "width", width, 0, max_size)
    check.integer(op, "height", height, 0, max_size)
end

--- f:bytes(width, height) -> bytes of a packed frame of that size.
function methods:bytes(width, height)
    own("format:bytes", self)
    size("format:bytes", width, height)
    return check.status(C.gwb_format_bytes(self.position, width, height), "format:bytes")
end


--- f:plane(i, width, height) -> {width=, height=, type=, offset=, step=}: the mat that plane i (from 1) of such a picture wants, and where it lies
-- in a packed frame, in bytes.
function methods:plane(i, width, height)
    local op = "format:plane"
    own(op, self)
    check.integer(op, "plane", i, 1, self.planes)
    size(op, width, height)
    local p = ffi.new("gwb_plane_info")
    check.status(C.gwb_format_plane(self.position, i - 1, width, height, p), op)
    return {width = p.width, height = p.height, type = types.text(p.type, p.channels), offset = tonumber(p.offset), step = tonumber(p.step)}
end

function meta:__tostring()
    local sub = self.subsampling
    return ("%s: %s %s, %d plane%s of %s, %d bits%s%s"):format(self.name, self.layout, self.model, self.planes, self.planes > 1 and "s" or "",
        self.type, self.depth, (sub[1] > 1 or sub[2] > 1) and (", chroma %dx%d"):format(sub[1], sub[2]) or "", self.alpha and ", alpha" or "")
end

function meta.__newindex(_, key)
    check.fail("READ_ONLY", "format", "a format's %s cannot be assigned", check.show(key))
end

local by_name = {}

-- The format of a name or alias, as gpu.format gives it.
function format.find(op, name)
    local known = by_name[name]
    if known then
        return known
    end
    check.string(op, "format", name)
    local range_out, swapped_out = ffi.new("int[1]"), ffi.new("int[1]")
    local position = check.status(C.gwb_format_find(name, range_out, swapped_out), op)
    local info = C.gwb_format_get(position)
    local f = {
        name = ffi.string(info.name), position = position, model = models[info.model], layout = layouts[info.layout], planes = info.planes,
        type = types.text(info.type, 1), depth = info.depth, subsampling = {2 ^ info.log2_w, 2 ^ info.log2_h}, alpha = info.alpha == 1,
        group = info.group, range = format.tag_name("range", range_out[0]), swapped = swapped_out[0] == 1,
    }
    f = setmetatable(f, meta)
    by_name[name] = f
    return f
end

-- The format at a position of the table.
function format.by_position(position)
    return format.find("format", ffi.string(C.gwb_format_get(position).name))
end

--- gpu.format(name) -> {name=, model="gray"|"rgb"|"yuv"|"bayer", layout=, planes=, type=, depth=, subsampling={2, 2}, alpha=, range=, swapped=}.
-- range and swapped (V before U in a packed frame) are what an alias adds: "yuvj420p" is full, "yv12" is swapped. f:bytes(w, h) gives a packed
-- frame's size, f:plane(i, w, h) a plane's.
function format.public.format(name)
    return format.find("gpu.format", name)
end

--- gpu.formats([model]) -> list of the names of all pixel formats, or of those of one model; a second list holds the aliases: {alias, name}.
function format.public.formats(model)
    if model ~= nil then
        check.choice("gpu.formats", "model", model, {"gray", "rgb", "yuv", "bayer"})
    end
    local names, aliases = {}, {}
    for i = 0, C.gwb_format_count() - 1 do
        local info = C.gwb_format_get(i)
        if not model or models[info.model] == model then
            names[#names + 1] = ffi.string(info.name)
        end
    end
    local target = ffi.new("const char *[1]")
    local alias = C.gwb_format_alias(0, target)
    while alias ~= nil do
        aliases[#aliases + 1] = {ffi.string(alias), ffi.string(target[0])}
        alias = C.gwb_format_alias(#aliases, target)
    end
    return names, aliases
end

-- ---- tags

format.tags = {"matrix", "range", "siting", "transfer", "primaries"}

-- The number of a tag's name; 0 for nil.
function format.tag(op, tag, name)
    if name == nil then
        return 0
    end
    check.string(op, tag, name)
    return check.status(C.gwb_tag_find(tag, name), op)
end

-- The name of a tag's number; nil for 0.
function format.tag_name(tag, value)
    local name = C.gwb_tag_name(tag, value)
    if name == nil then
        return nil
    end
    return ffi.string(name)
end

return format
