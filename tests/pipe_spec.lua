-- SPDX-License-Identifier: MIT
-- Pipelines: every stage and many random chains against a double-precision reference, batches, misuse, lifetime, order.
local ffi = require "ffi"
local gpu = require "gpuwb"
local helper = require "tests.helper"
local ref = require "tests.pipe_reference"
local reference = require "tests.reference"
local C = require("gpuwb.cdef").C

local yuv_tags = {matrix = "bt709", range = "limited", siting = "left"}

local function tags_of(format)
    return gpu.format(format).model == "yuv" and yuv_tags or {}
end

-- An image of random bytes whose planes are regions of poisoned memory, and its planes' tight bytes. Floats are 0..1.
local function random_image(format, w, h, seed)
    local planes, f, strings = {}, gpu.format(format), {}
    for i = 1, f.planes do
        local p = f:plane(i, w, h)
        planes[i] = helper.poisoned(p.width, p.height, p.type)
        local bytes = p.width * p.height * planes[i].elem_size
        if p.type:find "f32" then
            local random, data = helper.random(seed + i), ffi.new("float[?]", bytes / 4)
            for k = 0, bytes / 4 - 1 do data[k] = random(100001) / 100000 end
            strings[i] = ffi.string(data, bytes)
        elseif p.type:find "f16" then
            local random, data = helper.random(seed + i), ffi.new("uint16_t[?]", bytes / 2)
            for k = 0, bytes / 2 - 1 do data[k] = random(0x3c00) end
            strings[i] = ffi.string(data, bytes)
        else
            strings[i] = helper.bytes(bytes, seed + i)
        end
        planes[i]:upload(strings[i])
    end
    local opts = {width = w, height = h}
    for k, v in pairs(tags_of(format)) do opts[k] = v end
    return gpu.image_from(format, planes, opts), strings
end

local function reference_of(format, w, h, strings)
    return ref.read(format, w, h, strings, tags_of(format))
end

-- Whether an image holds what the reference says: the exact codes, rounded, give or take what float32 leaves open.
local function check_image(p, img, label)
    local strings = {}
    for i, m in ipairs(img.planes) do strings[i] = m:download() end
    assert.equal(p.w .. "x" .. p.h, img.width .. "x" .. img.height, label)
    local got, exact = reference.decode(img.format, img.width, img.height, strings), ref.write(p, img.format)
    local f = reference.formats[img.format]
    for letter, e in pairs(exact) do
        local max = 2 ^ f.depth[letter] - 1
        for i = 0, e.w * e.h - 1 do
            local want, have = e.data[i], got[letter].data[i]
            local slack = f.float and math.max(1, math.abs(want)) * (f.depth[letter] == 16 and 2e-3 or 3e-5) or 0.5 + max * 1e-5 + 2e-4
            want = f.float and want or math.max(0, math.min(want, max))
            if have ~= have or math.abs(have - want) > slack then
                error(("%s: %s of pixel %d, %d is %g; wanted %g"):format(label, letter, i % e.w, math.floor(i / e.w), have, want), 2)
            end
        end
    end
end

-- The same for plain channels: list(k) gives the mat of channel k and its place among the mat's channels.
local function check_plain(p, values, k, label, slack)
    for i = 0, p.w * p.h - 1 do
        local want, have = p.c[k][i], values(i)
        if have ~= have or math.abs(have - want) > (slack or 3e-5) * math.max(1, math.abs(want), p.max > 1 and 64 or 1) then
            error(("%s: channel %d of pixel %d, %d is %g; wanted %g"):format(label, k, i % p.w, math.floor(i / p.w), have, want), 2)
        end
    end
end

local function floats(m)
    local bytes = m:download()
    local data = ffi.cast("const float *", bytes)
    return function(i) return bytes and data[i] end
end

-- ---- stages: each gives the pipeline with the stage added, and the reference's picture

local stages = {}

