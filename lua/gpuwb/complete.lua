-- SPDX-License-Identifier: MIT
-- What Tab gives at the prompt: names, fields, methods, modules, files, pixel formats, option keys. Looks at values without calling anything of theirs.
local ffi = require "ffi"
local core = require "gpuwb.core"
local help = require "gpuwb.help"
local posix = require "gpuwb.posix"
local types = require "gpuwb.types"
local repr = require "gpuwb.repr"

local complete = {}

local getmetatable, rawget, type, next, pcall = debug.getmetatable, rawget, type, next, pcall
local IMAGES = {image = true, mat = true, pipe = true}

-- ---- values

-- Kind of a value of the interface: "mat", "image", …
local function kind_of(v)
    local meta = getmetatable(v)
    local name = type(meta) == "table" and rawget(meta, "__name")
    return name == "pipeline" and "pipe" or name == "pixel format" and "format" or name == "progress bar" and "progress" or name == "video writer" and "video"
        or name
end

-- A field without calling anything: raw, or along __index tables; methods of gpuwb's own objects.
local function field(v, key)
    local methods = help.methods()[kind_of(v) or ""]
    if methods and methods[key] then
        return methods[key]
    end
    for _ = 1, 20 do
        if type(v) == "table" and rawget(v, key) ~= nil then
            return rawget(v, key)
        end
        local meta = getmetatable(v)
        v = type(meta) == "table" and rawget(meta, "__index") or nil
        if type(v) ~= "table" then
            return nil
        end
    end
end

local function global(name)
    local value = rawget(_G, name)
    if value == nil and name == "gpu" then
        return require "gpuwb"
    elseif value == nil then
        return rawget(require "gpuwb", name)
    end
    return value
end

-- The value of "a.b:c" or "a.b[1].c"; nil where a part is missing or would have to be called.
function complete.resolve(chain)
    local name, rest = chain:match("^([%a_][%w_]*)(.*)$")
    local value = name and global(name)
    while value ~= nil and rest ~= "" do
        local key, behind = rest:match("^[.:]([%a_][%w_]*)(.*)$")
        if not key then
            key, behind = rest:match("^%[(%d+)%](.*)$")
            key = tonumber(key)
        end
        if not key then
            return nil
        end
        value, rest = field(value, key), behind
    end
    return value
end

-- ---- lists of candidates: {word = true}

local function add_keys(list, t, functions_alone)
    for key, value in next, t do
        if type(key) == "string" and key:find("^[%a_][%w_]*$") and (not functions_alone or type(value) == "function") then
            list[key] = true
        end
    end
end

local function add_fields(list, kind)
    for _, entry in ipairs((help.entries())) do
        if entry.kind == kind or kind == "progress" and entry.kind == "progress bar" then
            for _, f in ipairs(entry.fields) do
                list[f.name] = true
            end
        end
    end
end

local function members(value, separator)
    local list, kind = {}, kind_of(value)
    local methods = help.methods()[kind or ""]
    if methods then
        add_keys(list, methods)
        if separator == "." then
            add_fields(list, kind)
        end
    end
    for _ = 1, 20 do
        if type(value) == "table" then
            add_keys(list, value, separator == ":")
        end
        local meta = getmetatable(value)
        value = type(meta) == "table" and rawget(meta, "__index") or nil
        if type(value) ~= "table" then
            break
        end
    end
    return list
end

local function globals()
    local list = {}
    for word in pairs(repr.keywords) do
        list[word] = true
    end
    add_keys(list, _G)
    add_keys(list, require "gpuwb")
    list.gpu = true
    return list
end

-- Methods of what a call gives, which is not known before it is made: pictures and pipelines.
local function results()
    local list = {}
    for kind, methods in pairs(help.methods()) do
        if IMAGES[kind] then
            add_keys(list, methods)
        end
    end
    return list
end

