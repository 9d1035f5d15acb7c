-- SPDX-License-Identifier: MIT
-- Ranges and marks for NVIDIA's profilers (NVTX 3), by FFI.
--
--     local nvtx = require "gpuwb.nvtx"
--     local sum = nvtx.range("sum", function(n)       -- runs the function inside a range, which ends on an error too
--         nvtx.mark "here"
--         return n * (n + 1) / 2
--     end, 10)
--     nvtx.push "by hand"
--     nvtx.pop()
--     print(sum)
--
-- gpu.range is such a range too, without a word where there is no library. They are seen where a profiler (nsys profile, ncu) runs the program, and do
-- next to nothing elsewhere. NVTX 3 is a header for C; what is called here is the same as a library: the CUDA 13 toolkit's libnvtx3interop, or
-- libnvToolsExt of earlier toolkits. Ranges nest, a thread for itself.
local ffi = require "ffi"
local check = require "gpuwb.check"
local library = require "gpuwb.library"

local nvtx = {}

ffi.cdef [[
    void nvtxMarkA(const char *message);
    int nvtxRangePushA(const char *message);
    int nvtxRangePop(void);
]]

--- nvtx.open([op]) -> the library, to call by FFI; op: who asks, for the error. Errors: UNSUPPORTED without it.
function nvtx.open(op)
    return library.open(op or "nvtx.open", "NVTX library", {"libnvtx3interop.so.1", "libnvtx3interop.so", "libnvToolsExt.so.1"})
end

-- Refuses what is no message for C: text without NUL bytes.
local function text(op, v)
    if type(v) ~= "string" or v:find("\0", 1, true) then
        check.fail("BAD_ARGUMENT", op, "the name must be a string without NUL bytes, got %s", check.show(v))
    end
end

--- nvtx.present() -> true, or false and a sentence that says what was looked for.
function nvtx.present()
    local ok, err = pcall(nvtx.open, "nvtx.present")
    if not ok then
        return false, tostring(err)
    end
    return true
end

--- nvtx.mark(name): a point in time. Errors: UNSUPPORTED without the library, as for all below.
function nvtx.mark(name)
    text("nvtx.mark", name)
    nvtx.open("nvtx.mark").nvtxMarkA(name)
end

--- nvtx.push(name): begins a range inside those that are open. nvtx.pop(): ends the innermost one. Each thread has its own.
function nvtx.push(name)
    text("nvtx.push", name)
    nvtx.open("nvtx.push").nvtxRangePushA(name)
end

function nvtx.pop()
    nvtx.open("nvtx.pop").nvtxRangePop()
end

local function close(lib, ok, ...)
    lib.nvtxRangePop()
    if not ok then
        error((...), 0)
    end
    return ...
end

--- nvtx.range(name, fn, ...) -> what fn(...) returns, called inside a range. Errors: UNSUPPORTED before fn is called, and fn's own.
function nvtx.range(name, fn, ...)
    local op = "nvtx.range"
    text(op, name)
    check.callable(op, "fn", fn)
    local lib = nvtx.open(op)
    lib.nvtxRangePushA(name)
    return close(lib, pcall(fn, ...))
end

return nvtx
