-- SPDX-License-Identifier: MIT
-- Where chroma lies: colour edges brought to 4:2:0 with samples sited left, and read back as left and as center. Half a pixel off is a fringe.
-- Usage: gpuwb scripts/siting.lua [OUT.png]
local gpu = require "gpuwb"

local W, H, ZOOM = 48, 32, 6
local card = gpu.image("rgb24", W, H, {range = "full"})
-- stripes and a disc of red on cyan: hard edges in colour, little in brightness
gpu.map("((x < 24 ? (int)(x / 6) % 2 : hypot(x - 36, y - 16) < 9) ? (c == 0 ? 230 : 40) : (c == 0 ? 40 : 170))", {}, {out = card.planes[1]})
local meaning = {matrix = "bt709", range = "limited"}
local function through(written, read)
    local yuv = card:convert("yuv420p", {matrix = meaning.matrix, range = meaning.range, siting = written})
    yuv.siting = read
    return yuv:convert("rgb24"):resize(W * ZOOM, H * ZOOM, "nearest")
end
gpu.show({card:resize(W * ZOOM, H * ZOOM, "nearest"), through("left", "left"), through("left", "center")},
    {labels = {"before", "left, read as left", "left, read as center"}, title = "siting", path = arg and arg[1], wait = true})
