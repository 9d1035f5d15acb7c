-- SPDX-License-Identifier: MIT
-- PNG against libpng, a C program of which is compiled when the specs run: every colour type, depth, filter, interlacing, exactly; and what is no PNG.
local gpu = require "gpuwb"
local helper = require "tests.helper"
local make = require "tests.pictures"
local raises, pixels = helper.raises, make.pixels

local folder, program

setup(function()
    folder = helper.folder()
    local _, status = helper.run(("gcc -O1 tests/c/png_pixels.c -o '%s/png_pixels' -lpng"):format(folder))
    program = status == 0 and ("'%s/png_pixels' "):format(folder) or nil
end)
teardown(function()
    helper.remove(folder)
    gpu.codecs {libraries = true}
end)

local function write(text)
    return helper.write(folder .. "/a.png", text)
end

-- What libpng makes of a file: "u8x3", size, bytes; nil where it refuses.
local function reference(path)
    local pipe = io.popen(program .. "'" .. path .. "' 2>/dev/null", "r")
    local text = pipe:read("*a")
    pipe:close()
    local w, h, channels, depth, at = text:match("^(%d+) (%d+) (%d+) (%d+)\n()")
    if not w then
        return nil
    end
    return "u" .. depth .. (channels ~= "1" and "x" .. channels or ""), tonumber(w), tonumber(h), text:sub(at)
end

local function compare(path, name)
    local kind, w, h, bytes = reference(path)
    assert.is_string(kind, name)
    local img = gpu.load(path)
    assert.same({kind, w, h}, {img.planes[1].type, img.width, img.height}, name)
    assert(bytes == pixels(img), "other pixels: " .. name)
end

-- Both ways to decompress.
local function each_way(fn)
    for _, libraries in ipairs {true, false} do
        gpu.codecs {libraries = libraries}
        fn()
    end
    gpu.codecs {libraries = true}
end

local kinds = {{0, {1, 2, 4, 8, 16}}, {2, {8, 16}}, {3, {1, 2, 4, 8}}, {4, {8, 16}}, {6, {8, 16}}}

