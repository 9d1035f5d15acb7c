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
    return img, reference.decode(name, width, height, strings), strings
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
    sources[#sources + 1] = name
    if gpu.format(name).model ~= "bayer" then
        destinations[#destinations + 1] = name
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
                        if model == "yuv" and reference.formats[to].model == "yuv" and d % 3 == 0 and src.matrix ~= "gbr" then
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

    it("the kernel of tiles gives the bits of the general one", function()
        local convert = require("gpuwb.image").convert
        local tiled, compared = {}, 0
        for s, from in ipairs(sources) do
            for k, size in ipairs {{33, 11}, {12, 6}, {3, 1}} do
                local src = random_image(from, size[1], size[2], tags_for(from, s * 5 + k), s * 100 + k)
                for d, to in ipairs(destinations) do
                    local opts = {to = tags_for(to, s + d * 11 + k), chroma = (s + d) % 4 == 0 and "nearest" or nil}
                    if k < 3 and opts.to.siting then
                        opts.to.siting = src.siting or ({"left", "center"})[k]
                    end
                    local ok, img = pcall(convert, src, to, opts, 2)
                    if ok then
                        assert.same(download(convert(src, to, opts, 1)), download(img), tostring(src) .. " to " .. tostring(img))
                        tiled[from .. " " .. to], compared = true, compared + 1
                    else
                        assert.equal("UNSUPPORTED", img.code, tostring(img))
                    end
                end
            end
        end
        for _, from in ipairs {"nv12", "yuv420p", "yuv444p", "p010le", "rgb24", "rgba", "gbrp", "rgbpf32le"} do
            for _, to in ipairs {"nv12", "yuv420p", "yuv444p", "p010le", "rgb24", "rgba", "gbrp", "rgbpf32le", "gray"} do
                assert.is_true(tiled[from .. " " .. to], from .. " to " .. to .. " is not done in tiles")
            end
        end
        assert.is_true(compared > 2000)
    end)

    -- A picture of one colour: planes filled with these numbers.
    local function flat(name, width, height, values, tags)
        local img = gpu.image(name, width, height, tags)
        for i, m in ipairs(img.planes) do
            m:fill(values[i])
        end
        return img
    end

    local function rgb_of(img, opts)
        local r = img:convert("rgb24", opts)
        return {r.planes[1]:at(r.width - 1, r.height - 1)}
    end

    describe("right values", function()
        it("of RGB to YUV", function()
            local wanted = {
                bt601 = {{81, 90, 240}, {145, 54, 34}, {41, 240, 110}}, bt709 = {{63, 102, 240}, {173, 42, 26}, {32, 240, 118}},
            }
            for matrix, rows in pairs(wanted) do
                for i, colour in ipairs {{255, 0, 0}, {0, 255, 0}, {0, 0, 255}} do
                    local yuv = flat("rgb24", 3, 3, {colour}):convert("yuv444p", {matrix = matrix, range = "limited"})
                    assert.same(rows[i], {yuv.planes[1]:at(2, 2), yuv.planes[2]:at(2, 2), yuv.planes[3]:at(2, 2)})
                    local nv12 = flat("rgb24", 3, 3, {colour}):convert("nv12", {matrix = matrix, range = "limited"})
                    assert.same(rows[i], {nv12.planes[1]:at(2, 2), nv12.planes[2]:at(1, 1)})
                end
            end
            local yellow = flat("rgb24", 1, 1, {{191, 191, 0}}):convert("yuv444p", {matrix = "bt601", range = "limited"})   -- Y10
            assert.same({161, 44, 142}, {yellow.planes[1]:at(0, 0), yellow.planes[2]:at(0, 0), yellow.planes[3]:at(0, 0)})
            local white = flat("rgb24", 1, 1, {{255, 255, 255}}):convert("yuv444p", {matrix = "bt601", range = "limited"})
            assert.same({235, 128, 128}, {white.planes[1]:at(0, 0), white.planes[2]:at(0, 0), white.planes[3]:at(0, 0)})
        end)

        it("of YUV to RGB in each matrix and range (Y9)", function()
            for _, row in ipairs {
                {"bt601", "limited", {213, 54, 21}}, {"bt709", "limited", {227, 68, 18}}, {"bt2020nc", "limited", {219, 58, 16}},
                {"bt601", "full", {201, 62, 33}}, {"bt709", "full", {213, 73, 29}},
            } do
                assert.same(row[3], rgb_of(flat("yuv444p", 2, 2, {100, 90, 200}, {matrix = row[1], range = row[2]})))
                assert.same(row[3], rgb_of(flat("nv12", 5, 3, {100, {90, 200}}), {matrix = row[1], range = row[2]}))
            end
        end)

        it("of odd sizes (Y1)", function()
            local rgb = flat("nv12", 5, 3, {235, 128}, {matrix = "bt601", range = "limited"}):convert("rgb24")
            assert.equal(("\255"):rep(45), rgb.planes[1]:download())
        end)

        it("of the order of U and V (Y6)", function()
            assert.same({254, 0, 0}, rgb_of(flat("nv12", 2, 2, {81, {90, 240}}), {matrix = "bt601", range = "limited"}))
            assert.same({15, 63, 255}, rgb_of(flat("nv21", 2, 2, {81, {90, 240}}), {matrix = "bt601", range = "limited"}))
        end)

        it("of full range against limited (Y7)", function()
            for _, row in ipairs {{16, 16, 0}, {235, 235, 255}, {126, 126, 128}} do
                assert.same({row[2], row[2], row[2]}, rgb_of(flat("yuv420p", 2, 2, {row[1], 128, 128}), {matrix = "bt601", range = "full"}))
                assert.same({row[3], row[3], row[3]}, rgb_of(flat("yuv420p", 2, 2, {row[1], 128, 128}), {matrix = "bt601", range = "limited"}))
            end
        end)

        it("of gray there and back (Y11)", function()
            local yuv = flat("rgb24", 1, 1, {{128, 128, 128}}):convert("yuv420p", {matrix = "bt709", range = "limited"})
            assert.equal(126, yuv.planes[1]:at(0, 0))
            assert.same({128, 128, 128}, rgb_of(yuv))
        end)

        it("of values in the high bits (Y12)", function()
            for _, word in ipairs {60160, 60160 + 63} do
                assert.same({255, 255, 255}, rgb_of(flat("p010le", 2, 2, {word, 32768}), {matrix = "bt601", range = "limited"}))
            end
            assert.same({255, 255, 255}, rgb_of(flat("yuv420p10le", 2, 2, {940, 512, 512}), {matrix = "bt601", range = "limited"}))
            local p010 = flat("gray", 3, 3, {255}):convert("p010le", {range = "limited"})
            assert.equal(60160, p010.planes[1]:at(2, 2))
            assert.same({32768, 32768}, {p010.planes[2]:at(1, 1)})
        end)

        it("of chroma between samples (Y15)", function()
            local yuv = flat("yuv422p", 4, 1, {0, 0, 128}, {matrix = "bt601", range = "full"})
            yuv.planes[2]:upload {0, 100}
            local function row(siting, chroma)
                yuv.siting = siting
                return yuv:convert("yuv444p", {chroma = chroma}).planes[2]:totable()[1]
            end
            assert.same({0, 50, 100, 100}, row("left"))
            assert.same({0, 25, 75, 100}, row("center"))
            assert.same({0, 0, 100, 100}, row("left", "nearest"))
        end)

        it("of depth: x256 for limited YUV, x257 for RGB", function()
            local yuv = flat("yuv420p", 2, 2, {235, 16, 240}, {range = "limited"}):convert("yuv420p16le")
            assert.same({235 * 256, 16 * 256, 240 * 256}, {yuv.planes[1]:at(0, 0), yuv.planes[2]:at(0, 0), yuv.planes[3]:at(0, 0)})
            assert.same({51400, 257, 65535}, {flat("rgb24", 1, 1, {{200, 1, 255}}):convert("rgb48le").planes[1]:at(0, 0)})
        end)

        it("of floats that are none", function()
            local rgb = gpu.image("rgbf32le", 4, 1)
            rgb.planes[1]:upload {0 / 0, 1e30, -1e30, 1 / 0, -1 / 0, 0.5, 1, 0, 2, -0.5, 0.25, 0.75}
            local codes = rgb:convert("rgb24").planes[1]:totable()[1]
            assert.same({{0, 255, 0}, {255, 0, 128}, {255, 0, 255}, {0, 64, 191}}, codes)
        end)
    end)

    describe("round trips keep every code", function()
        local function same_bytes(a, b)
            for i = 1, #a.planes do
                assert.equal(a.planes[i]:download(), b.planes[i]:download())
            end
        end
        for _, row in ipairs {
            {"gray", "gray16le"}, {"gray", "grayf32le"}, {"gray", "grayf16le"}, {"gray16le", "grayf32le"}, {"rgb24", "gbrp"}, {"rgb24", "bgra"},
            {"rgb24", "rgbf16le"}, {"rgb48le", "gbrp16le"}, {"rgb24", "x2rgb10le"}, {"nv12", "yuv420p"}, {"nv21", "yuv420p"},
            {"p010le", "yuv420p10le"},
            {"yuyv422", "nv16"}, {"v210", "yuv422p10le"}, {"y210le", "p210le"}, {"yuv444p16le", "yuv444p16le"}, {"yuv420p", "yuv420p16le"},
            {"yuv411p", "yuv411p12le"}, {"vuya", "yuva444p"}, {"xv30le", "yuv444p10le"}, {"rgba", "rgba64le"},
        } do
            it(row[1] .. " by way of " .. row[2], function()
                local f = reference.formats[row[1]]
                local tags = f.model == "yuv" and {range = "limited", matrix = "bt709", siting = "center"} or {}
                local img = random_image(row[1], 37, 19, tags, 7):convert(row[1])   -- once through itself, for what lies beside the samples
                same_bytes(img, img:convert(row[2]):convert(row[1]))
            end)
        end

        it("gray by way of yuv and of rgb", function()
            local img = random_image("gray", 37, 19, {}, 8)
            same_bytes(img, img:convert("nv12", {range = "full"}):convert("gray"))
            same_bytes(img, img:convert("rgb24"):convert("gray", {matrix = "bt709"}))
        end)

        it("codes of yuv whose range nobody knows", function()
            local img = random_image("nv12", 37, 19, {}, 9)
            same_bytes(img, img:convert("yuv420p"):convert("nv12"))
        end)

        it("of 8-bit RGB through 16-bit YUV 4:4:4, whatever the matrix", function()
            local img = random_image("rgb24", 37, 19, {}, 10)
            for _, matrix in ipairs {"bt601", "bt709", "bt2020nc", "smpte240m", "fcc", "ycgco", "gbr"} do
                for _, range in ipairs(ranges) do
                    same_bytes(img, img:convert("yuv444p16le", {matrix = matrix, range = range}):convert("rgb24"))
                end
            end
        end)
    end)

    describe("a mosaic", function()
        it("is taken apart by either method", function()
            for _, order in ipairs {"rggb8", "bggr16le", "gbrg8", "grbg16le"} do
                for s, size in ipairs {{17, 9}, {2, 2}, {1, 1}, {3, 2}, {1, 5}} do
                    for _, method in ipairs {"malvar", "bilinear"} do
                        local src, _, strings = random_image("bayer_" .. order, size[1], size[2], {}, s)
                        local codes = reference.demosaic("bayer_" .. order, size[1], size[2], strings[1], method)
                        for _, to in ipairs {"rgb24", "rgb48le", "nv12", "gray", "rgbpf32le"} do
                            local tags = reference.formats[to].model ~= "rgb" and {matrix = "bt709", range = "full"} or {}
                            local distance = try(src, codes, to, tags, {demosaic = method})
                            assert(distance <= tolerance(to), ("%s %s to %s, size %d: off by %g"):format(order, method, to, s, distance))
                        end
                    end
                end
            end
        end)

        it("of one colour is that colour", function()
            local img = flat("bayer_grbg8", 9, 7, {0})
            local row1, row2 = {20, 10, 20, 10, 20, 10, 20, 10, 20}, {30, 20, 30, 20, 30, 20, 30, 20, 30}
            for y = 0, 6 do img.planes[1]:row(y):upload(y % 2 == 0 and row1 or row2) end
            for _, method in ipairs {"malvar", "bilinear"} do
                assert.equal(("\10\20\30"):rep(63), img:convert("rgb24", {demosaic = method}).planes[1]:download())
            end
        end)

        it("is nothing to convert to", function()
            helper.raises("UNSUPPORTED", "mosaic", function() flat("rgb24", 2, 2, {0}):convert("bayer_rggb8") end)
        end)
    end)

    describe("dither", function()
        it("keeps the mean where depth falls, and stays within a step", function()
            for _, kind in ipairs {"ordered", "blue-noise"} do
                for _, row in ipairs {{"gray16le", 257 * 100 + 64, "gray", 100 + 64 / 257}, {"grayf32le", 0.3, "gray", 76.5}} do
                    local img = flat(row[1], 64, 64, {row[2]}):convert(row[3], {dither = kind})
                    local sum = 0
                    for _, line in ipairs(img.planes[1]:totable()) do
                        for _, v in ipairs(line) do
                            assert(math.abs(v - row[4]) < 1, v)
                            sum = sum + v
                        end
                    end
                    assert(math.abs(sum / 4096 - row[4]) < 0.01, sum / 4096)
                end
            end
        end)

        it("of the ordered kind has each of its 64 thresholds once in 8x8", function()
            for k = 0, 63 do
                local bytes = flat("grayf32le", 8, 8, {(100 + k / 64) / 255}):convert("gray", {dither = "ordered"}).planes[1]:download()
                assert.equal(k, select(2, bytes:gsub("\101", "")))
            end
        end)

        it("is the same for all components, and everywhere", function()
            for _, kind in ipairs {"ordered", "blue-noise"} do
                local img = flat("rgb48le", 997, 3, {{30000, 30000, 30000}}):convert("rgb24", {dither = kind})
                local bytes = img.planes[1]:download()
                for at = 1, #bytes, 3 do
                    assert(bytes:byte(at) == bytes:byte(at + 1) and bytes:byte(at) == bytes:byte(at + 2))
                end
                for x = 0, 992 - 64, 31 do
                    assert.equal(img.planes[1]:at(x, 2), (img.planes[1]:at(x + 64, 2)))
                end
            end
        end)

        it("changes nothing where depth does not fall", function()
            local img = random_image("nv12", 33, 9, {matrix = "bt709", range = "limited"}, 3)
            for _, to in ipairs {"rgb24", "yuv420p", "rgb48le"} do
                assert.same(download(img:convert(to)), download(img:convert(to, {dither = "ordered"})))
            end
        end)

        it("leaves what is exact as it is", function()
            local img = random_image("yuv420p", 33, 9, {range = "limited"}, 3)
            for _, kind in ipairs {"ordered", "blue-noise"} do
                assert.same(download(img), download(img:convert("yuv420p16le"):convert("yuv420p", {dither = kind})))
            end
        end)

        it("works in every format that can fall", function()
            for _, to in ipairs(destinations) do
                if not reference.formats[to].float then
                    local img, codes = random_image("rgbf32le", 33, 9, {}, 5)
                    local made = img:convert(to, {dither = "blue-noise", to = {matrix = "bt709", range = "full"}})
                    local exact = reference.convert({format = "rgbf32le", width = 33, height = 9, c = codes},
                        {format = to, matrix = "bt709", range = "full", siting = made.siting})
                    assert(reference.compare(to, reference.decode(to, 33, 9, download(made)), exact) < 1.003, to)
                end
            end
        end)
    end)

    describe("alpha", function()
        it("is kept, made opaque or dropped", function()
            local rgba = flat("rgba", 3, 2, {{10, 20, 30, 40}})
            assert.same({10, 20, 30}, {rgba:convert("rgb24").planes[1]:at(2, 1)})
            assert.same({40, 30, 20, 10}, {rgba:convert("abgr").planes[1]:at(2, 1)})
            assert.same({10, 20, 30, 255}, {rgba:convert("rgb0").planes[1]:at(2, 1)})
            assert.same({10, 20, 30, 255}, {rgba:convert("rgb24"):convert("rgba").planes[1]:at(2, 1)})
            assert.equal(40 * 257, select(2, rgba:convert("ya16le", {matrix = "bt709"}).planes[1]:at(2, 1)))
        end)

        for _, from in ipairs {"rgba", "bgra64le", "ya8", "vuya", "yuva420p", "yuva444p", "gbrap", "rgbaf32le", "gbrapf32le", "rgbaf16le"} do
            it("of " .. from .. " blends with a background where it is dropped", function()
                local f = reference.formats[from]
                local tags = {
                    range = f.model == "yuv" and "limited" or "full", matrix = f.model ~= "rgb" and "bt709" or nil,
                    siting = f.w > 1 and "center" or nil,
                }
                for s, size in ipairs {{17, 9}, {3, 5}, {1, 1}} do
                    local src, codes = random_image(from, size[1], size[2], tags, s)
                    for _, to in ipairs {
                        "rgb24", "rgb0", "gray", "nv12", "yuv444p", "yuyv422", "v210", "rgb48le", "rgbpf32le", "yuv410p", "rgba",
                    } do
                        local model = reference.formats[to].model
                        local to_tags = {matrix = model ~= "rgb" and "bt601" or nil, range = model == "yuv" and "limited" or nil}
                        local distance = try(src, codes, to, to_tags, {background = {0.25, 1, 0.125}})
                        assert(distance <= tolerance(to), ("%s to %s, %d x %d: off by %g"):format(from, to, size[1], size[2], distance))
                    end
                end
            end)
        end

        it("takes a background as text too", function()
            local clear = flat("rgba", 1, 1, {{1, 2, 3, 0}})
            assert.same({255, 128, 0}, {clear:convert("rgb24", {background = "#ff8000"}).planes[1]:at(0, 0)})
        end)
    end)

    describe("memory", function()
        it("beside the planes is neither read nor written", function()
            for _, from in ipairs {"nv12", "rgb24", "yuyv422", "v210", "p010le", "yuv410p", "rgba", "rgb565le", "grayf16le", "yuva420p"} do
                for _, to in ipairs {
                    "nv12", "rgb24", "yuyv422", "v210", "p010le", "yuv410p", "rgba", "x2rgb10le", "rgbpf32le", "yuv420p", "rgb48le",
                } do
                    local size = {31, 7}
                    local f, info = reference.formats[from], gpu.format(to)
                    local tags = {range = f.float and "full" or "limited", matrix = f.model ~= "rgb" and "bt709" or nil}
                    local plain, codes = random_image(from, size[1], size[2], tags, 3)
                    local planes = {}
                    for i, m in ipairs(plain.planes) do
                        planes[i] = helper.poisoned(m.width, m.height, m.type)
                        gpu.copy(planes[i], m)
                    end
                    local src = gpu.image_from(from, planes, {width = size[1], height = size[2], matrix = tags.matrix, range = tags.range})
                    local views, parents = {}, {}
                    for i = 1, info.planes do
                        local p = info:plane(i, size[1], size[2])
                        views[i], parents[i] = helper.poisoned(p.width, p.height, p.type)
                    end
                    local out = gpu.image_from(to, views, {width = size[1], height = size[2]})
                    local distance = try(src, codes, to,
                        {matrix = info.model ~= "rgb" and "bt601" or nil, range = info.model == "yuv" and "limited" or nil}, {out = out})
                    assert(distance <= tolerance(to), ("%s to %s: off by %g"):format(from, to, distance))
                    for i = 1, info.planes do
                        helper.untouched(views[i], parents[i])
                    end
                end
            end
        end)

        it("may be empty", function()
            for _, name in ipairs(destinations) do
                local img = gpu.image(name, 0, 0, {matrix = "bt709", range = not reference.formats[name].float and "limited" or nil})
                assert.equal(0, img:convert("nv12", {matrix = "bt601", range = "full"}).width)
                assert.equal(0, gpu.image("rgb24", 5, 0):convert(name, {matrix = "bt601", range = "full"}).height)
            end
        end)

        it("may be higher than a grid", function()
            local height = 1100001
            local img = gpu.image("gray", 3, height)
            img.planes[1]:fill(1)
            img.planes[1]:row(height - 1):fill(9)
            local convert = require("gpuwb.image").convert
            for kernel = 0, 2 do
                local rgb = convert(img, "rgb24", nil, kernel).planes[1]
                assert.same({9, 9, 9}, {rgb:at(2, height - 1)})
                assert.same({1, 1, 1}, {rgb:at(2, height - 2)})
                assert.same({1, 1, 1}, {rgb:at(0, 600000)})
            end
        end)

        it("is written in order with other streams", function()
            local a, b = gpu.stream(), gpu.stream()
            local img = flat("rgb24", 64, 64, {{9, 9, 9}})
            local yuv = img:convert("nv12", {matrix = "bt709", range = "full", stream = a})
            assert.equal(9, yuv:convert("gray", {stream = b}).planes[1]:at(63, 63))
        end)
    end)

    describe("misuse", function()
        local function image(name, tags) return gpu.image(name, 4, 4, tags) end

        it("without a matrix or range names the choices (Y17)", function()
            helper.raises("BAD_ARGUMENT", {"matrix", "range", "bt601", "bt709", "limited", "full", "nv12", "rgb24"}, function()
                image("nv12"):convert("rgb24")
            end)
            helper.raises("BAD_ARGUMENT", {"matrix", "bt601", "bt709"}, function() image("rgb24"):convert("nv12", {range = "full"}) end)
            helper.raises("BAD_ARGUMENT", {"range", "limited"}, function() image("rgb24"):convert("nv12", {matrix = "bt601"}) end)
            helper.raises("BAD_ARGUMENT", {"matrix"}, function() image("rgb24"):convert("gray") end)
            helper.raises("BAD_ARGUMENT", {"range"}, function() image("nv12"):convert("gray") end)
            helper.raises("BAD_ARGUMENT", {"range"}, function() image("gray"):convert("nv12") end)
            helper.raises("BAD_ARGUMENT", {"range"}, function() image("yuv420p"):convert("yuv420p10le") end)
            helper.raises("BAD_ARGUMENT", {"matrix"}, function()
                image("yuv420p", {range = "full"}):convert("yuv420p", {matrix = "bt709"})
            end)
        end)

        it("of names and options", function()
            helper.raises("BAD_ARGUMENT", "gpu.formats()", function() image("rgb24"):convert("yuv999p") end)
            helper.raises("BAD_ARGUMENT", "known:", function() image("rgb24"):convert("bgr24", {martix = "bt601"}) end)
            helper.raises("BAD_ARGUMENT", "smpte240m", function() image("rgb24"):convert("nv12", {matrix = "bt602", range = "full"}) end)
            helper.raises("BAD_ARGUMENT", "blue-noise", function() image("rgb24"):convert("bgr24", {dither = "white"}) end)
            helper.raises("BAD_ARGUMENT", "malvar", function() image("rgb24"):convert("bgr24", {demosaic = "ahd"}) end)
            helper.raises("BAD_ARGUMENT", "nearest", function() image("rgb24"):convert("bgr24", {chroma = "cubic"}) end)
            helper.raises("BAD_ARGUMENT", "0..1", function() image("rgba"):convert("bgr24", {background = {255, 0, 0}}) end)
            helper.raises("BAD_ARGUMENT", "background", function() image("rgba"):convert("bgr24", {background = "red"}) end)
            helper.raises("BAD_ARGUMENT", "matrix", function() image("ya8"):convert("gray", {background = {1, 0, 0}}) end)
            helper.raises("BAD_ARGUMENT", "gbr", function() image("rgb24"):convert("nv12", {matrix = "gbr", range = "full"}) end)
            helper.raises("BAD_ARGUMENT", "0..1", function() image("rgb24"):convert("rgbf32le", {range = "limited"}) end)
        end)

        it("of the destination", function()
            local src = image("rgb24")
            helper.raises("SHAPE", "4 x 5", function() src:convert("bgr24", {out = gpu.image("bgr24", 4, 5)}) end)
            helper.raises("SHAPE", "bgra", function() src:convert("bgr24", {out = gpu.image("bgra", 4, 4)}) end)
            helper.raises("BAD_ARGUMENT", "overlaps", function()
                src:convert("bgr24", {out = gpu.image_from("bgr24", src.planes)})
            end)
            local m = gpu.mat(4, 4, "u8")
            helper.raises("BAD_ARGUMENT", "overlap", function() src:convert("gbrp", {out = gpu.image_from("gbrp", {m, m, m})}) end)
            local bytes = ffi.new("uint8_t[64]")
            local fixed = gpu.on("host", function() return gpu.wrap {ptr = bytes, width = 4, height = 4, type = "u8x3", readonly = true} end)
            helper.raises("READ_ONLY", "", function()
                gpu.on("host", function() gpu.image("rgb24", 4, 4):convert("bgr24", {out = gpu.image_from("bgr24", {fixed})}) end)
            end)
        end)

        it("of an image that a script scribbled in", function()
            local function scribbled(fn)
                local img = image("nv12", {matrix = "bt709", range = "limited"})
                fn(img)
                return function() img:convert("rgb24") end
            end
            helper.raises("BAD_ARGUMENT", "", scribbled(function(i) i.width = 1e9 + 0.5 end))
            helper.raises("SHAPE", "", scribbled(function(i) i.width = 400 end))
            helper.raises("SHAPE", "", scribbled(function(i) i.planes[2] = nil end))
            helper.raises("SHAPE", "", scribbled(function(i) i.planes[1], i.planes[2] = i.planes[2], i.planes[1] end))
            helper.raises("BAD_ARGUMENT", "", scribbled(function(i) i.planes[1] = 17 end))
            helper.raises("BAD_ARGUMENT", "", scribbled(function(i) i.format = "nv99" end))
            helper.raises("SHAPE", "", scribbled(function(i) i.format = "yuv444p" end))
            helper.raises("BAD_ARGUMENT", "", scribbled(function(i) i.matrix = {} end))
            helper.raises("CLOSED", "", scribbled(function(i) i.planes[1]:close() end))
            helper.raises("BAD_ARGUMENT", "image", function() image("rgb24").convert({}, "bgr24") end)
        end)

    end)
end)

describe("host and cuda", function()
    local devices = helper.devices()
    for s, from in ipairs(#devices > 1 and sources or {}) do
        it("give the same bits from " .. from, function()
            for k = 1, 3 do
                local size = ({{67, 35}, {16, 16}, {5, 3}})[k]
                local tags = tags_for(from, s * 3 + k)
                local pictures = {}
                for d, device in ipairs(devices) do
                    pictures[d] = gpu.on(device, function() return (random_image(from, size[1], size[2], tags, s + k)) end)
                end
                for t, to in ipairs(destinations) do
                    local opts = {to = tags_for(to, s + t * 7 + k), chroma = (s + t) % 4 == 0 and "nearest" or nil}
                    local first = download(pictures[1]:convert(to, opts))
                    for d = 2, #devices do
                        assert.same(first, download(pictures[d]:convert(to, opts)), from .. " to " .. to)
                    end
                end
            end
        end)
    end
end)
