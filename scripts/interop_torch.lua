-- SPDX-License-Identifier: MIT
-- PyTorch on a picture of gpuwb's: normalised in place, on one stream, without a copy. Runs on the host too.
-- Usage: gpuwb scripts/interop_torch.lua [PICTURE]
local gpu = require "gpuwb"
local py = require "gpuwb.python"
local torch = py.import "torch"

local img = arg[1] and gpu.load(arg[1]) or gpu.image("rgb24", 640, 480)
if not arg[1] then
    img.planes[1]:fill {200, 100, 50}
end
local planes = img:convert("rgbpf32le").planes              -- 0..1, a plane a channel
local on_cuda = planes[1].device ~= "host"
local s = gpu.stream()

local function normalise()
    for i, mean in ipairs {0.485, 0.456, 0.406} do
        local t = torch.from_dlpack(planes[i])                   -- torch's current stream waits for gpuwb's work
        t.sub_(mean).div_(({0.229, 0.224, 0.225})[i])
        print("gpuwb's", planes[i], "is torch's", py.builtins.hex(t.data_ptr()))
    end
end

if on_cuda then
    py.with(torch.cuda.stream(py.stream(s, "torch")), normalise)
    for i = 1, 3 do
        planes[i]:record_stream(s)                          -- gpuwb's later work waits for torch's
    end
else
    normalise()
end
for i = 1, 3 do
    print(("RGB"):sub(i, i), planes[i]:at(0, 0))
end

local t = torch.full(py.tuple {4, 6, 3}, 7, py.kw {dtype = torch.uint8, device = on_cuda and "cuda" or "cpu"})
print("torch's", py.builtins.hex(t.data_ptr()))
print("is gpuwb's", py.mat(t), py.mat(t):at(5, 3))            -- a mat over torch's memory