-- Random bytes behind random filters: all of it is a picture.
local function random_picture(width, height, depth, colour, interlace, seed, before)
    local random, raw = helper.random(seed), {}
    for _, size in ipairs(make.png_rows(width, height, depth, colour, interlace)) do
        local row = {string.char(random(5))}
        for i = 1, size do
            row[i + 1] = string.char(random(4) == 0 and random(256) or 200)
        end
        raw[#raw + 1] = table.concat(row)
    end
    return make.png_raw(width, height, depth, colour, table.concat(raw), {interlace = interlace, before = before})
end

helper.each_device(function()
    describe("PNG as libpng reads it", function()
        it("of every colour type, depth, filter and size", function()
            if not program then
                return pending("no libpng to compile against")
            end
            local palette = make.chunk("PLTE", helper.bytes(768, 7))
            each_way(function()
                local count = 0
                for _, kind in ipairs(kinds) do
                    for _, depth in ipairs(kind[2]) do
                        for _, size in ipairs {{1, 1}, {2, 3}, {5, 5}, {17, 9}, {33, 8}} do
                            for _, interlace in ipairs {false, true} do
                                local colours = kind[1] == 3 and make.chunk("PLTE", palette:sub(9, 8 + 3 * 2 ^ depth)) or ""
                                local file = random_picture(size[1], size[2], depth, kind[1], interlace, 1000 + count, colours)
                                compare(write(file), ("type %d, %d bits, %dx%d"):format(kind[1], depth, size[1], size[2]))
                                count = count + 1
                            end
                        end
                    end
                end
                assert.equal(150, count)
            end)
        end)

        it("with transparency by colour and by palette", function()
            if not program then
                return pending("no libpng to compile against")
            end
            each_way(function()
                for _, depth in ipairs {1, 2, 4, 8, 16} do
                    local key = 2 ^ depth - 1 - (depth > 4 and 55 or 0)
                    compare(write(random_picture(9, 7, depth, 0, depth == 4, depth, make.chunk("tRNS", make.be16(key % 65536)))), "gray " .. depth)
                    if depth < 16 then
                        local palette = make.chunk("PLTE", helper.bytes(3 * 2 ^ depth)) .. make.chunk("tRNS", helper.bytes(math.max(1, 2 ^ depth - 1), 3))
                        compare(write(random_picture(9, 7, depth, 3, false, depth, palette)), "palette " .. depth)
                    end
                end
                compare(write(random_picture(9, 7, 8, 2, true, 5, make.chunk("tRNS", make.be16(200):rep(3)))), "rgb 8")
                compare(write(random_picture(9, 7, 16, 2, false, 5, make.chunk("tRNS", "\200\200\200\200\200\200"))), "rgb 16")
            end)
        end)

        it("all of PngSuite, and refuses what is corrupt in it with the reason", function()
            local list = gpu.list("../shared/data/pngsuite/*.png")
            if #list == 0 or not program then
                return pending("no ../shared/data/pngsuite here")
            end
            for _, path in ipairs(gpu.list("../shared/data/pngsuite/16bit/*.png")) do
                list[#list + 1] = path
            end
            for _, path in ipairs(gpu.list("../shared/data/photos/*.png")) do
                list[#list + 1] = path
            end
            each_way(function()
                for _, path in ipairs(list) do
                    compare(path, path)
                end
                local reasons = {xc1n0g08 = "colour type 1", xcrn0g04 = "text mode", xd0n2c08 = "0 bits", xd9n2c08 = "99 bits", xhdn0g08 = "CRC of chunk IHDR",
                                 xs1n0g01 = "first 8 bytes", xs4n0g01 = "first 8 bytes"}
                for name, reason in pairs(reasons) do
                    raises("BAD_FILE", {name, reason}, gpu.load, ("../shared/data/pngsuite/corrupt/%s.png"):format(name))
                end
            end)
        end)

        it("what is written, at every level, type and number of channels", function()
            if not program then
                return pending("no libpng to compile against")
            end
            each_way(function()
                for channels = 1, 4 do
                    for _, dtype in ipairs {"u8", "u16"} do
                        for _, level in ipairs {1, 6, 12} do
                            local m = gpu.mat(31, 9, dtype .. "x" .. channels)
                            m:upload((helper.bytes(math.ceil(m.bytes / 2), channels):rep(2):sub(1, m.bytes)))
                            local kind, w, h, bytes = reference(write(gpu.encode(m, "png", {level = level})))
                            assert.same({m.type, 31, 9}, {kind, w, h})
                            assert(bytes == m:download())
                        end
                    end
                end
            end)
        end)

        it("what is written of noise, of few values, of repeats near and far, and of counts that make the longest codes", function()
            if not program then
                return pending("no libpng to compile against")
            end
            local random, values = helper.random(5), {}
            local a, b = 1, 1
            for value = 0, 22 do        -- a Fibonacci number of each: a Huffman code of 22 bits, were there no limit
                for _ = 1, a do
                    values[#values + 1] = string.char(value)
                end
                a, b = b, a + b
            end
            for i = #values, 2, -1 do
                local j = 1 + random(i)
                values[i], values[j] = values[j], values[i]
            end
            local noise = helper.bytes(32767 * 4)
            local contents = {{256, 256, noise:sub(1, 65536), 1.01}, {256, 256, ("\7"):rep(65536), 0.01}, {32767, 4, noise:sub(1, 32767):rep(4), 0.27},
                              {200, 300, noise:sub(1, 300):rep(200), 0.05}, {1, 1, "x", 100}, {229, 323, table.concat(values):sub(1, 229 * 323), 0.6}}
            each_way(function()
                for i, c in ipairs(contents) do
                    for _, level in ipairs {1, 4, 9, 12} do
                        local file = gpu.encode(gpu.mat(c[1], c[2], "u8"):upload(c[3]), "png", {level = level})
                        local kind, w, h, bytes = reference(write(file))
                        assert.same({"u8", c[1], c[2]}, {kind, w, h})
                        assert(bytes == c[3], i)
                        assert.is_true(#file <= c[4] * #c[3] + 100, i .. ": " .. #file)
                    end
                end
            end)
        end)
    end)

    describe("PNG that is damaged", function()
        it("is told: Adler, filters, palette, too much and too little", function()
            each_way(function()
                local rows = "\0\1\2\0\3\4"
                raises("BAD_FILE", "Adler", gpu.decode, make.png_raw(2, 2, 8, 0, rows, {sum = 1}))
                local img, warning = gpu.decode(make.png_raw(2, 2, 8, 0, rows, {sum = 1}), {strict = false})
                assert.same({{1, 2}, {3, 4}}, img.planes[1]:totable())
                assert.truthy(warning:find("Adler", 1, true))
                raises("BAD_FILE", "filter", gpu.decode, make.png_raw(2, 2, 8, 0, "\0\1\2\5\3\4"))
                raises("BAD_FILE", "more pixels", gpu.decode, make.png_raw(2, 2, 8, 0, rows .. "\0\1\2"))
                raises("BAD_FILE", "3 of the 6 bytes", gpu.decode, make.png_raw(2, 2, 8, 0, "\0\1\2"))
                assert.same({{1, 2}, {0, 0}}, gpu.decode(make.png_raw(2, 2, 8, 0, "\0\1\2"), {strict = false}).planes[1]:totable())
                raises("BAD_FILE", "palette", gpu.decode, make.png_raw(1, 1, 8, 3, "\0\0"))
                raises("BAD_FILE", "palette of 1", gpu.decode, make.png_raw(1, 1, 8, 3, "\0\3", {before = make.chunk("PLTE", "abc")}))
                raises("BAD_FILE", "palette", gpu.decode, make.png_raw(1, 1, 8, 3, "\0\0", {before = make.chunk("PLTE", "abcd")}))
                raises("BAD_FILE", "tRNS", gpu.decode, make.png_raw(1, 1, 8, 6, "\0abcd", {before = make.chunk("tRNS", "ab")}))
                raises("BAD_FILE", "before its pixels", gpu.decode, make.png_raw(2, 2, 8, 0, rows):sub(1, 40), {strict = false})
                raises("UNSUPPORTED", "ABCD", gpu.decode, make.png_raw(1, 1, 8, 0, "\0\3", {before = make.chunk("ABCD", "x")}))
                assert.same({{3}}, gpu.decode(make.png_raw(1, 1, 8, 0, "\0\3", {before = make.chunk("abCd", "x")})).planes[1]:totable())
            end)
        end)

        it("of one flipped bit anywhere is never a whole picture (S18)", function()
            local file = make.png(4, 2, 8, 0, {"abcd", "efgh"}, make.chunk("gAMA", make.be32(45455)))
            each_way(function()
                for n = 1, #file do
                    for b = 0, 7 do
                        local flipped = file:sub(1, n - 1) .. string.char(bit.bxor(file:byte(n), 2 ^ b)) .. file:sub(n + 1)
                        local taken, err = pcall(gpu.decode, flipped)
                        assert(not taken, ("bit %d of byte %d"):format(b, n))
                        assert.truthy(err.code == "BAD_FILE" or err.code == "UNSUPPORTED" or err.code == "LIMIT", tostring(err))
                    end
                end
            end)
        end)

        it("with strict=false keeps the rows before a cut", function()
            local m = gpu.mat(40, 50, "u8x3"):upload(helper.bytes(6000))
            local file = gpu.encode(m, "png")
            each_way(function()
                local img, warning = gpu.decode(file:sub(1, math.floor(#file * 0.6)), {strict = false})
                assert.truthy(warning:find("truncated", 1, true))
                assert.equal(m:rows(0, 20):download(), img.planes[1]:rows(0, 20):download())
                raises("BAD_FILE", "truncated", gpu.decode, file:sub(1, math.floor(#file * 0.6)))
            end)
        end)
    end)

    describe("PNG tags", function()
        it("keep a profile and a gamma, and write them", function()
            local profile = make.be32(300) .. helper.bytes(296)
            local img = gpu.decode(make.png_raw(1, 1, 8, 2, "\0abc", {before = make.chunk("iCCP", "name\0\0" .. make.zlib(profile))}))
            assert.equal(profile, img.icc)
            assert.equal(profile, gpu.decode(gpu.encode(img, "png")).icc)
            assert.equal(profile, gpu.decode(gpu.encode(img, "jpg")).icc)
            img.icc = nil
            assert.is_nil(gpu.decode(gpu.encode(img, "png")).icc)
            local odd = gpu.decode(make.png_raw(1, 1, 8, 2, "\0abc", {before = make.chunk("gAMA", make.be32(70000))}))
            assert.same({0.7, "nil"}, {odd.gamma, tostring(odd.transfer)})
            assert.equal(0.7, gpu.decode(gpu.encode(odd, "png")).gamma)
            local big = gpu.image("rgb24", 2, 2)
            big.planes[1]:fill(7)
            big.icc = make.be32(150000) .. helper.bytes(149996)
            assert.equal(big.icc, gpu.decode(gpu.encode(big, "jpg")).icc)
            assert.is_nil(gpu.decode(make.png_raw(1, 1, 8, 2, "\0abc", {before = make.chunk("iCCP", "name\0\0rubbish")})).icc)
        end)

        it("turn the picture as an eXIf chunk says", function()
            local exif = make.exif(6):sub(11)
            local file = make.png_raw(2, 1, 16, 2, "\0abcdefghijkl", {before = make.chunk("eXIf", exif)})
            local img = gpu.decode(file)
            assert.same({1, 2}, {img.width, img.height})
            assert.same({0x6162, 0x6364, 0x6566}, make.at(img, 0, 0))
            local plain = gpu.decode(file, {orient = false})
            assert.same({2, 1, 6}, {plain.width, plain.height, plain.orientation})
        end)
    end)
end)
