-- SPDX-License-Identifier: MIT
-- JPEG on the device by nvJPEG, by FFI.
--
--     local gpu, nvjpeg = require "gpuwb", require "gpuwb.nvjpeg"
--     local picture = gpu.image_from("rgb24", {gpu.mat(64, 48, "u8x3", {device = "cuda", fill = {200, 120, 40}})})
--     local bytes = nvjpeg.encode(picture, {quality = 90, subsampling = "420"})        -- a string, the file
--     local img = nvjpeg.decode(bytes, {format = "rgb24", device = "cuda"})
--     local list = nvjpeg.decode_batch({bytes, bytes}, {device = "cuda"})
--     print(img, #list, img.planes[1]:at(10, 10))
--
-- YUV that comes out is bt601 of full range, as JPEG has it. An EXIF orientation is not applied. Every call waits for its result: nvJPEG reads the bytes
-- meanwhile.
local ffi = require "ffi"
local check = require "gpuwb.check"
local format = require "gpuwb.format"
local image = require "gpuwb.image"
local library = require "gpuwb.library"
local opening = require "gpuwb.nvjpeg_library"
local C = require("gpuwb.cdef").C

local nvjpeg = {}

local WHAT, open = opening.what, opening.open

local statuses = {
    "NVJPEG_STATUS_NOT_INITIALIZED", "NVJPEG_STATUS_INVALID_PARAMETER", "NVJPEG_STATUS_BAD_JPEG", "NVJPEG_STATUS_JPEG_NOT_SUPPORTED",
    "NVJPEG_STATUS_ALLOCATOR_FAILURE", "NVJPEG_STATUS_EXECUTION_FAILED", "NVJPEG_STATUS_ARCH_MISMATCH", "NVJPEG_STATUS_INTERNAL_ERROR",
    "NVJPEG_STATUS_IMPLEMENTATION_NOT_SUPPORTED", "NVJPEG_STATUS_INCOMPLETE_BITSTREAM",
}
local codes = {[3] = "BAD_FILE", [4] = "UNSUPPORTED", [5] = "OUT_OF_MEMORY", [9] = "UNSUPPORTED", [10] = "BAD_FILE"}

local function must(op, status, symbol, name)
    if status ~= 0 then
        check.fail(codes[status] or "DEVICE", op, "%snvJPEG: %s gave %s (%d)", name and name .. ": " or "", symbol,
            statuses[status] or "a status without a name", status)
    end
end

-- The device's handle, with a state for decoding.
local handle_on = library.per_device(function(op, position)
    local lib, out, state = open(op), ffi.new("void *[1]"), nil
    return library.run(op, position, {}, {}, nil, function()
        must(op, lib.nvjpegCreateSimple(out), "nvjpegCreateSimple")
        local handle = library.own(position, out[0], function(h)
            if state then
                lib.nvjpegJpegStateDestroy(state)
            end
            lib.nvjpegDestroy(h)
        end)
        must(op, lib.nvjpegJpegStateCreate(handle.handle, out), "nvjpegJpegStateCreate")
        state = out[0]
        handle.state = state
        return handle
    end)
end)

-- ---- decoding

local subsampled = {[0] = "yuv444p", "yuv422p", "yuv420p", "yuv440p", "yuv411p", "yuv410p", "gray"}
local outputs = {rgb24 = 5, bgr24 = 6, rgbp = 3, yuv = 1, gray = 2}
local decode_options = {"format", "device", "stream"}

-- What a JPEG holds, and the image for it.
local function prepare(op, handle, bytes, name, wanted, position)
    if type(bytes) ~= "string" then
        check.fail("BAD_ARGUMENT", op, "%s must be a string, a JPEG file's bytes, got %s", name, check.show(bytes))
    elseif bytes == "" then
        check.fail("BAD_FILE", op, "%s: no bytes", name)
    end
    local components, subsampling, widths, heights = ffi.new("int[1]"), ffi.new("int[1]"), ffi.new("int[4]"), ffi.new("int[4]")
    must(op, open(op).nvjpegGetImageInfo(handle.handle, bytes, #bytes, components, subsampling, widths, heights), "nvjpegGetImageInfo", name)
    local f = wanted
    if components[0] ~= 1 and components[0] ~= 3 then
        check.fail("UNSUPPORTED", op, "%s: a JPEG of %d components; read are gray and colour ones", name, components[0])
    elseif wanted == "yuv" then
        f = components[0] == 1 and "gray" or subsampled[subsampling[0]]
        if not f then
            check.fail("UNSUPPORTED", op, "%s: its chroma is subsampled in a way that no pixel format here has; ask for rgb24", name)
        end
    end
    local width, height = widths[0], heights[0]
    local pixels = require("gpuwb.files").public.limits().pixels
    if width < 1 or height < 1 or width * height > pixels then
        check.fail("LIMIT", op, "%s: %dx%d pixels are more than the limit of %.0f; gpu.limits{pixels=...} raises it", name, width, height, pixels)
    end
    local yuv = f ~= "rgb24" and f ~= "bgr24" and f ~= "rgbp"
    local img = image.public.image(f, width, height, {device = require("gpuwb.device").name(position), range = "full",
        matrix = yuv and f ~= "gray" and "bt601" or nil, siting = yuv and f ~= "gray" and "center" or nil})
    return img, wanted == "yuv" and f == "gray" and outputs.gray or outputs[wanted]
end

local function describe(img, out)
    for i, m in ipairs(img.planes) do
        out.channel[i - 1], out.pitch[i - 1] = m.data, m.step
    end
end

local function decoding(op, opts)
    opts = check.options(op, opts, decode_options)
    local stream = check.stream(op, opts.stream)
    local wanted = check.choice(op, "format", opts.format == nil and "rgb24" or opts.format, {"rgb24", "bgr24", "rgbp", "yuv", "gray"})
    local device = opts.device
    if device == nil and stream then
        device = stream.device
    end
    return wanted, library.named_device(op, WHAT, device), stream
end

--- nvjpeg.decode(bytes [, {format="rgb24", device=, stream=}]) -> image from a JPEG file's bytes. format: "rgb24", "bgr24", "rgbp" (planes), "yuv" (the
-- planes as the file has them: yuv420p, yuv444p, …, gray) or "gray" (its Y). Errors: BAD_FILE, UNSUPPORTED (a kind of JPEG that nvJPEG does not decode, no
-- nvJPEG, the host device), LIMIT (gpu.limits).
function nvjpeg.decode(bytes, opts)
    local op = "nvjpeg.decode"
    local wanted, position, stream = decoding(op, opts)
    local handle = handle_on(op, position)
    local img, output = prepare(op, handle, bytes, "the bytes", wanted, position)
    local out = ffi.new("gwb_nvjpeg_image")
    describe(img, out)
    library.run(op, position, {}, img.planes, stream, function(cuda_stream, s)
        must(op, open(op).nvjpegDecode(handle.handle, handle.state, bytes, #bytes, output, out, cuda_stream), "nvjpegDecode", "the bytes")
        check.status(C.gwb_stream_synchronize(s), op)
    end, handle)
    return img
end

--- nvjpeg.decode_batch({bytes, …} [, {format=, device=, stream=}]) -> list of images, decoded together. format as above without "yuv": one for all.
-- Errors as nvjpeg.decode; they name the file by its place in the list.
function nvjpeg.decode_batch(list, opts)
    local op = "nvjpeg.decode_batch"
    local wanted, position, stream = decoding(op, opts)
    if type(list) ~= "table" or getmetatable(list) ~= nil then
        check.fail("BAD_ARGUMENT", op, "wanted a list of strings, the files' bytes, got %s", check.show(list))
    elseif wanted == "yuv" then
        check.fail("UNSUPPORTED", op, 'format "yuv" differs from file to file: decode them one by one')
    end
    local n = #list
    if n == 0 then
        return {}
    end
    local handle, images = handle_on(op, position), {}
    local data, lengths, out = ffi.new("const uint8_t *[?]", n), ffi.new("size_t[?]", n), ffi.new("gwb_nvjpeg_image[?]", n)
    local planes = {}
    for i = 1, n do
        images[i] = prepare(op, handle, list[i], "file " .. i, wanted, position)
        data[i - 1], lengths[i - 1] = list[i], #list[i]
        describe(images[i], out[i - 1])
        for _, m in ipairs(images[i].planes) do
            planes[#planes + 1] = m
        end
    end
    library.run(op, position, {}, planes, stream, function(cuda_stream, s)
        must(op, open(op).nvjpegDecodeBatchedInitialize(handle.handle, handle.state, n, 1, outputs[wanted]), "nvjpegDecodeBatchedInitialize")
        must(op, open(op).nvjpegDecodeBatched(handle.handle, handle.state, data, lengths, out, cuda_stream), "nvjpegDecodeBatched")
        check.status(C.gwb_stream_synchronize(s), op)
    end, handle)
    return images
end

-- ---- encoding

local chroma = {["444"] = 0, ["422"] = 1, ["420"] = 2, ["440"] = 3, ["411"] = 4, ["410"] = 5, gray = 6}
local inputs = {rgb24 = 5, bgr24 = 6, rgbp = 3}
local yuv_inputs = {yuv444p = 0, yuv422p = 1, yuv420p = 2, yuv440p = 3, yuv411p = 4, yuv410p = 5, gray = 6}

--- nvjpeg.encode(img [, {quality=90, subsampling="420", stream=}]) -> string, a JPEG file. img: rgb24, bgr24, rgbp; or yuv444p, yuv422p, yuv420p, yuv440p,
-- yuv411p, yuv410p, gray as they are, which a JPEG holds as bt601 of full range: others are an error. subsampling, of RGB: "444", "422", "420", "440",
-- "411", "410" or "gray".
function nvjpeg.encode(img, opts)
    local op = "nvjpeg.encode"
    image.check(op, "the image", img)
    image.fill(op, "the image", img, ffi.new("gwb_image"))
    opts = check.options(op, opts, {"quality", "subsampling", "stream"})
    local stream = check.stream(op, opts.stream)
    local quality = opts.quality == nil and 90 or check.integer(op, "quality", opts.quality, 1, 100)
    local f, as_yuv = format.find(op, img.format).name, yuv_inputs[img.format]
    if not inputs[f] and not as_yuv then
        check.fail("UNSUPPORTED", op, 'nvJPEG encodes rgb24, bgr24, rgbp, gray and planar 8-bit YUV, not %s: convert first, as in img:convert("rgb24")', f)
    elseif as_yuv and (img.range == "limited" or f ~= "gray" and img.matrix ~= nil and img.matrix ~= "bt601") then
        check.fail("UNSUPPORTED", op, "a JPEG's YUV is bt601 of full range, and this is %s%s: convert first, as in "
            .. 'img:convert("%s", {to = {matrix = "bt601", range = "full"}})', img.matrix or "gray", img.range and " " .. img.range or "", f)
    elseif as_yuv and opts.subsampling ~= nil then
        check.fail("BAD_ARGUMENT", op, "subsampling is for RGB; %s has its own", f)
    elseif img.width < 1 or img.height < 1 or img.width > 65535 or img.height > 65535 then
        check.fail("SHAPE", op, "a JPEG has 1 to 65535 pixels a side, and the image is %dx%d", img.width, img.height)
    end
    local css = as_yuv or chroma[check.choice(op, "subsampling", opts.subsampling == nil and "420" or opts.subsampling,
        {"444", "422", "420", "440", "411", "410", "gray"})]
    local position = library.device(op, WHAT, img.planes)
    local handle, lib, source = handle_on(op, position), open(op), ffi.new("gwb_nvjpeg_image")
    describe(img, source)
    return library.run(op, position, img.planes, {}, stream, function(cuda_stream, s)
        local out = ffi.new("void *[1]")
        must(op, lib.nvjpegEncoderStateCreate(handle.handle, out, cuda_stream), "nvjpegEncoderStateCreate")
        local state = ffi.gc(out[0], lib.nvjpegEncoderStateDestroy)
        local ok, result = pcall(function()
            must(op, lib.nvjpegEncoderParamsCreate(handle.handle, out, cuda_stream), "nvjpegEncoderParamsCreate")
            local params = ffi.gc(out[0], lib.nvjpegEncoderParamsDestroy)
            must(op, lib.nvjpegEncoderParamsSetQuality(params, quality, cuda_stream), "nvjpegEncoderParamsSetQuality")
            must(op, lib.nvjpegEncoderParamsSetSamplingFactors(params, css, cuda_stream), "nvjpegEncoderParamsSetSamplingFactors")
            if as_yuv then
                must(op, lib.nvjpegEncodeYUV(handle.handle, state, params, source, css, img.width, img.height, cuda_stream), "nvjpegEncodeYUV")
            else
                must(op, lib.nvjpegEncodeImage(handle.handle, state, params, source, inputs[f], img.width, img.height, cuda_stream), "nvjpegEncodeImage")
            end
            local length = ffi.new("size_t[1]")
            must(op, lib.nvjpegEncodeRetrieveBitstream(handle.handle, state, nil, length, cuda_stream), "nvjpegEncodeRetrieveBitstream")
            check.status(C.gwb_stream_synchronize(s), op)
            local bytes = ffi.new("uint8_t[?]", math.max(tonumber(length[0]), 1))
            must(op, lib.nvjpegEncodeRetrieveBitstream(handle.handle, state, bytes, length, cuda_stream), "nvjpegEncodeRetrieveBitstream")
            check.status(C.gwb_stream_synchronize(s), op)
            lib.nvjpegEncoderParamsDestroy(ffi.gc(params, nil))
            return ffi.string(bytes, tonumber(length[0]))
        end)
        lib.nvjpegEncoderStateDestroy(ffi.gc(state, nil))
        if not ok then
            error(result, 0)
        end
        return result
    end, handle)
end

return nvjpeg
