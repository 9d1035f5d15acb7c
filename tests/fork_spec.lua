-- SPDX-License-Identifier: MIT
-- A fork of a process that has used gpuwb: threads and contexts stay behind, so that the child is told instead of kept waiting, and leaves the
-- parent's work alone.
local helper = require "tests.helper"

local before = [[
local gpu, ffi = require "gpuwb", require "ffi"
ffi.cdef "int fork(void); int waitpid(int pid, int *status, int options); unsigned alarm(unsigned seconds);"
local function fork(in_child)
    io.flush()
    local pid = ffi.C.fork()
    if pid == 0 then
        ffi.C.alarm(20)
        in_child()
        os.exit(0, true)
    end
    local status = ffi.new("int[1]")
    ffi.C.waitpid(pid, status, 0)
    print("child", status[0])
end
]]

helper.each_device(function(name)
    local function forked(code)
        -- a child leaves what it cannot close
        return helper.run("ASAN_OPTIONS=detect_leaks=0 " .. helper.command() .. " --device " .. name .. " -e " .. helper.quote(before .. code))
    end

    describe("a fork", function()
        it("is told that gpuwb was used before it, whatever it calls", function()
            local out, status = forked [[
                local m, s, e, p = gpu.mat(64, 48, "u8", {fill = 3}), gpu.stream(), gpu.event(), gpu.pipe():crop(1, 1, 5, 5)
                s:sleep(200)
                m:fill(4, {stream = s})
                fork(function()
                    local calls = {
                        at = function() m:at(1, 1) end, fill = function() m:fill(1) end, roi = function() m:roi(0, 0, 2, 2) end,
                        download = function() m:download() end, wait = function() m:wait() end, dlpack = function() m:dlpack() end,
                        new = function() gpu.mat(2, 2, "u8") end, image = function() gpu.image("rgb24", 4, 4) end,
                        stream = function() gpu.stream() end, sync = function() s:synchronize() end, all = gpu.synchronize,
                        record = function() s:record(e) end, pipe = function() p(m) end, reset = function() gpu.reset("host") end,
                        trim = gpu.trim, writer = function() gpu.writer():save(gpu.image("gray", 2, 2), "never.png") end,
                        ipc = function() gpu.from_ipc("gpuwb1:mat:host:1:1:10:0:2:2x2:u8:1:0:1.2.3") end,
                    }
                    for what, call in pairs(calls) do
                        local ok, err = pcall(call)
                        if ok or err.code ~= "NO_DEVICE" or not tostring(err):find("forked", 1, true) then print(what, ok, err) end
                    end
                end)
                print((m:at(1, 1)))]]
            assert.equal("child\t0\n4\n", out)
            assert.equal(0, status)
        end)

        it("ends at once, and lets the parent's work be", function()
            local folder = helper.folder()
            finally(function() helper.remove(folder) end)
            local out, status = forked(("local folder = %q "):format(folder) .. [[
                gpu.image_from("gray", {gpu.mat(300, 200, "u8", {fill = 5})}):save(folder .. "/a.png")
                gpu.trace(folder .. "/trace.json", function()
                    local s, g, w = gpu.stream(), nil, gpu.writer()
                    keep = {gpu.mat(64, 48, "u8"), gpu.event(), gpu.pipe():crop(1, 1, 5, 5), gpu.mat(8, 8, "u8", {shared = true}), s, w}
                    keep.event = s:record()
                    g = s:capture(function() keep[1]:fill(1, {stream = s}) end)
                    keep.graph = g
                    keep.files = gpu.files {folder .. "/a.png", folder .. "/a.png"}
                    keep.files()
                    s:sleep(300)
                    keep[1]:fill(2, {stream = s})
                    fork(function()
                        for _, object in pairs(keep) do
                            if type(object) == "userdata" or object == w or object == g then object:close() end
                        end
                        keep, g, s, w = nil, nil, nil, nil
                        collectgarbage()
                        collectgarbage()
                    end)
                    w:save(keep.files(), folder .. "/b.png")
                    assert(#w:close() == 0)
                    g:launch()
                    gpu.synchronize()
                end)
                print((gpu.load(folder .. "/b.png").planes[1]:at(299, 199)), (keep[1]:at(1, 1)))
                local json = require "dkjson".decode(io.open(folder .. "/trace.json"):read("*a"))
                print(#json > 3)]])
            assert.equal("child\t0\n5\t1\ntrue\n", out)
            assert.equal(0, status)
        end)

        for _, by in ipairs {"ffmpeg", "libav"} do
            it("leaves a video to the parent that reads it by " .. by, function()
                local folder = helper.folder()
                finally(function() helper.remove(folder) end)
                helper.run("ffmpeg -v error -f lavfi -i testsrc=size=64x48:rate=5:duration=2 -pix_fmt yuv420p " .. folder .. "/a.mp4")
                local out = forked(("local file, by = %q, %q "):format(folder .. "/a.mp4", by) .. [[
                    local ok, frames = pcall(gpu.frames, file, {by = by})
                    if not ok then print("not here") return end
                    local n = frames() and 1
                    fork(function()
                        local fine, err = pcall(frames)
                        if fine or err.code ~= "NO_DEVICE" then print(fine, err) end
                        frames:close()
                        frames = nil
                        collectgarbage()
                    end)
                    for _ in frames do n = n + 1 end
                    print(n)]])
                if out == "not here\n" then pending(by .. " is not here") return end
                assert.equal("child\t0\n10\n", out)
            end)
        end

        it("that comes before the first use of a device is a process like any other", function()
            assert.equal("3\nchild\t0\n7\n", (forked [[
                fork(function() print((gpu.mat(4, 4, "u8", {fill = 3}):at(3, 3))) end)
                print((gpu.mat(4, 4, "u8", {fill = 7}):at(3, 3)))]]))
        end)
    end)
end)
