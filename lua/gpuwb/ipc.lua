-- SPDX-License-Identifier: MIT
-- Mats and events shared between the processes of one machine. A handle is a line of text that travels by any way there is: a pipe, a file, an argument.
--
--     local m = gpu.mat(640, 480, "u8", {shared = true, fill = 3})
--     local done = gpu.event {shared = true}
--     m:fill(4)
--     gpu.default_stream():record(done)
--     local peer = io.popen("gpuwb -e 'local m, done = gpu.from_ipc(io.read()), gpu.event_from_ipc(io.read()) "
--         .. "m:record_stream(gpu.default_stream():wait(done)) assert(m:at(0, 0) == 4) m:fill(5) gpu.synchronize()'", "w")
--     peer:write(m:ipc_handle(), "\n", done:ipc_handle(), "\n")
--     peer:close()
--     assert(m:at(639, 479) == 5)
--
-- The process that made a mat or event keeps it until the others have closed theirs (cuda) or opened it (host). Work of different processes is
-- ordered by events alone: a stream waits for one, and m:record_stream(s) makes gpuwb's other work on m wait for that stream. The memory is the same
-- for all, other libraries too (m:ipc_handle{raw = true}): on the host an anonymous file, on cuda what cuIpcOpenMemHandle opens.
local ffi = require "ffi"
local core = require "gpuwb.core"
local check = require "gpuwb.check"
local types = require "gpuwb.types"
local live = require "gpuwb.live"
local device = require "gpuwb.device"
local mat = require "gpuwb.mat"
local streams = require "gpuwb.stream"
local C = require("gpuwb.cdef").C

local new_mat, new_event = live.scoped(core.mat.new), live.scoped(core.event.new)

local ipc = {public = {}}

local HANDLE_BYTES = 512
local max_size = 2147483647

local function text_of(op, fn, object)
    local text = ffi.new("char[?]", HANDLE_BYTES)
    check.status(fn(object, text, HANDLE_BYTES), op)
    return ffi.string(text)
end

local function check_handle(op, handle)
    if type(handle) ~= "string" or handle:find("\0", 1, true) then
        check.fail("BAD_ARGUMENT", op, "handle must be the string that ipc_handle() gave, got %s", check.show(handle))
    end
    return (handle:gsub("%s+$", ""))
end

--- m:ipc_handle([{raw=}]) -> handle, a line of text by which gpu.from_ipc opens m in another process. m or a mat that it is a view of must have been
-- made with {shared = true}. Waits for the work that uses m. raw=true, for other libraries (scripts/interop_ipc.lua): on cuda the driver's 64 bytes
-- (cudaIpcMemHandle_t), as CuPy's and PyTorch's calls take them, on the host a path to map; and the offset in bytes of m's first pixel behind the
-- memory's start. m.step and m.height say how many bytes are used. Errors: UNSUPPORTED for memory that is not shared, and for none.
function mat.methods:ipc_handle(opts)
    local op = "mat:ipc_handle"
    check.mat(op, "mat", self)
    local raw = check.boolean(op, "raw", check.options(op, opts, {"raw"}).raw)
    local handle = text_of(op, C.gwb_mat_ipc_handle, self)
    if not raw then
        return handle
    end
    local memory, offset = handle:match("[^:]*$"), tonumber(C.gwb_mat_offset(self))
    local pid, fd = memory:match("^(%d+)%.(%d+)%.")
    if pid then
        return ("/proc/%s/fd/%s"):format(pid, fd), offset
    elseif not memory:find("^%x+$") then
        check.fail("UNSUPPORTED", op, "%s has no memory that another library could open", tostring(self))
    end
    return (memory:gsub("%x%x", function(byte) return string.char(tonumber(byte, 16)) end)), offset
end

--- gpu.from_ipc(handle) -> mat over memory of another process. gpu.from_ipc(bytes, {width=, height=, type=, step=, offset=, device=, readonly=}): the
-- same of the 64 bytes that another library got from cudaIpcGetMemHandle; step and offset in bytes (default: tight rows, 0). The memory is let go
-- when no mat and no work uses it any more. Errors: NO_FILE where the process that made it is gone, NO_DEVICE where its device is not seen here,
-- BAD_ARGUMENT for what is no handle.
function ipc.public.from_ipc(handle, opts)
    local op = "gpu.from_ipc"
    if type(handle) == "string" and not handle:find("^gpuwb") and (#handle == 64 or opts ~= nil) then
        if #handle ~= 64 then
            check.fail("BAD_ARGUMENT", op, "a handle of CUDA's has 64 bytes, got %d (hex is twice as long; of PyTorch's, handle:sub(-64))", #handle)
        elseif opts == nil then
            check.fail("BAD_ARGUMENT", op, "64 bytes of CUDA's say no shape; give {width =, height =, type =}")
        end
        opts = check.options(op, opts, {"width", "height", "type", "step", "offset", "device", "readonly"})
        local width = check.integer(op, "width", opts.width, 0, max_size)
        local height = check.integer(op, "height", opts.height, 0, max_size)
        local code, channels, element = types.parse(op, "type", opts.type)
        local step = opts.step == nil and width * types.size[element] * channels or check.integer(op, "step", opts.step, 0, 2 ^ 53)
        local offset = opts.offset == nil and 0 or check.integer(op, "offset", opts.offset, 0, 2 ^ 53)
        local name = ffi.new("char[?]", HANDLE_BYTES)
        check.status(C.gwb_ipc_identify(device.position(op, opts.device), name, HANDLE_BYTES), op)
        if ffi.string(name) == "host" then
            check.fail("BAD_ARGUMENT", op, "a handle of CUDA's is for memory of a cuda device, and %s the host; give device = \"cuda:0\"",
                opts.device and "that is" or "the current one is")
        end
        local hex = handle:gsub(".", function(c) return ("%02x"):format(c:byte()) end)
        handle = ("gpuwb1:mat:%s:0:0:0:%.0f:%.0f:%dx%d:%s:%d:%d:%s"):format(ffi.string(name), offset, step, width, height, types.text(code, 1), channels,
            check.boolean(op, "readonly", opts.readonly) and 1 or 0, hex)
    else
        check.options(op, opts, {})
        handle = check_handle(op, handle)
    end
    device.collect_due()
    local m = new_mat()
    check.status(C.gwb_mat_ipc_open(m, handle), op)
    return m
end

--- e:ipc_handle() -> handle of an event that was made with {shared = true}, by which gpu.event_from_ipc opens it in another process.
function streams.event_methods:ipc_handle()
    local op = "event:ipc_handle"
    return text_of(op, C.gwb_event_ipc_handle, check.event(op, "event", self))
end

--- gpu.event_from_ipc(handle) -> the event of another process. Waits and queries are for its newest recording, by any process, at the time of the
-- call. Errors: BAD_ARGUMENT for what is no handle of an event of another process, NO_DEVICE where this process does not see its device.
function ipc.public.event_from_ipc(handle)
    local op = "gpu.event_from_ipc"
    handle = check_handle(op, handle)
    local e = new_event()
    check.status(C.gwb_event_ipc_open(e, handle), op)
    return e
end

return ipc
