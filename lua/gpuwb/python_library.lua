-- SPDX-License-Identifier: MIT
-- CPython as a shared library: finds one that belongs to an interpreter, opens it, starts it. Only functions of the stable ABI are declared.
local ffi = require "ffi"
local check = require "gpuwb.check"

jit.off(true, true)     -- Python runs anything, which a compiled FFI call must not

local library = {}

local C = ffi.C     -- the library is opened for all, or it is the process's own: extension modules find its symbols in the same place

if not pcall(ffi.typeof, "gwb_python_object") then
    ffi.cdef [[
typedef struct gwb_pyobject gwb_pyobject;
typedef struct gwb_python_object { gwb_pyobject *_gpuwb_pointer; } gwb_python_object;  // what Lua holds; no attribute is called that
void *dlopen(const char *path, int flags);
char *dlerror(void);

int Py_IsInitialized(void);
void Py_InitializeEx(int signals);
const char *Py_GetVersion(void);
wchar_t *Py_DecodeLocale(const char *text, size_t *size);
void Py_SetProgramName(const wchar_t *name);
void PyMem_RawFree(void *p);
void *PyEval_SaveThread(void);
int PyGILState_Ensure(void);
void PyGILState_Release(int state);

void Py_IncRef(gwb_pyobject *o);
void Py_DecRef(gwb_pyobject *o);
gwb_pyobject *PyImport_ImportModule(const char *name);
gwb_pyobject *PyImport_AddModule(const char *name);
gwb_pyobject *PyImport_GetModule(gwb_pyobject *name);
gwb_pyobject *PyModule_GetDict(gwb_pyobject *module);
gwb_pyobject *Py_CompileString(const char *text, const char *file, int start);
gwb_pyobject *PyEval_EvalCode(gwb_pyobject *code, gwb_pyobject *globals, gwb_pyobject *locals);

gwb_pyobject *PyObject_GetAttr(gwb_pyobject *o, gwb_pyobject *name);
gwb_pyobject *PyObject_GetAttrString(gwb_pyobject *o, const char *name);
int PyObject_SetAttr(gwb_pyobject *o, gwb_pyobject *name, gwb_pyobject *value);
int PyObject_HasAttrString(gwb_pyobject *o, const char *name);
gwb_pyobject *PyObject_GetItem(gwb_pyobject *o, gwb_pyobject *key);
int PyObject_SetItem(gwb_pyobject *o, gwb_pyobject *key, gwb_pyobject *value);
int PyObject_DelItem(gwb_pyobject *o, gwb_pyobject *key);
gwb_pyobject *PyObject_Call(gwb_pyobject *f, gwb_pyobject *args, gwb_pyobject *kwargs);
intptr_t PyObject_Size(gwb_pyobject *o);
gwb_pyobject *PyObject_Str(gwb_pyobject *o);
gwb_pyobject *PyObject_Repr(gwb_pyobject *o);
int PyObject_IsTrue(gwb_pyobject *o);
int PyObject_IsInstance(gwb_pyobject *o, gwb_pyobject *type);
int PyObject_RichCompareBool(gwb_pyobject *a, gwb_pyobject *b, int op);
gwb_pyobject *PyObject_Type(gwb_pyobject *o);
gwb_pyobject *PyObject_GetIter(gwb_pyobject *o);
gwb_pyobject *PyIter_Next(gwb_pyobject *iterator);

gwb_pyobject *PyLong_FromLongLong(long long v);
gwb_pyobject *PyLong_FromUnsignedLongLong(unsigned long long v);
long long PyLong_AsLongLong(gwb_pyobject *o);
unsigned long long PyLong_AsUnsignedLongLong(gwb_pyobject *o);
gwb_pyobject *PyNumber_Index(gwb_pyobject *o);
gwb_pyobject *PyNumber_Float(gwb_pyobject *o);
gwb_pyobject *PyFloat_FromDouble(double v);
double PyFloat_AsDouble(gwb_pyobject *o);
gwb_pyobject *PyUnicode_FromStringAndSize(const char *utf8, intptr_t size);
gwb_pyobject *PyUnicode_AsEncodedString(gwb_pyobject *o, const char *encoding, const char *errors);
gwb_pyobject *PyBytes_FromStringAndSize(const char *bytes, intptr_t size);
int PyBytes_AsStringAndSize(gwb_pyobject *o, char **bytes, intptr_t *size);
gwb_pyobject *PyTuple_New(intptr_t size);
int PyTuple_SetItem(gwb_pyobject *tuple, intptr_t i, gwb_pyobject *stolen);
gwb_pyobject *PyList_New(intptr_t size);
int PyList_SetItem(gwb_pyobject *list, intptr_t i, gwb_pyobject *stolen);
gwb_pyobject *PyDict_New(void);
int PyDict_SetItem(gwb_pyobject *dict, gwb_pyobject *key, gwb_pyobject *value);
int PyDict_Update(gwb_pyobject *dict, gwb_pyobject *other);
int PyMapping_HasKeyString(gwb_pyobject *o, const char *key);

gwb_pyobject *PyErr_Occurred(void);
void PyErr_Clear(void);
void PyErr_Fetch(gwb_pyobject **type, gwb_pyobject **value, gwb_pyobject **trace);
void PyErr_NormalizeException(gwb_pyobject **type, gwb_pyobject **value, gwb_pyobject **trace);
int PyException_SetTraceback(gwb_pyobject *exception, gwb_pyobject *trace);
    ]]
