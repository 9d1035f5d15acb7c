-- SPDX-License-Identifier: MIT
-- What a conversion must give, in double precision. Written from the standards alone: it reads neither the program's format table nor its code.
--
-- Every format is a string of little-endian bit fields, lowest bit first: a letter (R G B A Y U V), "f" for float, bits. x: unread, written as ones;
-- z: unread, written as zeros. "|" parts planes. A group that names Y twice holds two pixels.
local ffi = require "ffi"
local bit = require "bit"

local reference = {}

local layouts = {}

local function add(subsampling, list)
    for name, fields in pairs(list) do
        layouts[name] = {fields = fields, sub = subsampling}
    end
end

add("444", {
    gray = "Y8", gray9le = "Y9z7", gray10le = "Y10z6", gray12le = "Y12z4", gray14le = "Y14z2", gray16le = "Y16", grayf16le = "Yf16",
    grayf32le = "Yf32", ya8 = "Y8A8", ya16le = "Y16A16",
    rgb24 = "R8G8B8", bgr24 = "B8G8R8", rgba = "R8G8B8A8", bgra = "B8G8R8A8", argb = "A8R8G8B8", abgr = "A8B8G8R8",
    rgb0 = "R8G8B8x8", bgr0 = "B8G8R8x8", ["0rgb"] = "x8R8G8B8", ["0bgr"] = "x8B8G8R8",
    rgb48le = "R16G16B16", bgr48le = "B16G16R16", rgba64le = "R16G16B16A16", bgra64le = "B16G16R16A16",
    rgb565le = "B5G6R5", rgb555le = "B5G5R5x1", x2rgb10le = "B10G10R10x2", x2bgr10le = "R10G10B10x2",
    rgbf16le = "Rf16Gf16Bf16", rgbaf16le = "Rf16Gf16Bf16Af16", rgbf32le = "Rf32Gf32Bf32", rgbaf32le = "Rf32Gf32Bf32Af32",
    gbrp = "G8|B8|R8", gbrp10le = "G10z6|B10z6|R10z6", gbrp12le = "G12z4|B12z4|R12z4", gbrp16le = "G16|B16|R16", gbrap = "G8|B8|R8|A8",
    gbrpf32le = "Gf32|Bf32|Rf32", gbrapf32le = "Gf32|Bf32|Rf32|Af32",
    rgbp = "R8|G8|B8", rgbpf16le = "Rf16|Gf16|Bf16", rgbpf32le = "Rf32|Gf32|Bf32",
    vuya = "V8U8Y8A8", xv30le = "U10Y10V10x2", nv24 = "Y8|U8V8", nv42 = "Y8|V8U8", p410le = "z6Y10|z6U10z6V10", yuva444p = "Y8|U8|V8|A8",
})
add("422", {
    nv16 = "Y8|U8V8", p210le = "z6Y10|z6U10z6V10", yuyv422 = "Y8U8Y8V8", uyvy422 = "U8Y8V8Y8", yvyu422 = "Y8V8Y8U8", y210le = "z6Y10z6U10z6Y10z6V10",
    v210 = "U10Y10V10z2Y10U10Y10z2V10Y10U10z2Y10V10Y10z2",
})
add("420", {
    nv12 = "Y8|U8V8", nv21 = "Y8|V8U8", p010le = "z6Y10|z6U10z6V10", p012le = "z4Y12|z4U12z4V12", p016le = "Y16|U16V16", yuva420p = "Y8|U8|V8|A8",
})
for _, sub in ipairs {"420", "422", "444", "440", "411", "410"} do
    add(sub, {
        ["yuv" .. sub .. "p"] = "Y8|U8|V8", ["yuv" .. sub .. "p10le"] = "Y10z6|U10z6|V10z6", ["yuv" .. sub .. "p12le"] = "Y12z4|U12z4|V12z4",
        ["yuv" .. sub .. "p16le"] = "Y16|U16|V16",
    })
end

