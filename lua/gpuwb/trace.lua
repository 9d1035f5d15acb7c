-- SPDX-License-Identifier: MIT
-- Traces: what streams do and when, and the script's own ranges, as a file for Perfetto or chrome://tracing.
local ffi = require "ffi"
local check = require "gpuwb.check"
local C = require("gpuwb.cdef").C

local trace = {public = {}}
local new_guard = ffi.typeof("char[1]")

local function stop()
    C.gwb_trace_stop()
end

-- `guard` ends the trace of a coroutine that yields in fn and is never resumed.
local function finish(op, guard, ok, ...)
    ffi.gc(guard, nil)
    local rc = C.gwb_trace_stop()
    if not ok then
        error(..., 0)
    end
    check.status(rc, op)
    return ...
end

--- gpu.trace(path, fn, ...) -> what fn returns. Runs fn(...) and writes what the streams of all devices did meanwhile as a trace for
-- https://ui.perfetto.dev or chrome://tracing: a row a stream, in it copies and kernels with bytes and launch arguments, timed by events on cuda and by the
-- stream's thread on the host; and a row with the script's ranges (gpu.range). The trace is whole also after an error in fn, or os.exit. Waits
-- for the work at the end. Errors: IO where the file cannot be written, BAD_ARGUMENT inside another trace, and fn's own.
-- @example
-- local path = os.tmpname()
-- gpu.trace(path, function()
--     local a = gpu.mat(640, 480, "u8x3", {fill = 7})
--     gpu.range("copy it twice", function() a:clone():clone() end)
-- end)
-- print(select(2, io.open(path):read("*a"):gsub('"cat":"copy"', "")))      --> 2
-- os.remove(path)
function trace.public.trace(path, fn, ...)
    local op = "gpu.trace"
    check.path(op, "path", path)
    check.callable(op, "fn", fn)
    check.status(C.gwb_trace_start(path), op)
    return finish(op, ffi.gc(new_guard(), stop), pcall(fn, ...))
end

local profiler      -- the NVTX library; false where there is none; nil before the first range

local function open_profiler(op)
    if profiler == nil then
        local ok, lib = pcall(require("gpuwb.nvtx").open, op)
        profiler = ok and lib
    end
    return profiler
end

local function end_range(id, nvtx, ok, ...)
    if nvtx then
        nvtx.nvtxRangePop()
    end
    C.gwb_trace_range_end(id)
    if not ok then
        error(..., 0)
    end
    return ...
end

--- gpu.range(name, fn, ...) -> what fn returns. Runs fn(...), which a trace shows under that name: the time of the script, not of the device. Where the
-- NVTX library opens it is a range for NVIDIA's profilers too. Errors: fn's own.
function trace.public.range(name, fn, ...)
    local op = "gpu.range"
    check.string(op, "name", name)
    check.callable(op, "fn", fn)
    local id, nvtx = C.gwb_trace_range(name), open_profiler(op)
    if nvtx then
        nvtx.nvtxRangePushA(name)
    end
    return end_range(id, nvtx, pcall(fn, ...))
end

return trace
