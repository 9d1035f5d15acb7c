-- SPDX-License-Identifier: MIT
-- Damaged files of every format: each prefix, each flipped bit, and bytes changed at random from fixed seeds. A picture or an error that says why, in
-- bounded time and memory; the sanitizers of the asan build see the rest. scripts/fuzz.sh goes further.
local gpu = require "gpuwb"
local helper = require "tests.helper"
local make = require "tests.pictures"

-- The small files by formula, and what the writers make of a small picture.
local function all_samples()
    local files = make.samples()
    local rgb, f = gpu.mat(19, 11, "u8x3"):upload(helper.bytes(627)), gpu.mat(5, 3, "f32x3", {fill = 0.5})
    for kind in ("png jpg bmp tga qoi pnm"):gmatch("%S+") do
        files["written." .. kind] = gpu.encode(rgb, kind)
    end
    files["written.hdr"], files["written.pfm"] = gpu.encode(f, "hdr"), gpu.encode(f, "pfm")
    return files
end

-- The C code is the same for all devices.
describe("a damaged file", function()
    local before, device, samples
    setup(function()
        before, device = gpu.limits {pixels = 2 ^ 16, bytes = 2 ^ 22}, gpu.device()
        gpu.device("host")
        samples = all_samples()
    end)
    teardown(function()
        gpu.limits(before)
        gpu.device(device)
        gpu.codecs {libraries = true}
    end)

    local tried, read_well

    local function try(name, bytes, opts)
        local start = os.clock()
        local ok, err = pcall(gpu.decode, bytes, opts)
        tried = tried + 1
        if ok then
            read_well = read_well + 1
        else
            assert(type(err) == "table" and err.code ~= "INTERNAL" and #err.message > 20, name .. ": " .. tostring(err))
        end
        assert(os.clock() - start < 5, name .. " takes too long")
    end

    local options = {{}, {strict = false}, {strict = false, format = "native"}, {orient = false, scale = false}}

    for _, libraries in ipairs {true, false} do
        local how = libraries and "by what is there" or "by the built-in code"

        it("cut anywhere, or with one bit flipped, is a picture or an error that says why, " .. how .. " (S10)", function()
            gpu.codecs {libraries = libraries}
            tried, read_well = 0, 0
            for name, file in pairs(samples) do
                local short = #file < 400
                for n = 0, #file - 1, short and 1 or 5 do
                    try(name, file:sub(1, n))
                    try(name, file:sub(1, n), options[2 + n % 2])
                end
                for n = 1, #file, short and 1 or 7 do
                    for b = 0, 7 do
                        local flipped = file:sub(1, n - 1) .. string.char(bit.bxor(file:byte(n), 2 ^ b)) .. file:sub(n + 1)
                        try(name, flipped, options[(n + b) % 4 + 1])
                    end
                end
            end
            assert.is_true(tried > 20000)
            assert.is_true(read_well > 1000 and read_well < tried * 0.8)
        end)

        it("with bytes changed, doubled and dropped at random is a picture or an error, " .. how, function()
            gpu.codecs {libraries = libraries}
            tried, read_well = 0, 0
            local random = helper.random(libraries and 11 or 12)
            for name, file in pairs(samples) do
                for i = 1, 150 do
                    local bytes = file
                    for _ = 1, 1 + random(4) do
                        local at, what = 1 + random(#bytes), random(4)
                        local part = what == 0 and "" or what == 1 and bytes:sub(at, at + random(9)):rep(2) or what == 2 and string.char(random(256))
                            or ("\255\0\127\128"):sub(1 + i % 4, 1 + i % 4)
                        bytes = bytes:sub(1, at - 1) .. part .. bytes:sub(at + 1)
                    end
                    try(name, bytes, options[i % 4 + 1])
                end
            end
            assert.is_true(tried > 4000 and read_well > 100)
        end)
    end

    it("tells its facts or why not, frame by frame too", function()
        local path = os.tmpname()
        finally(function()
            os.remove(path)
        end)
        local told = 0
        for name, file in pairs(samples) do
            for n = 1, #file, 11 do
                local bytes = file:sub(1, n - 1) .. string.char(bit.bxor(file:byte(n), 255)) .. file:sub(n + 1)
                local ok, info = pcall(gpu.info, {bytes = bytes})
                assert(ok and info.width > 0 or type(info) == "table" and info.code, name)
                told = told + (ok and 1 or 0)
                if name:find("gif") or name:find("y4m") then
                    local out = assert(io.open(path, "wb"))
                    out:write(bytes)
                    out:close()
                    local fine, err = pcall(function()
                        for img in gpu.frames(path, {strict = n % 2 == 0}) do
                            assert(img.width > 0)
                        end
                    end)
                    assert(fine or type(err) == "table" and err.code, name .. tostring(err))
                end
            end
        end
        assert.is_true(told > 50)
    end)
end)
