-- SPDX-License-Identifier: MIT
-- Kernels: CUDA C in a string, compiled for the device at hand, its functions called with mats and numbers.
local ffi = require "ffi"
local check = require "gpuwb.check"
local device = require "gpuwb.device"
local C = require("gpuwb.cdef").C

local kernel = {}

local MOST = 64     -- parameters of a function

-- ---- where the source stands in the script, for messages

local function file_text(path)
    local file = io.open(path, "rb")
    local text = file and file:read("*a")
    if file then
        file:close()
    end
    return text
end

local function lines_before(text, at)
    return select(2, text:sub(1, at - 1):gsub("\n", ""))
end

-- The innermost script on the way here that has the source as it is, and the lines before it; of several places in it the one nearest to the call.
local function locate(source)
    for level = 3, 60 do
        local info = debug.getinfo(level, "Sl")
        if not info then
            return nil
        end
        if info.currentline > 0 and not info.source:find("^@lua/gpuwb/") then
            local text = info.source:sub(1, 1) == "@" and #source > 0 and file_text(info.source:sub(2))
            local at, best = text and text:find(source, 1, true) or nil, nil
            while at do
                local before = lines_before(text, at)
                if not best or math.abs(before - info.currentline) < math.abs(best - info.currentline) then
                    best = before
                end
                at = text:find(source, at + 1, true)
            end
            if best then
                return info.short_src, best
            end
        end
    end
end

-- ---- compile errors

