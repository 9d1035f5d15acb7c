-- SPDX-License-Identifier: MIT
-- Video through ffmpeg and through libav: the frames bit by bit, programs and threads started and ended cleanly, and every failure told. What libav and
-- NVDEC do by themselves is in decoder_spec.lua.
local gpu = require "gpuwb"
local ffi = require "ffi"
local helper = require "tests.helper"
local raises = helper.raises
local C = require("gpuwb.cdef").C

local have = select(2, helper.run("ffmpeg -version && ffprobe -version")) == 0
local have_libav = C.gwb_libav() ~= nil
local folder

setup(function() folder = helper.folder() end)
teardown(function() helper.remove(folder) end)

local function it_with_ffmpeg(name, fn)
    it(name, function()
        if not have then
            pending "no ffmpeg here"
        end
        fn()
    end)
end

-- A test of each way to read a video: fn(read, by), where read is gpu.frames that way.
local function it_each_way(name, fn)
    for _, by in ipairs {"ffmpeg", "libav"} do
        it_with_ffmpeg(name .. ", by " .. by, function()
            if by == "libav" and not have_libav then
                pending "no libav here"
            end
            fn(function(path, opts)
                local with = {by = not path:find("%.y4m$") and by or nil}
                for key, value in pairs(opts or {}) do
                    with[key] = value
                end
                return gpu.frames(path, with)
            end, by)
        end)
    end
end

local function ffmpeg(arguments)
    local text, status = helper.run("cd '" .. folder .. "' && ffmpeg -v error -nostdin -y " .. arguments)
    assert(status == 0, text)
end

-- Children of this process that are called ffmpeg or ffprobe, zombies too.
local function children()
    local self, n = io.open("/proc/self/stat"):read("*n"), 0
    for line in helper.run("cat /proc/[0-9]*/stat 2>/dev/null"):gmatch("[^\n]+") do
        local name, parent = line:match("^%d+ %((ff[^)]*)%) %a (%d+)")
        n = n + (name and tonumber(parent) == self and 1 or 0)
    end
    return n
end

-- Threads of this process that decode ahead.
local function threads()
    return select(2, helper.run("cat /proc/" .. io.open("/proc/self/stat"):read("*n") .. "/task/*/comm"):gsub("gpuwb%-video", ""))
end

local function files()
    return helper.run("ls -A '" .. folder .. "'")
end

local function filled(format, width, height, seed, opts)
    local img = gpu.image(format, width, height, opts)
    for i, m in ipairs(img.planes) do
        local bytes = helper.bytes(m.bytes, seed * 7 + i)
        if img.depth > 8 then      -- words of that many bits, low byte first
            local top = 2 ^ (img.depth - 8)
            bytes = bytes:gsub("(.)(.)", function(low, high) return low .. string.char(high:byte() % top) end)
        end
        m:upload(bytes)
    end
    return img
end

