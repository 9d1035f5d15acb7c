-- SPDX-License-Identifier: MIT
-- Frames of a video through libav (gpuwb_av.so): decoded by NVDEC into the memory of a cuda device, or on the host.
local ffi = require "ffi"
local core = require "gpuwb.core"
local check = require "gpuwb.check"
local device = require "gpuwb.device"
local format = require "gpuwb.format"
local image = require "gpuwb.image"
local pipe = require "gpuwb.pipe"
local C = require("gpuwb.cdef").C

local decoder = {}

local new_mat = require("gpuwb.live").scoped(core.mat.new)
local tags = format.tags

-- What a plane goes through to be shown as EXIF's orientation says.
local turns = {
    [2] = function(p) return p:flip("horizontal") end, [3] = function(p) return p:rotate(180) end, [4] = function(p) return p:flip("vertical") end,
    [5] = function(p) return p:transpose() end, [6] = function(p) return p:rotate(90) end,
    [7] = function(p) return p:transpose():rotate(180) end, [8] = function(p) return p:rotate(270) end,
}

-- Codecs whose standards leave the inverse transform open by a step: NVDEC's pixels are not those of the host's decoders.
local inexact = {mpeg1video = true, mpeg2video = true, mpeg4 = true, mjpeg = true}

local Reader = {}
Reader.__index = Reader

local function message()
    return ffi.string(C.gwb_error_message())
end

local function known(name)
    return C.gwb_format_find(name, nil, nil) >= 0
end

-- Raises LIMIT where a frame is larger than allowed. Of a format that is not known the pixels alone are looked at.
local function check_size(op, path, name, width, height, params)
    local bytes = known(name) and format.find(op, name):bytes(width, height) or 0
    if width * height > tonumber(params.max_pixels) or bytes > tonumber(params.max_bytes) then
        check.fail("LIMIT", op, "%s: a frame of %s %dx%d takes %.0f bytes, and the limits are %.0f pixels and %.0f bytes; gpu.limits{pixels=..., bytes=...} "
            .. "raises them", path, name, width, height, bytes, tonumber(params.max_pixels), tonumber(params.max_bytes))
    end
end

-- Opens the video one way, or gives nil and why that way does not take it, which another may. All else is raised.
local function open(op, path, opts, params, position, stream, nvdec, again)
    local p, info, first = ffi.new("gwb_decoder_params"), ffi.new("gwb_decoder_info"), ffi.new("gwb_picture")
    local out = ffi.new("gwb_decoder *[1]")
    p.path, p.max_pixels, p.frame, p.device, p.lenient = path, params.max_pixels, params.frame, position, params.lenient
    p.nvdec = nvdec and 1 or 0
    local function must(rc)
        local code = rc < 0 and ffi.string(C.gwb_status_name(rc))
        if code == "UNSUPPORTED" then
            return nil, message()
        elseif code then
            check.fail(code, op, "%s: %s", path, message())
        end
        return true
    end
    local ok, why = must(C.gwb_decoder_open(out, p, info))
    if not ok then
        return nil, why
    end
    local self = check.own(setmetatable({op = op, path = path, stream = stream, position = position, by = nvdec and "nvdec" or "libav",
                                         codec = ffi.string(info.codec)}, Reader), out[0], C.gwb_decoder_close)
    if nvdec and opts.by == nil and inexact[self.codec] then
        self:close()
        return nil, ('NVDEC decodes %s to other bits than the host, so it wants by = "nvdec"'):format(self.codec)
    end
    check_size(op, path, ffi.string(info.format), info.width, info.height, params)
    device.collect_due()
    local rc = C.gwb_decoder_begin(self.handle, first)
    if not again and ffi.string(C.gwb_status_name(rc)) == "OUT_OF_MEMORY" then
        self:close()
        device.collect(0)
        return open(op, path, opts, params, position, stream, nvdec, true)
    end
    ok, why = must(rc)
    local name = ffi.string(first.format)
    if ok and not known(name) then
        ok, why = nil, ("its pixel format %s is none of gpuwb's"):format(name)
    end
    local f = ok and format.find(op, name)
    self.turn = opts.orient ~= false and info.turn or 1
    if ok and self.turn == 0 then
        ok, why = nil, "the file asks for a turn by no multiple of 90 degrees (orient = false gives it as it is stored)"
    end
    if ok and self.turn ~= 1 and self.turn ~= 4 and f.group > 1 then
        ok, why = nil, ("the file asks for a turn, and a pixel of %s is several of the picture"):format(f.name)
    end
    if not ok then
        self:close()
        return nil, why
    end
    check_size(op, path, f.name, first.width, first.height, params)
    if self.turn > 4 and f.subsampling[1] ~= f.subsampling[2] then
        self:close()
        check.fail("UNSUPPORTED", op, "%s: %s cannot be turned by a quarter, as the file asks, without a conversion: orient = false gives it as it is "
            .. "stored", path, f.name)
    end
    self.format, self.width, self.height, self.first, self.opts = f, first.width, first.height, tonumber(params.frame), opts
    self.picture, self.pointers = first, ffi.new("gwb_mat *[4]")
    return self
end

-- Opens the video for gpu.frames, whose options are checked: by NVDEC where the frames are for a cuda device and it takes them, else on the host. nil
-- and a sentence where libav does not take the file as `by` says, or cannot do so here.
function decoder.open(op, path, opts, params, position, stream)
    local by, reader, why = opts.by, nil, nil
    if by == "nvdec" or by == nil and position > 0 then
        reader, why = open(op, path, opts, params, position, stream, true)
    end
    if not reader and by ~= "nvdec" then
        local no_nvdec = why
        reader, why = open(op, path, opts, params, position, stream, false)
        if reader and no_nvdec then
            C.gwb_decoder_say(("%s: %s; decoded on the host"):format(path, no_nvdec))
        end
    end
    return reader, why
end

-- The next frame as a new image; nil at the end.
function Reader:next()
    local op, picture, pointers = self.op, self.picture, self.pointers
    local planes, count = {}, 0
    for i = 1, self.format.planes do
        planes[i] = new_mat()
        pointers[i - 1] = planes[i]
    end
    device.allocate(op, self.position, function()
        count = C.gwb_decoder_next(self.handle, self.stream, picture, pointers)
        return ffi.string(C.gwb_status_name(count)) == "OUT_OF_MEMORY" and count or 0
    end)
    if count < 0 then
        check.fail(ffi.string(C.gwb_status_name(count)), op, "%s: %s", self.path, message())
    elseif count == 0 then
        if picture.frames == 0 then
            check.fail("BAD_ARGUMENT", op, "%s: no frame %d; frames count from 0", self.path, self.first)
        end
        return nil
    end
    local f, width, height = self.format, self.width, self.height
    local turn = turns[self.turn]
    if turn then
        for i, stored in ipairs(planes) do
            planes[i] = turn(pipe.public.pipe())(stored, {stream = self.stream})
            stored:close()
        end
        if self.turn > 4 then
            width, height = height, width
        end
    end
    local given = {width = width, height = height}
    for _, tag in ipairs(tags) do
        local said = ffi.string(picture[tag])
        given[tag] = self.opts[tag] == nil and said ~= "" and said or self.opts[tag]
    end
    if f.model == "rgb" then
        given.matrix, given.siting = self.opts.matrix, self.opts.siting
    end
    if given.range == nil then
        given.range = format.find(op, ffi.string(picture.format)).range
    end
    return image.public.image_from(f.name, planes, given)
end

function Reader:close()
    check.disown(self, C.gwb_decoder_close)
end

return decoder
