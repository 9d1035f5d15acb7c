-- SPDX-License-Identifier: MIT
-- What a GPU is doing: temperature, use, memory, power, by the driver's management library (NVML).
--
--     local nvml = require "gpuwb.nvml"
--     local now = nvml.status "cuda:0"
--     print(now.name, now.temperature, now.power, now.memory and now.memory.used)
--
-- It comes with the driver and needs no CUDA context.
local ffi = require "ffi"
local check = require "gpuwb.check"
local library = require "gpuwb.library"

local nvml = {}

if not pcall(ffi.typeof, "gwb_nvml_utilization") then
    ffi.cdef [[
        typedef struct gwb_nvml_utilization { unsigned gpu, memory; } gwb_nvml_utilization;
        typedef struct gwb_nvml_memory { unsigned long long total, free, used; } gwb_nvml_memory;
        int nvmlInit_v2(void);
        const char *nvmlErrorString(int result);
        int nvmlSystemGetDriverVersion(char *version, unsigned length);
        int nvmlDeviceGetHandleByUUID(const char *uuid, void **device);
        int nvmlDeviceGetName(void *device, char *name, unsigned length);
        int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *celsius);
        int nvmlDeviceGetUtilizationRates(void *device, gwb_nvml_utilization *utilization);
        int nvmlDeviceGetMemoryInfo(void *device, gwb_nvml_memory *memory);
        int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts);
        int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned *milliwatts);
        int nvmlDeviceGetClockInfo(void *device, int clock, unsigned *megahertz);
    ]]
end

local lib

local function must(op, result, what)
    if result ~= 0 then
        check.fail("DEVICE", op, "NVML: %s: %s (%d)", what, ffi.string(lib.nvmlErrorString(result)), result)
    end
end

local function open(op)
    if not lib then
        local found = library.open(op, "NVML", {"libnvidia-ml.so.1", "libnvidia-ml.so"}, "it comes with the driver of the GPU")
        local result = found.nvmlInit_v2()
        if result ~= 0 then
            check.fail("DEVICE", op, "NVML does not start: %s (%d)", ffi.string(found.nvmlErrorString(result)), result)
        end
        lib = found
    end
    return lib
end

--- nvml.driver() -> the driver's version, "580.65.06". Errors: UNSUPPORTED without NVML.
function nvml.driver()
    local op, out = "nvml.driver", ffi.new("char[80]")
    must(op, open(op).nvmlSystemGetDriverVersion(out, 80), "asking for the driver's version")
    return ffi.string(out)
end

local function find(op, name)
    local ordinal = library.ordinal(op, library.named_device(op, "NVML", name))
    local uuid, out, result = library.uuid(op, ordinal), ffi.new("void *[1]"), nil
    for _, prefix in ipairs {"GPU-", "MIG-"} do     -- a device of this process may be a part of a GPU
        result = open(op).nvmlDeviceGetHandleByUUID(prefix .. uuid, out)
        if result == 0 then
            return out[0]
        end
    end
    return must(op, result, "finding the device " .. uuid)
end

local silent = {[3] = true, [4] = true, [13] = true, [26] = true}     -- not supported, no permission, no such function, deprecated

--- nvml.status([device]) -> {name=, temperature=, utilization={gpu=, memory=}, memory={total=, free=, used=}, power=, power_limit=, clock=,
-- memory_clock=} of a cuda device (default: the current one): degrees Celsius; percent of the time of the last sample in which a kernel ran, and in which
-- memory was read or written; bytes; watts; MHz. What this device does not tell, or not to this user, is nil. Errors: UNSUPPORTED on the host device or
-- without NVML, DEVICE with NVML's own words.
function nvml.status(name)
    local op = "nvml.status"
    local device = find(op, name)
    local function ask(symbol, ctype, ...)
        local out = ffi.new(ctype)
        local result
        if select("#", ...) > 0 then
            result = lib[symbol](device, ..., out)
        else
            result = lib[symbol](device, out)
        end
        if silent[result] then
            return nil
        end
        must(op, result, symbol)
        return out
    end
    local function number(symbol, scale, ...)
        local out = ask(symbol, "unsigned[1]", ...)
        return out and out[0] * scale or nil
    end
    local text = ffi.new("char[96]")
    must(op, lib.nvmlDeviceGetName(device, text, 96), "nvmlDeviceGetName")
    local status = {name = ffi.string(text)}
    status.temperature = number("nvmlDeviceGetTemperature", 1, 0)
    status.power, status.power_limit = number("nvmlDeviceGetPowerUsage", 1e-3), number("nvmlDeviceGetEnforcedPowerLimit", 1e-3)
    status.clock, status.memory_clock = number("nvmlDeviceGetClockInfo", 1, 1), number("nvmlDeviceGetClockInfo", 1, 2)
    local used = ask("nvmlDeviceGetUtilizationRates", "gwb_nvml_utilization")
    status.utilization = used and {gpu = used.gpu, memory = used.memory}
    local memory = ask("nvmlDeviceGetMemoryInfo", "gwb_nvml_memory")
    status.memory = memory and {total = tonumber(memory.total), free = tonumber(memory.free), used = tonumber(memory.used)}
    return status
end

return nvml
