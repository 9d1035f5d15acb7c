-- SPDX-License-Identifier: MIT
-- Images: planes with a format, made, wrapped, and found in a packed frame.
local gpu = require "gpuwb"
local helper = require "tests.helper"

helper.each_device(function(device)
    describe("gpu.image", function()
        it("has the planes of its format", function()
            local img = gpu.image("nv12", 5, 3, {matrix = "bt709", range = "tv", siting = "centre"})
            assert.same({"nv12", 5, 3, 8, 2}, {img.format, img.width, img.height, img.depth, #img.planes})
            assert.same({"bt709", "limited", "center"}, {img.matrix, img.range, img.siting})
            assert.same({5, 3, "u8"}, {img.planes[1].width, img.planes[1].height, img.planes[1].type})
            assert.same({3, 2, "u8x2"}, {img.planes[2].width, img.planes[2].height, img.planes[2].type})
            assert.equal(device, img.planes[2].device)
            assert.equal("image 5x3 nv12 bt709 limited center", tostring(img))
        end)

        it("takes an alias with its range", function()
            local img = gpu.image("yuvj420p", 4, 4)
            assert.same({"yuv420p", "full"}, {img.format, img.range})
            assert.equal("limited", gpu.image("yuvj420p", 4, 4, {range = "limited"}).range)
        end)

        it("makes every format at every small size", function()
            for _, name in ipairs((gpu.formats())) do
                for _, size in ipairs {{0, 0}, {1, 1}, {5, 3}, {7, 1}} do
                    local img = gpu.image(name, size[1], size[2])
                    assert.equal(gpu.format(name).planes, #img.planes)
                end
            end
        end)

        it("refuses what makes no sense", function()
            helper.raises("BAD_ARGUMENT", "width", gpu.image, "nv12", -1, 4)
            helper.raises("BAD_ARGUMENT", "height", gpu.image, "nv12", 4, 2.5)
            helper.raises("BAD_ARGUMENT", "yuv999", gpu.image, "yuv999", 4, 4)
            helper.raises("BAD_ARGUMENT", "known:", gpu.image, "nv12", 4, 4, {colour = "red"})
            helper.raises("BAD_ARGUMENT", {"range", "limited, full"}, gpu.image, "nv12", 4, 4, {range = "studio"})
            helper.raises("BAD_ARGUMENT", "0..1", gpu.image, "rgbf32le", 4, 4, {range = "limited"})
            helper.raises("BAD_ARGUMENT", "gbr", gpu.image, "nv12", 4, 4, {matrix = "gbr"})
        end)
    end)

    describe("gpu.image_from", function()
        it("wraps mats without a copy", function()
            local y, uv = gpu.mat(4, 4, "u8"), gpu.mat(2, 2, "u8x2")
            local img = gpu.image_from("nv12", {y, uv}, {range = "full"})
            assert.is_true(img.planes[1] == y)
            y:fill(7)
            assert.equal(7, img:convert("gray").planes[1]:at(3, 3))
        end)

        it("takes the width of groups from the mat or from the caller", function()
            assert.equal(6, gpu.image_from("yuyv422", {gpu.mat(3, 2, "u8x4")}).width)
            assert.equal(5, gpu.image_from("yuyv422", {gpu.mat(3, 2, "u8x4")}, {width = 5}).width)
            helper.raises("SHAPE", "7 x 2", gpu.image_from, "yuyv422", {gpu.mat(3, 2, "u8x4")}, {width = 7})
        end)

        it("checks them against the format", function()
            local y = gpu.mat(5, 3, "u8")
            helper.raises("SHAPE", {"plane 2", "3x2", "3 x 2", "u8"}, gpu.image_from, "nv12", {y, gpu.mat(3, 2, "u8")})
            helper.raises("SHAPE", "plane 2", gpu.image_from, "nv12", {y, gpu.mat(2, 1, "u8x2")})
            helper.raises("SHAPE", "2 planes", gpu.image_from, "nv12", {y})
            helper.raises("SHAPE", "plane 1", gpu.image_from, "gray16le", {y})
            helper.raises("BAD_ARGUMENT", "plane 1", gpu.image_from, "nv12", {})
            helper.raises("BAD_ARGUMENT", "list", gpu.image_from, "nv12", y)
            local closed = gpu.mat(5, 3, "u8")
            closed:close()
            helper.raises("CLOSED", "", gpu.image_from, "gray", {closed})
        end)
    end)

    describe("m:planes", function()
        it("finds the planes of a decoder's frame, which is 1.5 times as high", function()
            local w, h = 6, 4
            local bytes = {}
            for i = 0, w * h * 3 / 2 - 1 do bytes[i + 1] = i end
            local img = gpu.mat(w, h * 3 / 2, "u8", {packed = true}):upload(bytes):planes("yuv420p", w, h, {matrix = "bt601", range = "limited"})
            assert.equal(23, img.planes[1]:at(5, 3))
            assert.same({{24, 25, 26}, {27, 28, 29}}, img.planes[2]:totable())
            assert.same({{30, 31, 32}, {33, 34, 35}}, img.planes[3]:totable())
            assert.is_true(img.planes[3]:is_view())
        end)

        it("splits chroma by rows, not by columns (Y3)", function()
            local w, h = 8, 6
            local frame = gpu.mat(w, h * 3 / 2, "u8", {packed = true})
            local y = {}
            for i = 0, w * h - 1 do y[i + 1] = 16 + i % w end
            frame:rows(0, h):upload(y)
            frame:reshape(w * h * 3 / 2, 1):cols(w * h, w * h / 4):fill(90)
            frame:reshape(w * h * 3 / 2, 1):cols(w * h * 5 / 4, w * h / 4):fill(200)
            local img = frame:planes("yuv420p", w, h)
            assert.equal(("\200"):rep(w * h / 4), img.planes[3]:download())
            assert.equal(("\90"):rep(w * h / 4), img.planes[2]:download())
        end)

        it("swaps U and V where the name says so", function()
            local frame = gpu.mat(6, 1, "u8"):upload {1, 2, 3, 4, 10, 20}
            local i420, yv12 = frame:planes("i420", 2, 2), frame:planes("yv12", 2, 2)
            assert.same({10, 20}, {i420.planes[2]:at(0, 0), i420.planes[3]:at(0, 0)})
            assert.same({20, 10}, {yv12.planes[2]:at(0, 0), yv12.planes[3]:at(0, 0)})
            assert.equal("yuv420p", yv12.format)
        end)

        it("takes words out of bytes", function()
            local img = gpu.mat(24, 1, "u8", {packed = true}):fill(3):planes("p010le", 4, 2)
            assert.same({"u16", "u16x2"}, {img.planes[1].type, img.planes[2].type})
            assert.equal(771, img.planes[1]:at(3, 1))
        end)

        it("finds frames behind one another", function()
            local all = gpu.mat(12, 1, "u8"):upload {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}
            assert.equal(11, all:planes("yuv420p", 2, 2, {offset = 6}).planes[2]:at(0, 0))
            helper.raises("SHAPE", "12 bytes", function() all:planes("yuv420p", 2, 2, {offset = 7}) end)
        end)

        it("keeps the frame alive", function()
            local img = gpu.mat(4, 6, "u8", {packed = true, fill = 9}):planes("yuv420p", 4, 4)
            collectgarbage() collectgarbage()
            assert.equal(9, img.planes[3]:at(1, 1))
        end)

        it("refuses a frame of another size, and gaps", function()
            helper.raises("SHAPE", {"36 bytes", "4 x 4", "24"}, function() gpu.mat(6, 6, "u8", {packed = true}):planes("yuv420p", 4, 4) end)
            helper.raises("SHAPE", "packed", function() gpu.mat(6, 6, "u8", {align = 64}):planes("yuv420p", 6, 4) end)
            helper.raises("BAD_ARGUMENT", "width", function() gpu.mat(6, 6, "u8"):planes("yuv420p", "6", 4) end)
            assert.equal(2, #gpu.mat(0, 0, "u8"):planes("nv12", 0, 0).planes)
        end)
    end)

    describe("an image", function()
        it("is cloned, moved and closed", function()
            local img = gpu.image("nv12", 4, 4, {matrix = "bt709", range = "limited"})
            img.planes[1]:fill(5)
            img.planes[2]:fill(6)
            local copy = img:clone()
            img.planes[1]:fill(7)
            assert.equal(5, copy.planes[1]:at(0, 0))
            assert.same({"bt709", "limited"}, {copy.matrix, copy.range})
            local host = copy:to("host")
            assert.equal("host", host.planes[2].device)
            assert.same({6, 6}, {host.planes[2]:at(1, 1)})
            img:close()
            img:close()
            helper.raises("CLOSED", "", function() img:clone() end)
            assert.equal(5, copy.planes[1]:at(0, 0))
        end)

        it("is copied to another of its format", function()
            local a, b = gpu.image("yuv420p", 5, 3), gpu.image("yuv420p", 5, 3)
            for i, m in ipairs(a.planes) do m:fill(i) end
            gpu.copy(b, a)
            assert.same({1, 2, 3}, {b.planes[1]:at(4, 2), b.planes[2]:at(2, 1), b.planes[3]:at(2, 1)})
        end)

        it("keeps its tags through a conversion", function()
            local img = gpu.image("yuv420p", 4, 4, {matrix = "bt709", range = "limited", siting = "topleft", transfer = "pq", primaries = "bt2020"})
            local yuv = img:convert("p010le")
            assert.same({"bt709", "limited", "topleft", "pq", "bt2020"}, {yuv.matrix, yuv.range, yuv.siting, yuv.transfer, yuv.primaries})
            local rgb = img:convert("rgb24")
            assert.same({"bt709", "full", "pq"}, {rgb.matrix, rgb.range, rgb.transfer})
            local back = rgb:convert("nv12", {range = "limited"})
            assert.same({"bt709", "limited", "left"}, {back.matrix, back.range, back.siting})
            local other = img:convert("yuv420p", {matrix = "bt601", range = "full", siting = "center"})
            assert.same({"bt601", "full", "center"}, {other.matrix, other.range, other.siting})
        end)

        it("may be told what it is on the way", function()
            local img = gpu.image("nv12", 2, 2)
            img.planes[1]:fill(126)
            img.planes[2]:fill(128)
            assert.equal(128, (img:convert("rgb24", {matrix = "bt601", range = "limited"}).planes[1]:at(0, 0)))
            assert.is_nil(img.matrix)
            local full = img:convert("nv12", {from = {range = "limited"}, to = {range = "full"}})
            assert.equal(128, full.planes[1]:at(0, 0))
            img.range = "pc"
            assert.equal(126, (img:convert("gray").planes[1]:at(0, 0)))
        end)
    end)

    describe("light", function()
        it("is made linear, given a curve again, and mapped to what a screen shows", function()
            local img = gpu.image("rgb24", 1, 1, {transfer = "srgb", primaries = "bt709"})
            img.planes[1]:fill {128, 255, 1}
            local linear = img:linearize()
            assert.equal("linear", linear.transfer)
            local r, g, b = linear.planes[1]:at(0, 0)
            assert.is_true(math.abs(r - 0.215861) < 1e-6 and g == 1 and math.abs(b - 0.000303527) < 1e-9)
            assert.same({128, 255, 1}, {linear:delinearize("srgb").planes[1]:at(0, 0)})
            local hdr = gpu.image("rgb48le", 1, 1, {transfer = "pq", primaries = "bt2020"})
            hdr.planes[1]:fill {40000, 30000, 20000}
            for _, curve in ipairs {"bt2390", "reinhard", "hable"} do
                local sdr = hdr:tonemap(curve)
                assert.same({"rgb24", "srgb", "bt709"}, {sdr.format, sdr.transfer, sdr.primaries})
                r, g, b = sdr.planes[1]:at(0, 0)
                assert.is_true(r > g and g > b and r <= 255)
            end
            helper.raises("BAD_ARGUMENT", "reinhard", hdr.tonemap, hdr, "loud")
            helper.raises("BAD_ARGUMENT", "transfer", gpu.image("rgb24", 1, 1).linearize, gpu.image("rgb24", 1, 1))
        end)
    end)
end)
