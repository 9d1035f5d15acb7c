-- SPDX-License-Identifier: MIT
-- A decoded frame, whose planes lie packed in one array, taken apart on a stream, converted, and written as a picture.
local usage = [[
usage: gpuwb scripts/planes.lua [FRAME.npy|y4m|yuv|mp4|...] OUT.png [OPTION ...]     without FRAME a test card is made; of a video the first one
  --format F              pixel format of an npy or yuv frame (yuv420p)
  --width W --height H    size of a yuv frame
  --matrix M --range R    what the numbers mean (bt601, limited)
  --wrong-split           also takes the chroma apart by columns, explains what that copy reads, and writes the right picture, the wrong one
                          and their difference (x 4) side by side
]]
local gpu = require "gpuwb"
local ffi = require "ffi"

local arguments = dofile((arg[0]:match("^.*/") or "") .. "arguments.lua")

local function give_up(text, ...)
    if not text then        -- --help
        io.write(usage)
        os.exit(0)
    end
    io.stderr:write("planes.lua: ", text:format(...), "\n", usage)
    os.exit(2)
end

-- The packed frame as a mat, its format, size and tags.
local function load_frame(path, opts)
    local format, tags = opts.format or "yuv420p", {}
    local width, height = tonumber(opts.width), tonumber(opts.height)
    local frame
    if not path then
        local card = dofile((arg[0]:match("^.*/") or "") .. "testcard.lua")
        width, height, tags = width or 600, height or 400, card.tags
        frame = card.frame(width, height)
    elseif path:find("%.y4m$") or not path:find("%.npy$") and not path:find("%.yuv$") and not width then
        local frames = gpu.frames(path)     -- a y4m, or a video
        local img = frames()                -- its planes come apart already: pack them, as a decoder would
        frames:close()
        if opts.wrong_split and img.format == "nv12" then       -- NVDEC's; the mistake is one with planes
            img = img:convert("yuv420p")
        end
        format, width, height, tags.matrix, tags.range, tags.siting = img.format, img.width, img.height, img.matrix, img.range, img.siting
        frame = gpu.mat(gpu.format(format):bytes(width, height), 1, "u8")
        gpu.copy(frame:planes(format, width, height), img)
    elseif path:find("%.npy$") then
        frame = gpu.load(path)
        width, height = width or frame.width, height or frame.height * 2 / 3    -- a 4:2:0 frame has half as much chroma as luma
    elseif width and height then
        frame = gpu.load_raw(path, "gray", gpu.format(format):bytes(width, height), 1, {frame = 0}).planes[1]
    else
        give_up("%s: a raw frame wants --width and --height", path)
    end
    tags.matrix, tags.range = opts.matrix or tags.matrix, opts.range or tags.range
    if not tags.matrix or not tags.range then
        tags.matrix, tags.range = tags.matrix or "bt601", tags.range or "limited"
        print(("taking it as %s, %s range; --matrix and --range say otherwise"):format(tags.matrix, tags.range))
    end
    return frame, format, width, height, tags
end

-- The job: each plane to a place of its own, on a stream, then to RGB.
local function convert(frame, format, width, height, tags)
    local stream = gpu.stream()
    local packed = frame:planes(format, width, height)
    local img = gpu.image(format, width, height, tags)
    for i, plane in ipairs(packed.planes) do
        gpu.copy(img.planes[i], plane, {stream = stream})
    end
    return img:convert("rgb24", {stream = stream})
end

-- The same with the mistake: the chroma rows of the frame are split by columns, as if U and V lay side by side in them.
local function convert_wrongly(frame, width, height, tags)
    if width % 2 ~= 0 or height % 4 ~= 0 then
        give_up("--wrong-split wants an even width and a height that 4 divides: else the frame has no whole rows of chroma to split")
    end
    local stream = gpu.stream()
    local img = gpu.image("yuv420p", width, height, tags)
    local rows = frame:reshape(width, height * 3 / 2)
    gpu.copy(img.planes[1], rows:rows(0, height), {stream = stream})
    local halves = rows:rows(height, height / 2):split(width / 2, "cols")
    for i, half in ipairs(halves) do
        local copy = {dst = img.planes[i + 1], src = half.data, src_step = width / 2, width = width / 2, height = height / 2, stream = stream}
        if i == 2 then
            print((gpu.explain_copy(copy)))
        end
        local before = gpu.checks("off")    -- it is meant to go wrong, once
        gpu.copy2d(copy)
        gpu.checks(before)
    end
    return img:convert("rgb24", {stream = stream})
end

-- Right, wrong, and four times their difference, side by side.
local function side_by_side(right, wrong)
    local width, height = right.width, right.height
    local wide = gpu.mat(3 * width, height, "u8x3")
    gpu.copy(wide:cols(0, width), right.planes[1])
    gpu.copy(wide:cols(width, width), wrong.planes[1])
    local bytes = 3 * width * height
    local a, b = ffi.new("uint8_t[?]", bytes), ffi.new("uint8_t[?]", bytes)
    right.planes[1]:download(a)
    wrong.planes[1]:download(b)
    for i = 0, bytes - 1 do
        a[i] = math.min(4 * math.abs(a[i] - b[i]), 255)
    end
    wide:cols(2 * width, width):upload(a)
    return wide
end

local values = {format = true, width = true, height = true, matrix = true, range = true}
local opts, files = arguments.read(values, {["wrong-split"] = true}, give_up)
if #files < 1 or #files > 2 then
    give_up("want a file to write, and at most one to read")
end
local path, out = files[2] and files[1], files[#files]
local frame, format, width, height, tags = arguments.try(load_frame, path, opts)
local picture = arguments.try(convert, frame, format, width, height, tags)
if opts["wrong-split"] then
    if format ~= "yuv420p" then
        give_up("--wrong-split wants a yuv420p frame, this is %s", format)
    end
    picture = side_by_side(picture, convert_wrongly(frame, width, height, tags))
end
arguments.try(gpu.save, picture, out)
print(("%s: %d x %d %s on %s"):format(out, width, height, format, gpu.device()))
