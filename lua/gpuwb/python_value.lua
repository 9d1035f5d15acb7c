-- SPDX-License-Identifier: MIT
-- Values between Lua and Python: references and the GIL, what becomes what, exceptions as errors.
local ffi = require "ffi"
local core = require "gpuwb.core"
local check = require "gpuwb.check"
local image = require "gpuwb.image"
local library = require "gpuwb.python_library"
local C = require("gpuwb.cdef").C

jit.off(true, true)

local value = {}

local P, info, started = library.start("python")
value.P, value.info = P, info

local null = ffi.new("gwb_pyobject *")
local exact = 2 ^ 53    -- whole numbers up to here are Lua numbers
local max_depth = 100   -- of tables in tables

-- ---- the GIL, and references that live for one call

local temporaries, top = {}, 0

-- Keeps a new reference until the call ends, and passes it on.
local function temporary(o)
    top = top + 1
    temporaries[top] = o
    return o
end
value.temporary = temporary

local function leave(state, base, ok, ...)
    for i = top, base + 1, -1 do
        local o = temporaries[i]
        temporaries[i] = nil
        top = i - 1
        P.Py_DecRef(o)
    end
    P.PyGILState_Release(state)
    if not ok then
        error(..., 0)
    end
    return ...
end

-- Calls fn(...) with the GIL, and drops the temporary references that it made. Other threads of Python run before and after.
local function hold(fn, ...)
    if P.Py_IsInitialized() == 0 then
        check.fail("CLOSED", "python", "the interpreter has ended")
    end
    return leave(P.PyGILState_Ensure(), top, pcall(fn, ...))
end
value.hold = hold

-- ---- objects. One that Lua holds is a struct with one reference, dropped by the collector.

local Object
local meta = {}
value.meta = meta

function meta.__gc(self)
    local o = self._gpuwb_pointer
    self._gpuwb_pointer = nil       -- at the end of the state it may be used by a finalizer that comes later
    if o ~= nil and P.Py_IsInitialized() ~= 0 then
        local state = P.PyGILState_Ensure()
        P.Py_DecRef(o)
        P.PyGILState_Release(state)
    end
end

local function is_object(v)
    return type(v) == "cdata" and ffi.istype(Object, v)
end
value.is_object = is_object

-- The pointer of an object, borrowed.
local function pointer(self)
    local o = self._gpuwb_pointer
    if o == nil then
        check.fail("CLOSED", "python", "the Python object was released")
    end
    return o
end

-- ---- exceptions

local describe_exception    -- function of gpuwb.py
local slots = ffi.typeof("gwb_pyobject *[3]")

local function text_of(o)
    local encoded = P.PyUnicode_AsEncodedString(o, "utf-8", "surrogateescape")
    if encoded == nil then
        P.PyErr_Clear()
        encoded = P.PyUnicode_AsEncodedString(o, "utf-8", "backslashreplace")   -- of exceptions only: never fails
    end
    temporary(encoded)
    local bytes, size = ffi.new("char *[1]"), ffi.new("intptr_t[1]")
    P.PyBytes_AsStringAndSize(encoded, bytes, size)
    return ffi.string(bytes[0], size[0])
end

-- Raises the exception that Python has set, as gpuwb's error: code "PYTHON"; `type` its class, `traceback` the text, `exception` the object.
local function raise(op)
    local e = slots()
    P.PyErr_Fetch(e, e + 1, e + 2)
    P.PyErr_NormalizeException(e, e + 1, e + 2)
    if e[1] == null then
        check.fail("INTERNAL", op, "a call into Python failed without an exception")
    end
    if e[2] ~= null then
        P.PyException_SetTraceback(e[1], e[2])
        P.Py_DecRef(e[2])
    end
    P.Py_DecRef(e[0])
    local exception = Object(e[1])
    local kind, summary, trace = "Exception", nil, ""
    if describe_exception then
        local args = temporary(P.PyTuple_New(1))
        P.Py_IncRef(e[1])
        P.PyTuple_SetItem(args, 0, e[1])
        local told = P.PyObject_Call(describe_exception, args, nil)
        if told ~= nil then
            temporary(told)
            local parts = {}
            for i = 0, 2 do
                local index = temporary(P.PyLong_FromLongLong(i))
                parts[i + 1] = text_of(temporary(P.PyObject_GetItem(told, index)))
            end
            kind, summary, trace = parts[1], parts[2], parts[3]
        end
    end
    if not summary then         -- that function failed, or is not there yet
        P.PyErr_Clear()
        local text = P.PyObject_Repr(e[1])
        summary = text ~= nil and text_of(temporary(text)) or "an exception that cannot be described"
        P.PyErr_Clear()
    end
    local _, err = pcall(check.fail, "PYTHON", op, "%s", trace ~= "" and summary .. "\n" .. trace or summary)
    err.type, err.traceback, err.exception = kind, trace, exception
    error(err, 0)
