-- SPDX-License-Identifier: MIT
-- Two pictures side by side with their difference, eight times as strong; and the numbers.
-- Usage: gpuwb scripts/compare.lua A B [OUT.png]     without OUT it is shown
local gpu = require "gpuwb"
local arguments = dofile((arg[0]:match("^.*/") or "") .. "arguments.lua")

local function rgb(path)
    local img, from = arguments.try(arguments.picture, gpu, path)
    return img:convert("rgb24", {from = from})
end

if not arg[2] or arg[1] == "--help" then
    io.stderr:write("usage: gpuwb scripts/compare.lua A B [OUT.png]\n")
    os.exit(1)
end
local a, b = rgb(arg[1]), rgb(arg[2])
if a.width ~= b.width or a.height ~= b.height then
    print(("%dx%d and %dx%d: the second is resized"):format(a.width, a.height, b.width, b.height))
    b = b:resize(a.width, a.height, "lanczos3")
end
print(gpu.diff(a, b))
local difference = gpu.map("8 * fabs(a - b)", {a = a.planes[1], b = b.planes[1]}, "u8")
arguments.try(gpu.show, {a, b, difference}, {labels = {arg[1], arg[2], "8 x difference"}, path = arg[3], wait = true})
