-- SPDX-License-Identifier: MIT
-- NumPy on gpuwb's memory and gpuwb on NumPy's: nothing is copied.
-- Usage: gpuwb scripts/interop_numpy.lua [PICTURE]
local gpu = require "gpuwb"
local py = require "gpuwb.python"
local np = py.import "numpy"

gpu.device "host"       -- NumPy reads host memory
local img = arg[1] and gpu.load(arg[1]):convert("rgb24") or gpu.image("rgb24", 640, 480)
if not arg[1] then
    img.planes[1]:fill {200, 100, 50}
end

local a = np.asarray(img)                                   -- height x width x 3, waits for gpuwb's work
print("gpuwb's", img.planes[1])
print("is NumPy's", a.shape, py.builtins.hex(a.ctypes.data), a.mean(py.kw {axis = py.tuple {0, 1}}))

np.subtract(255, a, py.kw {out = a})                        -- NumPy writes …
print("inverted by NumPy", img.planes[1]:at(0, 0))          -- … and gpuwb reads the same bytes

local ramp = np.tile(np.linspace(0, 1, 256, py.kw {dtype = "float32"}), py.tuple {64, 1})
local m = py.mat(ramp)                                      -- a mat over the array's memory
m:roi(0, 0, 256, 8):fill(1)
m:wait()                                                    -- gpuwb's work is asynchronous, NumPy knows no streams
print("NumPy's", py.builtins.hex(ramp.ctypes.data))
print("is gpuwb's", m)
print("filled by gpuwb", ramp[0][0], ramp[63][0])
