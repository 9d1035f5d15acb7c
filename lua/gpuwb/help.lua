-- SPDX-License-Identifier: MIT
-- The reference text: the comments that begin with three dashes, as they stand beside the functions in the program's own Lua files, and the stage table.
-- The prompt's ?name, gpu.help and scripts/docs.lua (reference page, LuaCATS) read it here.
local check = require "gpuwb.check"
local core = require "gpuwb.core"
local posix = require "gpuwb.posix"

local help = {public = {}}

-- What stands before a method's name in the texts.
local kinds = {m = "mat", i = "image", s = "stream", e = "event", p = "pipe", k = "kernel", f = "format", bar = "progress", v = "view", graph = "graph",
               w = "writer", out = "video"}

-- The modules that a script requires, by the name that the texts give them.
local modules = {py = "python"}
for _, name in ipairs {"npp", "nvjpeg", "cublas", "cufft", "curand", "nvtx", "nvml"} do
    modules[name] = name
end

-- The tables of methods by kind, and what the texts say of a kind as a whole.
function help.methods()
    local stream = require "gpuwb.stream"
    return {
        mat = require("gpuwb.mat").methods, image = require("gpuwb.image").methods, stream = stream.methods, event = stream.event_methods,
        pipe = require("gpuwb.pipe").methods, kernel = require("gpuwb.kernel").methods, format = require("gpuwb.format").methods,
        progress = require("gpuwb.batch").methods, view = require("gpuwb.show").methods, graph = require("gpuwb.graph").__index,
        writer = require("gpuwb.many").writer, video = require("gpuwb.video").writer,
    }
end

-- ---- reading the texts

-- "m:roi" -> "mat:roi"; nil for what is no name of this interface.
local function full_name(before, separator, name)
    if separator == "." and (before == "gpu" or modules[before]) then
        return before .. "." .. name
    end
    return separator == ":" and kinds[before] and kinds[before] .. ":" .. name or nil
end

