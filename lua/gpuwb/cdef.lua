-- SPDX-License-Identifier: MIT
-- Declares the ABI texts to FFI, once a process state, and gives the namespace to call.
local ffi = require "ffi"
local core = require "gpuwb.core"
local check = require "gpuwb.check"

if not pcall(ffi.typeof, "gwb_mat") then    -- another copy of this module may have done it: a type cannot be declared twice
    for _, file in ipairs {"src/abi_types.h", "src/abi_calls.h"} do
        ffi.cdef((assert(core.embedded(file), file .. " is missing")))
    end
end

-- The command exports its own symbols; the LuaJIT module is opened privately by the interpreter, so its symbols are asked of the file.
local C = ffi.C
if not pcall(function() return C.gwb_version end) then
    C = ffi.load(core.library)
end

for _, name in ipairs {"gwb_mat", "gwb_stream", "gwb_event", "gwb_view", "gwb_image", "gwb_mat_params", "gwb_wrap_params", "gwb_array", "gwb_stream_params",
                       "gwb_device_info", "gwb_memory", "gwb_copy2d_params", "gwb_copy_side", "gwb_copy_report", "gwb_pipe_step", "gwb_pipe_plan",
                       "gwb_kernel_params", "gwb_kernel_function", "gwb_arg", "gwb_kernel_call", "gwb_component", "gwb_format_info",
                       "gwb_plane_info", "gwb_convert_params", "gwb_bytes", "gwb_plane", "gwb_picture", "gwb_read_params",
                       "gwb_write_params", "gwb_loader_params", "gwb_nvjpeg", "gwb_decoder_params", "gwb_decoder_info", "gwb_dl_tensor",
                       "gwb_dl_managed", "gwb_dl_versioned"} do
    local theirs = tonumber(C.gwb_abi_size(name))
    if theirs ~= ffi.sizeof(name) then
        error(("gpuwb: %s has %d bytes in the program and %d in the ABI text; GPUWB_ROOT names another version's checkout?"):format(name, theirs,
            ffi.sizeof(name)))
    end
end

check.use(C)

return {C = C}
