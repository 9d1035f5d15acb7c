-- SPDX-License-Identifier: MIT
-- `gpuwb PICTURE`: a file that is no script, shown with a line that says what it holds.
local gpu = require "gpuwb"
local show = require "gpuwb.show"

local look = {}

-- "card.png: png 640x480 rgb24 8 bits full srgb"
local function line(path, info)
    local words = {info.kind or info.codec, ("%dx%d"):format(info.width, info.height), info.format or info.type}
    local function add(pattern, value)
        words[#words + 1] = value and pattern:format(value) or nil
    end
    add("%d bits", info.depth)
    for _, tag in ipairs {"matrix", "range", "siting", "transfer", "primaries", "coding"} do
        add("%s", info[tag])
    end
    add("%d frames", info.frames and info.frames > 1 and info.frames)
    add("%.4g frames a second", info.rate and (info.fps or info.rate))
    add("%.1f s", info.duration)
    add("orientation %d", info.orientation)
    add("%s", info.icc and "ICC profile")
    return path .. ": " .. table.concat(words, " ")
end

-- The picture, the first frame of a video, and its line; or nil and why there is none.
local function open(path)
    local known, info = pcall(gpu.info, path)
    if known then
        return gpu.load(path, {strict = false}), line(path, info)
    elseif tostring(info):find("gpu.frames reads", 1, true) then
        return gpu.frames(path)(), line(path, gpu.video_info(path))
    end
    return nil, (info.message:gsub("^gpu%.info: ", ""))
end

local function is_text(path)
    local file = io.open(path, "rb")
    local head = file and file:read(4096) or ""
    if file then
        file:close()
    end
    return not head:find("[%z\1-\8\14-\26\28-\31]")
end

-- Shows the files, side by side where there are several. Errors have no position; for a text that is no picture it is what Lua says of it.
function look.run(...)
    local pictures, labels = {}, {...}
    for i, path in ipairs(labels) do
        local picture, text = open(path)
        if not picture then
            error(is_text(path) and i == 1 and select(2, loadfile(path)) or text, 0)
        end
        print(text)
        pictures[i] = picture
    end
    if show.way() ~= "file" then
        gpu.show(pictures, {title = table.concat(labels, ", "), labels = #pictures > 1 and labels or nil, wait = true})
    end
end

return look
