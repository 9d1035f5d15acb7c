-- SPDX-License-Identifier: MIT
-- Arguments and errors: every misuse raises one kind of error, at the line of the caller's script.
local ffi = require "ffi"
local core = require "gpuwb.core"

local check = {}

-- An error: {code = "OUT_OF_MEMORY", message = "gpu.mat: …", op = "gpu.mat", where = "script.lua:3"}; tostring gives the whole sentence.
local Error = {}
Error.__index = Error
Error.__name = "gpuwb.error"

function Error.__tostring(e)
    return (e.where and e.where .. ": " or "") .. tostring(e.message)
end

function Error.__concat(a, b)
    return tostring(a) .. tostring(b)
end

check.Error = Error

-- "script.lua:3": the innermost line that is not gpuwb's own.
local function caller()
    for level = 3, 1000 do
        local info = debug.getinfo(level, "Sl")
        if not info then
            return nil
        end
        if info.currentline > 0 and not info.source:find("^@lua/gpuwb/") then
            return info.short_src .. ":" .. info.currentline
        end
    end
    return nil
end

-- Raises. code: a status name; op: what the script called; the rest as string.format takes it.
function check.fail(code, op, format, ...)
    local text = select("#", ...) > 0 and format:format(...) or format
    error(setmetatable({code = code, op = op, message = op .. ": " .. text, where = caller()}, Error), 0)
end

local C, mat_pointer, stream_pointer, event_pointer     -- once cdef.lua has declared them

function check.use(namespace)
    C = namespace
    mat_pointer, stream_pointer, event_pointer = ffi.typeof("gwb_mat *"), ffi.typeof("gwb_stream *"), ffi.typeof("gwb_event *")
end

-- Passes a status of 0 or more on; raises the failure that a negative one stands for.
function check.status(rc, op)
    rc = tonumber(rc)
    if rc < 0 then
        check.fail(ffi.string(C.gwb_status_name(rc)), op, "%s", ffi.string(C.gwb_error_message()))
    end
    return rc
end

-- A value in an error text: short, never failing.
function check.show(v)
    local kind = type(v)
    if kind == "string" then
        return #v > 40 and ("%q…"):format(v:sub(1, 40)) or ("%q"):format(v)
    elseif kind == "number" or kind == "boolean" or kind == "nil" then
        return tostring(v)
    elseif kind == "cdata" then
        return tostring(ffi.typeof(v))
    end
    local mt = debug.getmetatable(v)
    local name = type(mt) == "table" and type(mt.__name) == "string" and mt.__name or kind
    return (name:find("^[aeio]") and "an " or "a ") .. name
end

local show = check.show

-- A whole number lo..hi, else an error that names all.
function check.integer(op, name, v, lo, hi)
    if type(v) ~= "number" or v ~= math.floor(v) or v < lo or v > hi then
        check.fail("BAD_ARGUMENT", op, "%s must be a whole number %.0f..%.0f, got %s", name, lo, hi, show(v))
    end
    return v
end

function check.number(op, name, v)
    if type(v) ~= "number" then
        check.fail("BAD_ARGUMENT", op, "%s must be a number, got %s", name, show(v))
    end
    return v
end

function check.string(op, name, v)
    if type(v) ~= "string" then
        check.fail("BAD_ARGUMENT", op, "%s must be a string, got %s", name, show(v))
    end
    return v
end

-- A path for C: a string without NUL bytes.
function check.path(op, name, v)
    if type(v) ~= "string" or v == "" or v:find("\0", 1, true) then
        check.fail("BAD_ARGUMENT", op, "%s must be a path: a string that is not empty and holds no NUL byte, got %s", name, show(v))
    end
    return v
end

function check.boolean(op, name, v)
    if v ~= nil and type(v) ~= "boolean" then
        check.fail("BAD_ARGUMENT", op, "%s must be true or false, got %s", name, show(v))
    end
    return v or false
end

function check.callable(op, name, v)
    local callable = type(v) == "function"
    if type(v) == "cdata" then      -- all of it has a __call; C functions and pointers to them can be called
        callable = tostring(ffi.typeof(v)):find("%(%*?%)%(") ~= nil
    elseif not callable then
        local mt = debug.getmetatable(v)
        callable = type(mt) == "table" and rawget(mt, "__call") ~= nil
    end
    if not callable then
        check.fail("BAD_ARGUMENT", op, "%s must be a function, got %s", name, show(v))
    end
    return v
end

-- One of the names in a list; the error lists them.
function check.choice(op, name, v, list)
    for _, known in ipairs(list) do
        if v == known then
            return v
        end
    end
    return check.fail("BAD_ARGUMENT", op, "%s must be one of %s, got %s", name, table.concat(list, ", "), show(v))
