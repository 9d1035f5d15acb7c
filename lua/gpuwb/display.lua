-- SPDX-License-Identifier: MIT
-- Pixels for eyes: any mat or image as 8-bit RGB on the host, with a note that says what was done to its numbers.
local ffi = require "ffi"
local check = require "gpuwb.check"
local format = require "gpuwb.format"
local image = require "gpuwb.image"
local letters = require "gpuwb.letters"
local mat = require "gpuwb.mat"
local types = require "gpuwb.types"
local C = require("gpuwb.cdef").C

local display = {}
local floor, huge = math.floor, math.huge
local GRAY = 128        -- behind what is transparent
local NAN = {255, 0, 255}

local full = {u8 = 255, i8 = 127, u16 = 65535, i16 = 32767, u32 = 4294967295, i32 = 2147483647}

-- ---- ranges

-- Least and largest number of the channels that are colours; nil where none is finite.
local function range_of(p, pointer, channels, colours)
    local lo, hi = huge, -huge
    for y = 0, p.height - 1 do
        local row = ffi.cast(pointer, p.data + y * p.step)
        for i = 0, p.width * channels - 1 do
            local v = tonumber(row[i])
            if v - v == 0 and i % channels < colours then
                if v < lo then lo = v end
                if v > hi then hi = v end
            end
        end
    end
    if lo > hi then
        return nil
    end
    return lo, hi
end

-- Numbers lo..hi as 0..255, gray as RGB, what is transparent over gray, NaN in magenta.
local function paint(out, p, pointer, channels, lo, hi, opaque)
    local q = ffi.cast("gwb_mat *", out)
    local scale, colours = 255 / (hi - lo), channels == 4 and 3 or channels == 2 and opaque and 1 or channels
    for y = 0, p.height - 1 do
        local row, to = ffi.cast(pointer, p.data + y * p.step), q.data + y * q.step
        for x = 0, p.width - 1 do
            local share = opaque and tonumber(row[x * channels + channels - 1]) / opaque or 1
            share = share > 1 and 1 or share >= 0 and share or 0
            for c = 0, 2 do
                local v = colours == 1 and tonumber(row[x * channels]) or c < colours and tonumber(row[x * channels + c]) or lo
                if v ~= v then
                    to[x * 3], to[x * 3 + 1], to[x * 3 + 2] = NAN[1], NAN[2], NAN[3]
                    break
                end
                v = (v - lo) * scale
                v = v < 0 and 0 or v > 255 and 255 or v
                to[x * 3 + c] = floor(v * share + GRAY * (1 - share) + 0.5)
            end
        end
    end
end

-- A mat whose last channel is alpha or not, as u8x3 of the host and a note.
local function paint_mat(op, m, has_alpha, range)
    local element = m.dtype
    if element == "f16" then
        m = m:cast(types.text(types.code.f32, m.channels))
    end
    m = m:to("host")
    check.status(C.gwb_mat_wait(m, 0), op)
    local p, pointer, channels = ffi.cast("gwb_mat *", m), ffi.typeof("const " .. types.ctype[m.dtype] .. " *"), m.channels
    local lo, hi, note
    local float = element:find("^f") ~= nil
    local opaque = has_alpha and (float and 1 or full[element]) or nil
    if range ~= nil then
        local rising = type(range) == "table" and #range == 2 and type(range[1]) == "number" and type(range[2]) == "number" and range[1] < range[2]
        if not rising then
            check.fail("BAD_ARGUMENT", op, "range must be {black, white}, two rising numbers, got %s", type(range) == "table" and "a table" or
                check.show(range))
        end
        lo, hi = range[1], range[2]
    elseif element == "u8" then
        lo, hi = 0, 255
    else
        lo, hi = range_of(p, pointer, channels, has_alpha and channels - 1 or channels)
        if not lo then
            lo, hi = 0, 1
        elseif float and lo >= 0 and hi <= 1 then
            lo, hi = 0, 1
        end
    end
    if element ~= "u8" or range ~= nil then
        note = ("%s, %.6g is black and %.6g is white"):format(element, lo, hi)
    end
    local out = mat.create(m.width, m.height, "u8x3", {packed = true, device = "host"})
    if hi == lo then
        hi = lo + 1
    end
    paint(out, p, pointer, channels, lo, hi, opaque)
    return out, note
