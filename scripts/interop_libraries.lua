-- SPDX-License-Identifier: MIT
-- Runs the example of each module for a GPU library, and prints it with its output: gpuwb scripts/interop_libraries.lua [MODULE ...]
-- What is not on this machine is named. The exit status is 1 where an example fails.
local core = require "gpuwb.core"

local names = #arg > 0 and arg or {"npp", "nvjpeg", "cublas", "cufft", "curand", "nvtx", "nvml"}

-- The indented lines of a module's header comment.
local function example_of(text)
    local lines = {}
    for line in text:gmatch("([^\n]*)\n") do
        if not line:find("^%-%-") then break end
        lines[#lines + 1] = line:match("^%-%-     ?(.*)") or line:match("^%-%-$") and ""
    end
    return (table.concat(lines, "\n"):gsub("^\n+", ""):gsub("\n+$", ""))
end

local failed = false
for _, name in ipairs(names) do
    local text = core.embedded("lua/gpuwb/" .. name .. ".lua")
    if not text then
        io.stderr:write("interop_libraries.lua: there is no module gpuwb.", name, "\n")
        os.exit(2)
    end
    local example = example_of(text)
    print(("---- gpuwb.%s\n%s\n----"):format(name, example))
    local ok, err = pcall(assert(loadstring(example, "=gpuwb." .. name)))
    if not ok then
        local absent = type(err) == "table" and (err.code == "UNSUPPORTED" or err.code == "NO_DEVICE")
        failed = failed or not absent
        print((absent and "absent: " or "failed: ") .. tostring(err))
    end
    print()
end
os.exit(failed and 1 or 0)
