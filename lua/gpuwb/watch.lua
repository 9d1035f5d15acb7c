-- SPDX-License-Identifier: MIT
-- gpuwb --watch: runs a script again when it or a file that it loaded changes. Windows stay, errors are shown and waited out.
local check = require "gpuwb.check"
local posix = require "gpuwb.posix"

local watch = {}
local SETTLE = 0.05     -- seconds in which further changes belong to the same saving

-- ---- which files: what is opened for reading while the script runs, and its modules

-- luacheck: push ignore 121 122

local function track(notice)
    local io_open, io_lines, old_loadfile, old_dofile = io.open, io.lines, loadfile, dofile
    local function note(path)
        if type(path) == "string" and not path:find("^/proc/") and not path:find("^/dev/") then
            notice:add(path)    -- at once: a script may run until a file changes
        end
    end
    local gpu, originals = require "gpuwb", {}
    for _, name in ipairs {"load", "load_raw", "frames"} do
        originals[name] = gpu[name]
        gpu[name] = function(path, ...)
            note(path)
            return originals[name](path, ...)
        end
    end
    io.open = function(path, mode)
        if mode == nil or type(mode) == "string" and mode:find("^r") and not mode:find("+", 1, true) then
            note(path)
        end
        return io_open(path, mode)
    end
    io.lines = function(path, ...)
        note(path)
        return io_lines(path, ...)
    end
    loadfile = function(path, ...)
        note(path)
        return old_loadfile(path, ...)
    end
    dofile = function(path)
        note(path)
        return old_dofile(path)
    end
    return function()
        io.open, io.lines, loadfile, dofile = io_open, io_lines, old_loadfile, old_dofile
        for name, fn in pairs(originals) do
            gpu[name] = fn
        end
    end
end

-- luacheck: pop

-- Files of modules that were loaded since, which are forgotten so that the next run loads them anew.
local function forget_modules(before, notice)
    for name in pairs(package.loaded) do
        if not before[name] and type(name) == "string" and not name:find("^gpuwb") then
            local path = package.searchpath(name, package.path)
            if path then
                notice:add(path)
                package.loaded[name] = nil
            end
        end
    end
end

-- ---- one run

-- Runs the script in globals of its own. Gives the error's text, or nil; true as well where it was Ctrl-C.
local function run(script, notice)
    local before = {}
    for name in pairs(package.loaded) do
        before[name] = true
    end
    local restore = track(notice)
    local ok, message = xpcall(function()
        local chunk = assert(loadfile(script))
        local env = setmetatable({}, {__index = _G})
        env._G = env
        setfenv(chunk, env)
        chunk(unpack(arg or {}))
    end, function(e)
        local text = type(e) == "string" and e or tostring(e)
        return text:find("interrupted!", 1, true) and text or debug.traceback(text, 2)
    end)
    restore()
    forget_modules(before, notice)
    if ok then
        return nil
    end
    return message, message:find("interrupted!", 1, true) ~= nil
end

-- Waits for a change. False where the last window was closed.
local function wait(show, notice, had_windows)
    while not notice:changed(0.02) do
        if had_windows and not show.any_window() then
            return false
        end
    end
    return true
end

local function loop(script, notice, show)
    local clears = posix.isatty(1)
    local changed
    show.keep_windows(function()
        changed = changed or notice:changed(0)
        return changed
    end)
    repeat
        if clears then
            io.write("\27[H\27[2J")
        end
        changed = false
        show.begin_run()
        local failure, interrupted = run(script, notice)
        if interrupted then
            return
        end
        local had_windows = show.end_run(failure)
        io.flush()
        if failure then
            io.stderr:write(failure, "\n")
        end
        io.stderr:write(("watch: %s; waiting for a change of %s\n"):format(failure and "failed" or "done", script))
        local again = changed or wait(show, notice, had_windows)
        while again and notice:changed(SETTLE) do end     -- luacheck: ignore 542
    until not again
end

-- Runs the script now and after each change, until Ctrl-C or, where it had windows, the last one is closed.
function watch.run(script)
    local notice = posix.notice()
    if not notice then
        check.fail("UNSUPPORTED", "--watch", "this system tells of no changed files (inotify)")
    end
    local file = io.open(script, "r")
    if not file then
        check.fail("NO_FILE", "--watch", "%s cannot be read", script)
    end
    file:close()
    notice:add(script)
    local ok, err = pcall(loop, script, notice, require "gpuwb.show")
    if not ok and not tostring(err):find("interrupted!", 1, true) then
        error(err, 0)
    end
end

return watch
