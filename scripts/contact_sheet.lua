-- SPDX-License-Identifier: MIT
-- Many pictures on one sheet, each with its name: a batch of one pipeline, however different their sizes are.
-- Usage: gpuwb scripts/contact_sheet.lua PICTURE ... OUT.png      exit status 1 where one of them could not be read: its place stays empty
local gpu = require "gpuwb"
local arguments = dofile((arg[0]:match("^.*/") or "") .. "arguments.lua")
local letters = require "gpuwb.letters"

local out, paths = arg[#arg], {unpack(arg, 1, #arg - 1)}
if not paths[1] or arg[1] == "--help" then
    io.stderr:write("usage: gpuwb scripts/contact_sheet.lua PICTURE ... OUT.png\n")
    os.exit(1)
end
local W, H, GAP, LINE = 240, 180, 12, 14
local columns = math.min(#paths, math.ceil(math.sqrt(#paths * 1.3)))
local rows = math.ceil(#paths / columns)
local sheet = gpu.mat(columns * (W + GAP) + GAP, rows * (H + LINE + GAP) + GAP, "u8x3", {device = "host", fill = 32})

local fit = gpu.pipe():letterbox(W, H, {value = 56})
local bar = gpu.progress(#paths, "contact sheet")
local failed = 0
for i, path in ipairs(paths) do
    local ok, why = pcall(gpu.scope, function()
        local img, from = arguments.picture(gpu, path)
        img = img:convert("rgb24", {from = from})
        local x, y = GAP + (i - 1) % columns * (W + GAP), GAP + math.floor((i - 1) / columns) * (H + LINE + GAP)
        gpu.copy(sheet:roi(x, y, W, H), fit(img).planes[1])
        letters.draw(sheet, x, y + H + 4, path:match("[^/]+$"):sub(1, W / letters.width), 1, {220, 220, 220})
    end)
    if not ok then
        failed = failed + 1
        io.stderr:write("contact_sheet.lua: ", arguments.text(why), "\n")
    end
    bar:step()
end
arguments.try(gpu.save, sheet, out)
print(("%d pictures in %s%s"):format(#paths - failed, out, failed > 0 and (", %d could not be read"):format(failed) or ""))
if failed > 0 then
    os.exit(1)
end
