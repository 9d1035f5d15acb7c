-- SPDX-License-Identifier: MIT
-- Writes the reference from the comments beside the functions (lua/gpuwb/help.lua reads them): a page, and a LuaCATS file by which editors complete and check;
-- and from the command's help a man page and completions for bash and zsh.
-- Usage: gpuwb scripts/docs.lua [DIR]     default build/docs; DIR/reference.html, meta/gpuwb.lua, gpuwb.1, gpuwb.bash, _gpuwb
local gpu = require "gpuwb"
local command = require "gpuwb.command"
local help = require "gpuwb.help"

local dir = arg and arg[1] or "build/docs"
local folder = (arg and arg[0] or ""):gsub("[^/]*$", "")
local luacats = dofile(folder .. "luacats.lua")

local function write(path, text)
    local file = assert(io.open(path, "w"))
    assert(file:write(text))
    assert(file:close())
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
.example { display: flex; flex-wrap: wrap; gap: 0 1rem; align-items: flex-start; } .example pre { margin: .6rem 0; max-width: 100%; }
nav a { margin-right: .6rem; white-space: nowrap; } @media (prefers-color-scheme: dark) { body { background: #1b1b1b; color: #ddd; }
pre { background: #262626; } a { color: #8cb4ff; } h2 { border-color: #444; } }]]

local function data(kind, bytes)
    return ("data:image/%s;base64,%s"):format(kind, require("gpuwb.terminal").base64(bytes))
end

-- The pictures that an example makes: its local mats and images, where they are large enough and of more than one colour. None where it does not run here.
local function example_pictures(example)
    local chunk = assert(loadstring(table.concat(example, "\n") .. "\n__locals()"))
    local pictures, display = {}, require "gpuwb.display"
    local function look()
        local i = 1
        while true do
            local name, value = debug.getlocal(2, i)
            if not name then break end
            local ok, rgb = pcall(display.rgb, "docs", value)
            if ok and rgb.width >= 32 and rgb.height >= 32 then
                local low, high = {gpu.reduce(rgb, "min")}, {gpu.reduce(rgb, "max")}
                if low[1] ~= high[1] or low[2] ~= high[2] or low[3] ~= high[3] then
                    local fit = display.fit(rgb, 320, 240)
                    pictures[#pictures + 1] = {text = ("%s: %dx%d"):format(name, value.width, value.height), source = data("png", gpu.encode(fit, "png"))}
                end
            end
            i = i + 1
        end
    end
    pcall(setfenv(chunk, setmetatable({gpu = gpu, print = function() end, __locals = look}, {__index = _G})))
    return pictures
end

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
    local found, card = pcall(dofile, folder .. "testcard.lua")
    if not found then
        return {}
    end
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
                source = data("jpeg", gpu.encode(p[name](p, unpack(args))(img), "jpg", {quality = 88})),
            }
        end
    end
    pictures.none = {text = "the picture itself", source = data("jpeg", gpu.encode(img, "jpg", {quality = 88}))}
    return pictures
end

local function figure(picture)
    return picture and ('<figure><img src="%s" alt=""><figcaption><code>%s</code></figcaption></figure>'):format(picture.source, html(picture.text)) or nil
end

local titles = {gpu = "gpu", mat = "Mats", image = "Images", stream = "Streams", event = "Events", pipe = "Pipelines", kernel = "Kernels",
                format = "Pixel formats", progress = "Progress bars", view = "Views", graph = "Graphs", writer = "Writers of files",
                video = "Writers of videos"}
local order = {"gpu", "mat", "image", "pipe", "kernel", "stream", "event", "format", "progress", "view", "graph", "writer", "video"}
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
                 ("<h1>gpuwb %s</h1>"):format(gpu.version),
                 "<p>Written from the texts beside the functions; the prompt shows them with <code>?name</code>.</p>\n<nav>"}
    for _, kind in ipairs(order) do
        out[#out + 1] = ("<a href=\"#%s\">%s</a>"):format(kind, titles[kind]:match("^[^ =]+ ?[^=]*[^ =]"))
    end
    out[#out + 1] = "</nav>"
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
            if entry.example then
                out[#out + 1] = "<div class=\"example\"><pre>" .. html(table.concat(entry.example, "\n")) .. "</pre>"
                for _, picture in ipairs(example_pictures(entry.example)) do
                    out[#out + 1] = figure(picture)
                end
                out[#out + 1] = "</div>"
            end
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
write(dir .. "/meta/gpuwb.lua", luacats.text())
write(dir .. "/reference.html", page())
write(dir .. "/gpuwb.1", man())
write(dir .. "/gpuwb.bash", bash())
write(dir .. "/_gpuwb", zsh())
print(("docs: %s: reference.html, meta/gpuwb.lua, gpuwb.1, gpuwb.bash, _gpuwb"):format(dir))
