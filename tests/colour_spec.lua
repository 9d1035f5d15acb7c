-- SPDX-License-Identifier: MIT
-- Changes of transfer curve and primaries, and tone mapping, against the double-precision reference.
local gpu = require "gpuwb"
local helper = require "tests.helper"
local reference = require "tests.reference"

local transfers = {"srgb", "bt709", "bt1886", "gamma22", "gamma28", "linear", "pq", "hlg"}
local primaries = {"bt709", "bt2020", "display-p3", "bt601-525", "bt601-625"}
local names = {"rgb24", "rgb48le", "nv12", "yuv444p10le", "v210", "gbrp12le", "rgbpf32le", "gray", "yuyv422", "rgba", "p010le"}

local function picture(name, width, height, tags, seed)
    local f, info, strings, planes = reference.formats[name], gpu.format(name), {}, {}
    for i = 1, #f.planes do
        local p = info:plane(i, width, height)
        if f.float then
            local random, list = helper.random(seed + i), {}
            for k = 1, p.width * p.height do list[k] = random(1025) / 1024 end
            planes[i] = gpu.mat(p.width, p.height, p.type):upload(list)
        else
            planes[i] = gpu.mat(p.width, p.height, p.type):upload(helper.bytes(reference.plane_bytes(name, i, width, height), seed + i))
        end
        strings[i] = planes[i]:download()
    end
    local opts = {width = width, height = height}
    for k, v in pairs(tags) do opts[k] = v end
    return gpu.image_from(name, planes, opts), reference.decode(name, width, height, strings)
end

local function tags_for(name, transfer, prim)
    local f = reference.formats[name]
    return {
        matrix = f.model ~= "rgb" and "bt709" or nil, range = f.model == "yuv" and "limited" or "full", siting = f.w > 1 and "left" or nil,
        transfer = transfer, primaries = prim,
    }
end

-- Converts and compares; returns the distance from the exact value.
local function try(src, codes, name, tags, opts)
    local all = {to = tags, color = "convert", tonemap = opts and opts.tonemap, peak = opts and opts.peak}
    local img = src:convert(name, all)
    local strings = {}
    for i, m in ipairs(img.planes) do strings[i] = m:download() end
    local exact = reference.convert({
        format = src.format, width = src.width, height = src.height, c = codes, matrix = src.matrix, range = src.range, siting = src.siting,
        transfer = src.transfer, primaries = src.primaries,
    }, {format = name, matrix = img.matrix, range = img.range, siting = img.siting, transfer = img.transfer, primaries = img.primaries},
        {light = true, tonemap = opts and opts.tonemap, peak = opts and opts.peak})
    return (reference.compare(name, reference.decode(name, src.width, src.height, strings), exact))
end

-- float32 between the stages: a few units in its last place, which the steep start of a curve makes larger.
local function tolerance(name)
    local f = reference.formats[name]
    local depth = f.depth.G or f.depth.Y
    return f.float and 2e-5 or 0.5 + 3e-5 * 2 ^ depth
end

