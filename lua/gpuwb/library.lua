-- SPDX-License-Identifier: MIT
-- Other libraries of a GPU, opened at run time: finding them, and calling them with mats on streams, in order with gpuwb's own work.
local ffi = require "ffi"
local core = require "gpuwb.core"
local check = require "gpuwb.check"
local device = require "gpuwb.device"
local stream = require "gpuwb.stream"
local C = require("gpuwb.cdef").C

local library = {}

local stream_pointer, mat_pointer = ffi.typeof("gwb_stream *"), ffi.typeof("gwb_mat *")
local new_mats = ffi.typeof("const gwb_mat *[?]")
local new_pointer = ffi.typeof("void *[1]")

--- The names that a library goes by, newest first: library.names("libnppicc.so", {13, 12}) -> {"libnppicc.so.13", …, "libnppicc.so"}.
function library.names(base, versions)
    local list = {}
    for _, version in ipairs(versions) do
        list[#list + 1] = base .. "." .. version
    end
    list[#list + 1] = base
    return list
end

local opened = {}   -- by the first name

-- A library stays loaded until the process ends: its own finalizers and threads expect that.
ffi.cdef "void *dlopen(const char *file, int mode);"
local NOW, NODELETE = 2, 0x1000

-- The functions of the first library that can be opened, by the loader's path and then in the toolkit's folder; a name that it has not is UNSUPPORTED. Raises
-- UNSUPPORTED with all that was tried.
function library.open(op, what, names, advice)
    local known = opened[names[1]]
    if known then
        return known
    end
    local folders = {""}
    local home = os.getenv "CUDA_HOME"
    folders[2] = home and home ~= "" and home .. "/lib64/" or nil
    folders[#folders + 1] = "/usr/local/cuda/lib64/"
    local why = {}
    for _, folder in ipairs(folders) do
        for _, name in ipairs(names) do
            local ok, lib = pcall(ffi.load, folder .. name)
            if ok then
                ffi.C.dlopen(folder .. name, NOW + NODELETE)
                local symbols = setmetatable({}, {__index = function(t, symbol)
                    t[symbol] = library.symbol(op, lib, what, symbol)
                    return t[symbol]
                end})
                opened[names[1]] = symbols
                return symbols
            end
            local text = tostring(lib)
            if not text:find("No such file", 1, true) then  -- it is there: what is wrong with it matters
                why[#why + 1] = text
            end
        end
    end
    return check.fail("UNSUPPORTED", op, "there is no %s: tried %s, in the library path and in %s%s; %s", what, table.concat(names, ", "),
        table.concat(folders, " and ", 2), #why > 0 and " (" .. table.concat(why, "; ") .. ")" or "",
        advice or "install the CUDA toolkit, or put the folder of the library on LD_LIBRARY_PATH")
end

-- A function of a library; UNSUPPORTED where this version of it has none.
function library.symbol(op, lib, what, name)
    local ok, symbol = pcall(function() return lib[name] end)
    return ok and symbol or check.fail("UNSUPPORTED", op, "this version of %s has no %s", what, name)
end

-- Raises where a status is none of success; `names`: status -> name.
function library.check(op, what, names, status, symbol)
    status = tonumber(status)
    if status ~= 0 then
        check.fail("DEVICE", op, "%s: %s gave %s (%d)", what, symbol, names[status] or "a status without a name", status)
    end
end

-- The one cuda device of all the mats, by position; `what` names the library in errors.
function library.device(op, what, mats)
    local position
    for i, m in ipairs(mats) do
        local p = ffi.cast(mat_pointer, m)
        if p.device == 0 then
            check.fail("UNSUPPORTED", op, '%s works on a cuda device, and mat %d is on the host: m:to("cuda") copies it there', what, i)
        elseif position and p.device ~= position then
            check.fail("BAD_ARGUMENT", op, "the mats belong to %s and %s; all must be of one device", device.name(position), device.name(p.device))
        end
        position = p.device
    end
    return position
end

-- The cuda device that is named, or current, by position.
function library.named_device(op, what, name)
    local position = device.position(op, name)
    if position == 0 then
        check.fail("UNSUPPORTED", op, "%s works on a cuda device, and %s is the host", what, name == nil and "the current one" or "that")
    end
    return position
end

-- ---- the driver

local attributes = {MAX_THREADS_PER_BLOCK = 1, MAX_SHARED_MEMORY_PER_BLOCK = 8, MAX_THREADS_PER_MULTIPROCESSOR = 39}
local driver

local function open_driver(op)
    if not driver then
        driver = library.open(op, "NVIDIA driver", {"libcuda.so.1"}, "install the driver of the GPU")
        if not pcall(ffi.typeof, "gwb_cuda_uuid") then
            ffi.cdef [[
                typedef struct gwb_cuda_uuid { uint8_t bytes[16]; } gwb_cuda_uuid;
                unsigned cuDeviceGet(int *device, int ordinal);
                unsigned cuDeviceGetAttribute(int *value, int attribute, int device);
                unsigned cuDeviceGetUuid_v2(gwb_cuda_uuid *uuid, int device);
                unsigned cuStreamGetFlags(void *stream, unsigned *flags);
            ]]
        end
    end
    return driver
end

local function handle_of(op, ordinal)
    local out = ffi.new("int[1]")
    if open_driver(op).cuDeviceGet(out, ordinal) ~= 0 then
        check.fail("DEVICE", op, "the driver has no device %d", ordinal)
    end
    return out[0]
end

-- A number that the driver knows of a device.
function library.attribute(op, ordinal, name)
    local out = ffi.new("int[1]")
    local result = open_driver(op).cuDeviceGetAttribute(out, attributes[name], handle_of(op, ordinal))
    if result ~= 0 then
        check.fail("DEVICE", op, "the driver does not tell %s of device %d (%d)", name, ordinal, result)
    end
    return out[0]
end

-- The identity of a device, "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx".
function library.uuid(op, ordinal)
    local symbol = library.symbol(op, open_driver(op), "the NVIDIA driver", "cuDeviceGetUuid_v2")
    local uuid = ffi.new("gwb_cuda_uuid")
    local result = symbol(uuid, handle_of(op, ordinal))
    if result ~= 0 then
        check.fail("DEVICE", op, "the driver does not tell the identity of device %d (%d)", ordinal, result)
    end
    local hex = {}
    for i = 0, 15 do
        hex[#hex + 1] = ((i == 4 or i == 6 or i == 8 or i == 10) and "-%02x" or "%02x"):format(uuid.bytes[i])
    end
    return table.concat(hex)
end

-- The flags that a CUstream was made with.
function library.stream_flags(op, handle)
    local flags = ffi.new("unsigned[1]")
    local result = library.symbol(op, open_driver(op), "the NVIDIA driver", "cuStreamGetFlags")(handle, flags)
    if result ~= 0 then
        check.fail("DEVICE", op, "the driver does not tell the flags of the stream (%d)", result)
    end
    return flags[0]
end

-- ---- calls

-- The ordinal of a device as the driver counts.
function library.ordinal(op, position)
    local info = ffi.new("gwb_device_info")
    check.status(C.gwb_device_info_get(position, info), op)
    return info.index, info
end

local function list_of(mats)
    local list = new_mats(math.max(#mats, 1))
    for i, m in ipairs(mats) do
        list[i - 1] = m
    end
    return list
end

-- Calls fn(CUstream, gwb_stream *) between gwb_library_begin and gwb_library_end; returns what it returns. `owner`: an object that a library works with
-- and that may serve one call at a time (see library.own): calls on different streams wait for each other.
function library.run(op, position, reads, writes, given, fn, owner)
    local s = given or stream.default(device.name(position))
    local p = ffi.cast(stream_pointer, s)
    local r, w, outer = list_of(reads), list_of(writes), new_pointer()
    if owner and (not owner.handle or owner.resets ~= C.gwb_resets(position)) then
        check.fail("CLOSED", op, owner.handle and "what the library made on %s was lost when that was reset; make it anew" or "it is closed",
            device.name(position))
    end
    if owner then
        if not owner.event then
            owner.event = core.event.new()      -- it lives as long as the owner, whatever gpu.scope it is made in
            check.status(C.gwb_event_create(owner.event, 0), op)
        end
        check.status(C.gwb_stream_wait_event(p, owner.event), op)   -- refuses a stream that is recording
    end
    check.status(C.gwb_library_begin(p, r, #reads, w, #writes, outer), op)
    local ok, result = pcall(fn, p.handle, p)
    local rc = C.gwb_library_end(p, r, #reads, w, #writes, outer[0])
    if owner and rc >= 0 then
        rc = C.gwb_event_record(owner.event, p)
    end
    if not ok then
        error(result, 0)
    end
    check.status(rc, op)
    return result
end

-- A library's own object on a device, {handle=, position=}: `destroy` is called with the last reference, unless a reset of the device took it away before.
function library.own(position, handle, destroy)
    local resets = C.gwb_resets(position)
    local function close(h)
        if C.gwb_resets(position) == resets then
            destroy(h)
        end
    end
    return check.own({position = position, resets = resets, destroy = close}, handle, close)
end

-- Destroys it now, behind the calls that use it. Twice is harmless.
function library.release(owner)
    local handle = owner.handle
    if handle then
        owner.handle = nil
        ffi.gc(handle, nil)
        if owner.event and owner.resets == C.gwb_resets(owner.position) then
            C.gwb_event_synchronize(owner.event)
        end
        owner.destroy(handle)
    end
end

-- Bytes that two mats share.
function library.shared(a, b)
    return tonumber(C.gwb_mat_shared(a, b))
end

-- What make(position) gives, kept for each device until that is reset.
function library.per_device(make)
    local kept = {}
    return function(op, position)
        local object = kept[position]
        if not object or not object.handle or object.resets ~= C.gwb_resets(position) then
            object = make(op, position)
            kept[position] = object
        end
        return object
    end
end

-- A result to write to: `out` where it is given and of the right shape, else what make() gives.
function library.result(op, out, width, height, kind, make)
    if out == nil then
        return make()
    end
    check.mat(op, "out", out)
    if out.width ~= width or out.height ~= height or out.type ~= kind then
        check.fail("SHAPE", op, "out is %dx%d %s, wanted %dx%d %s", out.width, out.height, out.type, width, height, kind)
    end
    return out
end

return library