-- Entries of a folder, folders with a slash at their end.
local function add_files(list, word)
    local folder, name = word:match("^(.*/)([^/]*)$")
    local path = (folder or "./"):gsub("^~/", (os.getenv("HOME") or "~") .. "/")
    for entry, is_folder in posix.entries(path) do
        if entry:sub(1, #(name or word)) == (name or word) and (entry:sub(1, 1) ~= "." or (name or word):sub(1, 1) == ".") then
            list[(folder or "") .. entry .. (is_folder and "/" or "")] = true
        end
    end
end

local function modules()
    local list = {}
    add_keys(list, package.preload)
    for name in next, package.loaded do
        if type(name) == "string" then
            list[name] = true
        end
    end
    for _, file in ipairs(core.embedded()) do
        local name = file:match("^lua/gpuwb/(.*)%.lua$")
        if name then
            list[name == "init" and "gpuwb" or "gpuwb." .. name] = true
        end
    end
    for path in package.path:gmatch("[^;]+") do
        local folder, ending = path:match("^([^?]*/)%?(%.[^/?]*)$")
        for entry in posix.entries(folder or "/dev/null") do
            if entry:sub(-#ending) == ending then
                list[entry:sub(1, -#ending - 1)] = true
            end
        end
    end
    return list
end

local function tag_names(tag)
    local C, list = require("gpuwb.cdef").C, {}
    local i = 1
    local name = C.gwb_tag_name(tag, i)
    while name ~= nil do
        list[ffi.string(name)] = true
        i = i + 1
        name = C.gwb_tag_name(tag, i)
    end
    return list
end

-- The texts of the calls of that name, a line each.
local function texts(call)
    local list = {}
    for _, entry in ipairs((help.entries())) do
        for _, name in ipairs(entry.names) do
            if name:match("[.:](.*)$") == call then
                list[#list + 1] = table.concat(entry.text, " ")
            end
        end
    end
    return list
end

local function add_quoted(list, text)
    for word in text:gmatch('"([^"]*)"') do
        list[word] = true
    end
end

-- What the texts of `call` name in quotes: for the option `key` as its values, else in the arguments or for the one called `name`. Of stages the choices.
local function choices(call, key, name)
    local list = {}
    for _, p in ipairs(complete.stage(call) or {}) do
        for choice in (p.kind:find("|", 1, true) and (key == nil or key == p.name) and p.kind or ""):gmatch("[^|]+") do
            list[choice] = true
        end
    end
    for _, text in ipairs(texts(call)) do
        for arguments in (key and "" or text):gmatch("%f[%w]" .. call .. "%s*(%b())") do
            add_quoted(list, arguments)
        end
        local word = key or name
        if word and next(list) == nil then
            add_quoted(list, text:match("[{ ]" .. word .. '=("[^ ,}]*)') or text:match("[. ]" .. word .. '%f[ ,:][^.]-: ?(".-)%.') or "")
        end
    end
    return list
end

-- The name of the argument at that position of a call, where the texts name it.
local function argument(call, position)
    for _, text in ipairs(texts(call)) do
        local at = 0
        for name in (text:match("%f[%w]" .. call .. "%s*(%b())") or ""):gsub("%b{}", "opts"):gmatch("[^,]+") do
            at = at + 1
            if at == position then
                return name:match("[%a_][%w_]*")
            end
        end
    end
end

-- What an argument or an option of that name can be, where the name tells; else nothing.
local function known_values(name)
    local list = {}
    for _, tag in ipairs(require("gpuwb.format").tags) do
        if tag == name then
            return tag_names(tag)
        end
    end
    if name == "type" then
        for _, element in ipairs(types.names) do
            for channels = 1, 4 do
                list[types.text(types.code[element], channels)] = true
            end
        end
    elseif name == "device" then
        for _, one in ipairs(require("gpuwb").devices()) do
            list[one.name] = true
        end
    elseif name == "format" then
        local names, aliases = require("gpuwb").formats()
        for _, one in ipairs(names) do
            list[one] = true
        end
        for _, alias in ipairs(aliases) do
            list[alias[1]] = true
        end
    end
    return list
end

local function fits(list, word)
    for candidate in pairs(list) do
        if candidate:sub(1, #word) == word then
            return true
        end
    end
end

-- What fits between quotes: `before` is what stands before them, `word` what is inside so far, `call` the name of what is called with it, `position` which
-- argument it is. Names of files where nothing else is known.
local function in_string(before, word, call, position)
    if before:find("require%s*%(?%s*$") then
        return modules()
    end
    local key = before:match("([%w_]+)%s*=%s*$")
    local name = call and argument(call, position)
    for _, list in ipairs {known_values(key or name), call and choices(call, key, name) or {}} do
        if fits(list, word) then
            return list
        end
    end
    local list = word ~= "" and known_values "format" or {}
    add_files(list, word)
    return list
end

-- Parameters of the stage of that name, or nil.
function complete.stage(name)
    for _, row in ipairs(require("gpuwb.pipe_stage").list) do
        if row.name == name then
            return row.params
        end
    end
end

-- Option keys of the calls of that name.
local function option_keys(call)
    local list = {}
    for _, text in ipairs(texts(call)) do
        local options = text:match(call .. "%s*(%b())") or text:match(call .. "%s*(%b{})") or ""
        for key in options:gmatch("[{,]%s*([%a_][%w_]*)=") do
            list[key .. " = "] = true
        end
    end
    for _, p in ipairs(complete.stage(call) or {}) do
        list[p.name .. " = "] = true
    end
    return list
end

-- ---- where the cursor is

-- The quote that is open at the end of a line and where its inside begins; and the brackets that are open, {char, position} each.
local function scan(line)
    local quote, from, open, at = nil, nil, {}, 1
    while at <= #line do
        local char = line:sub(at, at)
        if quote then
            if char == "\\" then
                at = at + 1
            elseif char == quote then
                quote = nil
            end
        elseif char == '"' or char == "'" then
            quote, from = char, at + 1
        elseif char == "(" or char == "{" or char == "[" then
            open[#open + 1] = {char, at}
        elseif char == ")" or char == "}" or char == "]" then
            open[#open] = nil
        end
        at = at + 1
    end
    return quote, from, open
end

-- The candidates for the end of a line, and the part of it that they complete.
function complete.candidates(line)
    line = line:gsub("^%s*%?+%s*", "")
    local quote, from, open = scan(line)
    if quote then
        local before, inner = line:sub(1, from - 2), open[#open]
        local call, position = before:match("([%w_]+)%s*$"), 1
        if not call and inner then      -- in the brackets of a call, or in a table that is its last argument
            local outer = inner[1] == "{" and open[#open - 1] or inner
            call = before:sub(1, outer[2] - 1):match("([%w_]+)%s*$") or before:sub(1, inner[2] - 1):match("([%w_]+)%s*$")
            position = 1 + select(2, before:sub(inner[2] + 1):gsub("%b()", ""):gsub("%b{}", ""):gsub(",", ""))
        end
        return in_string(before, line:sub(from), call, position), line:sub(from)
    end
    local word = line:match("[%a_][%w_]*$") or ""
    local before = line:sub(1, #line - #word)
    if before:find("[.:]$") then
        local separator = before:sub(-1)
        local chain = before:match("[%a_][%w_.:%[%]]*$")
        local value = chain and complete.resolve(chain:sub(1, -2))
        if value ~= nil then
            return members(value, separator), word
        elseif before:find("[)%]}]:$") then
            return results(), word
        end
        return {}, word
    end
    local inner = open[#open]
    if inner and inner[1] == "{" and before:find("[{,]%s*$") then
        local call = line:sub(1, inner[2] - 1)
        call = call:match("([%w_]+)%s*$") or (open[#open - 1] and open[#open - 1][1] == "(" and line:sub(1, open[#open - 1][2] - 1):match("([%w_]+)%s*$"))
        local keys = call and option_keys(call) or {}
        for key in pairs(keys) do
            if key:sub(1, #word) == word then
                return keys, word
            end
        end
    end
    if word == "" then
        return {}, word
    end
    return globals(), word
end

-- ---- for the line reader

local MOST = 200    -- names in a list

local function columns(words)
    local width, widest = posix.window(1), 1
    for _, word in ipairs(words) do
        widest = math.max(widest, #word + 2)
    end
    local per_row = math.max(1, math.floor((width - 1) / widest))
    local rows = math.ceil(#words / per_row)
    local lines = {}
    for r = 1, rows do
        local line = ""
        for i = r, #words, rows do
            line = line .. words[i] .. (" "):rep(widest - #words[i])
        end
        lines[r] = line:gsub("%s+$", "")
    end
    return table.concat(lines, "\n")
end

-- The text to insert at the end of the line, and a list to show where it is not clear what is meant; nil for none. Never fails.
function complete.line(line)
    local ok, list, word = pcall(complete.candidates, line)
    if not ok then
        return nil
    end
    local words, common = {}, nil
    for candidate in pairs(list) do
        if candidate:sub(1, #word) == word then
            words[#words + 1] = candidate
            local same = 0
            while common and same < #common and common:byte(same + 1) == candidate:byte(same + 1) do
                same = same + 1
            end
            common = common and common:sub(1, same) or candidate
        end
    end
    if not common then
        return nil
    end
    while #common > #word and words[1]:find("^[\128-\191]", #common + 1) do    -- not a part of a character
        common = common:sub(1, -2)
    end
    local insert = common:sub(#word + 1)
    if insert ~= "" or #words == 1 then
        return insert
    end
    table.sort(words)
    local more = #words > MOST and ("\n… %d names"):format(#words) or ""
    local shown = {unpack(words, 1, MOST)}
    for i, one in ipairs(shown) do
        shown[i] = one:gsub("^.*/(.)", "%1")
    end
    return nil, columns(shown) .. more
end

return complete
