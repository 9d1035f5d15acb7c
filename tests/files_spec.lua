-- SPDX-License-Identifier: MIT
-- Arrays, frames and files as such: the right numbers or a clear error, and never a success that did not happen.
local gpu = require "gpuwb"
local ffi = require "ffi"
local helper = require "tests.helper"
local make = require "tests.pictures"
local raises, at = helper.raises, make.at

local folder

setup(function() folder = helper.folder() end)
teardown(function() helper.remove(folder) end)

local function write(name, text)
    return helper.write(folder .. "/" .. name, text)
end

helper.each_device(function(name)
    describe("npy", function()
        it("gives a mat of tight rows in any order, version and byte order (N1, N3)", function()
            local bytes = "\1\2\3\4\5\6"
            assert.same({{1, 3, 5}, {2, 4, 6}}, gpu.decode(make.npy("|u1", "(2, 3)", bytes, {fortran = true})):totable())
            for version = 1, 3 do
                assert.same({{1, 2, 3}, {4, 5, 6}}, gpu.decode(make.npy("|u1", "(2, 3)", bytes, {version = version})):totable())
            end
            local m = gpu.decode(make.npy(">u2", "(1, 3)", bytes))
            assert.same({{258, 772, 1286}}, m:totable())
            assert.equal("u16", m.type)
            assert.same({{513, 1027, 1541}}, gpu.decode(make.npy("<u2", "(1, 3)", bytes)):totable())
            assert.same({{1.5}}, gpu.decode(make.npy(">f8", "(1, 1)", "\x3f\xf8\0\0\0\0\0\0")):totable())
            assert.same({{1, 0, 1}}, gpu.decode(make.npy("?", "(3,)", "\1\0\1")):totable())
            assert.is_true(gpu.decode(make.npy("|u1", "(2, 3)", bytes)):is_contiguous())
            -- (2, 3, 2) in Fortran order: element [i, j, k] is number i + 2 j + 6 k
            local deep = gpu.decode(make.npy("|u1", "(2, 3, 2)", helper.bytes(12), {fortran = true}))
            assert.same({3, 2, 2}, {deep.width, deep.height, deep.channels})
            assert.same({helper.bytes(12):byte(1 + 1 + 2 * 2), helper.bytes(12):byte(1 + 1 + 2 * 2 + 6)}, at(deep, 2, 1))
        end)

        it("makes mats of all shapes", function()
            local function shape(text, n)
                local m = gpu.decode(make.npy("|i1", text, ("x"):rep(n)))
                return {m.width, m.height, m.channels}
            end
            assert.same({1, 1, 1}, shape("()", 1))
            assert.same({5, 1, 1}, shape("(5,)", 5))
            assert.same({4, 3, 1}, shape("(3, 4)", 12))
            assert.same({4, 3, 3}, shape("(3, 4, 3)", 36))
            assert.same({5, 12, 1}, shape("(3, 4, 5)", 60))
            assert.same({4, 6, 2}, shape("(2L, 3L, 4L, 2L)", 48))
        end)

        it("refuses what is no matrix", function()
            local records = make.npy("|u1", "(1,)", "x"):gsub("'|u1'", "[('x', '<f4'), ('y', '<f4')]")
            raises("UNSUPPORTED", "structured", gpu.decode, records)
            raises("UNSUPPORTED", "<c8", gpu.decode, make.npy("<c8", "(1,)", ("x"):rep(8)))
            raises("UNSUPPORTED", "<i8", gpu.decode, make.npy("<i8", "(1,)", ("x"):rep(8)))
            raises("UNSUPPORTED", "version 4", gpu.decode, make.npy("|u1", "(1,)", "x", {version = 4}))
            raises("BAD_FILE", {"cut", "100x1"}, gpu.decode, make.npy("|u1", "(100,)", "x"))
            raises("BAD_FILE", "header", gpu.decode, make.npy("|u1", "(1, -2)", "x"))
            raises("BAD_FILE", "0x3", gpu.decode, make.npy("|u1", "(3, 0)", "x"))
        end)

        it("is written with its numbers at a multiple of 64 (N7)", function()
            local file = gpu.encode(gpu.mat(5, 3, "u16", {fill = 7}), "npy")
            assert.equal(1, file:find("\x93NUMPY\1\0\118\0{'descr': '<u2', 'fortran_order': False, 'shape': (3, 5), } ", 1, true))
            assert.equal("\n\7\0", file:sub(128, 130))
            assert.equal(128 + 30, #file)
            assert.truthy(gpu.encode(gpu.mat(2621, 1, "u8", {fill = 0}), "npy"):find("(1, 2621)", 1, true))      -- (N5)
        end)

        it("keeps every element type and channel", function()
            for _, element in ipairs {"u8", "i8", "u16", "i16", "u32", "i32", "f16", "f32", "f64"} do
                for channels = 1, 4 do
                    local kind = channels > 1 and element .. "x" .. channels or element
                    local m = gpu.mat(3, 2, kind)
                    m:upload(helper.bytes(m.bytes))
                    local back = gpu.decode(gpu.encode(m, "npy"))
                    assert.equal(kind, back.type)
                    assert.equal(m:download(), back:download())
                end
            end
        end)

        it("holds a frame as a decoder's array", function()
            local frame = gpu.mat(4, 6, "u8", {packed = true}):upload(helper.bytes(24))
            local img = frame:planes("yuv420p", 4, 4)
            assert.equal(gpu.encode(frame, "npy"), gpu.encode(img, "npy"))
            raises("UNSUPPORTED", "whole rows", gpu.encode, gpu.image("yuv420p", 5, 3), "npy")
        end)
    end)

    describe("y4m and raw frames", function()
        it("round sizes up (N9, Y2)", function()
            local img = gpu.decode(make.y4m("W19 H19 F25:1 C420", {helper.bytes(561)}))
            assert.same({10, 10, 10, 10}, {img.planes[2].width, img.planes[2].height, img.planes[3].width, img.planes[3].height})
            assert.equal(helper.bytes(561):sub(362, 461), img.planes[2]:download())
            assert.equal(helper.bytes(561):sub(462), img.planes[3]:download())
            raises("BAD_FILE", {"truncated", "561"}, gpu.decode, make.y4m("W19 H19", {("x"):rep(560)}))
        end)

        it("carry siting and range, in any order of the parameters", function()
            local function tags(parameters, n)
                local img = gpu.decode(make.y4m(parameters, {("x"):rep(n or 6)}))
                return {img.format, img.siting or "-", img.range or "-"}
            end
            assert.same({"yuv420p", "-", "-"}, tags "W2 H2")
            assert.same({"yuv420p", "center", "full"}, tags "XCOLORRANGE=FULL C420jpeg H2 W2 Ip A1:1 F25:1")
            assert.same({"yuv420p", "left", "limited"}, tags "W2 H2 C420mpeg2 XYSCSS=420MPEG2 XCOLORRANGE=LIMITED")
            assert.same({"yuv420p", "topleft", "-"}, tags "W2 H2 C420paldv")
            assert.same({"yuv420p10le", "-", "-"}, tags("W2 H2 C420p10", 12))
            assert.same({"yuv422p", "-", "-"}, tags("W2 H2 C422", 8))
            assert.same({"yuv444p12le", "-", "-"}, tags("W2 H2 C444p12", 24))
            assert.same({"yuva444p", "-", "-"}, tags("W2 H2 C444alpha", 16))
            assert.same({"yuv411p", "-", "-"}, tags("W4 H2 C411", 12))
            assert.same({"gray", "-", "-"}, tags("W2 H2 Cmono", 4))
            assert.same({"gray10le", "-", "-"}, tags("W2 H2 Cmono10", 8))
            raises("UNSUPPORTED", {"420p20", "420p10"}, tags, "W2 H2 C420p20")
            assert.same({"yuv420p9le", "-", "-"}, tags("W2 H2 C420p9", 12))
            assert.same({"yuv444p14le", "-", "-"}, tags("W2 H2 C444p14", 24))
            assert.same({"gray9le", "-", "-"}, tags("W2 H2 Cmono9", 8))
            raises("UNSUPPORTED", {"420p13", "9, 10, 12, 14 and 16 bits"}, tags, "W2 H2 C420p13")      -- for which there is no pixel format
            raises("BAD_FILE", "size", tags, "W0 H2")
            raises("BAD_FILE", "no size", tags, "H2")
        end)

        it("are written with their tags, and come back", function()
            for _, siting in ipairs {"left", "center", "topleft", false} do
                local img = gpu.image("yuv420p", 5, 3, {siting = siting or nil, range = "full"})
                for i, p in ipairs(img.planes) do
                    p:upload(helper.bytes(p.bytes, i))
                end
                local back = gpu.decode(gpu.encode(img, "y4m", {rate = "30000/1001"}))
                assert.same({"yuv420p", siting or nil, "full"}, {back.format, back.siting, back.range})
                for i, p in ipairs(img.planes) do
                    assert.equal(p:download(), back.planes[i]:download())
                end
            end
            assert.truthy(gpu.encode(gpu.image("gray", 2, 2), "y4m", {rate = 50}):find("F50:1 Ip A1:1 Cmono\nFRAME\n", 1, true))
            assert.truthy(gpu.encode(gpu.image("yuv422p10le", 2, 2), "y4m"):find(" C422p10\n", 1, true))
            raises("UNSUPPORTED", {"nv12", "convert"}, gpu.encode, gpu.image("nv12", 2, 2), "y4m")
            raises("UNSUPPORTED", "matrix", gpu.encode, gpu.mat(2, 2, "u8", {fill = 0}), "y4m")
        end)

        it("are read one after the other", function()
            local frames = {helper.bytes(6, 1), helper.bytes(6, 2), helper.bytes(6, 3)}
            local path = write("three.y4m", make.y4m("W2 H2", frames))
            local seen = {}
            for img, n in gpu.frames(path, {matrix = "bt709"}) do
                seen[#seen + 1] = n
                assert.equal(frames[n + 1]:sub(1, 4), img.planes[1]:download())
                assert.equal("bt709", img.matrix)
            end
            assert.same({0, 1, 2}, seen)
            assert.equal(frames[3]:sub(6), gpu.load(path, {frame = 2}).planes[3]:download())
            raises("BAD_ARGUMENT", "frame 3", gpu.load, path, {frame = 3})
            for img, n in gpu.frames(path, {frame = 2}) do
                assert.same({2, 2}, {n, img.width})
            end
            local list = {}
            for img in gpu.frames(path) do
                list[#list + 1] = img
            end
            gpu.save(list, folder .. "/again.y4m")
            gpu.save(list, folder .. "/again.yuv")
            assert.equal(table.concat(frames), helper.read(folder .. "/again.yuv"))
            local count = 0
            for img, n in gpu.frames(folder .. "/again.y4m") do
                count = count + 1
                assert.equal(frames[n + 1]:sub(5, 5), img.planes[2]:download())
            end
            assert.equal(3, count)
            raises("UNSUPPORTED", "one picture", gpu.save, list, folder .. "/again.npy")
        end)

        it("are errors where they are cut", function()
            local path = write("cut.y4m", make.y4m("W2 H2", {"abcdef", "abc"}))
            local count = 0
            raises("BAD_FILE", {"frame 1", "3 of 6"}, function()
                for _ in gpu.frames(path) do
                    count = count + 1
                end
            end)
            assert.equal(1, count)
            for _, n in gpu.frames(path, {strict = false}) do
                count = count + n + 1
            end
            assert.equal(2, count)
            raises("BAD_FILE", "FRAME", function()
                for _ in gpu.frames(write("odd.y4m", make.y4m("W2 H2", {"abcdefgh"}))) do
                    count = count + 1
                end
            end)
        end)

        it("raw, must be a whole number, unless one is named (Y19)", function()
            local path = write("half.yuv", helper.bytes(1402))   -- two frames and a half of 561 bytes
            raises("BAD_FILE", {"1402", "561"}, gpu.load_raw, path, "yuv420p", 19, 19)
            local img = gpu.load_raw(path, "yuv420p", 19, 19, {frame = 1, matrix = "bt601"})
            assert.equal(helper.bytes(1402):sub(562, 562 + 360), img.planes[1]:download())
            assert.equal("bt601", img.matrix)
            raises("BAD_ARGUMENT", "frame 2", gpu.load_raw, path, "yuv420p", 19, 19, {frame = 2})
            local count = 0
            for _ in gpu.frames(path, {format = "yuv420p", width = 19, height = 19, strict = false}) do
                count = count + 1
            end
            assert.equal(2, count)
            raises("BAD_FILE", "561", gpu.frames, path, {format = "yuv420p", width = 19, height = 19})
        end)

        it("raw, come back in every format", function()
            for _, format in ipairs {"yuv420p", "nv12", "yuyv422", "v210", "p010le", "rgb24", "gbrp", "gray", "yuva420p"} do
                local img = gpu.image(format, 7, 5)
                for i, p in ipairs(img.planes) do
                    p:upload(helper.bytes(p.bytes, i))
                end
                local path = folder .. "/" .. format .. ".yuv"
                img:save(path)
                local back = gpu.load_raw(path, format, 7, 5)
                for i, p in ipairs(img.planes) do
                    assert.equal(p:download(), back.planes[i]:download(), format)
                end
            end
            local yv12 = gpu.load_raw(write("yv12.yuv", "abcdVU"), "yv12", 2, 2)
            assert.same({("U"):byte(), ("V"):byte()}, {yv12.planes[2]:at(0, 0), yv12.planes[3]:at(0, 0)})
        end)

        it("come from a pipe", function()
            local path = write("pipe.y4m", make.y4m("W2 H2", {"abcdef", "ghijkl"}))
            local out = helper.child([[for img, n in gpu.frames("-") do io.write(n, img.planes[1]:download(), " ") end]], "cat '" .. path .. "' | ")
            assert.equal("0abcd 1ghij ", out)
        end)
    end)

    describe("a file", function()
        it("is written as a packed copy of a region would be (W9)", function()
            local cases = {{"u8x3", "png jpg bmp tga qoi pnm npy yuv"}, {"u8", "png jpg tga"}, {"f32x3", "hdr pfm npy"}, {"u16x4", "png pnm"}}
            for _, case in ipairs(cases) do
                local parent = gpu.mat(40, 30, case[1])
                local values = {}
                for i = 1, 40 * 30 * parent.channels do
                    values[i] = i * 7 % 251
                end
                parent:upload(values)
                local roi = parent:roi(3, 2, 17, 11)
                for kind in case[2]:gmatch("%S+") do
                    assert.equal(gpu.encode(roi:clone {packed = true}, kind), gpu.encode(roi, kind), kind)
                end
            end
        end)

        it("is not written when the disk is full, and that is told (W1)", function()
            local m, f, y = gpu.mat(64, 64, "u8x3", {fill = 9}), gpu.mat(64, 64, "f32x3", {fill = 9}), gpu.image("yuv420p", 64, 64)
            for kind in ("png jpg bmp tga hdr qoi pnm pfm npy y4m yuv"):gmatch("%S+") do
                local obj = (kind == "hdr" or kind == "pfm") and f or kind == "y4m" and y or m
                raises("IO", {"/dev/full", "No space left on device"}, gpu.save, obj, "/dev/full", {format = kind})
            end
            local out, status = helper.child([[gpu.save(gpu.mat(64, 64, "u8", {fill = 1}), "/dev/full", {format = "png"})]])
            assert.equal(1, status)
            assert.truthy(out:find("No space left on device", 1, true))
        end)

        it("stays as it was after any failure, and nothing is left beside it (W3)", function()
            local before = helper.run("ls -A '" .. folder .. "'")
            local path = write("old.png", "what was there")
            raises("UNSUPPORTED", "convert", gpu.save, gpu.image("yuv420p", 4, 4), path)
            raises("SHAPE", "nothing to write", gpu.save, gpu.mat(0, 4, "u8"), path)
            local out, status = helper.child(("local m = gpu.mat(600, 600, 'u8x3', {fill = 1}) m:upload(io.open('/dev/urandom'):read(m.bytes)) "
                .. "print(pcall(gpu.save, m, %q))"):format(path), "ulimit -f 100; ")
            assert.equal(0, status)
            assert.truthy(out:find("File too large", 1, true))
            assert.equal("what was there", helper.read(path))
            os.remove(path)
            assert.equal(before, helper.run("ls -A '" .. folder .. "'"))
        end)

        it("of zero size is refused (W2)", function()
            for kind in ("png jpg bmp tga npy yuv"):gmatch("%S+") do
                for _, m in ipairs {gpu.mat(0, 5, "u8"), gpu.mat(5, 0, "u8"), gpu.mat(0, 0, "u8")} do
                    raises("SHAPE", "nothing to write", gpu.save, m, folder .. "/zero." .. kind)
                    assert.is_nil(io.open(folder .. "/zero." .. kind))
                end
            end
        end)

        it("keeps its mode and its link", function()
            local path, link = folder .. "/real.png", folder .. "/link.png"
            local m = gpu.mat(2, 2, "u8", {fill = 5})
            gpu.save(m, path)
            helper.run(("chmod 640 '%s'; ln -s real.png '%s'"):format(path, link))
            gpu.save(m:clone():fill(6), link)
            assert.same({6}, at(gpu.load(path), 0, 0))
            assert.equal("640\n", helper.run("stat -c %a '" .. path .. "'"))
            assert.equal("real.png\n", helper.run("readlink '" .. link .. "'"))
            m:save(path, {sync = true})
            assert.same({5}, at(gpu.load(link), 0, 0))
        end)

        it("goes through pipes and standard output", function()
            local m = gpu.mat(2, 1, "u8", {fill = 65})
            local fifo = os.tmpname()
            local out = helper.run(("rm '%s'; mkfifo '%s'; cat '%s' & "):format(fifo, fifo, fifo) .. helper.command()
                .. (" -e 'gpu.save(gpu.mat(2, 1, \"u8\", {fill = 65}), "
                .. "\"%s\", {format = \"pnm\"})'; wait"):format(fifo))
            os.remove(fifo)
            assert.equal(gpu.encode(m, "pnm"), out)
            assert.equal(gpu.encode(m, "pnm"), (helper.child([[gpu.save(gpu.mat(2, 1, "u8", {fill = 65}), "-", {format = "pnm"})]])))
            local broken = helper.run(helper.command() .. [[ -e 'local m = gpu.mat(500, 500, "u8", {fill = 65})
                io.stderr:write(tostring(select(2, pcall(gpu.save, m, "-", {format = "pnm"}))))' | head -c 10]])
            assert.truthy(broken:find("Broken pipe", 1, true))
        end)

        it("is found by its content, not its name", function()
            local path = write("really.jpg", make.samples()["gray.png"])
            assert.equal("gray", gpu.load(path).format)
            local odd = write("name with\n\"é\" spaces.png", make.samples()["gray.png"])
            assert.equal(4, gpu.load(odd).width)
        end)

        it("that is none is named, and what is wrong (S23)", function()
            raises("NO_FILE", {"no/such.png", "No such file"}, gpu.load, folder .. "/no/such.png")
            raises("IO", {folder, "directory"}, gpu.load, folder)
            raises("BAD_FILE", {"empty.png", "empty"}, gpu.load, write("empty.png", ""))
            raises("BAD_FILE", {"x.dat", "68 65 6c 6c 6f", "png jpg"}, gpu.load, write("x.dat", "hello"))
            raises("UNSUPPORTED", "WebP", gpu.load, write("x.webp", "RIFF\0\0\0\0WEBPVP8 "))
            raises("UNSUPPORTED", "TIFF", gpu.decode, "II*\0\8\0\0\0")
            gpu.load(write("good.png", make.samples()["gray.png"]))
            local text = tostring(raises("BAD_FILE", {"bad.bmp", "cut"}, gpu.load, write("bad.bmp", make.samples()["plain.bmp"]:sub(1, 60))))
            assert.is_nil(text:find("x.dat", 1, true))
            raises("NO_FILE", "No such file", gpu.save, gpu.mat(1, 1, "u8", {fill = 0}), folder .. "/no/such.png")
            raises("IO", "directory", gpu.save, gpu.mat(1, 1, "u8", {fill = 0}), folder, {format = "png"})
        end)

        it("wants sensible arguments", function()
            local m = gpu.mat(1, 1, "u8", {fill = 0})
            raises("BAD_ARGUMENT", "NUL", gpu.load, "a\0b")
            raises("BAD_ARGUMENT", "path", gpu.load, 7)
            raises("BAD_ARGUMENT", {"colour", "strict"}, gpu.load, "x.png", {colour = true})
            raises("BAD_ARGUMENT", "strict", gpu.load, "x.png", {strict = 1})
            raises("BAD_ARGUMENT", {"effort", "quality"}, gpu.save, m, folder .. "/x.png", {effort = 9})
            raises("UNSUPPORTED", {".foo", "png jpg bmp"}, gpu.save, m, folder .. "/x.foo")
            raises("UNSUPPORTED", {"no extension", "png"}, gpu.save, m, folder .. "/x")
            raises("UNSUPPORTED", "gif", gpu.save, m, folder .. "/x.gif")
            raises("BAD_ARGUMENT", "mat, an image", gpu.save, 7, folder .. "/x.png")
            raises("BAD_ARGUMENT", "frame 2", gpu.save, {m, 7}, folder .. "/x.yuv")
            raises("BAD_ARGUMENT", "mat", m.save, 7, folder .. "/x.png")
            local gone = gpu.mat(1, 1, "u8")
            gone:close()
            raises("CLOSED", "closed", gpu.save, gone, folder .. "/x.png")
            assert.equal(m, m:save(folder .. "/upper.PNG"))
            assert.equal("gray", gpu.load(folder .. "/upper.PNG", {device = name, stream = gpu.stream()}).format)
        end)

        it("is read from a cdata buffer too", function()
            local file = make.samples()["gray.png"]
            local buffer = ffi.new("uint8_t[?]", #file + 10)
            ffi.copy(buffer, file, #file)
            assert.equal(4, gpu.decode(buffer, {size = #file}).width)
            raises("BAD_ARGUMENT", "size", gpu.decode, buffer, {size = #file + 11})
            raises("BAD_ARGUMENT", "size", gpu.decode, ffi.cast("uint8_t *", buffer))
        end)
    end)

    describe("limits", function()
        local function resident()
            return tonumber(helper.read("/proc/self/statm"):match("^%d+ (%d+)")) * 4096
        end

        it("refuse a header that promises more than the file holds, before memory is taken (S11)", function()
            collectgarbage()
            local before = resident()
            raises("BAD_FILE", {"23169x23169", "2.1 GB", "18 bytes"}, gpu.decode, make.tga(23169, 23169, 32, ""))
            raises("BAD_FILE", "23169x23169", gpu.decode, make.tga(23169, 23169, 32, "\x80\0\0\0\0", 10))
            raises("BAD_FILE", "60000x60000", gpu.decode, make.gif(60000, 60000, ("\0"):rep(12), {{0, 1}}))
            raises("BAD_FILE", "30000x30000", gpu.decode, make.png(30000, 30000, 8, 2, {"\0"}))
            raises("BAD_FILE", "30000x30000", gpu.decode, "P5 30000 30000 255\nab")
            raises("BAD_FILE", "truncated", gpu.decode, make.y4m("W30000 H30000", {"ab"}))
            assert.is_true(resident() - before < 100e6)
        end)

        it("are set and told (S12)", function()
            local before = gpu.limits {pixels = 100, bytes = 1000}
            assert.same({2 ^ 28, 2 ^ 32}, {before.pixels, before.bytes})
            finally(function()
                gpu.limits(before)
            end)
            local file = make.png(20, 20, 1, 0, (function() local t = {} for i = 1, 20 do t[i] = "abc" end return t end)())
            raises("LIMIT", {"400", "100", "gpu.limits"}, gpu.decode, file)
            raises("LIMIT", {"1000", "gpu.limits"}, gpu.load, write("long.npy", make.npy("|u1", "(2000,)", ("x"):rep(2000))))
            raises("LIMIT", "gpu.limits", gpu.decode, make.npy("|u1", "(2000,)", ("x"):rep(2000)))
            gpu.limits {pixels = 400}
            assert.equal(20, gpu.decode(file).width)
            gpu.limits(before)
            assert.equal(2 ^ 28, gpu.limits().pixels)
            local wide = gpu.mat(70000, 2, "u8", {fill = 3})
            assert.equal(70000, gpu.decode(gpu.encode(wide, "png")).width)
            raises("BAD_ARGUMENT", "pixels", gpu.limits, {pixels = 0})
        end)
    end)
end)
