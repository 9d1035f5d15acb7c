-- SPDX-License-Identifier: MIT
-- Pictures read ahead: where large ones lie, and those that nvJPEG decodes.
local gpu = require "gpuwb"
local helper = require "tests.helper"
local make = require "tests.pictures"
local at, pixels = make.at, make.pixels

local folder

setup(function() folder = helper.folder() end)
teardown(function() helper.remove(folder) end)

-- A fresh folder inside the spec's.
local count = 0
local function fresh()
    count = count + 1
    return gpu.make_folder(folder .. "/" .. count)
end

helper.each_device(function(name)
    describe("files", function()
        -- Large ones are decoded into memory of the pool, which a mat takes over as it is.
        it("that are large are right in used memory, with any row size, turned and cut", function()
            local where = fresh()
            for _, w in ipairs {701, 704} do
                local bytes, bigger = helper.bytes(w * 601 * 3), make.exif(6)
                local png, jpg = where .. "/a.png", where .. "/a.jpg"
                gpu.mat(w, 601, "u8x3"):upload(bytes):save(png)
                local coded = gpu.encode(gpu.mat(w, 601, "u8x3", {fill = {200, 100, 50}}), "jpg")
                helper.write(jpg, coded:sub(1, 2) .. bigger .. coded:sub(3))
                for _ = 1, 3 do
                    local used = {}
                    for i = 1, 6 do
                        used[i] = gpu.mat(w, 601, "u8x3", {fill = 0xee, device = "host"})
                    end
                    for i = 1, 6 do
                        used[i]:close()
                    end
                    assert.equal(bytes, pixels(gpu.load(png)))
                    for img, path in gpu.files {png, jpg, png} do
                        if path == png then
                            assert.equal(bytes, pixels(img))
                            assert.is_false(img.planes[1]:is_view())
                        else
                            assert.same({601, w}, {img.width, img.height})
                            local stored = gpu.load(jpg, {orient = false}).planes[1]
                            for _, place in ipairs {{0, 0}, {600, w - 1}, {300, 77}} do
                                assert.same({stored:at(place[2], 600 - place[1])}, at(img, place[1], place[2]))
                            end
                        end
                    end
                    local cut = gpu.decode(make.png(w, 601, 8, 2, {bytes:sub(1, w * 3)}), {strict = false})
                    assert.same({bytes:byte(w * 3), 0, 0, 0}, {select(3, cut.planes[1]:at(w - 1, 0)), cut.planes[1]:at(w - 1, 600)})
                end
            end
        end)

        it("and that are dropped are given back by one collection", function()
            local path = fresh() .. "/a.png"
            gpu.save(gpu.mat(1024, 1024, "u8x3", {fill = 5}), path)
            collectgarbage()
            collectgarbage()
            local before = gpu.memory().used
            for _ = 1, 10 do
                gpu.load(path)
            end
            collectgarbage()
            assert.is_true(gpu.memory().used < before + 7e6)        -- of ten pictures of 3 MB
        end)

        it("and that are dropped do not fill the memory", function()
            local path = fresh() .. "/a.png"
            gpu.save(gpu.mat(2048, 1024, "u8x4", {fill = 5}), path)        -- 8 MB
            local list = {}
            for i = 1, 150 do
                list[i] = path
            end
            collectgarbage()
            local before, most = gpu.memory().used, 0
            for _ in gpu.files(list, {threads = 2}) do
                most = math.max(most, gpu.memory().used - before)
            end
            for _ = 1, 100 do
                gpu.load(path)
                most = math.max(most, gpu.memory().used - before)
            end
            assert.is_true(most < 5e8, tostring(most))
        end)
    end)

    describe("what nvJPEG gives", function()
        it("is turned upright as the host turns it", function()
            local blocks = {{{10}, {60}, {110}}, {{160}, {210}, {250}}}
            for orientation = 1, 8 do
                local bytes = make.jpg(17, 9, blocks, {before = make.exif(orientation)})
                local want = gpu.decode(bytes)
                local img = require("gpuwb.many").upright(gpu.decode(bytes, {orient = false}), orientation)
                assert.same({want.width, want.height, pixels(want)}, {img.width, img.height, pixels(img)})
            end
        end)

        -- On a GPU: GPUWB_TEST_DEVICE=cuda:0 prints how far its pixels are from libjpeg-turbo's.
        it("is near what the host gives, with its tags", function()
            if name == "host" or not pcall(require("gpuwb.nvjpeg_library").open, "spec") then
                return pending "needs a GPU and nvJPEG"
            end
            local where, list, bytes = fresh(), {}, {}
            for y = 0, 250 do
                for x = 0, 332 do
                    bytes[#bytes + 1] = string.char(127 + 100 * math.sin(x / 40), 127 + 100 * math.cos(y / 30), (x + y) / 3)
                end
            end
            local smooth = gpu.mat(333, 251, "u8x3", {device = "host"}):upload(table.concat(bytes))
            for _, subsampling in ipairs {"444", "422", "420", "440", "411"} do
                list[#list + 1] = ("%s/%s.jpg"):format(where, subsampling)
                gpu.save(smooth, list[#list], {subsampling = subsampling, quality = 95})
            end
            local function file(text)
                list[#list + 1] = ("%s/%d.jpg"):format(where, #list)
                helper.write(list[#list], text)
            end
            local first = helper.read(list[1])
            file(first:sub(1, 2) .. make.exif(6) .. first:sub(3))
            gpu.save(gpu.mat(333, 251, "u8", {device = "host"}):upload(table.concat(bytes):sub(1, 333 * 251)), where .. "/gray.jpg")
            list[#list + 1] = where .. "/gray.jpg"
            file(make.samples()["cmyk.jpg"] or make.jpg(16, 16, {{{9, 9, 9, 9}, {9, 9, 9, 9}}, {{9, 9, 9, 9}, {9, 9, 9, 9}}}, {app14 = 0}))
            file(make.png(3, 1, 8, 0, {"abc"}))
            for _, format in ipairs {"rgb", "native"} do
                local read = {decode = "auto", format = format == "native" and format or nil, threads = 3}
                local seen, other = 0, format == "native" and 7 or 9
                for img, path, n in gpu.files({unpack(list, 1, other)}, read) do
                    local want = gpu.load(path, {format = read.format, device = "host"})
                    assert.same({want.width, want.height, want.format, want.matrix or 0, want.range or 0, want.siting or 0, "cuda:0"},
                        {img.width, img.height, img.format, img.matrix or 0, img.range or 0, img.siting or 0, img.planes[1].device})
                    for i, plane in ipairs(img.planes) do
                        local d = gpu.diff(plane:to("host"), want.planes[i])
                        print(("nvJPEG, %s, %s, plane %d: at most %d, mean %.3f"):format(path:match("[^/]*$"), img.format, i, d.max, d.mean))
                        assert(d.mean < (n < 9 and 2 or 1e-9) and d.max <= (n >= 8 and 0 or format == "native" and 4 or 16), path)
                    end
                    seen = seen + 1
                end
                assert.equal(other, seen)
            end
        end)
    end)
end)
