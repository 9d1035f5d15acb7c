-- SPDX-License-Identifier: MIT
-- Conversions between pixel formats against the double-precision reference, for every ordered pair on every device at hand.
local gpu = require "gpuwb"
local ffi = require "ffi"
local helper = require "tests.helper"
local reference = require "tests.reference"

local sizes = {{17, 9}, {3, 5}, {1, 1}, {2, 2}, {5, 2}, {1, 7}, {8, 1}, {4, 4}, {13, 3}, {6, 6}}
local matrices = {"bt601", "bt709", "bt2020nc", "smpte240m", "fcc", "ycgco"}
local ranges = {"limited", "full"}
local sitings = {"left", "center", "topleft", "top", "bottomleft", "bottom"}

-- Random bytes for a plane; floats are random numbers in -0.25..1.25, since random bits are seldom a picture.
local function random_plane(f, bytes, seed)
    if not f.float then
        return helper.bytes(bytes, seed)
    end
    local random, wide = helper.random(seed), f.depth.R == 32 or f.depth.Y == 32
    local n = wide and bytes / 4 or bytes / 2
    local out = ffi.new(wide and "float[?]" or "uint16_t[?]", math.max(n, 1))
    for i = 0, n - 1 do
        local value = random(1536) / 1024 - 0.25
        if wide then
            out[i] = value
        else    -- a half: sign, and a magnitude from subnormals to 1.25
            out[i] = random(2) * 32768 + random(4) % 2 * 15360 + random(256)
        end
    end
    return ffi.string(out, bytes)
end

-- A picture in that format with random bytes: the image, and the codes in it.
local function random_image(name, width, height, tags, seed)
    local f, strings, planes = reference.formats[name], {}, {}
    local info = gpu.format(name)
    for i = 1, #f.planes do
        strings[i] = random_plane(f, reference.plane_bytes(name, i, width, height), seed + i)
        local p = info:plane(i, width, height)
        planes[i] = gpu.mat(p.width, p.height, p.type):upload(strings[i])
    end
    local img = gpu.image_from(name, planes, {width = width, height = height, matrix = tags.matrix, range = tags.range, siting = tags.siting})
    return img, reference.decode(name, width, height, strings)
end

local function download(img)
    local strings = {}
    for i, m in ipairs(img.planes) do
        strings[i] = m:download()
    end
    return strings
end

-- Converts, and compares with the reference; returns the distance from the exact value, samples and right ones.
local function try(src, codes, name, to, opts)
    local all = {to = to}
    for k, v in pairs(opts or {}) do all[k] = v end
    local img = src:convert(name, all)
    local got = reference.decode(name, src.width, src.height, download(img), function(text)
        error(("%s to %s: %s"):format(src.format, name, text), 2)
    end)
    local exact = reference.convert({
        format = src.format, width = src.width, height = src.height, c = codes, matrix = src.matrix, range = src.range, siting = src.siting,
    }, {format = name, matrix = img.matrix, range = img.range, siting = img.siting},
        {nearest = all.chroma == "nearest", background = all.background})
    return reference.compare(name, got, exact)
end

-- The largest distance from the exact value that float32 arithmetic explains, half a step of rounding included.
local function tolerance(name)
    local f = reference.formats[name]
    local depth = f.depth.G or f.depth.Y
    if f.float then
        return depth == 16 and 2 ^ -11 * 1.01 or 2e-6
    end
    return 0.5 + 4e-6 * 2 ^ depth
end

local function rotate(list, i)
    return list[i % #list + 1]
end

-- Tags for a side: what the format may carry, chosen by i.
local function tags_for(name, i)
    local f = reference.formats[name]
    local tags = {range = f.float and "full" or rotate(ranges, math.floor(i / 3))}
    if f.model ~= "rgb" then
        tags.matrix = rotate(matrices, i)
        if f.model == "yuv" and f.w == 1 and f.h == 1 and i % 7 == 0 then
            tags.matrix = "gbr"
        end
    else
        tags.matrix = nil
    end
    if f.w > 1 or f.h > 1 then
        tags.siting = rotate(sitings, math.floor(i / 5))
    end
    return tags
end

local sources, destinations = {}, {}
for _, name in ipairs((gpu.formats())) do
    if gpu.format(name).model ~= "bayer" then
        sources[#sources + 1], destinations[#destinations + 1] = name, name
    end
end

helper.each_device(function(device)
    describe("every format to every format", function()
        local samples, right, worst = 0, 0, 0
        teardown(function()
            print(("\n%s: %d samples, %.4f %% exactly the rounded exact value; integers are off by at most %.6f steps before rounding"):format(device,
                samples, 100 * right / math.max(samples, 1), worst - 0.5))
        end)
        for s, from in ipairs(sources) do
            it("from " .. from, function()
                for k = 1, 2 do
                    -- a large size for every pair, and small ones by turns
                    local size = k == 1 and sizes[1] or rotate(sizes, s)
                    local src, codes = random_image(from, size[1], size[2], tags_for(from, s * 5 + k), s * 100 + k)
                    for d, to in ipairs(destinations) do
                        local tags = tags_for(to, s + d * 11 + k)
                        local model = reference.formats[from].model
                        if model == "yuv" and reference.formats[to].model == "yuv" and d % 3 == 0 and not (src.matrix == "gbr") then
                            tags.matrix = src.matrix        -- often the same, where chroma is carried over
                        end
                        local distance, n, ok = try(src, codes, to, tags, {chroma = (s + d) % 4 == 0 and "nearest" or nil})
                        assert(distance <= tolerance(to), ("%s to %s (%s), %d x %d: off by %g"):format(tostring(src), to,
                            table.concat({tags.matrix or "-", tags.range, tags.siting or "-"}, " "), size[1], size[2], distance))
                        samples, right = samples + n, right + ok
                        if not reference.formats[to].float then worst = math.max(worst, distance) end
                    end
                end
            end)
        end
    end)
end)