-- The compiler's text without what gpuwb added to the source, and with the script's lines.
local function translate(text, label, offset)
    local lines, seen = {}, {}
    local function place(line)
        line = tonumber(line)
        if not seen[line] then
            seen[line] = true
            lines[#lines + 1] = line
        end
        return label .. ":" .. line + offset
    end
    text = text:gsub("kernel%.cu%((%d+)%)", place):gsub("kernel%.cu:(%d+)", place):gsub("kernel%.cu", label)
    text = text:gsub("[^\n]*", function(line) return line:find("^%s*%d*%s+|") and "" or nil end):gsub("\n\n+", "\n")    -- gcc's own excerpts
    text = text:gsub("gwb_k_", ""):gsub("uint3, uint3, dim3, dim3,? ?", "")
    return text:gsub("%s+$", ""), lines
end

-- Numbered source around each of the lines, which are marked.
local function excerpt(source, lines, offset)
    local text, shown, marked = {}, {}, {}
    for line in (source:gsub("\n$", "") .. "\n"):gmatch("(.-)\r?\n") do
        text[#text + 1] = line
    end
    for i = 1, math.min(#lines, 5) do
        marked[lines[i]] = true
        for line = math.max(lines[i] - 2, 1), math.min(lines[i] + 2, #text) do
            shown[line] = true
        end
    end
    local out, last = {}, nil
    for line = 1, #text do
        if shown[line] then
            if last and line > last + 1 then
                out[#out + 1] = "  ..."
            end
            out[#out + 1] = ("%s %5d | %s"):format(marked[line] and ">" or " ", line + offset, text[line])
            last = line
        end
    end
    return table.concat(out, "\n")
end

local function fail_to_compile(op, rc, log, source, name, options, position)
    local label, offset
    if name then
        label, offset = name, 0
    else
        label, offset = locate(source)
        label, offset = label or "kernel", offset or 0
    end
    local code = ffi.string(C.gwb_status_name(rc))
    local message, lines = translate(ffi.string(C.gwb_error_message()), label, offset)
    local parts = {message}
    if log ~= "" then
        parts[1] = ("%s does not compile for %s"):format(name or "the kernel", device.name(position))
        parts[2], lines = translate(log, label, offset)
    end
    if #lines > 0 then
        parts[#parts + 1] = excerpt(source, lines, offset)
    end
    if code == "COMPILE" then
        parts[#parts + 1] = "options: " .. (#options > 0 and table.concat(options, " ") or "none")
    end
    check.fail(code, op, "%s", table.concat(parts, "\n"))
end

-- ---- options

local function option_list(op, options, defines)
    local list = {}
    if options ~= nil and type(options) ~= "table" then
        check.fail("BAD_ARGUMENT", op, "options must be a list of strings, got %s", check.show(options))
    end
    for i, option in ipairs(options or {}) do
        list[i] = check.string(op, "options[" .. i .. "]", option)
    end
    if defines ~= nil and type(defines) ~= "table" then
        check.fail("BAD_ARGUMENT", op, "defines must be a table as {SIZE = 4, T = \"float\"}, got %s", check.show(defines))
    end
    local names = {}
    for name, value in pairs(defines or {}) do
        if type(name) ~= "string" or not name:find("^[%a_][%w_]*$") then
            check.fail("BAD_ARGUMENT", op, "defines must have names as keys, got %s", check.show(name))
        end
        local kind = type(value)
        if kind == "number" then
            value = value == math.floor(value) and math.abs(value) < 2 ^ 53 and ("%.0f"):format(value) or ("%.17g"):format(value)
        elseif kind ~= "string" and kind ~= "boolean" then
            check.fail("BAD_ARGUMENT", op, "defines.%s must be a number, a string or a boolean, got %s", name, check.show(value))
        end
        if value then       -- false leaves it out
            names[#names + 1] = ("-D%s=%s"):format(name, value == true and "1" or value)
        end
    end
    table.sort(names)
    for _, define in ipairs(names) do
        list[#list + 1] = define
    end
    return list
end

-- ---- arguments. What they are is said here, whether they fit the signature is checked in C.

-- What a launch is put together in. It is used again, but not by a finalizer that launches in between, which makes its own.
local function new_frame()
    local list = "const gwb_mat *[?]"
    return {args = ffi.new("gwb_arg[?]", MOST), numbers = ffi.new("double[?]", 4 * MOST), call = ffi.new("gwb_kernel_call"),
            reads = ffi.new(list, MOST), writes = ffi.new(list, MOST)}
end

local spare = new_frame()
local void_pointer, mat_pointer = ffi.typeof("const void *"), ffi.typeof("const gwb_mat *")
local signed, unsigned = ffi.typeof("int64_t"), ffi.typeof("uint64_t")
local NULL, NUMBER, BOOL, MAT, POINTER = C.GWB_ARG_NULL, C.GWB_ARG_NUMBER, C.GWB_ARG_BOOL, C.GWB_ARG_MAT, C.GWB_ARG_POINTER
local BYTES, LIST, SIGNED, UNSIGNED = C.GWB_ARG_BYTES, C.GWB_ARG_LIST, C.GWB_ARG_SIGNED, C.GWB_ARG_UNSIGNED

local cdata_kinds = {}      -- by ctype id

local function cdata_kind(v)
    local ctype = ffi.typeof(v)
    local id = tonumber(ctype)
    local kind = cdata_kinds[id]
    if not kind then
        local text = tostring(ctype):match("^ctype<(.*)>$")
        if ffi.istype(signed, v) or ffi.istype(unsigned, v) then
            kind = ffi.istype(signed, v) and "signed" or "unsigned"
        elseif text:find("%[") and not text:find("%(") then
            kind = "bytes"
        elseif text:find("%*[%s%a]*$") or text:find("%(%*") then
            kind = "pointer"
        elseif text:find("^struct ") or text:find("^union ") then
            kind = "bytes"
        elseif text:find("^complex") then
            kind = "complex"
        else
            kind = "number"
        end
        cdata_kinds[id] = kind
    end
    return kind
end

local function set_list(a, i, v, op, numbers)
    local n = #v
    if n < 1 or n > 4 then
        check.fail("BAD_ARGUMENT", op, "argument %d is a list of %d values; a list is a vector of 1 to 4 numbers", i, n)
    end
    local at = numbers + 4 * (i - 1)
    for c = 1, n do
        at[c - 1] = check.number(op, ("argument %d[%d]"):format(i, c), v[c])
    end
    a.kind, a.whole, a.pointer = LIST, n, at
end

local function set_cdata(a, i, v, op)
    local kind = cdata_kind(v)
    if kind == "complex" or tonumber(v) ~= nil and tostring(v):find("^ctype<") then     -- a C type is a number too
        check.fail("BAD_ARGUMENT", op, "argument %d is a %s; wanted a number, a pointer, an array or a struct", i, kind == "complex" and
            "complex number" or "C type, no value of it")
    end
    if kind == "pointer" then
        a.kind, a.pointer = POINTER, ffi.cast(void_pointer, v)
    elseif kind == "bytes" then
        a.kind, a.pointer, a.whole = BYTES, ffi.cast(void_pointer, v), ffi.sizeof(v)
    elseif kind == "signed" then
        a.kind, a.whole = SIGNED, v
    elseif kind == "unsigned" then
        a.kind, a.whole = UNSIGNED, ffi.cast(signed, v)
    else
        a.kind, a.number = NUMBER, tonumber(v)
    end
end

local function set_arg(op, frame, i, v)
    local a = frame.args[i - 1]
    local kind = type(v)
    if kind == "number" then
        a.kind, a.number = NUMBER, v
    elseif kind == "userdata" and check.is_mat(v) then
        a.kind, a.pointer = MAT, ffi.cast(mat_pointer, v)
    elseif kind == "nil" then
        a.kind = NULL
    elseif kind == "boolean" then
        a.kind, a.whole = BOOL, v and 1 or 0
    elseif kind == "cdata" then
        set_cdata(a, i, v, op)
    elseif kind == "table" and getmetatable(v) == nil then
        set_list(a, i, v, op, frame.numbers)
    else
        check.fail("BAD_ARGUMENT", op, "argument %d must be a mat, a number, a boolean, cdata, a list of numbers or nil, got %s%s", i, check.show(v),
            kind == "table" and rawget(v, "planes") and "; give one of its planes" or "")
    end
end

-- Names of parameters to values, in order.
local function by_name(op, f, given)
    local list = {}
    for i = 1, f.count do
        list[i] = given[f.params[i]]
    end
    for name in pairs(given) do
        if not f.positions[name] then
            check.fail("BAD_ARGUMENT", op, "there is no parameter %s; the kernel is %s", check.show(name), f.signature)
        end
    end
    for i = 1, f.count do
        if list[i] == nil and f.params[i] ~= "" and not f.pointers[i] then
            check.fail("BAD_ARGUMENT", op, "the parameter %s is missing; the kernel is %s", f.params[i], f.signature)
        end
    end
    return list
end

local function set_args(op, frame, f, given)
    if given == nil then
        given = {}
    elseif type(given) ~= "table" then
        check.fail("BAD_ARGUMENT", op, "args must be a list of arguments, got %s; the kernel is %s", check.show(given), f.signature)
    end
    if type(next(given)) == "string" then
        given = by_name(op, f, given)
    else
        local most = 0
        for i in pairs(given) do
            if type(i) ~= "number" or i < 1 or i ~= math.floor(i) then
                check.fail("BAD_ARGUMENT", op, "args must be a list, or a table by parameter names alone; got the key %s", check.show(i))
            end
            most = math.max(most, i)
        end
        if most ~= f.count then     -- a list cannot tell a last nil from nothing
            check.fail("BAD_ARGUMENT", op, "wanted %d arguments, got %d%s; the kernel is %s", f.count, most, f.pointers[f.count] and most < f.count
                and " (a last pointer that is NULL is given as ffi.new(\"void *\"))" or "", f.signature)
        end
    end
    for i = 1, f.count do
        set_arg(op, frame, i, given[i])
    end
end

-- ---- sizes

local function triple(op, name, v, out)
    out[0], out[1], out[2] = 1, 1, 1
    if type(v) == "number" then
        v = {v}
    end
    if type(v) ~= "table" or #v < 1 or #v > 3 then
        check.fail("BAD_ARGUMENT", op, "%s must be a number or a list of up to three, got %s", name, check.show(v))
    end
    for i = 1, #v do
        out[i - 1] = check.integer(op, name .. "." .. ("xyz"):sub(i, i), v[i], -2 ^ 53, 2 ^ 53)
    end
end

-- One thread for each pixel of a mat, each cell of {width, height[, depth]}, or each of a number of items.
local function set_over(op, call, over, block)
    local size = ffi.new("int64_t[3]")
    if check.is_mat(over) then
        local p = ffi.cast(mat_pointer, check.mat(op, "over", over))
        size[0], size[1], size[2] = p.width, p.height, 1
    else
        triple(op, "over", over, size)
    end
    if block == nil then
        block = (type(over) == "number" or type(over) == "table" and #over == 1) and {256} or {32, 8}
    end
    triple(op, "block", block, call.block)
    for i = 0, 2 do
        local threads = tonumber(call.block[i])
        call.grid[i] = threads > 0 and math.ceil(tonumber(size[i]) / threads) or 0
    end
end

local function mat_list(op, name, list, out)
    if list == nil then
        return 0
    end
    if type(list) ~= "table" or #list > MOST then
        check.fail("BAD_ARGUMENT", op, "%s must be a list of mats, at most %d, got %s", name, MOST, check.show(list))
    end
    for i = 1, #list do
        out[i - 1] = ffi.cast(mat_pointer, check.mat(op, name .. "[" .. i .. "]", list[i]))
    end
    return #list
end

-- ---- functions and kernels

local launch_options = {"grid", "block", "shared", "stream", "args", "over", "reads", "writes"}

local function launch(f, opts)
    local op = f.op
    if type(opts) ~= "table" then
        check.fail("BAD_ARGUMENT", op, "wanted a table, as in k.%s{over = m, args = {m, …}}, got %s", f.name, check.show(opts))
    end
    opts = check.options(op, opts, launch_options)
    local handle = f.owner.handle
    if handle == nil then
        check.fail("CLOSED", op, "the kernel is closed")
    end
    local stream = check.stream(op, opts.stream)
    local frame = spare or new_frame()
    local call = frame.call
    spare = nil
    set_args(op, frame, f, opts.args)
    if opts.over ~= nil then
        if opts.grid ~= nil then
            check.fail("BAD_ARGUMENT", op, "over and grid exclude each other; give one of them")
        end
        set_over(op, call, opts.over, opts.block)
    elseif opts.grid == nil then
        check.fail("BAD_ARGUMENT", op, "neither over nor grid is given: over = m runs a thread for each pixel of m, grid and block say how many run")
    else
        triple(op, "grid", opts.grid, call.grid)
        triple(op, "block", opts.block, call.block)
    end
    call.shared = opts.shared and check.integer(op, "shared", opts.shared, 0, 2 ^ 31 - 1) or 0
    call.read_count = mat_list(op, "reads", opts.reads, frame.reads)
    call.write_count = mat_list(op, "writes", opts.writes, frame.writes)
    call.args, call.arg_count, call.reads, call.writes = frame.args, f.count, frame.reads, frame.writes
    local rc = C.gwb_kernel_launch(handle, f.index, call, stream)
    spare = frame
    check.status(rc, op)
end

local function_meta = {
    __name = "kernel function",
    __tostring = function(f) return f.signature end,
    __call = launch,
}

-- What each kernel object hides from its fields.
local hidden = setmetatable({}, {__mode = "k"})
local methods = {}
kernel.methods = methods

local kernel_meta = {
    __name = "kernel",
    __index = function(k, key)
        if methods[key] then
            return methods[key]
        end
        return check.fail("BAD_ARGUMENT", "kernel", "the kernel has no function %s; it has: %s", check.show(key), table.concat(k:functions(), ", "))
    end,
    __call = function(k)
        check.fail("BAD_ARGUMENT", "kernel", "a kernel is called by a function's name, as in k.%s{over = m, args = {m, …}}", k:functions()[1])
    end,
    __newindex = function(_, key)
        check.fail("READ_ONLY", "kernel", "a kernel's %s cannot be assigned", check.show(key))
    end,
    __tostring = function(k)
        local lines = {"kernel on " .. hidden[k].device .. (hidden[k].handle and "" or " (closed)")}
        for i, name in ipairs(hidden[k].names) do
            lines[i + 1] = "  " .. tostring(rawget(k, name))
        end
        return table.concat(lines, "\n")
    end,
}

local function own(op, k)
    if getmetatable(k) ~= kernel_meta then
        check.fail("BAD_ARGUMENT", op, "call it as a method of a kernel, got %s", check.show(k))
    end
    return hidden[k]
end

--- k:functions() -> list of the names of its functions, in the source's order. tostring(k.NAME) is the signature.
function methods:functions()
    local list = {}
    for i, name in ipairs(own("kernel:functions", self).names) do
        list[i] = name
    end
    return list
end

--- k:close(): releases now; work under way goes on. Twice is harmless.
function methods:close()
    check.disown(own("kernel:close", self), C.gwb_kernel_close)
end

local function read_function(handle, index, owner)
    local info = ffi.new("gwb_kernel_function")
    check.status(C.gwb_kernel_function_get(handle, index, info), "gpu.kernel")
    local name = ffi.string(info.name)
    local f = {name = name, signature = ffi.string(info.signature), line = info.line, count = info.params, params = {}, positions = {}, pointers = {},
               op = "kernel " .. name, index = index, owner = owner}
    for i = 1, f.count do
        local param = ffi.string(C.gwb_kernel_param_name(handle, index, i - 1))
        f.params[i], f.positions[param] = param, i
        f.pointers[i] = C.gwb_kernel_param_pointer(handle, index, i - 1) == 1
    end
    return setmetatable(f, function_meta)
end

--- gpu.kernel(source [, {name=, options=, defines=, device=}]) -> k, whose fields are the __global__ functions of the source, CUDA C++.
-- Functions that a macro makes are not found. name: what messages call the source (default: the script and its lines); options: list of NVRTC's;
-- defines: {SIZE = 4, T = "float", FLAG = true}.
-- `#include "prelude.h"`, "number.h" and the other headers of gpuwb's own kernels work; gwb_view and the fixed-width types are there without.
-- Compiled for the device, kept on disk. No product and sum are contracted into one rounding unless options say --fmad=true.
-- The host device compiles with $CC, cc, gcc or clang, as C++, or as C where the compiler knows no C++. There a kernel that reads or writes outside its
-- memory, or divides a whole number by zero, ends the process as in any C program; what a GPU does with a real number that does not fit the whole
-- number it is cast to is not promised either.
-- Errors: COMPILE with the compiler's text, the script's lines and the options; UNSUPPORTED where there is no compiler, or the host device lacks
-- what the source uses.
--
-- k.NAME{grid=, block=, shared=, stream=, args={…}, over=, reads=, writes=} launches; grid, block: a number or {x, y, z}; over: a mat (a thread a pixel,
-- in blocks of 32 x 8), {width, height}, or a number of items; shared: bytes of dynamic shared memory. args: a list, or a table by parameter names:
-- a mat for a pointer to its numbers or pixels (float *, uchar3 *; void * and char * take any) or for a gwb_view; nil for a NULL pointer; a cdata
-- pointer; numbers; a list for a vector (float3); cdata of the same size for a struct. Mats behind pointers to const are read, all others
-- written, unless reads= and writes= (lists of mats) say otherwise; other streams are waited for by that.
-- @example
-- local k = gpu.kernel [[
-- __global__ void checks(gwb_view v, int size)
-- {
--     const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
--     if (x >= v.width || y >= v.height) return;
--     unsigned char *p = v.data + y * v.step + x * 3;
--     p[0] = (x / size + y / size) % 2 * 255, p[1] = x, p[2] = y;
-- }]]
-- local m = gpu.mat(240, 160, "u8x3")
-- k.checks{over = m, args = {m, 20}}
-- print(m:at(25, 5))                               --> 255  25  5
function kernel.kernel(source, opts)
    local op = "gpu.kernel"
    check.string(op, "source", source)
    if source:find("\0", 1, true) then
        check.fail("BAD_ARGUMENT", op, "source holds a NUL byte")
    end
    opts = check.options(op, opts, {"name", "options", "defines", "device"})
    local name = opts.name ~= nil and check.string(op, "name", opts.name) or nil
    local options = option_list(op, opts.options, opts.defines)
    local position = device.position(op, opts.device)

    local p, out, log = ffi.new("gwb_kernel_params"), ffi.new("gwb_kernel *[1]"), ffi.new("gwb_bytes")
    local list = ffi.new("const char *[?]", #options + 1, options)
    p.source, p.options, p.option_count, p.device, p.log = source, list, #options, position, log
    local rc = C.gwb_kernel_create(out, p)
    local text = log.data ~= nil and ffi.string(log.data, log.size) or ""
    C.gwb_bytes_free(log)
    if rc < 0 then
        fail_to_compile(op, rc, text, source, name, options, position)
    end
    local owner = check.own({device = device.name(position), names = {}}, out[0], C.gwb_kernel_close)
    local k = {}
    for index = 0, C.gwb_kernel_functions(out[0]) - 1 do
        local f = read_function(out[0], index, owner)
        owner.names[index + 1] = f.name
        k[f.name] = f
    end
    hidden[k] = owner
    return setmetatable(k, kernel_meta)
end

--- gpu.reset([device]): closes a device (default: the current one) and all that is on it. Its mats, streams and events are lost: using them is a CLOSED
-- error; kernels and pipelines load what they need again; the device opens again when next used. After a kernel has failed on cuda, the way to go on
-- where the driver allows it; CUDA 13's keeps the fault of a wild pointer for the process, and opening then is a DEVICE error that says so.
-- On cuda other libraries in the process lose the device's primary context too.
function kernel.reset(name)
    check.status(C.gwb_reset(device.position("gpu.reset", name)), "gpu.reset")
end

kernel.public = {kernel = kernel.kernel, reset = kernel.reset}

return kernel
