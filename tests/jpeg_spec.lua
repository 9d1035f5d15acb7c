-- SPDX-License-Identifier: MIT
-- JPEG against libjpeg-turbo's own programs (cjpeg, djpeg, jpegtran), with libjpeg-turbo and with the built-in code; gaps; decoders that misbehave.
local gpu = require "gpuwb"
local helper = require "tests.helper"
local make = require "tests.pictures"
local raises, pixels = helper.raises, make.pixels

local folder, programs, turbo

setup(function()
    folder = helper.folder()
    programs = select(2, helper.run("command -v cjpeg djpeg jpegtran")) == 0
    turbo = gpu.codecs().jpg == "libjpeg-turbo"
end)
teardown(function()
    helper.remove(folder)
    gpu.codecs {libraries = true}
end)

local function write(name, text)
    return helper.write(folder .. "/" .. name, text)
end

-- A picture with slopes, edges and a little noise, as a PPM.
local function ppm(width, height)
    local random, out = helper.random(width * 100 + height), {}
    for y = 0, height - 1 do
        for x = 0, width - 1 do
            local edge = (math.floor(x / 11) + math.floor(y / 7)) % 2 * 60
            out[#out + 1] = string.char((x * 3 + edge) % 200 + random(8), (y * 4 + edge) % 220 + random(8), (x + y) % 180 + edge / 2 + random(8))
        end
    end
    return ("P6\n%d %d\n255\n"):format(width, height) .. table.concat(out)
end

local function run(command)
    local out, status = helper.run(command)
    assert(status == 0, command .. "\n" .. out)
    return out
end

-- The largest and the mean difference of two strings of bytes.
local function differ(a, b)
    assert.equal(#a, #b)
    local most, sum = 0, 0
    for i = 1, #a do
        local d = math.abs(a:byte(i) - b:byte(i))
        most, sum = math.max(most, d), sum + d
    end
    return most, sum / #a
end

-- Calls fn with each decoder at hand: true for libjpeg-turbo.
local function each_way(fn)
    for _, libraries in ipairs(turbo and {true, false} or {false}) do
        gpu.codecs {libraries = libraries}
        fn(libraries)
    end
    gpu.codecs {libraries = true}
end

local samplings = {{"1x1", "444"}, {"2x1", "422"}, {"2x2", "420"}, {"1x2", "440"}, {"4x1", "411"}}

-- A tile of the PPM's pixels.
local function body(text) return text:match("^P[56]\n%d+ %d+\n255\n(.*)$") end

helper.each_device(function()
    describe("JPEG is read as djpeg reads it", function()
        it("in every sampling, coding and size, and its planes are the coded ones", function()
            if not programs then
                return pending("no cjpeg and djpeg here")
            end
            for _, size in ipairs {{64, 48}, {67, 45}, {17, 9}, {1, 1}} do
                local source = write("s.ppm", ppm(size[1], size[2]))
                for _, sampling in ipairs(samplings) do
                    for _, coding in ipairs(size[1] > 60 and {"", "-progressive", "-restart 1"} or {""}) do
                        local path = folder .. "/a.jpg"
                        run(("cjpeg -quality 85 -sample %s %s -outfile '%s' '%s'"):format(sampling[1], coding, path, source))
                        run(("djpeg -dct int -ppm -outfile '%s/r.ppm' '%s'"):format(folder, path))
                        run(("djpeg -dct int -grayscale -pnm -outfile '%s/r.pgm' '%s'"):format(folder, path))
                        local want, luma = body(helper.read(folder .. "/r.ppm")), body(helper.read(folder .. "/r.pgm"))
                        each_way(function(library)
                            local img = gpu.load(path)
                            local most, mean = differ(want, pixels(img))
                            assert.is_true(most <= (library and 0 or 3) and mean < 0.3, ("%s %s: %d"):format(sampling[1], coding, most))
                            local native = gpu.load(path, {format = "native"})
                            assert.same({"yuv" .. sampling[2] .. "p", "bt601", "full", "center"}, {native.format, native.matrix, native.range, native.siting})
                            most = differ(luma, native.planes[1]:download())
                            assert.is_true(most <= (library and 0 or 2))
                            -- The planes mean the same picture: with chroma at full size nothing but rounding differs.
                            if sampling[2] == "444" then
                                assert.is_true(differ(want, pixels(native:convert("rgb24"))) <= 2)
                            end
                        end)
                    end
                end
            end
        end)

        it("in gray, and photographs", function()
            if not programs then
                return pending("no cjpeg and djpeg here")
            end
            local path = folder .. "/g.jpg"
            run(("cjpeg -grayscale -outfile '%s' '%s'; djpeg -dct int -pnm -outfile '%s/g.pgm' '%s'"):format(path, write("s.ppm", ppm(31, 23)), folder, path))
            each_way(function(library)
                assert.is_true(differ(body(helper.read(folder .. "/g.pgm")), pixels(gpu.load(path))) <= (library and 0 or 2))
                assert.equal("gray", gpu.load(path, {format = "native"}).format)
            end)
            for _, photo in ipairs(gpu.list("../shared/data/photos/*.jpg")) do
                if not photo:find("truncated") then
                    run(("djpeg -dct int -ppm -outfile '%s/p.ppm' '%s'"):format(folder, photo))
                    each_way(function(library)
                        local most = differ(pixels(gpu.load(folder .. "/p.ppm")), pixels(gpu.load(photo)))
                        assert.is_true(most <= (library and 0 or 4), photo .. ": " .. most)
                    end)
                end
            end
        end)

        it("in CMYK and YCCK as Adobe stores them", function()
            each_way(function()
                assert.same({0, 255, 255}, make.at(gpu.decode(make.jpg(8, 8, {{{0, 255, 255, 255}}}, {app14 = 0})), 4, 4))
                assert.same({0, 127, 127}, make.at(gpu.decode(make.jpg(8, 8, {{{0, 255, 255, 127}}}, {app14 = 0})), 4, 4))
                assert.same({255, 255, 255}, make.at(gpu.decode(make.jpg(8, 8, {{{0, 128, 128, 255}}}, {app14 = 2})), 4, 4))
                assert.same({0, 0, 0}, make.at(gpu.decode(make.jpg(8, 8, {{{255, 128, 128, 255}}}, {app14 = 2})), 4, 4))
                assert.same({55, 55, 55}, make.at(gpu.decode(make.jpg(8, 8, {{{200, 128, 128, 255}}}, {app14 = 2})), 4, 4))
                raises("UNSUPPORTED", "4 components", gpu.decode, make.jpg(8, 8, {{{0, 255, 255, 255}}}, {app14 = 0}), {format = "native"})
                local rgb = gpu.decode(make.jpg(8, 8, {{{10, 20, 200}}}, {app14 = 0}), {format = "native"})
                assert.same({"rgbp", 10, 20, 200}, {rgb.format, rgb.planes[1]:at(3, 3), rgb.planes[2]:at(3, 3), rgb.planes[3]:at(3, 3)})
                assert.same({10, 20, 200}, make.at(gpu.decode(make.jpg(8, 8, {{{10, 20, 200}}}, {app14 = 0})), 3, 3))
            end)
        end)

        it("or named: arithmetic coding (S16)", function()
            if not programs then
                return pending("no cjpeg and jpegtran here")
            end
            local path = folder .. "/a.jpg"
            for _, option in ipairs {"-arithmetic", "-arithmetic -progressive"} do
                run(("cjpeg '%s' | jpegtran %s -outfile '%s'"):format(write("s.ppm", ppm(31, 23)), option, path))
                each_way(function()
                    raises("UNSUPPORTED", "arithmetic", gpu.load, path)
                    raises("UNSUPPORTED", "arithmetic", gpu.load, path, {strict = false})
                end)
            end
        end)
    end)

    describe("JPEG that is damaged", function()
        it("is an error at every length, and a picture with strict=false (S15, S17)", function()
            if not programs then
                return pending("no cjpeg here")
            end
            for _, coding in ipairs {"", "-progressive", "-restart 2"} do
                run(("cjpeg %s -outfile '%s/a.jpg' '%s'"):format(coding, folder, write("s.ppm", ppm(67, 45))))
                local file = helper.read(folder .. "/a.jpg")
                each_way(function()
                    for n = 0, #file - 1, 7 do
                        local err = raises("BAD_FILE", {}, gpu.decode, file:sub(1, n))
                        assert(n < 3 or err.message:find("truncated", 1, true), err.message)
                    end
                    local img, warning = gpu.decode(file:sub(1, math.floor(#file * 0.9)), {strict = false})
                    assert.same({67, 45}, {img.width, img.height})
                    assert.truthy(warning:find("truncated", 1, true))
                    if coding == "" then    -- what comes before the cut is right
                        local whole = gpu.decode(file)
                        assert.equal(whole.planes[1]:rows(0, 8):download(), img.planes[1]:rows(0, 8):download())
                    end
                end)
            end
        end)

        it("in the middle is noticed: bytes that are missing, an interval that is missing", function()
            if not programs then
                return pending("no cjpeg here")
            end
            for _, coding in ipairs {"", "-progressive", "-restart 1"} do
                run(("cjpeg %s -outfile '%s/a.jpg' '%s'"):format(coding, folder, write("s.ppm", ppm(160, 120))))
                local file = helper.read(folder .. "/a.jpg")
                local middle = math.floor(#file / 2)
                each_way(function()
                    assert(gpu.decode(file))
                    for _, gap in ipairs {100, 300, 1000} do
                        local broken = file:sub(1, middle) .. file:sub(middle + gap)
                        local err = raises("BAD_FILE", "damaged JPEG", gpu.decode, broken)
                        assert.truthy(err.message:find("strict=false", 1, true))
                        local img, warning = gpu.decode(broken, {strict = false})
                        assert.same({160, 120}, {img.width, img.height})
                        assert.truthy(warning:find("damaged JPEG", 1, true))
                    end
                    if coding == "-restart 1" then
                        local from, to = file:find("\255\210"), file:find("\255\212")
                        raises("BAD_FILE", "damaged JPEG", gpu.decode, file:sub(1, from - 1) .. file:sub(to))
                    end
                end)
            end
        end)
    end)

    describe("JPEG with a segment behind its scan that is none", function()
        it("gives the scan with strict=false", function()
            local file = make.jpg(16, 8, {{{100, 128, 128}, {60, 128, 128}}})
            local bad = file:sub(1, -3) .. "\255\196\0\28\0" .. ("\255"):rep(30) .. file:sub(-2)
            gpu.codecs {libraries = false}
            raises("BAD_FILE", "Huffman tables", gpu.decode, bad)
            local cut = file:sub(1, -3) .. "\255\196\0\200\0" .. ("\1"):rep(5) .. file:sub(-2)
            raises("BAD_FILE", "truncated", gpu.decode, cut)
            local img, warning = gpu.decode(cut, {strict = false})
            assert.same({100, 100, 100}, make.at(img, 0, 0))
            assert.truthy(warning:find("truncated", 1, true))
            gpu.codecs {libraries = true}
        end)
    end)

    describe("JPEG is written", function()
        it("in the subsampling asked for, from RGB, as djpeg reads it", function()
            if not programs then
                return pending("no djpeg here")
            end
            local source = gpu.decode(ppm(67, 45))
            each_way(function()
                for _, sampling in ipairs(samplings) do
                    for _, name in ipairs {sampling[2], sampling[2]:gsub("(%d)(%d)(%d)", "%1:%2:%3"), nil} do
                        local file = gpu.encode(source, "jpg", {quality = 92, subsampling = name})
                        local out = run(("djpeg -verbose -verbose -dct int -ppm -outfile '%s/b.ppm' '%s'"):format(folder, write("b.jpg", file)))
                        local h, v = sampling[1]:match("(%d)x(%d)")
                        assert.truthy(out:find(("Component 1: %shx%sv"):format(h, v), 1, true), out)
                        local _, mean = differ(pixels(source), body(helper.read(folder .. "/b.ppm")))
                        assert.is_true(mean < 12, name .. " " .. mean)
                    end
                end
                raises("BAD_ARGUMENT", {"444", "411"}, gpu.encode, source, "jpg", {subsampling = "410"})
                raises("BAD_ARGUMENT", "subsampling", gpu.encode, source, "png", {subsampling = "420"})
            end)
        end)

        it("straight from YUV planes of any size", function()
            each_way(function()
                for _, sampling in ipairs(samplings) do
                    for _, size in ipairs {{16, 16}, {17, 9}, {1, 1}, {33, 5}} do
                        local img = gpu.image("yuv" .. sampling[2] .. "p", size[1], size[2], {matrix = "bt601", range = "full", siting = "center"})
                        for i, v in ipairs {100, 90, 200} do
                            img.planes[i]:fill(v)
                        end
                        local file = gpu.encode(img, "jpg", {quality = 95})
                        local back = gpu.decode(file, {format = "native"})
                        assert.equal(img.format, back.format)
                        for i, v in ipairs {100, 90, 200} do
                            for _, byte in ipairs {back.planes[i]:download():byte(1, -1)} do
                                assert.is_true(math.abs(byte - v) <= 1)
                            end
                        end
                        if programs then
                            run(("djpeg -dct int -ppm -outfile '%s/c.ppm' '%s'"):format(folder, write("c.jpg", file)))
                            local rgb = body(helper.read(folder .. "/c.ppm"))
                            for i, want in ipairs {201, 62, 33} do      -- BT.601, full range
                                assert.is_true(math.abs(rgb:byte(i) - want) <= 3)
                            end
                        end
                    end
                end
            end)
        end)

        it("from planes with the tags of JPEG only", function()
            local function refuse(words, format, tags)
                raises("UNSUPPORTED", words, gpu.encode, gpu.image(format, 16, 16, tags), "jpg")
            end
            refuse({"bt709", "convert"}, "yuv420p", {matrix = "bt709", range = "full"})
            refuse({"limited", "convert"}, "yuv420p", {matrix = "bt601", range = "limited"})
            refuse({"no known matrix", "convert"}, "yuv420p", {range = "full"})
            refuse({"left", "convert"}, "yuv420p", {matrix = "bt601", range = "full", siting = "left"})
            refuse("yuv410p", "yuv410p", {matrix = "bt601", range = "full"})
            refuse({"nv12", "convert"}, "nv12", {matrix = "bt601", range = "full"})
            local yuv = gpu.image("yuv420p", 16, 16, {matrix = "bt601", range = "full"})
            raises("BAD_ARGUMENT", "as they are", gpu.encode, yuv, "jpg", {subsampling = "444"})
        end)
    end)

    describe("a decoder in a process of its own", function()
        it("gives the same pictures and the same errors", function()
            if not make.can_isolate() then
                return pending("this kernel gives no seccomp filter")
            end
            for name, file in pairs(make.samples()) do
                local ok, plain = pcall(gpu.decode, file)
                assert(ok, name)
                local apart = gpu.decode(file, {isolated = true})
                assert.equal(tostring(plain), tostring(apart):gsub("0x%x+", tostring(plain):match("0x%x+") or ""))
                for i, plane in ipairs(type(plain) == "table" and plain.planes or {plain}) do
                    assert.equal(plane:download(), (type(apart) == "table" and apart.planes[i] or apart):download(), name)
                end
                if type(plain) == "table" then
                    assert.equal(plain.icc, apart.icc)
                end
                local _, err = pcall(gpu.decode, file:sub(1, -5))
                local _, err_apart = pcall(gpu.decode, file:sub(1, -5), {isolated = true})
                if type(err) == "table" and err.code then
                    assert.equal(err.message, err_apart.message)
                end
            end
            raises("NO_FILE", "no/such", gpu.load, folder .. "/no/such.png", {isolated = true})
            raises("BAD_ARGUMENT", "timeout", gpu.decode, "x", {isolated = true, timeout = -1})
            raises("BAD_ARGUMENT", "isolated", gpu.decode, "x", {isolated = 1})
        end)

        it("that crashes, loops or reaches out is an error, and all goes on", function()
            if not turbo or not make.can_isolate() then
                return pending("no seccomp filter, or no libjpeg-turbo whose place a bad one could take")
            end
            local path = write("good.jpg", make.jpg(16, 8, {{{100, 90, 200}, {60, 128, 128}}}))
            write("bad.c", [[
                #include <fcntl.h>
                #include <stdlib.h>
                #include <unistd.h>
                #include <sys/socket.h>
                void *tjInitCompress(void) { return 0; }
                void *tjInitDecompress(void) { return (void *)1; }
                int tjDestroy(void *h) { return 0; }
                char *tjGetErrorStr2(void *h) { return "bad"; }
                int tjGetErrorCode(void *h) { return 1; }
                unsigned long tjBufSize(int w, int h, int s) { return 0; }
                int tjDecompress2(void *h, const unsigned char *f, unsigned long n, unsigned char *to, int w, int s, int height, int p, int flags) {
                    switch (*getenv("BAD")) {
                    case 'a': abort();
                    case 'n': *(volatile int *)8 = 1; break;
                    case 'l': for (;;) __asm__ volatile("");
                    case 'o': open("/etc/passwd", O_RDONLY); break;
                    case 'w': (void)!write(1, "got out", 7); break;
                    case 's': socket(AF_INET, SOCK_STREAM, 0); break;
                    case 'x': execl("/bin/true", "true", (char *)0); break;
                    }
                    return 0;
                }
                int tjDecompressToYUVPlanes(void) { return 0; }
                int tjCompress2(void) { return 0; }
                int tjCompressFromYUVPlanes(void) { return 0; }
            ]])
            run(("gcc -w -shared -fPIC -o '%s/libturbojpeg.so.0' '%s/bad.c'"):format(folder, folder))
            local code = ([[
                assert(gpu.codecs().jpg == "libjpeg-turbo")
                local ok, err = pcall(gpu.load, %q, {isolated = true, timeout = 0.3})
                print(ok, err)
                print(gpu.load(%q, {isolated = true}).width)
            ]]):format(path, write("good.png", make.samples()["gray.png"]))
            local wanted = {a = "crashed", n = "crashed", l = "300 ms", o = "no right", w = "no right", s = "no right", x = "no right"}
            for how, text in pairs(wanted) do
                local out, status = helper.run(("BAD=%s LD_LIBRARY_PATH='%s' %s -e '%s'"):format(how, folder, helper.command(), code:gsub("'", "'\\''")))
                assert.equal(0, status, out)
                assert.truthy(out:find("^false"), out)
                assert.truthy(out:find(text, 1, true), how .. ": " .. out)
                assert.truthy(out:find("\n4\n", 1, true), out)
                assert.is_nil(out:find("got out", 1, true))
            end
        end)
    end)
end)
