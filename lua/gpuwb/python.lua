-- SPDX-License-Identifier: MIT
-- Python inside a script: a CPython opened by FFI, its objects as Lua values, mats shared with NumPy, CuPy, PyTorch and Numba without a copy.
--
--     local py = require "gpuwb.python"
--     local np = py.import "numpy"
--     local m = gpu.mat(5, 3, "u8", {fill = 7, device = "host"})
--     local a = np.asarray(m)                              -- the same memory: 3 x 5 of uint8
--     a.fill(42)                                           -- a dot, never a colon: a bound method knows its object
--     assert(m:at(4, 2) == 42 and a.sum() == 3 * 5 * 42)
--     local b = np.full(py.tuple {4, 6}, 1.5, py.kw {dtype = "float32"})
--     local n = py.mat(b)                                  -- and the other way: a mat over the array's memory, which it keeps alive
--     n:roi(0, 0, 2, 2):fill(0):wait()                     -- gpuwb's work is asynchronous, and NumPy knows no streams
--     assert(b[0][1] == 0 and b[3][5] == 1.5)
--     assert(py.eval("x * 2 ** 0.5", {x = 2}) > 2.8)
--     local ok, err = pcall(py.eval, "1 / 0")
--     assert(not ok and err.code == "PYTHON" and err.type == "ZeroDivisionError")
--
-- To Python go nil and py.None (None), booleans, numbers (whole ones up to 2^53 as int, all others as float; py.float(x) always), int64_t and uint64_t
-- (int), strings (str, which is UTF-8; py.bytes(s) for bytes), tables with items 1..n (list), other plain tables (dict), py.list, py.tuple and py.dict of
-- a table, mats and images of one plane (gpuwb.Mat), streams (gpuwb.Stream), Python objects. Functions do not: no Python thread ever calls into Lua.
-- From Python come None as nil, bool, int (beyond 2^53 as int64_t or uint64_t, beyond 64 bits as an object), float, NumPy's scalars of these kinds, str
-- and bytes as Lua values. Everything else is an object: o.name and o.name = v, o[i] (from 0, negative too) and o[i] = v, o[py.tuple{…}], o(…), #o,
-- + - * / % ^ and unary minus, ==, < and <=, tostring.
--
-- GPUWB_PYTHON names an interpreter or a libpython*.so; else the first python3 on PATH that has a shared library is opened, with its virtual environment.
-- The thread that requires this first is Python's main thread. Its lock (the GIL) is taken for each call and free between them, so that threads of Python
-- go on. Signals stay gpuwb's: Ctrl-C ends the script when the call that runs returns. An exception is an error of code "PYTHON" whose text has the
-- traceback; `type`, `traceback` and `exception` are fields of it. At the process's exit Python's threads are waited for and its exit functions run.
local ffi = require "ffi"
local check = require "gpuwb.check"
local value = require "gpuwb.python_value"
local streams = require "gpuwb.stream"
local exchange = require "gpuwb.exchange"
local C = require("gpuwb.cdef").C

jit.off(true, true)

local py = {}

local P, hold, made, checked = value.P, value.hold, value.made, value.checked
local to_python, to_lua, result, is_object = value.to_python, value.to_lua, value.result, value.is_object
local EVAL, FILE = 258, 257                     -- what Py_CompileString compiles
local LESS, LESS_EQUAL, EQUAL = 0, 1, 2         -- comparisons

-- {executable=, version=, library=}; of a Python that was in the process already, version alone.
py.info = value.info

-- ---- words for values

--- py.list{…}, py.tuple{…}: a table's items 1..n (or t.n) as a list or tuple; py.dict{…}: all of it as a dict, an empty one too.
local function counted(op, kind)
    return function(t)
        if type(t) ~= "table" or getmetatable(t) ~= nil then
            check.fail("BAD_ARGUMENT", op, "wanted a table, got %s", check.show(t))
        end
        local n = t.n == nil and #t or check.integer(op, "n", t.n, 0, 2 ^ 27)
        local copy = {n = n}
        for i = 1, n do
            copy[i] = t[i]
        end
        return setmetatable(copy, kind)
    end
end
py.list, py.tuple = counted("py.list", value.List), counted("py.tuple", value.Tuple)

