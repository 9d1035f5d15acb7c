-- SPDX-License-Identifier: MIT
-- Streams and events.
local ffi = require "ffi"
local core = require "gpuwb.core"
local check = require "gpuwb.check"
local device = require "gpuwb.device"
local live = require "gpuwb.live"
local C = require("gpuwb.cdef").C

local stream = {}
local stream_methods, event_methods = {}, {}
stream.methods, stream.event_methods = stream_methods, event_methods     -- other modules hang theirs here

local new_stream, new_event = live.scoped(core.stream.new), live.scoped(core.event.new)
local stream_pointer, event_pointer = ffi.typeof("gwb_stream *"), ffi.typeof("gwb_event *")

-- ---- making

--- gpu.stream([{priority=, blocking=, device=}]) -> stream of the current device, owned by the script.
-- priority: lower runs first, 0 the default (cuda clamps it to what the device has). blocking=false: does not wait for CUDA's legacy default stream.
-- @example
-- local s, m = gpu.stream(), gpu.mat(4, 4, "u8")
-- m:fill(5, {stream = s})                          -- does not wait; what reads m does
-- print(m:at(0, 0))                                --> 5
function stream.create(opts)
    local op = "gpu.stream"
    opts = check.options(op, opts, {"priority", "blocking", "device"})
    local p = ffi.new("gwb_stream_params")
    p.priority = opts.priority and check.integer(op, "priority", opts.priority, -1000, 1000) or 0
    p.nonblocking = opts.blocking ~= nil and not check.boolean(op, "blocking", opts.blocking) and 1 or 0
    local s = new_stream()
    check.status(C.gwb_stream_create(s, device.position(op, opts.device), p), op)
    return s
end

local owners = setmetatable({}, {__mode = "k"})     -- wrapped stream -> what keeps its handle valid

--- gpu.wrap_stream(ptr, {owner=, device=}) -> stream over a foreign CUstream, never destroyed here; the handle's value is what `ptr` points to: a cdata
-- pointer, or 1 and 2 for CUDA's legacy and per-thread default streams. owner: a value that lives as long as the stream.
function stream.wrap(ptr, opts)
    local op = "gpu.wrap_stream"
    opts = check.options(op, opts, {"owner", "device"})
    local handle
    if ptr == 1 or ptr == 2 then
        handle = ffi.cast("void *", ptr)
    else
        handle = check.pointer(op, "ptr", ptr)
    end
    local p = ffi.new("gwb_stream_params")
    p.handle, p.foreign = handle, 1
    local s = new_stream()
    check.status(C.gwb_stream_create(s, device.position(op, opts.device), p), op)
    owners[s] = opts.owner
    return s
end

--- gpu.default_stream([device]) -> the stream of operations that name none.
function stream.default(name)
    local op = "gpu.default_stream"
    local s = new_stream()
    check.status(C.gwb_stream_default(s, device.position(op, name)), op)
    return s
end

--- gpu.event([{timing=true, shared=, device=}]) -> event; timing=false: keeps no time. shared=true: other processes can open it by e:ipc_handle(); it
-- keeps no time and stays on its device (default: the current one).
function stream.event(opts)
    local op = "gpu.event"
    opts = check.options(op, opts, {"timing", "shared", "device"})
    local shared = check.boolean(op, "shared", opts.shared)
    local timing = opts.timing == nil and not shared or check.boolean(op, "timing", opts.timing)
    local e = new_event()
    if shared then
        if timing then
            check.fail("BAD_ARGUMENT", op, "a shared event keeps no time; leave timing out")
        end
        check.status(C.gwb_event_create_shared(e, device.position(op, opts.device)), op)
        return e
    elseif opts.device ~= nil then
        check.fail("BAD_ARGUMENT", op, "an event takes the device of the stream that records it; device belongs to shared = true")
    end
    check.status(C.gwb_event_create(e, timing and 1 or 0), op)
    return e
end

--- gpu.elapsed(e1, e2) -> milliseconds from e1 to e2; waits for both.
function stream.elapsed(e1, e2)
    local op = "gpu.elapsed"
    check.event(op, "e1", e1)
    check.event(op, "e2", e2)
    local ms = ffi.new("double[1]")
    check.status(C.gwb_event_elapsed(e1, e2, ms), op)
    return ms[0]
end

--- Fields of a stream, which cannot be assigned.
-- @field handle ffi.cdata* void *: the CUstream; on the host device an opaque pointer
-- @field device string "host", "cuda:0"

--- Fields of an event, which cannot be assigned.
-- @field handle ffi.cdata* void *: the CUevent; nil before it is first recorded
-- @field device string "cuda:0"; nil before it is first recorded

