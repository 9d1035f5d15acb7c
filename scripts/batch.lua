-- SPDX-License-Identifier: MIT
-- A folder of pictures to another: read ahead and written behind on threads, each file whole or not there, what failed named at the end.
local here = arg[0]:match("^.*/") or ""
local arguments = dofile(here .. "arguments.lua")
local usage = [[
usage: gpuwb scripts/batch.lua --in DIR --out DIR [OPTION ...]     with the folders in DIR; exit status 0: all done, 1: some failed, 2: wrong options
]] .. arguments.usage .. [[
  --threads N             that read, and that write (as many as processors)
  --resume                leaves alone what is in the target already: a file there is whole
  --isolated              decodes each file in a process without rights
  --quiet                 no progress bar, and no summary where all went well
  under a launcher (Slurm, Open MPI, PMI) each process does its share
Of a y4m or GIF the first frame is taken. What is not written (GIF, PSD, npz, y4m's first frame) becomes PNG, unless --format tells.
]]
local gpu = require "gpuwb"

local function fail(text)
    io.stderr:write(text and "batch.lua: " .. text .. "\n" or "", usage)
    os.exit(text and 2 or 0)
end

local values, flags = {["in"] = true, out = true}, {lenient = true, resume = true, isolated = true, quiet = true}
for name in pairs(arguments.values) do values[name] = true end
local opts, rest = arguments.read(values, flags, fail)
if rest[1] then
    fail("what is " .. rest[1] .. "?")
elseif not opts["in"] or not opts.out then
    fail("want --in and --out")
end
local plan = arguments.plan(opts, fail)
local source, target = opts["in"]:gsub("(.)/+$", "%1"), opts.out:gsub("(.)/+$", "%1")

local written = {}
for kind in ("png jpg jpeg bmp tga hdr qoi pnm pgm ppm pam pbm pfm npy"):gmatch("%S+") do
    written[kind] = true
end

local listed, paths = pcall(gpu.list, source, {deep = true})
if not listed then
    fail(tostring(paths.message or paths))
end
local ok, message = pcall(gpu.make_folder, target)
if not ok then
    fail(tostring(message.message or message))
end

-- Where each file goes. Two that would have one name keep their old extension in front of the new one.
local targets, taken, list = {}, {}, {}
for _, path in ipairs(paths) do
    local name = path:sub(#source + 2)
    local stem, extension = name:match("^(.*[^/])%.([^./]+)$")
    stem, extension = stem or name, (extension or ""):lower()
    local new = opts.format or (written[extension] and extension or "png")
    local to = target .. "/" .. stem .. "." .. new
    if taken[to] then
        to = target .. "/" .. name .. "." .. new
    end
    taken[to] = true
    if path:sub(1, #target + 1) ~= target .. "/" then       -- the target may lie inside the source
        targets[path] = {path = to, kind = new}
        list[#list + 1] = path
    end
end
if gpu.shard then
    list = gpu.shard(list)
end
local todo, skipped = {}, 0
for _, path in ipairs(list) do
    local there = opts.resume and io.open(targets[path].path, "rb")
    if there then
        there:close()
        skipped = skipped + 1
    else
        todo[#todo + 1] = path
    end
end

local failures, warnings, origin = {}, {}, {}
local function failed(path, err)
    failures[#failures + 1] = {path = path, text = arguments.text(err, true)}
end

local bar = not opts.quiet and gpu.progress and gpu.progress(#todo, "batch")
local reader = gpu.files(todo, {threads = plan.threads, errors = "skip", strict = not opts.lenient, isolated = opts.isolated})
local writer = gpu.writer {threads = plan.threads}
local seen, folders = 0, {}
local function told()       -- steps of the bar for files that could not be read
    if bar then
        bar:step(#reader.failed + seen - bar.done)
    end
end

for img, path, _, warning in reader do
    local to = targets[path]
    local done, err = pcall(function()
        local folder = to.path:match("^(.*)/")
        if not folders[folder] then
            folders[folder] = gpu.make_folder(folder)
        end
        local fit, save = plan.make(gpu, img, to.kind)
        origin[to.path] = path
        writer:save(fit, to.path, save)
    end)
    if not done then
        failed(path, err)
    elseif warning then
        warnings[#warnings + 1] = path .. ": " .. warning
    end
    seen = seen + 1
    told()
end
for _, f in ipairs(writer:close()) do
    failed(origin[f.path] or f.path, f.error)
end
for _, f in ipairs(reader.failed) do
    failed(f.path, f.error)
end
if bar then
    told()
    bar:close()
end

table.sort(failures, function(a, b) return a.path < b.path end)
if #failures > 0 or not opts.quiet then
    local err = io.stderr
    for _, text in ipairs(warnings) do
        err:write("warning: ", text, "\n")
    end
    for _, f in ipairs(failures) do
        local text = f.text:gsub("^[%a.:]+: ", "")
        err:write("failed: ", text:find(f.path, 1, true) and text or f.path .. ": " .. text, "\n")
    end
    err:write(("%d written, %d left alone, %d failed\n"):format(#todo - #failures, skipped, #failures))
end
os.exit(#failures > 0 and 1 or 0, true)
