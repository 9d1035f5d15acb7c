-- SPDX-License-Identifier: MIT
-- Images: mats as the planes of a pixel format, with what their numbers mean, and conversions between formats.
local ffi = require "ffi"
local check = require "gpuwb.check"
local device = require "gpuwb.device"
local mat = require "gpuwb.mat"
local format = require "gpuwb.format"
local C = require("gpuwb.cdef").C

local image = {public = {}}

local max_size = 2147483647
local tags = format.tags
local image_size = ffi.sizeof("gwb_image")

--- Fields of an image, which is a table: planes and tags may be assigned, every use looks at all of it again.
-- @field format string name of the pixel format: "yuv420p"
-- @field width integer pixels
-- @field height integer rows
-- @field planes gpuwb.mat[] the planes, from 1
-- @field depth integer bits of a component
-- @field matrix string? "bt601", "bt709", "bt2020nc" …; nil: unknown, as the following
-- @field range string? "limited" or "full"
-- @field siting string? "left", "center" or "topleft": where chroma samples lie
-- @field transfer string? "srgb", "bt709", "pq", "hlg", "linear" …
-- @field primaries string? "bt709", "bt2020" …
local methods = {}
local meta = {__index = methods, __name = "image"}
image.methods = methods     -- other modules hang theirs here

function image.is(v)
    return type(v) == "table" and getmetatable(v) == meta
end

local function check_image(op, name, v)
    if not image.is(v) then
        check.fail("BAD_ARGUMENT", op, "%s must be an image, got %s", name, check.show(v))
    end
    return v
end

local function make(f, width, height, planes, values)
    local img = {format = f.name, width = width, height = height, planes = planes, depth = f.depth}
    for _, tag in ipairs(tags) do
        img[tag] = values[tag]
    end
    if img.range == nil then
        img.range = f.range
    end
    return setmetatable(img, meta)
end

-- What an image was when it was last resolved: its fields and its planes, which it does not keep alive, and the C struct they gave. Looking it up again is
-- most of a call's work.
local resolved, structs, weak = setmetatable({}, {__mode = "k"}), setmetatable({}, {__mode = "k"}), {__mode = "v"}

local function resolve(op, name, img)
    local f = format.find(op, img.format)
    local c = ffi.new("gwb_image")
    c.format = f.position
    c.width = check.integer(op, name .. ".width", img.width, 0, max_size)
    c.height = check.integer(op, name .. ".height", img.height, 0, max_size)
    for _, tag in ipairs(tags) do
        c[tag] = format.tag(op, tag, img[tag])
    end
    local planes = img.planes
    if type(planes) ~= "table" or #planes ~= f.planes then
        check.fail("SHAPE", op, "%s must have %d plane%s, being %s", name, f.planes, f.planes > 1 and "s" or "", f.name)
    end
    c.planes = f.planes
    local r = {format = img.format, width = img.width, height = img.height, matrix = img.matrix, range = img.range, siting = img.siting,
               transfer = img.transfer, primaries = img.primaries, planes = planes}
    for i = 1, f.planes do
        r[i] = check.mat(op, ("plane %d of %s"):format(i, name), planes[i])
        c.plane[i - 1] = planes[i]
    end
    resolved[img], structs[img] = setmetatable(r, weak), c
end

-- Fills the C struct `c` from an image; `c` is valid while the image is. Errors name what is wrong.
function image.fill(op, name, img, c)
    check_image(op, name, img)
    local r, planes = resolved[img], img.planes
    if not r or r.format ~= img.format or r.width ~= img.width or r.height ~= img.height or r.matrix ~= img.matrix or r.range ~= img.range or
        r.siting ~= img.siting or r.transfer ~= img.transfer or r.primaries ~= img.primaries or r.planes ~= planes or
        not rawequal(r[1], planes[1]) or not rawequal(r[2], planes[2]) or not rawequal(r[3], planes[3]) or not rawequal(r[4], planes[4]) then
        resolve(op, name, img)
    end
    ffi.copy(c, structs[img], image_size)
    check.status(C.gwb_image_check(c), op)
    return c
end

-- A checked copy of the tags in a table, in their own names.
local function tags_of(op, given)
    local values = {}
    for _, tag in ipairs(tags) do
        values[tag] = format.tag_name(tag, format.tag(op, tag, given[tag]))
    end
    return values
end

local function new_planes(op, f, position, width, height)
    local planes = {}
    local info = ffi.new("gwb_plane_info")
    for i = 1, f.planes do
        check.status(C.gwb_format_plane(f.position, i - 1, width, height, info), op)
        planes[i] = mat.allocate(op, position, info.width, info.height, info.type, info.channels)
    end
    return planes
