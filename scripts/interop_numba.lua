-- SPDX-License-Identifier: MIT
-- Upload, a Numba kernel, download, on one stream of gpuwb's, with times. Wants a cuda device and Numba.
-- Usage: gpuwb scripts/interop_numba.lua
local gpu = require "gpuwb"
local py = require "gpuwb.python"
local ffi = require "ffi"
py.import "numba.cuda"

gpu.device "cuda"
local names = py.builtins.dict()
py.exec([[
from numba import cuda

@cuda.jit
def scale(a, factor):
    x, y = cuda.grid(2)
    if y < a.shape[0] and x < a.shape[1]:
        a[y, x] *= factor

def launch(m, factor, stream):
    a = cuda.as_cuda_array(m, sync=False)       # the kernel comes behind gpuwb's work on the same stream
    scale[((m.width + 31) // 32, (m.height + 7) // 8), (32, 8), stream](a, factor)
]], names)
local launch = py.item(names, "launch")

local width, height = 1920, 1080
local s = gpu.stream()
local theirs = py.stream(s, "numba")
local host = gpu.host_mat(width, height, "f32", {fill = 2})
local m = gpu.mat(width, height, "f32")
local back = ffi.new("float[?]", width * height)

launch(m, 1, theirs)                                        -- Numba compiles
s:synchronize()
local start, uploaded, done = gpu.event(), gpu.event(), gpu.event()
s:record(start)
gpu.copy(m, host, {stream = s})
s:record(uploaded)
launch(m, 21, theirs)
m:record_stream(s)
s:record(done)
m:download(back, {stream = s})
print(("upload %.3f ms, kernel %.3f ms, result %g"):format(gpu.elapsed(start, uploaded), gpu.elapsed(uploaded, done), back[width * height - 1]))
assert(back[0] == 42 and back[width * height - 1] == 42)
