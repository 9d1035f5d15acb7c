-- SPDX-License-Identifier: MIT
-- `gpuwb --strict`: a global must be assigned at the top of a script (or by C) before a function assigns or anyone reads it.

local getinfo, rawset, error, tostring = debug.getinfo, rawset, error, tostring

local globals = getmetatable(_G) or {}
local inherited = globals.__index
local declared = {}  -- also those that were set to nil

local function at_top_level()
    local what = getinfo(3, "S").what
    return what == "main" or what == "C"
end

function globals.__newindex(env, name, value)
    if not declared[name] and not at_top_level() then
        error(("global '%s' is assigned but not declared: write 'local', or assign it at the top of the script first")
            :format(tostring(name)), 2)
    end
    declared[name] = true
    rawset(env, name, value)
end

function globals.__index(env, name)
    local value
    if type(inherited) == "function" then value = inherited(env, name) elseif inherited then value = inherited[name] end
    if value == nil and not declared[name] then
        error(("global '%s' is not declared (rawget(_G, '%s') asks without an error)"):format(tostring(name), tostring(name)), 2)
    end
    return value
end

setmetatable(_G, globals)

return true
