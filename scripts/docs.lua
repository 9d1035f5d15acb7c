-- SPDX-License-Identifier: MIT
-- Writes the reference from the comments beside the functions (lua/gpuwb/help.lua reads them): a page, and a LuaCATS file by which editors complete and check;
-- and from the command's help a man page and completions for bash and zsh.
-- Usage: gpuwb scripts/docs.lua [DIR]     default build/docs; DIR/reference.html, meta/gpuwb.lua, gpuwb.1, gpuwb.bash, _gpuwb
local gpu = require "gpuwb"
local command = require "gpuwb.command"
local help = require "gpuwb.help"

local dir = arg and arg[1] or "build/docs"

local function write(path, text)
    local file = assert(io.open(path, "w"))
    assert(file:write(text))
    assert(file:close())
end

-- ---- signatures

-- The arguments of a call as texts: "x", "[stream]" …, split at commas that stand in no bracket but "[".
local function split(list)
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

local integers = {width = 1, height = 1, x = 1, y = 1, n = 1, w = 1, h = 1, size = 1, offset = 1, step = 1, pass = 1, k = 1, i = 1, left = 1, top = 1,
                  right = 1, bottom = 1}
local strings = {format = 1, path = 1, name = 1, type = 1, what = 1, device = 1, transfer = 1, curve = 1, model = 1, label = 1, source = 1}
local classes = {mat = "gpuwb.mat", dst = "gpuwb.mat", image = "gpuwb.image", stream = "gpuwb.stream", event = "gpuwb.event", e1 = "gpuwb.event",
                 e2 = "gpuwb.event", fn = "function", list = "table", inputs = "table", planes = "gpuwb.mat[]", ms = "number", bytes = "string|integer"}

local function type_of(name)
    return integers[name] and "integer" or strings[name] and "string" or classes[name] or "any"
end