for _, sub in ipairs {"420", "422", "444"} do
    add(sub, {["yuv" .. sub .. "p9le"] = "Y9z7|U9z7|V9z7", ["yuv" .. sub .. "p14le"] = "Y14z2|U14z2|V14z2"})
end

local factors = {["444"] = {1, 1}, ["422"] = {2, 1}, ["420"] = {2, 2}, ["440"] = {1, 2}, ["411"] = {4, 1}, ["410"] = {4, 4}}

-- Mosaics: one of R G B a pixel, in blocks of two by two.
local mosaics = {}
for _, order in ipairs {"rggb", "bggr", "gbrg", "grbg"} do
    mosaics["bayer_" .. order .. "8"], mosaics["bayer_" .. order .. "16le"] = {order:upper(), 8}, {order:upper(), 16}
end

-- name -> {planes = {{bits=, count = {Y=2, …}, fields = {{letter=, float=, bits=, at=, nth=}, …}}, …}, w=, h=, has = {Y=true, …}, model=}
local formats = {}
for name, layout in pairs(layouts) do
    local f = {planes = {}, w = factors[layout.sub][1], h = factors[layout.sub][2], has = {}, depth = {}, float = false}
    for text in layout.fields:gmatch("[^|]+") do
        local plane = {bits = 0, count = {}, fields = {}}
        for letter, float, bits in text:gmatch("(%a)(f?)(%d+)") do
            bits = tonumber(bits)
            local nth = plane.count[letter] or 0
            plane.count[letter] = nth + 1
            plane.fields[#plane.fields + 1] = {letter = letter, float = float == "f", bits = bits, at = plane.bits, nth = nth}
            plane.bits = plane.bits + bits
            if letter ~= "x" and letter ~= "z" then
                f.has[letter], f.depth[letter], f.float = true, bits, f.float or float == "f"
            end
        end
        f.planes[#f.planes + 1] = plane
    end
    f.model = f.has.R and "rgb" or f.has.U and "yuv" or "gray"
    formats[name] = f
end
for name, m in pairs(mosaics) do
    local field = {letter = "M", bits = m[2], at = 0, nth = 0}
    formats[name] = {
        planes = {{bits = m[2], count = {M = 1}, fields = {field}}}, w = 1, h = 1, has = {R = true, G = true, B = true},
        depth = {R = m[2], G = m[2], B = m[2]}, float = false, model = "rgb", mosaic = m[1],
    }
end
reference.formats = formats

local function ceil_div(a, b)
    return math.floor((a + b - 1) / b)
end

-- Width and height of a component's grid.
local function grid(f, letter, width, height)
    if letter == "U" or letter == "V" then
        return ceil_div(width, f.w), ceil_div(height, f.h)
    end
    return width, height
end

-- Groups a row, rows, and bytes a row of a plane.
local function shape(f, plane, width, height)
    local letter = plane.count.Y and "Y" or plane.fields[1].letter
    for _, field in ipairs(plane.fields) do
        if field.letter ~= "x" and field.letter ~= "z" and not plane.count.Y then letter = field.letter end
    end
    local w, h = grid(f, letter, width, height)
    local groups = ceil_div(w, plane.count[letter])
    return groups, h, groups * plane.bits / 8
end

function reference.plane_bytes(name, i, width, height)
    local f = formats[name]
    local _, rows, row = shape(f, f.planes[i], width, height)
    return rows * row, row, rows
end

-- ---- numbers in memory

local function field_value(bytes, at, bits)
    local value, scale = 0, 1
    local byte, shift = math.floor(at / 8), at % 8
    local left = bits
    while left > 0 do
        local take = math.min(8 - shift, left)
        value = value + bit.band(bit.rshift(bytes[byte], shift), 2 ^ take - 1) * scale
        scale, left, byte, shift = scale * 2 ^ take, left - take, byte + 1, 0
    end
    return value
end

local function half(value)
    local sign, exponent, fraction = value >= 32768 and -1 or 1, math.floor(value / 1024) % 32, value % 1024
    if exponent == 0 then
        return sign * fraction * 2 ^ -24
    elseif exponent == 31 then
        return fraction == 0 and sign * math.huge or 0 / 0
    end
    return sign * (1 + fraction / 1024) * 2 ^ (exponent - 15)
end

local single = ffi.new("union { uint32_t bits; float value; }")

local function number(field, value)
    if not field.float then
        return value
    elseif field.bits == 16 then
        return half(value)
    end
    single.bits = value
    return single.value
end

-- The components of a picture from its planes' tight bytes (strings): letter -> {w=, h=, data = double[w * h] of codes}. With `complain`, what
-- lies beside the samples is looked at too: complain(text) for padding that is not ones, low bits that are not zeros, a group's rest that does
-- not repeat the last sample.
function reference.decode(name, width, height, strings, complain)
    local f = formats[name]
    if f.mosaic then
        return reference.demosaic(name, width, height, strings[1], "malvar")
    end
    local out = {}
    for letter in pairs(f.has) do
        local w, h = grid(f, letter, width, height)
        out[letter] = {w = w, h = h, data = ffi.new("double[?]", math.max(w * h, 1))}
    end
    for i, plane in ipairs(f.planes) do
        local groups, rows, row = shape(f, plane, width, height)
        local bytes = ffi.cast("const uint8_t *", strings[i])
        assert(#strings[i] == rows * row, "a plane's size")
        for y = 0, rows - 1 do
            for _, field in ipairs(plane.fields) do
                local component, letter = out[field.letter], field.letter
                for g = 0, groups - 1 do
                    local value = field_value(bytes + y * row, g * plane.bits + field.at, field.bits)
                    if not component then
                        if complain and value ~= (letter == "x" and 2 ^ field.bits - 1 or 0) then
                            complain(("padding %s of group %d, row %d is %d"):format(letter, g, y, value))
                        end
                    else
                        local x = g * plane.count[letter] + field.nth
                        if x < component.w then
                            component.data[y * component.w + x] = number(field, value)
                        elseif complain and value ~= component.data[y * component.w + component.w - 1] then
                            complain(("%s at %d, %d beyond the picture is %d"):format(letter, x, y, value))
                        end
                    end
                end
            end
        end
    end
    return out
end

-- Filters over the mosaic around a pixel, {dx, dy, weight}: the colour at its own place, green at red and blue, a colour whose places are in the
-- same row, in the same column, and at the corners. Bilinear, and those of Malvar, He and Cutler (2004), figure 2.
local function filter(rows, divisor)
    local list = {}
    for y, row in ipairs(rows) do
        for x, weight in ipairs(row) do
            if weight ~= 0 then list[#list + 1] = {x - 3, y - 3, weight / divisor} end
        end
    end
    return list
end
local none = {0, 0, 0, 0, 0}
local filters = {
    bilinear = {
        own = {{0, 0, 1}}, green = filter({none, {0, 0, 1, 0, 0}, {0, 1, 0, 1, 0}, {0, 0, 1, 0, 0}, none}, 4),
        row = filter({none, none, {0, 1, 0, 1, 0}, none, none}, 2), column = filter({none, {0, 0, 1, 0, 0}, none, {0, 0, 1, 0, 0}, none}, 2),
        corner = filter({none, {0, 1, 0, 1, 0}, none, {0, 1, 0, 1, 0}, none}, 4),
    },
    malvar = {
        own = {{0, 0, 1}},
        green = filter({{0, 0, -1, 0, 0}, {0, 0, 2, 0, 0}, {-1, 2, 4, 2, -1}, {0, 0, 2, 0, 0}, {0, 0, -1, 0, 0}}, 8),
        row = filter({{0, 0, 0.5, 0, 0}, {0, -1, 0, -1, 0}, {-1, 4, 5, 4, -1}, {0, -1, 0, -1, 0}, {0, 0, 0.5, 0, 0}}, 8),
        column = filter({{0, 0, -1, 0, 0}, {0, -1, 4, -1, 0}, {0.5, 0, 5, 0, 0.5}, {0, -1, 4, -1, 0}, {0, 0, -1, 0, 0}}, 8),
        corner = filter({{0, 0, -1.5, 0, 0}, {0, 2, 0, 2, 0}, {-1.5, 0, 6, 0, -1.5}, {0, 2, 0, 2, 0}, {0, 0, -1.5, 0, 0}}, 8),
    },
}

--- R, G and B at every pixel of a mosaic; method: "malvar" or "bilinear". Beyond the edges the picture is mirrored.
function reference.demosaic(name, width, height, bytes, method)
    local f = formats[name]
    local out, size = {}, f.depth.R / 8
    local data = ffi.cast("const uint8_t *", bytes)
    local function mirror(i, n)
        i = i < 0 and -i or i
        i = i > n - 1 and 2 * (n - 1) - i or i
        return math.max(0, math.min(i, n - 1))
    end
    local function colour(x, y)
        local at = 1 + x % 2 + 2 * (y % 2)
        return f.mosaic:sub(at, at)
    end
    for _, letter in ipairs {"R", "G", "B"} do
        local plane = ffi.new("double[?]", math.max(width * height, 1))
        for y = 0, height - 1 do
            for x = 0, width - 1 do
                local which = colour(x, y) == letter and "own" or letter == "G" and "green" or colour(x + 1, y) == letter and "row"
                    or colour(x, y + 1) == letter and "column" or "corner"
                local sum = 0
                for _, tap in ipairs(filters[method][which]) do
                    sum = sum + tap[3] * field_value(data, (mirror(y + tap[2], height) * width + mirror(x + tap[1], width)) * size * 8, size * 8)
                end
                plane[y * width + x] = sum
            end
        end
        out[letter] = {w = width, h = height, data = plane}
    end
    return out
end

-- ---- what the numbers mean

local weights = {
    bt601 = {0.299, 0.114}, bt709 = {0.2126, 0.0722}, bt2020nc = {0.2627, 0.0593}, smpte240m = {0.212, 0.087}, fcc = {0.30, 0.11},
}

local function to_rgb(matrix, y, u, v)
    if matrix == "gbr" then
        return v, y, u
    elseif matrix == "ycgco" then
        return y - u + v, y + u, y - u - v
    end
    local kr, kb = weights[matrix][1], weights[matrix][2]
    local r, b = y + 2 * (1 - kr) * v, y + 2 * (1 - kb) * u
    return r, (y - kr * r - kb * b) / (1 - kr - kb), b
end

local function from_rgb(matrix, r, g, b)
    if matrix == "gbr" then
        return g, b, r
    elseif matrix == "ycgco" then
        return (r + 2 * g + b) / 4, (2 * g - r - b) / 4, (r - b) / 2
    end
    local kr, kb = weights[matrix][1], weights[matrix][2]
    local y = kr * r + (1 - kr - kb) * g + kb * b
    return y, (b - y) / (2 * (1 - kb)), (r - y) / (2 * (1 - kr))
end

-- Code of the value 0, and codes from there to the value 1.
local function scale(f, letter, tags)
    local depth = f.depth[letter]
    if f.float then
        return 0, 1
    elseif letter == "A" then
        return 0, 2 ^ depth - 1
    end
    local unit, limited = 2 ^ (depth - 8), tags.range == "limited"
    if (letter == "U" or letter == "V") and tags.matrix ~= "gbr" then
        return 128 * unit, limited and 224 * unit or 2 ^ depth - 1
    elseif limited then
        return 16 * unit, 219 * unit
    end
    return 0, 2 ^ depth - 1
end

local sitings = {left = {0, 0.5}, center = {0.5, 0.5}, topleft = {0, 0}, top = {0.5, 0}, bottomleft = {0, 1}, bottom = {0.5, 1}}

-- ---- light. Linear 1 is the SDR white, 203 cd/m2.

local function power(v, e)
    return v > 0 and v ^ e or 0
end

local function pq_to_linear(v)
    local p = power(v, 1 / 78.84375)
    return 10000 * power(math.max(p - 0.8359375, 0) / (18.8515625 - 18.6875 * p), 1 / 0.1593017578125)
end

local function linear_to_pq(light)
    local p = power(light / 10000, 0.1593017578125)
    return power((0.8359375 + 18.8515625 * p) / (1 + 18.6875 * p), 78.84375)
end

local function curve(to, from)
    return {
        to = function(v) return v < 0 and -to(-v) or to(v) end, from = function(v) return v < 0 and -from(-v) or from(v) end,
    }
end

local function gamma(g)
    return curve(function(v) return v ^ g end, function(v) return v ^ (1 / g) end)
end

local curves = {
    linear = gamma(1), bt709 = gamma(2.4), bt1886 = gamma(2.4), gamma22 = gamma(2.2), gamma28 = gamma(2.8),
    srgb = curve(function(v) return v <= 0.04045 and v / 12.92 or ((v + 0.055) / 1.055) ^ 2.4 end,
        function(v) return v <= 0.0031308 and v * 12.92 or 1.055 * v ^ (1 / 2.4) - 0.055 end),
    pq = curve(function(v) return pq_to_linear(v) / 203 end, function(v) return linear_to_pq(v * 203) end),
    hlg = curve(function(v) return v <= 0.5 and v * v / 3 or (math.exp((v - 0.55991073) / 0.17883277) + 0.28466892) / 12 end,
        function(v) return v <= 1 / 12 and math.sqrt(3 * v) or 0.17883277 * math.log(12 * v - 0.28466892) + 0.55991073 end),
}

-- x, y of R, G, B; white is D65.
local chromaticities = {
    bt709 = {0.64, 0.33, 0.30, 0.60, 0.15, 0.06}, bt2020 = {0.708, 0.292, 0.170, 0.797, 0.131, 0.046},
    ["display-p3"] = {0.680, 0.320, 0.265, 0.690, 0.150, 0.060}, ["bt601-525"] = {0.630, 0.340, 0.310, 0.595, 0.155, 0.070},
    ["bt601-625"] = {0.64, 0.33, 0.29, 0.60, 0.15, 0.06},
}

-- Solves the 3x3 system m x = v by Cramer's rule.
local function solve(m, v)
    local function det(a)
        return a[1][1] * (a[2][2] * a[3][3] - a[2][3] * a[3][2]) - a[1][2] * (a[2][1] * a[3][3] - a[2][3] * a[3][1])
            + a[1][3] * (a[2][1] * a[3][2] - a[2][2] * a[3][1])
    end
    local x, whole = {}, det(m)
    for k = 1, 3 do
        local c = {}
        for i = 1, 3 do
            c[i] = {m[i][1], m[i][2], m[i][3]}
            c[i][k] = v[i]
        end
        x[k] = det(c) / whole
    end
    return x
end

local function xyz_matrix(name)
    local c, m = chromaticities[name], {{}, {}, {}}
    for k = 1, 3 do
        local x, y = c[2 * k - 1], c[2 * k]
        m[1][k], m[2][k], m[3][k] = x / y, 1, (1 - x - y) / y
    end
    local white = solve(m, {0.3127 / 0.3290, 1, (1 - 0.3127 - 0.3290) / 0.3290})
    for i = 1, 3 do
        for k = 1, 3 do m[i][k] = m[i][k] * white[k] end
    end
    return m
end

local function luminance(m, c)
    return m[2][1] * c[1] + m[2][2] * c[2] + m[2][3] * c[3]
end

local tone = {
    reinhard = function(m, peak) return m * (1 + m / peak ^ 2) / (1 + m) end,
    hable = function(m, peak)
        local function f(v) return (v * (0.15 * v + 0.1 * 0.5) + 0.2 * 0.02) / (v * (0.15 * v + 0.5) + 0.2 * 0.3) - 0.02 / 0.3 end
        return f(m) / f(peak)
    end,
    bt2390 = function(m, peak)
        local top = linear_to_pq(peak * 203)
        local e, most = math.min(linear_to_pq(m * 203) / top, 1), linear_to_pq(203) / top
        local knee = 1.5 * most - 0.5
        if e > knee then
            local t = (e - knee) / (1 - knee)
            e = (2 * t ^ 3 - 3 * t ^ 2 + 1) * knee + (t ^ 3 - 2 * t ^ 2 + t) * (1 - knee) + (-2 * t ^ 3 + 3 * t ^ 2) * most
        end
        return pq_to_linear(e * top) / 203
    end,
}

local function is_hdr(transfer) return transfer == "pq" or transfer == "hlg" end

--- R, G, B of one picture's light in another's. from, to: {transfer=, primaries=}; opts: tonemap ("bt2390"), peak (1000 cd/m2).
function reference.light(r, g, b, from, to, opts)
    local c = {curves[from.transfer].to(r), curves[from.transfer].to(g), curves[from.transfer].to(b)}
    local source, target = xyz_matrix(from.primaries or "bt2020"), xyz_matrix(to.primaries or from.primaries or "bt2020")
    if from.transfer == "hlg" then
        local gain = 1000 / 203 * power(luminance(source, c), 0.2)
        for i = 1, 3 do c[i] = c[i] * gain end
    end
    if from.primaries ~= to.primaries then
        local xyz = {}
        for i = 1, 3 do xyz[i] = source[i][1] * c[1] + source[i][2] * c[2] + source[i][3] * c[3] end
        c = solve(target, xyz)
    end
    local map = opts.tonemap ~= "none" and is_hdr(from.transfer) and not is_hdr(to.transfer)
    local brightest, peak = math.max(c[1], c[2], c[3]), (opts.peak or 1000) / 203
    if map and brightest > 0 and peak > 1 then
        local gain = tone[opts.tonemap or "bt2390"](brightest, peak) / brightest
        for i = 1, 3 do c[i] = c[i] * gain end
    end
    if to.transfer == "hlg" then
        local y = luminance(target, c) * 203 / 1000
        local gain = 203 / 1000 * (y > 0 and y ^ (-1 / 6) or 0)
        for i = 1, 3 do c[i] = c[i] * gain end
    end
    return curves[to.transfer].from(c[1]), curves[to.transfer].from(c[2]), curves[to.transfer].from(c[3])
end

-- ---- resampling: the mean of the input, each sample as wide as its pixels, over the output sample; edges go on for ever. Where the output is finer,
-- the straight line between neighbours, which is the mean over one input sample.

local cache = {}
local function taps(inputs, fs, os, fd, od, i, nearest)
    local key = ("%d %d %g %d %g %d %s"):format(inputs, fs, os, fd, od, i, tostring(nearest))
    local list = cache[key]
    if list then
        return list
    end
    list = {}
    if nearest then
        list[1] = {math.min(math.floor(i * fd / fs), inputs - 1), 1}
    else
        local centre, width = (i * fd + od - os) / fs, math.max(1, fd / fs)
        local low, high = centre - width / 2, centre + width / 2
        for k = math.floor(low - 1), math.ceil(high + 1) do
            local overlap = math.min(high, k + 0.5) - math.max(low, k - 0.5)
            if overlap > 0 then
                list[#list + 1] = {math.max(0, math.min(k, inputs - 1)), overlap / width}
            end
        end
    end
    cache[key] = list
    return list
end

-- Component c (on a grid of fs pixels at offset os) at sample (x, y) of another grid.
local function at(c, fs, os, fd, od, x, y, nearest)
    local tx, ty = taps(c.w, fs[1], os[1], fd[1], od[1], x, nearest), taps(c.h, fs[2], os[2], fd[2], od[2], y, nearest)
    local sum = 0
    for i = 1, #tx do
        for j = 1, #ty do
            sum = sum + tx[i][2] * ty[j][2] * c.data[ty[j][1] * c.w + tx[i][1]]
        end
    end
    return sum
end

local one, zero = {1, 1}, {0, 0}

local function grid_of(f, tags)
    local siting = sitings[tags.siting or "left"]
    return {f.w, f.h}, {(f.w - 1) * siting[1], (f.h - 1) * siting[2]}
end

--- The destination's components as exact, unrounded codes: letter -> {w=, h=, data=}.
-- src: {format=, width=, height=, c = what decode gives, matrix=, range=, siting=}; dst: {format=, matrix=, range=, siting=}. opts: nearest,
-- background {r, g, b}; light: convert from src's transfer and primaries to dst's, with tonemap and peak.
function reference.convert(src, dst, opts)
    opts = opts or {}
    local fs, fd = formats[src.format], formats[dst.format]
    local scale_s, off_s, scale_d, off_d = {}, {}, {}, {}
    for letter in pairs(fs.has) do off_s[letter], scale_s[letter] = scale(fs, letter, src) end
    for letter in pairs(fd.has) do off_d[letter], scale_d[letter] = scale(fd, letter, dst) end
    local chroma_s, chroma_s_off = grid_of(fs, src)
    local chroma_d, chroma_d_off = grid_of(fd, dst)

    local function value(letter, step, offset, x, y)
        local sub = letter == "U" or letter == "V"
        local code = at(src.c[letter], sub and chroma_s or one, sub and chroma_s_off or zero, step, offset, x, y, opts.nearest)
        return (code - off_s[letter]) / scale_s[letter]
    end

    local back
    if opts.background and fs.has.A and not fd.has.A then
        back = opts.background
    end

    -- The source at sample (x, y) of a grid, as three values of its own model.
    local function source(step, offset, x, y)
        local a, b, c
        if fs.model == "rgb" then
            a, b, c = value("R", step, offset, x, y), value("G", step, offset, x, y), value("B", step, offset, x, y)
        elseif fs.model == "gray" then
            a, b, c = value("Y", step, offset, x, y), 0, 0
        else
            a, b, c = value("Y", step, offset, x, y), value("U", step, offset, x, y), value("V", step, offset, x, y)
        end
        return a, b, c
    end

    local function blended(step, offset, x, y)
        local a, b, c = source(step, offset, x, y)
        local alpha = value("A", step, offset, x, y)
        local p, q, r = back[1], back[2], back[3]
        if fs.model ~= "rgb" then
            p, q, r = from_rgb(src.matrix or "bt601", p, q, r)      -- without a matrix the background is neutral
        end
        return p + (a - p) * alpha, q + (b - q) * alpha, r + (c - r) * alpha
    end

    -- Blending is not linear in the two together: it is done pixel by pixel where the source has chroma at every pixel, then averaged.
    local function source_over_background(step, offset, x, y)
        if fs.w > 1 or fs.h > 1 or step == one then
            return blended(step, offset, x, y)
        end
        local c = src.c[fs.model == "rgb" and "R" or "Y"]
        local tx, ty = taps(c.w, 1, 0, step[1], offset[1], x, opts.nearest), taps(c.h, 1, 0, step[2], offset[2], y, opts.nearest)
        local a, b, d = 0, 0, 0
        for i = 1, #tx do
            for j = 1, #ty do
                local p, q, r = blended(one, zero, tx[i][1], ty[j][1])
                local w = tx[i][2] * ty[j][2]
                a, b, d = a + w * p, b + w * q, d + w * r
            end
        end
        return a, b, d
    end

    -- A change of light is not linear either: every pixel becomes the destination's R G B, and chroma is the mean of those.
    local function lit(step, offset, x, y)
        if step ~= one then
            local tx, ty = taps(src.width, 1, 0, step[1], offset[1], x, opts.nearest), taps(src.height, 1, 0, step[2], offset[2], y, opts.nearest)
            local r, g, b = 0, 0, 0
            for i = 1, #tx do
                for j = 1, #ty do
                    local p, q, s = lit(one, zero, tx[i][1], ty[j][1])
                    local w = tx[i][2] * ty[j][2]
                    r, g, b = r + w * p, g + w * q, b + w * s
                end
            end
            return r, g, b
        end
        local r, g, b = source(step, offset, x, y)
        if fs.model == "yuv" then
            r, g, b = to_rgb(src.matrix, r, g, b)
        elseif fs.model == "gray" then
            r, g, b = r, r, r
        end
        return reference.light(r, g, b, src, dst, opts)
    end

    local pick = opts.light and lit or back and source_over_background or source
    local same = fs.model == fd.model and (fs.model ~= "yuv" or src.matrix == dst.matrix)

    local function convert(a, b, c)
        if opts.light then
            if fd.model == "rgb" then return a, b, c end
            return from_rgb(dst.matrix or "bt601", a, b, c)
        elseif same then
            return a, b, c
        elseif fs.model == "gray" then
            if fd.model == "rgb" or dst.matrix == "gbr" then
                return a, a, a
            end
            return a, 0, 0
        elseif fs.model == "yuv" and fd.model == "gray" and src.matrix ~= "gbr" then
            return a, 0, 0
        end
        if fs.model == "yuv" then
            a, b, c = to_rgb(src.matrix, a, b, c)
        end
        if fd.model == "rgb" then
            return a, b, c
        end
        return from_rgb(dst.matrix, a, b, c)
    end

    local out = {}
    for letter in pairs(fd.has) do
        local w, h = grid(fd, letter, src.width, src.height)
        out[letter] = {w = w, h = h, data = ffi.new("double[?]", math.max(w * h, 1))}
    end
    local letters = fd.model == "rgb" and {"R", "G", "B"} or fd.model == "gray" and {"Y"} or {"Y", "U", "V"}
    local function fill(first, last, step, offset)
        local lead = out[letters[first]]
        for y = 0, lead.h - 1 do
            for x = 0, lead.w - 1 do
                local a, b, c = convert(pick(step, offset, x, y))
                for k = first, last do
                    local v = k == 1 and a or k == 2 and b or c
                    out[letters[k]].data[y * lead.w + x] = off_d[letters[k]] + scale_d[letters[k]] * v
                end
            end
        end
    end
    if fd.w > 1 or fd.h > 1 then
        fill(1, 1, one, zero)
        fill(2, 3, chroma_d, chroma_d_off)
    else
        fill(1, #letters, one, zero)
    end
    if fd.has.A then
        local a = out.A
        for i = 0, a.w * a.h - 1 do
            a.data[i] = off_d.A + scale_d.A * (fs.has.A and (src.c.A.data[i] - off_s.A) / scale_s.A or 1)
        end
    end
    return out
end

-- Compares codes with exact ones: returns the largest distance from the exact value (cut to what the format holds), samples, and samples that are
-- the exact value rounded. Floats: the distance is relative to the larger of 1 and the value.
function reference.compare(name, got, exact)
    local f = formats[name]
    local worst, samples, right = 0, 0, 0
    for letter, e in pairs(exact) do
        local g, max = got[letter], 2 ^ f.depth[letter] - 1
        for i = 0, e.w * e.h - 1 do
            local want, have = e.data[i], g.data[i]
            local distance
            if f.float then
                distance = math.abs(have - want) / math.max(1, math.abs(want))
                right = right + (distance <= (f.depth[letter] == 16 and 2 ^ -11 or 2 ^ -23) and 1 or 0)
            else
                want = math.max(0, math.min(want, max))
                distance = math.abs(have - want)
                right = right + (have == math.floor(want + 0.5) and 1 or 0)
            end
            if distance > worst or distance ~= distance then
                worst = distance
            end
            samples = samples + 1
        end
    end
    return worst, samples, right
end

return reference