end

local RTLD_NOW, RTLD_GLOBAL, RTLD_NODELETE = 2, 0x100, 0x1000

-- Asked of an interpreter: what it is, and the files that may be its library.
local question = [[
import os, sys, sysconfig
get = sysconfig.get_config_var
names = [n for n in (get("INSTSONAME"), get("LDLIBRARY")) if n and ".so" in n]
names.append("libpython%d.%d%s.so.1.0" % (sys.version_info[0], sys.version_info[1], sys.abiflags))
folders = [get("LIBDIR"), os.path.join(get("LIBDIR") or "", get("MULTIARCH") or ""), os.path.join(sys.base_prefix, "lib"), get("LIBPL")]
print("python", sys.version.split()[0], sys.executable, sep="\t")
for name in names:
    for folder in folders:
        path = os.path.join(folder or "", name)
        if folder and os.path.exists(path):
            print("library", path, sep="\t")
print("name", names[-1], sep="\t")
]]

local function quote(word)
    return "'" .. word:gsub("'", "'\\''") .. "'"
end

local function output(command)
    local pipe = io.popen(command, "r")
    local text = pipe and pipe:read("*a") or ""
    if pipe then
        pipe:close()
    end
    return text
end

-- The reason why dlopen failed, or nil where it is open.
local function open(path)
    if C.dlopen(path, RTLD_NOW + RTLD_GLOBAL + RTLD_NODELETE) ~= nil then
        return nil
    end
    local text = C.dlerror()
    return text ~= nil and ffi.string(text) or "cannot be opened"
end

local function version_of(text)
    local major, minor = text:match("^(%d+)%.(%d+)")
    return tonumber(major), tonumber(minor)
end

