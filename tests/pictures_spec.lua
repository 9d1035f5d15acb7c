-- SPDX-License-Identifier: MIT
-- Picture files, format by format: the right pixels, in and out, or an error that says what is wrong.
local gpu = require "gpuwb"
local ffi = require "ffi"
local helper = require "tests.helper"
local make = require "tests.pictures"
local raises, at, pixels = helper.raises, make.at, make.pixels

helper.each_device(function()
    describe("PNG", function()
        it("keeps 16 bits (S1, S5, S8)", function()
            local one = gpu.decode(make.png(1, 1, 16, 0, {"\x12\x34"}))
            assert.equal("gray16le", one.format)
            assert.same({0x1234}, at(one, 0, 0))
            local ramp = gpu.decode(make.png(4, 1, 16, 0, {"\0\0\1\0\2\0\xff\xff"}))
            assert.same({{0, 256, 512, 65535}}, ramp.planes[1]:totable())
            assert.equal("rgba64le", gpu.decode(make.png(1, 1, 16, 6, {"12345678"})).format)
        end)

        it("keeps what sRGB, gAMA and cICP say as tags, and writes them", function()
            local function tags(...)
                local img = gpu.decode(make.png(1, 1, 8, 2, {"\1\2\3"}, table.concat {...}))
                assert.same({1, 2, 3}, at(img, 0, 0))
                return {img.transfer or false, img.primaries or false}
            end
            local srgb, gamma, pq = make.chunk("sRGB", "\0"), make.chunk("gAMA", "\0\0\xb1\x8f"), make.chunk("cICP", "\9\16\0\1")
            assert.same({false, false}, tags(""))
            assert.same({"srgb", "bt709"}, tags(srgb))
            assert.same({"gamma22", false}, tags(gamma))
            assert.same({"linear", false}, tags(make.chunk("gAMA", "\0\1\x86\xa0")))
            assert.same({"pq", "bt2020"}, tags(pq))
            for _, order in ipairs {{gamma, srgb, pq}, {pq, srgb, gamma}} do
                assert.same({"pq", "bt2020"}, tags(unpack(order)))
            end
            assert.same({"srgb", "bt709"}, tags(gamma, srgb))
            for _, wanted in ipairs {{"srgb", "bt709"}, {"pq", "bt2020"}, {"linear", "display-p3"}, {"hlg", "bt2020"}} do
                local img = gpu.image("rgb24", 2, 2, {transfer = wanted[1], primaries = wanted[2]})
                img.planes[1]:fill(9)
                local back = gpu.decode(gpu.encode(img, "png"))
                assert.same(wanted, {back.transfer, back.primaries})
            end
        end)

        it("widens fewer than 8 bits to all of the range (S2)", function()
            assert.same({{0, 85, 170, 255}}, gpu.decode(make.png(4, 1, 2, 0, {"\x1b"})).planes[1]:totable())
            assert.same({{51, 204}}, gpu.decode(make.png(2, 1, 4, 0, {"\x3c"})).planes[1]:totable())
            assert.same({{0, 255}}, gpu.decode(make.png(2, 1, 1, 0, {"\x40"})).planes[1]:totable())
        end)

        it("gives a palette's colours, and its alpha where it has one (S4)", function()
            local palette = make.chunk("PLTE", ("\0"):rep(15) .. "\10\20\30")
            local img = gpu.decode(make.png(1, 1, 8, 3, {"\5"}, palette))
            assert.equal("rgb24", img.format)
            assert.same({10, 20, 30}, at(img, 0, 0))
            local clear = gpu.decode(make.png(1, 1, 8, 3, {"\5"}, palette .. make.chunk("tRNS", "\255\255\255\255\255\9")))
            assert.equal("rgba", clear.format)
            assert.same({10, 20, 30, 9}, at(clear, 0, 0))
        end)

        it("keeps colours under zero alpha (S26)", function()
            assert.same({10, 20, 30, 0}, at(gpu.decode(make.png(1, 1, 8, 6, {"\10\20\30\0"})), 0, 0))
        end)

        it("refuses a wrong CRC, and gives the picture with strict=false (S18)", function()
            local good = make.png(2, 1, 8, 0, {"\7\9"})
            local at_pixel = good:find("IDAT", 1, true) + 4 + 8
            local bad = good:sub(1, at_pixel - 1) .. "\8" .. good:sub(at_pixel + 1)
            raises("BAD_FILE", {"CRC", "IDAT"}, gpu.decode, bad)
            local img, warning = gpu.decode(bad, {strict = false})
            assert.same({8}, at(img, 0, 0))
            assert.truthy(warning:find("CRC", 1, true))
            local _, silent = gpu.decode(good, {strict = false})
            assert.is_nil(silent)
        end)

        it("says what is wrong with a damaged one", function()
            local good = make.png(2, 1, 8, 0, {"\7\9"})
            raises("BAD_FILE", "truncated PNG", gpu.decode, good:sub(1, -13))
            raises("BAD_FILE", {"truncated PNG", "IDAT"}, gpu.decode, good:sub(1, -20))
            raises("BAD_FILE", "text mode", gpu.decode, (good:gsub("\r\n", "\n", 1)))
            raises("BAD_FILE", "colour type 1", gpu.decode, make.png(1, 1, 8, 1, {"\0"}))
            raises("BAD_FILE", "99 bits", gpu.decode, make.png(1, 1, 99, 2, {"\0"}))
            raises("BAD_FILE", "0x1 pixels", gpu.decode, make.png(0, 1, 8, 0, {""}))
            raises("BAD_FILE", "no pixels", gpu.decode, good:sub(1, 33) .. make.chunk("IEND", ""))
        end)

        it("is written with 1 to 4 channels of 8 and 16 bits (W10, W11)", function()
            for channels = 1, 4 do
                for _, kind in ipairs {"u8", "u16"} do
                    local m = gpu.mat(5, 3, kind .. "x" .. channels)
                    m:upload(helper.bytes(m.bytes, channels))
                    local img = gpu.decode(gpu.encode(m, "png"))
                    assert.equal(m.type, img.planes[1].type)
                    assert.equal(m:download(), pixels(img))
                end
            end
            local m = gpu.mat(4, 1, "u16"):upload {0, 1, 256, 65535}
            assert.same({{0, 1, 256, 65535}}, gpu.decode(gpu.encode(m, "png", {level = 1})).planes[1]:totable())
        end)

        it("of a size that compresses comes back, every filter and level", function()
            local m = gpu.mat(301, 97, "u8x3")
            local bytes = ffi.new("uint8_t[?]", m.bytes)
            for y = 0, 96 do
                for x = 0, 300 do
                    for c = 0, 2 do
                        bytes[(y * 301 + x) * 3 + c] = (x * (c + 1) + y * y / 7 + (y < 30 and x * y or 0)) % 256
                    end
                end
            end
            m:upload(bytes)
            for _, level in ipairs {1, 8, 12} do
                local file = gpu.encode(m, "png", {level = level})
                assert.equal(m:download(), pixels(gpu.decode(file)))
                assert.is_true(#file < m.bytes / 2)
            end
        end)
    end)

    describe("JPEG", function()
        local gray = {{{10}, {200}, {90}}, {{250}, {3}, {128}}}

        it("has the right pixels, baseline and progressive (S15)", function()
            for _, sof in ipairs {0xc0, 0xc2} do
                local img = gpu.decode(make.jpg(17, 9, gray, {sof = sof}))
                assert.equal("gray", img.format)
                assert.same({10, 200, 90, 128}, {img.planes[1]:at(7, 7), img.planes[1]:at(8, 0), img.planes[1]:at(16, 0), img.planes[1]:at(16, 8)})
                local rgb = gpu.decode(make.jpg(8, 8, {{{100, 90, 200}}}, {sof = sof}))
                assert.equal("rgb24", rgb.format)
                for c, want in ipairs {201, 62, 33} do   -- BT.601, full range
                    assert.is_true(math.abs(at(rgb, 3, 3)[c] - want) <= 1)
                end
            end
        end)

        it("is turned as EXIF says, unless orient=false (S20)", function()
            local corner = {[1] = 10, [2] = 90, [3] = 128, [4] = 250, [5] = 10, [6] = 250, [7] = 128, [8] = 90}
            for orientation, want in ipairs(corner) do
                local file = make.jpg(17, 9, gray, {before = make.exif(orientation, orientation % 2 == 0)})
                local img = gpu.decode(file)
                assert.same(orientation < 5 and {17, 9} or {9, 17}, {img.width, img.height})
                assert.equal(want, img.planes[1]:at(0, 0))
                local plain = gpu.decode(file, {orient = false})
                assert.same({17, 9, 10}, {plain.width, plain.height, plain.planes[1]:at(0, 0)})
            end
            local up = gpu.decode(make.jpg(17, 9, gray, {before = make.exif(6)}))
            assert.same({250, 10, 3, 200}, {up.planes[1]:at(0, 0), up.planes[1]:at(8, 0), up.planes[1]:at(0, 8), up.planes[1]:at(8, 8)})
        end)

        it("turns colour pictures too", function()
            local file = make.jpg(8, 16, {{{100, 128, 128}}, {{30, 128, 128}}}, {before = make.exif(8)})
            local img = gpu.decode(file)
            assert.same({16, 8}, {img.width, img.height})
            assert.same({100, 100, 100}, at(img, 0, 7))
            assert.same({30, 30, 30}, at(img, 15, 0))
        end)

        it("is an error where it is cut, and a picture with strict=false (S17)", function()
            local file = make.jpg(17, 9, gray)
            for _, part in ipairs {1, math.ceil(#file / 10), math.floor(#file / 2)} do
                raises("BAD_FILE", "truncated", gpu.decode, file:sub(1, -1 - part))
            end
            raises("BAD_FILE", "before its pixels", gpu.decode, file:sub(1, 100), {strict = false})
            local img, warning = gpu.decode(file:sub(1, -3), {strict = false})
            assert.same({17, 9}, {img.width, img.height})
            assert.truthy(warning:find("truncated", 1, true))
        end)

        it("of a coding that is not read is named (S16)", function()
            raises("UNSUPPORTED", "arithmetic", gpu.decode, make.jpg(8, 8, {{{1}}}, {sof = 0xc9}))
            raises("UNSUPPORTED", "lossless", gpu.decode, make.jpg(8, 8, {{{1}}}, {sof = 0xc3}))
        end)

        it("in CMYK has right colours or is refused (S14)", function()
            local cyan = {{{0, 255, 255, 255}}}      -- Adobe stores it inverted
            assert.same({0, 255, 255}, at(gpu.decode(make.jpg(8, 8, cyan, {app14 = 0})), 4, 4))
            raises("UNSUPPORTED", "CMYK", gpu.decode, make.jpg(8, 8, cyan))
        end)

        it("survives a Huffman table that is none", function()
            local file = make.jpg(8, 8, {{{1}}})
            raises("BAD_FILE", "Huffman", gpu.decode, (file:gsub("\16\1" .. ("%z"):rep(15), "\16" .. ("\255"):rep(16), 1)))
        end)

        it("of one colour stays that colour at all small sizes (W4)", function()
            for w = 1, 17, 4 do
                for h = 1, 17 do
                    local m = gpu.mat(w, h, "u8x3", {fill = {200, 100, 50}})
                    local back, want = pixels(gpu.decode(gpu.encode(m, "jpg", {quality = 95}))), m:download()
                    assert.equal(#want, #back)
                    for i = 1, #back do
                        assert.is_true(math.abs(back:byte(i) - want:byte(i)) <= 2)
                    end
                end
            end
        end)

        it("keeps the chroma of single columns over quality 90 only (W6)", function()
            local stripes = gpu.mat(16, 16, "u8x3")
            for x = 0, 15 do
                stripes:cols(x, 1):fill(x % 2 == 0 and {255, 0, 0} or {0, 0, 255})
            end
            local function worst(quality)
                local back, most = pixels(gpu.decode(gpu.encode(stripes, "jpg", {quality = quality}))), 0
                local want = stripes:download()
                for i = 1, #back do
                    most = math.max(most, math.abs(back:byte(i) - want:byte(i)))
                end
                return most
            end
            assert.is_true(worst(91) < 40)
            assert.is_true(worst(90) > 60)
        end)

        it("drops no alpha silently (W8)", function()
            local clear = gpu.mat(8, 8, "u8x4", {fill = {255, 0, 0, 0}})
            raises("UNSUPPORTED", {"alpha", "background="}, gpu.encode, clear, "jpg")
            local function centre(background)
                return at(gpu.decode(gpu.encode(clear, "jpg", {background = background, quality = 100})), 4, 4)
            end
            assert.same({255, 255, 255}, centre {1, 1, 1})
            for c, want in ipairs {0, 128, 255} do
                assert.is_true(math.abs(centre "#0080ff"[c] - want) <= 1)
            end
            clear:fill {255, 0, 0, 51}
            for c, want in ipairs {51, 0, 204} do
                assert.is_true(math.abs(centre {0, 0, 1}[c] - want) <= 1)
            end
            raises("BAD_ARGUMENT", "background", gpu.encode, clear, "jpg", {background = {1, 2, 3}})
        end)

        it("takes a quality of 1 to 100 (W7)", function()
            local m = gpu.mat(8, 8, "u8", {fill = 7})
            for _, quality in ipairs {0, 101, -1, 2.5, "90"} do
                raises("BAD_ARGUMENT", {"quality", "1..100"}, gpu.encode, m, "jpg", {quality = quality})
            end
            assert.is_true(#gpu.encode(m, "jpg", {quality = 1}) > 0)
            raises("BAD_ARGUMENT", {"quality", "jpg", "png"}, gpu.encode, m, "png", {quality = 50})
        end)
    end)

    describe("other pictures", function()
        it("have the right pixels", function()
            local files = make.samples()
            assert.same({2, 1, 0}, at(gpu.decode(files["plain.tga"]), 0, 0))         -- B, G, R in the file
            assert.same({3, 2, 1}, at(gpu.decode(files["runs.tga"]), 3, 0))
            for v = 0, 31 do        -- 5 bits of each
                local five = gpu.decode(make.tga(1, 1, 16, make.le16(v + 32 * ((v + 1) % 32) + 1024 * (31 - v))))
                local function eight(n) return 8 * n + math.floor(n / 4) end
                assert.same({eight(31 - v), eight((v + 1) % 32), eight(v)}, at(five, 0, 0))
            end
            assert.same({14, 13, 12}, at(gpu.decode(files["plain.bmp"]), 0, 0))      -- the last row comes first
            assert.same({10, 9, 8}, at(gpu.decode(files["palette.bmp"]), 0, 0))
            -- runs of colours whose blue is 4 times their number; 0 where no run came
            for name, rows in pairs {["runs8.bmp"] = "00003 12300 11122", ["runs4.bmp"] = "1230100 1212133"} do
                local img, y = gpu.decode(files[name]), 0
                for row in rows:gmatch("%d+") do
                    for x = 0, #row - 1 do
                        assert.same({4 * row:byte(x + 1) - 190, 4 * row:byte(x + 1) - 191, 4 * row:byte(x + 1) - 192}, at(img, x, y))
                    end
                    y = y + 1
                end
                local info = gpu.info {bytes = files[name]}
                assert.same({"bmp", "rgb24", "palette run-length", name == "runs8.bmp" and 8 or 4}, {info.kind, info.format, info.coding, info.depth})
            end
            local runs, start = files["runs8.bmp"], 54 + 16
            raises("BAD_FILE", "no end mark", gpu.decode, runs:sub(1, start + 9))
            raises("BAD_FILE", "beyond its 5x3", gpu.decode, runs:sub(1, start) .. "\6" .. runs:sub(start + 2))
            raises("BAD_FILE", "palette of 4", gpu.decode, runs:sub(1, start + 1) .. "\4" .. runs:sub(start + 3))
            raises("BAD_FILE", "runs of 0 bits", gpu.decode, runs:sub(1, 30) .. "\2" .. runs:sub(32))
            local cut, warning = gpu.decode(runs:sub(1, start + 9), {strict = false})
            assert.same({6, 5, 4}, at(cut, 0, 2))
            assert.truthy(warning:find("no end mark", 1, true))
            assert.same({11, 10, 9}, at(gpu.decode(make.bmp(2, 1, 8, "\2\2", "\1\2\3\0\5\6\7\0\9\10\11\0", 1)), 1, 0))      -- no mark, yet whole
            assert.same({9, 10, 11, 255}, at(gpu.decode(files["two.gif"]), 0, 1))    -- of the first frame (S24)
            assert.same({{{1, 2, 3}, {1, 2, 4}, {3, 3, 4}}, {{3, 3, 4}, {3, 3, 4}, {0, 0, 0}}}, gpu.decode(files["a.qoi"]).planes[1]:totable())
            local psd = gpu.decode(files["rgb.psd"])
            assert.same({0, 6, 12, 255}, at(psd, 0, 0))
            local hdr = gpu.decode(files["flat.hdr"])
            assert.equal("rgbf32le", hdr.format)
            assert.equal(100 * 2 ^ (103 - 136), at(hdr, 0, 0)[1])
        end)

        it("come back as they were", function()
            local rgb = gpu.mat(7, 5, "u8x3"):upload(helper.bytes(105))
            local rgba = gpu.mat(7, 5, "u8x4"):upload(helper.bytes(140))
            for _, kind in ipairs {"png", "bmp", "tga", "qoi", "pnm"} do
                assert.equal(rgb:download(), pixels(gpu.decode(gpu.encode(rgb, kind))))
                assert.equal(rgba:download(), pixels(gpu.decode(gpu.encode(rgba, kind))))
            end
            local gray = gpu.mat(7, 5, "u8"):upload(helper.bytes(35))
            assert.equal(gray:download(), pixels(gpu.decode(gpu.encode(gray, "tga"))))
            local expanded = gpu.decode(gpu.encode(gray, "bmp"))     -- BMP has no gray: all three are the same
            assert.same({gray:at(3, 2), gray:at(3, 2), gray:at(3, 2)}, at(expanded, 3, 2))
            local f = gpu.mat(3, 2, "f32x3"):upload {0, 0.5, 1, 2, 4, 8, 16, 0.25, 0.125, 1, 1, 1, 0, 0, 0, 3, 5, 7}
            assert.equal(f:download(), pixels(gpu.decode(gpu.encode(f, "pfm"))))
            assert.same({2, 4, 8}, at(gpu.decode(gpu.encode(f, "hdr")), 1, 0))
        end)

        it("keep runs, indexes and differences of QOI apart", function()
            local m = gpu.mat(200, 3, "u8x4")
            local bytes = ffi.new("uint8_t[?]", m.bytes)
            local random = helper.random(5)
            local value = 0
            for i = 0, 599 do
                local change = random(8)
                value = change < 4 and value or change < 6 and (value + random(3)) % 256 or random(256)
                bytes[4 * i], bytes[4 * i + 1] = value, value / 2
                bytes[4 * i + 2], bytes[4 * i + 3] = random(9) == 0 and 7 or value, random(20) == 0 and 9 or 255
            end
            m:upload(bytes)
            assert.equal(m:download(), pixels(gpu.decode(gpu.encode(m, "qoi"))))
            local still = gpu.mat(200, 3, "u8x3", {fill = 0})
            local file = gpu.encode(still, "qoi")
            assert.equal(14 + 10 + 8, #file)     -- 600 pixels in ten runs
            assert.equal(still:download(), pixels(gpu.decode(file)))
        end)

        it("are written in R, G, B order whatever the image's", function()
            local bgr = gpu.image("bgr24", 2, 1)
            bgr.planes[1]:upload {1, 2, 3, 4, 5, 6}
            assert.same({3, 2, 1}, at(gpu.decode(gpu.encode(bgr, "png")), 0, 0))
            local planar = gpu.image("gbrp", 1, 1)
            for i, v in ipairs {20, 30, 10} do
                planar.planes[i]:fill(v)
            end
            assert.same({10, 20, 30}, at(gpu.decode(gpu.encode(planar, "bmp")), 0, 0))
        end)

        it("hold no YUV and no limited gray (it is converted first)", function()
            local yuv = gpu.image("yuv420p", 4, 4)
            raises("UNSUPPORTED", {"convert", "bt601", "yuv420p"}, yuv.save, yuv, "x.png")
            raises("UNSUPPORTED", "convert", gpu.encode, gpu.image("yuyv422", 4, 4), "jpg")
            raises("UNSUPPORTED", {"limited", "full"}, gpu.encode, gpu.image("gray", 4, 4, {range = "limited"}), "png")
            raises("UNSUPPORTED", {"f32", "u8"}, gpu.encode, gpu.mat(2, 2, "f32", {fill = 0}), "png")
            raises("UNSUPPORTED", {"hdr", "f32"}, gpu.encode, gpu.mat(2, 2, "u8", {fill = 0}), "hdr")
        end)
    end)

    describe("PNM and PFM", function()
        it("are big-endian, and their maximum is white (S6)", function()
            local img = gpu.decode("P5 2 1 65535\n\1\2\xff\0")
            assert.equal("gray16le", img.format)
            assert.same({{258, 65280}}, img.planes[1]:totable())
            assert.same({{0, 128, 255}}, gpu.decode("P2\n3 1\n# nine is white\n10\n0 5 10").planes[1]:totable())
            assert.same({{0, 32768, 65535}}, gpu.decode("P2 3 1 1000 0 500 1000").planes[1]:totable())
            assert.same({{0, 5, 10}}, gpu.decode("P2 3 1 10 0 5 10", {scale = false}).planes[1]:totable())
        end)

        it("take comments, text and single bits (N12)", function()
            assert.same({{0, 255, 0}, {255, 255, 0}}, gpu.decode("P1 #c\n3 # w\n2\n10 1\n001").planes[1]:totable())
            assert.same({{0, 255, 0, 255, 0, 255, 0, 255, 0}}, gpu.decode("P4\n9 1\n\xaa\x80").planes[1]:totable())
            assert.same({{{1, 2, 3}, {255, 0, 9}}}, gpu.decode("P3 2 1 255\n1 2 3\n255 0 9\n").planes[1]:totable())
            assert.equal("ya8", gpu.decode("P7\nWIDTH 1\nHEIGHT 1\n# c\nDEPTH 2\nMAXVAL 255\nTUPLTYPE GRAYSCALE_ALPHA\nENDHDR\nab").format)
        end)

        it("say what is wrong", function()
            raises("BAD_FILE", "truncated", gpu.decode, "P2 3 1 255 100 2")
            raises("BAD_FILE", "cut or damaged", gpu.decode, "P5 300 100 255\nabc")
            raises("BAD_FILE", "over the maximum", gpu.decode, "P5 1 1 100\n\xc8")
            raises("BAD_FILE", "no number", gpu.decode, "P2 2 1 255 1 x")
            raises("BAD_FILE", "maximum", gpu.decode, "P5 1 1 70000\nab")
            assert.same({{100}}, gpu.decode("P5 1 1 100\n\xc8", {strict = false, scale = false}).planes[1]:totable())
        end)

        it("PFM begins at the bottom, and its sign tells the byte order (N11)", function()
            local five, seven = "\0\0\xa0\x40", "\0\0\xe0\x40"
            assert.same({{7}, {5}}, gpu.decode("Pf\n1 2\n-1.0\n" .. five .. seven).planes[1]:totable())
            assert.same({{7}, {5}}, gpu.decode("Pf 1 2 1.0\n" .. five:reverse() .. seven:reverse()).planes[1]:totable())
            assert.equal("Pf\n1 2\n-1.0\n" .. five .. seven, gpu.encode(gpu.mat(1, 2, "f32"):upload {7, 5}, "pfm"))
        end)

        it("are written big-endian", function()
            assert.equal("P5\n2 1\n65535\n\1\2\xff\0", gpu.encode(gpu.mat(2, 1, "u16"):upload {258, 65280}, "pnm"))
            local m = gpu.mat(2, 1, "u16x4"):upload(helper.bytes(16))
            assert.equal(m:download(), pixels(gpu.decode(gpu.encode(m, "pnm"))))
        end)
    end)
end)
