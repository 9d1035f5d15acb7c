-- SPDX-License-Identifier: MIT
-- Video files by the programs ffprobe and ffmpeg: their facts, their frames as images, and images as their frames.
local ffi = require "ffi"
local core = require "gpuwb.core"
local check = require "gpuwb.check"
local decoder = require "gpuwb.decoder"
local device = require "gpuwb.device"
local format = require "gpuwb.format"
local image = require "gpuwb.image"
local types = require "gpuwb.types"
local C = require("gpuwb.cdef").C

local video = {public = {}}
local public = video.public

local tags = format.tags
local advice = "install ffmpeg, which reads and writes video for gpuwb (on Debian or Ubuntu: apt-get install ffmpeg), or put it on PATH"
local held_bytes = 2 ^ 26       -- of the frames that are read ahead
local bytes_pointer = ffi.typeof("uint8_t *")

-- A list of words as a C program gets it, and what must stay referenced meanwhile.
local function arguments(words)
    local argv = ffi.new("const char *[?]", #words + 1)
    for i, word in ipairs(words) do
        argv[i - 1] = word
    end
    argv[#words] = nil
    return argv, words
end

-- Raises the failure of C with a text before its own.
local function fail(op, rc, fmt, ...)
    local message = ffi.string(C.gwb_error_message())
    check.fail(ffi.string(C.gwb_status_name(rc)), op, "%s%s", fmt:format(...), message)
end

-- ---- facts

local ffprobe = {
    "ffprobe", "-v", "error", "-select_streams", "V:0", "-read_intervals", "%+#4", "-show_program_version", "-show_entries",
    "program_version=version:format=duration:stream=codec_name,width,height,pix_fmt,avg_frame_rate,r_frame_rate,nb_frames,duration,color_range," ..
        "color_space,color_transfer,color_primaries,chroma_location:stream_side_data=rotation:stream_tags=rotate:" ..
        "frame=width,height,pix_fmt,color_range,color_space,color_transfer,color_primaries,chroma_location",
    "-of", "flat",
}

local tag_keys = {matrix = "color_space", range = "color_range", siting = "chroma_location", transfer = "color_transfer", primaries = "color_primaries"}

-- FFmpeg's name of a tag's value as ours; nil where it is unknown to either.
local function our_tag(tag, name)
    local value = name and C.gwb_tag_find(tag, name) or -1
    return value > 0 and format.tag_name(tag, value) or nil
end

-- What ffprobe says of the first video stream that is no cover picture.
local function probe(op, path)
    local words = {unpack(ffprobe)}
    words[#words + 1] = "file:" .. path     -- so that no name is taken for an option or an address
    local bytes = ffi.gc(ffi.new("gwb_bytes"), C.gwb_bytes_free)
    local argv, keep = arguments(words)
    local rc = C.gwb_program_read(argv, advice, 2 ^ 20, bytes)
    if rc < 0 then
        fail(op, rc, "%s: ", path)
    end
    local text, said = ffi.string(bytes.data, tonumber(bytes.size)), {}
    C.gwb_bytes_free(ffi.gc(bytes, nil))
    for key, value in text:gmatch("([%w_.]+)=([^\n]*)") do
        said[key] = value:gsub('^"(.*)"$', "%1")
    end
    keep[1] = nil
    local function get(key)     -- the frame knows better than the stream
        local value = said["frames.frame.0." .. key] or said["streams.stream.0." .. key]
        return value ~= "unknown" and value ~= "N/A" and value or nil
    end
    local width, height, name = tonumber(get "width"), tonumber(get "height"), get "pix_fmt"
    if not width or not height or not name or width < 1 or height < 1 then
        check.fail("BAD_FILE", op, "%s: no video in it that ffmpeg can decode", path)
    end
    local info = {codec = get "codec_name", width = width, height = height, format = name,
                  frames = tonumber(get "nb_frames"), duration = tonumber(get "duration") or tonumber(said["format.duration"])}
    for tag, key in pairs(tag_keys) do
        info[tag] = our_tag(tag, get(key))
    end
    for _, key in ipairs {"avg_frame_rate", "r_frame_rate"} do
        local top, bottom = (get(key) or ""):match("^(%d+)/(%d+)$")
        if not info.fps and top and tonumber(top) > 0 and tonumber(bottom) > 0 then
            info.rate, info.fps = top .. "/" .. bottom, tonumber(top) / tonumber(bottom)
        end
    end
    for key, value in pairs(said) do
        if key:find("^streams%.stream%.0%.side_data_list.*%.rotation$") then
            info.rotation = tonumber(value) % 360
        end
    end
    return info, said["program_version.version"] or ""
end

--- gpu.video_info(path) -> {codec=, width=, height=, format=, fps=, rate=, frames=, duration=, rotation=, matrix=, range=, siting=, transfer=,
-- primaries=} of the first video stream, as ffprobe tells: the size as it is stored, the pixel format by FFmpeg's name, frames a second as a number and
-- as a fraction ("30000/1001"), seconds, degrees; nil where the file does not say. Waits. Errors: UNSUPPORTED without ffmpeg, NO_FILE, BAD_FILE.
function public.video_info(path)
    local op = "gpu.video_info"
    check.path(op, "path", path)
    check.status(C.gwb_frames_known(path), op)
    return (probe(op, path))
end

-- ---- reading

local function known_format(name)
    local ok = C.gwb_format_find(name, nil, nil)
    return ok >= 0
end

-- The pixel format that ffmpeg shall give: the video's own, so that it converts nothing; or the one asked for, where the video's is none of ours.
local function pixel_format(op, path, info, wanted)
    if known_format(info.format) then
        return "+" .. info.format, format.find(op, info.format)
    end
    local little = info.format:gsub("be$", "le")    -- only the bytes of a word change places
    if known_format(little) then
        return little, format.find(op, little)
    end
    if not wanted then
        check.fail("UNSUPPORTED", op, "%s: its pixel format %s is none of gpuwb's: name the format that ffmpeg shall convert it to, as in "
            .. 'format = "rgba"', path, info.format)
    end
    return format.find(op, wanted).name, format.find(op, wanted)
end

local Reader = {}
Reader.__index = Reader

-- Opens it through ffmpeg.
local function open(op, path, opts, params, position, stream)
    local info, version = probe(op, path)
    local pix_fmt, f = pixel_format(op, path, info, opts.format)
    local width, height, turned = info.width, info.height, opts.orient ~= false and info.rotation or 0
    if turned % 180 == 90 then
        if f.subsampling[1] ~= f.subsampling[2] then
            check.fail("UNSUPPORTED", op, "%s: %s cannot be turned by %d degrees, as the file asks, without a conversion: orient = false gives it as it "
                .. "is stored", path, f.name, turned)
        end
        width, height = height, width
    end
    local bytes, first = f:bytes(width, height), tonumber(params.frame)
    if width * height > tonumber(params.max_pixels) or bytes > tonumber(params.max_bytes) then
        check.fail("LIMIT", op, "%s: a frame of %s %dx%d takes %.0f bytes, and the limits are %.0f pixels and %.0f bytes; gpu.limits{pixels=..., bytes=...} "
            .. "raises them", path, f.name, width, height, bytes, tonumber(params.max_pixels), tonumber(params.max_bytes))
    end

    -- A frame of another size fails in the filter; by itself ffmpeg would scale it.
    local filter = ("crop=w='if(eq(iw\\,%d)*eq(ih\\,%d)\\,iw\\,-1)':h=ih:x=0:y=0:exact=1"):format(width, height)
    if first > 0 then
        filter = ("select='gte(n\\,%.0f)',"):format(first) .. filter
    end
    local words = {"ffmpeg", "-v", "error", "-nostdin"}
    if opts.orient == false then
        words[#words + 1] = "-noautorotate"
    end
    for _, word in ipairs {"-i", "file:" .. path, "-map", "0:V:0", "-vf", filter, "-f", "rawvideo", "-pix_fmt", pix_fmt} do
        words[#words + 1] = word
    end
    local major, minor = version:match("^n?(%d+)%.(%d+)")
    local old = major and tonumber(major) * 100 + tonumber(minor) < 501
    for _, word in ipairs {old and "-vsync" or "-fps_mode", "passthrough", "pipe:1"} do     -- no frame is repeated or left out
        words[#words + 1] = word
    end
    local out = ffi.new("gwb_video *[1]")
    local ahead = math.max(2, math.min(8, math.floor(held_bytes / bytes)))
    local argv, keep = arguments(words)
    local rc
    device.allocate(op, 0, function()       -- the blocks are memory of the host: what cannot be had yet may be collected
        rc = C.gwb_video_read(out, argv, advice, bytes, ahead, tonumber(params.lenient))
        return rc
    end)
    keep[1] = nil
    local given = {device = device.name(position)}
    for _, tag in ipairs(tags) do
        given[tag] = opts[tag] == nil and info[tag] or opts[tag]
    end
    if f.model == "rgb" then
        given.matrix, given.siting = opts.matrix, opts.siting
    end
    if given.range == nil then
        given.range = format.find(op, info.format == pix_fmt:sub(2) and info.format or f.name).range
    end
    local reader = {op = op, by = "ffmpeg", codec = info.codec, path = path, format = f, width = width, height = height, first = first, given = given,
                    blocks = {}, stream = stream, frames = ffi.new("int64_t[1]")}
    return check.own(setmetatable(reader, Reader), out[0], C.gwb_video_close)
end

-- Opens the video for gpu.frames, whose options are checked; params: what it may take, the first frame, and whether damage is borne. What libav does not
-- take goes through ffmpeg, unless `by` says how it shall be read.
function video.open(op, path, opts, params, position, stream)
    local why
    if opts.by ~= "ffmpeg" then
        local reader
        reader, why = decoder.open(op, path, opts, params, position, stream)
        if reader then
            return reader
        elseif opts.by then
            check.fail("UNSUPPORTED", op, "%s: %s", path, why)
        end
        C.gwb_decoder_say(("%s: %s; read through ffmpeg"):format(path, why))
    end
    return open(op, path, opts, params, position, stream)
end

-- The planes of the frame in a block, views of it.
function Reader:planes(block)
    local list = self.blocks[block]
    if list then
        return list
    end
    local whole, f = core.mat.new(), self.format
    check.status(C.gwb_video_block(self.handle, block, whole), self.op)
    list = {pointers = ffi.new("const gwb_mat *[4]")}
    for i = 1, f.planes do
        local p, m = f:plane(i, self.width, self.height), core.mat.new()
        local code, channels = types.parse(self.op, "type", p.type)
        check.status(C.gwb_mat_slice(m, whole, p.offset, p.step, p.width, p.height, code, channels), self.op)
        list[i], list.pointers[i - 1] = m, m
    end
    self.blocks[block] = list
    return list
end

-- The next frame as a new image; nil at the end.
function Reader:next()
    local op = self.op
    local block = C.gwb_video_next(self.handle, self.frames)
    if block < 0 then
        local message, code = ffi.string(C.gwb_error_message()), ffi.string(C.gwb_status_name(block))
        if message:find("Invalid too big or non positive size", 1, true) or message:find("do not have a common format", 1, true) then
            message = ("the size or the pixel format of its frames changes; they were %s %dx%d"):format(self.format.name, self.width, self.height)
        end
        check.fail(code, op, "%s: %s", self.path, message)
    elseif block == 0 then
        if self.frames[0] == 0 and self.first > 0 then
            check.fail("BAD_ARGUMENT", op, "%s: no frame %d; frames count from 0", self.path, self.first)
        elseif self.frames[0] == 0 then
            check.fail("BAD_FILE", op, "%s: no frame in it", self.path)
        end
        return nil
    end
    local from = self:planes(block)
    local img = image.public.image(self.format.name, self.width, self.height, self.given)
    local to = ffi.new("const gwb_mat *[4]")
    for i = 1, self.format.planes do
        to[i - 1] = img.planes[i]
    end
    check.status(C.gwb_copy_planes(to, from.pointers, self.format.planes, self.stream), op)
    return img
end

function Reader:close()
    if self.handle then
        C.gwb_video_close(ffi.gc(self.handle, nil))
        self.handle, self.blocks = nil, {}
    end
end

-- ---- writing

local their_tags = {
    range = {limited = "tv", full = "pc"},
    matrix = {bt601 = "smpte170m", gbr = "rgb"},
    transfer = {srgb = "iec61966-2-1", pq = "smpte2084", hlg = "arib-std-b67"},
    primaries = {["bt601-525"] = "smpte170m", ["bt601-625"] = "bt470bg", ["display-p3"] = "smpte432"},
}
local tag_options = {matrix = "-colorspace", range = "-color_range", siting = "-chroma_sample_location", transfer = "-color_trc",
                     primaries = "-color_primaries"}
local several = {m3u8 = true, mpd = true, ism = true}      -- what writes more files than one

local methods = {}
local Writer = {__index = methods, __name = "video writer"}
video.writer = methods

local function live(op, w)
    if getmetatable(w) ~= Writer then
        check.fail("BAD_ARGUMENT", op, "call it as a method of a video writer, got %s", check.show(w))
    end
    if w.closed then
        check.fail("CLOSED", op, "the writer of %s is closed", w.path)
    end
end

local function parse_fps(op, v)
    if type(v) == "string" then
        local top, bottom = v:match("^(%d+)[:/](%d+)$")
        if top and #v < 24 and tonumber(top) > 0 and tonumber(bottom) > 0 then
            return top .. "/" .. bottom
        end
    elseif type(v) == "number" and v > 0 and v <= 1e6 then
        return ("%.12g"):format(v)
    end
    return check.fail("BAD_ARGUMENT", op, 'fps must be frames a second, a number above 0 or a fraction as "30000/1001", got %s', check.show(v))
end

-- A name that ffmpeg gets as a word of its own.
local function parse_word(op, name, v)
    if type(v) ~= "string" or not v:find("^[%w_][%w_.:-]*$") then
        check.fail("BAD_ARGUMENT", op, "%s must be a name as ffmpeg has it (letters, digits, _ . : -), got %s", name, check.show(v))
    end
    return v
end

--- gpu.video_writer(path [, {fps=25, codec=, format=, container=, options=, matrix=, range=, siting=, transfer=, primaries=, sync=}]) -> writer.
-- out:write(img) encodes images of one size through ffmpeg, out:close() finishes the file: it is written beside the target and renamed then, so a writer
-- that is dropped or fails leaves nothing. codec and container: ffmpeg's names (default: by the extension); options: more of ffmpeg's, {crf = 18}.
-- format: the pixel format of the file (default: the first image's, and yuv420p for RGB); images of another format are converted on their device,
-- RGB with the matrix and range given here; ffmpeg itself converts nothing. Errors: BAD_ARGUMENT, UNSUPPORTED without ffmpeg, IO.
function public.video_writer(path, opts)
    local op = "gpu.video_writer"
    check.path(op, "path", path)
    opts = check.options(op, opts, {"fps", "codec", "format", "container", "options", "sync", unpack(tags)})
    local w = {path = path, frames = 0, fps = parse_fps(op, opts.fps == nil and 25 or opts.fps), extra = {}}
    local extension = path:match("%.(%w+)$")
    if opts.container ~= nil then
        w.container = parse_word(op, "container", opts.container)
    elseif not extension then
        check.fail("BAD_ARGUMENT", op, '%s has no extension that tells the kind of file: name one with container=, as "mp4" or "matroska"',
            check.show(path))
    elseif several[extension:lower()] then
        check.fail("UNSUPPORTED", op, ".%s is written as several files, and a writer makes one", extension)
    end
    w.ending = extension and "." .. extension or ""
    w.codec = opts.codec ~= nil and parse_word(op, "codec", opts.codec) or nil
    w.format = opts.format ~= nil and format.find(op, opts.format) or nil
    w.sync = check.boolean(op, "sync", opts.sync)
    for _, tag in ipairs(tags) do
        w[tag] = format.tag_name(tag, format.tag(op, tag, opts[tag]))
    end
    if opts.options ~= nil then
        if type(opts.options) ~= "table" then
            check.fail("BAD_ARGUMENT", op, "options must be a table of ffmpeg's options, as {crf = 18}, got %s", check.show(opts.options))
        end
        for key, value in pairs(opts.options) do
            parse_word(op, "an option's name", key)
            if type(value) ~= "number" and (type(value) ~= "string" or value:find("\0", 1, true)) then
                check.fail("BAD_ARGUMENT", op, "options.%s must be a string or a number, got %s", key, check.show(value))
            end
            w.extra[#w.extra + 1] = {key, tostring(value)}
        end
        table.sort(w.extra, function(a, b) return a[1] < b[1] end)
    end
    return setmetatable(w, Writer)
end

-- Starts ffmpeg for images like the first one.
local function start(op, w, img, f)
    w.format, w.width, w.height = f, img.width, img.height
    local meaning = {}
    for _, tag in ipairs(tags) do
        w[tag] = img[tag]
        if img[tag] ~= nil and (f.model == "yuv" or tag ~= "siting" and tag ~= "matrix") then
            meaning[#meaning + 1] = tag_options[tag]
            meaning[#meaning + 1] = (their_tags[tag] or {})[img[tag]] or img[tag]
        end
    end
    local words = {"ffmpeg", "-v", "error", "-f", "rawvideo", "-pix_fmt", f.name, "-video_size", w.width .. "x" .. w.height, "-framerate", w.fps}
    local function add(...)
        for _, word in ipairs {...} do
            words[#words + 1] = word
        end
    end
    add(unpack(meaning))
    add("-i", "pipe:0", "-map", "0:v", "-pix_fmt", "+" .. f.name)
    if w.codec then
        add("-c:v", w.codec)
    end
    add(unpack(meaning))
    for _, option in ipairs(w.extra) do
        add("-" .. option[1], option[2])
    end
    if w.container then
        add("-f", w.container)
    end
    add("-y")
    local out = ffi.new("gwb_video *[1]")
    local argv, keep = arguments(words)
    check.status(C.gwb_video_write(out, argv, advice, w.path, w.ending, f:bytes(w.width, w.height), 4), op)
    keep[1] = nil
    check.own(w, out[0], C.gwb_video_close)
end

local function release(w)
    w.closed = true
    check.disown(w, C.gwb_video_close)
end

-- A status of the program that was started; a failure ends the writer.
local function must(op, w, rc)
    if rc < 0 then
        local message, code = ffi.string(C.gwb_error_message()), ffi.string(C.gwb_status_name(rc))
        if message:find("is invalid or not supported", 1, true) or message:find("automatic conversion is disabled", 1, true) then
            message = message .. ("; the codec takes no %s: name a format= that it takes"):format(w.format.name)
        end
        release(w)
        check.fail(code, op, "%s", message)
    end
end

-- The image as the file shall have it: with its format, and what its numbers mean.
local function in_file_order(op, w, img, stream)
    local own = format.find(op, img.format)
    local f = w.format or (own.model == "rgb" and format.find(op, "yuv420p") or own)
    local to, differs = {}, img.format ~= f.name
    for _, tag in ipairs(tags) do
        to[tag] = w[tag]
        differs = differs or img[tag] ~= nil and w[tag] ~= nil and img[tag] ~= w[tag]
    end
    if differs then
        local opts = {stream = stream}
        if own.model == f.model then
            opts.to = to
        else
            opts.matrix, opts.range, opts.siting = w.matrix, w.range, w.siting
            opts.to = {transfer = w.transfer, primaries = w.primaries}
        end
        return img:convert(f.name, opts), f
    end
    local same = image.public.image_from(f.name, img.planes, {width = img.width, height = img.height})
    for _, tag in ipairs(tags) do
        same[tag] = img[tag] == nil and w[tag] or img[tag]
    end
    return same, f
end

--- out:write(img [, {stream=}]) -> out. Adds an image as a frame; all have the size of the first. Waits for its pixels, and while the encoder is behind by
-- four frames. An error of ffmpeg (a full disk, a size that the codec does not take) ends the writer; it may come some frames late. Errors: IO,
-- SHAPE for another size, BAD_ARGUMENT, CLOSED.
function methods:write(img, opts)
    local op = "video_writer:write"
    live(op, self)
    image.check(op, "the frame", img)
    image.fill(op, "the frame", img, ffi.new("gwb_image"))
    local stream = check.stream(op, check.options(op, opts, {"stream"}).stream)
    if self.handle and (img.width ~= self.width or img.height ~= self.height) then
        check.fail("SHAPE", op, "frame %d is %dx%d, and the video %dx%d: resize it first", self.frames, img.width, img.height, self.width, self.height)
    end
    local f
    img, f = in_file_order(op, self, img, stream)
    if not self.handle then
        if img.width < 1 or img.height < 1 then
            check.fail("SHAPE", op, "a frame of %dx%d pixels cannot be encoded", img.width, img.height)
        end
        start(op, self, img, f)
    end
    local block = ffi.new("uint8_t *[1]")
    must(op, self, C.gwb_video_room(self.handle, f:bytes(img.width, img.height), block))
    for i = 1, f.planes do
        local p = f:plane(i, img.width, img.height)
        check.status(C.gwb_download(ffi.cast(bytes_pointer, block[0]) + p.offset, p.step, img.planes[i], stream), op)
    end
    C.gwb_video_send(self.handle)
    self.frames = self.frames + 1
    return self
end

--- out:close(): waits until all frames are encoded, and puts the file in its place. Twice is harmless. Errors: IO with what ffmpeg says,
-- BAD_ARGUMENT where no frame was written.
function methods:close()
    local op = "video_writer:close"
    if getmetatable(self) ~= Writer then
        live(op, self)
    end
    if self.closed then
        return
    end
    self.closed = true
    if not self.handle then
        check.fail("BAD_ARGUMENT", op, "no frame was written to %s, so there is no video", self.path)
    end
    must(op, self, C.gwb_video_finish(self.handle, self.sync and 1 or 0))
    release(self)
end

function Writer:__tostring()
    return ("video writer %s, %d frames%s"):format(self.path, self.frames, self.closed and ", closed" or "")
end

return video
