-- SPDX-License-Identifier: MIT
-- Picture and frame files: to mats and images on a device, and back.
local ffi = require "ffi"
local check = require "gpuwb.check"
local device = require "gpuwb.device"
local format = require "gpuwb.format"
local image = require "gpuwb.image"
local mat = require "gpuwb.mat"
local video = require "gpuwb.video"
local C = require("gpuwb.cdef").C

local files = {public = {}}
local public = files.public

local new_picture = ffi.typeof("gwb_picture")
local new_bytes = ffi.typeof("gwb_bytes")
local read_params, write_params = ffi.typeof("gwb_read_params"), ffi.typeof("gwb_write_params")
local bytes_pointer = ffi.typeof("uint8_t *")
local tags = format.tags
local max_size = 2147483647

-- What a picture file may take: pixels of a compressed one, bytes of any.
local limits = {pixels = 2 ^ 28, bytes = 2 ^ 32}

--- gpu.limits([{pixels=, bytes=}]) -> {pixels=, bytes=} as they were before. What a file may take: pixels of a compressed picture (default 2^28),
-- bytes of a file and of its pixels in memory (default 4 GiB). A header that promises more is refused before memory is taken.
function public.limits(opts)
    local op = "gpu.limits"
    local before = {pixels = limits.pixels, bytes = limits.bytes}
    for key, value in pairs(check.options(op, opts, {"pixels", "bytes"})) do
        limits[key] = check.integer(op, key, value, 1, 2 ^ 53)
    end
    return before
end

-- ---- reading

local load_options = {"device", "stream", "strict", "orient", "scale", "frame", "format", "array", "isolated", "timeout"}

local function reading(op, opts)
    local p = read_params()
    p.room = 1
    p.max_pixels, p.max_bytes = limits.pixels, limits.bytes
    p.frame = opts.frame == nil and 0 or check.integer(op, "frame", opts.frame, 0, 2 ^ 53)
    check.boolean(op, "strict", opts.strict)
    check.boolean(op, "orient", opts.orient)
    check.boolean(op, "scale", opts.scale)
    p.lenient = opts.strict == false and 1 or 0
    p.as_stored = opts.orient == false and 1 or 0
    p.unscaled = opts.scale == false and 1 or 0
    return p
end

-- The same with what belongs to pictures.
local function picture_reading(op, opts)
    local p = reading(op, opts)
    if opts.format ~= nil then
        check.choice(op, "format", opts.format, {"native"})
        p.native = 1
    end
    if opts.array ~= nil then
        p.array = check.string(op, "array", opts.array)     -- the caller's options keep it alive
    end
    if opts.timeout ~= nil then
        p.timeout = math.max(1, check.number(op, "timeout", opts.timeout) * 1000)
        if not (opts.timeout > 0 and opts.timeout <= 86400) then
            check.fail("BAD_ARGUMENT", op, "timeout must be seconds, over 0 and at most a day, got %s", check.show(opts.timeout))
        end
    end
    return p
end

files.picture_reading = picture_reading

-- Where the pixels shall go: a device position and a stream or nil.
local function target(op, opts)
    local stream = check.stream(op, opts.stream)
    if opts.device == nil and stream then
        return ffi.cast("gwb_stream *", stream).device, stream
    end
    return device.position(op, opts.device), stream
end

-- The picture as an image, or as a mat where the file holds no picture's format. Does not wait; the picture may be freed.
local function place(op, picture, position, stream)
    local name = ffi.string(picture.format)
    if name == "" then
        local p = picture.plane[0]
        local m = mat.allocate(op, position, p.width, p.height, p.type, p.channels, true)
        check.status(C.gwb_upload(m, p.data, p.step, stream), op)
        return m
    end
    check.status(C.gwb_format_find(name, nil, nil), op)
    local opts = {device = device.name(position)}
    for _, tag in ipairs {"matrix", "range", "siting", "transfer", "primaries"} do
        local value = ffi.string(picture[tag])
        opts[tag] = value ~= "" and value or nil
    end
    local img
    device.collect_due()
    local moved = position == 0 and files.empty_mat()
    if moved and C.gwb_picture_move(picture, moved) == 1 then
        opts.device, opts.width, opts.height = nil, picture.width, picture.height
        img = image.public.image_from(name, {moved}, opts)
    else
        img = image.public.image(name, picture.width, picture.height, opts)
        for i = 1, picture.planes do
            local p = picture.plane[i - 1]
            check.status(C.gwb_upload(img.planes[i], p.data, p.step, stream), op)
        end
    end
    files.annotate(img, picture)
    return img
