-- SPDX-License-Identifier: MIT
-- Devices: the list, the current one, memory, and the collector that device bytes drive.
local ffi = require "ffi"
local core = require "gpuwb.core"
local check = require "gpuwb.check"
local C = require("gpuwb.cdef").C

local device = {}

local names = {}    -- position -> "cuda:0"

-- The name of the device at a position of the list.
function device.name(position)
    local name = names[position]
    if not name then
        local info = ffi.new("gwb_device_info")
        check.status(C.gwb_device_info_get(position, info), "gpu.device")
        name = ffi.string(info.name)
        names[position] = name
    end
    return name
end

-- Position of the current device, or of the named one.
function device.position(op, name)
    if name == nil then
        return check.status(C.gwb_device_current(), op)
    end
    return check.status(C.gwb_device_find(check.string(op, "device", name)), op)
end

--- gpu.devices() -> list of {name=, model=, kind=, index=, memory=, units=, capability=}. The host device is always there, last in the list.
-- memory in bytes; units: multiprocessors (cuda) or threads (host); capability: "9.0" (cuda).
function device.devices()
    local list, host = {}, nil
    for position = 0, C.gwb_device_count() - 1 do
        local info = ffi.new("gwb_device_info")
        check.status(C.gwb_device_info_get(position, info), "gpu.devices")
        local d = {name = ffi.string(info.name), model = ffi.string(info.model), kind = info.cuda == 1 and "cuda" or "host", index = info.index,
                   memory = tonumber(info.memory), units = info.units,
                   capability = info.cuda == 1 and info.major .. "." .. info.minor or nil}
        if position == 0 then
            host = d
        else
            list[#list + 1] = d
        end
    end
    list[#list + 1] = host
    return list
end

--- gpu.device() -> name of the current device; gpu.device("host" | "cuda" | "cuda:1") makes that one current and returns its name.
-- Errors: NO_DEVICE with the reason, BAD_ARGUMENT for a name that is none.
function device.device(name)
    if name ~= nil then
        check.status(C.gwb_device_use(device.position("gpu.device", name)), "gpu.device")
    end
    return device.name(device.position("gpu.device"))
end

local function restore(position, ok, ...)
    C.gwb_device_use(position)
    if not ok then
        if type((...)) == "string" and (...):find("attempt to yield across C-call boundary", 1, true) then
            check.fail("UNSUPPORTED", "gpu.on", "a coroutine cannot yield in fn, whose device is everybody's meanwhile: yield behind gpu.on, or name the "
                .. "device in what fn does (device=)")
        end
        error(..., 0)
    end
    return ...
end

--- gpu.on("cuda:1", fn, ...) -> what fn returns. Runs fn with that device current; the one before is restored, also on an error.
-- Errors: those of fn, NO_DEVICE; UNSUPPORTED where a coroutine yields in fn.
function device.on(name, fn, ...)
    local wanted = device.position("gpu.on", check.string("gpu.on", "device", name))
    check.callable("gpu.on", "fn", fn)
    local before = device.position("gpu.on")
    check.status(C.gwb_device_use(wanted), "gpu.on")
    return restore(before, pcall(core.whole, fn, ...))
end

--- gpu.memory([device]) -> {used=, cached=, peak=, limit=, free=, total=} in bytes; limit is 0 where none is set.
function device.memory(name)
    local m = ffi.new("gwb_memory")
    device.release_owners()
    check.status(C.gwb_memory_get(device.position("gpu.memory", name), m), "gpu.memory")
    return {used = tonumber(m.used), cached = tonumber(m.cached), peak = tonumber(m.peak), limit = tonumber(m.limit), free = tonumber(m.free),
            total = tonumber(m.total)}
end

--- gpu.trim([device]) -> bytes given back to the device: memory that was kept for reuse. Waits for work that still uses it.
function device.trim(name)
    local bytes = check.status(C.gwb_trim(device.position("gpu.trim", name)), "gpu.trim")
    device.release_owners()
    return bytes
end

--- gpu.limit(bytes [, device]): the most bytes that mats of the device may take; 0: no limit. More is an OUT_OF_MEMORY error.
function device.limit(bytes, name)
    check.integer("gpu.limit", "bytes", bytes, 0, 2 ^ 53)
    check.status(C.gwb_limit(device.position("gpu.limit", name), bytes), "gpu.limit")
end

--- gpu.synchronize([device]): waits for all work of the device.
function device.synchronize(name)
    check.status(C.gwb_synchronize(device.position("gpu.synchronize", name)), "gpu.synchronize")
    device.release_owners()
end

--- gpu.why_no_cuda() -> nil where there is a cuda device, else a sentence that says why there is none.
function device.why_no_cuda()
    local why = C.gwb_cuda_absent()
    if why ~= nil then
        return ffi.string(why)
    end
    return nil
end

-- ---- collection. The collector sees some 100 bytes a mat; what the mats hold must drive it.

local first_owner = core.owner_keys     -- no other Lua state of the process has these keys
local owners, last_owner = {}, first_owner      -- luacheck: ignore 241 (key -> what must live as long as wrapped memory is used)

-- Keeps `owner` alive until the memory under the returned key is no longer used.
function device.keep(owner)
    last_owner = last_owner + 1
    owners[last_owner] = owner
    return last_owner
end

-- Lets an owner go whose memory was never taken.
function device.forget(key)
    owners[key] = nil
end

-- Deleters of imported memory are other libraries' code, which a compiled FFI call must not run.
local function run_deleters()
    C.gwb_run_deleters()
end
jit.off(run_deleters)

-- Lets go of the owners of memory that is no longer used.
function device.release_owners()
    local key = tonumber(C.gwb_released_owner(first_owner))
    while key ~= 0 do
        owners[key] = nil
        key = tonumber(C.gwb_released_owner(first_owner))
    end
    if C.gwb_deleters_due() == 1 then
        run_deleters()
    end
end

local release_owners = device.release_owners

-- Collects where enough bytes came up since the last time that it pays, and lets go of what is no longer used.
function device.collect_due()
    if C.gwb_collect_due() == 1 then
        collectgarbage()
        C.gwb_collected()
    end
    release_owners()
end

-- Collects, lets go of what is no longer used, and gives what was kept for reuse on the device at `position` back.
function device.collect(position)
    collectgarbage()
    collectgarbage()        -- what a weak table has for a key goes a turn later than the key
    C.gwb_collected()
    release_owners()
    C.gwb_trim(position)
end

-- Calls make(...), a function that returns a status, for memory on the device at `position`: collects first where that pays, and once more
-- before an out-of-memory error is raised.
function device.allocate(op, position, make, ...)
    device.collect_due()
    local rc = make(...)
    if rc < 0 and ffi.string(C.gwb_status_name(rc)) == "OUT_OF_MEMORY" then
        device.collect(position)
        rc = make(...)
    end
    check.status(rc, op)
end

return device
