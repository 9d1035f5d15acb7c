-- SPDX-License-Identifier: MIT
-- The reference texts as a LuaCATS file, by which editors with a Lua language server complete and check; scripts/docs.lua takes it by dofile.
-- Types are read from how the texts write a call: the names of its arguments, the keys of its tables, what stands behind "->".
local help = require "gpuwb.help"

local luacats = {}

-- ---- types

local by_type = {
    integer = "width height x y n w h size offset step pass k i left top right bottom threads prefetch ahead level quality priority index memory units bits " ..
        "used cached peak limit free total frame frames count samples nan bytes width_pixels pixels depth elem_size launches bytes_read bytes_written done",
    boolean = "strict orient packed sync timing shared raw readonly deep isolated blocking versioned view alpha swapped wait ordered libraries",
    number = "ms scale max mean psnr fps duration rotation timeout",
    string = "format path name type device transfer primaries matrix range siting curve model label source where kind handle errors what subsampling " ..
        "codec container rate png jpg result chroma expr layout title",
    ["gpuwb.mat"] = "m m1", ["gpuwb.image"] = "img", ["gpuwb.stream"] = "stream", ["gpuwb.event"] = "event e1 e2",
    ["gpuwb.mat|gpuwb.image"] = "a b obj", ["gpuwb.mat|gpuwb.image|ffi.cdata*"] = "dst", ["function"] = "fn", table = "list inputs labels stages params",
    ["gpuwb.mat[]"] = "planes",
}
local types = {}
for type, names in pairs(by_type) do
    for name in names:gmatch("%S+") do
        types[name] = type
    end
end

-- Where the name alone says too little: by function, then by argument, key or "return".
local special = {
    ["gpu.copy2d"] = {dst = "gpuwb.mat|ffi.cdata*", src = "gpuwb.mat|ffi.cdata*"},
    ["gpu.format"] = {["return"] = "gpuwb.format", range = "string?"},
    ["gpu.from_ipc"] = {bytes = "string|integer"}, ["gpu.decode"] = {bytes = "string|ffi.cdata*", ["return"] = "gpuwb.image|gpuwb.mat"},
    ["gpu.list"] = {what = "string|table"}, ["gpu.files"] = {what = "string|table"}, ["gpu.help"] = {what = "string|function"},
    ["gpu.save"] = {obj = "gpuwb.mat|gpuwb.image|table", rate = "integer|string"},
    ["gpu.frames"] = {["return"] = "gpuwb.reader"}, ["gpu.video_writer"] = {["return"] = "gpuwb.video", fps = "number|string"},
    ["gpu.fit"] = {obj = "gpuwb.mat|gpuwb.image|table", background = "string|number[]"},
    ["gpu.who"] = {bytes = "integer"}, ["gpu.info"] = {bytes = "string|ffi.cdata*"}, ["gpu.show"] = {range = "number[]"},
    ["gpu.why_no_cuda"] = {["return"] = "string?"}, ["gpu.time"] = {["return"] = "{device: table, wall: table, n: integer}"},
}

local split, fields_of

-- The type of an argument or a key: by what the text gives as its values, else by its name.
local function type_of(fn, name, value)
    if special[fn] and special[fn][name] then
        return special[fn][name]
    elseif value and value:find('^"[^|]*|') then
        return (value:gsub("%s", ""))
    elseif value and value:find("^{%a+=") then
        return fields_of(fn, value, "")
    elseif value and value:find("^{") then
        return "table"
    elseif value == "true" or value == "false" then
        return "boolean"
    elseif value and tonumber(value) then
        return "number"
    end
    return types[name] or "any"
end

