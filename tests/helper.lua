-- SPDX-License-Identifier: MIT
-- What the specs share: the devices at hand, pictures made by formula, poisoned memory, errors.
local gpu = require "gpuwb"
local ffi = require "ffi"

local helper = {}

-- Names of the devices to test on: the host, and the first cuda device where there is one (GPUWB_TEST_DEVICE names a single one).
function helper.devices()
    local only = os.getenv("GPUWB_TEST_DEVICE")
    if only then
        return {only}
    end
    local list = {"host"}
    for _, d in ipairs(gpu.devices()) do
        if d.name == "cuda:0" then
            list[2] = d.name
        end
    end
    return list
end

-- Calls fn(name) inside a `describe` for each device, which is current in its tests.
function helper.each_device(fn)
    local busted = getfenv(fn)      -- describe and the like are known to spec files only
    for _, name in ipairs(helper.devices()) do
        busted.describe("on " .. name, function()
            local before
            busted.setup(function()
                before = gpu.device()
                gpu.device(name)
            end)
            busted.teardown(function()
                gpu.device(before)
            end)
            fn(name)
        end)
    end
end

-- Runs fn, which must raise a gpuwb error of that code whose text holds each of the given words; returns the error.
function helper.raises(code, words, fn, ...)
    local ok, err = pcall(fn, ...)
    assert(not ok, "no error was raised, wanted " .. code)
    assert(type(err) == "table" and err.code, "not one of gpuwb's errors: " .. tostring(err))
    assert(err.code == code, ("wanted %s, got %s: %s"):format(code, err.code, tostring(err)))
    for _, word in ipairs(type(words) == "table" and words or {words}) do
        assert(tostring(err):find(word, 1, true), ("%q is not in: %s"):format(word, tostring(err)))
    end
    return err
end

-- A generator of whole numbers 0..n-1 that gives the same row each time (xorshift).
function helper.random(seed)
    local state = ffi.new("uint32_t[1]", seed or 2463534242)
    local bit = require "bit"
    return function(n)
        local x = state[0]
        x = bit.bxor(x, bit.lshift(x, 13))
        x = bit.bxor(x, bit.rshift(x, 17))
        x = bit.bxor(x, bit.lshift(x, 5))
        state[0] = x
        return tonumber(state[0]) % n
    end
end

-- n random bytes, as a string.
function helper.bytes(n, seed)
    local random = helper.random(seed)
    local out = ffi.new("uint8_t[?]", math.max(n, 1))
    for i = 0, n - 1 do
        out[i] = random(256)
    end
    return ffi.string(out, n)
end

-- A view of width x height inside a larger mat whose every other byte is `poison` (default 0xEE); returns view, parent.
function helper.poisoned(width, height, kind, poison)
    local parent = gpu.mat(width + 5, height + 3, kind, {packed = true})
    parent:reshape(parent.step, height + 3, "u8"):fill(poison or 0xEE)
    return parent:roi(2, 1, width, height), parent
end

-- Asserts that every byte of the parent outside the view still is the poison.
function helper.untouched(view, parent, poison)
    local row, elem = view.width * view.elem_size, parent.elem_size
    local whole, line = parent:download(), parent.width * elem
    local byte = poison or 0xEE
    for y = 0, parent.height - 1 do
        for x = 0, line - 1 do
            local inside = y >= 1 and y < 1 + view.height and x >= 2 * elem and x < 2 * elem + row
            if not inside and whole:byte(y * line + x + 1) ~= byte then
                error(("byte %d of row %d outside the view was written"):format(x, y), 2)
            end
        end
    end
end

-- Twice, since what the first round's finalizers let go of is found by the second.
function helper.collect()
    collectgarbage()
    collectgarbage()
end

-- DLPack's type code and bits of an element type.
helper.dlpack_types = {u8 = {1, 8}, i8 = {0, 8}, u16 = {1, 16}, i16 = {0, 16}, u32 = {1, 32}, i32 = {0, 32}, f16 = {2, 16}, f32 = {2, 32}, f64 = {2, 64}}

-- A word for the shell.
function helper.quote(word)
    return "'" .. tostring(word):gsub("'", "'\\''") .. "'"
end

-- Writes a file; returns its path.
function helper.write(path, text)
    local file = assert(io.open(path, "wb"))
    assert(file:write(text))
    assert(file:close())
    return path
end

function helper.read(path)
    local file = assert(io.open(path, "rb"))
    local text = file:read("*a")
    file:close()
    return text
end

-- A new folder; `remove` deletes it.
function helper.folder()
    return assert(helper.run("mktemp -d"):match("^(/[^\n]*)\n$"), "mktemp -d failed")
end

function helper.remove(folder)
    os.execute("rm -rf " .. helper.quote(folder))
end

-- Runs a shell command; returns its output (stdout and stderr) and its exit status.
function helper.run(command)
    local pipe = assert(io.popen("{ " .. command .. "\n} 2>&1; echo \"status $?\"", "r"))
    local text = pipe:read("*a")
    pipe:close()
    local status = text:match("status (%d+)\n$")
    return (text:gsub("status %d+\n$", "")), tonumber(status)
end

-- Runs code in a gpuwb of its own, behind shell text such as "NAME=value"; output, exit status.
function helper.child(code, before)
    return helper.run((before or "") .. " " .. helper.command() .. " -e " .. helper.quote(code))
end

-- The command under test, as a shell word.
function helper.command()
    local i = 0
    while arg[i - 1] do
        i = i - 1
    end
    local exe = io.open("/proc/self/exe") and helper.readlink("/proc/self/exe")
    return "'" .. (exe or arg[i]) .. "'"
end

ffi.cdef "long readlink(const char *path, char *out, size_t size);"

function helper.readlink(path)
    local out = ffi.new("char[4096]")
    local n = tonumber(ffi.C.readlink(path, out, 4095))
    return n > 0 and ffi.string(out, n) or nil
end

return helper