-- An interpreter -> {executable=, version=, library=} with its library open, or nil and why not.
local function take(interpreter)
    local text = output(quote(interpreter) .. " -c " .. quote(question) .. " 2>&1")
    local version, executable = text:match("python\t([^\t\n]+)\t([^\n]+)")
    if not version then
        local why = text:gsub("%s+$", ""):match("[^\n]*$")
        return nil, why == "" and "does not run" or "does not run as Python does: " .. (#why > 150 and why:sub(1, 150) .. " …" or why)
    end
    local major, minor = version_of(version)
    if major ~= 3 or minor < 8 then
        return nil, "is Python " .. version .. "; wanted 3.8 or later"
    end
    local tried = {}
    for path in text:gmatch("library\t([^\n]+)") do
        local why = open(path)
        if not why then
            return {executable = executable, version = version, library = path}
        end
        tried[#tried + 1] = why
    end
    local name = text:match("name\t([^\n]+)")
    local why = open(name)
    if not why then
        return {executable = executable, version = version, library = name}
    end
    return nil, ("is Python %s without a shared library (%s); on Debian or Ubuntu install libpython%d.%d, a Python of your own needs --enable-shared")
        :format(version, #tried > 0 and table.concat(tried, "; ") or why, major, minor)
end

-- A library -> the same; its interpreter is looked for beside it, since the modules and a virtual environment are found from that.
local function take_library(path)
    local why = open(path)
    if why or not pcall(function() return C.Py_GetVersion end) then
        return nil, why or "is no library of Python"
    end
    local version = ffi.string(C.Py_GetVersion()):match("^%S+")
    local major, minor = version_of(version)
    local folder = path:match("^(.*)/[^/]*$")
    for _ = 1, 4 do
        folder = folder and folder:match("^(.*)/[^/]*$")
        local executable = folder and ("%s/bin/python%d.%d"):format(folder, major, minor)
        local file = executable and io.open(executable)
        if file then
            file:close()
            return {executable = executable, version = version, library = path}
        end
    end
    return {version = version, library = path}
end

-- Every python3 on PATH, the first one first, and the system's.
local function interpreters()
    local list, seen = {}, {}
    for folder in ((os.getenv("PATH") or "") .. ":/usr/bin"):gmatch("[^:]+") do
        local path = folder .. "/python3"
        local file = not seen[path] and io.open(path)
        seen[path] = true
        if file then
            file:close()
            list[#list + 1] = path
        end
    end
    return list
end

-- A library that is in the process is used as it is; GPUWB_PYTHON is taken or refused; else the first that can be used wins.
local function find(op)
    local chosen = os.getenv("GPUWB_PYTHON")
    if chosen and chosen ~= "" then
        local info, why = (chosen:find("%.so[%d.]*$") and take_library or take)(chosen)
        if not info then
            check.fail("UNSUPPORTED", op, "GPUWB_PYTHON: %s %s", chosen, why)
        end
        return info
    end
    local tried = {}
    for _, path in ipairs(interpreters()) do
        local info, why = take(path)
        if info then
            return info
        end
        tried[#tried + 1] = path .. " " .. why
    end
    return check.fail("UNSUPPORTED", op, "found no Python to open (GPUWB_PYTHON names an interpreter or a library). Tried: %s",
        #tried > 0 and table.concat(tried, "; ") or "no python3 on PATH")
end

local function in_process()
    return pcall(function() return C.Py_IsInitialized end)
end

--- library.start(op) -> the C functions, {executable=, version=, library=}, and whether Python was started here. Raises UNSUPPORTED where no usable
-- Python is found, with all that was tried. The thread that calls first is Python's main thread. Signals stay as they are; the GIL is free on return.
function library.start(op)
    if in_process() and C.Py_IsInitialized() ~= 0 then
        return C, {version = ffi.string(C.Py_GetVersion()):match("^%S+")}, false
    end
    local info = find(op)
    local version = ffi.string(C.Py_GetVersion()):match("^%S+")
    if version ~= info.version then
        check.fail("UNSUPPORTED", op, "%s is the library of Python %s, and %s is Python %s", info.library, version, tostring(info.executable), info.version)
    end
    if info.executable then     -- from the program's name Python finds its modules, and the virtual environment
        if not pcall(function() return C.Py_SetProgramName end) then
            check.fail("UNSUPPORTED", op, "Python %s lacks Py_SetProgramName; wanted one of 3.8 to 3.14", version)
        end
        local name = C.Py_DecodeLocale(info.executable, nil)
        C.Py_SetProgramName(name)       -- copies it
        C.PyMem_RawFree(name)
    end
    C.Py_InitializeEx(0)
    C.PyEval_SaveThread()
    return C, info, true
end

return library