local function pick(random, list) return list[random(#list) + 1] end

function stages.crop(random, p, r)
    local w, h = random(r.w) + 1, random(r.h) + 1
    local x, y = random(r.w - w + 1), random(r.h - h + 1)
    return p:crop(x, y, w, h), ref.crop(r, x, y, w, h)
end
function stages.resize(random, p, r)
    local w, h = random(24) + 1, random(24) + 1
    local filter, aa = pick(random, {"nearest", "bilinear", "bicubic", "bicubic_opencv", "area", "lanczos3"}), random(2) == 1
    return p:resize(w, h, filter, {antialias = aa}), ref.resize(r, w, h, filter, aa)
end
function stages.flip(random, p, r)
    local axis = pick(random, {"horizontal", "vertical", "both"})
    return p:flip(axis), ref.flip(r, axis)
end
function stages.rotate(random, p, r)
    local degrees = pick(random, {0, 90, 180, 270})
    return p:rotate(degrees), ref.rotate(r, degrees)
end
function stages.transpose(_, p, r) return p:transpose(), ref.transpose(r) end
function stages.pad(random, p, r)
    local n, mode = {random(9), random(9), random(9), random(9)}, pick(random, {"value", "edge", "reflect", "wrap"})
    local value = random(2) == 1 and 3 or nil
    return p:pad(n[1], n[2], n[3], n[4], mode, {value = value or "black"}), ref.pad(r, n[1], n[2], n[3], n[4], mode, value)
end
function stages.letterbox(random, p, r)
    local w, h = random(24) + 1, random(24) + 1
    return p:letterbox(w, h, {antialias = false}), ref.letterbox(r, w, h, "bilinear", nil, false)
end
function stages.warp(random, p, r)
    local filter, mode = "bilinear", pick(random, {"value", "edge", "reflect", "wrap"})
    local m = {1 + (random(9) - 4) / 16, (random(9) - 4) / 16, random(9) - 4, (random(9) - 4) / 16, 1 + (random(9) - 4) / 16, random(9) - 4, 0, 1 / 256, 1}
    return p:warp(m, 13, 11, filter, mode), ref.warp(r, m, 13, 11, filter, mode)
end
function stages.remap(random, p, r)
    local list = {}
    for i = 1, 2 * 7 * 5 do list[i] = (random(40 * 8) - 60) / 8 end
    local map = gpu.mat(7, 5, "f32x2")
    map:upload(ffi.string(ffi.new("float[?]", #list, list), 4 * #list))
    local mode = pick(random, {"value", "edge", "reflect", "wrap"})
    return p:remap(map, "bilinear", mode), ref.remap(r, list, 7, 5, "bilinear", mode)
end
function stages.normalize(random, p, r)
    local mean, std = random(8) / 8, (random(8) + 4) / 8
    return p:normalize {mean = mean, std = std, scale = 1 / 4}, ref.normalize(r, mean, std, 1 / 4)
end
function stages.mul(random, p, r) local v = (random(9) + 1) / 8 return p:mul(v), ref.mul(r, v) end
function stages.add(random, p, r) local v = random(9) / 8 return p:add(v), ref.add(r, v) end
function stages.sub(random, p, r) local v = random(9) / 8 return p:sub(v), ref.sub(r, v) end
function stages.div(random, p, r) local v = (random(9) + 4) / 4 return p:div(v), ref.div(r, v) end
function stages.clamp(random, p, r)
    local low, high = r.max * random(5) / 16, r.max * (9 + random(5)) / 16
    return p:clamp(low, high), ref.clamp(r, low, high)
end
function stages.abs(_, p, r) return p:abs(), ref.abs(r) end
function stages.pow(random, p, r) local e = (random(3) + 3) / 5 return p:pow(e), ref.pow(r, e) end
function stages.gamma(random, p, r) local g = (random(9) + 4) / 6 return p:gamma(g), ref.gamma(r, g) end
function stages.matrix(random, p, r)
    if r.colours ~= 3 then return p, r end
    local m = {}
    for i = 1, 12 do m[i] = (random(17) - 8) / 16 end
    return p:matrix(m), ref.matrix(r, m)
end
function stages.lut(random, p, r)
    local list = {}
    for i = 1, 17 do list[i] = r.max * random(17) / 16 end
    return p:lut(list), ref.lut(r, list, 0, r.max)
end
function stages.cube(random, p, r)
    if r.colours ~= 3 then return p, r end
    local list = {}
    for i = 1, 81 do list[i] = r.max * random(17) / 16 end
    return p:cube(list), ref.cube(r, list, 3, 0, r.max)
end
function stages.swizzle(random, p, r)
    local name = ({gray = "rgb24", rgb24 = "rgb24", rgba = "rgb24", grayf32le = "rgbf32le", rgbf32le = "rgbf32le", rgbaf32le = "rgbf32le"})[r.format]
    if not name then return p, r end
    local order = pick(random, {"bgr", "rr1", "0gb", "grb"})
    return p:swizzle(order), ref.swizzle(r, order, name)
end
function stages.blend(random, p, r)
    local format = ({rgb24 = "rgba", rgba = "rgba", rgbf32le = "rgbf32le"})[r.format]
    if not format then return p, r end
    local with, strings = random_image(format, r.w, r.h, random(1000) + 1)
    local mode, opacity = pick(random, {"over", "add", "multiply"}), (random(4) + 1) / 4
    return p:blend(with, mode, opacity), ref.blend(r, reference_of(format, r.w, r.h, strings), mode, opacity)
end
local expressions = {
    {"c * 0.5 + x - y / 2", function(v, x, y) return v.c * 0.5 + x - y / 2 end},
    {"x * 2 < w && y >= 1 ? r : max(c - 3, abs(-c / 2), 1)", function(v, x, y)
        return x * 2 < v.w and y >= 1 and v.r or math.max(v.c - 3, math.abs(-v.c / 2), 1)
    end},
    {"sqrt(abs(c)) + sin(x / 3) * cos(y) + 2 ^ (y % 3)", function(v, x, y) return math.sqrt(math.abs(v.c)) + math.sin(x / 3) * math.cos(y) + 2 ^ (y % 3) end},
    {"exp2(x / 8) + log2(1 + abs(c)) - if(!(x == 2), h, floor(2.5)) + exp(-y) * log(x + pi)", function(v, x, y)
        return 2 ^ (x / 8) + math.log(1 + math.abs(v.c)) / math.log(2) - (x ~= 2 and v.h or 2) + math.exp(-y) * math.log(x + math.pi)
    end},
}
function stages.expr(random, p, r)
    local e = pick(random, expressions)
    return p:expr(e[1]), ref.expr(r, e[2])
end
function stages.convert(random, p, r)
    local format = pick(random, {"rgb24", "rgba", "yuv444p", "gray", "rgbf32le", "rgb48le"})
    local opts = {matrix = "bt709", range = "limited"}
    if r.format:find "yuv" or format == "yuv444p" or format == "gray" then
        if not format:find "yuv" then opts.range = nil end
        if r.format:find "yuv" and not format:find "yuv" then opts = {} end
        return p:convert(format, opts), ref.convert(r, format, opts)
    end
    return p:convert(format), ref.convert(r, format, {})
end

local names = {}
for name in pairs(stages) do names[#names + 1] = name end
table.sort(names)
-- Stages that take no step where a value jumps; threshold has a test of its own.

local sources = {"gray", "rgb24", "rgba", "nv12", "yuv420p", "yuv444p", "p010le", "grayf32le", "rgb48le", "yuyv422", "v210", "rgbf32le", "bgr24", "p016le",
                 "yuv410p", "ya8", "gbrp", "rgbf16le", "nv21", "yuv420p10le"}
local sizes = {{1, 1}, {2, 2}, {5, 3}, {17, 9}, {13, 16}, {31, 7}}

local chains = {}       -- the texts of those that ran, for the compiler's spec

helper.each_device(function(device)
    it("has right values for resize (R1, R2, R4)", function()
        local function row(list, ...)
            local m = gpu.mat(#list, 1, "f32")
            m:upload(ffi.string(ffi.new("float[?]", #list, list), 4 * #list))
            local out = {}
            local at = floats(gpu.pipe():resize(...)(m))
            for i = 1, (...) do out[i] = at(i - 1) end
            return out
        end
        local plain = {antialias = false}
        assert.same({0, 25, 75, 100}, row({0, 100}, 4, 1, plain))
        assert.same({50, 250}, row({0, 100, 200, 300}, 2, 1, plain))
        assert.same({22.5, 157.5}, row({0, 90, 180}, 2, 1, plain))
        assert.same({0, 2, 4}, row({0, 1, 2, 3, 4}, 3, 1, "nearest"))
        assert.same({1, 3}, row({0, 1, 2, 3}, 2, 1, "nearest"))
        assert.same({0, 0}, row({0, 0, 0, 0, 0, 0, 0, 255}, 2, 1, plain))
        assert.same({0, 63.75}, row({0, 0, 0, 0, 0, 0, 0, 255}, 2, 1, "area"))
        local m = gpu.mat(8, 1, "u8", {fill = 0})
        m:roi(7, 0, 1, 1):fill(255)
        assert.equal(64, m:resize(2, 1, "area"):at(1, 0))
    end)

    it("keeps the proportions where one side is left out", function()
        local img = gpu.image("rgb24", 61, 7)
        img.planes[1]:fill {1, 2, 3}
        local function size(i) return {i.width, i.height} end
        assert.same({30, 3}, size(img:resize(30)))              -- 3.44
        assert.same({122, 14}, size(img:resize {width = 122, antialias = false}))
        assert.same({9, 1}, size(img:resize {height = 1}))      -- 8.71
        assert.same({61, 7}, size(img:resize("auto", 7, "area")))
        assert.same({26, 3}, size(img:resize(nil, 3)))          -- 26.14
        assert.same({1, 1}, size(img:resize(1, "auto")))        -- 0.11
        assert.same({30, 9}, size(img:resize(30, 9)))
        local p = gpu.pipe():resize(20):mul(2)                  -- one pipeline, pictures of several shapes
        assert.same({20, 2}, size(p(img)))
        assert.same({20, 40}, size(p(gpu.image("rgb24", 50, 100))))
        assert.same({2, 4, 6}, {gpu.pipe():resize(20):mul(2)(img).planes[1]:at(3, 1)})
        for _, call in ipairs {{}, {"auto"}, {"auto", "auto"}, {{filter = "area"}}} do
            helper.raises("BAD_ARGUMENT", {"stage 1 (resize)", "neither width nor height"}, img.resize, img, unpack(call))
        end
        helper.raises("BAD_ARGUMENT", "width", img.resize, img, 0, 5)
        helper.raises("BAD_ARGUMENT", "proportions of 61x7", img.resize, img, nil, 2147483647)
    end)

    for _, name in ipairs(names) do
        it("does " .. name .. " as the reference does" .. (name == "resize" and " (R5)" or ""), function()
            local random = helper.random(#name * 7919 + name:byte())
            for _, format in ipairs {"rgb24", "nv12", "grayf32le", "rgba"} do
                for _, size in ipairs(sizes) do
                    local img, strings = random_image(format, size[1], size[2], random(1000))
                    local r = reference_of(format, size[1], size[2], strings)
                    local p, want = stages[name](random, gpu.pipe(), r)
                    local label = ("%s %dx%d %s %s"):format(format, size[1], size[2], name, p)
                    if format == "nv12" then
                        local out = p:to("planar", "f32")(img)
                        for k, m in ipairs(out.planes or out) do check_plain(want, floats(m), k, label) end
                    else
                        check_image(want, p(img), label)
                    end
                end
            end
        end)
    end

    it("does threshold", function()
        local img, strings = random_image("rgb24", 9, 7, 3)
        check_image(ref.threshold(reference_of("rgb24", 9, 7, strings), {100, 50, 200}, 0, 255), gpu.pipe():threshold({100, 50, 200})(img), "threshold")
        check_image(ref.threshold(reference_of("rgb24", 9, 7, strings), 128, 7, 9), gpu.pipe():threshold(128, 7, 9)(img), "threshold")
    end)

    it("does random chains as the reference does", function()
        local random = helper.random(20251201)
        for i = 1, 250 do
            local format, size = pick(random, sources), pick(random, sizes)
            local img, strings = random_image(format, size[1], size[2], i)
            local r = reference_of(format, size[1], size[2], strings)
            local p, count, label = gpu.pipe(), random(4) + 1, format .. " " .. size[1] .. "x" .. size[2]
            local values = 0
            for _ = 1, count do
                local name = pick(random, names)
                if r.w * r.h < 2000 and (values == 0 or name ~= "cube" and name ~= "lut") then
                    p, r = stages[name](random, p, r)
                    values = values + 1
                end
            end
            label = ("chain %d: %s %s"):format(i, label, p)
            local ok, out = pcall(p:to("planar", "f32"), img)
            if not ok then
                assert(out.code == "UNSUPPORTED" and tostring(out):find "too long", label .. ": " .. tostring(out))
            else
                local scale = 1
                for k = 1, r.channels do
                    for n = 0, r.w * r.h - 1 do scale = math.max(scale, math.abs(r.c[k][n])) end
                end
                for k, m in ipairs(out.planes or out) do check_plain(r, floats(m), k, label, 2e-4 * scale) end
                chains[#chains + 1] = {p:to("planar", "f32"), img}
            end
        end
    end)

    it("stores every format of a result", function()
        for i, format in ipairs {"rgb24", "bgr24", "rgba", "rgb0", "nv12", "nv21", "yuv420p", "yuv410p", "yuv422p", "gbrp", "rgbpf32le", "rgb565le", "v210",
                                 "p010le", "yuyv422", "rgb48le", "x2rgb10le", "gray", "ya8", "rgbaf16le"} do
            for _, size in ipairs(sizes) do
                local img, strings = random_image("rgb24", size[1], size[2], i)
                local r = reference_of("rgb24", size[1], size[2], strings)
                local opts = gpu.format(format).model == "rgb" and {} or {matrix = "bt709", range = "limited", siting = "left"}
                local p = gpu.pipe():flip("both"):convert(format, opts)
                check_image(ref.convert(ref.flip(r, "both"), format, opts), p(img), format .. " " .. size[1] .. "x" .. size[2])
                chains[#chains + 1] = {p, img}
            end
        end
    end)

    it("lays out plain channels", function()
        local img = random_image("rgb24", 7, 5, 1)
        local bytes = img.planes[1]:download()
        local inter, planar = gpu.pipe():to("interleaved", "u16")(img), gpu.pipe():to("planar", "u8")(img)
        local nhwc, nchw = gpu.pipe():to("nhwc", "u8")(img), gpu.pipe():to("nchw", "f32")(img)
        assert.equal("u16x3", inter.type)
        assert.equal("rgbp", planar.format)
        assert.equal(bytes, nhwc:packed():download())
        local at = floats(nchw)
        for i = 0, 34 do
            for k = 0, 2 do
                local v = bytes:byte(3 * i + k + 1)
                assert.equal(v, at(k * 35 + i))
                assert.equal(v, planar.planes[k + 1]:download():byte(i + 1))
            end
        end
    end)

    it("gives what a conversion gives, alone and in a batch, to the last bit", function()
        local pairs_of = {{"nv12", "rgb24"}, {"nv12", "yuv420p"}, {"nv12", "nv12"}, {"yuv420p", "rgbpf32le"}, {"rgb24", "nv12"}, {"p010le", "rgba"},
                          {"rgba", "yuv420p"}, {"yuv444p", "yuv410p"}, {"yuv410p", "yuv420p"}, {"yuyv422", "nv12"}, {"v210", "p010le"}, {"p016le", "rgb48le"},
                          {"gray", "rgb24"}, {"nv21", "gray"}, {"rgb24", "v210"}, {"yuv422p", "bgr24"}}
        for _, pair in ipairs(pairs_of) do
            for _, size in ipairs(sizes) do
                local a, b = random_image(pair[1], size[1], size[2], 1), random_image(pair[1], size[1], size[2], 2)
                local opts = {matrix = "bt601", range = "full"}
                if gpu.format(pair[1]).model ~= "yuv" and gpu.format(pair[2]).model == "rgb" then opts = nil end
                local p = gpu.pipe():convert(pair[2], opts)
                local batch = p:batch {a, b}
                for i, img in ipairs {a, b} do
                    local want, one = img:convert(pair[2], opts), p(img)
                    assert.equal(tostring(want), tostring(one))
                    for k, m in ipairs(want.planes) do
                        local label = pair[1] .. " to " .. pair[2] .. " " .. size[1] .. "x" .. size[2] .. " plane " .. k
                        assert.equal(m:download(), one.planes[k]:download(), label)
                        assert.equal(m:download(), batch[i].planes[k]:download(), label .. " in a batch")
                    end
                end
                chains[#chains + 1] = {p, a}
            end
        end
    end)

    it("keeps chroma where it lies when a crop keeps to its grid", function()
        local img = random_image("nv12", 16, 12, 5)
        local out = gpu.pipe():crop(4, 2, 8, 6)(img)
        assert.equal(img.planes[1]:roi(4, 2, 8, 6):download(), out.planes[1]:download())
        assert.equal(img.planes[2]:roi(2, 1, 4, 3):download(), out.planes[2]:download())
        local copy = gpu.pipe()(img)
        assert.equal(img.planes[2]:download(), copy.planes[2]:download())
    end)

    it("does batches of sizes, crops and outputs in as few launches as passes", function()
        local list, crops = {}, {}
        for i = 1, 5 do
            list[i] = random_image("rgb24", 20 + 3 * i, 30 - 2 * i, i)
            crops[i] = {i, 2 * i, 12, 9}
        end
        local p = gpu.pipe():resize(8, 6, {antialias = false}):normalize {mean = {1, 2, 3}, std = {4, 5, 6}}:to("nchw", "f32")
        local before = C.gwb_pipe_launches()
        local whole = p:batch(list)
        assert.equal(1, tonumber(C.gwb_pipe_launches() - before))
        local bytes = whole:download()
        for i = 1, 5 do
            assert.equal(p(list[i]):download(), bytes:sub((i - 1) * 576 + 1, i * 576), "picture " .. i)
        end
        local out = gpu.mat(8, 6 * 3 * 5, "f32", {packed = true})
        assert.equal(out, p:batch(list, {out = out}))
        assert.equal(bytes, out:download())
        whole = p:batch(list, {crops = crops}):download()
        for i = 1, 5 do
            local one = p(gpu.pipe():crop(unpack(crops[i]))(list[i]))
            assert.equal(one:download(), whole:sub((i - 1) * 576 + 1, i * 576), "crop " .. i)
        end
        -- wide filters: two passes, and pictures that need no resizing among others
        list[6] = random_image("rgb24", 8, 6, 6)
        local wide = gpu.pipe():resize(8, 6, "lanczos3")
        local results = wide:batch(list)
        for i = 1, 6 do
            assert.equal(wide(list[i]).planes[1]:download(), results[i].planes[1]:download(), "picture " .. i)
        end
    end)

    it("compiles nothing when numbers move", function()
        local img = random_image("rgb24", 64, 48, 1)
        local function run(x, mean, gain)
            gpu.pipe():crop(x, x + 1, 20, 10):resize(9, 9, {antialias = false}):sub(mean):expr(gain .. " * c + x"):to("nchw", "f32"):batch {img, img, img}
        end
        local start = C.gwb_compilations()
        run(1, 2, 3)
        local before = C.gwb_compilations()
        run(4, {5, 6, 7}, 8)
        run(7, 0.5, 0.25)
        assert.equal(before, C.gwb_compilations())
        if device == "host" then assert.equal(start, before) end
    end)

    it("keeps what it works on alive, and in order", function()
        local p = gpu.pipe():resize(40, 30):mul(2)
        local want, results = {}, {}
        for i = 1, 40 do
            local m = gpu.mat(33, 21, "u8x3", {fill = i})
            results[i] = p(m)
            want[i] = 2 * i
        end
        p = nil
        collectgarbage()
        collectgarbage()
        for i = 1, 40 do assert.equal(want[i], results[i]:at(20, 10)) end
        local a, b = gpu.stream(), gpu.stream()
        local src, q = gpu.mat(300, 200, "u8", {fill = 1}), gpu.pipe():add(1)
        a:sleep(20)
        local one = q(src, {stream = a})
        local two = q(one, {stream = b})
        src:fill(100)
        assert.equal(3, two:at(299, 199))
    end)
end)

-- The bytes of a result: of a mat, an image, or a list of these.
local function bits(v)
    if type(v) == "userdata" then return v:download() end
    local text = ""
    for _, m in ipairs(v.planes or v) do text = text .. bits(m) end
    return text
end

describe("on several devices a pipeline", function()
    local function compare(p, img, label)
        local first
        for _, name in ipairs(helper.devices()) do
            gpu.device(name)
            local source = img:to(name)
            local ok, one = pcall(p, source)
            local text = ok and bits(one) or one.message
            if ok then
                assert.equal(text, bits(p:batch {source, source, source}):sub(-#text), name .. ", in a batch: " .. label)
            end
            first = first or text
            assert(first == text, name .. ": " .. label)
        end
        gpu.device(helper.devices()[1])
    end

    it("gives the same bits, one by one and in batches", function()
        local random, before = helper.random(77), gpu.device()
        gpu.device(helper.devices()[1])
        local ends = {
            function(p) return p:to("planar", "f32") end, function(p) return p:convert("rgba", yuv_tags) end,
            function(p) return p:convert("nv12", yuv_tags) end, function(p) return p:to("interleaved", "u8") end,
            function(p) return p:convert("rgb48le", yuv_tags):to("nchw", "f16") end,
        }
        for i = 1, 150 do
            local format, size = pick(random, sources), pick(random, sizes)
            local img, strings = random_image(format, size[1], size[2], i)
            local r, p = reference_of(format, size[1], size[2], strings), gpu.pipe()
            for _ = 1, random(4) do
                local name = pick(random, names)
                if name ~= "blend" and r.w * r.h < 2000 then p, r = stages[name](random, p, r) end
            end
            p = pick(random, ends)(p)
            compare(p, img, ("%s %dx%d %s"):format(format, size[1], size[2], p))
        end
        for i, format in ipairs {"nv12", "yuv420p", "p010le", "rgb24", "rgba", "gray", "yuv422p", "gbrp", "rgbf32le", "nv21", "yuv420p10le", "ya8"} do
            for _, size in ipairs {{128, 64}, {131, 67}, {516, 9}, {8, 300}} do
                local img = random_image(format, size[1], size[2], i)
                local tight = gpu.format(format).model == "yuv" and gpu.image(format, size[1], size[2], yuv_tags) or gpu.image(format, size[1], size[2])
                gpu.copy(tight, img)
                local rgb = gpu.pipe():convert("rgb24", {})
                for _, p in ipairs {rgb:mul(0.5), rgb:normalize {mean = 2, std = 3}:to("planar", "f32"), rgb:mul(2):convert("rgba"),
                                    rgb:add(1):to("nhwc", "f32"), gpu.pipe():crop(4, 2, size[1] - 4, size[2] - 3):sub(1):to("interleaved", "f16"),
                                    rgb:resize(50, 33, {antialias = false}):to("nchw", "f32"), rgb:resize(50, 33):to("nchw", "u8")} do
                    compare(p, tight, ("%s %dx%d %s"):format(format, size[1], size[2], p))
                end
            end
        end
        gpu.device(before)
    end)
end)

describe("a pipeline", function()
    local img
    setup(function()
        gpu.device("host")
        img = random_image("rgb24", 10, 8, 1)
    end)

    it("is made of the stages of the table", function()
        local list = gpu.pipe_stages()
        assert.is_true(#list > 20)
        for _, stage in ipairs(list) do
            assert.equal("function", type(gpu.pipe()[stage.name]), stage.name)
            assert.is_true(#stage.text > 5, stage.name)
        end
    end)

    it("refuses wrong arguments of every stage", function()
        local wrong = {"x", -1.5, {}, {1, "a"}, true, function() end, gpu.pipe(), 0 / 0, {unknown = 1}}
        for _, stage in ipairs(gpu.pipe_stages()) do
            for _, v in ipairs(wrong) do
                for position = 1, math.max(1, #stage.params) do
                    local args = {}
                    for i = 1, #stage.params do args[i] = stage.params[i].default == nil and 1 or nil end
                    args[position] = v
                    local ok, err = pcall(function() return gpu.pipe()[stage.name](gpu.pipe(), unpack(args, 1, 10))(img) end)
                    assert(ok or (type(err) == "table" and err.code), ("%s: %s"):format(stage.name, tostring(err)))
                end
            end
        end
    end)

    it("names the first bad stage by number and name", function()
        helper.raises("BAD_ARGUMENT", {"stage 2 (crop)", "leaves the picture of 5x4"}, gpu.pipe():resize(5, 4):crop(3, 0, 3, 3):crop(100, 100, 1, 1), img)
        helper.raises("BAD_ARGUMENT", {"stage 1 (convert)", "matrix"}, gpu.pipe():convert("nv12"):to("planar", "u8"), img)
        helper.raises("BAD_ARGUMENT", {"stage 2 (flip)", "nothing may follow"}, gpu.pipe():to("planar", "u8"):flip("both"), img)
        helper.raises("SHAPE", {"stage 1 (mul)", "2 numbers"}, gpu.pipe():mul {1, 2}, img)
        helper.raises("SHAPE", {"stage 1 (expr)", "no channel a"}, gpu.pipe():expr "a", img)
        local long = gpu.pipe()
        for _ = 1, 20 do long = long:clamp(0, 255) end
        helper.raises("UNSUPPORTED", {"stage 13 (clamp)", "too long"}, long, img)
        helper.raises("UNSUPPORTED", "weights", gpu.pipe():resize(2147483647, 1, "lanczos3"), img)
    end)

    it("refuses expressions that are none", function()
        for text, words in pairs {["r +"] = "ends", ["(r"] = '")"', ["foo"] = "not known", ["min(r)"] = "takes 2", ["r g"] = "operator", [""] = "ends",
                                  ["1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1"] = "more than 16"} do
            helper.raises("BAD_ARGUMENT", words, function() return gpu.pipe():expr(text) end)
        end
    end)

    it("refuses results that do not fit", function()
        local p = gpu.pipe():resize(4, 4)
        helper.raises("SHAPE", "4x4", p, img, {out = gpu.image("rgb24", 5, 4)})
        helper.raises("BAD_ARGUMENT", "shares bytes", gpu.pipe():mul(2), img, {out = img})
        helper.raises("BAD_ARGUMENT", "unknown option", p, img, {foo = 1})
        local out = gpu.image("rgb24", 4, 4)
        helper.raises("BAD_ARGUMENT", "share bytes", function() return p:batch({img, img}, {out = {out, out}}) end)
        helper.raises("SHAPE", "picture 2", function() return gpu.pipe():mul(2):batch {img, (random_image("rgb24", 3, 3, 1))} end)
        helper.raises("SHAPE", "picture 2 differs", function() return p:batch {img, (random_image("nv12", 4, 4, 1))} end)
    end)

    it("tells its plan", function()
        local plan = gpu.pipe():crop(1, 1, 4, 4):convert("gray", {matrix = "bt601"}):plan(img)
        assert.equal(1, plan.launches)
        assert.equal(48, plan.bytes_read)
        assert.equal(16, plan.bytes_written)
        assert.truthy(tostring(plan):find("1 launch", 1, true))
        assert.equal(2, gpu.pipe():resize(2, 2, "lanczos3"):plan(img).launches)
        assert.equal("pipeline\n1. crop(1, 1, 4, 4)\n2. flip(both)", tostring(gpu.pipe():crop(1, 1, 4, 4):flip("both")))
    end)

    it("is written as CUDA C that compiles", function()
        if C.gwb_nvrtc_version() < 0 then
            pending(ffi.string(C.gwb_error_message()))
            return
        end
        local options, log = ffi.new("const char *[3]", {"--fmad=false", "-default-device", "--std=c++17"}), ffi.new("char[8192]")
        local seen, count = {}, 0
        for i, chain in ipairs(chains) do
            for pass = 1, chain[1]:plan(chain[2]).launches do
                local text = chain[1]:source(chain[2], pass, {batch = i % 2 == 0})
                local form = text:gsub("%d+", "0")
                if not seen[form] and count < 40 then
                    seen[form], count = true, count + 1
                    local rc = C.gwb_nvrtc_compile(text, "pipeline.cu", options, 3, "sm_90", log, 8192, nil)
                    assert(rc == 0 and log[0] == 0, tostring(chain[1]) .. "\n" .. ffi.string(log) .. "\n" .. text)
                end
            end
        end
        assert.is_true(count > 10)
    end)
end)