end

-- ---- images

local plain8 = {gray = {"gray", "ya8"}, rgb = {"rgb24", "rgba"}}
local plain16 = {gray = {"gray16le", "ya16le"}, rgb = {"rgb48le", "rgba64le"}}

local function paint_image(op, img, range)
    local f = format.find(op, img.format)
    local notes = {}
    if f.model == "yuv" then
        local from = {}
        if img.matrix == nil then
            from.matrix = img.height > 576 and "bt709" or "bt601"
            notes[#notes + 1] = "matrix not known, shown as " .. from.matrix
        end
        if img.range == nil then
            from.range = "limited"
            notes[#notes + 1] = "range not known, shown as limited"
        end
        img = img:convert(f.alpha and "rgba" or "rgb24", {from = from, color = "keep"})
    elseif f.model == "bayer" then
        img = img:convert(f.depth > 8 and "rgb48le" or "rgb24", {color = "keep"})
    elseif f.type:find("^f") then
        img = #img.planes == 1 and img or img:convert(f.alpha and "rgbaf32le" or "rgbf32le", {color = "keep"})
    else
        local name = (f.depth > 8 and plain16 or plain8)[f.model][f.alpha and 2 or 1]
        img = img.format == name and img or img:convert(name, {color = "keep"})
    end
    local out, note = paint_mat(op, img.planes[1], format.find(op, img.format).alpha, range)
    notes[#notes + 1] = note
    return out, #notes > 0 and table.concat(notes, "; ") or nil
end

-- A mat or image as a u8x3 mat of the host with tight rows, and nil or a note. A mat's channels are gray, red and green, RGB, RGB and alpha. range: {black,
-- white} for what is not to be shown by its own range. Waits.
function display.rgb(op, obj, range)
    if image.is(obj) then
        image.fill(op, "the image", obj, ffi.new("gwb_image"))
        return paint_image(op, obj, range)
    end
    check.mat(op, "the picture", obj)
    return paint_mat(op, obj, obj.channels == 4, range)
end

-- At most `width` x `height`, the proportions kept; never larger than it is.
function display.fit(m, width, height)
    local scale = math.min(width / m.width, height / m.height, 1)
    if scale == 1 or m.width == 0 or m.height == 0 then
        return m
    end
    return m:resize(math.max(1, floor(m.width * scale + 0.5)), math.max(1, floor(m.height * scale + 0.5)))
end

-- Pictures side by side on dark gray, a label above each ("" or nil: none); u8x3 of the host.
function display.compose(list, labels)
    local GAP, any = 8, false
    local width, height, across = GAP, 0, 0
    for i, m in ipairs(list) do
        any = any or (labels[i] or "") ~= ""
        height, across = math.max(height, m.height), across + m.width
    end
    local scale = math.max(1, math.min(8, floor(math.max(height / 300, across / 750))))    -- large pictures are looked at from afar
    local top = any and letters.height * scale + GAP or 0
    local places = {}
    for i, m in ipairs(list) do
        places[i] = width
        width = width + math.max(m.width, (letters.size(labels[i] or "", scale))) + GAP
    end
    local out = mat.create(width, height + top + 2 * GAP, "u8x3", {packed = true, device = "host", fill = 40})
    for i, m in ipairs(list) do
        if m.width > 0 and m.height > 0 then
            m:copy_to(out:roi(places[i], GAP + top, m.width, m.height))
        end
        if any then
            letters.draw(out, places[i], GAP, labels[i] or "", scale, {230, 230, 230})
        end
    end
    return out
end

return display
