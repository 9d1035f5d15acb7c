-- SPDX-License-Identifier: MIT
-- Two processes, one piece of memory: the second turns the picture of the first into its negative, in order by an event that both have.
-- Usage: gpuwb [--device host|cuda:N] scripts/interop_ipc.lua      it starts itself again as the second process
local gpu = require "gpuwb"

if arg[1] then      -- the second process
    local m, done = gpu.from_ipc(arg[1]), gpu.event_from_ipc(arg[2])
    gpu.copy(m, gpu.map("255 - v", {v = m}, "u8"))
    gpu.default_stream():record(done)
    print "issued"
    io.flush()
    gpu.synchronize()
    return
end

local function quote(word)
    return "'" .. word:gsub("'", "'\\''") .. "'"
end

local first = 0
while arg[first - 1] do
    first = first - 1
end

local m, done = gpu.mat(640, 480, "u8", {shared = true}), gpu.event {shared = true}
gpu.copy(m, gpu.map("mod(x, 256)", {}, {width = 640, height = 480, type = "u8"}))
local before = m:at(10, 0)
local words = {}
for i = first, 0 do words[#words + 1] = quote(arg[i]) end
local peer = assert(io.popen(table.concat(words, " ") .. " " .. quote(m:ipc_handle()) .. " " .. quote(done:ipc_handle()), "r"))
assert(peer:read() == "issued", "the second process failed")
m:record_stream(gpu.default_stream():wait(done))    -- whatever uses m from here on waits
print(m.device, before, (m:at(10, 0)))              -- 10 245
peer:close()
