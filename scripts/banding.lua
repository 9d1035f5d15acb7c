-- SPDX-License-Identifier: MIT
-- What dither is for: a dark ramp of 16 bits, brought to 8 bits in three ways and then brightened, so that the steps can be seen.
-- Usage: gpuwb scripts/banding.lua [OUT.png]
local gpu = require "gpuwb"

local W, H, LEVELS = 480, 120, 12       -- the ramp climbs this many 8-bit levels
local ramp = gpu.image("rgb48le", W, H, {range = "full"})
gpu.map("257.0 * levels * (x + 0.5) / w", {levels = LEVELS, w = W}, {out = ramp.planes[1]})
local shown, labels = {}, {}
for i, dither in ipairs {"none", "ordered", "blue-noise"} do
    local eight = ramp:convert("rgb24", {dither = dither})
    shown[i], labels[i] = eight:mul(255 / LEVELS), "dither " .. dither
end
gpu.show(shown, {labels = labels, title = "banding", path = arg and arg[1], wait = true})