-- ---- methods

local function self_stream(op, s)
    if not check.is_stream(s) then
        check.fail("BAD_ARGUMENT", op, "call it as a method of a stream, got %s", check.show(s))
    end
    return check.stream(op, s)
end

--- s:synchronize(): waits for all work in the stream.
function stream_methods:synchronize()
    check.status(C.gwb_stream_synchronize(self_stream("stream:synchronize", self)), "stream:synchronize")
    return self
end

--- s:query() -> true where all work in the stream is done.
function stream_methods:query()
    return check.status(C.gwb_stream_query(self_stream("stream:query", self)), "stream:query") == 1
end

--- s:wait(event | stream) -> s: later work of s runs after the event, or after what the other stream holds now.
function stream_methods:wait(what)
    local op = "stream:wait"
    self_stream(op, self)
    if check.is_event(what) then
        check.status(C.gwb_stream_wait_event(self, check.event(op, "event", what)), op)
    elseif check.is_stream(what) then
        check.status(C.gwb_stream_wait_stream(self, check.stream(op, what)), op)
    else
        check.fail("BAD_ARGUMENT", op, "wanted an event or a stream, got %s", check.show(what))
    end
    return self
end

--- s:record([event]) -> the event (a new one where none is given), which is reached when the work before it is done.
function stream_methods:record(event)
    local op = "stream:record"
    self_stream(op, self)
    if event == nil then
        event = stream.event()
    end
    check.status(C.gwb_event_record(check.event(op, "event", event), self), op)
    return event
end

--- s:sleep(ms) -> s: keeps the stream busy for about that long (0..10000), to try out order.
function stream_methods:sleep(ms)
    local op = "stream:sleep"
    self_stream(op, self)
    check.status(C.gwb_stream_sleep(self, check.number(op, "ms", ms)), op)
    return self
end

--- s:close(), e:close(): releases now; work in the stream goes on. Twice is harmless.
function stream_methods:close()
    if not check.is_stream(self) then
        check.fail("BAD_ARGUMENT", "stream:close", "call it as a method of a stream, got %s", check.show(self))
    end
    C.gwb_stream_close(self)
    owners[self] = nil
end

function event_methods:close()
    if not check.is_event(self) then
        check.event("event:close", "event", self)
    end
    C.gwb_event_close(self)
end

--- e:synchronize(): waits until the event is reached. e:query() -> true where it is. An event that was not recorded counts as reached.
function event_methods:synchronize()
    check.status(C.gwb_event_synchronize(check.event("event:synchronize", "event", self)), "event:synchronize")
    return self
end

function event_methods:query()
    return check.status(C.gwb_event_query(check.event("event:query", "event", self)), "event:query") == 1
end

-- ---- metatables

local function index(kind, pointer, methods, fields)
    return function(self, key)
        local method = methods[key]
        if method then
            return method
        end
        local field = fields[key]
        if not field then
            return check.fail("BAD_ARGUMENT", kind, "%s has no field or method %s", kind, check.show(key))
        end
        local p = ffi.cast(pointer, self)
        if p.tag == 0 then
            check.fail("CLOSED", kind .. "." .. key, "the %s is closed", kind)
        end
        return field(p)
    end
end

local function handle(p)
    local h = p.handle
    if h == nil then
        return nil
    end
    return h
end

local function describe(kind, pointer)
    return function(self)
        local p = ffi.cast(pointer, self)
        if p.tag == 0 then
            return kind .. " (closed)"
        end
        local where = p.device >= 0 and device.name(p.device) or "not recorded"
        return ("%s %s %s"):format(kind, where, p.handle ~= nil and tostring(ffi.cast("void *", p.handle)):match("0x%x+") or "-")
    end
end

local function fixed(kind)
    return function(_, key)
        check.fail("READ_ONLY", kind, "%s's %s cannot be assigned", kind, check.show(key))
    end
end

local stream_meta, event_meta = core.stream.meta, core.event.meta
stream_meta.__index = index("stream", stream_pointer, stream_methods, {
    handle = handle,
    device = function(p) return device.name(p.device) end,
})
event_meta.__index = index("event", event_pointer, event_methods, {
    handle = handle,
    device = function(p) return p.device >= 0 and device.name(p.device) or nil end,
})
stream_meta.__tostring, event_meta.__tostring = describe("stream", stream_pointer), describe("event", event_pointer)
stream_meta.__newindex, event_meta.__newindex = fixed("stream"), fixed("event")
function stream_meta.__eq(a, b)
    return ffi.cast(stream_pointer, a).queue == ffi.cast(stream_pointer, b).queue
end

return stream
