-- SPDX-License-Identifier: MIT
-- Many files: lists, pictures read ahead and written behind, the facts of a file without its pixels, GIF frame by frame, npz, and the scripts on top.
local gpu = require "gpuwb"
local ffi = require "ffi"
local helper = require "tests.helper"
local make = require "tests.pictures"
local raises, at, pixels = helper.raises, make.at, make.pixels

local folder

setup(function() folder = helper.folder() end)
teardown(function() helper.remove(folder) end)

local function write(name, text)
    return helper.write(folder .. "/" .. name, text)
end

-- A fresh folder inside the spec's.
local count = 0
local function fresh()
    count = count + 1
    return gpu.make_folder(folder .. "/" .. count)
end

-- n small gray PNGs whose first pixel is their number; a list of paths.
local function pictures_in(where, n)
    local list = {}
    for i = 1, n do
        list[i] = helper.write(("%s/%03d.png"):format(where, i), make.png(4, 2, 8, 0, {string.char(i, 1, 2, 3), "abcd"}))
    end
    return list
end

helper.each_device(function(name)
    describe("files", function()
        it("come in order, each once, whatever threads and prefetch", function()
            local list = pictures_in(fresh(), 40)
            for _, opts in ipairs {{}, {threads = 1, prefetch = 1}, {threads = 4, prefetch = 2}, {threads = 2, prefetch = 100},
                                   {isolated = make.can_isolate(), threads = 2}} do
                local seen = {}
                for img, path, n, warning in gpu.files(list, opts) do
                    seen[#seen + 1] = n
                    assert.same({list[n], n, 4, 2, "gray", "nil"}, {path, img.planes[1]:at(0, 0), img.width, img.height, img.format, tostring(warning)})
                    assert.equal(name, img.planes[1].device)
                end
                assert.equal(40, #seen)
                for i = 1, 40 do
                    assert.equal(i, seen[i])
                end
            end
        end)

        it("come as they are ready with ordered=false", function()
            local list, seen = pictures_in(fresh(), 30), {}
            for img, _, n in gpu.files(list, {ordered = false, threads = 3}) do
                assert.is_nil(seen[n])
                seen[n] = img.planes[1]:at(0, 0)
            end
            for i = 1, 30 do
                assert.equal(i, seen[i])
            end
        end)

        it("that are bad are raised in their place, or skipped and listed", function()
            local where = fresh()
            local list = pictures_in(where, 6)
            os.remove(list[2])
            local bad = io.open(list[4], "wb")
            bad:write(make.samples()["gray.png"]:sub(1, -15))
            bad:close()
            local reader, seen = gpu.files(list, {errors = "skip", threads = 2}), {}
            for _, _, n in reader do
                seen[#seen + 1] = n
            end
            assert.same({1, 3, 5, 6}, seen)
            assert.same({2, list[2], "NO_FILE", 4, list[4], "BAD_FILE"}, {reader.failed[1].index, reader.failed[1].path, reader.failed[1].error.code,
                reader.failed[2].index, reader.failed[2].path, reader.failed[2].error.code})
            assert.truthy(tostring(reader.failed[2].error):find("truncated", 1, true))
            seen = {}
            local err = raises("NO_FILE", {"gpu.files", list[2]}, function()
                for _, _, n in gpu.files(list) do
                    seen[#seen + 1] = n
                end
            end)
            assert.equal("gpu.files", err.op)
            assert.same({1}, seen)
            local lenient, warnings = gpu.files({list[4]}, {strict = false}), 0
            for _, _, _, warning in lenient do
                warnings = warnings + (warning:find("truncated", 1, true) and 1 or 0)
            end
            assert.equal(1, warnings)
        end)

        it("give what gpu.load gives, of every kind", function()
            local where, list = fresh(), {}
            for sample, bytes in pairs(make.samples()) do
                list[#list + 1] = write(where:match("[^/]*$") .. "/" .. sample, bytes)
            end
            local seen = 0
            for img, path in gpu.files(list, {threads = 2}) do
                seen = seen + 1
                local want = gpu.load(path)
                assert.equal(pixels(want), pixels(img), path)
                if type(want) == "table" then
                    assert.same({want.format, want.matrix or 0, want.range or 0, want.transfer or 0, want.icc or 0},
                        {img.format, img.matrix or 0, img.range or 0, img.transfer or 0, img.icc or 0})
                else
                    assert.equal(want.type, img.type)
                end
            end
            assert.equal(#list, seen)
            for img in gpu.files({where .. "/colour.jpg"}, {format = "native"}) do
                assert.equal("yuv444p", img.format)
            end
        end)

        it("may be left early, closed, and dropped", function()
            local list = pictures_in(fresh(), 20)
            for _ = 1, 5 do
                local reader = gpu.files(list, {threads = 2})
                reader()
                reader:close()
                reader:close()
                assert.is_nil(reader())
                gpu.files(list)()
            end
            collectgarbage()
            assert.is_nil(gpu.files({})())
            raises("BAD_ARGUMENT", "path 2", gpu.files, {"a", 7})
            raises("BAD_ARGUMENT", "list of paths", gpu.files, 7)
            raises("BAD_ARGUMENT", {"effort", "threads"}, gpu.files, {}, {effort = 1})
            raises("BAD_ARGUMENT", "threads", gpu.files, {}, {threads = 0})
            raises("BAD_ARGUMENT", "errors", gpu.files, {}, {errors = "ignore"})
            raises("BAD_ARGUMENT", {"host", "auto"}, gpu.files, {}, {decode = "magic"})
        end)

        it("keep memory bounded", function()
            local where = fresh()
            gpu.save(gpu.mat(1000, 1000, "u8x3", {fill = 5}), where .. "/0.png")
            local list = {}
            for i = 1, 60 do
                list[i] = where .. "/0.png"
            end
            collectgarbage()
            gpu.trim()
            local before = gpu.memory().used
            local most, seen = 0, 0
            for img in gpu.files(list, {threads = 2, prefetch = 4}) do
                most, seen = math.max(most, gpu.memory().used - before), seen + 1
                for _, plane in ipairs(img.planes) do
                    plane:close()
                end
            end
            assert.equal(60, seen)
            assert.is_true(most <= 6 * 3.2e6, tostring(most))
        end)
    end)

    describe("a writer", function()
        it("writes what it is given, and tells what failed", function()
            local where = fresh()
            local w = gpu.writer {threads = 3, ahead = 2}
            for i = 1, 25 do
                local m = gpu.mat(5, 3, "u8x3", {fill = i})
                assert.equal(m, w:save(m, ("%s/%d.png"):format(where, i)))
                m:fill(0)       -- the writer has its own copy
            end
            w:save(gpu.mat(2, 2, "u8", {fill = 1}), where .. "/no/such.png")
            w:save(gpu.mat(8, 8, "u8x4", {fill = 1}), where .. "/alpha.jpg")
            local failed = w:wait()
            table.sort(failed, function(a, b) return a.path < b.path end)
            assert.same({where .. "/alpha.jpg", "UNSUPPORTED", where .. "/no/such.png", "NO_FILE"},
                {failed[1].path, failed[1].error.code, failed[2].path, failed[2].error.code})
            assert.same({}, w:failed())
            for i = 1, 25 do
                assert.same({i, i, i}, at(gpu.load(("%s/%d.png"):format(where, i)), 4, 2))
            end
            assert.equal(25, #gpu.list(where))
            assert.same({}, w:close())
            assert.same({}, w:close())
            raises("CLOSED", "closed", w.save, w, gpu.mat(1, 1, "u8", {fill = 0}), "x.png")
            raises("BAD_ARGUMENT", "writer", w.save, 7)
        end)

        it("keeps a copy of large pictures and of regions", function()
            local where = fresh()
            local bytes, w = helper.bytes(803 * 701 * 3), gpu.writer {threads = 2}
            local m = gpu.mat(803, 701, "u8x3"):upload(bytes)
            local want = m:roi(1, 2, 801, 699):download()
            for i = 1, 6 do
                w:save(i % 2 == 0 and m or m:roi(1, 2, 801, 699), ("%s/%d.pnm"):format(where, i))
            end
            m:fill(7)
            assert.same({}, w:close())
            for i = 1, 6 do
                assert.equal(i % 2 == 0 and bytes or want, pixels(gpu.load(("%s/%d.pnm"):format(where, i))))
            end
            collectgarbage()
            local before = gpu.memory().used
            for i = 1, 12 do        -- made for the file: not copied once more
                local bgr = gpu.image_from("bgr24", {m:fill(i)})
                bgr.icc = ("p"):rep(200)
                w = w.handle and w or gpu.writer {threads = 2}
                w:save(bgr, ("%s/%d.png"):format(where, i))
                raises("BAD_ARGUMENT", "quality", w.save, w, bgr, "x.png", {quality = 3})
            end
            m:fill(0)
            assert.same({}, w:close())
            for i = 1, 12 do
                assert.same({i, i, i}, at(gpu.load(("%s/%d.png"):format(where, i)), 802, 700))
            end
            collectgarbage()
            collectgarbage()
            assert.is_true(gpu.memory().used < before + 4e6)        -- not twelve pictures of 1.7 MB
        end)

        it("refuses at once what can be known at once", function()
            local w = gpu.writer()
            raises("UNSUPPORTED", ".foo", w.save, w, gpu.mat(1, 1, "u8", {fill = 0}), "x.foo")
            raises("BAD_ARGUMENT", "quality", w.save, w, gpu.mat(1, 1, "u8", {fill = 0}), "x.jpg", {quality = 101})
            raises("UNSUPPORTED", "one picture", w.save, w, {gpu.mat(1, 1, "u8"), gpu.mat(1, 1, "u8")}, "x.yuv")
            raises("BAD_ARGUMENT", "threads", gpu.writer, {threads = 1.5})
            gpu.writer()        -- dropped
            collectgarbage()
        end)
    end)

    describe("a list", function()
        it("is of a pattern or a folder, sorted", function()
            local where = fresh()
            gpu.make_folder(where .. "/deep/er")
            local names = {"b.png", "a b.png", "deep/c.png", "deep/er/d.jpg", "é\n.png"}
            for _, n in ipairs(names) do
                write(where:match("[^/]*$") .. "/" .. n, "x")
            end
            local function short(list)
                for i, path in ipairs(list) do
                    list[i] = path:sub(#where + 2)
                end
                return list
            end
            assert.same({"a b.png", "b.png", "é\n.png"}, short(gpu.list(where .. "/*.png")))
            assert.same({"a b.png", "b.png", "é\n.png"}, short(gpu.list(where)))
            assert.same({"a b.png", "b.png", "deep/c.png", "deep/er/d.jpg", "é\n.png"}, short(gpu.list(where .. "/", {deep = true})))
            assert.same({}, gpu.list(where .. "/*.gif"))
            raises("NO_FILE", "nothing", gpu.list, where .. "/nothing")
            raises("IO", "cannot make", gpu.make_folder, where .. "/b.png/x")
            assert.same({"b.png"}, short(gpu.list(where .. "/b.png")))
        end)
    end)

    describe("gpu.info", function()
        it("tells what a file is without its pixels", function()
            local samples = make.samples()
            for sample, bytes in pairs(samples) do
                local info, obj = gpu.info {bytes = bytes}, gpu.decode(bytes)
                local what = type(obj) == "table" and obj.format or obj.type
                assert.same({sample, obj.width, obj.height, what}, {sample, info.width, info.height, info.format or info.type})
                assert.equal(info.kind, gpu.info(write("info", bytes)).kind)
            end
            local function of(sample) return gpu.info {bytes = samples[sample]} end
            assert.same({"png", 2, "palette"}, {of "palette.png".kind, of "palette.png".depth, of "palette.png".coding})
            assert.same({16, 8, "interlaced"}, {of "deep.png".depth, of "interlaced.png".depth, of "interlaced.png".coding})
            assert.equal(128, #of "interlaced.png".icc)
            assert.same({"jpg", 9, 17, 6}, {of "gray.jpg".kind, of "gray.jpg".width, of "gray.jpg".height, of "gray.jpg".orientation})
            assert.same({"progressive", "yuv444p"}, {of "progressive.jpg".coding, of "progressive.jpg".native})
            assert.same({2, 3, 2, 30, "full", "center"}, {of "two.gif".frames, of "moving.gif".frames, of "a.y4m".frames, of "a.y4m".rate, of "a.y4m".range,
                of "a.y4m".siting})
            assert.same({"npz", 1, "arr_0", "u16"}, {of "a.npz".kind, of "a.npz".frames, of "a.npz".coding, of "a.npz".type})
            assert.equal(4, of "text.pgm".depth)    -- of a maximum of 9
            raises("BAD_FILE", "known", gpu.info, {bytes = "hello"})
            raises("NO_FILE", "nothing", gpu.info, folder .. "/nothing")
            raises("BAD_ARGUMENT", "path", gpu.info, 7)
        end)

        it("is quick and takes no memory for a large picture", function()
            local file = make.png_raw(20000, 10000, 8, 6, "")
            local before = os.clock()
            raises("BAD_FILE", "20000x10000", gpu.info, {bytes = file})     -- it holds them to what the file can have
            local big = gpu.encode(gpu.mat(8000, 8000, "u8", {fill = 3}), "png", {level = 1})
            before = os.clock()
            assert.same({8000, 8000}, {gpu.info({bytes = big}).width, gpu.info({bytes = big}).height})
            assert.is_true(os.clock() - before < 0.5)
        end)
    end)

    describe("GIF", function()
        local colours = "\10\10\10\20\20\20\30\30\30\40\40\40"
        local function frames_of(file)
            local out, delays = {}, {}
            for img, n in gpu.frames(write("a.gif", file)) do
                out[n + 1], delays[n + 1] = img.planes[1]:totable(), img.delay or 0
            end
            return out, delays
        end

        it("gives all frames whole, by their disposal and transparency (S24)", function()
            local function gray(...)
                local row = {}
                for i, v in ipairs {...} do
                    row[i] = v == 0 and {0, 0, 0, 0} or {v, v, v, 255}
                end
                return row
            end
            local first = {0, 1, 2, 3, 2, 1}
            local function second(disposal)
                return {indexes = {3, 0}, x = 1, y = 1, w = 2, h = 1, clear = 0, disposal = disposal, delay = 7}
            end
            local third = {indexes = {2}, w = 1, h = 1}
            local one, two = {gray(10, 20, 30), gray(40, 30, 20)}, {gray(10, 20, 30), gray(40, 40, 20)}
            local after = {[0] = two[2], [1] = two[2], [2] = gray(40, 0, 0), [3] = one[2]}
            for disposal, row in pairs(after) do
                local got, delays = frames_of(make.gif(3, 2, colours, {first, second(disposal), third}))
                assert.same({one, two, {gray(30, 20, 30), row}}, got)
                assert.same({100, 70, 100}, delays)
            end
            -- What no frame covered is clear, and a frame may reach over the edge.
            assert.same({{gray(0, 0, 0), gray(0, 0, 40)}}, (frames_of(make.gif(3, 2, colours, {{indexes = {3, 3, 3, 3}, x = 2, y = 1, w = 2, h = 2}}))))
            assert.same({20, 20, 20, 255}, at(gpu.load(write("b.gif", make.gif(1, 1, colours, {{0}, {1}})), {frame = 1}), 0, 0))
            raises("BAD_ARGUMENT", "frame 2", gpu.load, folder .. "/b.gif", {frame = 2})
            local n = 0
            for _ in gpu.frames(folder .. "/b.gif", {frame = 1}) do
                n = n + 1
            end
            assert.equal(1, n)
        end)

        it("of all its codes, interlaced, with palettes of its own", function()
            local random, indexes, w, h = helper.random(9), {}, 123, 77
            for i = 1, w * h do
                indexes[i] = random(3) == 0 and random(256) or (i % 5)
            end
            local palette, other = helper.bytes(768), helper.bytes(768, 5)
            local function check(order, file, used)
                local got = gpu.decode(file).planes[1]:download()
                for y = 0, h - 1 do
                    for x = 0, w - 1 do
                        local index = indexes[order(y) * w + x + 1]
                        local at_pixel = (y * w + x) * 4
                        assert(got:sub(at_pixel + 1, at_pixel + 3) == used:sub(3 * index + 1, 3 * index + 3), ("pixel %d,%d"):format(x, y))
                    end
                end
            end
            check(function(y) return y end, make.gif(w, h, palette, {indexes}), palette)
            -- Of an interlaced one row y stands behind all of the passes before.
            local place, n = {}, 0
            for _, pass in ipairs {{0, 8}, {4, 8}, {2, 4}, {1, 2}} do
                for y = pass[1], h - 1, pass[2] do
                    place[y], n = n, n + 1
                end
            end
            check(function(y) return place[y] end, make.gif(w, h, palette, {{indexes = indexes, interlaced = true, palette = other}}), other)
        end)

        it("that is cut gives the frames before", function()
            local file = make.gif(3, 2, colours, {{0, 1, 2, 3, 2, 1}, {3, 3, 3, 3, 3, 3}})
            assert.equal(2, #(frames_of(file:sub(1, -2))))      -- without its end mark
            raises("BAD_FILE", {"truncated", "frame 1"}, frames_of, file:sub(1, -6))
            raises("BAD_FILE", "frame 0", gpu.decode, file:sub(1, 45))
            local img, warning = gpu.decode(file:sub(1, -6), {strict = false, frame = 1})
            assert.same({3, "truncated"}, {img.width, warning:match("truncated")})
            raises("BAD_FILE", "colours", gpu.decode, file:sub(1, 20))
        end)
    end)

    describe("npz", function()
        it("gives the array that is named", function()
            local one, two = make.npy("<u2", "(1, 3)", "\1\0\2\0\3\0"), make.npy("<f4", "(1, 1)", "\0\0\128\63")
            local both = make.zip {{"a.npy", one}, {"sub/b.npy", two}}
            raises("BAD_ARGUMENT", {"a, sub/b", "array="}, gpu.decode, both)
            assert.same({{1, 2, 3}}, gpu.decode(both, {array = "a"}):totable())
            assert.same({{1}}, gpu.decode(both, {array = "sub/b"}):totable())
            raises("BAD_ARGUMENT", {"no array c", "a, sub/b"}, gpu.decode, both, {array = "c"})
            assert.same({{1, 2, 3}}, gpu.decode(make.zip {{"x.npy", one}}):totable())
            assert.equal("a, sub/b", gpu.info({bytes = both}).coding)
            local at_data = both:find("\1\0\2\0\3\0", 1, true)
            raises("BAD_FILE", "CRC", gpu.decode, both:sub(1, at_data - 1) .. "\9" .. both:sub(at_data + 1), {array = "a"})
            raises("BAD_FILE", "directory", gpu.decode, both:sub(1, -3), {array = "a"})
            raises("UNSUPPORTED", "zip", gpu.decode, make.zip {{"readme.txt", one}})
        end)

        it("deflated by another program is read", function()
            local path = folder .. "/p.npz"
            local numbers = helper.bytes(40, 3):rep(200)
            write("a.npy", make.npy("|u1", "(80, 100)", numbers))
            local out, status = helper.run(([[python3 -c "
import zipfile
with zipfile.ZipFile('%s', 'w', zipfile.ZIP_DEFLATED) as z:
    z.write('%s/a.npy', 'a.npy')
    with z.open('b.npy', 'w', force_zip64=True) as f: f.write(open('%s/a.npy', 'rb').read())
"]]):format(path, folder, folder))
            if status ~= 0 then
                return pending("no python3: " .. out)
            end
            for _, libraries in ipairs {true, false} do
                gpu.codecs {libraries = libraries}
                assert.equal(numbers, gpu.load(path, {array = "a"}):download())
                assert.equal(numbers, gpu.load(path, {array = "b"}):download())
            end
            gpu.codecs {libraries = true}
        end)
    end)

    describe("numbers", function()
        it("of 8 bits are v / 255 as f32, linear on request, and 16 bits by v * 257 (S21, S22)", function()
            local img = gpu.decode(make.png(4, 1, 8, 0, {"\0\1\128\255"}))
            local f = img:convert("grayf32le").planes[1]:totable()[1]
            for i, v in ipairs {0, 1, 128, 255} do
                assert.is_true(math.abs(f[i] - v / 255) < 1e-6)
            end
            local linear = img:convert("grayf32le", {from = {transfer = "srgb"}, to = {transfer = "linear"}, color = "convert"}).planes[1]:totable()[1]
            for i, v in ipairs {0, 0.000303527, 0.215861, 1} do
                assert.is_true(math.abs(linear[i] - v) < 1e-5)
            end
            assert.same({{0, 257, 32896, 65535}}, img:convert("gray16le").planes[1]:totable())
            local back = gpu.image("gray16le", 4, 1)
            back.planes[1]:upload {0, 255, 32896, 65535}
            assert.same({{0, 1, 128, 255}}, back:convert("gray").planes[1]:totable())   -- rounded, not cut
        end)

        it("of a flipped picture are written flipped, whatever the format (W15)", function()
            local img = gpu.image("rgb24", 5, 4)
            img.planes[1]:upload(helper.bytes(60))
            local flipped = img:flip("vertical")
            for _, kind in ipairs {"png", "bmp", "tga", "qoi", "pnm"} do
                local back = gpu.decode(gpu.encode(flipped, kind))
                for y = 0, 3 do
                    assert.equal(img.planes[1]:row(y):download(), back.planes[1]:row(3 - y):download())
                end
            end
        end)
    end)

    describe("gpu.decode", function()
        it("takes a pointer and a length", function()
            local file = make.samples()["gray.png"]
            local buffer = ffi.new("uint8_t[?]", #file)
            ffi.copy(buffer, file, #file)
            assert.equal(4, gpu.decode(ffi.cast("void *", buffer), #file).width)
            assert.equal(4, gpu.decode(buffer).width)
            assert.equal(4, gpu.decode(file, #file, {strict = false}).width)
            raises("BAD_ARGUMENT", "pointer", gpu.decode, ffi.cast("void *", buffer))
            raises("BAD_ARGUMENT", "size", gpu.decode, buffer, #file + 1)
            raises("BAD_ARGUMENT", "size", gpu.decode, file, -1)
        end)
    end)

    describe("gpu.fit", function()
        it("makes what the format holds", function()
            local yuv = gpu.image("yuv420p", 4, 4, {matrix = "bt601", range = "full"})
            for i, v in ipairs {100, 90, 200} do
                yuv.planes[i]:fill(v)
            end
            assert.equal("rgb24", gpu.fit(yuv, "png").format)
            assert.equal("rgbf32le", gpu.fit(yuv, "hdr").format)
            assert.equal(yuv, gpu.fit(yuv, "y4m"))
            local deep = gpu.image("rgba64le", 2, 2)
            deep.planes[1]:fill {65535, 0, 0, 0}
            assert.equal(deep, gpu.fit(deep, "png"))
            assert.equal("rgba", gpu.fit(deep, "png", {depth = 8}).format)
            assert.equal("rgba", gpu.fit(deep, "bmp").format)
            assert.same({0, 0, 255}, at(gpu.fit(deep, "jpg", {background = {0, 0, 1}}), 0, 0))
            assert.equal("gray", gpu.fit(gpu.mat(2, 2, "u8", {fill = 1}), "jpg").format)
            raises("UNSUPPORTED", {"i32", "npy"}, gpu.fit, gpu.mat(2, 2, "i32", {fill = 1}), "png")
            raises("BAD_ARGUMENT", "matrix", gpu.fit, gpu.image("yuv420p", 4, 4), "png")
            assert.equal("rgb24", gpu.fit(gpu.image("yuv420p", 4, 4), "png", {matrix = "bt601", range = "limited"}).format)
            raises("UNSUPPORTED", "kind", gpu.fit, yuv, "foo")
        end)
    end)
end)

describe("scripts/batch.lua", function()
    local function batch(words)
        return helper.run(helper.command() .. " scripts/batch.lua " .. words)
    end

    it("converts a folder, names what failed, and goes on where it was", function()
        local from, to = fresh(), folder .. "/out"
        gpu.make_folder(from .. "/in/side")
        local base = from:match("[^/]*$")
        local samples = make.samples()
        for sample, bytes in pairs(samples) do
            write(base .. "/in/" .. (sample:find("png") and "side/" or "") .. sample, bytes)
        end
        write(base .. "/in/bad.png", samples["gray.png"]:sub(1, -15))
        write(base .. "/in/empty.jpg", "")
        write(base .. "/in/gray.tga", samples["plain.tga"])
        local out, status = batch(("--in '%s/in' --out '%s' --format png --matrix bt601 --range full"):format(from, to))
        assert.equal(1, status, out)
        assert.truthy(out:find("bad.png: truncated PNG: [^\n]*%(%-%-lenient gives what is there%)\n"), out)
        assert.truthy(out:find("empty.jpg: it is empty", 1, true), out)
        local _, failures = out:gsub("failed: ", "")
        assert.truthy(out:find(("%d failed"):format(failures), 1, true), out)
        local list = gpu.list(to, {deep = true})
        local total = 3
        for _ in pairs(samples) do
            total = total + 1
        end
        assert.equal(total - failures, #list, out)
        for _, path in ipairs(list) do
            assert.equal("png", gpu.info(path).kind)
            assert(gpu.load(path))
        end
        assert.equal(pixels(gpu.decode(samples["deep.png"])), pixels(gpu.load(to .. "/side/deep.png")))
        -- Again: nothing is done twice; what went missing is made.
        os.remove(to .. "/side/deep.png")
        local stamp = helper.run(("stat -c %%Y.%%i '%s/gray.png'"):format(to))
        out = batch(("--in '%s/in' --out '%s' --format png --matrix bt601 --range full --resume"):format(from, to))
        assert.truthy(out:find(("1 written, %d left alone"):format(#list - 1), 1, true), out)
        assert.equal(stamp, helper.run(("stat -c %%Y.%%i '%s/gray.png'"):format(to)))
    end)

    it("resizes, and is quiet where all is well", function()
        local from, to = fresh(), fresh()
        pictures_in(from, 5)
        local out, status = batch(("--in '%s' --out '%s' --resize 2x --format jpg --quality 100 --threads 2 --quiet %s"):format(from, to,
            make.can_isolate() and "--isolated" or ""))
        assert.same({"", 0}, {out, status})
        for _, path in ipairs(gpu.list(to)) do
            assert.same({2, 1, "jpg"}, {gpu.info(path).width, gpu.info(path).height, gpu.info(path).kind})
        end
        assert.equal(5, #gpu.list(to))
    end)

    it("wants right options", function()
        for words, text in pairs {["--in x"] = "--out", ["--in /no/such --out y"] = "/no/such", ["--in . --out y --resize 0x0"] = "WxH",
                                  ["--what"] = "no option", ["--in . --out y --quality 101"] = "1 to 100", ["a --in . --out y"] = "what is a"} do
            local out, status = batch(words)
            assert.equal(2, status, out)
            assert.truthy(out:find(text, 1, true), out)
        end
    end)
end)

describe("scripts/convert.lua", function()
    local function convert(words)
        return helper.run(helper.command() .. " scripts/convert.lua " .. words)
    end

    it("makes any format of any other", function()
        local where = fresh()
        local source = write("c.png", make.png(4, 2, 8, 2, {("abc"):rep(4), ("def"):rep(4)}))
        for kind in ("jpg bmp tga hdr qoi pnm pfm npy y4m yuv png"):gmatch("%S+") do
            local out, status = convert(("'%s' '%s/c.%s' --matrix bt601 --range limited"):format(source, where, kind))
            local told = kind == "yuv" and where .. "/c.yuv: 1 of image 4x2 yuv420p bt601 limited left\n" or ""
            assert.same({told, 0}, {out, status})
            if kind ~= "yuv" then
                assert.equal(kind, gpu.info(where .. "/c." .. kind).kind)
            end
        end
        assert.equal(12, #helper.read(where .. "/c.yuv"))
        assert.truthy(convert(("'%s' '%s/c.raw'"):format(source, where)):find("rgb24", 1, true))
        assert.equal(("abc"):rep(4) .. ("def"):rep(4), helper.read(where .. "/c.raw"))
        local _, refused = convert(("'%s' '%s/e.yuv'"):format(source, where))
        assert.equal(1, refused)
        assert.truthy(convert(("'%s' '%s/e.yuv'"):format(source, where)):find("rgb24: give --matrix and --range", 1, true))
        assert.is_nil(io.open(where .. "/e.yuv"))
        local out, status = convert(("'%s/c.y4m' '%s/d.png' --resize 8x4"):format(where, where))
        assert.equal(1, status)
        assert.truthy(out:find("give --matrix bt601, ", 1, true), out)
        out, status = convert(("'%s/c.y4m' '%s/d.png' --resize 8x4 --matrix bt601"):format(where, where))
        assert.same({"", 0}, {out, status})
        assert.same({8, 4}, {gpu.info(where .. "/d.png").width, gpu.info(where .. "/d.png").height})
    end)

    it("goes through pipes, and says what is wrong", function()
        local source = write("c.png", make.png(4, 2, 8, 2, {("abc"):rep(4), ("def"):rep(4)}))
        local out = convert(("- - --format pnm < '%s'"):format(source))
        assert.equal("P6\n4 2\n255\n" .. ("abc"):rep(4) .. ("def"):rep(4), out)
        local _, status = convert(("'%s' '%s/no/such.png'"):format(source, folder))
        assert.equal(1, status)
        out, status = convert(source)
        assert.equal(2, status)
        assert.truthy(out:find("usage", 1, true))
    end)
end)
