-- SPDX-License-Identifier: MIT
-- The prompt: reads chunks, compiles them, prints what they give. src/main.c runs the chunks, src/line.c reads the lines.

local repr = require "gpuwb.repr"

local loadstring, pcall, rawget, select, rawset, tostring, type = loadstring, pcall, rawget, select, rawset, tostring, type
local globals, stdout = _G, io.stdout

local function compile(text)
    return loadstring(text, "=stdin")
end

-- LuaJIT's message ends so where the text may still become a chunk.
local function wants_more(message, text)
    if message:find("unfinished string near", 1, true) then return text:find "\\$" ~= nil end
    return message:find "near '?<eof>'?$" ~= nil
end

-- The text as an expression or as statements: a function, and whether it is an expression (it then returns nil and the
-- values: a call in the last place of two is no tail call, and errors keep their position); or nil, an error, and
-- whether more lines may mend it.
local function compile_chunk(text)
    local expression = text:gsub("^%s*=", "")
    local chunk, expression_error = compile("return nil, " .. expression)
    if chunk then return chunk, true end
    if expression ~= text then return nil, expression_error, wants_more(expression_error, text) end
    local statement_error
    chunk, statement_error = compile(text)
    if chunk then return chunk, false end
    local more = wants_more(statement_error, text) or wants_more(expression_error, text)
    -- A statement that is wrong from its first character was meant as an expression.
    local begins_wrong = statement_error:match "unexpected symbol near '?(.)" == text:match "%S"
    return nil, begins_wrong and expression_error or statement_error, more
end

-- _PROMPT, or the default: in colour where the terminal understands it. \1 stands around what has no width.
local function prompt(name, default, coloured)
    local value = rawget(globals, name)
    if value ~= nil then return tostring(value) end
    return coloured and "\1\27[32m\1" .. default:gsub(" ", "\1\27[0m\1 ") or default
end

-- ---- ?name and ??name

local function source(name)
    local complete, help = require "gpuwb.complete", require "gpuwb.help"
    local fn = complete.resolve(name)
    if type(fn) ~= "function" then fn = help.find_function(name) end
    if type(fn) ~= "function" then return nil, name .. " is no function that is known here" end
    return help.source(fn)
end

-- What a line that begins with "?" asks for: text to print, or nil and why there is none.
local function answer(marks, name)
    local gpu = require "gpuwb"
    if #marks == 1 then return tostring(gpu.help(name ~= "" and name or nil)) end
    local text, where = source(name)
    if not text then return nil, where end
    return "-- " .. where .. "\n" .. text
end

-- Prints it; nil, or why there is nothing to print.
local function print_answer(marks, name)
    local ok, text, why = pcall(answer, marks, name)
    if ok and text then
        stdout:write(text, "\n")
        return nil
    end
    return ok and why or tostring(text):gsub("^.-gpu%.help: ", "")
end

-- $XDG_CONFIG_HOME/gpuwb/init.lua, for the prompt alone.
local function run_init()
    local config, home = os.getenv "XDG_CONFIG_HOME", os.getenv "HOME"
    config = config and config ~= "" and config or home and home .. "/.config"
    local file = config and io.open(config .. "/gpuwb/init.lua", "r")
    if not file then return end
    file:close()
    local ok, message = pcall(dofile, config .. "/gpuwb/init.lua")
    if not ok then io.stderr:write(tostring(message), "\n") end
end

local function greet()
    local loaded, gpu = pcall(require, "gpuwb")
    stdout:write("gpuwb ", loaded and gpu.version or "?", ", ", jit.version, ": ?name tells of a function, ? lists all, Ctrl-D leaves\n")
    if not loaded then io.stderr:write(tostring(gpu), "\n") end
end

-- A session over a line reader (src/line.h): `read` gives the next chunk, nil at the end; `show` prints what it gave.
return function(line)
    local session = {}
    local is_expression, quiet  -- of the chunk that runs; a ";" at its end keeps it quiet

    local pending = ""          -- lines of a chunk that is not whole yet
    local coloured = line.edits and not os.getenv "NO_COLOR"

    local function ask(name, default)
        return line.read(line.terminal and prompt(name, default, coloured) or "")
    end

    -- Lines up to a whole chunk: its text and what compile_chunk says; nil at the end of the input, false after Ctrl-C.
    local function read_chunk()
        pending = ""
        local text = ask("_PROMPT", "> ")
        while text do
            if text:find "^%s*%?" then return text end
            local chunk, message, more = compile_chunk(text)
            if not more then return text, chunk, message end
            pending = text .. "\n"
            local next_line = ask("_PROMPT2", ">> ")
            if next_line == nil then return text, nil, message end
            text = next_line and text .. "\n" .. next_line
        end
        return text
    end

    function session.read()
        while true do
            local text, chunk, outcome = read_chunk()
            if text == nil then return nil end
            if text and text:find "%S" then
                line.remember(text)
                local marks, name = text:match "^%s*(%?%??)%s*(.-)%s*$"
                if marks then outcome = print_answer(marks, name) end
                if chunk then
                    is_expression, quiet = outcome, text:find ";%s*$"
                    return chunk
                end
                stdout:flush()
                if outcome then io.stderr:write(outcome, "\n") end
            end
        end
    end

    local function show_values(count, ...)
        if count == 0 then return end
        rawset(globals, "_", (...))
        if quiet then return end
        stdout:write(repr.text(...), "\n")
        local image = package.loaded["gpuwb.image"]
        if line.edits and image and image.is((...)) then
            local ok, picture = pcall(require("gpuwb.show").preview, (...))
            if ok and picture then stdout:write(picture, "\n") end
        end
    end

    function session.show(...)
        local skipped = is_expression and 1 or 0
        show_values(select("#", ...) - skipped, select(1 + skipped, ...))
    end

    if line.edits then
        line.set_completer(function(text)
            return require("gpuwb.complete").line(pending .. text)
        end)
        line.set_idle(function()
            local window = package.loaded["gpuwb.window"]
            if window then window.poll() end
            return window and window.any()
        end)
    end
    if line.terminal then greet() end
    run_init()
    return session
end