end
value.raise = raise

-- A new reference that may be NULL: kept for the call, or the exception raised.
local function made(op, o)
    if o == nil then
        raise(op)
    end
    return temporary(o)
end
value.made = made

local function checked(op, rc)
    if rc < 0 then
        raise(op)
    end
    return rc
end
value.checked = checked

local function attribute(op, o, name)
    return made(op, P.PyObject_GetAttrString(o, name))
end
value.attribute = attribute

-- ---- constants, and the module gpuwb, which is Python text

local None, True, False
local builtins, module
local kinds = {}            -- address of a type -> what its objects become
local share_mat, share_stream

local function address(o)
    return tonumber(ffi.cast("uintptr_t", o))
end

-- A reference for as long as the process lives.
local function forever(o)
    P.Py_IncRef(o)
    return o
end

local numpy_known = false

-- NumPy's scalars are numbers too, once the script has NumPy.
local function know_numpy()
    local numpy = P.PyImport_GetModule(temporary(P.PyUnicode_FromStringAndSize("numpy", 5)))
    if numpy == nil then
        P.PyErr_Clear()
        return false
    end
    temporary(numpy)
    for name, kind in pairs {bool_ = "truth", int8 = "whole", uint8 = "whole", int16 = "whole", uint16 = "whole", int32 = "whole", uint32 = "whole",
                             int64 = "whole", uint64 = "whole", float16 = "real", float32 = "real", float64 = "real"} do
        local t = P.PyObject_GetAttrString(numpy, name)
        if t == nil then        -- NumPy is still being imported, by another thread
            P.PyErr_Clear()
            return false
        end
        kinds[address(t)] = kind    -- a reference for good
    end
    numpy_known = true
    return true
end

-- ---- to Python

local List, Tuple, Dict, Bytes, Float, Keywords = {}, {}, {}, {}, {}, {}
value.List, value.Tuple, value.Dict, value.Bytes, value.Float, value.Keywords = List, Tuple, Dict, Bytes, Float, Keywords
local int64, uint64 = ffi.typeof("int64_t"), ffi.typeof("uint64_t")
local to_python

local function sequence(op, v, n, new, set, depth)
    local o = made(op, new(n))
    for i = 1, n do
        local item = to_python(op, v[i], depth)
        P.Py_IncRef(item)
        checked(op, set(o, i - 1, item))
    end
    return o
end

local function dictionary(op, v, depth)
    local o = made(op, P.PyDict_New())
    for key, item in pairs(v) do
        checked(op, P.PyDict_SetItem(o, to_python(op, key, depth), to_python(op, item, depth)))
    end
    return o
end

-- A plain table: a list where its keys are 1..n, else a dict; the empty one is a list.
local function plain(op, v, depth)
    local n, count = #v, 0
    for _ in pairs(v) do
        count = count + 1
    end
    if count == n then
        return sequence(op, v, n, P.PyList_New, P.PyList_SetItem, depth)
    elseif n > 0 then
        check.fail("BAD_ARGUMENT", op, "a table with %d items of a list and %d more keys is neither a list nor a dict; py.dict{…} says which", n, count - n)
    end
    return dictionary(op, v, depth)
end

local function call_shared(op, fn, v)
    local args = made(op, P.PyTuple_New(1))
    checked(op, P.PyTuple_SetItem(args, 0, P.PyLong_FromUnsignedLongLong(ffi.cast("uintptr_t", ffi.cast("void *", v)))))
    return made(op, P.PyObject_Call(fn, args, nil))
end

