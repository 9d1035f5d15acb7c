-- SPDX-License-Identifier: MIT
-- A picture as a detector takes it: fitted into a square with the proportions kept, normalised, planes of f32; and the way of its boxes back.
-- Usage: gpuwb scripts/letterbox.lua PICTURE [OUT.png]     OUT: the square, as the network sees it
local gpu = require "gpuwb"
local arguments = dofile((arg[0]:match("^.*/") or "") .. "arguments.lua")

local SIZE = 640
if not arg[1] or arg[1] == "--help" then
    io.stderr:write("usage: gpuwb scripts/letterbox.lua PICTURE [OUT.png]\n")
    os.exit(1)
end
local img = arguments.try(arguments.picture, gpu, arg[1])
local square = gpu.pipe():letterbox(SIZE, SIZE, {value = 114})
local input = square:normalize {mean = {0.485, 0.456, 0.406}, std = {0.229, 0.224, 0.225}, scale = 1 / 255}:to("nchw", "f32")
local tensor = input(img)
print(tensor)
print(input:plan(img))

-- a box that the network found, in pixels of the square, is in the picture:
local scale = math.min(SIZE / img.width, SIZE / img.height)
local left, top = (SIZE - img.width * scale) / 2, (SIZE - img.height * scale) / 2
local function back(x, y) return (x - left) / scale, (y - top) / scale end
print(("(%d, %d) of the square is (%.1f, %.1f) of the picture"):format(SIZE / 2, SIZE / 2, back(SIZE / 2, SIZE / 2)))
arguments.try(gpu.show, square(img), {title = "letterbox", path = arg[2], wait = true})
