-- SPDX-License-Identifier: MIT
-- The prompt: reads chunks, compiles them, prints what they give. src/main.c runs the chunks, src/line.c reads the lines.

local repr = require "gpuwb.repr"

local loadstring, rawget, select, rawset, tostring = loadstring, rawget, select, rawset, tostring
local globals, stdout, jit_off = _G, io.stdout, jit.off

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

local function prompt(name, default)
    local value = rawget(globals, name)
    return value == nil and default or tostring(value)
end

local function greet()
    local loaded, gpu = pcall(require, "gpuwb")
    stdout:write("gpuwb ", loaded and gpu.version or "?", ", ", jit.version, ": `gpu` is the workbench, Ctrl-D leaves\n")
    if not loaded then io.stderr:write(tostring(gpu), "\n") end
end

-- A session over a line reader (src/line.h): `read` gives the next chunk, nil at the end; `show` prints what it gave.
return function(line)
    local session = {}
    local is_expression, quiet  -- of the chunk that runs; a ";" at its end keeps it quiet

    local function ask(name, default)
        return line.read(line.terminal and prompt(name, default) or "")
    end

    -- Lines up to a whole chunk: its text and what compile_chunk says; nil at the end of the input, false after Ctrl-C.
    local function read_chunk()
        local text = ask("_PROMPT", "> ")
        while text do
            local chunk, message, more = compile_chunk(text)
            if not more then return text, chunk, message end
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
                if chunk then
                    is_expression, quiet = outcome, text:find ";%s*$"
                    jit_off(chunk) -- Ctrl-C stops a loop that was typed; functions are compiled as ever
                    return chunk
                end
                stdout:flush()
                io.stderr:write(outcome, "\n")
            end
        end
    end

    local function show_values(count, ...)
        if count == 0 then return end
        rawset(globals, "_", (...))
        if not quiet then stdout:write(repr(...), "\n") end
    end

    function session.show(...)
        local skipped = is_expression and 1 or 0
        show_values(select("#", ...) - skipped, select(1 + skipped, ...))
    end

    if line.terminal then greet() end
    return session
end