local function from_table(op, v, depth)
    if depth > max_depth then
        check.fail("BAD_ARGUMENT", op, "tables are nested more than %d deep; a table that holds itself has no counterpart", max_depth)
    end
    local mt = getmetatable(v)
    if mt == nil then
        return plain(op, v, depth + 1)
    elseif mt == List then
        return sequence(op, v, v.n, P.PyList_New, P.PyList_SetItem, depth + 1)
    elseif mt == Tuple then
        return sequence(op, v, v.n, P.PyTuple_New, P.PyTuple_SetItem, depth + 1)
    elseif mt == Dict then
        return dictionary(op, v.items, depth + 1)
    elseif mt == Bytes then
        return made(op, P.PyBytes_FromStringAndSize(v.text, #v.text))
    elseif mt == Float then
        return made(op, P.PyFloat_FromDouble(v.number))
    elseif mt == Keywords then
        check.fail("BAD_ARGUMENT", op, "py.kw{…} is the last argument of a call")
    elseif image.is(v) then
        if #v.planes ~= 1 then
            check.fail("BAD_ARGUMENT", op, "the image has %d planes: pass img.planes[1], …, or all as img.planes", #v.planes)
        end
        return to_python(op, v.planes[1], depth)
    end
    return check.fail("BAD_ARGUMENT", op, "%s has no counterpart in Python", check.show(v))
end

-- A Lua value -> a pointer, borrowed until the call ends.
function to_python(op, v, depth)
    local kind = type(v)
    if kind == "nil" then
        return None
    elseif kind == "boolean" then
        return v and True or False
    elseif kind == "number" then
        if v == math.floor(v) and math.abs(v) <= exact and not (v == 0 and 1 / v < 0) then
            return made(op, P.PyLong_FromLongLong(v))
        end
        return made(op, P.PyFloat_FromDouble(v))
    elseif kind == "string" then
        local o = P.PyUnicode_FromStringAndSize(v, #v)
        if o == nil then
            P.PyErr_Clear()
            check.fail("BAD_ARGUMENT", op, "the string %s is no UTF-8; py.bytes(s) makes bytes of it", check.show(v))
        end
        return temporary(o)
    elseif kind == "table" then
        return from_table(op, v, depth or 0)
    elseif is_object(v) then
        return pointer(v)
    elseif check.is_mat(v) then
        return call_shared(op, share_mat, check.mat(op, "the mat", v))
    elseif check.is_stream(v) then
        return call_shared(op, share_stream, check.stream(op, v))
    elseif kind == "cdata" and ffi.istype(int64, v) then
        return made(op, P.PyLong_FromLongLong(v))
    elseif kind == "cdata" and ffi.istype(uint64, v) then
        return made(op, P.PyLong_FromUnsignedLongLong(v))
    elseif kind == "function" then
        check.fail("BAD_ARGUMENT", op, "Python cannot call a Lua function: it may do so on any thread and at any time; py.exec defines one in Python")
    end
    return check.fail("BAD_ARGUMENT", op, "%s has no counterpart in Python (an address travels as ffi.cast(\"uintptr_t\", p))", check.show(v))
end
value.to_python = to_python

-- ---- to Lua

-- A number of any size, or nil where it has more than 64 bits.
local function whole(o)
    local n = P.PyLong_AsLongLong(o)
    if n == -1 and P.PyErr_Occurred() ~= nil then
        P.PyErr_Clear()
        local u = P.PyLong_AsUnsignedLongLong(o)
        if P.PyErr_Occurred() ~= nil then
            P.PyErr_Clear()
            return nil
        end
        return u
    end
    if n >= -exact and n <= exact then
        return tonumber(n)
    end
    return n
end

-- A pointer, borrowed -> a Lua value: numbers, strings, bytes, booleans and None as Lua's own, all else an object.
local function to_lua(op, o)
    if o == None then
        return nil
    end
    local at = address(temporary(P.PyObject_Type(o)))
    local kind = kinds[at]
    if not kind and not numpy_known and know_numpy() then
        kind = kinds[at]
    end
    if kind == "truth" then
        return checked(op, P.PyObject_IsTrue(o)) == 1
    elseif kind == "whole" then
        local n = whole(made(op, P.PyNumber_Index(o)))
        if n ~= nil then
            return n
        end
    elseif kind == "real" then
        return P.PyFloat_AsDouble(o)
    elseif kind == "text" then
        local encoded = made(op, P.PyUnicode_AsEncodedString(o, "utf-8", "surrogateescape"))
        local bytes, size = ffi.new("char *[1]"), ffi.new("intptr_t[1]")
        checked(op, P.PyBytes_AsStringAndSize(encoded, bytes, size))
        return ffi.string(bytes[0], size[0])
    elseif kind == "bytes" then
        local bytes, size = ffi.new("char *[1]"), ffi.new("intptr_t[1]")
        checked(op, P.PyBytes_AsStringAndSize(o, bytes, size))
        return ffi.string(bytes[0], size[0])
    end
    P.Py_IncRef(o)
    return Object(o)
end
value.to_lua = to_lua

-- The same of a new reference that may be NULL.
function value.result(op, o)
    return to_lua(op, made(op, o))
end

-- A new reference as an object, whatever it is.
function value.object(op, o)
    made(op, o)
    P.Py_IncRef(o)
    return Object(o)
end

-- A value by its address, and the address of an object: for gpuwb.py, which knows that it lives.
function value.from_address(at)
    return hold(to_lua, "gpuwb.Lua", ffi.cast("gwb_pyobject *", at))
end

function value.address(self)
    return address(pointer(self))
end

-- Calls a function of gpuwb.py, within hold.
function value.helper(op, name, ...)
    local n = select("#", ...)
    local args = made(op, P.PyTuple_New(n))
    for i = 1, n do
        local item = to_python(op, (select(i, ...)))
        P.Py_IncRef(item)
        checked(op, P.PyTuple_SetItem(args, i - 1, item))
    end
    return made(op, P.PyObject_Call(attribute(op, module, name), args, nil))
end

-- A mat over the memory of a gpuwb.Mat, nil for any other object.
function value.mat_of(op, v)
    return hold(function()
        local at = to_lua(op, value.helper(op, "_mat_address", v))
        if at == 0 then
            return nil
        end
        local m, p = core.mat.new(), ffi.cast("gwb_mat *", ffi.cast("uintptr_t", at))
        check.status(C.gwb_mat_view(m, p, 0, 0, p.width, p.height), op)
        return m
    end)
end

-- Text of str() or repr(), a new reference.
function value.text(op, o)
    return text_of(made(op, o))
end

-- ---- start

local function import_module(op)
    local name = made(op, P.PyUnicode_FromStringAndSize("gpuwb", 5))
    local found = P.PyImport_GetModule(name)
    if found ~= nil then        -- that module itself made this Lua state
        return found
    end
    P.PyErr_Clear()
    found = forever(made(op, P.PyImport_AddModule("gpuwb")))    -- borrowed
    P.Py_IncRef(found)
    local text = assert(core.embedded("lua/gpuwb.py"), "lua/gpuwb.py is missing")
    local dict = P.PyModule_GetDict(found)
    checked(op, P.PyDict_SetItem(dict, to_python(op, "_library_path"), to_python(op, C ~= ffi.C and core.library or nil)))
    checked(op, P.PyDict_SetItem(dict, to_python(op, "__builtins__"), builtins))
    local code = made(op, P.Py_CompileString(text, "lua/gpuwb.py", 257))    -- Py_file_input
    made(op, P.PyEval_EvalCode(code, dict, dict))
    return found
end

-- Called once, when all metamethods are in value.meta.
function value.open()
    Object = Object or ffi.metatype("gwb_python_object", meta)      -- there already where an earlier attempt failed
    hold(function()
        local op = "python"
        builtins = made(op, P.PyImport_ImportModule("builtins"))
        forever(builtins)
        None, True, False = forever(attribute(op, builtins, "None")), forever(attribute(op, builtins, "True")), forever(attribute(op, builtins, "False"))
        for name, kind in pairs {bool = "truth", int = "whole", float = "real", str = "text", bytes = "bytes"} do
            kinds[address(forever(attribute(op, builtins, name)))] = kind
        end
        module = import_module(op)
        describe_exception = forever(attribute(op, module, "_describe"))
        share_mat, share_stream = forever(attribute(op, module, "_share_mat")), forever(attribute(op, module, "_share_stream"))
        if started then     -- once a process: what it registers ends Python
            made(op, P.PyObject_Call(attribute(op, module, "_embedded"), made(op, P.PyTuple_New(0)), nil))
            started = false
        end
        value.none, value.builtins = Object(forever(None)), Object(forever(builtins))
    end)
end

return value