local function same(a, b)
    assert.equal(#a.planes, #b.planes)
    for i, m in ipairs(a.planes) do
        assert.is_true(m:download() == b.planes[i]:download(), "plane " .. i .. " differs")
    end
end

helper.each_device(function(name)
    describe("frames", function()
        it_each_way("come back as they were written, with what they mean", function(read)
            local kinds = {
                {"yuv420p", 64, 48}, {"yuv420p", 5, 3}, {"yuv420p", 1, 1}, {"yuv422p", 17, 31}, {"yuv444p", 33, 2}, {"gray", 19, 7},
                {"yuv420p10le", 31, 17}, {"gray16le", 6, 5}, {"bgr0", 7, 5}, {"yuva420p", 9, 9}, {"gbrp10le", 8, 3},
            }
            for _, kind in ipairs(kinds) do
                local format, width, height = unpack(kind)
                local path = ("%s/%s-%d.mkv"):format(folder, format, width)
                local yuv = format:find("^yuv") and true or nil
                local images = {}
                local w = gpu.video_writer(path, {codec = "ffv1", fps = "30000/1001", format = format})
                for i = 1, 11 do    -- more than are held at once
                    images[i] = filled(format, width, height, i, {matrix = yuv and "bt709", range = yuv and "limited"})
                    if format == "bgr0" then
                        images[i] = images[i]:convert("rgb24"):convert("bgr0")      -- the fourth byte is no content
                    end
                    assert.equal(w, w:write(images[i]))
                end
                w:close()
                w:close()
                local count = 0
                for img, n in read(path) do
                    assert.equal(count, n)
                    count = count + 1
                    assert.same({format, width, height, name}, {img.format, img.width, img.height, img.planes[1].device})
                    assert.same({yuv and "bt709", yuv and "limited"}, {img.matrix, yuv and img.range})
                    if format == "bgr0" then
                        img, images[count] = img:convert("rgb24"), images[count]:convert("rgb24")
                    end
                    same(images[count], img)
                end
                assert.equal(11, count, format)
                local info = gpu.video_info(path)
                assert.same({"ffv1", width, height, format, "30000/1001"}, {info.codec, info.width, info.height, info.format, info.rate})
            end
            assert.equal(0, children())
        end)

        it_each_way("are those that ffmpeg gives, from the one asked for on", function(read)
            ffmpeg "-f lavfi -i testsrc2=size=98x54:rate=25:duration=2 -c:v libx264 -pix_fmt yuv420p -colorspace bt709 -color_range tv clip.mp4"
            ffmpeg "-i clip.mp4 -pix_fmt yuv420p clip.y4m"
            local path = folder .. "/clip.mp4"
            local expected, count = {}, 0
            for img in read(folder .. "/clip.y4m") do
                expected[#expected + 1] = img
            end
            assert.equal(50, #expected)
            for img, n in read(path) do
                same(expected[n + 1], img)
                count = count + 1
            end
            assert.equal(50, count)
            local s = gpu.stream()
            for img, n in read(path, {frame = 47, stream = s}) do
                same(expected[n + 1], img)
                count = count + 1
            end
            assert.equal(53, count)
            raises("BAD_ARGUMENT", {"no frame 50", "clip.mp4"}, read(path, {frame = 50}))
            local info = gpu.video_info(path)
            assert.same({"h264", 98, 54, 25, 50, 2, "bt709", "limited"},
                {info.codec, info.width, info.height, info.fps, info.frames, info.duration, info.matrix, info.range})
        end)

        it_with_ffmpeg("are converted by the device where a format is asked for", function()
            local path = folder .. "/clip.mp4"
            for _, file in ipairs {path, folder .. "/clip.y4m"} do
                local stored = gpu.frames(file, {matrix = "bt601", range = "limited"})()
                local rgb = gpu.frames(file, {matrix = "bt601", range = "limited", format = "rgb24"})()
                assert.equal("rgb24", rgb.format)
                same(stored:convert("rgb24"), rgb)
            end
            raises("BAD_ARGUMENT", "matrix", gpu.frames(folder .. "/clip.y4m", {format = "rgb24"}))
            raises("BAD_ARGUMENT", "nonsense", gpu.frames, path, {format = "nonsense"})
            -- what no format here has, ffmpeg converts when told to
            ffmpeg "-f lavfi -i testsrc=size=16x16:duration=0.2 p.gif"
            local info = gpu.video_info(folder .. "/p.gif")
            assert.equal("gif", info.codec)
            ffmpeg "-i clip.mp4 -frames:v 2 -pix_fmt yuva422p -c:v ffv1 nine.mkv"
            raises("UNSUPPORTED", {"yuva422p", "format"}, gpu.frames, folder .. "/nine.mkv")
            assert.equal("yuv420p10le", gpu.frames(folder .. "/nine.mkv", {format = "yuv420p10le"})().format)
            ffmpeg "-f lavfi -i testsrc=size=16x16:duration=0.1 -pix_fmt gray16be -c:v rawvideo big.nut"
            ffmpeg "-i big.nut -pix_fmt gray16le -f rawvideo big.raw"
            same(gpu.load_raw(folder .. "/big.raw", "gray16le", 16, 16, {frame = 1}), gpu.frames(folder .. "/big.nut", {frame = 1})())
        end)

        it_each_way("are turned as the file says", function(read)
            ffmpeg "-i clip.mp4 -c copy -metadata:s:v rotate=90 turned.mp4"
            local path = folder .. "/turned.mp4"
            if not gpu.video_info(path).rotation then
                pending "this ffmpeg writes no rotation"
            end
            local stored, upright = read(path, {orient = false})(), read(path)()
            assert.same({98, 54, 54, 98}, {stored.width, stored.height, upright.width, upright.height})
            local clockwise, counter = stored:rotate(90), stored:rotate(270)
            local y = upright.planes[1]:download()
            assert.is_true(y == clockwise.planes[1]:download() or y == counter.planes[1]:download())
        end)

        it_each_way("of a JPEG stream are full range", function(read)
            ffmpeg "-f lavfi -i testsrc=size=32x32:duration=0.2 -pix_fmt yuvj420p -c:v mjpeg j.avi"
            local img = read(folder .. "/j.avi")()
            assert.same({"yuv420p", "full"}, {img.format, img.range})
        end)

        it_each_way("end with the loop, the last reference, or close", function(read, by)
            local running = by == "ffmpeg" and children or threads
            ffmpeg "-f lavfi -i testsrc=size=640x480:rate=25:duration=20 -c:v mpeg4 long.mp4"
            local path = folder .. "/long.mp4"
            for _, n in read(path) do
                if n == 1 then
                    break
                end
            end
            collectgarbage()
            collectgarbage()
            assert.equal(0, running())
            local frames = read(path)
            assert.truthy(frames())
            assert.equal(1, running())
            frames:close()
            frames:close()
            assert.equal(0, running())
            assert.is_nil(frames())
            pcall(function()
                for _ in read(path) do
                    error "in the loop"
                end
            end)
            collectgarbage()
            collectgarbage()
            assert.equal(0, running())
            raises("BAD_ARGUMENT", "frames:close", frames.close, {})
        end)

        it_each_way("take a bounded memory, however far ahead the decoder is", function(read, by)
            local before = gpu.memory("host").used
            local frames = read(folder .. "/long.mp4")
            frames()
            local s = gpu.stream {device = "host"}
            s:sleep(200):synchronize()
            local taken = gpu.memory("host").used - before
            local most = by == "ffmpeg" and 11 or 14    -- libavcodec has some of its own
            assert.is_true(taken < most * 640 * 480 * 1.6, taken .. " bytes")
            frames:close()
        end)

        it_each_way("stay right while the stream is behind", function(read)
            local expected = {}
            for img in read(folder .. "/clip.y4m") do
                expected[#expected + 1] = img
            end
            local s, got = gpu.stream(), {}
            for img, n in read(folder .. "/clip.mp4", {stream = s}) do
                s:sleep(n % 7)
                got[n + 1] = img
            end
            for i, img in ipairs(expected) do
                same(img, got[i])
            end
        end)

        it_each_way("are lost when a device is reset, with an error", function(_, by)
            local out, status = helper.child(([[
                local gpu = require "gpuwb"
                gpu.device "%s"
                local frames = gpu.frames("%s/long.mp4", {by = "%s"})
                assert(frames())
                gpu.reset()
                local ok, err = pcall(frames)
                print(ok, err.code, frames())
                print(gpu.frames("%s/long.mp4", {by = "%s"})():convert("rgb24", {matrix = "bt601", range = "limited"}).width)]])
                :format(name, folder, by, folder, by))
            assert.same({"false\tCLOSED\tnil\n640\n", 0}, {out, status})
        end)

        it_each_way("go from a video to a video", function(read)
            local w = gpu.video_writer(folder .. "/copy.mkv", {codec = "ffv1", fps = 25})
            for img in read(folder .. "/clip.mp4") do
                w:write(img)
            end
            w:close()
            local a, b = read(folder .. "/clip.mp4"), read(folder .. "/copy.mkv")
            for _ = 1, 50 do
                same(a(), b())
            end
            assert.is_nil(a())
            assert.is_nil(b())
        end)
    end)

    it_with_ffmpeg("a video's first frame goes through the planes job", function()
        local out, status = helper.run(("%s --device %s scripts/planes.lua %s %s"):format(helper.command(), name, helper.quote(folder .. "/clip.mp4"),
            helper.quote(folder .. "/first.png")))
        assert.equal(0, status, out)
        local picture = gpu.load(folder .. "/first.png")
        local frames = gpu.frames(folder .. "/clip.mp4")
        same(frames():convert("rgb24"), picture)
        frames:close()
    end)

    describe("a writer", function()
        it_with_ffmpeg("waits for the work that makes the image", function()
            local s, path = gpu.stream(), folder .. "/late.mkv"
            local w = gpu.video_writer(path, {codec = "ffv1"})
            local img = gpu.image("gray", 32, 32)
            for i = 1, 3 do
                s:sleep(20)
                img.planes[1]:fill(i * 10, {stream = s})
                w:write(img, {stream = i == 2 and s or nil})
            end
            w:close()
            for frame, n in gpu.frames(path) do
                assert.equal((n + 1) * 10, (frame.planes[1]:at(31, 31)))
            end
        end)

        it_with_ffmpeg("converts RGB with the matrix that is named", function()
            local rgb = gpu.image_from("rgb24", {gpu.mat(32, 16, "u8x3", {fill = {200, 100, 50}})})
            local w = gpu.video_writer(folder .. "/rgb.mkv", {codec = "ffv1"})
            raises("BAD_ARGUMENT", {"matrix", "bt709"}, w.write, w, rgb)
            w = gpu.video_writer(folder .. "/rgb.mkv", {codec = "ffv1", matrix = "bt709", range = "limited", siting = "left"})
            w:write(rgb):close()
            local img = gpu.frames(folder .. "/rgb.mkv")()
            assert.same({"yuv420p", "bt709", "limited"}, {img.format, img.matrix, img.range})
            same(rgb:convert("yuv420p", {matrix = "bt709", range = "limited", siting = "left"}), img)
            -- one that means something else is brought to what the file means
            local other = rgb:convert("yuv444p", {matrix = "bt601", range = "full"})
            w = gpu.video_writer(folder .. "/rgb.mkv", {codec = "ffv1", matrix = "bt709", range = "limited", format = "yuv444p"})
            w:write(other):close()
            same(other:convert("yuv444p", {to = {matrix = "bt709", range = "limited"}}), gpu.frames(folder .. "/rgb.mkv")())
        end)

        it_with_ffmpeg("leaves nothing behind where it fails or is dropped, and what was there before", function()
            local path = folder .. "/kept.mp4"
            local file = io.open(path, "wb")
            file:write("before")
            file:close()
            local before, img = files(), filled("yuv420p", 5, 3, 1)
            local w = gpu.video_writer(path, {codec = "libx264"})
            local err = raises("IO", {"kept.mp4", "not divisible by 2"}, function()
                for _ = 1, 200 do
                    w:write(img)
                end
                w:close()
            end)
            assert.truthy(tostring(err):find("ffmpeg", 1, true))
            raises("CLOSED", "kept.mp4", w.write, w, img)
            w:close()
            w = gpu.video_writer(path, {codec = "ffv1", container = "matroska"})
            w:write(img)
            assert.equal(1, children())
            w = nil
            collectgarbage()
            collectgarbage()
            assert.equal(0, children())
            assert.equal(before, files())
            assert.equal("before", io.open(path):read("*a"))
            w = gpu.video_writer(path)
            raises("BAD_ARGUMENT", "no frame", w.close, w)
            raises("SHAPE", "0x0", function() gpu.video_writer(path):write(gpu.image("gray", 0, 0)) end)
            raises("IO", {"takes no rgb24"}, function()
                gpu.video_writer(path, {codec = "libx264", format = "rgb24"}):write(filled("rgb24", 4, 4, 1)):close()
            end)
            raises("IO", "nonsense", function() gpu.video_writer(path, {codec = "nonsense"}):write(filled("gray", 4, 4, 1)):close() end)
            raises("IO", "nonsense", function()
                gpu.video_writer(path, {options = {nonsense = 3}}):write(filled("gray", 4, 4, 1)):close()
            end)
            raises("NO_FILE", "nowhere", function() gpu.video_writer(folder .. "/nowhere/a.mp4"):write(filled("gray", 4, 4, 1)) end)
            raises("IO", folder, function() gpu.video_writer(folder, {container = "mp4"}):write(filled("gray", 4, 4, 1)) end)
            assert.equal(before, files())
        end)

        it_with_ffmpeg("checks that frames are alike", function()
            local w = gpu.video_writer(folder .. "/alike.mkv", {codec = "ffv1"})
            w:write(filled("yuv420p", 8, 6, 1))
            raises("SHAPE", {"8x8", "8x6"}, w.write, w, filled("yuv420p", 8, 8, 1))
            raises("BAD_ARGUMENT", "the frame must be an image", w.write, w, gpu.mat(8, 6, "u8"))
            w:write(filled("yuv420p", 8, 6, 2))
            w:close()
            local other = gpu.video_writer(folder .. "/other.mkv", {codec = "ffv1"}):write(filled("gray", 8, 6, 1))
            other.width = 800                   -- which is nobody's business
            raises("SHAPE", {"4800", "48"}, other.write, other, filled("gray", 800, 6, 1))
            assert.equal("video writer " .. folder .. "/alike.mkv, 2 frames, closed", tostring(w))
        end)

        it_with_ffmpeg("tells of a full disk and of an encoder that dies", function()
            local img = filled("yuv420p", 640, 480, 3)
            raises("IO", "No space left", function()
                local w = gpu.video_writer("/dev/full", {container = "matroska", codec = "rawvideo"})
                for _ = 1, 50 do
                    w:write(img)
                end
                w:close()
            end)
            local out, status = helper.child(([[
                local gpu = require "gpuwb"
                local img = gpu.image("yuv420p", 640, 480)
                local ok, err = pcall(function()
                    local w = gpu.video_writer("%s/limited.mkv", {codec = "rawvideo"})
                    for _ = 1, 50 do
                        w:write(img)
                    end
                    w:close()
                end)
                print(ok, err.code, tostring(err):find("signal", 1, true) or tostring(err):find("File too large", 1, true) and true)]]):format(folder),
                "ulimit -f 2000;")
            assert.truthy(out:find("^false\tIO\t[%dt]"), out)
            assert.equal(0, status)
            -- no room for the last bytes: some versions of ffmpeg say so and end with status 0
            out, status = helper.child(([[
                local gpu = require "gpuwb"
                local ok, err = pcall(function()
                    local w = gpu.video_writer("%s/last.mkv", {codec = "rawvideo"})
                    w:write(gpu.image("yuv420p", 128, 128)):close()
                end)
                print(ok, err and err.code)]]):format(folder), "trap '' XFSZ; ulimit -f 8;")
            assert.same({"false\tIO\n", 0}, {out, status})
            assert.is_nil(io.open(folder .. "/last.mkv"))
            local w = gpu.video_writer(folder .. "/dies.mkv", {codec = "rawvideo"})
            w:write(img)
            local self = io.open("/proc/self/stat"):read("*n")
            helper.run(("for s in /proc/[0-9]*/stat; do read -r pid name _ parent _ <$s 2>/dev/null; [ \"$name$parent\" = '(ffmpeg)%d' ] && "
                .. "kill -9 $pid; done; true"):format(self))
            raises("IO", {"dies.mkv", "signal 9"}, function()
                for _ = 1, 50 do
                    w:write(img)
                end
                w:close()
            end)
            assert.is_nil(files():find("dies") or files():find("limited") or files():find("part"))
            assert.equal(0, children())
        end)
    end)
end)

describe("video files", function()
    it_with_ffmpeg("of any name are taken as that name", function()
        local names = {"a b.mkv", "-i.mkv", "it's \"x\".mkv", "line\nfeed.mkv", "$(touch x);`y`.mkv", "%03d.mkv", "file:x.mkv", "pipe:1.mkv", "\\.mkv", "*.mkv"}
        local img = filled("gray", 6, 4, 9)
        local here = helper.run("pwd"):gsub("\n", "")
        ffi.cdef "int chdir(const char *path);"
        ffi.C.chdir(folder)
        local ok, err = pcall(function()
            for _, name in ipairs(names) do
                for _, path in ipairs {name, folder .. "/" .. name} do
                    gpu.video_writer(path, {codec = "ffv1"}):write(img):close()
                    same(img, gpu.frames(path)())
                    assert(os.remove(path))
                end
            end
        end)
        ffi.C.chdir(here)
        assert(ok, tostring(err))
        assert.is_nil(files():find("%f[%w]x%f[%W]\n"))
    end)

    it_each_way("that are none, cut or damaged are told", function(read, by)
        raises("NO_FILE", "nothing.mp4", read, folder .. "/nothing.mp4")
        raises("NO_FILE", "nothing.mp4", gpu.video_info, folder .. "/nothing.mp4")
        raises("IO", folder, read, folder)
        local file = io.open(folder .. "/text.mp4", "wb")
        file:write(("no video\n"):rep(100))
        file:close()
        raises("BAD_FILE", {"text.mp4", by == "ffmpeg" and "ffprobe" or "libav"}, read, folder .. "/text.mp4")
        file = io.open(folder .. "/empty.mp4", "wb")
        file:close()
        raises("BAD_FILE", "empty.mp4", read, folder .. "/empty.mp4")
        ffmpeg "-f lavfi -i sine=duration=0.1 sound.wav"
        raises("BAD_FILE", {"sound.wav", "no video"}, read, folder .. "/sound.wav")

        ffmpeg "-f lavfi -i testsrc2=size=98x54:rate=25:duration=2 -c:v libx264 -movflags faststart cut.mp4"
        local whole = io.open(folder .. "/cut.mp4", "rb"):read("*a")
        for _, share in ipairs {0.9, 0.6} do
            file = io.open(folder .. "/cut.mp4", "wb")
            file:write(whole:sub(1, math.floor(#whole * share)))
            file:close()
            local n = 0
            raises("BAD_FILE", {"cut.mp4", "strict=false"}, function()
                for _ in read(folder .. "/cut.mp4") do
                    n = n + 1
                end
            end)
            assert.is_true(n > 1 and n < 50)
            for _ in read(folder .. "/cut.mp4", {strict = false}) do
                n = n - 1
            end
            assert.equal(0, n)
        end
        file = io.open(folder .. "/cut.mp4", "wb")
        file:write(whole:sub(1, 60))
        file:close()
        raises("BAD_FILE", "cut.mp4", read, folder .. "/cut.mp4", {strict = false})
    end)

    it_each_way("whose frames change their size end with an error", function(read)
        for i, size in ipairs {"64x32", "32x64", "128x64", "64x32"} do     -- the second has the bytes of the first
            ffmpeg(("-f lavfi -i testsrc2=size=%s:rate=25:duration=0.4 -c:v libx264 -pix_fmt yuv420p -bf 0 part%d.h264"):format(size, i))
        end
        for i = 2, 3 do
            helper.run(("cd '%s' && cat part1.h264 part%d.h264 >sizes.h264"):format(folder, i))
            local n = 0
            raises("BAD_FILE", {"sizes.h264", "changes", "64x32"}, function()
                for img in read(folder .. "/sizes.h264") do
                    assert.same({64, 32}, {img.width, img.height})
                    n = n + 1
                end
            end)
            assert.is_true(n <= 10)
        end
        helper.run(("cd '%s' && cat part1.h264 part4.h264 >sizes.h264"):format(folder))
        local n = 0
        for _ in read(folder .. "/sizes.h264") do
            n = n + 1
        end
        assert.equal(20, n)
    end)

    it_each_way("obey the limits", function(read)
        local before = gpu.limits {bytes = 5000}
        raises("LIMIT", {"clip.mp4", "98x54", "5000"}, read, folder .. "/clip.mp4")
        gpu.limits(before)
        before = gpu.limits {pixels = 98 * 54 - 1}
        raises("LIMIT", "pixels", read, folder .. "/clip.mp4")
        gpu.limits(before)
    end)

    it("without ffmpeg say what to install", function()
        local out = helper.child(([[
            local gpu = require "gpuwb"
            local file = io.open("%s/some.mp4", "wb")
            file:write("some")
            file:close()
            local img = gpu.image("gray", 4, 4)
            print(select(2, pcall(gpu.frames, "%s/some.mp4", {by = "ffmpeg"})))
            print(select(2, pcall(gpu.video_info, "%s/some.mp4")))
            print(select(2, pcall(function() gpu.video_writer("%s/new.mp4"):write(img) end)))]]):format(folder, folder, folder, folder), "PATH=/nowhere")
        assert.equal(3, select(2, out:gsub("apt%-get install ffmpeg", "")), out)
        assert.is_nil(files():find("new"))
    end)

    it("want arguments that make sense", function()
        raises("BAD_ARGUMENT", "path", gpu.video_writer)
        raises("BAD_ARGUMENT", "path", gpu.video_writer, "a\0b.mp4")
        raises("BAD_ARGUMENT", "container", gpu.video_writer, "noextension")
        raises("BAD_ARGUMENT", "unknown option", gpu.video_writer, "a.mp4", {kodec = "x"})
        raises("BAD_ARGUMENT", "codec", gpu.video_writer, "a.mp4", {codec = "-y"})
        raises("BAD_ARGUMENT", "container", gpu.video_writer, "a.mp4", {container = 3})
        raises("BAD_ARGUMENT", "name", gpu.video_writer, "a.mp4", {options = {["-x"] = 1}})
        raises("BAD_ARGUMENT", "options.crf", gpu.video_writer, "a.mp4", {options = {crf = {}}})
        raises("BAD_ARGUMENT", "options must be", gpu.video_writer, "a.mp4", {options = "x"})
        raises("BAD_ARGUMENT", "matrix", gpu.video_writer, "a.mp4", {matrix = "bt1"})
        raises("UNSUPPORTED", "m3u8", gpu.video_writer, "a.m3u8")
        for _, fps in ipairs {0, -1, 0 / 0, 1 / 0, "x", "25/0", "0/1", true, ("9"):rep(30) .. "/1"} do
            raises("BAD_ARGUMENT", "fps", gpu.video_writer, "a.mp4", {fps = fps})
        end
        local w = gpu.video_writer "a.mp4"
        raises("BAD_ARGUMENT", "method", w.write, nil)
        raises("BAD_ARGUMENT", "method", w.close, {})
        raises("BAD_ARGUMENT", "image", w.write, w, 3)
        raises("BAD_ARGUMENT", "unknown option", w.write, w, gpu.image("gray", 2, 2), {sream = 1})
        raises("BAD_ARGUMENT", "path", gpu.video_info, 3)
        raises("BAD_ARGUMENT", {"by", "nvdec, libav, ffmpeg"}, gpu.frames, "a.mp4", {by = "x"})
        raises("BAD_ARGUMENT", "orient", gpu.frames, "a.mp4", {orient = 1})
        raises("BAD_ARGUMENT", "raw frames", gpu.frames, "a.mp4", {width = 1})
    end)
end)