end

-- What a file says beyond the tags that conversions look at: icc (a profile's bytes), gamma (PNG's gAMA), orientation (EXIF, where it was not
-- applied), delay (ms, of a GIF's frame).
function files.annotate(img, picture)
    if picture.icc ~= nil then
        img.icc = ffi.string(picture.icc, tonumber(picture.icc_size))
    end
    if picture.gamma > 0 then
        img.gamma = picture.gamma / 100000
    end
    if picture.orientation > 1 then
        img.orientation = picture.orientation
    end
    if picture.delay > 0 then
        img.delay = picture.delay
    end
end

local function loaded(op, rc, picture, opts)
    check.status(rc, op)
    ffi.gc(picture, C.gwb_picture_free)
    local result = place(op, picture, target(op, opts))
    local warning = ffi.string(picture.warning)
    C.gwb_picture_free(ffi.gc(picture, nil))
    return result, warning ~= "" and warning or nil
end

--- gpu.load(path [, {device=, stream=, strict=, orient=, scale=, frame=, format=, array=, isolated=, timeout=}]) -> image, or mat from npy and npz; and
-- what is wrong with it, with strict=false. The content tells the format, not the name: PNG (1 to 16 bits) JPEG BMP TGA GIF PSD HDR QOI PNM (P1 to P7)
-- PFM give an image as it is in the file, on the current device; an npy always gives a mat with tight rows (a packed frame, a matrix: see m:planes);
-- y4m gives an image with the tags that the file has. strict=false: a damaged or cut file gives what is there. orient=false: an EXIF orientation is not
-- applied. scale=false: PNM samples stay as they are, else their maximum becomes 255 or 65535. frame: of a y4m or a GIF, from 0. format="native": a
-- JPEG's planes as they are coded (yuv420p and the like, bt601, full range), not turned. array: of an npz with several. isolated=true: decoded in a
-- process without rights, which may take `timeout` seconds (60); a decoder's crash is then an error. "-" is standard input. Raw frames: gpu.load_raw.
function public.load(path, opts)
    local op = "gpu.load"
    check.path(op, "path", path)
    opts = check.options(op, opts, load_options)
    target(op, opts)
    local picture = new_picture()
    local load = check.boolean(op, "isolated", opts.isolated) and C.gwb_load_isolated or C.gwb_load
    return loaded(op, load(path, picture_reading(op, opts), picture), picture, opts)
end

-- The bytes to read and their number, from a string or cdata.
local function bytes_of(op, bytes, size)
    if type(bytes) == "string" then
        return bytes, size == nil and #bytes or check.integer(op, "size", size, 0, #bytes)
    end
    local data, known = check.pointer(op, "bytes", bytes)
    if size == nil and not known then
        check.fail("BAD_ARGUMENT", op, "size must be given with a pointer: gpu.decode(pointer, bytes)")
    end
    return data, check.integer(op, "size", size == nil and known or size, 0, known or 2 ^ 53)
end

--- gpu.decode(bytes [, size] [, {size=, …as gpu.load…}]) -> the same from a string, or from a cdata array or pointer with its size in bytes.
function public.decode(bytes, size, opts)
    local op = "gpu.decode"
    if type(size) ~= "number" and opts == nil then
        size, opts = nil, size
    end
    opts = check.options(op, opts, {"size", unpack(load_options)})
    target(op, opts)
    local data, length = bytes_of(op, bytes, size == nil and opts.size or size)
    local picture = new_picture()
    local decode = check.boolean(op, "isolated", opts.isolated) and C.gwb_decode_isolated or C.gwb_decode
    return loaded(op, decode(data, length, "the bytes", picture_reading(op, opts), picture), picture, opts)
end

--- gpu.info(path) or gpu.info({bytes=}) -> {kind=, width=, height=, format=, depth=, frames=, …} of a file, without decoding its pixels. width and
-- height are as gpu.load would give them (turned, where an EXIF orientation says so); depth is bits of a sample in the file; frames is nil where only
-- reading would tell. Where the file says so: matrix range siting transfer primaries gamma icc orientation rate (frames a second) coding (as
-- "progressive"; of an npz its arrays) native (a JPEG's format with format="native"). An npy has a type in the place of a format.
function public.info(path)
    local op = "gpu.info"
    local picture, params = new_picture(), reading(op, {})
    params.header_only, params.lenient = 1, 1
    local rc
    if type(path) == "table" then
        local data, size = bytes_of(op, check.options(op, path, {"bytes", "size"}).bytes, path.size)
        rc = C.gwb_decode(data, size, "the bytes", params, picture)
    else
        rc = C.gwb_load(check.path(op, "path", path), params, picture)
    end
    check.status(rc, op)
    ffi.gc(picture, C.gwb_picture_free)
    local plane = picture.plane[0]
    local name = ffi.string(picture.format)
    local out = {kind = ffi.string(picture.kind), width = name == "" and plane.width or picture.width, height = name == "" and plane.height or picture.height,
                 depth = picture.depth, frames = picture.frames >= 0 and tonumber(picture.frames) or nil}
    if name == "" then
        out.type = ffi.string(C.gwb_type_name(plane.type)) .. (plane.channels > 1 and "x" .. plane.channels or "")
    else
        out.format = name
    end
    for _, tag in ipairs {"matrix", "range", "siting", "transfer", "primaries", "native", "coding", "warning"} do
        local value = ffi.string(picture[tag]):gsub("%s+$", "")
        out[tag] = value ~= "" and value or nil
    end
    if picture.rate[0] > 0 then
        out.rate = picture.rate[0] / picture.rate[1]
    end
    files.annotate(out, picture)
    C.gwb_picture_free(ffi.gc(picture, nil))
    return out
end

--- gpu.codecs([{libraries=}]) -> {png=, jpg=, libraries=}: what decodes and encodes these, "libdeflate" and "libjpeg-turbo" where they are there, else
-- "built in". libraries=false: the built-in code only, for the whole process; true: what is there.
function public.codecs(opts)
    local op = "gpu.codecs"
    opts = check.options(op, opts, {"libraries"})
    if opts.libraries ~= nil then
        C.gwb_codec_libraries(check.boolean(op, "libraries", opts.libraries) and 1 or 0)
    end
    return {png = ffi.string(C.gwb_codec_library("png")), jpg = ffi.string(C.gwb_codec_library("jpg")), libraries = C.gwb_codec_libraries(-1) == 1}
end

-- A reader of frames, {handle=}, that closes itself with the last reference.
local function open_frames(op, path, frame_bytes, params)
    local out = ffi.new("gwb_frames *[1]")
    check.status(C.gwb_frames_open(path, frame_bytes, params, out), op)
    return check.own({}, out[0], C.gwb_frames_close)
end

local function close_frames(frames)
    check.disown(frames, C.gwb_frames_close)
end

-- What a raw file's frames are: a function that makes an image of a frame's bytes, and their number.
local function raw_frame(op, name, width, height, opts)
    local f = format.find(op, name)
    check.integer(op, "width", width, 1, max_size)
    check.integer(op, "height", height, 1, max_size)
    local given = {}
    for _, tag in ipairs(tags) do
        given[tag] = opts[tag]
    end
    local position, stream = target(op, opts)
    given.device = device.name(position)
    if given.range == nil then
        given.range = f.range
    end
    return function(data)
        local img = image.public.image(f.name, width, height, given)
        for i = 1, f.planes do
            local p = f:plane(i, width, height)
            local to = f.swapped and i > 1 and 5 - i or i   -- V before U
            check.status(C.gwb_upload(img.planes[to], ffi.cast(bytes_pointer, data) + p.offset, p.step, stream), op)
        end
        return img
    end, f:bytes(width, height)
end

local raw_options = {"device", "stream", "strict", "frame", unpack(tags)}

--- gpu.load_raw(path, format, width, height [, {frame=, device=, stream=, strict=, matrix=, range=, …}]) -> image: a frame of a file that has nothing
-- but frames. frame counts from 0. A file whose size is no multiple of the frame's is an error, unless a frame is named or strict=false.
function public.load_raw(path, name, width, height, opts)
    local op = "gpu.load_raw"
    check.path(op, "path", path)
    opts = check.options(op, opts, raw_options)
    local make, bytes = raw_frame(op, name, width, height, opts)
    local params = reading(op, opts)
    params.lenient = (opts.strict == false or opts.frame ~= nil) and 1 or 0
    local frames, picture = open_frames(op, path, bytes, params), new_picture()
    if check.status(C.gwb_frames_next(frames.handle, picture), op) == 0 then
        check.fail("BAD_FILE", op, "%s: no whole frame %d of %.0f bytes", path, tonumber(params.frame), bytes)
    end
    local img = make(picture.plane[0].data)
    close_frames(frames)
    return img
end

-- What gpu.frames gives: called as a function it is the next frame and its number; close() ends it.
local Frames = {__name = "frames"}
Frames.__index = Frames

function Frames:close()
    if getmetatable(self) ~= Frames then
        check.fail("BAD_ARGUMENT", "frames:close", "call it as a method of what gpu.frames gives, got %s", check.show(self))
    end
    if self.reader then
        self.reader:close()
        self.reader = nil
    end
end

function Frames:__tostring()
    local kind = self.by == "gpuwb" and "" or (" (%s)"):format(self.codec)
    return ("frames of %s%s by %s, %d taken%s"):format(self.path, kind, self.by, self.n - self.first, self.reader and "" or ", closed")
end

local function next_frame(self)
    local op, opts = "gpu.frames", self.opts
    if C.gwb_stream_records(self.position, self.stream) == 1 then
        check.fail("UNSUPPORTED", op, "the stream is recording, and a graph would copy again from memory that has other frames by then: read frames outside "
            .. "of stream:capture")
    end
    local img = self.reader:next()
    if not img then
        return nil
    end
    for _, tag in ipairs(tags) do
        if opts[tag] ~= nil then
            img[tag] = format.tag_name(tag, format.tag(op, tag, opts[tag]))
        end
    end
    if self.format and img.format ~= self.format then
        local stored = img
        img = stored:convert(self.format, {stream = self.stream})
        stored:close()
    end
    return img
end

function Frames:__call()
    if not (self.reader and self.reader.handle) then    -- closed, or in a finalizer at the program's end
        return nil
    end
    local ok, img = pcall(next_frame, self)
    if not ok or not img then
        self:close()
        if not ok then
            error(img, 0)
        end
        return nil
    end
    self.n = self.n + 1
    return img, self.n
end

local Stored = {}       -- the reader of y4m, GIF and raw files
Stored.__index = Stored

function Stored:next()
    if check.status(C.gwb_frames_next(self.handle, self.picture), "gpu.frames") == 0 then
        return nil
    elseif self.make then
        return self.make(self.picture.plane[0].data)
    end
    return place("gpu.frames", self.picture, self.position, self.stream)
end

Stored.close = close_frames

--- gpu.frames(path [, {format=, width=, height=, frame=, device=, stream=, strict=, orient=, by=, matrix=, range=, …}]) -> iterator: for img, n in
-- gpu.frames(path). A y4m or a GIF; with format, width and height a raw file; "-" is one of these from standard input; any other file is a video, decoded
-- ahead of the loop: by NVDEC where the device is cuda and it takes the file, else by libav's libraries, where gpuwb was built with them, else by the
-- program ffmpeg; by="nvdec", "libav" or "ffmpeg" says which it must be, and iterator.by which it is. Each frame is a new image in the file's own pixel
-- format (NVDEC: nv12, p010le and the like), or converted to format= on its device; n counts from 0, and frame= is where to begin. NVDEC's frames are its
-- own memory, without a copy, of three at a time; while more are kept, and not closed, the next ones are copied on the device. MPEG-1, -2, -4 and MJPEG,
-- which it decodes to other bits than the host, want by="nvdec". A cut or damaged file is an error behind its last good frame, and with strict=false the
-- end. Tags given here come in the place of the file's. A video is turned as it says, unless orient=false. iterator:close() ends it before its end, as
-- dropping it does. In a stream:capture it is an error.
-- Errors: NO_FILE, BAD_FILE, UNSUPPORTED without libav and ffmpeg, or where by= cannot be; LIMIT (gpu.limits).
function public.frames(path, opts)
    local op = "gpu.frames"
    check.path(op, "path", path)
    opts = check.options(op, opts, {"format", "width", "height", "orient", "by", unpack(raw_options)})
    local given = {}
    for key, value in pairs(opts) do
        given[key] = value
    end
    local params = reading(op, opts)
    local position, stream = target(op, opts)
    local frames = {opts = given, position = position, stream = stream, n = tonumber(params.frame) - 1}
    local make, bytes
    if opts.width ~= nil or opts.height ~= nil then
        if opts.format == nil then
            check.fail("BAD_ARGUMENT", op, "width and height belong to raw frames, which want format= too")
        end
        make, bytes = raw_frame(op, opts.format, opts.width, opts.height, opts)
    elseif opts.format ~= nil then
        frames.format = format.find(op, opts.format).name
    end
    for _, tag in ipairs(tags) do
        format.tag(op, tag, opts[tag])
    end
    if opts.by ~= nil then
        check.choice(op, "by", opts.by, {"nvdec", "libav", "ffmpeg"})
    end
    if make or check.status(C.gwb_frames_known(path), op) == 1 then
        if opts.by ~= nil then
            check.fail("BAD_ARGUMENT", op, "%s: by = %q is for videos, and gpuwb reads this file itself", path, opts.by)
        end
        local reader = open_frames(op, path, bytes or 0, params)
        reader.make, reader.picture, reader.position, reader.stream = make, new_picture(), position, stream
        frames.reader = setmetatable(reader, Stored)
    else
        frames.reader = video.open(op, path, given, params, position, stream)
    end
    frames.path, frames.first, frames.by, frames.codec = path, frames.n, frames.reader.by or "gpuwb", frames.reader.codec
    return setmetatable(frames, Frames)
end

-- ---- writing

-- Each option, and the formats that take it (true: all).
local save_options = {format = true, sync = true, quality = {jpg = true}, level = {png = true}, background = {jpg = true, hdr = true, pfm = true, bmp = true},
                      rate = {y4m = true}, subsampling = {jpg = true}}

-- {r, g, b} in 0..1 or "#rrggbb" as three numbers.
local function parse_background(op, v)
    local rgb = v
    if type(v) == "string" then
        local r, g, b = v:match("^#(%x%x)(%x%x)(%x%x)$")
        rgb = r and {tonumber(r, 16) / 255, tonumber(g, 16) / 255, tonumber(b, 16) / 255}
    end
    local good = type(rgb) == "table" and #rgb == 3
    for i = 1, good and 3 or 0 do
        good = good and type(rgb[i]) == "number" and rgb[i] >= 0 and rgb[i] <= 1
    end
    if not good then
        check.fail("BAD_ARGUMENT", op, 'background must be {r, g, b} in 0..1 or "#rrggbb", got %s', check.show(v))
    end
    return rgb
end

local function parse_rate(op, v)
    local top, bottom = v, 1
    if type(v) == "string" then
        top, bottom = v:match("^(%d+)[:/](%d+)$")
        top, bottom = tonumber(top), tonumber(bottom)
    end
    if not top or not bottom or bottom < 1 or bottom > max_size then
        check.fail("BAD_ARGUMENT", op, 'rate must be frames a second: a whole number, or a fraction as "30000/1001", got %s', check.show(v))
    end
    return check.integer(op, "rate", top, 1, max_size), bottom
end

-- The file format by option or name, and the C parameters; `first` is the object to write, whose numbers the background is in.
local function writing(op, path, opts, first)
    local known = {}
    for key in pairs(save_options) do
        known[#known + 1] = key
    end
    opts = check.options(op, opts, known)
    local word = opts.format or path and path:match("%.([^./]*)$") or ""
    check.string(op, "format", word)
    local kind = C.gwb_file_kind(word)
    kind = kind ~= nil and ffi.string(kind) or nil
    local written = ffi.string(C.gwb_file_kinds(1))
    if not kind or not (" " .. written .. " "):find(" " .. kind .. " ", 1, true) then
        local what = opts.format and ("format %s"):format(check.show(word)) or path == nil and "no format" or word == "" and
            ("%s has no extension, and there is no format="):format(check.show(path)) or ("extension .%s of %s"):format(word, check.show(path))
        check.fail("UNSUPPORTED", op, "%s: nothing that is written; written are %s", what, written)
    end
    local p = write_params()
    for key in pairs(opts) do
        local takers = save_options[key]
        if type(takers) == "table" and not takers[kind] then
            local list = {}
            for name in pairs(takers) do
                list[#list + 1] = name
            end
            table.sort(list)
            check.fail("BAD_ARGUMENT", op, "%s= belongs to %s, not to %s", key, table.concat(list, " and "), kind)
        end
    end
    if opts.quality ~= nil then
        p.quality = check.integer(op, "quality", opts.quality, 1, 100)
    end
    if opts.level ~= nil then
        p.level = check.integer(op, "level", opts.level, 1, 12)
    end
    if opts.rate ~= nil then
        p.rate[0], p.rate[1] = parse_rate(op, opts.rate)
    end
    if opts.background ~= nil then
        local white = (check.is_mat(first) and first or first.planes[1]).dtype == "u16" and 65535 or 255
        p.flatten = 1
        for i, v in ipairs(parse_background(op, opts.background)) do
            p.background[i - 1] = math.floor(v * white + 0.5)
        end
    end
    if opts.subsampling ~= nil then
        local digits = type(opts.subsampling) == "string" and opts.subsampling:gsub(":", "") or opts.subsampling
        p.subsampling = tonumber(check.choice(op, "subsampling", digits, {"444", "422", "420", "440", "411"}))
    end
    p.sync = check.boolean(op, "sync", opts.sync) and 1 or 0
    return kind, p
end

-- Formats that are the pixels as they lie, whatever they mean; the others hold gray and RGB.
local plain = {npy = true, yuv = true, y4m = true}

-- The image in the layout that files have: R, G, B in this order, words of 8 or 16 bits or f32. Nothing is matrixed or stretched for it.
local function in_file_order(op, img, kind)
    local f = format.find(op, img.format)
    if kind == "jpg" and f.model == "yuv" and f.planes == 3 and f.depth == 8 then
        return img      -- the encoder takes the planes as they are, and looks at their tags
    end
    if f.model == "yuv" or f.model == "bayer" then
        check.fail("UNSUPPORTED", op, "%s holds gray and RGB, and this is %s: convert first, as in img:convert(\"rgb24\"%s)", kind, img.format,
            f.model == "yuv" and img.matrix == nil and ', {matrix = "bt601"}' or "")
    elseif f.model == "gray" and img.range == "limited" then
        check.fail("UNSUPPORTED", op, "%s holds full range, and this is gray of limited range: convert first, as in "
            .. 'img:convert("gray", {from = {range = "limited"}, to = {range = "full"}})', kind)
    end
    local bits = f.type:find("^f") and "f32" or f.depth > 8 and "16" or "8"
    local names = f.model == "gray" and {["8"] = {"gray", "ya8"}, ["16"] = {"gray16le", "ya16le"}, f32 = {"grayf32le", "grayf32le"}}
        or {["8"] = {"rgb24", "rgba"}, ["16"] = {"rgb48le", "rgba64le"}, f32 = {"rgbf32le", "rgbaf32le"}}
    local name = names[bits][f.alpha and 2 or 1]
    return name == img.format and img or img:convert(name)
end

-- Fills the C picture with a mat or an image. Returns what must stay referenced while it is used, and whether its only plane is a mat made for it. Waits for
-- the pixels.
local function fill(op, obj, kind, picture)
    local planes, keep, given = {obj}, {}, obj
    if image.is(obj) then
        image.fill(op, "the image", obj, ffi.new("gwb_image"))
        if type(obj.icc) == "string" and obj.icc ~= "" then
            keep.icc = obj.icc
            picture.icc, picture.icc_size = ffi.cast(bytes_pointer, obj.icc), #obj.icc
        end
        if type(obj.gamma) == "number" and obj.gamma > 0 and obj.gamma < 20000 then
            picture.gamma = obj.gamma * 100000 + 0.5
        end
        obj = plain[kind] and obj or in_file_order(op, obj, kind)
        planes = obj.planes
        ffi.copy(picture.format, obj.format)
        for _, tag in ipairs {"matrix", "range", "siting", "transfer", "primaries"} do
            local value = obj[tag]
            picture[tag] = value and #value < 16 and value or ""
        end
        picture.width, picture.height = obj.width, obj.height
    else
        check.mat(op, "the object", obj)
        picture.width, picture.height = obj.width, obj.height
    end
    picture.planes = #planes
    for i, m in ipairs(planes) do
        local here = m:to("host")
        check.status(C.gwb_mat_wait(here, 0), op)
        local p, plane = ffi.cast("gwb_mat *", here), picture.plane[i - 1]
        plane.data, plane.step, plane.width, plane.height, plane.type, plane.channels = p.data, p.step, p.width, p.height, p.type, p.channels
        keep[i] = here
    end
    return keep, #planes == 1 and (not rawequal(obj, given) or keep[1] ~= planes[1])
end

-- A mat, an image or a list of them, as a list.
local function list_of(op, obj)
    if check.is_mat(obj) or image.is(obj) then
        return {obj}
    end
    if type(obj) ~= "table" or #obj == 0 then
        check.fail("BAD_ARGUMENT", op, "the object must be a mat, an image or a list of frames, got %s", check.show(obj))
    end
    for i, one in ipairs(obj) do
        if not check.is_mat(one) and not image.is(one) then
            check.fail("BAD_ARGUMENT", op, "frame %d must be a mat or an image, got %s", i, check.show(one))
        end
        if one.width ~= obj[1].width or one.height ~= obj[1].height or image.is(one) and one.format ~= obj[1].format then
            check.fail("SHAPE", op, "frame %d (%s) is not as frame 1 (%s)", i, tostring(one), tostring(obj[1]))
        end
    end
    return obj
end

-- The encoded bytes, which free themselves.
local function encode(op, obj, path, opts)
    local list = list_of(op, obj)
    local kind, params = writing(op, path, opts, list[1])
    if #list > 1 and kind ~= "y4m" and kind ~= "yuv" then
        check.fail("UNSUPPORTED", op, "%s holds one picture, not %d; y4m and yuv hold frames", kind, #list)
    end
    local bytes = ffi.gc(new_bytes(), C.gwb_bytes_free)
    for i, one in ipairs(list) do
        local picture = new_picture()
        local keep = fill(op, one, kind, picture)
        params.further = i > 1 and 1 or 0
        check.status(C.gwb_encode(picture, kind, params, bytes), op)
        keep[1] = nil
    end
    return bytes, params
end

local function free(bytes)
    C.gwb_bytes_free(ffi.gc(bytes, nil))
end

local function save(op, obj, path, opts)
    check.path(op, "path", path)
    local bytes, params = encode(op, obj, path, opts)
    check.status(C.gwb_file_write(path, bytes.data, bytes.size, params.sync), op)
    free(bytes)
    return obj
end

--- gpu.save(obj, path [, {format=, quality=, subsampling=, level=, background=, rate=, sync=}]) -> obj. obj: a mat (1 to 4 channels are gray,
-- gray and alpha, RGB, RGBA), an image, or for y4m and yuv a list of frames. The extension or format= tells what is written: png (u8, u16; level 1..12,
-- default 4) jpg (u8; quality 1..100, default 90; subsampling "444" "422" "420" "440" "411", default 420 up to quality 90, else 444; planes of YUV,
-- bt601 and full range, as they are) bmp tga qoi (u8) hdr pfm (f32) pnm (u8, u16) npy (all types) yuv (raw planes) y4m (rate, default 25).
-- Other YUV goes to y4m, yuv and npy only: convert it first. Alpha that the format does not hold is an error, unless background={r, g, b} in 0..1 or
-- "#rrggbb" shines through. The file is written beside the target and renamed: after an error the old one is untouched. sync=true: on the disk at
-- return. "-" is standard output. Waits for the pixels.
-- @example
-- local path = os.tmpname() .. ".png"
-- gpu.mat(40, 30, "u8x3", {fill = {1, 2, 3}}):save(path)
-- print((gpu.load(path)))                          --> image 40x30 rgb24
-- os.remove(path)
function public.save(obj, path, opts)
    return save("gpu.save", obj, path, opts)
end

--- m:save(path [, opts]), i:save(path [, opts]): see gpu.save.
function mat.methods:save(path, opts)
    return save("mat:save", check.mat("mat:save", "mat", self), path, opts)
end

function image.methods:save(path, opts)
    return save("image:save", image.check("image:save", "the image", self), path, opts)
end

--- gpu.encode(obj, format [, {quality=, …as gpu.save…}]) -> string, the file's bytes. Errors as gpu.save.
function public.encode(obj, kind, opts)
    local op = "gpu.encode"
    local all = {format = check.string(op, "format", kind)}
    for key, value in pairs(check.options(op, opts, {"quality", "level", "background", "rate", "subsampling"})) do
        all[key] = value
    end
    local bytes = encode(op, obj, nil, all)
    if bytes.size > max_size then
        check.fail("LIMIT", op, "%.0f bytes do not fit a Lua string (%d at most): save to a file", tonumber(bytes.size), max_size)
    end
    local text = ffi.string(bytes.data, tonumber(bytes.size))
    free(bytes)
    return text
end

files.empty_mat = require("gpuwb.live").scoped(require("gpuwb.core").mat.new)
files.list_of, files.writing, files.fill, files.place, files.target = list_of, writing, fill, place, target

return files