function py.dict(t)
    if type(t) ~= "table" or getmetatable(t) ~= nil then
        check.fail("BAD_ARGUMENT", "py.dict", "wanted a table, got %s", check.show(t))
    end
    return setmetatable({items = t}, value.Dict)
end

--- py.bytes(s): a string as bytes. py.float(x): a number as float, whole or not.
function py.bytes(s)
    return setmetatable({text = check.string("py.bytes", "s", s)}, value.Bytes)
end

function py.float(x)
    return setmetatable({number = check.number("py.float", "x", x)}, value.Float)
end

--- py.kw{name = value, …}: keyword arguments, as the last argument of a call.
function py.kw(t)
    local op = "py.kw"
    if type(t) ~= "table" or getmetatable(t) ~= nil then
        check.fail("BAD_ARGUMENT", op, "wanted a table, got %s", check.show(t))
    end
    local copy = {}
    for key, v in pairs(t) do
        copy[check.string(op, "a keyword", key)] = v
    end
    return setmetatable({items = copy}, value.Keywords)
end

-- ---- calls, attributes, items

local function call(op, f, ...)
    local n, kwargs = select("#", ...), nil
    local last = n > 0 and select(n, ...)
    if type(last) == "table" and getmetatable(last) == value.Keywords then
        n = n - 1
        kwargs = made(op, P.PyDict_New())
        for key, v in pairs(last.items) do
            checked(op, P.PyDict_SetItem(kwargs, to_python(op, key), to_python(op, v)))
        end
    end
    local args = made(op, P.PyTuple_New(n))
    for i = 1, n do
        local item = to_python(op, (select(i, ...)))
        P.Py_IncRef(item)
        checked(op, P.PyTuple_SetItem(args, i - 1, item))
    end
    return result(op, P.PyObject_Call(f, args, kwargs))
end

-- f(...) of a borrowed or Lua's own object.
local function call_object(f, ...)
    return call("python", to_python("python", f), ...)
end

local meta = value.meta

function meta.__call(self, ...)
    return hold(call_object, self, ...)
end

local function get(self, key)
    local op = "python"
    local o, k = to_python(op, self), to_python(op, key)
    if type(key) == "string" then
        return result(op, P.PyObject_GetAttr(o, k))
    end
    return result(op, P.PyObject_GetItem(o, k))
end

local function set(self, key, v)
    local op = "python"
    local o, k, item = to_python(op, self), to_python(op, key), to_python(op, v)
    if type(key) == "string" then
        checked(op, P.PyObject_SetAttr(o, k, item))
    else
        checked(op, P.PyObject_SetItem(o, k, item))
    end
end

function meta.__index(self, key)
    return hold(get, self, key)
end

function meta.__newindex(self, key, v)
    hold(set, self, key, v)
end

function meta.__len(self)
    return hold(function() return checked("python", tonumber(P.PyObject_Size(to_python("python", self)))) end)
end

local function as_text(fn)
    return function(v)
        return hold(function() return value.text("python", fn(to_python("python", v))) end)
    end
end

--- py.tostring(v), py.repr(v): str() and repr(). tostring(object) is the first.
py.tostring, py.repr = as_text(P.PyObject_Str), as_text(P.PyObject_Repr)

function meta.__tostring(self)
    local ok, text = pcall(py.tostring, self)
    return ok and text or "a Python object whose str() fails"
end

function meta.__concat(a, b)
    return tostring(a) .. tostring(b)
end

local function compare(a, b, how)
    local op = "python"
    return checked(op, P.PyObject_RichCompareBool(to_python(op, a), to_python(op, b), how)) == 1
end

-- What has no counterpart in Python equals no object.
local function equal(a, b)
    local can, x = pcall(to_python, "python", a)
    local could, y = pcall(to_python, "python", b)
    return can and could and checked("python", P.PyObject_RichCompareBool(x, y, EQUAL)) == 1
end

function meta.__eq(a, b)
    if type(a) == "nil" or type(b) == "nil" then
        return false
    end
    return hold(equal, a, b)
end

function meta.__lt(a, b)
    return hold(compare, a, b, LESS)
end

function meta.__le(a, b)
    return hold(compare, a, b, LESS_EQUAL)
