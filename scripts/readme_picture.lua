-- SPDX-License-Identifier: MIT
-- The README's picture: a 4:2:0 frame, its planes, and what a waveform and a vectorscope show of it.
-- Usage: gpuwb scripts/readme_picture.lua [OUT.png]     default scripts/readme.png
local gpu = require "gpuwb"
local here, files = arg[0]:match("^(.*/)") or "./", {}
local card = dofile(here .. "testcard.lua")

local frame = card.frame(600, 400):planes("yuv420p", 600, 400, card.tags)
for i, script in ipairs {"waveform", "vectorscope"} do
    local input = os.tmpname()
    files[i] = os.tmpname()
    frame:convert("rgb24"):save(input, {format = "png"})
    local chunk = assert(loadfile(here .. script .. ".lua"))
    setfenv(chunk, setmetatable({arg = {input, files[i] .. ".png"}}, {__index = _G}))()
    os.remove(input)
end
local wave, scope = gpu.load(files[1] .. ".png"), gpu.load(files[2] .. ".png")
for _, file in ipairs(files) do
    os.remove(file)
    os.remove(file .. ".png")
end
gpu.show({frame:convert("rgb24"):resize(300, 200), frame.planes[1]:resize(300, 200), frame.planes[2]:resize(150, 100), frame.planes[3]:resize(150, 100),
    wave:resize(300, 200), scope:resize(200, 200)}, {labels = {"yuv420p, 600x400", "Y", "U", "V", "waveform", "vectorscope"},
    path = arg[1] or here .. "readme.png"})
