-- SPDX-License-Identifier: MIT
-- Writes DIR/embedded_files.c: all of lua/ and kernels/, the ABI texts, and the fatbin of kernels/builtin.cu (see src/embedded.h).
-- Run by each `make`, from the top of the checkout: luajit scripts/embed.lua DIR
-- A file is rewritten only when its content changes, so that make rebuilds no more than what depends on it.
--
-- GPUWB_SM="80 90"  builds the fatbin for these architectures alone; GPUWB_SM=none leaves it out, as where there is no nvcc.

local SM = "75 80 86 89 90 100 120"
local NVCC_FLAGS = "-fmad=false -O3 --std=c++17 -I kernels -I src --threads 0"

local dir = assert(arg[1], "usage: luajit scripts/embed.lua DIR")

local function fail(...)
    io.stderr:write("embed.lua: ", string.format(...), "\n")
    os.exit(1)
end

local function quote(s)
    return "'" .. s:gsub("'", "'\\''") .. "'"
end

local function run(command)
    local status = os.execute(command) -- a number, or true in a LuaJIT made for 5.2
    return status == 0 or status == true
end

-- What a shell command prints; "" where it fails.
local function output(command)
    local pipe = assert(io.popen(command .. " 2>/dev/null"))
    local text = pipe:read("*a")
    pipe:close()
    return text
end

-- The content of a file, nil where there is none.
local function read(path)
    local file = io.open(path, "rb")
    if not file then return nil end
    local text = file:read("*a")
    file:close()
    return text
end

-- Writes aside and renames, so that a build that is cut off or runs twice at once leaves no half file.
local function write(path, text)
    if read(path) == text then return end
    local part = path .. ".part"
    local file, err = io.open(part, "wb")
    if not file then fail("%s", err) end
    local ok, why = file:write(text)
    if ok then ok, why = file:close() end
    if ok then ok, why = os.rename(part, path) end
    if not ok then fail("cannot write %s: %s", path, why) end
end

local function find_nvcc()
    local home = os.getenv("CUDA_HOME")
    local places = { output("command -v nvcc"):match("[^\n]+"), home and home .. "/bin/nvcc", "/usr/local/cuda/bin/nvcc" }
    for i = 1, 3 do
        if places[i] and read(places[i]) then return places[i] end
    end
end

-- nvcc's -gencode options: machine code for each wanted architecture that this nvcc knows, and PTX of the lowest for all others.
local function gencode(nvcc, wanted)
    local known = output(quote(nvcc) .. " --list-gpu-code") .. "\n"
    local options, lowest = {}, nil
    for sm in wanted:gmatch("%S+") do
        if not sm:match("^%d+[af]?$") then fail("GPUWB_SM=%q: want numbers as in \"80 90\", or none", wanted) end
        if known:find("sm_" .. sm .. "\n", 1, true) then
            options[#options + 1] = ("-gencode arch=compute_%s,code=sm_%s"):format(sm, sm)
            lowest = lowest or sm
        end
    end
    if not lowest then fail("%s knows none of the architectures %s", nvcc, wanted) end
    options[#options + 1] = ("-gencode arch=compute_%s,code=compute_%s"):format(lowest, lowest)
    return table.concat(options, " ")
end

-- The fatbin of kernels/builtin.cu; "" where it is not wanted or cannot be had. `sources` is all text that it may include.
local function fatbin(sources)
    local wanted = os.getenv("GPUWB_SM") or SM
    local nvcc = wanted ~= "none" and find_nvcc()
    if not nvcc or not read("kernels/builtin.cu") then return "" end
    local inputs = table.concat({ nvcc, output(quote(nvcc) .. " --version"), wanted, NVCC_FLAGS, sources }, "\n")
    local path, key = dir .. "/builtin.fatbin", dir .. "/builtin.inputs"
    local made = read(key) == inputs and read(path)
    if made then return made end
    print("nvcc builtin.cu (sm " .. wanted .. ")")
    local part = path .. ".part"
    local command = table.concat({ quote(nvcc), "-fatbin", gencode(nvcc, wanted), NVCC_FLAGS, "-o", quote(part), "kernels/builtin.cu" }, " ")
    if not run(command) then fail("this command failed:\n%s", command) end
    made = assert(read(part))
    assert(os.rename(part, path))
    write(key, inputs)
    return made
end

-- C string literals for any bytes, about a line of text each.
local ESCAPE = {}
for byte = 0, 255 do
    local char = string.char(byte)
    ESCAPE[char] = (byte < 32 or byte > 126 or char:find('["\\?]')) and ("\\%03o"):format(byte) or nil
end
ESCAPE["\n"] = "\\n"
local function literal(bytes)
    local lines = {}
    local from = 1
    while from <= #bytes do
        local to = math.min(bytes:find("\n", from, true) or #bytes, from + 99)
        lines[#lines + 1] = '    "' .. bytes:sub(from, to):gsub(".", ESCAPE) .. '"'
        from = to + 1
    end
    return #lines == 0 and '    ""' or table.concat(lines, "\n")
end

if not run("mkdir -p " .. quote(dir)) then fail("cannot make the folder %s", dir) end
local names = {}
for name in output("find lua kernels src/abi_*.h -type f"):gmatch("[^\n]+") do
    if not name:find("/%.") and not name:find("/__pycache__/", 1, true) then names[#names + 1] = name end
end
table.sort(names)

local out = {
    "// Written by scripts/embed.lua. Do not edit.",
    '#include "embedded.h"',
    '#pragma GCC diagnostic ignored "-Woverlength-strings"',
}
local entries, sources = {}, {}
for i, name in ipairs(names) do
    local text = assert(read(name))
    if not name:find("^lua/") then sources[#sources + 1] = name .. "\n" .. text end
    out[#out + 1] = ("static const unsigned char file_%d[] = // %s\n%s;"):format(i, name, literal(text))
    entries[i] = ('    { "%s", file_%d, %d },'):format(name, i, #text)
end
local binary = fatbin(table.concat(sources, "\n"))
out[#out + 1] = "const gwb_embedded gwb_embedded_files[] = {\n" .. table.concat(entries, "\n") .. "\n    { 0, 0, 0 },\n};"
out[#out + 1] = ("const size_t gwb_embedded_count = %d;"):format(#entries)
out[#out + 1] = "_Alignas(64) const unsigned char gwb_embedded_fatbin[] =\n" .. literal(binary) .. ";"
out[#out + 1] = ("const size_t gwb_embedded_fatbin_size = %d;\n"):format(#binary)

write(dir .. "/embedded_files.c", table.concat(out, "\n"))