end

local operators = {__add = "add", __sub = "sub", __mul = "mul", __div = "truediv", __mod = "mod", __pow = "pow", __unm = "neg"}
for event, name in pairs(operators) do
    meta[event] = function(a, b)
        return hold(function()
            local op = "python"
            local f = value.attribute(op, made(op, P.PyImport_ImportModule("operator")), name)
            if event == "__unm" then
                return call(op, f, a)
            end
            return call(op, f, a, b)
        end)
    end
end

value.open()
py.None, py.builtins = value.none, value.builtins

-- ---- the module's functions

local function object(op, name, v)
    if not is_object(v) then
        check.fail("BAD_ARGUMENT", op, "%s must be a Python object, got %s", name, check.show(v))
    end
    return v
end

--- py.import(name) -> the module, as "os.path". Errors: PYTHON; where there is no such module the interpreter is named that was asked.
function py.import(name)
    local op = "py.import"
    check.path(op, "name", name)
    return hold(function()
        local module = P.PyImport_ImportModule(name)
        if module == nil then
            value.raise(op, (", in %s (GPUWB_PYTHON names another interpreter)"):format(value.info.executable or "Python " .. value.info.version))
        end
        return value.object(op, module)
    end)
end

-- The namespace of a run: __main__'s own, a Python dict as it is, or a copy of the former with a table's names.
local function namespace(op, names)
    local main = made(op, P.PyImport_AddModule("__main__"))
    P.Py_IncRef(main)       -- it was borrowed
    local dict = P.PyModule_GetDict(main)
    if is_object(names) then
        dict = to_python(op, names)
    elseif names ~= nil then
        if type(names) ~= "table" or getmetatable(names) ~= nil then
            check.fail("BAD_ARGUMENT", op, "names must be a table or a Python dict, got %s", check.show(names))
        end
        local copy = made(op, P.PyDict_New())
        checked(op, P.PyDict_Update(copy, dict))
        dict = copy
        for key, v in pairs(names) do
            checked(op, P.PyDict_SetItem(dict, to_python(op, check.string(op, "a name", key)), to_python(op, v)))
        end
    end
    if P.PyMapping_HasKeyString(dict, "__builtins__") == 0 then
        checked(op, P.PyObject_SetItem(dict, to_python(op, "__builtins__"), to_python(op, py.builtins)))
    end
    return dict
end

local function run(op, code, start, names)
    check.path(op, "code", code)
    return hold(function()
        local dict = namespace(op, names)
        return result(op, P.PyEval_EvalCode(made(op, P.Py_CompileString(code, "<" .. op .. ">", start)), dict, dict))
    end)
end

--- py.exec(code [, names]): runs statements in Python's module __main__. py.eval(expression [, names]) -> its value. names: a table with further names,
-- which are seen beside __main__'s in this run alone; or a Python dict, which is the namespace: what the code assigns is there afterwards.
-- Errors, as of every call into Python: PYTHON, with type, traceback and exception.
function py.exec(code, names)
    run("py.exec", code, FILE, names)
end

function py.eval(code, names)
    return run("py.eval", code, EVAL, names)
end

--- py.number(v) -> the number that a Python object is: whole by its __index__ (beyond 2^53 as for results), else by its __float__. Errors: PYTHON.
function py.number(v)
    local op = "py.number"
    return hold(function()
        local o = to_python(op, v)
        local whole = P.PyNumber_Index(o)
        if whole ~= nil then
            return result(op, whole)
        end
        P.PyErr_Clear()
        return result(op, P.PyNumber_Float(o))
    end)
end

--- py.item(o, key) -> o[key] of Python; py.set_item(o, key, v), py.del_item(o, key): the same for keys that are strings, as of a dict.
function py.item(o, key)
    local op = "py.item"
    object(op, "o", o)
    return hold(function() return result(op, P.PyObject_GetItem(to_python(op, o), to_python(op, key))) end)
end

function py.set_item(o, key, v)
    local op = "py.set_item"
    object(op, "o", o)
    hold(function() checked(op, P.PyObject_SetItem(to_python(op, o), to_python(op, key), to_python(op, v))) end)
end