helper.each_device(function()
    describe("a change of light", function()
        for i, from in ipairs(transfers) do
            it("from " .. from .. " to every curve and primaries", function()
                for k, to in ipairs(transfers) do
                    for p = 1, #primaries do
                        local a, b = primaries[(i + k + p) % #primaries + 1], primaries[p]
                        local name, dest = names[(i + 3 * k + p) % #names + 1], names[(2 * i + k + 2 * p) % #names + 1]
                        if from ~= to or a ~= b then
                            local src, codes = picture(name, 13, 6, tags_for(name, from, a), i * 100 + k * 10 + p)
                            local tonemap = ({"bt2390", "reinhard", "hable", "none"})[(k + p) % 4 + 1]
                            local curves = {bt709 = true, bt1886 = true}
                            if not (a == b and curves[from] and curves[to]) then    -- else nothing differs
                                local distance = try(src, codes, dest, tags_for(dest, to, b), {tonemap = tonemap, peak = p % 2 == 0 and 4000 or nil})
                                assert(distance <= tolerance(dest), ("%s %s to %s %s (%s), %s: off by %g"):format(tostring(src), a, dest, to, b,
                                    tonemap, distance))
                            end
                        end
                    end
                end
            end)
        end

        it("gives the values of the standards", function()
            local function gray(value, transfer, to, opts)
                local img = gpu.image("rgbf32le", 1, 1, {transfer = transfer})
                img.planes[1]:fill(value)
                local all = {color = "convert", to = {transfer = to}}
                for k, v in pairs(opts or {}) do all[k] = v end
                return (img:convert("rgbf32le", all).planes[1]:at(0, 0))
            end
            local function near(want, got, hair) assert(math.abs(want - got) < (hair or 1e-4), got .. " is not " .. want) end
            near(0.21404, gray(0.5, "srgb", "linear"))
            near(0.18946, gray(0.5, "bt709", "linear"))
            near(0.58, gray(1, "linear", "pq"), 0.001)          -- 203 cd/m2 is 58 % of PQ and 75 % of HLG (BT.2408)
            near(0.75, gray(1, "linear", "hlg"), 0.001)
            near(10000 / 203, gray(1, "pq", "linear", {tonemap = "none"}), 0.01)
            near(1000 / 203, gray(1, "hlg", "linear", {tonemap = "none"}), 0.01)
            for _, map in ipairs {"bt2390", "reinhard", "hable"} do
                near(1, gray(gray(1000 / 203, "linear", "pq"), "pq", "linear", {tonemap = map}), 1e-3)
                near(0, gray(0, "pq", "linear", {tonemap = map}))
            end
            near(0.5, gray(gray(0.5, "linear", "pq"), "pq", "linear", {tonemap = "bt2390"}), 0.02)      -- below the knee nothing moves
        end)

        it("goes there and back", function()
            for _, transfer in ipairs(transfers) do
                local img = picture("rgb24", 33, 5, {transfer = "srgb", primaries = "bt709"}, 4)
                local there = img:convert("rgbpf32le", {color = "convert", to = {transfer = transfer, primaries = "bt2020"}})
                local back = there:convert("rgb24", {color = "convert", tonemap = "none", to = {transfer = "srgb", primaries = "bt709"}})
                assert.equal(img.planes[1]:download(), back.planes[1]:download(), transfer)
            end
        end)

        it("leaves white white", function()
            for _, a in ipairs(primaries) do
                for _, b in ipairs(primaries) do
                    local img = gpu.image("rgb24", 2, 2, {transfer = "srgb", primaries = a})
                    img.planes[1]:fill(255)
                    local other = img:convert("rgb48le", {color = "convert", to = {transfer = "gamma22", primaries = b}})
                    assert.same({65535, 65535, 65535}, {other.planes[1]:at(1, 1)})
                end
            end
        end)

        it("is done only when it is asked for", function()
            local img = gpu.image("rgb24", 1, 1, {transfer = "pq", primaries = "bt2020"})
            img.planes[1]:fill(100)
            helper.raises("BAD_ARGUMENT", {"primaries", "bt2020", "bt709", "convert", "keep"}, function()
                img:convert("rgb24", {to = {primaries = "bt709"}})
            end)
            helper.raises("BAD_ARGUMENT", {"transfer", "pq", "srgb"}, function() img:convert("rgb24", {to = {transfer = "srgb"}}) end)
            local kept = img:convert("rgb24", {color = "keep", to = {transfer = "srgb", primaries = "bt709"}})
            assert.same({100, 100, 100}, {kept.planes[1]:at(0, 0)})
            assert.same({"srgb", "bt709"}, {kept.transfer, kept.primaries})
            local plain = img:convert("bgr24")
            assert.same({"pq", "bt2020"}, {plain.transfer, plain.primaries})
            assert.equal(100, (img:convert("bgr24", {color = "convert"}).planes[1]:at(0, 0)))
        end)

        it("names what it misses", function()
            helper.raises("BAD_ARGUMENT", {"transfer", "source", "from"}, function()
                gpu.image("rgb24", 1, 1):convert("rgb24", {color = "convert", to = {transfer = "srgb"}})
            end)
            helper.raises("BAD_ARGUMENT", {"transfer"}, function()
                gpu.image("rgb24", 1, 1, {primaries = "bt709"}):convert("rgb24", {color = "convert", to = {primaries = "bt2020"}})
            end)
            helper.raises("BAD_ARGUMENT", {"matrix"}, function()
                gpu.image("nv12", 1, 1, {range = "limited", transfer = "pq"}):convert("nv12", {color = "convert", to = {transfer = "bt709"}})
            end)
            helper.raises("BAD_ARGUMENT", "1..10000", function()
                gpu.image("rgb24", 1, 1, {transfer = "pq"}):convert("rgb24", {color = "convert", peak = 0 / 0, to = {transfer = "srgb"}})
            end)
            helper.raises("BAD_ARGUMENT", "bt2390", function() gpu.image("rgb24", 1, 1):convert("rgb24", {tonemap = "aces"}) end)
            helper.raises("BAD_ARGUMENT", "keep", function() gpu.image("rgb24", 1, 1):convert("rgb24", {color = "yes"}) end)
        end)
    end)
end)
