-- SPDX-License-Identifier: MIT
-- scripts/planes.lua and the test card, run as a person runs them.
local gpu = require "gpuwb"
local helper = require "tests.helper"
local reference = require "tests.reference"

local folder

setup(function() folder = helper.folder() end)
teardown(function() helper.remove(folder) end)

local function script(device, name, ...)
    local words = {helper.command(), "--device", device, "scripts/" .. name .. ".lua"}
    for _, word in ipairs {...} do
        words[#words + 1] = "'" .. word .. "'"
    end
    return helper.run(table.concat(words, " "))
end

-- The largest distance of a picture file from the exact conversion of planes.
local function distance(path, planes, tags)
    local picture = gpu.load(path)
    local width, height = picture.width, picture.height
    local strings = {}
    for i, p in ipairs(planes) do
        strings[i] = p:download()
    end
    local exact = reference.convert({format = "yuv420p", width = width, height = height, c = reference.decode("yuv420p", width, height, strings),
        matrix = tags.matrix, range = tags.range, siting = tags.siting}, {format = "rgb24"})
    local got = reference.decode("rgb24", width, height, {picture.planes[1]:download()})
    return (reference.compare("rgb24", got, exact))
end

helper.each_device(function(name)
    describe("the planes job", function()
        it("makes a test card and converts it rightly", function()
            local out, status = script(name, "planes", folder .. "/card.png")
            assert.equal(0, status, out)
            assert.truthy(out:find("600 x 400 yuv420p on " .. name, 1, true))
            assert.equal("", (script(name, "testcard", folder .. "/card.npy")))
            local frame = gpu.load(folder .. "/card.npy")
            assert.same({600, 600, "u8"}, {frame.width, frame.height, frame.type})
            local planes = frame:planes("yuv420p", 600, 400).planes
            assert.is_true(distance(folder .. "/card.png", planes, {matrix = "bt601", range = "limited", siting = "center"}) <= 1)
            -- 75 % yellow, and the zone plate, which is gray
            assert.same({162, 44, 142}, {planes[1]:at(128, 10), planes[2]:at(64, 5), planes[3]:at(64, 5)})
            assert.same({128, 128}, {planes[2]:at(250, 150), planes[3]:at(250, 150)})
        end)

        it("takes a frame as npy, y4m and yuv, of odd sizes too", function()
            for _, kind in ipairs {"npy", "y4m", "yuv"} do
                assert.equal("", (script(name, "testcard", folder .. "/even." .. kind, "64", "48")))
                local out, status = script(name, "planes", folder .. "/even." .. kind, folder .. "/even_" .. kind .. ".png", "--width", "64", "--height", "48")
                assert.equal(0, status, out)
            end
            local npy = gpu.load(folder .. "/even_npy.png").planes[1]:download()
            assert.equal(npy, gpu.load(folder .. "/even_yuv.png").planes[1]:download())
            local y4m = gpu.load(folder .. "/even.y4m")
            assert.is_true(distance(folder .. "/even_y4m.png", y4m.planes, {matrix = "bt601", range = "limited", siting = "center"}) <= 1)

            script(name, "testcard", folder .. "/odd.yuv", "61", "45")
            local out, status = script(name, "planes", folder .. "/odd.yuv", folder .. "/odd.png", "--width", "61", "--height", "45", "--matrix", "bt709")
            assert.equal(0, status, out)
            assert.truthy(out:find("taking it as bt709, limited", 1, true))
            local odd = gpu.load_raw(folder .. "/odd.yuv", "yuv420p", 61, 45)
            assert.same({31, 23}, {odd.planes[2].width, odd.planes[2].height})
            assert.is_true(distance(folder .. "/odd.png", odd.planes, {matrix = "bt709", range = "limited"}) <= 1)
        end)

        it("shows and explains the split by columns", function()
            local out, status = script(name, "planes", folder .. "/wrong.png", "--wrong-split")
            assert.equal(0, status, out)
            for _, words in ipairs {"P1 src", "P2 src: 50.0 %", "P3 src", "(+60000)", "(+300)", "V is U moved by one row", "P4 src", "frame:planes("} do
                assert.truthy(out:find(words, 1, true), words .. " is not in " .. out)
            end
            assert.is_nil(out:find("warning", 1, true))
            local wide = gpu.load(folder .. "/wrong.png").planes[1]
            assert.same({1800, 400}, {wide.width, wide.height})
            script(name, "planes", folder .. "/right.png")
            local right = gpu.load(folder .. "/right.png").planes[1]:download()
            assert.equal(right, wide:cols(0, 600):download())

            -- What the mistake means: V is U from its second row on, and then V's first row.
            script(name, "testcard", folder .. "/wrong.npy")
            local frame = gpu.load(folder .. "/wrong.npy")
            local img = frame:planes("yuv420p", 600, 400, {matrix = "bt601", range = "limited", siting = "center"})
            local moved = gpu.mat(300, 200, "u8")
            gpu.copy(moved:rows(0, 199), img.planes[2]:rows(1, 199))
            gpu.copy(moved:row(199), img.planes[3]:row(0))
            img.planes[3] = moved
            local wrong = img:convert("rgb24").planes[1]:download()
            assert.equal(wrong, wide:cols(600, 600):download())
            local difference = wide:cols(1200, 600):download()
            for i = 1, #right, 997 do
                assert.equal(math.min(255, 4 * math.abs(right:byte(i) - wrong:byte(i))), difference:byte(i))
            end
        end)

        it("says what it cannot do", function()
            local function fails(status, words, ...)
                local out, got = script(name, "planes", ...)
                assert.equal(status, got, out)
                assert.truthy(out:find(words, 1, true), out)
                assert.is_nil(io.open(folder .. "/none.png"))
            end
            fails(2, "usage:")
            fails(2, "--sideways", folder .. "/none.png", "--sideways")
            fails(2, "--matrix wants a value", folder .. "/none.png", "--matrix")
            fails(2, "--width and --height", folder .. "/odd.yuv", folder .. "/none.png")
            fails(2, "yuv420p", folder .. "/none.png", "--wrong-split", "--width", "61")
            fails(1, "No such file", folder .. "/nothing.npy", folder .. "/none.png")
            fails(1, "bt601", folder .. "/none.png", "--matrix", "bt6001")
        end)

        it("converts a photo's frame to within one step of the exact values", function()
            local path = "../shared/data/frames/coffee_600x400_yuv420p_bt601.npy"
            local file = io.open(path)
            if not file then
                return pending("the photo is not here")
            end
            file:close()
            local out, status = script(name, "planes", path, folder .. "/coffee.png", "--matrix", "bt601", "--range", "limited")
            assert.equal(0, status, out)
            local frame = gpu.load(path)
            assert.is_true(distance(folder .. "/coffee.png", frame:planes("yuv420p", 600, 400).planes, {matrix = "bt601", range = "limited"}) <= 1)
        end)
    end)
end)
