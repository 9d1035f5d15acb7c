-- SPDX-License-Identifier: MIT
-- Copies between mats, raw 2D copies, the plane-copy rules and their explanation.
local gpu = require "gpuwb"
local ffi = require "ffi"
local helper = require "tests.helper"
local raises = helper.raises

-- The bytes that a 2D copy must leave in `dst` (a string of rows of dst_step), by a loop that knows nothing of the program.
local function reference(dst, src, p)
    local out = ffi.new("uint8_t[?]", #dst)
    ffi.copy(out, dst, #dst)
    for y = 0, p.height - 1 do
        for x = 0, p.width - 1 do
            out[(p.dst_y + y) * p.dst_step + p.dst_x + x] = src:byte((p.src_y + y) * p.src_step + p.src_x + x + 1)
        end
    end
    return ffi.string(out, #dst)
end

helper.each_device(function(name)
    before_each(function()
        gpu.checks("error")
    end)
    teardown(function()
        gpu.checks("warn")
    end)

    describe("gpu.copy", function()
        it("copies regions of every width and alignment and touches nothing else", function()
            local widths = {1, 2, 3, 15, 16, 17, 31, 33, 63, 64, 65, 127, 255, 256, 257, 1021}
            for i, w in ipairs(widths) do
                for _, kind in ipairs {"u8", "u8x3", "u16", "f32", "f64x4"} do
                    local src = helper.poisoned(w, 1 + i % 4, kind, 0x11)
                    src:upload(helper.bytes(src.bytes, i))
                    local dst, parent = helper.poisoned(w, 1 + i % 4, kind)
                    gpu.copy(dst, src)
                    assert.equal(src:download(), dst:download())
                    helper.untouched(dst, parent)
                end
            end
        end)

        it("goes between the devices", function()
            local bytes = helper.bytes(37 * 11 * 3)
            for _, from in ipairs(helper.devices()) do
                for _, to in ipairs(helper.devices()) do
                    local src = gpu.mat(37, 11, "u8x3", {device = from}):upload(bytes)
                    local dst = gpu.mat(40, 20, "u8x3", {device = to, fill = 9}):roi(2, 3, 37, 11)
                    gpu.copy(dst, src)
                    assert.equal(bytes, dst:download())
                    assert.equal(bytes, src:to(to):download())
                end
            end
        end)

        it("moves more than one block of staging memory", function()
            local m = gpu.mat(10007, 9001, "u8")
            local bytes = ffi.new("uint8_t[?]", 10007 * 9001)
            for i = 0, 10007 * 9001 - 1, 4093 do
                bytes[i] = 1 + i % 255
            end
            local other = gpu.mat(10007, 9001, "u8")
            gpu.copy(other, m:upload(bytes))
            local back = ffi.new("uint8_t[?]", 10007 * 9001)
            other:download(back)
            for i = 0, 10007 * 9001 - 1, 4093 do
                assert(back[i] == 1 + i % 255 and (i == 0 or back[i - 1] == 0))
            end
        end)

        it("refuses other shapes, types and shared bytes", function()
            local m = gpu.mat(8, 8, "u8", {fill = 0})
            raises("SHAPE", {"dst (8x8 u8", "src (7x8 u8"}, gpu.copy, m, gpu.mat(7, 8, "u8"))
            raises("SHAPE", "i8", gpu.copy, m, gpu.mat(8, 8, "i8"))
            raises("SHAPE", "u8x2", gpu.copy, m, gpu.mat(8, 8, "u8x2"))
            raises("BAD_ARGUMENT", "clone", gpu.copy, m:rows(0, 4), m:rows(2, 4))
            raises("BAD_ARGUMENT", "clone", gpu.copy, m, m)
            gpu.copy(m:cols(0, 4), m:cols(4, 4))
            gpu.copy(m:rows(0, 4), m:rows(4, 4))
            raises("BAD_ARGUMENT", "dst", gpu.copy, 5, m)
            raises("BAD_ARGUMENT", "src", gpu.copy, m)
            raises("BAD_ARGUMENT", "unknown option", gpu.copy, m, m, {width = 3})
        end)
    end)

    describe("gpu.copy2d", function()
        it("copies exactly the bytes it says, from and to mats", function()
            local random = helper.random(11)
            for i = 1, 60 do
                local w, h = 1 + random(70), 1 + random(6)
                local p = {width = w, height = h, dst_x = random(9), dst_y = random(3), src_x = random(9), src_y = random(3)}
                local before, bytes = helper.bytes((w + 9) * (h + 3), i), helper.bytes((w + 9) * (h + 3), i + 100)
                p.dst = gpu.mat(w + 9, h + 3, "u8", {packed = true}):upload(before)
                p.src = gpu.mat(w + 9, h + 3, "u8", {packed = true}):upload(bytes)
                gpu.copy2d(p)
                local given = {width = w, height = h, dst_x = p.dst_x, dst_y = p.dst_y, src_x = p.src_x, src_y = p.src_y, dst_step = w + 9, src_step = w + 9}
                assert.equal(reference(before, bytes, given), p.dst:download())
            end
        end)

        it("copies from and to pointers of the host's memory (C4)", function()
            gpu.checks("off")
            local src, dst = ffi.new("uint8_t[?]", 64), ffi.new("uint8_t[?]", 64)
            for i = 0, 63 do
                src[i] = i
            end
            local m = gpu.mat(5, 4, "u8")
            gpu.copy2d {dst = m, src = src, src_step = 16, width = 5, height = 4}
            assert.same({{0, 1, 2, 3, 4}, {16, 17, 18, 19, 20}, {32, 33, 34, 35, 36}, {48, 49, 50, 51, 52}}, m:totable())
            gpu.copy2d {dst = dst, dst_step = 8, src = m, width = 3, height = 4, src_x = 2}
            assert.same({2, 3, 4, 0}, {dst[0], dst[1], dst[2], dst[3]})
            assert.same({50, 51, 52, 0}, {dst[24], dst[25], dst[26], dst[27]})
            gpu.copy2d {dst = dst, dst_step = 16, src = src, src_step = 16, width = 16, height = 4}
            assert.equal(ffi.string(src, 64), ffi.string(dst, 64))
            gpu.copy2d {dst = ffi.cast("char *", dst), src = src, src_x = 5, width = 3, height = 1, src_step = 64, dst_step = 64}
            assert.same({5, 6, 7}, {dst[0], dst[1], dst[2]})
        end)

        it("counts bytes, not elements (C3)", function()
            local src, dst = gpu.mat(4, 2, "u16", {packed = true}):upload {1, 2, 3, 4, 5, 6, 7, 8}, gpu.mat(4, 2, "u16", {packed = true, fill = 0})
            gpu.copy2d {dst = dst, src = src, width = 8, height = 2}
            assert.equal(src:download(), dst:download())
            local rgb = gpu.mat(3, 3, "f32x3", {align = 512, fill = {1, 2, 3}})
            local out = gpu.mat(3, 3, "f32x3", {fill = 0})
            gpu.copy2d {dst = out, src = rgb, width = 36, height = 3}
            assert.same({1, 2, 3}, {out:at(2, 2)})
        end)

        it("is a success that touches nothing for zero width or height, whatever the pointers (C2)", function()
            local m = gpu.mat(4, 4, "u8", {fill = 7})
            local null = ffi.cast("void *", nil)
            for _, size in ipairs {{0, 4}, {4, 0}, {0, 0}} do
                gpu.copy2d {dst = m, src = m, width = size[1], height = size[2]}
                gpu.copy2d {dst = null, src = null, width = size[1], height = size[2], dst_step = 0, src_step = 0}
                gpu.copy2d {width = size[1], height = size[2]}
                assert.equal("zero width or height: nothing is touched", (gpu.explain_copy {dst = m, src = m, width = size[1], height = size[2]}))
            end
            assert.equal(("\7"):rep(16), m:download())
        end)

        it("names both numbers of a pitch that is too small, and goes on (C1)", function()
            local dst, src = gpu.mat(16, 4, "u8"), gpu.mat(16, 4, "u8", {fill = 1})
            raises("BAD_ARGUMENT", "width_bytes 10 > dst pitch 9", gpu.copy2d, {dst = dst, src = src, dst_step = 9, width = 10, height = 4})
            raises("BAD_ARGUMENT", "width_bytes 10 > src pitch 9", gpu.copy2d, {dst = dst, src = src, src_step = 9, width = 10, height = 4})
            raises("BAD_ARGUMENT", {"src pitch 0", "m:fill(row)"}, gpu.copy2d, {dst = dst, src = src, src_step = 0, width = 10, height = 4})
            raises("BAD_ARGUMENT", "dst pitch -16", gpu.copy2d, {dst = dst, src = src, dst_step = -16, width = 10, height = 4})
            gpu.copy2d {dst = dst, src = src, width = 10, height = 4}
            assert.equal(1, (dst:at(9, 3)))
        end)

        it("refuses extents outside the allocation, shared bytes and what is no memory", function()
            local m, n = gpu.mat(16, 4, "u8", {packed = true}), gpu.mat(16, 4, "u8", {packed = true})
            raises("BAD_ARGUMENT", {"P5", "64 bytes"}, gpu.copy2d, {dst = m, src = n, width = 16, height = 5})
            raises("BAD_ARGUMENT", {"P5", "dst"}, gpu.copy2d, {dst = m, src = n, width = 16, height = 4, dst_x = 1})
            raises("BAD_ARGUMENT", "P5", gpu.copy2d, {dst = m, src = n.data, src_step = 17, width = 16, height = 4})
            raises("BAD_ARGUMENT", "share", gpu.copy2d, {dst = m, src = m, width = 8, height = 4, src_x = 4})
            raises("BAD_ARGUMENT", "share", gpu.copy2d, {dst = m.data, dst_step = 16, src = m, width = 16, height = 4})
            gpu.copy2d {dst = m, src = m, width = 8, height = 4, src_x = 8}
            raises("BAD_ARGUMENT", "NULL", gpu.copy2d, {dst = ffi.cast("void *", nil), dst_step = 16, src = m, width = 8, height = 4})
            raises("BAD_ARGUMENT", "ffi.cast", gpu.copy2d, {dst = 4096, dst_step = 16, src = m, width = 8, height = 4})
            raises("BAD_ARGUMENT", "array of 8 bytes", gpu.copy2d, {dst = ffi.new("char[8]"), dst_step = 16, src = m, width = 8, height = 4})
            raises("BAD_ARGUMENT", "dst_step", gpu.copy2d, {dst = ffi.new("char[32]"), dst_step = {}, src = m, width = 8, height = 4})
            raises("BAD_ARGUMENT", "dst_y", gpu.copy2d, {dst = ffi.new("char[32]"), dst_y = "one", src = m, width = 8, height = 4})
            raises("BAD_ARGUMENT", "cdata pointer", gpu.copy2d, {dst = ffi.typeof("char[32]"), dst_step = 8, src = m, width = 8, height = 4})
            raises("BAD_ARGUMENT", "dst pitch 0", gpu.copy2d, {dst = ffi.cast("void *", m.data), src = n, width = 8, height = 4})
            raises("BAD_ARGUMENT", "holds no pixels", gpu.copy2d, {dst = gpu.mat(0, 4, "u8"), src = m, width = 8, height = 4, dst_step = 16})
            for _, bad in ipairs {-1, 2.5, 0 / 0, 2 ^ 60, "8"} do
                raises("BAD_ARGUMENT", "width", gpu.copy2d, {dst = m, src = n, width = bad, height = 4})
                raises("BAD_ARGUMENT", "height", gpu.copy2d, {dst = m, src = n, width = 4, height = bad})
                raises("BAD_ARGUMENT", "dst_x", gpu.copy2d, {dst = m, src = n, width = 4, height = 4, dst_x = bad})
            end
            raises("BAD_ARGUMENT", "", gpu.copy2d, {dst = m, src = n, width = 2 ^ 53, height = 2 ^ 53})
            raises("BAD_ARGUMENT", {"pitch", "dst_step"}, gpu.copy2d, {dst = m, src = n, width = 4, height = 4, pitch = 3})
            raises("BAD_ARGUMENT", "width", gpu.copy2d)
        end)

        it("is ordered by data, also through raw pointers", function()
            gpu.checks("off")
            local a, b = gpu.stream {blocking = false}, gpu.stream {blocking = false}
            local src, dst = gpu.mat(64, 8, "u8", {fill = 0}), gpu.mat(64, 8, "u8", {fill = 0})
            a:sleep(20)
            src:fill(5, {stream = a})
            gpu.copy2d {dst = dst.data, dst_step = dst.step, src = src.data, src_step = src.step, width = 64, height = 8, stream = b}
            assert.equal(("\5"):rep(512), dst:download())
        end)
    end)

    -- A packed 12x8 yuv420p frame: Y 16 + x, U 90 + row, V 200 + row, so that a wrong split shows.
    local function frame()
        local w, h, bytes = 12, 8, {}
        for i = 1, w * h do
            bytes[i] = string.char(16 + i % w)
        end
        for plane = 0, 1 do
            for y = 0, h / 2 - 1 do
                bytes[#bytes + 1] = string.char((plane == 0 and 90 or 200) + y):rep(w / 2)
            end
        end
        return gpu.mat(w, h * 3 / 2, "u8", {packed = true}):upload(table.concat(bytes)), w, h
    end

    describe("the plane-copy rules", function()
        it("let the right ways pass", function()
            local f, w, h = frame()
            local planes = f:planes("yuv420p", w, h).planes
            local u, v = gpu.mat(w / 2, h / 2, "u8"), gpu.mat(w / 2, h / 2, "u8")
            gpu.copy(u, planes[2])
            gpu.copy(v, planes[3])
            assert.equal(200, (v:at(0, 0)))
            gpu.copy2d {dst = u, src = planes[2], width = w / 2, height = h / 2}
            gpu.copy2d {dst = v, src = planes[3], width = w / 2, height = h / 2}
            gpu.copy2d {dst = u, src = planes[2].data, src_step = w / 2, width = w / 2, height = h / 2}
            gpu.copy2d {dst = v, src = planes[3].data, src_step = w / 2, width = w / 2, height = h / 2}
            local base = ffi.cast("uint8_t *", f.data)
            gpu.copy2d {dst = u, src = base + w * h, src_step = w / 2, width = w / 2, height = h / 2}
            gpu.copy2d {dst = v, src = base + w * h + w * h / 4, src_step = w / 2, width = w / 2, height = h / 2}
            gpu.copy2d {dst = gpu.mat(w, h * 3 / 2, "u8"), src = f.data, src_step = w, width = w, height = h * 3 / 2}
            assert.same({{200, 200, 200, 200, 200, 200}}, v:rows(0, 1):totable())
        end)

        it("P1 and P2 see a view's columns copied as if they were tight", function()
            local f, w, h = frame()
            local halves = f:rows(h, h / 2):split(w / 2, "cols")
            local v = gpu.mat(w / 2, h / 2, "u8")
            local err = raises("SUSPICIOUS", {"P1 src", "P2 src: 50.0 %", "step"}, gpu.copy2d,
                {dst = v, src = halves[2], src_step = w / 2, width = w / 2, height = h / 2})
            assert.equal("gpu.copy2d", err.op)
            local _, found = gpu.explain_copy {dst = v, src = halves[2], src_step = w / 2, width = w / 2, height = h / 2}
            assert.same({P1 = true, P2 = true}, found.rules)
            assert.equal(12, found.src.outside)
            assert.equal(24, found.src.touched)
        end)

        it("P3 sees that V overlaps U, and by how many rows it is moved", function()
            local f, w, h = frame()
            local base = ffi.cast("uint8_t *", f.data)
            local u, v = gpu.mat(w / 2, h / 2, "u8"), gpu.mat(w / 2, h / 2, "u8")
            gpu.copy2d {dst = u, src = base + w * h, src_step = w / 2, width = w / 2, height = h / 2}
            local wrong = {dst = v, src = base + w * h + w / 2, src_step = w / 2, width = w / 2, height = h / 2}
            local text, found = gpu.explain_copy(wrong)
            assert.is_true(found.rules.P3)
            assert.equal(w / 2, found.src.given_offset)
            assert.equal(w * h / 4, found.src.expected_offset)
            assert.equal(1, found.src.moved_rows)
            assert.equal(18, found.src.shared)
            assert.truthy(text:find("75.0 %% of the bytes are those of an earlier copy"))
            assert.truthy(text:find("V is U moved by one row", 1, true))
            assert.truthy(text:find("frame:planes", 1, true))
            raises("SUSPICIOUS", "P3", gpu.copy2d, wrong)
        end)

        it("P4 sees a plane that is not where the declared format says", function()
            local f, w, h = frame()
            f:planes("yuv420p", w, h)
            local base = ffi.cast("uint8_t *", f.data)
            local v = gpu.mat(w / 2, h / 2, "u8")
            local err = raises("SUSPICIOUS", {"P4", "yuv420p"}, gpu.copy2d,
                {dst = v, src = base + w * h + 3, src_step = w / 2, width = w / 2, height = h / 2})
            assert.truthy(tostring(err):find("begins at byte 96", 1, true))
        end)

        it("P6 looks at the pixels when it is asked to, raw pointers too", function()
            local f, w, h = frame()
            local base = ffi.cast("uint8_t *", f.data)
            local wrong = {dst = gpu.mat(w / 2, h / 2, "u8"), src = base + w * h + w / 2, src_step = w / 2, width = w / 2, height = h / 2,
                           sibling = base + w * h}
            local text, found = gpu.explain_copy(wrong)
            assert.is_true(found.rules.P6)
            assert.truthy(text:find("P6 src", 1, true))
            wrong.src = base + w * h + w * h / 4
            found = select(2, gpu.explain_copy(wrong))
            assert.is_nil(found.rules.P6)
            f:rows(h, h / 2):fill(128)      -- neutral chroma shows nothing, so nothing is claimed
            wrong.src = base + w * h + w / 2
            found = select(2, gpu.explain_copy(wrong))
            assert.is_nil(found.rules.P6)
        end)

        it("P7 sees rows of a frame's width split where the chroma planes are not whole rows", function()
            local w, h = 12, 6
            local f = gpu.mat(w, h * 3 / 2, "u8", {packed = true, fill = 1})
            f:planes("yuv420p", w, h)
            local text, found = gpu.explain_copy {dst = gpu.mat(w, 2, "u8"), src = f:rows(h, 2), width = w, height = 2}
            assert.is_true(found.rules.P7)
            assert.truthy(text:find("P7", 1, true))
        end)

        it("warn on stderr by default, and are silent when off", function()
            local out, status = helper.run(helper.command() .. " --device " .. name .. [[ -e '
                local m, n = gpu.mat(8, 4, "u8"), gpu.mat(4, 4, "u8")
                assert(gpu.checks() == "warn")
                gpu.copy2d {dst = n, src = m:cols(4, 4), src_step = 4, width = 4, height = 4}
                assert(gpu.checks("off") == "warn")
                gpu.copy2d {dst = n, src = m:cols(4, 4), src_step = 4, width = 4, height = 4}']])
            assert.equal(0, status, out)
            assert.equal(1, select(2, out:gsub("warning", "")))
            assert.truthy(out:find("P1 src", 1, true))
            raises("BAD_ARGUMENT", "error, warn, off", gpu.checks, "loud")
        end)
    end)
end)
