-- SPDX-License-Identifier: MIT
-- The histogram of a picture: red, green and blue as planes of one image, which mix where they overlap.
-- Usage: gpuwb scripts/histogram.lua PICTURE [OUT.png]
local gpu = require "gpuwb"
local arguments = dofile((arg[0]:match("^.*/") or "") .. "arguments.lua")

if not arg[1] or arg[1] == "--help" then
    io.stderr:write("usage: gpuwb scripts/histogram.lua PICTURE [OUT.png]\n")
    os.exit(1)
end

local k = gpu.kernel [=[
__global__ void count(gwb_view plane, unsigned *counts)
{
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < plane.width && y < plane.height)
        atomicAdd(&counts[plane.data[y * plane.step + x]], 1u);
}]=]

local img, from = arguments.try(arguments.picture, gpu, arg[1])
local planes = img:convert("rgbp", {from = from}).planes
local plot = gpu.image("rgbp", 768, 300)
local most, counts = 0, {}
for c, plane in ipairs(planes) do
    local n = gpu.mat(256, 1, "u32", {packed = true, fill = 0})
    k.count {over = plane, args = {plane, n}}
    counts[c] = n:totable()[1]
    for level = 2, 255 do       -- the ends, where clipped pixels gather, do not set the scale
        most = math.max(most, counts[c][level])
    end
end
for c = 1, 3 do
    plot.planes[c]:fill(24)
    for level = 0, 255 do
        local height = math.min(300, math.floor(counts[c][level + 1] / most * 290 + 0.5))
        plot.planes[c]:roi(3 * level, 300 - height, 3, height):fill(220)
    end
end
arguments.try(gpu.show, plot, {title = "histogram of " .. arg[1], path = arg[2], wait = true})