-- "{width=, first={x=}, …}" as a table type; mark: "?" where each may be left out.
function fields_of(fn, text, mark)
    local list = {}
    for _, item in ipairs(split(text:sub(2, -2))) do
        local key, value = item.text:match("^([%a_][%w_]*)=(.*)$")
        local other = item.text:match("^…as ([%w_.]+)…$")
        if other then
            for options in table.concat(select(2, help.entries())[other].text, " "):gmatch("%b{}") do
                local more = options:find("=", 1, true) and fields_of(fn, options, mark)
                if more then
                    list[#list + 1] = more:sub(2, -2)
                    break
                end
            end
        elseif key then
            list[#list + 1] = ("%s%s: %s"):format(key, mark, type_of(fn, key, value ~= "" and value or nil))
        end
    end
    return #list > 0 and "{" .. table.concat(list, ", ") .. "}" or "table"
end

-- ---- calls

-- The arguments of a call as texts: "x", "[stream]" …, split at commas that stand in no bracket but "[".
function split(list)
    local items, item, depth, optional = {}, "", 0, 0
    local function flush()
        local text = item:match("^%s*(.-)%s*$")
        if text ~= "" then
            items[#items + 1] = {text = text, optional = optional > 0}
        end
        item = ""
    end
    for char in list:gmatch("[%z\1-\127\194-\244][\128-\191]*") do
        if depth == 0 and char == "[" then
            flush()
            optional = optional + 1
        elseif depth == 0 and char == "]" then
            flush()
            optional = optional - 1
        elseif depth == 0 and char == "," then
            flush()
        else
            depth = depth + ((char == "{" or char == "(") and 1 or (char == "}" or char == ")") and -1 or 0)
            item = item .. char
        end
    end
    flush()
    return items
end

local function param(fn, item)
    local text, optional = item.text, item.optional
    local name = text:match("^[%a_][%w_]*")
    if text == "..." then
        return {name = "...", type = "any"}
    elseif text:find(" | {", 1, true) then      -- obj | {obj, …}, title | {title=, …}
        local one = type_of(fn, name)
        local list = text:find("=", 1, true) and "table" or "(" .. one .. ")[]"
        return {name = name == "title" and "title_or_opts" or name, type = one .. "|" .. list, optional = optional}
    elseif text:find("^{") then
        local list = text:find("^{%a[%w_]*,") ~= nil
        return {name = list and "list" or "opts", type = list and "table" or fields_of(fn, text, "?"), optional = optional, table = not list}
    elseif text:find('^"') then
        local choices = text:find("|", 1, true)
        local any = not choices or text:find("cuda:1", 1, true)
        return {name = choices and "choice" or "device", type = any and "string" or text:gsub("%s", ""), optional = optional}
    elseif text:find("|", 1, true) then
        local list = {}
        for one in text:gmatch("[%a_]+") do
            list[#list + 1] = type_of(fn, one)
        end
        return {name = text:gsub(" | ", "_or_"), type = table.concat(list, "|"), optional = optional}
    end
    local opts = name == "opts"
    return {name = name, type = opts and "table" or type_of(fn, name, text:match("=(.+)$")), optional = optional, table = opts}
end

-- Words behind "->", without articles, and the classes that they are.
local returns = {
    mat = "gpuwb.mat", view = "gpuwb.mat", m = "gpuwb.mat", image = "gpuwb.image", SDR = "gpuwb.image", i = "gpuwb.image", stream = "gpuwb.stream",
    s = "gpuwb.stream", event = "gpuwb.event", k = "gpuwb.kernel", pipeline = "gpuwb.pipe", empty = "gpuwb.pipe", bar = "gpuwb.progress",
    progress = "gpuwb.progress", v = "gpuwb.view", graph = "gpuwb.graph", writer = "gpuwb.writer", w = "gpuwb.writer", out = "gpuwb.video",
    list = "table", string = "string",
    text = "string", name = "string", handle = "string", path = "string", mode = "string", milliseconds = "number", number = "number", bytes = "integer",
    ["true"] = "boolean",
}
local lists = {{"^list of the names", "string[]"}, {"^sorted list of paths", "string[]"}, {"^list of views", "gpuwb.mat[]"}, {"^list of single", "gpuwb.mat[]"}}

-- What a text behind a call says that it returns; nil for nothing.
local function result_of(fn, behind)
    local text = behind:match("^[^:.;]-%-> (.*)$")
    if special[fn] and special[fn]["return"] then
        return special[fn]["return"]
    elseif not text then
        return nil
    end
    text = text:gsub("^an? ", ""):gsub("^the ", ""):gsub("^new ", ""):gsub("^one ", "")
    for _, one in ipairs(lists) do
        if text:find(one[1]) then
            return one[2]
        end
    end
    local fields = text:match("^%b{}") or text:match("^list of[ the live mats,]* (%b{})")
    if fields and not fields:find(" %*") then
        return fields_of(fn, fields, "") .. (text:find("^list") and "[]" or "")
    elseif fn:find("show") or fn:find("^view:") and text:find("^v") then
        return "gpuwb.view"
    end
    local result = returns[text:match("^%a+")] or "any"
    return result .. (text:find("^image, or mat") and "|gpuwb.mat" or text:find("^text, table") and ", table" or "")
end

-- The parameters of a name in its text, and what it returns; nil for what is no function. Of several ways to call it the longest one counts; what the
-- shortest one lacks may be left out.
local function signature(entry, name)
    local text, best, least, result = table.concat(entry.text, " "), nil, math.huge, nil
    local before, rest = name:match("^([%a_]+)[.:](.*)$")
    local pattern = before == "gpu" and "gpu%." .. rest or "%f[%a]%a+:" .. rest
    for call, after in text:gmatch("()" .. pattern .. "%f[^%w_]()") do
        local args = text:match("^%b()", after) or text:match("^%b{}", after)
        local follows = args and text:sub(after + #args)
        if args and (call == 1 or text:sub(call - 2, call - 1) == "; " or follows:find("^ %->") or follows:find("^:") or not best) then
            local items, required = args:find("^{") and {{text = args}} or split(args:sub(2, -2)), 0
            for _, item in ipairs(items) do
                required = required + (item.optional and 0 or 1)
            end
            best = (not best or #items > #best) and items or best
            least = math.min(least, required)
            result = result or result_of(name, follows)
        end
    end
    if not best then
        return nil
    end
    local params, names = {}, {}
    for i, item in ipairs(best) do
        local p = param(name, item)
        p.optional = p.optional or i > least
        p.name = names[p.name] and p.name .. "_" .. i or p.name
        names[p.name] = true
        params[i] = p
    end
    local last = params[#params]
    for _, p in ipairs(params) do
        if last.table and p.optional and not p.table and p.name ~= "..." and p.type ~= "any" then
            p.type = p.type .. "|table"     -- the options may stand in its place
        end
    end
    return params, result
end

local stage_types = {int = "integer", size = "integer", bool = "boolean", number = "number",
                     color = "number|number[]", matrix9 = "number[]", matrix12 = "table", list = "table|gpuwb.mat", mat = "gpuwb.mat",
                     image = "gpuwb.image|gpuwb.mat", format = "string", type = "string", text = "string",
                     expression = "string|string[]"}

-- The same of a stage: in order, or by name in a table that comes last.
local function stage_signature(row)
    local params = {}
    for i, p in ipairs(row.params) do
        local type = stage_types[p.kind] or ('"%s"'):format((p.kind:gsub("|", '"|"')))
        type = type:gsub('"(%d+)"', "%1")
        if p.default == "auto" or p.default == "max" or p.default == "black" then
            type = type .. ('|"%s"'):format(p.default)
        end
        type = type:find("table", 1, true) and type or type .. "|table"
        params[i] = {name = p.name, type = type, optional = i > 1 or p.default ~= nil}
    end
    params[#params + 1] = {name = "opts", type = "table", optional = true}
    return params
end

-- ---- the file

local function comment(entry)
    local lines = {}
    for _, line in ipairs(entry.text) do
        lines[#lines + 1] = "---" .. line
    end
    if entry.example then
        lines[#lines + 1] = "---```lua"
        for _, line in ipairs(entry.example) do
            lines[#lines + 1] = "---" .. line
        end
        lines[#lines + 1] = "---```"
    end
    return table.concat(lines, "\n")
end

local function classes(out, entries)
    local fields = {}
    for _, entry in ipairs(entries) do
        if entry.kind then
            fields[entry.kind:gsub("progress bar", "progress")] = entry.fields
        elseif entry.names[1] == "gpu.format" then
            fields.format = {}
            local text = table.concat(entry.text, " "):match("%-> (%b{})")
            for key, type in fields_of("gpu.format", text, ""):sub(2, -2):gmatch("([%w_]+): ([^,]+)") do
                table.insert(fields.format, {name = key, type = type, text = ""})
            end
        end
    end
    for _, kind in ipairs {"mat", "image", "stream", "event", "pipe", "kernel", "format", "progress", "view", "graph", "writer", "video", "reader"} do
        out[#out + 1] = ("---@class gpuwb.%s"):format(kind)
        for _, f in ipairs(fields[kind] or {}) do
            out[#out + 1] = ("---@field %s %s %s"):format(f.name, f.type, f.text)
        end
        if kind == "pipe" then
            out[#out + 1] = "---@overload fun(src: gpuwb.image|gpuwb.mat, opts?: {out?: any, stream?: gpuwb.stream}): any"
        elseif kind == "reader" then
            out[#out + 1] = "---@field close fun(self)\n---@overload fun(): gpuwb.image, integer"
        elseif kind == "kernel" then
            out[#out + 1] = "---@field [string] fun(launch: {grid?: any, block?: any, over?: any, shared?: integer, stream?: gpuwb.stream, args?: table})"
        end
        out[#out + 1] = ("local %s = {}\n"):format(kind)
    end
end

-- The whole text.
function luacats.text()
    local out, seen, entries = {"-- SPDX-License-Identifier: MIT", "-- Written by scripts/docs.lua.", "---@meta gpuwb", ""}, {}, help.entries()
    classes(out, entries)
    out[#out + 1] = "---@class gpuwb\n---@field version string\ngpu = {}\n"
    for _, entry in ipairs(entries) do
        for _, name in ipairs(entry.names) do
            local before, rest = name:match("^([%a_]+)[.:](.*)$")
            local params, result
            if entry.stage then
                params, result = stage_signature(entry.stage), "gpuwb." .. before
            else
                params, result = signature(entry, name)
            end
            if params and rest ~= "__call" and not seen[name] then
                seen[name] = true
                local names = {}
                out[#out + 1] = comment(entry)
                for i, p in ipairs(params) do
                    names[i] = p.name
                    out[#out + 1] = p.name == "..." and "---@param ... any" or ("---@param %s%s %s"):format(p.name, p.optional and "?" or "", p.type)
                end
                if result then
                    out[#out + 1] = "---@return " .. result
                end
                out[#out + 1] = ("function %s%s%s(%s) end\n"):format(before, before == "gpu" and "." or ":", rest, table.concat(names, ", "))
            end
        end
    end
    out[#out + 1] = "return gpu\n"
    return table.concat(out, "\n")
end

return luacats
