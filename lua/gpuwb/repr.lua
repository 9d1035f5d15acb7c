-- SPDX-License-Identifier: MIT
-- Values as text for a person at the prompt: tables nested, strings quoted, all of bounded size. Never fails, calls no
-- metamethod but __tostring, reads no pixels.

local getmetatable, rawget, next, pcall, select, tostring, type = debug.getmetatable, rawget, next, pcall, select, tostring, type
local concat, sort, floor, ipairs = table.concat, table.sort, math.floor, ipairs

local MAX_DEPTH = 4      -- of nested tables
local MAX_VALUES = 400   -- in one text
local MAX_ENTRIES = 100  -- of one table
local MAX_STRING = 1000  -- bytes
local WIDTH = 100        -- a table that is wider takes a line for each entry

local KEYWORDS = {}
for word in ([[and break do else elseif end false for function goto if in local nil not or repeat return then true until
    while]]):gmatch "%a+" do
    KEYWORDS[word] = true
end

local ESCAPES = { ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t", ['"'] = '\\"', ["\\"] = "\\\\" }
local UTF8 = { -- without the control characters U+0080 to U+009F
    "^\194[\160-\191]", "^[\195-\223][\128-\191]", "^[\224-\239][\128-\191][\128-\191]",
    "^[\240-\244][\128-\191][\128-\191][\128-\191]",
}

local function escape(char)
    return ESCAPES[char] or ("\\%03d"):format(char:byte())
end

-- A run of bytes above 127: UTF-8 stays, the rest is escaped.
local function escape_high(run)
    local out, at = {}, 1
    while at <= #run do
        local last
        for i = 1, #UTF8 do last = last or select(2, run:find(UTF8[i], at)) end
        out[#out + 1] = last and run:sub(at, last) or escape(run:sub(at, at))
        at = (last or at) + 1
    end
    return concat(out)
end

local function quote(text)
    local cut = #text > MAX_STRING and ("… (%d bytes)"):format(#text) or ""
    return '"' .. text:sub(1, MAX_STRING):gsub('[%c"\\]', escape):gsub("[\128-\255]+", escape_high) .. '"' .. cut
end

local function safe_tostring(value)
    local ok, text = pcall(tostring, value)
    if ok and type(text) == "string" then return text end
    if ok then return ("<%s whose __tostring gives a %s>"):format(type(value), type(text)) end
    return ("<%s whose __tostring fails: %s>"):format(type(value), type(text) == "string" and text or type(text))
end

local render -- of a value of any type

local function render_key(key)
    if type(key) ~= "string" then return "[" .. safe_tostring(key) .. "]" end
    if key:find "^[%a_][%w_]*$" and not KEYWORDS[key] then return key end
    return "[" .. quote(key) .. "]"
end

local RANK = { number = 1, string = 2 }

local function key_before(a, b)
    local rank_a, rank_b = RANK[type(a)] or 3, RANK[type(b)] or 3
    if rank_a ~= rank_b then return rank_a < rank_b end
    if rank_a < 3 then return a < b end
    return safe_tostring(a) < safe_tostring(b)
end

-- The keys beside 1..count, sorted, and whether there are more than a few.
local function other_keys(object, count)
    local keys = {}
    for key in next, object do
        if not (type(key) == "number" and key >= 1 and key <= count and key == floor(key)) then
            if #keys == 2 * MAX_ENTRIES then return keys, true end
            keys[#keys + 1] = key
        end
    end
    sort(keys, key_before)
    return keys, false
end

-- Entries in braces: in one line, or in a line each but for scalars of the list part, which fill their lines.
local function lay_out(entries, one_line, indent)
    local lines, may_grow = {}, false
    for _, entry in ipairs(entries) do
        local line = lines[#lines]
        local grown = line and line .. ", " .. entry.text
        if grown and (one_line or may_grow and entry.is_scalar and #indent + #grown < WIDTH) then
            lines[#lines] = grown
        else
            lines[#lines + 1] = entry.text
        end
        may_grow = entry.is_scalar
    end
    if one_line then return "{" .. lines[1] .. "}" end
    return "{\n    " .. indent .. concat(lines, ",\n    " .. indent) .. "\n" .. indent .. "}"
end

local function render_table(object, state, depth)
    local meta = getmetatable(object)
    if type(meta) == "table" and rawget(meta, "__tostring") ~= nil then return safe_tostring(object) end
    if state.path[object] then return "<cycle>" end
    if next(object) == nil then return "{}" end
    if depth == MAX_DEPTH then return "{…}" end
    state.path[object] = true

    local entries, width, one_line = {}, 4 * depth, true
    local function add(text, is_scalar)
        entries[#entries + 1] = { text = text, is_scalar = is_scalar }
        width = width + #text + 2
        if text:find("\n", 1, true) then one_line = false end
    end
    local function full()
        return #entries >= MAX_ENTRIES or state.left <= 0
    end
    local count = 0
    while rawget(object, count + 1) ~= nil and not full() do
        count = count + 1
        local value = rawget(object, count)
        add(render(value, state, depth + 1), type(value) ~= "table")
    end
    local cut = rawget(object, count + 1) ~= nil
    local keys, more = other_keys(object, cut and #object or count)
    for i = 1, #keys do
        if full() then
            more = true
            break
        end
        add(render_key(keys[i]) .. " = " .. render(rawget(object, keys[i]), state, depth + 1))
    end
    if cut or more then add("…", true) end

    state.path[object] = nil
    return lay_out(entries, one_line and width < WIDTH, ("    "):rep(depth))
end

function render(value, state, depth)
    state.left = state.left - 1
    local kind = type(value)
    if kind == "string" then return quote(value) end
    if kind == "table" then return render_table(value, state, depth) end
    return safe_tostring(value)
end

local repr = {keywords = KEYWORDS}

-- All arguments: in one line where they have one each.
function repr.text(...)
    local texts, separator = {}, "\t"
    for i = 1, select("#", ...) do
        texts[i] = render(select(i, ...), { left = MAX_VALUES, path = {} }, 0)
        if texts[i]:find("\n", 1, true) then separator = "\n" end
    end
    return concat(texts, separator)
end

return repr