function py.del_item(o, key)
    local op = "py.del_item"
    object(op, "o", o)
    hold(function() checked(op, P.PyObject_DelItem(to_python(op, o), to_python(op, key))) end)
end

--- py.slice([start,] stop [, step]) -> a slice: o[py.slice(2, 5)] is Python's o[2:5]. nil leaves an end open. Errors: PYTHON.
function py.slice(...)
    return py.builtins.slice(...)
end

--- py.iter(o): for i, v in py.iter(o) goes through the items of anything that can be iterated, counted from 1; None is nil.
function py.iter(o)
    local op = "py.iter"
    object(op, "o", o)
    local iterator = hold(function() return value.object(op, P.PyObject_GetIter(to_python(op, o))) end)
    local function step(i)
        local item = P.PyIter_Next(to_python(op, iterator))
        if item == nil then
            if P.PyErr_Occurred() ~= nil then
                value.raise(op)
            end
            return nil
        end
        return (i or 0) + 1, result(op, item)
    end
    return function(_, i)
        return hold(step, i)
    end, nil, 0
end

--- py.totable(o) -> Lua tables of a list, tuple or dict and all that is in it; other iterables become lists, what is no container stays as it is.
-- None is py.None there, so that it leaves no hole.
function py.totable(o)
    local op = "py.totable"
    local seen = {}     -- containers that are being walked, by address
    local function walk(v)
        if v == nil then
            return py.None
        elseif not is_object(v) then
            return v
        end
        local at = value.address(v)
        if seen[at] then
            check.fail("BAD_ARGUMENT", op, "the container holds itself")
        end
        local t = {}
        if py.isinstance(v, py.builtins.dict) then
            seen[at] = true
            for _, pair in py.iter(v.items()) do
                local key = pair[0]
                t[key == nil and py.None or key] = walk(pair[1])
            end
        elseif py.isinstance(v, py.builtins.list) or py.isinstance(v, py.builtins.tuple) then
            seen[at] = true
            for i, item in py.iter(v) do
                t[i] = walk(item)
            end
        else
            return v
        end
        seen[at] = nil
        return t
    end
    return walk(object(op, "o", o))
end

--- py.isinstance(o, type) -> Python's isinstance.
function py.isinstance(o, kind)
    local op = "py.isinstance"
    object(op, "type", kind)
    return hold(function() return checked(op, P.PyObject_IsInstance(to_python(op, o), to_python(op, kind))) == 1 end)
end

--- py.is(a, b) -> whether both are the same object.
function py.is(a, b)
    return hold(function() return to_python("py.is", a) == to_python("py.is", b) end)
end

--- py.release(o): drops Lua's reference to an object now, which the collector does later; a use after it is an error. Twice is harmless.
function py.release(o)
    meta.__gc(object("py.release", "o", o))
end

--- py.with(context, fn) -> what fn returns: Python's with statement around fn(entered). An error passes through the context's exit, which may swallow it
-- (then nothing is returned).
function py.with(context, fn)
    local op = "py.with"
    object(op, "context", context)
    check.callable(op, "fn", fn)
    local entered = context.__enter__()
    local function leave(ok, ...)
        if ok then
            context.__exit__(nil, nil, nil)
            return ...
        end
        local err = ...
        local exception = type(err) == "table" and rawget(err, "exception")
        if not is_object(exception) then
            local told, text = pcall(tostring, err)
            exception = py.builtins.RuntimeError(told and text or check.show(err))
        end
        if not context.__exit__(py.builtins.type(exception), exception, exception.__traceback__) then
            error(err, 0)
        end
    end
    return leave(pcall(fn, entered))
end

-- ---- mats and streams

local function has(o, name)
    return hold(function() return P.PyObject_HasAttrString(to_python("py.mat", o), name) == 1 end)
end

-- An array interface as a Lua table.
local function interface(op, described)
    local t = {}
    for _, pair in py.iter(described.items()) do
        local key, v = pair[0], pair[1]
        if key == "shape" or key == "strides" or key == "data" then
            if is_object(v) and (py.isinstance(v, py.builtins.tuple) or py.isinstance(v, py.builtins.list)) then
                v = py.totable(v)
            elseif v ~= nil then
                check.fail("UNSUPPORTED", op, "the array's interface has %s = %s; wanted a tuple (numpy.asarray makes an array with a pointer)", key,
                    check.show(v))
            end
        end
        t[key] = v
    end
    return t
