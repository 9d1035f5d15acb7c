-- SPDX-License-Identifier: MIT
-- Any picture to any other format: resized, with a quality.
local here = arg[0]:match("^.*/") or ""
local arguments = dofile(here .. "arguments.lua")
local usage = [[
usage: gpuwb scripts/convert.lua IN… OUT [OPTION ...]    several IN: OUT is a folder; "-" is standard input and output
]] .. arguments.usage .. [[
  --frame N               of a y4m or GIF, from 0 (0); to y4m and yuv all frames go
  --native                a JPEG's planes as they are coded
]]
local gpu = require "gpuwb"

local function fail(text)
    io.stderr:write(text and "convert.lua: " .. text .. "\n" or "", usage)
    os.exit(text and 2 or 0)
end

local values, flags = {frame = true}, {lenient = true, native = true}
for name in pairs(arguments.values) do values[name] = true end
local opts, names = arguments.read(values, flags, fail)
if #names < 2 then
    fail("want at least one file to read and one to write")
end
local plan = arguments.plan(opts, fail)
local out = table.remove(names)
local into = #names > 1 or out:find("/$")
if into then
    out = out:gsub("/+$", "")
    gpu.make_folder(out)
elseif opts.format == nil and not out:find("%.[^./]+$") then
    fail(out == "-" and "standard output has no name to tell the format: give --format" or out .. " has no extension: give --format")
end

-- Reads one file: an object, or a list of frames where the target takes them.
local function read(path, kind)
    local how = {strict = not opts.lenient, frame = arguments.number(opts, "frame", 0, 2 ^ 31, fail)}
    if (kind == "y4m" or kind == "yuv") and not how.frame and (path:find("%.y4m$") or path:find("%.gif$")) then
        local list = {}
        for img in gpu.frames(path, {strict = how.strict}) do
            list[#list + 1] = img
        end
        return list
    end
    how.format = opts.native and "native" or nil
    local obj, warning = gpu.load(path, how)
    if warning then
        io.stderr:write(path, ": ", warning, "\n")
    end
    return {obj}
end

local failed = 0
for _, path in ipairs(names) do
    local target = out
    if into then
        local base = path == "-" and "standard-input" or path:match("([^/]*)$")
        target = out .. "/" .. (opts.format and base:gsub("%.[^.]*$", "") .. "." .. opts.format or base)
    end
    local kind = opts.format or target:match("%.([^./]+)$")
    local ok, err = pcall(function()
        local list, save = read(path, kind), nil
        for i, obj in ipairs(list) do
            list[i], save = plan.make(gpu, obj, kind)
        end
        gpu.save(#list == 1 and list[1] or list, target, save)
        if kind == "yuv" or kind == "raw" then      -- the file itself does not say what is in it
            io.stderr:write(("%s: %d of %s\n"):format(target, #list, tostring(list[1])))
        end
    end)
    if not ok then
        failed = failed + 1
        io.stderr:write("convert.lua: ", arguments.text(err, true), "\n")
    end
end
os.exit(failed > 0 and 1 or 0, true)
