-- SPDX-License-Identifier: MIT
-- Upload, a Numba kernel, download, with times: on cuda all on one stream of gpuwb's, on the host Numba's compiled loop. Wants Numba.
-- Usage: gpuwb [--device host|cuda:N] scripts/interop_numba.lua
local gpu = require "gpuwb"
local py = require "gpuwb.python"
local ffi = require "ffi"

local on_cuda = gpu.device() ~= "host"
py.import(on_cuda and "numba.cuda" or "numba")
local names = py.builtins.dict()
py.exec(on_cuda and [[
from numba import cuda

@cuda.jit
def scale(a, factor):
    x, y = cuda.grid(2)
    if y < a.shape[0] and x < a.shape[1]:
        a[y, x] *= factor

def launch(m, factor, stream):
    a = cuda.as_cuda_array(m, sync=False)       # the kernel comes behind gpuwb's work on the same stream
    scale[((m.width + 31) // 32, (m.height + 7) // 8), (32, 8), stream](a, factor)
    return hex(a.__cuda_array_interface__["data"][0])
]] or [[
import numba, numpy

@numba.njit
def scale(a, factor):
    for y in range(a.shape[0]):
        for x in range(a.shape[1]):
            a[y, x] *= factor

def launch(m, factor, stream):
    a = numpy.asarray(m)                        # waits for gpuwb's work on m
    scale(a, factor)
    return hex(a.ctypes.data)
]], names)
local launch = py.item(names, "launch")

local width, height = 1920, 1080
local s = gpu.stream()
local theirs = on_cuda and py.stream(s, "numba") or nil
local host = gpu.host_mat(width, height, "f32", {fill = 2})
local m = gpu.mat(width, height, "f32")
local back = ffi.new("float[?]", width * height)

print("gpuwb's", m)
print("is Numba's", launch(m:fill(0, {stream = s}), 1, theirs))     -- and Numba has compiled
s:synchronize()
local start, uploaded, scaled, done = gpu.event(), gpu.event(), gpu.event(), gpu.event()
s:record(start)
gpu.copy(m, host, {stream = s})
s:record(uploaded)
if not on_cuda then
    s:synchronize()                             -- Numba runs on this thread there
end
launch(m, 21, theirs)
s:record(scaled)
m:record_stream(s)                              -- gpuwb did not see that kernel
m:download(back, {stream = s})
s:record(done)
print(("upload %.3f ms, kernel %.3f ms, download %.3f ms, result %g"):format(gpu.elapsed(start, uploaded), gpu.elapsed(uploaded, scaled),
    gpu.elapsed(scaled, done), back[width * height - 1]))
assert(back[0] == 42 and back[width * height - 1] == 42)