end

-- The memory holds a reference of its own to the array, which outlives this Lua state.
local function by_interface(op, array, name, opts)
    local t = interface(op, array[name])
    local o = hold(function()
        local borrowed = to_python(op, array)
        P.Py_IncRef(borrowed)
        return borrowed
    end)
    local owner = {drop = C.gwb_python_release, arg = o}
    local ok, m = pcall(exchange.import_interface, t, {layout = opts.layout, stream = opts.stream}, owner)
    if not owner.taken then
        C.gwb_python_release(o)
    end
    if not ok then
        error(m, 0)
    end
    return m
end

-- DLPack first, since it has the producer's stream wait; what it refuses (read-only arrays in older versions) may have an interface.
local function by_dlpack(op, array, opts)
    local kind, index = hold(function()
        local place = value.helper(op, "_dlpack_device", array)
        return to_lua(op, made(op, P.PyObject_GetItem(place, to_python(op, 0)))), to_lua(op, made(op, P.PyObject_GetItem(place, to_python(op, 1))))
    end)
    local stream, handle = opts.stream, nil
    if kind == 2 or kind == 13 then     -- cuda memory, plain and managed
        stream = stream or streams.default("cuda:" .. index)
        handle = ffi.cast("uintptr_t", stream.handle)
        handle = handle == 0 and 1 or handle
    end
    local address, versioned = hold(function()
        local taken = value.helper(op, "_take", array, handle)
        return to_lua(op, made(op, P.PyObject_GetItem(taken, to_python(op, 0)))), to_lua(op, made(op, P.PyObject_GetItem(taken, to_python(op, 1))))
    end)
    return exchange.public.from_dlpack(ffi.cast("void *", ffi.cast("uintptr_t", address)), {versioned = versioned, layout = opts.layout, stream = stream})
end

--- py.mat(array [, {layout="hwc"|"chw", stream=}]) -> mat over the memory of an array of NumPy, CuPy, PyTorch, Numba or any other with DLPack or an array
-- interface: height x width or height x width x channels, without a copy; the array's memory is kept alive. layout="chw": planes x height x width becomes
-- a list of mats. stream: on a cuda device the stream of gpuwb's that waits for the array's data (default: the device's default stream). What a mat
-- cannot express is an error that says which value. A gpuwb.Mat gives its mat.
function py.mat(array, opts)
    local op = "py.mat"
    opts = check.options(op, opts, {"layout", "stream"})
    check.stream(op, opts.stream)
    if check.is_mat(array) then
        return check.mat(op, "array", array)
    end
    object(op, "array", array)
    local shared = value.mat_of(op, array)
    if shared then
        return shared
    end
    local refused
    if has(array, "__dlpack__") and has(array, "__dlpack_device__") then
        local ok, m = pcall(by_dlpack, op, array, opts)
        if ok then
            return m
        elseif type(m) ~= "table" or m.code ~= "PYTHON" then
            error(m, 0)
        end
        refused = m
    end
    for _, name in ipairs {"__cuda_array_interface__", "__array_interface__"} do
        if has(array, name) then
            return by_interface(op, array, name, opts)
        end
    end
    if refused then
        error(refused, 0)
    end
    return check.fail("BAD_ARGUMENT", op, "%s has neither __dlpack__ nor an array interface; wanted an array (numpy.asarray makes one)", py.repr(array))
end

--- py.stream(s [, "cupy" | "torch" | "numba"]) -> gpuwb.Stream over a stream of gpuwb's, or that library's stream object over it (cuda only), which
-- keeps it alive: py.with(py.stream(s, "cupy"), function() … end).
function py.stream(s, name)
    local op = "py.stream"
    if s == nil then
        check.fail("BAD_ARGUMENT", op, "wanted a stream (gpu.stream()), got nil")
    end
    check.stream(op, s)
    local shared = hold(function() return to_lua(op, to_python(op, s)) end)
    if name == nil then
        return shared
    end
    return shared[check.choice(op, "library", name, {"cupy", "torch", "numba"})]()
end

return py