local function param(item)
    local text, optional = item.text, item.optional
    if text == "..." then
        return {name = "...", type = "any"}
    elseif text:find(" | {", 1, true) then
        local name = text:match("^[%a_][%w_]*")
        return {name = name == "title" and "title_or_opts" or name, type = "any", optional = optional}
    elseif text:find("^{") then
        local fields = {}
        for key in text:gmatch("([%a_][%w_]*)=") do
            fields[#fields + 1] = ("%s?: %s"):format(key, type_of(key))
        end
        return {name = #fields == 0 and text:find("^{%a") and "list" or "opts", type = #fields > 0 and "{" .. table.concat(fields, ", ") .. "}" or "table",
                optional = optional}
    elseif text:find('^"') then
        return {name = text:find("|") and "choice" or "device", type = text:find("|") and text:gsub("%s", "") or "string", optional = optional}
    end
    local name = text:gsub(" | ", "_or_"):gsub("[^%w_]", "")
    return {name = name, type = text:find("|") and "any" or type_of(name), optional = optional}
end

local returns = {mat = "gpuwb.mat", image = "gpuwb.image", stream = "gpuwb.stream", event = "gpuwb.event", pipeline = "gpuwb.pipe",
                 view = "gpuwb.mat", m = "gpuwb.mat", s = "gpuwb.stream", i = "gpuwb.image", k = "gpuwb.kernel", list = "table",
                 string = "string", milliseconds = "number", bytes = "integer", ["true"] = "boolean", name = "string", dst = "gpuwb.mat",
                 bar = "gpuwb.progress", v = "gpuwb.view", graph = "gpuwb.graph", number = "number", text = "string"}

-- The parameters of a name in its text, of the longest call, and what it returns; nil for what is no function.
local function signature(entry, name)
    local text, best = table.concat(entry.text, " "), nil
    local before, rest = name:match("^(%a+)[.:](.*)$")
    local pattern = before == "gpu" and "gpu%." .. rest or "%f[%a]%a+:" .. rest
    local behind
    for call, after in text:gmatch("()" .. pattern .. "%f[^%w_]()") do
        local args = text:match("^%b()", after) or text:match("^%b{}", after)
        if args and call and (not best or #args > #best) then
            best = args
            behind = text:sub(after + #args)
        end
    end
    if not best then
        return nil
    end
    local items = best:find("^{") and {{text = best}} or split(best:sub(2, -2))
    local params, names = {}, {}
    for i, item in ipairs(items) do
        params[i] = param(item)
        while names[params[i].name] do
            params[i].name = params[i].name .. "_" .. i
        end
        names[params[i].name] = true
    end
    local result = behind:match("^[^:.]-%-> ([%a ]+)")
    local word = result and result:gsub("^an? ", ""):gsub("^the ", ""):gsub("^new ", ""):gsub("^one ", ""):match("^%a+")
    if behind:find("^ %-> view%.") or behind:find("^[^:.]-%-> view: see") then
        return params, "gpuwb.view"
    end
    return params, result and ((returns[word] or "any") .. (behind:find("^[^:.]-%-> image, or mat") and "|gpuwb.mat" or ""))
end

-- ---- LuaCATS

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

local function meta()
    local out = {"-- SPDX-License-Identifier: MIT", "-- Written by scripts/docs.lua.", "---@meta gpuwb", ""}
    local entries = help.entries()
    local fields = {}
    for _, entry in ipairs(entries) do
        if entry.kind then
            fields[entry.kind:gsub("progress bar", "progress")] = entry.fields
        end
    end
    for _, kind in ipairs {"mat", "image", "stream", "event", "pipe", "kernel", "format", "progress", "view", "graph"} do
        out[#out + 1] = ("---@class gpuwb.%s"):format(kind)
        for _, f in ipairs(fields[kind] or {}) do
            out[#out + 1] = ("---@field %s %s %s"):format(f.name, f.type, f.text)
        end
        if kind == "pipe" then
            out[#out + 1] = "---@overload fun(src: gpuwb.image|gpuwb.mat, opts?: {out?: any, stream?: gpuwb.stream}): any"
        end
        out[#out + 1] = ("local %s = {}\n"):format(kind)
    end
    out[#out + 1] = "---@class gpuwb\n---@field version string\ngpu = {}\n"
    local seen = {}
    for _, entry in ipairs(entries) do
        for _, name in ipairs(entry.names) do
            local params, result = signature(entry, name)
            local before, rest = name:match("^(%a+)[.:](.*)$")
            if params == nil and entry.stage then
                params, result = signature(entry, "pipe:" .. entry.stage.name)
            end
            if params and rest ~= "__call" and not seen[name] then
                seen[name] = true
                local names = {}
                out[#out + 1] = comment(entry)
                for i, p in ipairs(params) do
                    names[i] = p.name
                    out[#out + 1] = p.name == "..." and "---@param ... any" or ("---@param %s%s %s"):format(p.name, p.optional and "?" or "", p.type)
                end
                if entry.stage then
                    result = before == "pipe" and "gpuwb.pipe" or "gpuwb." .. before
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

-- ---- the page

local function html(text)
    return (text:gsub("[&<>]", {["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;"}))
end

local style = [[
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222; background: #fff; }
h1, h2 { font-weight: 600; } h2 { border-bottom: 1px solid #ddd; margin-top: 3rem; }
code, pre { font: 14px/1.45 ui-monospace, monospace; } pre { background: #f5f5f5; padding: .8rem; overflow-x: auto; }
.entry { margin: 1.6rem 0; } .entry > b { font-family: ui-monospace, monospace; } td { padding: 0 1rem .2rem 0; vertical-align: top; }
figure { margin: .6rem 0; } figure img { max-width: 100%; } figcaption { font-size: 13px; }
nav a { margin-right: .6rem; white-space: nowrap; } @media (prefers-color-scheme: dark) { body { background: #1b1b1b; color: #ddd; }
pre { background: #262626; } a { color: #8cb4ff; } h2 { border-color: #444; } }]]

-- What the stages make of a test card, at sample arguments. A stage that is not here has no picture.
local function rotation(degrees, x, y)
    local c, s = math.cos(math.rad(degrees)), math.sin(math.rad(degrees))
    return {c, s, x - c * x - s * y, -s, c, y + s * x - c * y, 0, 0, 1}
end
local samples = {
    crop = {60, 70, 120, 80}, resize = {80, 54}, flip = {"horizontal"}, rotate = {90}, transpose = {}, pad = {20, 20, 20, 20, "reflect"},
    letterbox = {160, 160}, warp = {rotation(20, 120, 80)}, mul = {1.6}, add = {60}, sub = {60}, div = {2},
    clamp = {60, 180}, pow = {0.9}, gamma = {2.2}, matrix = {{0.39, 0.77, 0.19, 0.35, 0.69, 0.17, 0.27, 0.53, 0.13}},
    lut = {{255, 0}}, threshold = {128}, expr = {"abs(r - g) + b / 2"}, swizzle = {"bgr"},
}

local function stage_pictures()
    local found, card = pcall(dofile, (arg and arg[0] or ""):gsub("[^/]*$", "") .. "testcard.lua")
    if not found then
        return {}
    end
    local terminal = require "gpuwb.terminal"
    local img = card.frame(240, 160):planes("yuv420p", 240, 160, card.tags):convert("rgb24"):to("host")
    local pictures = {}
    for name, args in pairs(samples) do
        local p = gpu.pipe()
        if p[name] then
            local text = {}
            for i, v in ipairs(args) do
                text[i] = type(v) == "table" and "{…}" or type(v) == "string" and ("%q"):format(v) or tostring(v)
            end
            pictures[name] = {
                text = (":%s(%s)"):format(name, table.concat(text, ", ")),
                source = "data:image/jpeg;base64," .. terminal.base64(gpu.encode(p[name](p, unpack(args))(img), "jpg", {quality = 88})),
            }
        end
    end
    pictures.none = {text = "the picture itself", source = "data:image/jpeg;base64," .. terminal.base64(gpu.encode(img, "jpg", {quality = 88}))}
    return pictures
end

local function figure(picture)
    return picture and ('<figure><img src="%s" alt=""><figcaption><code>%s</code></figcaption></figure>'):format(picture.source, html(picture.text)) or nil
end

local titles = {gpu = "gpu", mat = "Mats", image = "Images", stream = "Streams", event = "Events", pipe = "Pipelines", kernel = "Kernels",
                format = "Pixel formats", progress = "Progress bars", view = "Views", graph = "Graphs"}
local order = {"gpu", "mat", "image", "pipe", "kernel", "stream", "event", "format", "progress", "view", "graph"}
for _, name in ipairs {"py", "npp", "nvjpeg", "cublas", "cufft", "curand", "nvtx", "nvml"} do
    order[#order + 1] = name
    titles[name] = ("%s = require \"gpuwb.%s\""):format(name, name == "py" and "python" or name)
end

local function page()
    local sections = {}
    local public, _, required = help.entries()
    for _, list in ipairs {public, required} do
        for _, entry in ipairs(list) do
            local kind = entry.kind and entry.kind:gsub("progress bar", "progress") or entry.names[1]:match("^%a+")
            sections[kind] = sections[kind] or {}
            table.insert(sections[kind], entry.kind and 1 or #sections[kind] + 1, entry)
        end
    end
    local pictures = stage_pictures()
    local out = {"<!DOCTYPE html>\n<html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">",
                 "<title>gpuwb reference</title><style>" .. style .. "</style>",
                 ("<h1>gpuwb %s</h1>\n<p>Written from the texts beside the functions; the prompt shows them with <code>?name</code>.</p>"):format(gpu.version)}
    for _, kind in ipairs(order) do
        out[#out + 1] = ("<h2 id=\"%s\">%s</h2>\n<nav>"):format(kind, titles[kind])
        for _, entry in ipairs(sections[kind] or {}) do
            for _, name in ipairs(entry.names) do
                out[#out + 1] = ("<a href=\"#%s\">%s</a>"):format(name, name:match("[.:](.*)$"))
            end
        end
        out[#out + 1] = "</nav>"
        out[#out + 1] = kind == "pipe" and figure(pictures.none) or nil
        for _, entry in ipairs(sections[kind] or {}) do
            out[#out + 1] = "<div class=\"entry\">"
            for _, name in ipairs(entry.names) do
                out[#out + 1] = ("<b id=\"%s\">%s</b> "):format(name, name)
            end
            out[#out + 1] = "<br>" .. html(table.concat(entry.text, "\n"))
            if entry.fields then
                out[#out + 1] = "<table>"
                for _, f in ipairs(entry.fields) do
                    out[#out + 1] = ("<tr><td><code>%s</code><td>%s"):format(f.name, html(f.text))
                end
                out[#out + 1] = "</table>"
            end
            out[#out + 1] = entry.example and "<pre>" .. html(table.concat(entry.example, "\n")) .. "</pre>" or nil
            out[#out + 1] = entry.stage and figure(pictures[entry.stage.name]) or nil
            out[#out + 1] = "</div>"
        end
    end
    out[#out + 1] = "</html>\n"
    return table.concat(out, "\n")
end

-- ---- the command: its help is "  OPTION VALUE   text", with more of the text in the lines that follow

local function options()
    local list = {}
    for line in command.text:match("\n(  %-e.-)\n\n"):gmatch("[^\n]+") do
        local left, text = line:match("^  (%-.-)  +(%S.*)$")
        if left then
            local names = {}
            for name in (" " .. left):gmatch("[ ,](%-[%-%w]*)") do
                names[#names + 1] = name
            end
            list[#list + 1] = {left = left, names = names, text = text, value = left:match(" ([A-Z]+)$")}
        else
            list[#list].text = list[#list].text .. " " .. line:match("^%s*(.-)%s*$")
        end
    end
    return list
end

local function troff(text)
    return (text:gsub("\\", "\\e"):gsub("%-", "\\-"):gsub("^([.'])", "\\&%1"):gsub("\n([.'])", "\n\\&%1"))
end

local function man()
    local out = {('.TH GPUWB 1 "" "gpuwb %s"'):format(gpu.version), ".SH NAME", "gpuwb \\- a GPU image workbench, scripted in Lua", ".SH SYNOPSIS",
                 ".B gpuwb", "[\\fIoptions\\fR] [\\fIscript\\fR [\\fIargs\\fR]]", ".SH DESCRIPTION",
                 troff(command.text:match("\n\n(.-)\n\n")), ".SH OPTIONS"}
    for _, o in ipairs(options()) do
        out[#out + 1] = ".TP\n.B " .. troff(o.left) .. "\n" .. troff(o.text)
    end
    out[#out + 1] = ".PP\n" .. troff(command.text:match("\n\n(A picture.-)\n\n"))
    out[#out + 1] = ".SH ENVIRONMENT\n" .. troff(command.text:match("\nEnvironment: (.-)\n$"))
    out[#out + 1] = ".SH EXIT STATUS\n0, or 1 after an error that nobody caught, or what the script gives os.exit."
    return table.concat(out, "\n") .. "\n"
end

local function bash()
    local words, with_value = {}, {}
    for _, o in ipairs(options()) do
        for _, name in ipairs(o.names) do
            if #name > 1 then
                words[#words + 1] = name
            end
            if o.value and not name:find("^%-%-device") then
                with_value[#with_value + 1] = name
            end
        end
    end
    return ([[
# bash completion for gpuwb; written by scripts/docs.lua
_gpuwb()
{
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
    case $before in
    --device) COMPREPLY=($(compgen -W "host cuda cuda:0" -- "$word")); return ;;
    %s) return ;;
    esac
    case $word in
    -*) COMPREPLY=($(compgen -W "%s" -- "$word")) ;;
    *) COMPREPLY=($(compgen -f -- "$word")) ;;
    esac
}
complete -o filenames -F _gpuwb gpuwb
]]):format(table.concat(with_value, "|"), table.concat(words, " "))
end

local function zsh()
    local lines = {}
    for _, o in ipairs(options()) do
        for _, name in ipairs(o.names) do
            local text = o.text:gsub("[%[%]]", ""):gsub("'", "'\\''"):gsub(":", "\\:")
            if #name > 1 and name ~= "--" then
                local value = o.value and ":" .. o.value:lower() .. ":" .. (name == "--device" and "(host cuda cuda\\:0)" or "") or ""
                lines[#lines + 1] = ("    '%s[%s]%s' \\"):format(name, text, value)
            end
        end
    end
    return "#compdef gpuwb\n# zsh completion for gpuwb; written by scripts/docs.lua\n_arguments \\\n" .. table.concat(lines, "\n") ..
        "\n    '1:script:_files' \\\n    '*:argument:_files'\n"
end

os.execute("mkdir -p '" .. dir:gsub("'", "'\\''") .. "/meta'")
write(dir .. "/meta/gpuwb.lua", meta())
write(dir .. "/reference.html", page())
write(dir .. "/gpuwb.1", man())
write(dir .. "/gpuwb.bash", bash())
write(dir .. "/_gpuwb", zsh())
print(("docs: %s: reference.html, meta/gpuwb.lua, gpuwb.1, gpuwb.bash, _gpuwb"):format(dir))
