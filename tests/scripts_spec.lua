-- SPDX-License-Identifier: MIT
-- The scripts that one learns from: each runs, and its picture shows what it says.
local gpu = require "gpuwb"
local helper = require "tests.helper"
local command = require "tests.command_helper"

helper.each_device(function(name)
    describe("scripts/", function()
        local folder, card, flat

        setup(function()
            folder = command.folder()
            card, flat = folder .. "/card.png", folder .. "/flat.png"
            local img = gpu.image("rgb24", 96, 64, {range = "full"})
            local bytes = {}
            for y = 0, 63 do
                for x = 0, 95 do
                    bytes[#bytes + 1] = string.char(x * 2, y * 4, (x + y) % 256)
                end
            end
            img.planes[1]:upload(table.concat(bytes))
            img:save(card)
            gpu.mat(50, 40, "u8x3", {fill = {200, 100, 50}}):save(flat)
        end)
        teardown(function() command.remove(folder) end)

        -- Runs a script; what it printed, and its picture as a mat of the host where it made one.
        local expected = 0          -- the exit status
        local function run(script, ...)
            local words = {"--device", name, "scripts/" .. script .. ".lua", ...}
            local result = command.run(words)
            if result.status ~= 0 and result.err:find("UNSUPPORTED", 1, true) or result.err:find("no compiler", 1, true) then
                return nil, result.err
            end
            assert.equal(expected, result.status, result.err)
            local file = io.open(folder .. "/out.png")
            if file then file:close() end
            return result.out, file and gpu.load(folder .. "/out.png", {device = "host"}).planes[1]
        end
        local function out() return folder .. "/out.png" end
        after_each(function() os.remove(out()) end)

        it("contact_sheet.lua has each picture at its place, and goes on after a bad one", function()
            command.write(folder .. "/bad.png", "no picture")
            expected = 1
            local text, m = run("contact_sheet", flat, folder .. "/bad.png", card, out())
            expected = 0
            assert.equal("2 pictures in " .. out() .. ", 1 could not be read\n", text)
            assert.same({12 + 2 * 252, 12 + 2 * 206}, {m.width, m.height})
            assert.same({200, 100, 50}, {m:at(12 + 120, 12 + 90)})
            assert.same({32, 32, 32}, {m:at(12 + 252 + 120, 12 + 90)})
            assert.equal(220, (gpu.reduce(m:roi(12, 12 + 184, 60, 8), "max")))
        end)

        it("compare.lua finds nothing between equals, and what is there between others", function()
            local text = run("compare", card, card, out())
            if not text then return pending "no compiler here" end
            assert.equal("equal, all 18432 samples\n", text)
            local other = gpu.load(card)
            other.planes[1]:roi(40, 30, 1, 1):fill {0, 0, 0}
            other:save(folder .. "/other.png")
            local found, m = run("compare", card, folder .. "/other.png", out())
            assert.truthy(found:find("^3 of 18432 samples differ, by 120 at most", 1), found)
            local x = 24 + math.max(96, 6 * #card) + math.max(96, 6 * #(folder .. "/other.png"))      -- behind both labels
            assert.same({255, 255, 255}, {m:at(x + 40, 24 + 30)})
            assert.same({0, 0, 0}, {m:at(x + 39, 24 + 30)})
        end)

        it("histogram.lua has its bars where the levels are", function()
            local text, m = run("histogram", flat, out())
            if not text then return pending "no compiler here" end
            assert.same({24, 24, 24}, {m:at(30, 150)})
            assert.same({220, 24, 24}, {m:at(3 * 200 + 1, 150)})
            assert.same({24, 220, 24}, {m:at(3 * 100 + 1, 150)})
            assert.same({24, 24, 220}, {m:at(3 * 50 + 1, 150)})
        end)

        it("waveform.lua rises with the brightness", function()
            local text, m = run("waveform", card, out())
            if not text then return pending "no compiler here" end
            assert.same({640, 256}, {m.width, m.height})
            local dark, light = m:roi(0, 130, 40, 125), m:roi(0, 0, 40, 60)
            assert.truthy(select(2, gpu.reduce(dark, "mean")) > 5 * select(2, gpu.reduce(light, "mean")))
        end)

        it("vectorscope.lua has a flat colour in one place", function()
            local text, m = run("vectorscope", flat, out())
            if not text then return pending "no compiler here" end
            local yuv = gpu.load(flat):convert("yuv444p", {matrix = "bt601", range = "limited"})
            local u, v = yuv.planes[2]:at(0, 0), yuv.planes[3]:at(0, 0)
            assert.truthy(select(2, m:at(2 * u, 2 * (255 - v))) > 200)
        end)

        it("banding.lua: dither keeps the mean that steps lose", function()
            local text, m = run("banding", out())
            if not text then return pending "no compiler here" end
            -- within one band of no dither all is alike; with dither the mean follows the ramp
            local band = m:roi(8 + 22, 24, 36, 120)
            assert.equal((gpu.reduce(band, "min")), (gpu.reduce(band, "max")))
            for _, x in ipairs {496, 984} do
                local left, right = (gpu.reduce(m:roi(x + 32, 24, 10, 120), "mean")), (gpu.reduce(m:roi(x + 52, 24, 10, 120), "mean"))
                assert.near(255 * 20 / 480, right - left, 2)
            end
        end)

        it("siting.lua: read back as it was written is nearer", function()
            local text, m = run("siting", out())
            if not text then return pending "no compiler here" end
            local before = m:roi(8, 24, 288, 192)
            local same, other = gpu.diff(before, m:roi(304, 24, 288, 192)), gpu.diff(before, m:roi(600, 24, 288, 192))
            assert.truthy(same.mean < other.mean, same.mean .. " " .. other.mean)
        end)

        it("letterbox.lua fits, and finds the way back", function()
            local text, m = run("letterbox", card, out())
            assert.truthy(text:find("mat 640x1920 f32", 1, true))
            assert.truthy(text:find("(320, 320) of the square is (48.0, 32.0) of the picture", 1, true))
            assert.same({640, 640}, {m.width, m.height})
            assert.same({114, 114, 114}, {m:at(320, 10)})
        end)

        it("playground.lua draws", function()
            local text, m = run("playground", out())
            if not text then return pending "no compiler here" end
            assert.truthy((gpu.reduce(m, "max")) > 100)
        end)

        it("video.lua writes the frames of a video", function()
            if command.shell("cd " .. command.quote(folder) .. " && ffmpeg -v error -y -f lavfi -i testsrc2=size=64x48:rate=5:duration=2 -pix_fmt yuv420p "
                .. "some.mp4").status ~= 0 then
                return pending "no ffmpeg here"
            end
            local text = run("video", folder .. "/some.mp4", folder .. "/some-%d.png", "--every", "3")
            assert.truthy(text:find("^frames of .*/some%.mp4 %(%w+%) by %w+, 10 taken, closed: 4 of them in "), text)
            for img, n in gpu.frames(folder .. "/some.mp4") do
                local file = io.open(("%s/some-%d.png"):format(folder, n))
                assert.equal(n % 3 == 0, file ~= nil)
                if file then
                    file:close()
                    local rgb = img:convert("rgb24", {from = {matrix = "bt601", range = "limited"}})
                    assert.equal(rgb.planes[1]:download(), gpu.load(("%s/some-%d.png"):format(folder, n)).planes[1]:download())
                end
            end
        end)

        it("say what they want", function()
            for _, script in ipairs {"video", "contact_sheet", "compare", "histogram", "waveform", "vectorscope", "letterbox"} do
                local result = command.run {"scripts/" .. script .. ".lua"}
                assert.equal(1, result.status)
                assert.truthy(result.err:find("^usage: gpuwb scripts/" .. script .. ".lua"), result.err)
                assert.equal(result.err, command.run({"scripts/" .. script .. ".lua", "--help"}).err)
            end
        end)

        it("say in a line what they could not read or write", function()
            command.write(folder .. "/array.npy", gpu.encode(gpu.mat(3, 2, "f32", {fill = 1}), "npy"))
            for _, script in ipairs {"contact_sheet", "compare", "histogram", "waveform", "vectorscope", "letterbox", "planes"} do
                local function fails(text, ...)
                    local result = command.run {"--device", name, "scripts/" .. script .. ".lua", ...}
                    if result.err:find("UNSUPPORTED", 1, true) or result.err:find("no compiler", 1, true) then return end
                    assert.equal(1, result.status, result.err)
                    assert.truthy(result.err:find("^" .. script .. "%.lua: [^\n]*\n$") and result.err:find(text, 1, true), result.err)
                end
                local one = script == "planes" and folder .. "/no.y4m" or folder .. "/no.png"
                fails(one .. ": cannot open: No such file", one, script == "compare" and card or out())
                if script ~= "planes" then
                    fails("array.npy: an array of f32, no picture", folder .. "/array.npy", script == "compare" and card or out())
                    fails("/no/such/out.png", card, unpack(script == "compare" and {card, "/no/such/out.png"} or {"/no/such/out.png"}))
                end
            end
        end)
    end)
end)
