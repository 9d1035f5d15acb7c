-- SPDX-License-Identifier: MIT
-- Frames through libav beside those through ffmpeg: the same bits and tags, whose memory a frame is, and NVDEC where there is one.
local gpu = require "gpuwb"
local helper = require "tests.helper"
local kernels = require "tests.kernels"
local C = require("gpuwb.cdef").C
local raises, quote = helper.raises, helper.quote

local have = select(2, helper.run("ffmpeg -version && ffprobe -version")) == 0
local tags = {"matrix", "range", "siting", "transfer", "primaries"}
local folder

teardown(function() helper.remove(folder) end)

local function it_with_both(name, fn)
    it(name, function()
        if not have or C.gwb_libav() == nil then
            pending "no ffmpeg or no libav here"
        end
        fn()
    end)
end

local function ffmpeg(arguments)
    local text, status = helper.run("cd '" .. folder .. "' && ffmpeg -v error -nostdin -y " .. arguments)
    assert(status == 0, text)
end

-- What an image is, as a list that assert.same shows, and the bytes of its planes.
local function facts(img)
    local list = {img.format, img.width, img.height, img.planes[1].device}
    for _, tag in ipairs(tags) do
        list[#list + 1] = tag .. "=" .. tostring(img[tag])
    end
    return list
end

local function same(a, b, what)
    assert.same(facts(a), facts(b), what)
    for i, m in ipairs(a.planes) do
        assert.is_true(m:download() == b.planes[i]:download(), ("%s: plane %d differs"):format(what, i))
    end
end

-- All frames of both ways are the same; returns how many there are.
local function compare(name, opts)
    local path, count = folder .. "/" .. name, 0
    local function by(way)
        local with = {by = way}
        for key, value in pairs(opts or {}) do
            with[key] = value
        end
        return gpu.frames(path, with)
    end
    local theirs = by "ffmpeg"
    for img in by "libav" do
        same(assert(theirs(), name .. ": ffmpeg has fewer frames"), img, name)
        count = count + 1
    end
    assert.is_nil(theirs())
    return count
end

local source = "-f lavfi -i testsrc2=size=%s:rate=25:duration=0.6 "

-- Each kind of file, with its size; the rest is ffmpeg's words.
local kinds = {
    {"a.mp4", "98x54", "-c:v libx264 -pix_fmt yuv420p -colorspace bt709 -color_primaries bt709 -color_trc bt709 -color_range tv"},
    {"b.mp4", "102x70", "-c:v libx264 -pix_fmt yuv420p10le -colorspace bt2020nc -color_primaries bt2020 -color_trc smpte2084"},
    {"c.mp4", "97x53", "-c:v libx264 -pix_fmt yuv444p -preset ultrafast -bf 3"},
    {"d.mkv", "65x33", "-c:v libx264 -pix_fmt yuv444p10le -color_range pc"},
    {"e.avi", "77x41", "-c:v mjpeg -pix_fmt yuvj420p"},
    {"f.avi", "64x48", "-c:v mjpeg -pix_fmt yuvj422p"},
    {"g.mkv", "31x17", "-c:v ffv1 -pix_fmt bgr0"},
    {"h.mkv", "31x17", "-c:v ffv1 -pix_fmt gray"},
    {"i.mkv", "33x19", "-c:v ffv1 -pix_fmt yuv422p16le"},
    {"j.mkv", "33x19", "-c:v ffv1 -pix_fmt gbrp10le"},
    {"k.mkv", "5x3", "-c:v ffv1 -pix_fmt yuv420p"},
    {"l.mkv", "64x64", "-vf format=gray,crop=1:1 -c:v ffv1 -pix_fmt gray"},
    {"r.mkv", "9x7", "-c:v ffv1 -pix_fmt yuva420p"},
    {"m.mp4", "90x46", "-c:v mpeg4 -bf 2 -g 7"},
    {"n.mov", "50x20", "-c:v png -pix_fmt rgb24"},
    {"o.nut", "33x19", "-c:v rawvideo -pix_fmt nv12"},
    {"p.avi", "35x18", "-c:v rawvideo -pix_fmt bgr24"},     -- its rows run upwards
    {"s.mp4", "160x160", "-c:v libx265 -pix_fmt yuv420p10le -x265-params log-level=none -color_range tv"},
    {"q.mkv", "128x64", "-c:v mpeg2video -pix_fmt yuv420p -bf 2"},
}

setup(function()
    folder = helper.folder()
    for _, kind in ipairs(have and kinds or {}) do
        local file, size, words = unpack(kind)
        ffmpeg(source:format(size) .. words .. " " .. file)
    end
end)

helper.each_device(function(name)
    describe("libav", function()
        it_with_both("gives what ffmpeg gives", function()
            for _, kind in ipairs(kinds) do
                assert.equal(15, compare(kind[1]), kind[1])
            end
            assert.equal(4, compare("a.mp4", {frame = 11}))
            assert.equal(15, compare("a.mp4", {format = "rgb24"}))
            assert.equal(15, compare("a.mp4", {matrix = "bt601", siting = "topleft", range = "full"}))
        end)

        it_with_both("turns what is to be turned as ffmpeg does", function()
            for _, angle in ipairs {90, 180, 270} do
                for file, format in pairs {["a.mp4"] = "yuv420p", ["c.mp4"] = "yuv444p"} do
                    ffmpeg(("-i %s -c copy -metadata:s:v rotate=%d turned.mp4"):format(file, angle))
                    assert.equal(15, compare "turned.mp4", format)
                    assert.equal(15, compare("turned.mp4", {orient = false}))
                end
            end
            ffmpeg(source:format "32x20" .. "-c:v libx264 -pix_fmt yuv422p -metadata:s:v rotate=90 wide.mp4")
            ffmpeg "-i wide.mp4 -c copy -metadata:s:v rotate=90 turned.mp4"
            raises("UNSUPPORTED", {"yuv422p", "orient"}, gpu.frames, folder .. "/turned.mp4", {by = "libav"})
            ffmpeg "-i a.mp4 -c copy -metadata:s:v rotate=30 odd.mp4"
            raises("UNSUPPORTED", {"orient", "90"}, gpu.frames, folder .. "/odd.mp4", {by = "libav"})
            assert.equal("ffmpeg", gpu.frames(folder .. "/odd.mp4").by)
        end)

        it_with_both("takes the video of a file that has more in it", function()
            ffmpeg "-f lavfi -i testsrc=size=64x64:duration=0.1 -frames:v 1 cover.png"
            ffmpeg("-f lavfi -i sine=duration=0.6 -i cover.png " .. source:format "60x40" .. "-map 0 -map 1 -map 2 -c:a aac -c:v:0 png -c:v:1 libx264 "
                .. "-pix_fmt:v:1 yuv420p -disposition:v:0 attached_pic more.mp4")
            assert.equal(15, compare "more.mp4")
        end)

        it_with_both("leaves to ffmpeg what has no format here", function()
            ffmpeg "-i a.mp4 -frames:v 3 -pix_fmt yuva422p -c:v ffv1 nine.mkv"
            local path = folder .. "/nine.mkv"
            raises("UNSUPPORTED", {"yuva422p", "nine.mkv"}, gpu.frames, path, {by = "libav"})
            local frames = gpu.frames(path, {format = "yuv420p10le"})
            assert.equal("ffmpeg", frames.by)
            assert.equal("yuv420p10le", frames().format)
        end)

        it_with_both("says what it does", function()
            local path = folder .. "/a.mp4"
            local frames = gpu.frames(path, {by = "libav"})
            assert.same({"libav", "h264"}, {frames.by, frames.codec})
            assert.equal("frames of " .. path .. " (h264) by libav, 0 taken", tostring(frames))
            frames()
            frames()
            frames:close()
            assert.equal("frames of " .. path .. " (h264) by libav, 2 taken, closed", tostring(frames))
            assert.equal("ffmpeg", gpu.frames(path, {by = "ffmpeg"}).by)
            local out = helper.child(("gpu = require 'gpuwb' gpu.device '%s' gpu.frames('%s')"):format(name, path), "GPUWB_LOG=debug")
            assert.truthy(out:find("gpuwb: video: %S+ %S+ 98x54, decoded by libavformat"), out)
            gpu.image("yuv420p", 6, 4, {matrix = "bt709", range = "limited"}):save(folder .. "/own.y4m")
            raises("BAD_ARGUMENT", {"own.y4m", "itself"}, gpu.frames, folder .. "/own.y4m", {by = "libav"})
        end)

        it_with_both("gives frames that are the script's own", function()
            local path, expected = folder .. "/m.mp4", {}
            for img in gpu.frames(path, {by = "ffmpeg"}) do
                expected[#expected + 1] = img
            end
            -- kept beyond the loop and the decoder
            local kept = {}
            for img in gpu.frames(path, {by = "libav"}) do
                kept[#kept + 1] = img
            end
            collectgarbage()
            collectgarbage()
            for i, img in ipairs(expected) do
                same(img, kept[i], "kept " .. i)
            end
            -- written to at once: the frames that follow are predicted from the decoder's own
            local n = 0
            for img in gpu.frames(path, {by = "libav"}) do
                n = n + 1
                same(expected[n], img, "frame " .. n)
                for _, m in ipairs(img.planes) do
                    m:fill(n)
                end
                if n % 2 == 0 then
                    img:close()
                end
            end
            assert.equal(15, n)
            -- written to on a stream that is behind, and dropped
            local s = gpu.stream()
            n = 0
            for img in gpu.frames(path, {by = "libav", stream = s}) do
                n = n + 1
                s:sleep(3)
                kept[n] = img.planes[1]:clone({stream = s})
                img.planes[1]:fill(0, {stream = s})
            end
            for i, m in ipairs(kept) do
                assert.is_true(m:download() == expected[i].planes[1]:download(), "plane of " .. i)
            end
        end)

        it_with_both("lets go of memory with the last frame", function()
            collectgarbage()
            collectgarbage()
            gpu.synchronize(name)
            local before = gpu.memory("host").used
            for _ = 1, 3 do
                for img in gpu.frames(folder .. "/a.mp4", {by = "libav"}) do
                    img:close()
                end
            end
            collectgarbage()
            collectgarbage()
            gpu.synchronize(name)
            assert.equal(before, gpu.memory("host").used)
        end)

        it_with_both("collects where memory runs out, and tells where that does not help", function()
            ffmpeg "-f lavfi -i testsrc=size=640x480:rate=25:duration=4 -c:v mpeg4 large.mp4"
            local path = folder .. "/large.mp4"
            collectgarbage()
            collectgarbage()
            gpu.synchronize(name)
            gpu.trim "host"
            gpu.limit(gpu.memory("host").used + 24 * 2 ^ 19, "host")       -- 24 frames, and more are dropped
            local ok, err = pcall(function()
                local n, kept = 0, {}
                for _ in gpu.frames(path, {by = "libav", device = "host"}) do
                    n = n + 1
                end
                assert.equal(100, n)
                raises("OUT_OF_MEMORY", {"gpu.frames"}, function()
                    for img in gpu.frames(path, {by = "libav", device = "host"}) do
                        kept[#kept + 1] = img
                    end
                end)
                assert.is_true(#kept > 8 and #kept < 24, #kept)
                for _ = 1, 3 do         -- what is kept for reuse is taken whatever the limit
                    collectgarbage()
                    gpu.trim "host"
                end
                gpu.limit(1, "host")
                raises("OUT_OF_MEMORY", {"gpu.frames", "large.mp4"}, gpu.frames, path, {by = "libav", device = "host"})
                gpu.limit(gpu.memory("host").used + 8 * 2 ^ 19, "host")
                kept = nil      -- luacheck: ignore
                gpu.frames(path, {by = "libav", device = "host"})()
            end)
            gpu.limit(0, "host")
            assert(ok, tostring(err))
        end)

        it_with_both("ends cleanly with the process, at any point", function()
            for _, rest in ipairs {"", "f() f = nil collectgarbage()", "f() os.exit(0, true)", "f() os.exit(0)", "kept = {f(), f()}", "kept = f() f:close()",
                                   "x = newproxy(true) getmetatable(x).__gc = function() f() end"} do
                for _, by in ipairs {"libav", "ffmpeg"} do
                    local out, status = helper.child(("gpu = require 'gpuwb' gpu.device '%s' f = gpu.frames('%s', {by = '%s'}) %s"):format(name,
                        folder .. "/m.mp4", by, rest))
                    assert.same({"", 0}, {out, status}, by .. ": " .. rest)
                end
            end
        end)

        it_with_both("is refused in a recording", function()
            local s = gpu.stream()
            for _, by in ipairs {"libav", "ffmpeg"} do
                local frames = gpu.frames(folder .. "/a.mp4", {by = by, stream = s})
                raises("UNSUPPORTED", {"gpu.frames", "recording"}, s.capture, s, function() frames() end)
                frames:close()
            end
            gpu.frames(folder .. "/a.mp4", {stream = s})()
        end)

        it_with_both("tells of damage behind the frames that are whole", function()
            local whole = helper.read(folder .. "/m.mp4")
            for i = 0, 40 do
                local at = 200 + i * math.floor((#whole - 400) / 41)
                local path = helper.write(folder .. "/damaged.mp4", whole:sub(1, at) .. helper.bytes(40, i) .. whole:sub(at + 41))
                for _, strict in ipairs {true, false} do
                    local ok, err = pcall(function()
                        local n = 0
                        for img in gpu.frames(path, {by = "libav", strict = strict}) do
                            assert(img.width == 90 and img.height == 46)
                            n = n + 1
                        end
                        return n
                    end)
                    assert(ok or err.code == "BAD_FILE" or err.code == "UNSUPPORTED" or err.code == "LIMIT", tostring(err))
                end
            end
        end)
    end)

    describe("NVDEC", function()
        local function it_with_nvdec(what, fn)
            it_with_both(what, function()
                if name == "host" then
                    pending "the host has no NVDEC"
                end
                local ok, err = pcall(gpu.frames, folder .. "/a.mp4", {by = "nvdec"})
                if not ok then
                    pending(tostring(err))
                end
                fn()
            end)
        end

        it_with_both("is asked for in vain where there is none", function()
            if name == "host" then
                raises("UNSUPPORTED", {"NVDEC", "a.mp4"}, gpu.frames, folder .. "/a.mp4", {by = "nvdec"})
            end
            local frames = gpu.frames(folder .. "/i.mkv")       -- FFV1, which it does not decode
            assert.equal("libav", frames.by)
            raises("UNSUPPORTED", {"NVDEC", "i.mkv"}, gpu.frames, folder .. "/i.mkv", {by = "nvdec"})
            assert.equal("libav", gpu.frames(folder .. "/m.mp4").by)    -- MPEG-4, which it decodes to other bits
        end)

        it_with_nvdec("decodes to the same bits", function()
            for file, formats in pairs {["a.mp4"] = {"nv12", "yuv420p"}, ["s.mp4"] = {"p010le", "yuv420p10le"}} do
                local n, soft = 0, gpu.frames(folder .. "/" .. file, {by = "libav"})
                for img in gpu.frames(folder .. "/" .. file, {by = "nvdec"}) do
                    assert.equal(formats[1], img.format)
                    same(soft(), img:convert(formats[2]), file)
                    n = n + 1
                end
                assert.equal(15, n)
            end
        end)

        it_with_nvdec("gives as many frames as are kept", function()
            ffmpeg "-f lavfi -i testsrc2=size=640x360:rate=25:duration=4 -c:v libx264 -pix_fmt yuv420p long.mp4"
            local kept = {}
            for img in gpu.frames(folder .. "/long.mp4", {by = "nvdec"}) do
                kept[#kept + 1] = img
            end
            assert.equal(100, #kept)
            local soft = gpu.frames(folder .. "/long.mp4", {by = "libav"})
            for i, img in ipairs(kept) do
                same(soft(), img:convert("yuv420p"), "frame " .. i)
            end
        end)
    end)
end)

-- What a gpuwb with the fake driver prints, whose NVDEC makes pictures by a formula (tests/c/fake_nvdec.c).
describe("NVDEC on a driver that needs no GPU", function()
    local fake = kernels.fake_driver()
    if not fake then
        pending("needs a checkout and a C compiler")
        return
    end
    teardown(function() helper.remove(fake) end)

    local prelude = [[
        local gpu = require "gpuwb"
        gpu.device "cuda"
        local folder = "%s"
        -- Whether the image has what the n-th picture shall have.
        local function right(img, n)
            assert(img.format == "nv12" and img.width == 98 and img.height == 54 and img.planes[1].device == "cuda:0")
            for i, m in ipairs(img.planes) do
                local bytes, row = m:download(), 98
                for y = 0, m.height - 1 do
                    for x = 0, row - 1 do
                        assert(bytes:byte(y * row + x + 1) == (n + x + (i == 1 and 3 * y or 5 * y + 128)) %% 256, "frame " .. n)
                    end
                end
            end
        end
        local function frames(opts)
            opts = opts or {}
            opts.by = opts.by or "nvdec"
            return gpu.frames(folder .. "/nob.mp4", opts)
        end
    ]]

    local function it_with_fake(name, env, code, wanted)
        it_with_both(name, function()
            if not kernels.built_in() then
                pending "needs nvcc when gpuwb is built"
            end
            ffmpeg "-f lavfi -i testsrc2=size=98x54:rate=25:duration=2 -c:v libx264 -bf 0 -pix_fmt yuv420p nob.mp4"
            local out, status = helper.run(("env -u GPUWB_DEVICE -u CUDA_VISIBLE_DEVICES ASAN_OPTIONS=detect_leaks=0 LD_LIBRARY_PATH=%s %s %s -e %s")
                :format(fake, env, helper.command(), quote(prelude:format(folder) .. code)))
            if out:find("cannot decode on a cuda device", 1, true) or out:find("has no NVDEC", 1, true) then
                pending "this libav was built without NVDEC"
            end
            assert.same({wanted .. "\n", 0}, {out, status})
        end)
    end

    it_with_fake("gives its own memory, in order, behind what is under way", "FAKE_JITTER=1", [[
        local before = gpu.memory().used
        for img, n in frames() do
            right(img, n)
            img:close()
            assert(gpu.memory().used == before, "a copy")
        end
        local s, n = gpu.stream(), 0
        for img in frames {frame = 7, stream = s} do
            s:sleep(2)
            local copy = img.planes[1]:clone {stream = s}
            img.planes[1]:fill(9, {stream = s})
            img:close()
            assert(copy:at(0, 0) == n + 7)
            n = n + 1
        end
        collectgarbage()
        collectgarbage()
        print(n, gpu.memory().used == before)]], "43\ttrue")

    it_with_fake("gives as many frames as a script keeps", "FAKE_JITTER=1", [[
        local kept, before = {}, gpu.memory().used
        for img, n in frames() do
            kept[n] = img
        end
        collectgarbage()
        assert(gpu.memory().used - before == 47 * (16384 + 8192), "three are shown, the others are copies")
        for n = 0, 49 do
            right(kept[n], n)
        end
        kept = nil
        collectgarbage()
        collectgarbage()
        gpu.synchronize()
        local count = 0
        for img in frames() do      -- none is kept, and none closed
            count = count + img.planes[1]:at(0, 0)
        end
        print(count)]], tostring(49 * 50 / 2))

    it_with_fake("may end at any point, and frames live on", "FAKE_JITTER=1", [[
        local first
        for img, n in frames() do
            first = first or img
            if n == 3 then
                break
            end
        end
        collectgarbage()
        collectgarbage()
        right(first, 0)
        local f = frames()
        local a, b = f(), f()
        f:close()
        right(a, 0)
        right(b, 1)
        a:close()
        frames()
        frames()()
        local late = frames()
        last = late()
        print(tostring(late):match("%((.*) taken"))]], "h264) by nvdec, 1")

    it_with_fake("is lost with its device, and found again", "", [[
        local f = frames()
        local kept = {f(), f(), f()}
        gpu.reset()
        local ok, err = pcall(f)
        print(ok, err.code, select(2, pcall(kept[1].planes[1].download, kept[1].planes[1])).code)
        kept = nil
        collectgarbage()
        collectgarbage()
        local n = 0
        for img in frames() do
            right(img, n)
            n = n + 1
        end
        print(n)]], "false\tCLOSED\tCLOSED\n50")

    it_with_fake("that refuses a file leaves it to the host", "FAKE_NVDEC=off", [[
        print(select(2, pcall(frames)).code)
        local f = gpu.frames(folder .. "/nob.mp4")
        local host = gpu.frames(folder .. "/nob.mp4", {device = "host"})
        for img in f do
            local same = host()
            for i, m in ipairs(img.planes) do
                assert(m.device == "cuda:0" and m:download() == same.planes[i]:download())
            end
        end
        print(f.by, host())]], "UNSUPPORTED\nlibav\tnil")
end)

describe("libav's shared object", function()
    -- The command alone in a folder, with what is written as the object beside it; runs code there.
    local function alone(object, code)
        local there = helper.folder()
        helper.run(("cp %s %s/gpuwb"):format(helper.command(), quote(there)))
        if object then
            helper.write(there .. "/gpuwb_av.so", object)
        end
        local out, status = helper.run(("cd %s && LD_LIBRARY_PATH= ./gpuwb %s"):format(quote(there), code))
        helper.remove(there)
        return out, status
    end

    it_with_both("may be missing", function()
        local path = folder .. "/a.mp4"
        local out = alone(nil, ("-e 'local f = gpu.frames(%q) print(f.by, f().width) print(select(2, pcall(gpu.frames, %q, {by = \"libav\"})))'")
            :format(path, path))
        assert.truthy(out:find("^ffmpeg\t98\n"), out)
        assert.truthy(out:find("gpuwb_av.so", 1, true) and out:find("a.mp4", 1, true), out)
        out = alone(nil, "--doctor")
        assert.truthy(out:find("%-%-  libav "), out)
    end)

    it_with_both("may be broken, or another version's", function()
        local path = folder .. "/a.mp4"
        local code = ("-e 'print(gpu.frames(%q).by) print(select(2, pcall(gpu.frames, %q, {by = \"libav\"})))'"):format(path, path)
        local out = alone("no object\n", code)
        assert.truthy(out:find("^ffmpeg\n") and out:find("does not open", 1, true), out)
        if select(2, helper.run "cc --version") ~= 0 then
            pending "no C compiler"
        end
        local other = folder .. "/other.so"
        local text, status = helper.run(("echo 'static int v[8] = {0}; void *gwb_av_open_calls(void) { return v; }' | cc -shared -fPIC -x c - -o %s")
            :format(quote(other)))
        assert.equal(0, status, text)
        out = alone(helper.read(other), code)
        assert.truthy(out:find("^ffmpeg\n") and out:find("another version", 1, true), out)
    end)
end)

describe("a pipe that nobody writes to", function()
    it("is left on Ctrl-C", function()
        local path = folder .. "/pipe"
        if select(2, helper.run("mkfifo " .. quote(path) .. " && command -v timeout")) ~= 0 then
            pending "no mkfifo or timeout"
        end
        for _, call in ipairs {"gpu.frames", "gpu.load"} do
            local out, status = helper.run(("timeout --foreground --preserve-status -s INT -k 20 2 %s -e '%s(%q)'"):format(helper.command(), call, path))
            assert.equal(1, status, out)
            assert.truthy(out:find("interrupted", 1, true), out)
        end
    end)
end)
