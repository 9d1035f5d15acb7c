-- SPDX-License-Identifier: MIT
-- The pixel formats as a table in Markdown, or every conversion between them on every device.
--   gpuwb scripts/formats.lua               prints the table
--   gpuwb scripts/formats.lua README.md     puts it into the file, between the lines <!-- formats --> and <!-- /formats -->
--   gpuwb scripts/formats.lua --pairs       converts every format to every other, says how long that takes, and that each came out
local gpu = require "gpuwb"

local formats = {}

-- "R8 G8 B8"-like names are in the format's own name; here: its planes, as the mats that hold them.
local function planes_of(f)
    local list = {}
    for i = 1, f.planes do
        local p = f:plane(i, 48, 48)
        local across, down = 48 / p.width, 48 / p.height
        local where = f.group > 1 and (" for %d pixels"):format(f.group) or (across > 1 or down > 1) and (" for %dx%d"):format(across, down) or ""
        local text = p.type .. where
        local last = list[#list]
        if last and last.text == text then
            last.count = last.count + 1
        else
            list[#list + 1] = {text = text, count = 1}
        end
    end
    for i, item in ipairs(list) do
        list[i] = (item.count > 1 and item.count .. " x " or "") .. item.text
    end
    return table.concat(list, ", ")
end

--- The table, as text.
function formats.table()
    local names = gpu.formats()
    local others = {}
    for _, alias in ipairs(select(2, gpu.formats())) do
        others[alias[2]] = (others[alias[2]] and others[alias[2]] .. " " or "") .. alias[1]
    end
    local lines = {
        "| format | what | bits | planes | bytes of 1920x1080 | of 5x3 | other names |", "|---|---|---|---|---|---|---|",
    }
    local sources = 0
    for _, name in ipairs(names) do
        local f = gpu.format(name)
        sources = sources + (f.model == "bayer" and 1 or 0)
        lines[#lines + 1] = ("| `%s` | %s%s | %d%s | %s | %d | %d | %s |"):format(name, f.model, f.alpha and " + alpha" or "", f.depth,
            f.type:find("^f") and " float" or "", planes_of(f), f:bytes(1920, 1080), f:bytes(5, 3), others[name] or "")
    end
    lines[#lines + 1] = ""
    lines[#lines + 1] = ("%d formats; each of them converts to each of the %d that are no mosaic, on every device: %d pairs."):format(#names,
        #names - sources, #names * (#names - sources))
    return table.concat(lines, "\n") .. "\n"
end

local first_mark, last_mark = "<!-- formats -->\n", "<!-- /formats -->"

--- A text with the table between its marks in place of what stood there; nil where it has no marks.
function formats.insert(text)
    local _, first = text:find(first_mark, 1, true)
    local last = first and text:find(last_mark, first, true)
    return last and text:sub(1, first) .. formats.table() .. text:sub(last)
end

-- Every pair on one device; returns pairs.
function formats.pairs(device, width, height)
    local done = 0
    gpu.on(device, function()
        for _, from in ipairs((gpu.formats())) do
            local f = gpu.format(from)
            local src = gpu.image(from, width, height, {matrix = f.model ~= "rgb" and "bt709" or nil, range = f.model == "yuv" and "limited" or nil})
            for _, m in ipairs(src.planes) do
                m:fill(0)
            end
            for _, to in ipairs((gpu.formats())) do
                if gpu.format(to).model ~= "bayer" then
                    local range = gpu.format(to).model == "yuv" and "limited" or nil
                    src:convert(to, {to = {matrix = gpu.format(to).model ~= "rgb" and "bt709" or nil, range = range}})
                    done = done + 1
                end
            end
        end
        gpu.synchronize()
    end)
    return done
end

if arg and arg[0] and arg[0]:find("formats%.lua$") then
    if arg[1] == "--pairs" then
        for _, d in ipairs(gpu.devices()) do
            local start = os.clock()
            local done = formats.pairs(d.name, 321, 241)
            print(("%s: %d pairs at 321x241 in %.1f s of processor time"):format(d.name, done, os.clock() - start))
        end
    elseif arg[1] then
        local file = assert(io.open(arg[1], "rb"))
        local text = file:read("*a")
        file:close()
        local new = assert(formats.insert(text), arg[1] .. " has no lines <!-- formats --> and <!-- /formats -->")
        if new ~= text then
            file = assert(io.open(arg[1], "wb"))
            assert(file:write(new))
            assert(file:close())
        end
    else
        io.write(formats.table())
    end
end

return formats
