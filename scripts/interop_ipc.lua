-- SPDX-License-Identifier: MIT
-- One piece of memory, several processes. A second gpuwb turns the picture into its negative, in order by an event that both have; then Python does, in
-- processes without gpuwb: NumPy on the host, CuPy and PyTorch on cuda, which also share memory of their own that gpuwb opens.
-- Usage: gpuwb [--device host|cuda:N] scripts/interop_ipc.lua      (GPUWB_PYTHON, else python3; what it lacks is named)
local gpu = require "gpuwb"

if arg[1] then      -- the second gpuwb
    local m, done = gpu.from_ipc(arg[1]), gpu.event_from_ipc(arg[2])
    gpu.copy(m, gpu.map("255 - v", {v = m}, "u8"))
    gpu.default_stream():record(done)
    print "issued"
    io.flush()
    gpu.synchronize()
    return
end

local function run(...)
    local words = {}
    for i, word in ipairs {...} do
        words[i] = "'" .. tostring(word):gsub("'", "'\\''") .. "'"
    end
    io.flush()
    return assert(io.popen(table.concat(words, " "), "r"))
end

local width, height = 640, 480
local m, done = gpu.mat(width, height, "u8", {shared = true}), gpu.event {shared = true}
gpu.copy(m, gpu.map("mod(x, 256)", {}, {width = width, height = height, type = "u8"}))
local before = m:at(10, 0)
local first = 0
while arg[first - 1] do
    first = first - 1
end
local words = {unpack(arg, first, 0)}
words[#words + 1], words[#words + 2] = m:ipc_handle(), done:ipc_handle()
local peer = run(unpack(words))
assert(peer:read() == "issued", "the second process failed")
m:record_stream(gpu.default_stream():wait(done))    -- whatever uses m from here on waits
print("gpuwb", m.device, before, (m:at(10, 0)))     -- 10 245
peer:close()

-- ---- Python. handle, where the first pixel lies, bytes of a row; it waits for its own work before it prints

local start = [[
import sys, time
try:
    import %s
except ImportError as e:
    sys.exit(print("absent:", e))
index, width, height, offset, step = map(int, sys.argv[2:])
handle = sys.argv[1]
]]
local wait = [[
for _ in range(3000):       # gpuwb tells in the shared memory that it is ready with b
    if int(a[0, 0]) == 200: break
    time.sleep(0.01)
print(float(b[-1, -1]))
]]
local programs = {
    numpy = [[
a = numpy.ndarray((height, width), "u1", numpy.memmap(handle, "u1", "r+"), offset, (step, 1))
numpy.subtract(255, a, out=a)
print("done")
]],
    cupy = [[
cupy.cuda.Device(index).use()
memory = cupy.cuda.UnownedMemory(cupy.cuda.runtime.ipcOpenMemHandle(bytes.fromhex(handle)), offset + step * height, None)
a = cupy.ndarray((height, width), "u1", cupy.cuda.MemoryPointer(memory, offset), (step, 1))
cupy.subtract(255, a, out=a)
b = cupy.ndarray((height, width), "f4", cupy.cuda.MemoryPointer(cupy.cuda.Memory(4 * width * height), 0))
b.fill(7)
cupy.cuda.Device().synchronize()
print(cupy.cuda.runtime.ipcGetMemHandle(b.data.ptr).hex(), 0, flush=True)
]] .. wait,
    torch = [[
torch.cuda.set_device(index)
memory = torch.UntypedStorage._new_shared_cuda(index, bytes.fromhex(handle), offset + step * height, 0, b"", 0, b"", False)
a = torch.empty(0, dtype=torch.uint8, device="cuda").set_(memory, offset, (height, width), (step, 1))
a.copy_(255 - a)
b = torch.full((height, width), 7.0, device="cuda")
torch.cuda.synchronize()
theirs = b.untyped_storage()._share_cuda_()
print(theirs[1][-64:].hex(), theirs[3], flush=True)
]] .. wait,
}

local python = os.getenv("GPUWB_PYTHON") or ""
python = (python == "" or python:find("%.so[%d.]*$")) and "python3" or python
for _, name in ipairs(m.device == "host" and {"numpy"} or {"cupy", "torch"}) do
    before = m:at(10, 0)
    local handle, offset = m:ipc_handle {raw = true}
    if m.device ~= "host" then
        handle = handle:gsub(".", function(c) return ("%02x"):format(c:byte()) end)
    end
    local index = m.device:match("%d+") or 0
    local pipe = run(python, "-c", start:format(name) .. programs[name], handle, index, width, height, offset, m.step)
    local said = pipe:read() or "failed"
    local hex, at = said:match("^(%x+) (%d+)$")
    if not hex then
        print(name, m.device, before, said == "done" and m:at(10, 0) or said)
    else
        local bytes = hex:gsub("%x%x", function(byte) return string.char(tonumber(byte, 16)) end)
        local b = gpu.from_ipc(bytes, {width = width, height = height, type = "f32", offset = tonumber(at), device = m.device})
        local after, seen = m:at(10, 0), b:at(0, 0)
        b:fill(8):wait()
        m:roi(0, 0, 1, 1):fill(200):wait()
        print(name, m.device, before, after, "and its own memory", seen, pipe:read())       -- 245 10, 7 8.0
        b:close()
    end
    pipe:close()
end
