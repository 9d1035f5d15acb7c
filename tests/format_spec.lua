-- SPDX-License-Identifier: MIT
-- The format table: names, aliases, sizes of planes and frames.
local gpu = require "gpuwb"
local helper = require "tests.helper"
local reference = require "tests.reference"

-- Bytes of a sample's element type.
local sizes = {u8 = 1, u16 = 2, u32 = 4, f16 = 2, f32 = 4}

local function bytes_of(kind)
    local element, channels = kind:match("^(%a%d+)x?(%d*)$")
    return sizes[element] * (tonumber(channels) or 1)
end

describe("the format table", function()
    local names, aliases = gpu.formats()

    it("holds every format of the reference, and no other", function()
        local seen = {}
        for _, name in ipairs(names) do
            assert.is_nil(seen[name], name .. " stands twice")
            seen[name] = true
            assert.is_table(reference.formats[name], name)
        end
        for name in pairs(reference.formats) do
            assert.is_true(seen[name], name .. " is missing")
        end
    end)

    it("says of each format what the reference says", function()
        for name, want in pairs(reference.formats) do
            local f = gpu.format(name)
            assert.equal(want.mosaic and "bayer" or want.model, f.model, name)
            assert.equal(#want.planes, f.planes, name)
            assert.same({want.w, want.h}, f.subsampling, name)
            assert.equal(want.has.A or false, f.alpha, name)
            assert.equal(want.depth.G or want.depth.Y, f.depth, name)
        end
    end)

    it("gives planes whose bytes make up the frame (Y16)", function()
        for _, name in ipairs(names) do
            local f = gpu.format(name)
            for w = 0, 7 do
                for h = 0, 7 do
                    local total = 0
                    for i = 1, f.planes do
                        local p = f:plane(i, w, h)
                        assert.equal(total, p.offset, name)
                        total = total + p.step * p.height
                        if name ~= "v210" then
                            assert.equal(p.width * bytes_of(p.type), p.step, name)
                        end
                        local bytes, row, rows = reference.plane_bytes(name, i, w, h)
                        assert.equal(rows, p.height, name)
                        assert.equal(row, p.width * bytes_of(p.type), name)
                        assert.equal(bytes, row * p.height, name)
                    end
                    assert.equal(total, f:bytes(w, h), ("%s %d x %d"):format(name, w, h))
                end
            end
        end
    end)

    it("rounds chroma up (Y2)", function()
        local f = gpu.format("yuv420p")
        assert.same({width = 161, height = 121, type = "u8", offset = 321 * 241, step = 161}, f:plane(2, 321, 241))
        assert.equal(15, f:plane(2, 5, 3).offset)
        assert.equal(21, f:plane(3, 5, 3).offset)
        assert.equal(27, f:bytes(5, 3))
        assert.equal(1920 * 1080 * 3 / 2, f:bytes(1920, 1080))
        assert.equal(5120 * 1080, gpu.format("v210"):bytes(1920, 1080))
        assert.equal(2 ^ 31 * 3, gpu.format("rgb24"):bytes(2 ^ 16, 2 ^ 15))
    end)

    it("knows other names", function()
        for _, alias in ipairs(aliases) do
            assert.equal(alias[2], gpu.format(alias[1]).name)
        end
        assert.equal("yuv420p", gpu.format("i420").name)
        assert.is_false(gpu.format("i420").swapped)
        assert.is_true(gpu.format("yv12").swapped)
        assert.equal("full", gpu.format("yuvj420p").range)
        assert.is_nil(gpu.format("yuv420p").range)
        assert.equal("p010le", gpu.format("p010").name)
        assert.equal("v210", gpu.format("v210").name)
    end)

    it("lists by model", function()
        assert.same({"gray", "gray9le", "gray10le", "gray12le", "gray14le", "gray16le", "grayf16le", "grayf32le", "ya8", "ya16le"}, (gpu.formats("gray")))
        assert.equal(8, #(gpu.formats("bayer")))
    end)

    it("refuses what it does not know", function()
        helper.raises("BAD_ARGUMENT", {"yuv421p", "gpu.formats()"}, gpu.format, "yuv421p")
        helper.raises("BAD_ARGUMENT", "no pixel format", gpu.format, "")
        helper.raises("BAD_ARGUMENT", "no pixel format", gpu.format, ("x"):rep(1000))
        helper.raises("BAD_ARGUMENT", "string", gpu.format, nil)
        helper.raises("BAD_ARGUMENT", "model", gpu.formats, "cmyk")
        helper.raises("BAD_ARGUMENT", "1..3", function() gpu.format("yuv420p"):plane(4, 1, 1) end)
        helper.raises("BAD_ARGUMENT", "width", function() gpu.format("yuv420p"):bytes(-1, 1) end)
        helper.raises("BAD_ARGUMENT", "height", function() gpu.format("yuv420p"):bytes(1, 0 / 0) end)
        helper.raises("LIMIT", "memory", function() gpu.format("rgbaf32le"):bytes(2147483647, 2147483647) end)
        helper.raises("LIMIT", "memory", gpu.image, "rgbaf32le", 2147483647, 2147483647)
        helper.raises("READ_ONLY", "assigned", function() gpu.format("nv12").fps = 3 end)
    end)

    it("stands in the README as scripts/formats.lua writes it", function()
        local file = io.open("README.md", "rb")
        if not file then
            return pending("README.md is not here")
        end
        local text = file:read("*a")
        file:close()
        assert.equal(text, dofile("scripts/formats.lua").insert(text))
    end)

    it("says what its methods are methods of", function()
        local f = gpu.format("nv12")
        helper.raises("BAD_ARGUMENT", "method of a format", f.bytes, {}, 2, 2)
        helper.raises("BAD_ARGUMENT", "method of a format", f.plane, nil, 1, 2, 2)
    end)

    it("prints a format in a line", function()
        assert.equal("nv12: semiplanar yuv, 2 planes of u8, 8 bits, chroma 2x2", tostring(gpu.format("nv12")))
    end)
end)
