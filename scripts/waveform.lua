-- SPDX-License-Identifier: MIT
-- The waveform of a picture, as on a video engineer's monitor: below each column of the picture, how often each brightness stands in it.
-- A kernel counts with atomics; the same on a GPU and on the host.
-- Usage: gpuwb scripts/waveform.lua PICTURE [OUT.png]
local gpu = require "gpuwb"
local arguments = dofile((arg[0]:match("^.*/") or "") .. "arguments.lua")

if not arg[1] or arg[1] == "--help" then
    io.stderr:write("usage: gpuwb scripts/waveform.lua PICTURE [OUT.png]\n")
    os.exit(1)
end

local k = gpu.kernel [[
__global__ void count(gwb_view luma, unsigned *counts, int columns)
{
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < luma.width && y < luma.height) {
        const int level = luma.data[y * luma.step + x], column = (int)((long long)x * columns / luma.width);
        atomicAdd(&counts[(255 - level) * columns + column], 1u);
    }
}]]

local img, yuv = arguments.try(arguments.picture, gpu, arg[1])
local luma = yuv and img.planes[1] or img:convert("gray", {matrix = "bt709", range = "full"}).planes[1]
if luma.dtype ~= "u8" then
    luma = luma:cast("u8", {scale = 1 / 257})
end
local COLUMNS = math.min(luma.width, 640)
local counts = gpu.mat(COLUMNS, 256, "u32", {packed = true, fill = 0})
k.count {over = luma, args = {luma, counts, COLUMNS}}
-- the share of a column's pixels, brightened so that single ones can be seen
local trace = gpu.map("330 * pow(n * w / h, 0.3)", {n = counts, w = COLUMNS / luma.width, h = luma.height}, "u8")
local view = gpu.mat(COLUMNS, 256, "u8x3", {fill = 0})
local green = gpu.merge {gpu.map("t * 0.55", {t = trace}, "u8"), trace, gpu.map("t * 0.65", {t = trace}, "u8")}
gpu.copy(view, green)
for _, level in ipairs(yuv and {16, 235} or {0, 255}) do    -- black and white
    view:row(255 - level):fill {90, 60, 20}
end
arguments.try(gpu.show, view:resize(640, 256), {title = "waveform of " .. arg[1], path = arg[2], wait = true})
