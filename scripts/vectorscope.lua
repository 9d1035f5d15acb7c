-- SPDX-License-Identifier: MIT
-- The vectorscope of a picture: how often each pair of U (to the right) and V (upwards) stands in it, on rings of saturation, with marks where the
-- six pure colours of a test card at 75 % lie.
-- Usage: gpuwb scripts/vectorscope.lua PICTURE [OUT.png]
local gpu = require "gpuwb"
local arguments = dofile((arg[0]:match("^.*/") or "") .. "arguments.lua")

if not arg[1] or arg[1] == "--help" then
    io.stderr:write("usage: gpuwb scripts/vectorscope.lua PICTURE [OUT.png]\n")
    os.exit(1)
end

local k = gpu.kernel [[
__global__ void count(gwb_view u, gwb_view v, unsigned *counts)
{
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < u.width && y < u.height) {
        const int right = u.data[y * u.step + x], up = v.data[y * v.step + x];
        atomicAdd(&counts[(255 - up) * 256 + right], 1u);
    }
}]]

local img, from = arguments.try(arguments.picture, gpu, arg[1])
local yuv = img:convert("yuv444p", {from = from, to = {matrix = "bt601", range = "limited"}})
local u, v = yuv.planes[2], yuv.planes[3]
local counts = gpu.mat(256, 256, "u32", {packed = true, fill = 0})
k.count {over = u, args = {u, v, counts}}

-- x and y are the pixel's place: rings at 25, 50, 75 and 100 % of the largest chroma, and the axes
local light = gpu.map("255 * pow(n / all, 0.13)", {n = counts, all = u.width * u.height}, "f32")
local from_middle = "hypot(x - 128, y - 127)"
local grid = "(x == 128 || y == 127 || R < 114 && fabs(fmod(R + 0.5, 28.0) - 0.5) < 0.5 ? 50 : 12)"
local scope = gpu.map("fmax(n * (c == 0 ? 0.8 : c == 1 ? 1.0 : 0.9), " .. grid:gsub("R", from_middle) .. ")", {n = gpu.merge {light, light, light}}, "u8")
local colors = gpu.image("rgb24", 6, 1)
colors.planes[1]:upload {191, 0, 0, 191, 191, 0, 0, 191, 0, 0, 191, 191, 0, 0, 191, 191, 0, 191}
local marks = colors:convert("yuv444p", {matrix = "bt601", range = "limited"})
for i = 0, 5 do
    local right, up = marks.planes[2]:at(i, 0), marks.planes[3]:at(i, 0)
    local color = {colors.planes[1]:at(i, 0)}
    scope:roi(right - 4, 255 - up - 4, 9, 1):fill(color)
    scope:roi(right - 4, 255 - up + 4, 9, 1):fill(color)
    scope:roi(right - 4, 255 - up - 4, 1, 9):fill(color)
    scope:roi(right + 4, 255 - up - 4, 1, 9):fill(color)
end
arguments.try(gpu.show, scope:resize(512, 512, "nearest"), {title = "vectorscope of " .. arg[1], path = arg[2], wait = true})
