-- SPDX-License-Identifier: MIT
-- Which Python the specs use: GPUWB_PYTHON, else the first python3 with NumPy whose library can be opened. Python stays in the process for all specs.
local gpu = require "gpuwb"
local ffi = require "ffi"
local helper = require "tests.helper"

ffi.cdef [[
int setenv(const char *name, const char *value, int overwrite);
void __lsan_disable(void);
void __lsan_enable(void);
]]

local python = {}

-- The leak checker sees no objects in Python's own arenas, and so takes what only they refer to for lost; blocks of malloc it sees, freed ones too.
local asan = helper.command():find("/asan/", 1, true)
if asan then
    ffi.C.setenv("PYTHONMALLOC", "malloc", 1)
end

local function choose()
    if (os.getenv("GPUWB_PYTHON") or "") ~= "" then
        return
    end
    local list = helper.run("which -a python3")
    for path in (list .. "\n/usr/bin/python3\n"):gmatch("[^\n]+") do
        local text = helper.run(("GPUWB_PYTHON=%s %s -e 'require(\"gpuwb.python\").import(\"numpy\") print(\"found\")'"):format(path, helper.command()))
        if text:find("^found") then
            ffi.C.setenv("GPUWB_PYTHON", path, 1)
            return
        end
    end
end

choose()
local ok, py = pcall(require, "gpuwb.python")
-- The module, or nil and why there is none.
python.py, python.why = ok and py or nil, not ok and tostring(py) or nil

-- A mat as the gpuwb.Mat that Python sees.
function python.shared(m)
    return py.eval("m", {m = m})
end

-- Lets go of all that only the collectors hold.
function python.collect()
    collectgarbage()
    collectgarbage()
    py.import("gc").collect()
    gpu.memory()
end

-- An interpreter for processes of its own; it needs no shared library. nil where there is none.
function python.interpreter()
    local named = os.getenv("GPUWB_PYTHON") or ""
    if named ~= "" and not named:find("%.so[%d.]*$") then
        return named
    elseif python.py then
        return python.py.info.executable
    end
    return helper.run("command -v python3"):match("[^\n]+")
end

-- A module that may be missing, or nil and why.
function python.library(name)
    if not python.py then
        return nil, python.why
    end
    if asan then        -- what a library loses while it is imported is its own matter; NumPy does
        ffi.C.__lsan_disable()
    end
    local found, module = pcall(python.py.import, name)
    if asan then
        ffi.C.__lsan_enable()
    end
    if found then
        return module
    end
    return nil, tostring(module):match("^[^\n]*")
end

return python
