-- SPDX-License-Identifier: MIT
-- Element types by name: gpuwb's own, OpenCV's and NumPy's.
local ffi = require "ffi"
local check = require "gpuwb.check"
local C = require("gpuwb.cdef").C

local types = {names = {}, code = {}, size = {}, ctype = {}}

for code = 0, tonumber(C.GWB_TYPES) - 1 do
    local name = ffi.string(C.gwb_type_name(code))
    types.names[#types.names + 1] = name
    types.code[name] = code
    types.size[name] = C.gwb_type_size(code)
end

local ctypes = {u8 = "uint8_t", i8 = "int8_t", u16 = "uint16_t", i16 = "int16_t", u32 = "uint32_t", i32 = "int32_t", f32 = "float", f64 = "double"}
for name, ctype in pairs(ctypes) do     -- f16 has no C type: it travels as uint16_t bits
    types.ctype[name] = ctype
end

local opencv = {["8U"] = "u8", ["8S"] = "i8", ["16U"] = "u16", ["16S"] = "i16", ["32S"] = "i32", ["32F"] = "f32", ["64F"] = "f64", ["16F"] = "f16"}
local numpy = {uint8 = "u8", int8 = "i8", uint16 = "u16", int16 = "i16", uint32 = "u32", int32 = "i32", float16 = "f16", float32 = "f32",
               float64 = "f64", u1 = "u8", i1 = "i8", u2 = "u16", i2 = "i16", u4 = "u32", i4 = "i32", f2 = "f16", f4 = "f32", f8 = "f64"}

local parsed = {}       -- text -> {code, channels}

local function parse(text)
    local name, channels = text:match("^([uif]%d+)x([1-4])$")
    if name and types.code[name] then
        return name, tonumber(channels)
    end
    if types.code[text] then
        return text, 1
    end
    name, channels = text:gsub("^CV_", ""):match("^(%d+[USF])C([1-4])$")
    if name and opencv[name] then
        return opencv[name], tonumber(channels)
    end
    name = text:match("^CV_(%d+[USF])$")
    if name and opencv[name] then
        return opencv[name], 1
    end
    local order, plain = text:match("^([<|=>]?)(%w+)$")
    if plain and numpy[plain] and (order ~= ">" or types.size[numpy[plain]] == 1) then
        return numpy[plain], 1
    end
end

-- "u8x3" -> type code, channels, element name. Raises for what is no type.
function types.parse(op, name, text)
    local found = parsed[text]
    if not found then
        local element, channels
        if type(text) == "string" then
            element, channels = parse(text)
        end
        if not element then
            check.fail("BAD_ARGUMENT", op, "%s must be an element type (%s), with x2..x4 for more channels, as \"u8x3\"; got %s", name,
                table.concat(types.names, " "), check.show(text))
        end
        found = {types.code[element], channels, element}
        parsed[text] = found
    end
    return found[1], found[2], found[3]
end

-- Type code and channels -> "u8x3"
function types.text(code, channels)
    local name = types.names[code + 1]
    return channels > 1 and name .. "x" .. channels or name
end

return types