end

-- An options table (nil counts as empty) whose keys are all in `known`, a list of names or a set.
function check.options(op, given, known)
    if given == nil then
        return {}
    end
    if type(given) ~= "table" then
        check.fail("BAD_ARGUMENT", op, "options must be a table, got %s", show(given))
    end
    for key in pairs(given) do
        local found = known[key] ~= nil and type(key) ~= "number"
        for _, name in ipairs(known) do
            found = found or name == key
        end
        if not found then
            local names = {}
            for k, v in pairs(known) do
                names[#names + 1] = type(k) == "number" and v or k
            end
            table.sort(names)
            check.fail("BAD_ARGUMENT", op, "unknown option %s; known: %s", show(key), #names > 0 and table.concat(names, ", ") or "none")
        end
    end
    return given
end

-- ---- the userdata. A metatable shows its sentinel, which nothing else has.

local sentinels = {}
for _, kind in ipairs {"mat", "stream", "event"} do
    local sentinel = {}
    sentinels[kind] = sentinel
    core[kind].meta.__metatable = sentinel
    core[kind].meta.__name = kind
end

local mat_sentinel, stream_sentinel, event_sentinel = sentinels.mat, sentinels.stream, sentinels.event
local getmetatable, type = getmetatable, type

function check.is_mat(v)
    return type(v) == "userdata" and getmetatable(v) == mat_sentinel
end

function check.is_stream(v)
    return type(v) == "userdata" and getmetatable(v) == stream_sentinel
end

function check.is_event(v)
    return type(v) == "userdata" and getmetatable(v) == event_sentinel
end

-- A live mat; returns it.
function check.mat(op, name, v)
    if type(v) ~= "userdata" or getmetatable(v) ~= mat_sentinel then
        check.fail("BAD_ARGUMENT", op, "%s must be a mat, got %s", name, show(v))
    end
    if ffi.cast(mat_pointer, v).tag == 0 then
        check.fail("CLOSED", op, "%s is closed", name)
    end
    return v
end

-- A live stream, or nil for the default one.
function check.stream(op, v)
    if v == nil then
        return nil
    end
    if type(v) ~= "userdata" or getmetatable(v) ~= stream_sentinel then
        check.fail("BAD_ARGUMENT", op, "stream must be a stream (gpu.stream()), got %s", show(v))
    end
    if ffi.cast(stream_pointer, v).tag == 0 then
        check.fail("CLOSED", op, "stream is closed")
    end
    return v
end

function check.event(op, name, v)
    if type(v) ~= "userdata" or getmetatable(v) ~= event_sentinel then
        check.fail("BAD_ARGUMENT", op, "%s must be an event (gpu.event()), got %s", name, show(v))
    end
    if ffi.cast(event_pointer, v).tag == 0 then
        check.fail("CLOSED", op, "%s is closed", name)
    end
    return v
end

-- Puts a C handle into owner.handle, closed with the last reference. At the program's end LuaJIT does that before it runs the script's finalizers:
-- they then find nil there.
function check.own(owner, handle, close)
    local weak = setmetatable({owner}, {__mode = "v"})
    owner.handle = ffi.gc(handle, function(h)
        if weak[1] then
            weak[1].handle = nil
        end
        close(h)
    end)
    return owner
end

-- Closes owner.handle now, once.
function check.disown(owner, close)
    local handle = owner.handle
    if handle then
        owner.handle = nil
        close(ffi.gc(handle, nil))
    end
end

-- A cdata pointer or array as `void *`, and the bytes it is known to hold (nil for a bare pointer). NULL and everything else is an error.
local pointer_kind = {}     -- by ctype id: "pointer", "array" or false
function check.pointer(op, name, v)
    if type(v) == "cdata" and tonumber(v) == nil then   -- a C type is cdata too, and a number; of a pointer tonumber makes nil
        local ctype = ffi.typeof(v)
        local id = tonumber(ctype)
        local kind = pointer_kind[id]
        if kind == nil then
            local text = tostring(ctype)
            kind = text:find("%(%*%)%(") and false or text:find("%[[%d?]*%]") and not text:find("%(%*") and "array" or
                text:find("%*[%s%a]*>$") and "pointer" or text:find("%(%*") and "pointer" or false
            pointer_kind[id] = kind
        end
        if kind then
            local p = ffi.cast("void *", v)
            if p == nil then
                check.fail("BAD_ARGUMENT", op, "%s is a NULL pointer", name)
            end
            return p, kind == "array" and ffi.sizeof(v) or nil
        end
    end
    return check.fail("BAD_ARGUMENT", op, "%s must be a cdata pointer or array, got %s (an address is never a number: use ffi.cast)", name, show(v))
end

return check