end

-- A new image with the tags of a C struct; its memory is not cleared.
function image.new(op, f, position, width, height, c)
    local values = {}
    for _, tag in ipairs(tags) do
        values[tag] = format.tag_name(tag, c[tag])
    end
    return make(f, width, height, new_planes(op, f, position, width, height), values)
end

-- A C struct is made for each use: a finalizer that runs in between may convert images too.
local new_image, new_params = ffi.typeof("gwb_image"), ffi.typeof("gwb_convert_params")

local function checked(op, img)
    image.fill(op, "the image", img, new_image())
    return img
end

--- gpu.image(format, width, height [, {matrix=, range=, siting=, transfer=, primaries=, device=, stream=}]) -> a new image, its memory not cleared.
-- @example
-- local img = gpu.image("yuv420p", 5, 3, {matrix = "bt709", range = "limited"})
-- print(img, #img.planes, img.planes[2].width)     --> image 5x3 yuv420p bt709 limited  3  3
function image.public.image(name, width, height, opts)
    local op = "gpu.image"
    local f = format.find(op, name)
    check.integer(op, "width", width, 0, max_size)
    check.integer(op, "height", height, 0, max_size)
    opts = check.options(op, opts, {"device", "stream", unpack(tags)})
    local stream = check.stream(op, opts.stream)
    local position = opts.device == nil and stream and ffi.cast("gwb_stream *", stream).device or device.position(op, opts.device)
    local values = tags_of(op, opts)
    return checked(op, make(f, width, height, new_planes(op, f, position, width, height), values))
end

--- gpu.image_from(format, planes [, {width=, height=, matrix=, …}]) -> an image over these mats, checked against the format. The size is the first
-- plane's; where a pixel of that is a group of two (yuyv422) or six (v210), say the width.
function image.public.image_from(name, planes, opts)
    local op = "gpu.image_from"
    local f = format.find(op, name)
    if type(planes) ~= "table" or getmetatable(planes) ~= nil then
        check.fail("BAD_ARGUMENT", op, "planes must be a list of mats, got %s", check.show(planes))
    end
    opts = check.options(op, opts, {"width", "height", unpack(tags)})
    local first = check.mat(op, "plane 1", planes[1])
    local width = opts.width == nil and first.width * f.group or check.integer(op, "width", opts.width, 0, max_size)
    local height = opts.height == nil and first.height or check.integer(op, "height", opts.height, 0, max_size)
    local list = {}
    for i = 1, #planes do
        list[i] = planes[i]
    end
    return checked(op, make(f, width, height, list, tags_of(op, opts)))
end

--- m:planes(format, width, height [, {offset=, matrix=, range=, …}]) -> the frame that lies packed in this mat, as an image of views. The mat must
-- hold just the frame; with offset (bytes) it may hold more.
function mat.methods:planes(name, width, height, opts)
    local op = "mat:planes"
    check.mat(op, "mat", self)
    local f = format.find(op, name)
    check.integer(op, "width", width, 0, max_size)
    check.integer(op, "height", height, 0, max_size)
    opts = check.options(op, opts, {"offset", unpack(tags)})
    local values = tags_of(op, opts)
    local offset = opts.offset == nil and 0 or check.integer(op, "offset", opts.offset, 0, 2 ^ 53)
    local bytes, have = f:bytes(width, height), self.bytes
    if not self:is_contiguous() then
        check.fail("SHAPE", op, "the mat has gaps between its rows (%s), and a packed frame has none: make it {packed = true}, or use m:packed()",
            tostring(self))
    end
    if opts.offset == nil and have ~= bytes or offset + bytes > have then
        check.fail("SHAPE", op, "the mat holds %.0f bytes and a %d x %d %s frame takes %.0f%s", have, width, height, f.name, bytes,
            offset > 0 and (" from byte %.0f on"):format(offset) or "; say offset= where there is more in it")
    end
    local planes = {}
    for i = 1, f.planes do
        local p = f:plane(i, width, height)
        planes[i] = self:slice(offset + p.offset, p.width, p.height, p.type, p.step)
    end
    if bytes > 0 then
        check.status(C.gwb_mat_declare(self:slice(offset, bytes, 1, "u8"), f.position, width, height), op)
    end
    if f.swapped then
        planes[2], planes[3] = planes[3], planes[2]
    end
    return checked(op, make(f, width, height, planes, values))
end

-- ---- conversion

-- {r, g, b} in 0..1 or "#rrggbb" into params.background.
local function set_background(op, params, v)
    params.blend = 1
    local r, g, b
    if type(v) == "string" then
        r, g, b = v:match("^#(%x%x)(%x%x)(%x%x)$")
        if r then
            r, g, b = tonumber(r, 16) / 255, tonumber(g, 16) / 255, tonumber(b, 16) / 255
        end
    elseif type(v) == "table" and #v == 3 then
        r, g, b = v[1], v[2], v[3]
    end
    for i, value in ipairs {r or false, g or false, b or false} do
        if type(value) ~= "number" or not (value >= 0 and value <= 1) then
            check.fail("BAD_ARGUMENT", op, 'background must be {r, g, b} in 0..1 or "#rrggbb", got %s', check.show(v))
        end
        params.background[i - 1] = value
    end
end

-- Tags from a table into a C struct, where the table has them.
local function override(op, c, given, list)
    for _, tag in ipairs(list) do
        if given[tag] ~= nil then
            c[tag] = format.tag(op, tag, given[tag])
        end
    end
end

local colors = {error = 0, convert = 1, keep = 2}
local tones = {none = 0, bt2390 = 1, reinhard = 2, hable = 3}
local demosaics = {malvar = 0, bilinear = 1}
local convert_options = {
    "matrix", "range", "siting", "from", "to", "chroma", "background", "dither", "demosaic", "color", "tonemap", "peak", "out", "stream",
}
local dithers = {none = 0, ordered = 1, ["blue-noise"] = 2}
local meaning = {"matrix", "range", "siting"}

--- i:convert(format [, {matrix=, range=, siting=, from=, to=, chroma=, background=, …}]) -> a new image of that format and the same size.
-- matrix, range, siting speak of the YUV side, and of the destination where both sides or none are YUV; from= and to= are tables of tags that
-- speak of one side. What nobody says comes from the image's tags, and what is then unknown and needed is an error. chroma: "bilinear" or "nearest".
-- background: {r, g, b} in 0..1 or "#rrggbb" shows through where alpha is dropped. dither: "none" (default), "ordered" or "blue-noise", where depth
-- falls. demosaic: "malvar" (default) or "bilinear", from bayer_ formats. color: "convert" where transfer or primaries (in to=) are other than the
-- image's, with tonemap: "bt2390" (default), "reinhard", "hable" or "none" from pq or hlg to SDR, of a source whose brightest light is peak
-- (cd/m2, default 1000); "keep" only changes the tags. out: an image to write to, whose tags count as to=.
-- @example
-- local red = gpu.image("rgb24", 2, 2)
-- red.planes[1]:fill {255, 0, 0}
-- local yuv = red:convert("yuv444p", {matrix = "bt601", range = "limited"})
-- print(yuv.planes[1]:at(0, 0), yuv.planes[2]:at(0, 0), yuv.planes[3]:at(0, 0))     --> 81  90  240
function methods:convert(name, opts)
    return image.convert(self, name, opts, 0)
end

-- The same with a choice of kernel (gwb_convert_params.kernel), so that they can be compared.
function image.convert(self, name, opts, kernel)
    local op = "image:convert"
    local src = image.fill(op, "the image", self, new_image())
    local f = format.find(op, name)
    opts = check.options(op, opts, convert_options)
    local stream = check.stream(op, opts.stream)
    local from, to = check.options(op, opts.from, tags), check.options(op, opts.to, tags)
    local params = new_params()
    params.kernel = kernel
    params.nearest = check.choice(op, "chroma", opts.chroma == nil and "bilinear" or opts.chroma, {"bilinear", "nearest"}) == "nearest" and 1 or 0
    params.dither = dithers[check.choice(op, "dither", opts.dither == nil and "none" or opts.dither, {"none", "ordered", "blue-noise"})]
    params.bilinear = demosaics[check.choice(op, "demosaic", opts.demosaic == nil and "malvar" or opts.demosaic, {"malvar", "bilinear"})]
    params.color = colors[check.choice(op, "color", opts.color == nil and "error" or opts.color, {"error", "convert", "keep"})]
    params.tone = tones[check.choice(op, "tonemap", opts.tonemap == nil and "bt2390" or opts.tonemap, {"none", "bt2390", "reinhard", "hable"})]
    if opts.peak ~= nil then
        params.peak = check.number(op, "peak", opts.peak)
    end
    if opts.background ~= nil then
        set_background(op, params, opts.background)
    end

    local dst, out = new_image(), opts.out
    if out ~= nil then
        image.fill(op, "out", out, dst)
        if out.format ~= f.name then
            check.fail("SHAPE", op, "out is %s, and %s was asked for", out.format, f.name)
        end
    else
        dst.format, dst.width, dst.height = f.position, self.width, self.height
    end
    if f.range and out == nil then
        dst.range = format.tag(op, "range", f.range)
    end
    local source_is_yuv = format.find(op, self.format).model == "yuv"
    override(op, (source_is_yuv and f.model ~= "yuv") and src or dst, opts, meaning)
    override(op, src, from, tags)
    override(op, dst, to, tags)
    check.status(C.gwb_convert_tags(dst, src, params), op)

    if out == nil then
        local planes = new_planes(op, f, src.plane[0].device, self.width, self.height)
        out = make(f, self.width, self.height, planes, {})
        for i = 1, f.planes do
            dst.plane[i - 1] = planes[i]
        end
        dst.planes = f.planes
    end
    check.status(C.gwb_convert(dst, src, params, stream), op)
    for _, tag in ipairs(tags) do
        out[tag] = format.tag_name(tag, dst[tag])
    end
    return out
end

--- i:linearize([format, {…}]) -> image with linear light in that format (default: interleaved f32). The image's transfer must be known. The options are
-- those of convert.
function methods:linearize(name, opts)
    local op = "image:linearize"
    opts = check.options(op, opts, {"matrix", "range", "siting", "from", "chroma", "background", "stream"})
    return image.convert(self, name or "rgbf32le", {color = "convert", to = {transfer = "linear"}, from = opts.from, matrix = opts.matrix, range = opts.range,
        siting = opts.siting, chroma = opts.chroma, background = opts.background, stream = opts.stream}, 0)
end

--- i:delinearize(transfer, [format, {…}]) -> image whose numbers follow that curve ("srgb", "bt709", "pq", …) in that format (default: rgb24).
function methods:delinearize(transfer, name, opts)
    local op = "image:delinearize"
    check.string(op, "transfer", transfer)
    opts = check.options(op, opts, {"matrix", "range", "siting", "from", "primaries", "dither", "tonemap", "peak", "stream"})
    return image.convert(self, name or "rgb24", {color = "convert", to = {transfer = transfer, primaries = opts.primaries}, from = opts.from,
        matrix = opts.matrix, range = opts.range, siting = opts.siting, dither = opts.dither, tonemap = opts.tonemap, peak = opts.peak,
        stream = opts.stream}, 0)
end

--- i:tonemap([curve, {format=, transfer=, primaries=, peak=, …}]) -> SDR image from a pq or hlg one: curve "bt2390" (default), "reinhard" or "hable".
-- format: rgb24; transfer: srgb; primaries: bt709.
function methods:tonemap(curve, opts)
    local op = "image:tonemap"
    opts = check.options(op, opts, {"format", "transfer", "primaries", "peak", "matrix", "range", "siting", "from", "dither", "stream"})
    return image.convert(self, opts.format or "rgb24", {color = "convert", tonemap = curve or "bt2390",
        to = {transfer = opts.transfer or "srgb", primaries = opts.primaries or "bt709"}, peak = opts.peak, matrix = opts.matrix, range = opts.range,
        siting = opts.siting, from = opts.from, dither = opts.dither, stream = opts.stream}, 0)
end

-- ---- the rest

-- A new image with fn(plane) as its planes and the same tags.
local function map(op, self, fn)
    image.fill(op, "the image", self, new_image())
    local planes = {}
    for i, m in ipairs(self.planes) do
        planes[i] = fn(m)
    end
    return make(format.find(op, self.format), self.width, self.height, planes, self)
end

--- i:clone([{stream=}]) -> a new image with the same pixels and tags on the same device.
function methods:clone(opts)
    local stream = check.stream("image:clone", check.options("image:clone", opts, {"stream"}).stream)
    return map("image:clone", self, function(m) return m:clone {stream = stream} end)
end

--- i:to(device [, {stream=}]) -> an image with the same pixels and tags on that device; planes that are there already are shared.
function methods:to(name, opts)
    local stream = check.stream("image:to", check.options("image:to", opts, {"stream"}).stream)
    return map("image:to", self, function(m) return m:to(name, {stream = stream}) end)
end

--- i:close(): releases the planes now. Twice is harmless.
function methods:close()
    check_image("image:close", "the image", self)
    for _, m in ipairs(type(self.planes) == "table" and self.planes or {}) do
        if check.is_mat(m) then
            m:close()
        end
    end
end

function meta.__tostring(self)
    local parts = {}
    for _, tag in ipairs(tags) do
        local value = rawget(self, tag)
        parts[#parts + 1] = value ~= nil and " " .. tostring(value) or nil
    end
    return ("image %sx%s %s%s"):format(tostring(self.width), tostring(self.height), tostring(self.format), table.concat(parts))
end

function meta.__concat(a, b)
    return tostring(a) .. tostring(b)
end

image.check = check_image

return image