-- The names whose text a first line is: "m:save(path), i:save(path): …", "e:query() -> …".
local function names_of(line)
    local names = {}
    if line:find("^p%(") then
        return {"pipe:__call"}
    end
    for gap, before, separator, name, behind in ("\1" .. line):gmatch("([\1.,;])%s*(%a+)([.:])([%a_][%w_]*)%f[^%w_](.)") do
        local full = (gap == "\1" or behind:find("[({]")) and full_name(before, separator, name)
        if full and behind:find("[({:]") then
            local known = false
            for _, one in ipairs(names) do
                known = known or one == full
            end
            names[#names + 1] = not known and full or nil
        end
    end
    return names
end

-- A comment's lines: {names=, text= lines, example= lines or nil, fields= list or nil, kind= of the fields, file=, line=}.
local function read_block(lines, file, number)
    local entry = {names = names_of(lines[1]), text = {}, file = file, line = number}
    entry.kind = lines[1]:match("^Fields of an? ([%a ]+)[,.]")
    for _, line in ipairs(lines) do
        local name, kind, text = line:match("^@field (%S+) (%S+) (.*)$")
        if name then
            entry.fields = entry.fields or {}
            table.insert(entry.fields, {name = name, type = kind, text = text})
        elseif line == "@example" then
            entry.example = {}
        else
            table.insert(entry.example or entry.text, line)
        end
    end
    return entry
end

local function read_file(file, list)
    local block, begins, number = nil, nil, 0
    for line in (core.embedded(file) .. "\n"):gmatch("(.-)\n") do
        number = number + 1
        local first = line:match("^%-%-%- ?(.*)$")
        if first then
            block, begins = {first}, number
        elseif block and line:find("^%-%-") then
            block[#block + 1] = line:match("^%-%- ?(.*)$")
        elseif block then
            local entry = read_block(block, file, begins)
            if #entry.names > 0 or entry.kind then
                list[#list + 1] = entry
            end
            block = nil
        end
    end
end

-- "filter" with its type and default, as a text.
local function param_text(p)
    return ("%s: %s%s"):format(p.name, p.kind:gsub("|", ", "), p.default and (" (default %s)"):format(p.default) or "")
end

local function read_stages(list)
    require "gpuwb.pipe"    -- hangs the stages at images and mats
    local mat, image = require("gpuwb.mat").methods, require("gpuwb.image").methods
    for _, row in ipairs(require("gpuwb.pipe_stage").list) do
        local params, optional, lines = {}, false, {}
        for _, p in ipairs(row.params) do
            params[#params + 1] = (p.default and not optional and "[" or "") .. p.name
            optional = optional or p.default ~= nil
            lines[#lines + 1] = param_text(p)
        end
        local call = row.name .. "(" .. table.concat(params, ", "):gsub(", %[", " [, ") .. (optional and "]" or "") .. ")"
        local one = row.name ~= "matrix" and row.name ~= "convert"
        local entry = {names = {"pipe:" .. row.name}, file = "src/ops.h", stage = row, text = {("p:%s -> pipeline with this stage at its end: %s."):format(call,
            row.text)}}
        if #lines > 0 then
            entry.text[#entry.text + 1] = table.concat(lines, "; ") .. "."
        end
        if one and image[row.name] then
            entry.names[2] = "image:" .. row.name
            entry.text[#entry.text + 1] = ("i:%s does it at once (a pipeline of one stage; {stream=, out=} may come last)."):format(row.name)
        end
        if row.kind == "place" and mat[row.name] then
            entry.names[#entry.names + 1] = "mat:" .. row.name
        end
        list[#list + 1] = entry
    end
end

local entries, by_name, of_modules

-- All entries of the reference, in the order of the files; those by name; and the entries of the modules that a script requires.
function help.entries()
    if not entries then
        local all = {}
        entries, by_name, of_modules = {}, {}, {}
        for _, file in ipairs(core.embedded()) do
            if file:find("^lua/gpuwb/.*%.lua$") then
                read_file(file, all)
            end
        end
        for _, entry in ipairs(all) do
            table.insert(modules[(entry.names[1] or ""):match("^%a*")] and of_modules or entries, entry)
        end
        read_stages(entries)
        for _, entry in ipairs(entries) do
            for _, name in ipairs(entry.names) do
                by_name[name] = by_name[name] or entry
            end
        end
    end
    return entries, by_name, of_modules
end

-- ---- as text

-- Lines joined to paragraphs of that width; empty lines part them.
local function wrap(lines, width)
    local out, paragraph = {}, {}
    local function flush()
        local line = ""
        for word in table.concat(paragraph, " "):gmatch("%S+") do
            if line ~= "" and #line + 1 + #word > width then
                out[#out + 1] = line
                line = "    " .. word
            else
                line = line == "" and word or line .. " " .. word
            end
        end
        out[#out + 1] = line ~= "" and line or nil
        paragraph = {}
    end
    for _, line in ipairs(lines) do
        if line:find("%S") then
            paragraph[#paragraph + 1] = line
        else
            flush()
        end
    end
    flush()
    return out
end

local function entry_text(entry, width)
    local lines = wrap(entry.text, width)
    for _, f in ipairs(entry.fields or {}) do
        lines[#lines + 1] = ("    %-10s %s"):format(f.name, f.text)
    end
    if entry.example then
        lines[#lines + 1] = ""
        for _, line in ipairs(entry.example) do
            lines[#lines + 1] = "    " .. line
        end
    end
    return table.concat(lines, "\n")
end

-- The first sentence of an entry, without what comes behind it.
function help.summary(entry)
    local text = table.concat(entry.text, " ")
    return text:match("^(.-)%. ") or (text:gsub("%.$", ""))
end

local function overview(width)
    local lines = {"?name tells of a function, a method or a field: ?gpu.mat ?roi ?image:convert; ??name shows its source", ""}
    local lists, order = {}, {}
    local function add(entry)
        for _, name in ipairs(entry.names) do
            local before, rest = name:match("^(%a+)[.:](.*)$")
            if not lists[before] then
                lists[before] = {}
                order[#order + 1] = before
            end
            if rest ~= "__call" then
                table.insert(lists[before], rest)
            end
        end
    end
    local public, _, required = help.entries()
    for _, list in ipairs {public, required} do
        for _, entry in ipairs(list) do
            add(entry)
        end
    end
    table.sort(order, function(a, b) return (a == "gpu" and "" or a) < (b == "gpu" and "" or b) end)
    for _, before in ipairs(order) do
        table.sort(lists[before])
        local separator = (before == "gpu" or modules[before]) and "." or ":"
        for _, line in ipairs(wrap({before .. separator .. " " .. table.concat(lists[before], " ")}, width)) do
            lines[#lines + 1] = line
        end
    end
    return table.concat(lines, "\n")
end

-- Entries for a name: the whole one, or what comes behind its "." or ":", or a kind ("mat": its fields and methods).
local function find(name)
    local all, known, required = help.entries()
    name = name:gsub("^gpuwb%.python%f[%W]", "py"):gsub("^gpuwb%.(%a+)", function(one) return modules[one] or "gpu." .. one end)
    local before, separator, rest = name:match("^(%a+)([.:])([%w_]+)$")
    if before and before ~= "gpu" and not modules[before] then
        name = (separator == ":" and kinds[before] or before) .. ":" .. rest
    end
    if known[name] then
        return {known[name]}
    end
    local found, seen = {}, {}
    local function add(entry)
        if not seen[entry] then
            seen[entry] = true
            found[#found + 1] = entry
        end
    end
    for _, entry in ipairs(all) do
        for _, one in ipairs(entry.names) do
            if one:match("[.:](.*)$") == name then
                add(entry)
            end
        end
    end
    for _, entry in ipairs(all) do
        if entry.kind == name or entry.kind == before then
            for _, f in ipairs(entry.fields or {}) do
                if entry.kind == name or f.name == rest then
                    add(entry)
                end
            end
        else
            for _, f in ipairs(entry.fields or {}) do
                if f.name == name then
                    add(entry)
                end
            end
        end
    end
    for _, entry in ipairs(#found == 0 and required or {}) do     -- a module, a function of it by either name
        for _, one in ipairs(entry.names) do
            if one == name or one:match("^[^.]+") == name or one:match("[^.]+$") == name then
                add(entry)
            end
        end
    end
    return found
end

-- The name of a function of the interface.
local function name_of(fn)
    for name, value in pairs(require "gpuwb") do
        if value == fn then
            return "gpu." .. name
        end
    end
    for kind, methods in pairs(help.methods()) do
        for name, value in pairs(methods) do
            if value == fn then
                return kind .. ":" .. name
            end
        end
    end
end

-- How many letters must be added, removed or changed to make one word of the other.
local function distance(a, b)
    local row = {}
    for j = 0, #b do
        row[j] = j
    end
    for i = 1, #a do
        local diagonal = row[0]
        row[0] = i
        for j = 1, #b do
            local change = diagonal + (a:byte(i) == b:byte(j) and 0 or 1)
            diagonal = row[j]
            row[j] = math.min(change, row[j] + 1, row[j - 1] + 1)
        end
    end
    return row[#b]
end

-- A few names that hold the word, or are nearly it.
local function near(name)
    local word, list = name:lower():match("[%w_]+$") or "", {}
    for one in pairs((select(2, help.entries()))) do
        local rest = one:match("[.:](.*)$"):lower()
        if #word > 1 and #word < 40 and (rest:find(word, 1, true) or word:find(rest, 1, true) and #rest > 2 or distance(rest, word) <= #word / 3) then
            list[#list + 1] = one
        end
    end
    table.sort(list)
    return table.concat(list, ", ", 1, math.min(#list, 8))
end

local help_meta = {__name = "help", __tostring = function(h) return h.text end}

--- gpu.help([what]) -> the reference text, which prints itself: of a name ("gpu.mat", "mat:roi", "roi", "mat"), of a function (gpu.mat), or without `what` a
-- list of all names. At the prompt: ?name, and ??name for the source.
-- @example
-- print((tostring(gpu.help("mat:row")):match("^[^.]+")))      --> m:row(y) -> view of one row
function help.public.help(what)
    local op = "gpu.help"
    local width = math.min(posix.window(1), 120) - 1
    if what == nil then
        return setmetatable({text = overview(width)}, help_meta)
    end
    local name = type(what) == "function" and (name_of(what) or "that function") or check.string(op, "what", what):match("^%s*(.-)[%s(){}]*$")
    local found, texts = find(name), {}
    if #found == 0 then
        local others = near(name)
        check.fail("BAD_ARGUMENT", op, "there is no text for %s%s", name, others ~= "" and "; perhaps " .. others or "; gpu.help() lists all names")
    end
    for i, entry in ipairs(found) do
        texts[i] = entry_text(entry, width)
    end
    return setmetatable({text = table.concat(texts, "\n\n")}, help_meta)
end

-- The short name at the prompt and in -e: help(what) prints the text, help alone is the list of names.
help.printed = setmetatable({}, {
    __call = function(_, what)
        print(help.public.help(what))
    end,
    __tostring = function()
        return help.public.help().text
    end,
})

-- The function of a name in any spelling that gpu.help takes, or nil.
function help.find_function(name)
    local entry = find(name)[1]
    for _, one in ipairs(entry and entry.names or {}) do
        local before, rest = one:match("^(%a+)[.:](.*)$")
        if one == name or rest == name or #entry.names == 1 or rest == name:match("[%w_]*$") then
            if modules[before] then
                local ok, module = pcall(require, "gpuwb." .. modules[before])
                return ok and module[rest] or nil
            end
            return before == "gpu" and require("gpuwb")[rest] or before ~= "gpu" and help.methods()[before][rest] or nil
        end
    end
end

-- The text of a Lua file, as debug.getinfo names it.
local function file_text(source)
    local path = source:match("^@(.*)$")
    if not path then
        return source:find("\n") and source or nil
    end
    local text = path:find("^lua/gpuwb/") and core.embedded(path)
    if not text then
        local file = io.open(path, "r")
        text = file and file:read("*a")
        if file then
            file:close()
        end
    end
    return text
end

-- The source of a function with the comment above it, and where it is; or nil and a sentence that says why there is none.
function help.source(fn)
    local info = debug.getinfo(fn, "S")
    if info.what == "C" then
        return nil, "a function written in C, without Lua source"
    end
    local text, lines, number = file_text(info.source), {}, 0
    if not text then
        return nil, ("its source (%s:%d) is not at hand"):format(info.short_src, info.linedefined)
    end
    for line in (text .. "\n"):gmatch("(.-)\n") do
        number = number + 1
        lines[number] = line
    end
    local first = info.linedefined
    while first > 1 and lines[first - 1]:find("^%s*%-%-") do
        first = first - 1
    end
    return table.concat(lines, "\n", first, math.min(info.lastlinedefined, #lines)), ("%s:%d"):format(info.short_src, info.linedefined)
end

return help
