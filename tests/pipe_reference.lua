-- SPDX-License-Identifier: MIT
-- What the stages of a pipeline must give, in double precision and without regard to speed. Conversions are tests/reference.lua's.
local ffi = require "ffi"
local reference = require "tests.reference"

local ref = {}

-- The format without subsampling and in planes or lanes that holds the same components with the same codes.
local full = {
    nv12 = "yuv444p", nv21 = "yuv444p", yuv420p = "yuv444p", yuv422p = "yuv444p", yuyv422 = "yuv444p", yuv410p = "yuv444p", yuva420p = "yuva444p",
    p010le = "yuv444p10le", v210 = "yuv444p10le", yuv420p10le = "yuv444p10le", p016le = "yuv444p16le",
}
local orders = {gray = {"Y"}, rgb = {"R", "G", "B"}, yuv = {"Y", "U", "V"}}

local function letters(name)
    local f = reference.formats[name]
    local list = {unpack(orders[f.model])}
    list[#list + 1] = f.has.A and "A" or nil
    return list, #orders[f.model]
end

-- A picture: format (a full one), tags, w, h, and c, a list of double arrays, one a channel.
local function picture(format, tags, w, h, c)
    local list, colours = letters(format)
    local f = reference.formats[format]
    return {format = format, tags = tags, w = w, h = h, c = c, colours = colours, channels = #list, max = f.float and 1 or 2 ^ f.depth[list[1]] - 1}
end

local function from_components(format, tags, w, h, components)
    local list, c = letters(format), {}
    for i, letter in ipairs(list) do
        c[i] = components[letter].data
    end
    return picture(format, tags, w, h, c)
end

local function components_of(p)
    local c = {}
    for i, letter in ipairs((letters(p.format))) do
        c[letter] = {w = p.w, h = p.h, data = p.c[i]}
    end
    return c
end

local function side(format, tags, extra)
    local t = {format = format}
    for k, v in pairs(tags) do t[k] = v end
    for k, v in pairs(extra or {}) do t[k] = v end
    return t
end

-- From the bytes of an image's planes.
function ref.read(format, w, h, strings, tags)
    local c = reference.decode(format, w, h, strings)
    local to = full[format]
    if to then
        c = reference.convert(side(format, tags, {width = w, height = h, c = c}), side(to, tags))
    end
    return from_components(to or format, tags, w, h, c)
end

-- Exact codes, letter -> {w=, h=, data=}, of the picture in a format with the same codes.
function ref.write(p, format)
    local c = components_of(p)
    if full[format] then
        return reference.convert(side(p.format, p.tags, {width = p.w, height = p.h, c = c}), side(format, p.tags))
    end
    return c
end

-- ---- places

local function map(p, w, h, at)
    local c = {}
    for k = 1, p.channels do
        local data, from = ffi.new("double[?]", w * h), p.c[k]
        for y = 0, h - 1 do
            for x = 0, w - 1 do
                data[y * w + x] = at(from, x, y, k)
            end
        end
        c[k] = data
    end
    return picture(p.format, p.tags, w, h, c)
end

local function clamp(v, low, high)
    return math.max(low, math.min(v, high))
end

function ref.crop(p, x0, y0, w, h)
    return map(p, w, h, function(c, x, y) return c[(y + y0) * p.w + x + x0] end)
end

function ref.flip(p, axis)
    return map(p, p.w, p.h, function(c, x, y)
        return c[(axis == "horizontal" and y or p.h - 1 - y) * p.w + (axis == "vertical" and x or p.w - 1 - x)]
    end)
end

function ref.transpose(p)
    return map(p, p.h, p.w, function(c, x, y) return c[x * p.w + y] end)
end

function ref.rotate(p, degrees)
    if degrees == 0 then return p end
    if degrees == 180 then return ref.flip(p, "both") end
    return map(p, p.h, p.w, function(c, x, y)
        if degrees == 90 then return c[(p.h - 1 - x) * p.w + y] end
        return c[x * p.w + p.w - 1 - y]
    end)
end

local function sinc(x) return x == 0 and 1 or math.sin(math.pi * x) / (math.pi * x) end
local function cubic(a)
    return {2, function(x)
        x = math.abs(x)
        return x < 1 and ((a + 2) * x - (a + 3)) * x * x + 1 or x < 2 and ((a * x - 5 * a) * x + 8 * a) * x - 4 * a or 0
    end}
end
local filters = {
    bilinear = {1, function(x) return math.max(0, 1 - math.abs(x)) end}, bicubic = cubic(-0.5), bicubic_opencv = cubic(-0.75),
    lanczos3 = {3, function(x) return math.abs(x) < 3 and sinc(x) * sinc(x / 3) or 0 end},
}

-- Weights of output i of n from m: list of {position, weight}.
local function weights(filter, i, m, n, antialias)
    local scale = m / n
    local list, sum = {}, 0
    if filter == "nearest" then
        return {{math.floor((2 * i + 1) * m / (2 * n)), 1}}
    elseif filter == "area" then
        for t = math.floor(i * scale), math.ceil((i + 1) * scale) do
            list[#list + 1] = {t, math.max(0, math.min((i + 1) * scale, t + 1) - math.max(i * scale, t))}
        end
    else
        local f, wide = filters[filter], antialias and math.max(1, scale) or 1
        local centre = (i + 0.5) * scale
        for t = math.floor(centre - f[1] * wide) - 1, math.ceil(centre + f[1] * wide) + 1 do
            list[#list + 1] = {t, f[2]((t + 0.5 - centre) / wide)}
        end
    end
    for _, tap in ipairs(list) do sum = sum + tap[2] end
    for _, tap in ipairs(list) do tap[1], tap[2] = clamp(tap[1], 0, m - 1), tap[2] / sum end
    return list
end

function ref.resize(p, w, h, filter, antialias)
    local wx, wy = {}, {}
    for x = 0, w - 1 do wx[x] = weights(filter, x, p.w, w, antialias) end
    for y = 0, h - 1 do wy[y] = weights(filter, y, p.h, h, antialias) end
    return map(p, w, h, function(c, x, y)
        local sum = 0
        for _, ty in ipairs(wy[y]) do
            for _, tx in ipairs(wx[x]) do
                sum = sum + ty[2] * tx[2] * c[ty[1] * p.w + tx[1]]
            end
        end
        return sum
    end)
end

-- Where a border mode looks; nil for the border's value.
local function border(mode, v, n)
    if v >= 0 and v < n then return v end
    if mode == "edge" then return clamp(v, 0, n - 1) end
    if mode == "wrap" then return v % n end
    if mode == "reflect" then
        if n == 1 then return 0 end
        v = v % (2 * n - 2)
        return v < n and v or 2 * n - 2 - v
    end
    return nil
end

local function border_value(p, value, k)
    if type(value) == "table" then return value[k] or p.max end
    if value then return k <= p.colours and value or p.max end
    local limited, yuv = p.tags.range == "limited", p.format:find("yuv", 1, true)
    if k > p.colours then return p.max end
    return yuv and k > 1 and (p.max + 1) / 2 or limited and yuv and (p.max + 1) / 16 or 0
end

local function bordered(p, mode, value)
    return function(c, x, y, k)
        local sx, sy = border(mode, x, p.w), border(mode, y, p.h)
        if not sx or not sy then return border_value(p, value, k) end
        return c[sy * p.w + sx]
    end
end

function ref.pad(p, left, top, right, bottom, mode, value)
    local at = bordered(p, mode, value)
    return map(p, p.w + left + right, p.h + top + bottom, function(c, x, y, k) return at(c, x - left, y - top, k) end)
end

function ref.letterbox(p, w, h, filter, value, antialias)
    local fw, fh = w, math.floor(p.h * w / p.w + 0.5)
    if fh > h then fw, fh = math.min(w, math.max(1, math.floor(p.w * h / p.h + 0.5))), h end
    fh = math.max(1, fh)
    local left, top = math.floor((w - fw) / 2), math.floor((h - fh) / 2)
    return ref.pad(ref.resize(p, fw, fh, filter, antialias), left, top, w - fw - left, h - fh - top, "value", value)
end

-- Positions (sx, sy), pixel centres from 0, that place(x, y) gives.
local function sampled(p, w, h, place, filter, mode, value)
    local at = bordered(p, mode, value)
    return map(p, w, h, function(c, x, y, k)
        local sx, sy = place(x, y)
        if filter == "nearest" then return at(c, math.floor(sx + 0.5), math.floor(sy + 0.5), k) end
        local x0, y0 = math.floor(sx), math.floor(sy)
        local tx, ty = sx - x0, sy - y0
        return (at(c, x0, y0, k) * (1 - tx) + at(c, x0 + 1, y0, k) * tx) * (1 - ty) + (at(c, x0, y0 + 1, k) * (1 - tx) + at(c, x0 + 1, y0 + 1, k) * tx) * ty
    end)
end

function ref.warp(p, m, w, h, filter, mode, value)
    return sampled(p, w, h, function(x, y)
        local u, v = x + 0.5, y + 0.5
        local d = m[7] * u + m[8] * v + m[9]
        return (m[1] * u + m[2] * v + m[3]) / d - 0.5, (m[4] * u + m[5] * v + m[6]) / d - 0.5
    end, filter, mode, value)
end

function ref.remap(p, list, w, h, filter, mode, value)
    return sampled(p, w, h, function(x, y) return list[2 * (y * w + x) + 1], list[2 * (y * w + x) + 2] end, filter, mode, value)
end

-- ---- values

function ref.convert(p, format, tags)
    local to = full[format] or format
    local from_yuv, to_yuv = p.format:find "yuv", to:find "yuv"
    local src, dst = {}, {}
    for _, tag in ipairs {"matrix", "range", "siting"} do
        src[tag] = from_yuv and not to_yuv and tags[tag] or p.tags[tag]
        dst[tag] = tags[tag] or (from_yuv and to_yuv and p.tags[tag]) or nil
    end
    if not from_yuv then src.range = src.range or "full" end
    if not to_yuv then dst.range = not from_yuv and tags.range or "full" end
    dst.matrix = dst.matrix or src.matrix
    local c = reference.convert(side(p.format, src, {width = p.w, height = p.h, c = components_of(p)}), side(to, dst))
    return from_components(to, dst, p.w, p.h, c)
end

-- fn(value, k) for colours; with `alpha` true for the fourth channel too.
local function values(p, fn, alpha)
    return map(p, p.w, p.h, function(c, x, y, k)
        local v = c[y * p.w + x]
        return (k <= p.colours or alpha) and fn(v, k, x, y) or v
    end)
end

local function of(v, k)
    if type(v) == "table" then return v[k] end
    return v
end

function ref.normalize(p, mean, std, scale) return values(p, function(v, k) return (v * scale - of(mean, k)) / of(std, k) end) end
function ref.mul(p, by) return values(p, function(v, k) return v * of(by, k) end) end
function ref.add(p, by) return values(p, function(v, k) return v + of(by, k) end) end
function ref.sub(p, by) return values(p, function(v, k) return v - of(by, k) end) end
function ref.div(p, by) return values(p, function(v, k) return v / of(by, k) end) end
function ref.clamp(p, low, high) return values(p, function(v, k) return clamp(v, of(low, k), of(high, k)) end) end
function ref.abs(p) return values(p, math.abs) end
function ref.pow(p, e) return values(p, function(v, k) return v > 0 and v ^ of(e, k) or 0 end) end
function ref.gamma(p, g) return values(p, function(v, k) return v > 0 and p.max * (v / p.max) ^ (1 / of(g, k)) or 0 end) end
function ref.threshold(p, at, low, high) return values(p, function(v, k) return v > of(at, k) and high or low end) end

function ref.matrix(p, m)
    local columns = #m / 3
    return values(p, function(_, k, x, y)
        local at, row, sum = y * p.w + x, (k - 1) * columns, 0
        for j = 1, 3 do sum = sum + m[row + j] * p.c[j][at] end
        return sum + (columns == 4 and m[row + 4] or 0)
    end)
end

local function linear(list, t)
    t = clamp(t, 0, #list - 1)
    local i = math.floor(t)
    local a = list[i + 1]
    return a + ((list[i + 2] or a) - a) * (t - i)
end

function ref.lut(p, list, low, high)
    return values(p, function(v, k)
        local t = type(list[1]) == "table" and list[k] or list
        return linear(t, (v - low) * (#t - 1) / (high - low))
    end)
end

function ref.cube(p, list, n, low, high)
    return values(p, function(_, k, x, y)
        local at, i, t = y * p.w + x, {}, {}
        for j = 1, 3 do
            local v = clamp((p.c[j][at] - low) * (n - 1) / (high - low), 0, n - 1)
            i[j] = math.min(math.floor(v), n - 2)
            t[j] = v - i[j]
        end
        local sum = 0
        for corner = 0, 7 do
            local dx, dy, dz = corner % 2, math.floor(corner / 2) % 2, math.floor(corner / 4)
            local w = (dx == 1 and t[1] or 1 - t[1]) * (dy == 1 and t[2] or 1 - t[2]) * (dz == 1 and t[3] or 1 - t[3])
            sum = sum + w * list[(((i[3] + dz) * n + i[2] + dy) * n + i[1] + dx) * 3 + k]
        end
        return sum
    end)
end

function ref.swizzle(p, order, format)
    local index = {r = 1, g = 2, b = 3, a = p.channels}
    local c = {}
    for k = 1, #order do
        local letter = order:sub(k, k)
        local from = p.c[p.colours == 1 and letter ~= "a" and 1 or index[letter]]
        local data = ffi.new("double[?]", p.w * p.h)
        for i = 0, p.w * p.h - 1 do
            data[i] = letter == "0" and 0 or letter == "1" and p.max or from[i]
        end
        c[k] = data
    end
    return picture(format, p.tags, p.w, p.h, c)
end

-- `with`: a picture of the same size and codes.
function ref.blend(p, with, mode, opacity)
    local own, theirs = p.channels > p.colours and p.c[p.channels], with.channels > with.colours and with.c[with.channels]
    local function shares(at)
        local a = opacity * (mode == "over" and theirs and theirs[at] / p.max or 1)
        return a, mode == "over" and own and own[at] / p.max * (1 - a) or 1 - a
    end
    return values(p, function(v, k, x, y)
        local at = y * p.w + x
        local a, below = shares(at)
        if k > p.colours then return mode == "over" and (a + below) * p.max or v end
        local u = with.c[math.min(k, with.colours)][at]
        if mode == "add" then return v + u * a end
        if mode == "multiply" then return v + (v * u / p.max - v) * a end
        return a + below > 0 and (u * a + v * below) / (a + below) or v
    end, true)
end

-- fn(pixel, x, y, k): pixel holds r g b a c w h.
function ref.expr(p, fn)
    return values(p, function(v, k, x, y)
        local at = y * p.w + x
        local pixel = {c = v, w = p.w, h = p.h, r = p.c[1][at], g = p.c[2] and p.c[2][at], b = p.c[3] and p.c[3][at], a = p.c[4] and p.c[4][at]}
        return fn(pixel, x, y, k)
    end)
end

return ref
