-- SPDX-License-Identifier: MIT
-- The frames of a video as RGB, converted on the device: shown, or written as pictures while the next ones are decoded.
local usage = [[
usage: gpuwb scripts/video.lua VIDEO [OUT] [OPTION ...]      without OUT they are shown; OUT has a place for the number, as in out-%03d.png
  --by nvdec|libav|ffmpeg    who decodes (the first of them that can)
  --every N                  one frame in N (1)
  --frames N                 at most so many (all that are written, 1 that is shown)
]]
local gpu = require "gpuwb"
local posix = require "gpuwb.posix"
local arguments = dofile((arg[0]:match("^.*/") or "") .. "arguments.lua")

local function fail(text)
    io.stderr:write(text and "video.lua: " .. text .. "\n" or "", usage)
    os.exit(1)
end

local opts, files = arguments.read({by = true, every = true, frames = true}, {}, fail)
local path, out = files[1], files[2]
if not path or files[3] or out and not pcall(string.format, out, 1) or out and out:format(1) == out:format(2) then
    fail(path and "want a video, and a name for pictures with a place for the number, as in out-%03d.png" or nil)
end
local every = arguments.number(opts, "every", 1, 1e9, fail) or 1
local most = arguments.number(opts, "frames", 1, 1e9, fail) or out and math.huge or 1

-- What the file leaves open is as players take it.
local function to_rgb(img)
    if gpu.format(img.format).model ~= "yuv" then
        return img:convert("rgb24")
    end
    return img:convert("rgb24", {from = {matrix = img.matrix or (img.height < 720 and "bt601" or "bt709"), range = img.range or "limited"}})
end

local writer = out and gpu.writer()
local frames = gpu.frames(path, {by = opts.by})
local start, taken = posix.now(), 0
for img, n in frames do
    if n % every == 0 then
        local rgb = to_rgb(img)
        if writer then
            writer:save(rgb, out:format(n))
        else
            gpu.show(rgb, ("frame %d"):format(n))
        end
        taken = taken + 1
    end
    img:close()     -- the decoder's memory, which it has not much of
    if taken >= most then
        break
    end
end
local said = tostring(frames)
frames:close()
for _, failure in ipairs(writer and writer:close() or {}) do
    io.stderr:write(tostring(failure.error), "\n")
    os.exit(1)
end
print(("%s: %d of them in %.1f s"):format(said, taken, posix.now() - start))
