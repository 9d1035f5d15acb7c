-- SPDX-License-Identifier: MIT
-- What lives: the mats of a session and where they were made, and scopes that release what was made inside.
local check = require "gpuwb.check"
local core = require "gpuwb.core"

local live = {public = {}}

local mats = core.mat.made     -- live mat, weakly -> where it was made, "script.lua:3", or false

-- The scopes under way by age: {made = what was made in it, weakly, so that what is dropped before its end can be collected, thread = its coroutine, false for
-- the main one}. Only the call of gpu.scope holds one, so
-- that a coroutine that yields in a scope and is dropped takes it along.
local scopes, weak = setmetatable({}, {__mode = "v"}), {__mode = "k"}
local newest = 0
local running, status = coroutine.running, coroutine.status

-- The innermost scope that is in force: not that of a coroutine which has yielded. One of the running coroutine comes before those of its callers.
local function innermost()
    local own, found = running() or false, nil
    for i = newest, 1, -1 do
        local s = scopes[i]
        if not s then
            newest = i == newest and i - 1 or newest
        elseif s.thread == own then
            return s
        elseif not found and (not s.thread or status(s.thread) == "normal") then
            found = s
        end
    end
    return found
end

-- A maker of userdata whose objects a scope closes.
function live.scoped(new)
    return function()
        local object = new()
        local scope = newest > 0 and innermost()
        if scope then
            scope.made[object] = true
        end
        return object
    end
end

-- ---- gpu.who

local function size_text(bytes)
    return bytes < 1e4 and ("%.0f B"):format(bytes) or bytes < 1e7 and ("%.1f kB"):format(bytes / 1e3) or ("%.1f MB"):format(bytes / 1e6)
end

local who_meta = {__name = "list of mats", __tostring = function(list)
    local lines, total, views = {}, 0, 0
    for _, e in ipairs(list) do
        lines[#lines + 1] = ("%-14s %5dx%-5d %-5s %10s  %-7s %s%s"):format(e.name or "-", e.width, e.height, e.type, e.view and "view" or size_text(e.bytes),
            e.device, e.where or "?", e.readonly and " readonly" or "")
        total = total + (e.view and 0 or e.bytes)
        views = views + (e.view and 1 or 0)
    end
    lines[#lines + 1] = ("%d mats%s, %s"):format(#list, views > 0 and (", %d of them views"):format(views) or "", size_text(total))
    return table.concat(lines, "\n")
end}

-- Names of globals, and of fields of tables in them, by the mat they hold: `_`, "img", "img.planes[1]".
local function global_names()
    local names, seen = {}, {}
    local function visit(value, name, depth)
        if check.is_mat(value) then
            if not names[value] or #name < #names[value] then
                names[value] = name
            end
        elseif type(value) == "table" and depth < 3 and not seen[value] and value ~= package.loaded and value ~= _G then
            seen[value] = true
            for k, v in next, value do
                if type(k) == "string" then
                    visit(v, name .. "." .. k, depth + 1)
                elseif type(k) == "number" then
                    visit(v, ("%s[%s]"):format(name, k), depth + 1)
                end
            end
        end
    end
    for k, v in next, _G do
        if type(k) == "string" and package.loaded[k] == nil then
            visit(v, k, 0)
        end
    end
    return names
end

--- gpu.who() -> list of the live mats, {name=, width=, height=, type=, bytes=, view=, device=, readonly=, where=}, largest first; prints itself.
-- bytes: of its rows with their padding; a view's are its parent's. where: the script's line that made it; name: a global that holds it, as "img.planes[1]".
-- A mat is live until it is closed or collected; this collects first. The list itself keeps no mat alive.
-- @example
-- local m = gpu.mat(300, 200, "u8", {fill = 0})
-- for _, e in ipairs(gpu.who()) do
--     if e.width == 300 then print(e.height, e.type, e.bytes >= 60000) end     --> 200  u8  true
-- end
-- m:close()
function live.public.who()
    collectgarbage()
    local list, names = {}, global_names()
    for m, where in pairs(mats) do
        if tostring(m) ~= "mat (closed)" then
            list[#list + 1] = {name = names[m], width = m.width, height = m.height, type = m.type, bytes = m.step * m.height, view = m:is_view(),
                               device = m.device, readonly = m.readonly, where = where or nil}
        end
    end
    table.sort(list, function(a, b)
        if a.view ~= b.view then
            return b.view
        elseif a.bytes ~= b.bytes then
            return a.bytes > b.bytes
        end
        return (a.where or "") < (b.where or "")
    end)
    return setmetatable(list, who_meta)
end

-- ---- gpu.scope

-- Marks the mats, streams and events that a value holds: in tables of any depth, images, pipelines.
local function mark(value, kept, seen)
    local kind = type(value)
    if kind == "userdata" then
        kept[value] = true
    elseif kind == "table" and not seen[value] then
        seen[value] = true
        local operands = require("gpuwb.pipe").operands(value)
        if operands then
            mark(operands, kept, seen)
        end
        for k, v in next, value do
            mark(k, kept, seen)
            mark(v, kept, seen)
        end
    end
end

local function leave(own, ok, ...)
    for i = newest, 1, -1 do
        if scopes[i] == own then
            scopes[i] = nil
            break
        end
    end
    local kept, outer = {}, newest > 0 and innermost()
    if ok then
        local seen = {}
        for i = 1, select("#", ...) do
            mark((select(i, ...)), kept, seen)
        end
    end
    for object in pairs(own.made) do
        if not kept[object] then
            object:close()
        elseif outer then
            outer.made[object] = true
        end
    end
    if not ok then
        error(..., 0)
    end
    return ...
end

--- gpu.scope(fn, ...) -> what fn returns. Runs fn(...) and then closes the mats, streams and events that were made in it and that are not among what it
-- returns, tables, images and pipelines looked through: memory is released at once, not when the collector comes. What fn stores elsewhere is closed too.
-- After an error in fn all of it is closed. Scopes nest; work under way goes on. While a coroutine has yielded in fn, what others make is not the scope's.
-- @example
-- local kept
-- local sum = gpu.scope(function()
--     local a = gpu.mat(8, 8, "f32", {fill = 1})
--     kept = a
--     return a:cast("f64")
-- end)
-- print(sum:at(0, 0), kept)                        --> 1  mat (closed)
function live.public.scope(fn, ...)
    check.callable("gpu.scope", "fn", fn)
    local own = {made = setmetatable({}, weak), thread = running() or false}
    newest = newest + 1
    scopes[newest] = own
    return leave(own, pcall(fn, ...))
end

return live
