-- SPDX-License-Identifier: MIT
-- gpu.map and gpu.reduce on each device.
local gpu = require "gpuwb"
local ffi = require "ffi"
local helper = require "tests.helper"
local kernels = require "tests.kernels"
local raises = helper.raises
local C = require("gpuwb.cdef").C
if not kernels.compiler_at_hand() and helper.devices()[1] == "host" then
    pending("kernels on the host device need a C or C++ compiler")
    return
end

local numbers = kernels.numbers

helper.each_device(function()
    describe("gpu.map", function()
        it("computes an expression for each number, in double, and saturates", function()
            local a, a_parent = helper.poisoned(13, 7, "u8x3")
            local b = gpu.mat(13, 7, "f32x3")
            a:upload(numbers(13 * 7 * 3, 256))
            b:upload(numbers(13 * 7 * 3, nil, 77))
            local got = gpu.map("(a + 2*b) / 3", {a = a, b = b}, "f32")
            assert.equal("f32x3", got.type)
            local list_a, list_b, list = a:totable(), b:totable(), got:totable()
            for y = 1, 7 do
                for x = 1, 13 do
                    for c = 1, 3 do
                        assert.equal(tonumber(ffi.new("float", (list_a[y][x][c] + 2 * list_b[y][x][c]) / 3)), list[y][x][c])
                    end
                end
            end
            local out, out_parent = helper.poisoned(13, 7, "u8x3")
            assert.equal(out, gpu.map("a * k + b", {a = a, b = b, k = -0.5}, {out = out}))
            list = out:totable()
            for y = 1, 7 do
                for x = 1, 13 do
                    for c = 1, 3 do
                        local v = list_a[y][x][c] * -0.5 + list_b[y][x][c]
                        local floor = math.floor(v)
                        local even = v - floor == 0.5 and floor + floor % 2 or math.floor(v + 0.5)
                        assert.equal(math.max(0, math.min(255, even)), list[y][x][c])
                    end
                end
            end
            helper.untouched(out, out_parent)
            helper.untouched(a, a_parent)
        end)

        it("knows the position, single channels, and mats of no size", function()
            local m = gpu.mat(4, 3, "i16x2", {fill = {1, 2}})
            assert.same({3 + 20 + 1, 3 + 20 + 102}, {gpu.map("a + x + y*10 + c*100", {a = m}):at(3, 2)})
            local mask = gpu.mat(4, 3, "u8", {fill = 0})
            mask:roi(1, 1, 1, 1):fill(1)
            local picked = gpu.map("mask > 0 ? a : -a", {a = m, mask = mask}, {type = "i16"})
            assert.same({1, 2}, {picked:at(1, 1)})
            assert.same({-1, -2}, {picked:at(0, 1)})
            assert.equal(2.5, (gpu.map("max(x, 2) + min(y, 0.5) + clamp(x, 0, 0) + mod(-1, 3) - 2", {}, {width = 3, height = 3, type = "f32"}):at(0, 2)))
            assert.equal(0, gpu.map("a", {a = gpu.mat(0, 5, "u8")}).width)
            assert.equal(m, gpu.map("a + 1", {a = m}, {out = m}))
            assert.same({2, 3}, {m:at(0, 0)})
        end)

        it("compiles once for other numbers and mats of the same types", function()
            local a = gpu.mat(5, 5, "u8", {fill = 10})
            gpu.map("a * s + 1", {a = a, s = 2})
            local before = tonumber(C.gwb_compilations())
            assert.equal(31, (gpu.map("a * s + 1", {a = a, s = 3}):at(4, 4)))
            assert.equal(41, (gpu.map("a * s + 1", {a = gpu.mat(9, 2, "u8", {fill = 20}), s = 2}):at(8, 1)))
            assert.equal(before, tonumber(C.gwb_compilations()))
        end)

        it("refuses what it cannot compute", function()
            local a, b = gpu.mat(5, 5, "u8", {fill = 1}), gpu.mat(5, 4, "u8")
            raises("SHAPE", {"5x5", "5x4"}, gpu.map, "a + b", {a = a, b = b})
            raises("SHAPE", "channels", gpu.map, "a + b", {a = gpu.mat(5, 5, "u8x3"), b = gpu.mat(5, 5, "u8x4")})
            raises("BAD_ARGUMENT", "several types", gpu.map, "a + b", {a = a, b = gpu.mat(5, 5, "f32")})
            raises("BAD_ARGUMENT", {"1/2", "1.0/2"}, gpu.map, "1/2 * a", {a = a})
            raises("BAD_ARGUMENT", "one C expression", gpu.map, "a; b", {a = a})
            raises("BAD_ARGUMENT", "one C expression", gpu.map, " ", {a = a})
            raises("BAD_ARGUMENT", "not x, y", gpu.map, "x", {x = a})
            raises("BAD_ARGUMENT", "a mat or a number", gpu.map, "a", {a = "1"})
            raises("BAD_ARGUMENT", "no mat", gpu.map, "x", {})
            raises("BAD_ARGUMENT", "round", gpu.map, "a", {a = a}, {round = "half"})
            raises("BAD_ARGUMENT", "overlaps", gpu.map, "a", {a = a:roi(0, 0, 4, 4)}, {out = a:roi(1, 1, 4, 4)})
            raises("COMPILE", {"a + nothing_such", "does not compile"}, gpu.map, "a + nothing_such", {a = a})
        end)
    end)

    describe("gpu.reduce", function()
        it("gives a number for each channel", function()
            local m, parent = helper.poisoned(21, 9, "i16x3")
            local list = numbers(21 * 9 * 3)
            for i = 1, #list do
                list[i] = list[i] - 500
            end
            m:upload(list)
            local want = {sum = {0, 0, 0}, norm1 = {0, 0, 0}, norm2 = {0, 0, 0}, nonzero = {0, 0, 0}, mean = {0, 0, 0}, min = {1e9, 1e9, 1e9},
                          max = {-1e9, -1e9, -1e9}}
            for i, v in ipairs(list) do
                local c = (i - 1) % 3 + 1
                want.sum[c] = want.sum[c] + v
                want.norm1[c] = want.norm1[c] + math.abs(v)
                want.norm2[c] = want.norm2[c] + v * v
                want.nonzero[c] = want.nonzero[c] + (v ~= 0 and 1 or 0)
                want.min[c], want.max[c] = math.min(want.min[c], v), math.max(want.max[c], v)
            end
            for c = 1, 3 do
                want.mean[c], want.norm2[c] = want.sum[c] / (21 * 9), math.sqrt(want.norm2[c])
            end
            for what, numbers_wanted in pairs(want) do
                assert.same(numbers_wanted, {gpu.reduce(m, what)}, what)
            end
            helper.untouched(m, parent)
        end)

        it("sums in one order whatever the device, also where that matters", function()
            for _, size in ipairs {{1, 1}, {1000, 3}, {2049, 17}, {3, 5000}} do
                local m = gpu.mat(size[1], size[2], "f32"):upload((helper.bytes(4 * size[1] * size[2], 5):gsub("(...).", "%1\63")))
                local there = m:to("host")
                for _, what in ipairs {"sum", "norm2", "min", "max"} do
                    assert.equal(gpu.reduce(there, what), gpu.reduce(m, what))
                end
                -- a straight sum differs by its own rounding alone
                local sum, largest = 0, 0
                for _, row in ipairs(there:totable()) do
                    for _, v in ipairs(row) do
                        sum, largest = sum + v, largest + math.abs(v)
                    end
                end
                assert.is_true(math.abs(sum - gpu.reduce(m, "sum")) <= largest * 1e-12)
            end
        end)

        it("keeps NaN, and refuses what has no answer", function()
            local m = gpu.mat(100, 3, "f32", {fill = 1})
            m:roi(50, 1, 1, 1):fill(0 / 0)
            for _, what in ipairs {"sum", "mean", "min", "max", "norm1", "norm2"} do
                local v = gpu.reduce(m, what)
                assert.is_true(v ~= v, what)
            end
            local none = gpu.mat(0, 3, "u8x2")
            assert.same({0, 0}, {gpu.reduce(none, "sum")})
            raises("BAD_ARGUMENT", "no pixels", gpu.reduce, none, "mean")
            raises("BAD_ARGUMENT", "no pixels", gpu.reduce, none, "min")
            raises("BAD_ARGUMENT", {"what", "norm2"}, gpu.reduce, m, "median")
        end)
    end)
end)
