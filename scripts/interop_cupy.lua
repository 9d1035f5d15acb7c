-- SPDX-License-Identifier: MIT
-- CuPy on gpuwb's memory and stream, and gpuwb on CuPy's. Wants a cuda device and CuPy.
-- Usage: gpuwb scripts/interop_cupy.lua
local gpu = require "gpuwb"
local py = require "gpuwb.python"
local cp = py.import "cupy"

gpu.device "cuda"
local s = gpu.stream()
local m = gpu.mat(3, 3, "f32", {fill = 0, stream = s})      -- an identity matrix
for i = 0, 2 do
    m:roi(i, i, 1, 1):fill(1, {stream = s})
end

local a = py.with(py.stream(s, "cupy"), function()          -- CuPy works on gpuwb's stream
    local a = cp.asarray(m)
    cp.multiply(a, 42, py.kw {out = a})
    return a
end)
m:record_stream(s)                                          -- gpuwb did not see that: what comes waits for it
print("gpuwb's", m)
print("is CuPy's", py.repr(a.shape), py.builtins.hex(a.data.ptr))
for _, row in ipairs(m:totable()) do
    print(unpack(row))
end

local b = cp.arange(12, py.kw {dtype = "float32"}).reshape(3, 4)
local n = py.mat(b)                                         -- a mat over CuPy's memory, which it keeps alive
print("CuPy's", py.repr(b.shape), py.builtins.hex(b.data.ptr))
print("is gpuwb's", n, n:at(3, 2))
