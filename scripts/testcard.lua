-- SPDX-License-Identifier: MIT
-- Makes a yuv420p frame by formula, as a video decoder would hand it out: saturated bars, skin tones, a colour wheel, ramps, a zone plate.
-- Usage: gpuwb scripts/testcard.lua OUT.npy|y4m|yuv [WIDTH HEIGHT]     600 x 400 where no size is given; BT.601, limited range
-- Other scripts take the frame by dofile: card.frame(width, height) -> a mat that holds the packed frame; its matrix and range are card.tags.
local gpu = require "gpuwb"
local ffi = require "ffi"

local card = {tags = {matrix = "bt601", range = "limited", siting = "center"}}

local bars = {{.75, .75, .75}, {.75, .75, 0}, {0, .75, .75}, {0, .75, 0}, {.75, 0, .75}, {.75, 0, 0}, {0, 0, .75}}
local skin = {{255, 224, 196}, {241, 194, 160}, {224, 172, 130}, {198, 134, 98}, {141, 85, 54}, {78, 46, 30}}

-- Hue (0..1) and saturation of a colour of full value.
local function hsv(hue, saturation)
    local function channel(shift)
        local at = (hue + shift) % 1 * 6
        return 1 - saturation * (1 - math.min(math.max(math.abs(at - 3) - 1, 0), 1))
    end
    return channel(0), channel(2 / 3), channel(1 / 3)
end

-- R, G, B (0..1) at x, y (0..1).
local function colour(x, y, aspect)
    if y < .35 then
        return unpack(bars[math.floor(x * 7) + 1])
    elseif y < .42 then
        return x, x, x
    elseif y < .49 then
        return hsv(x, 1)
    elseif x < .3 then
        local tone = skin[math.floor(x / .1) + (y < .745 and 1 or 4)]
        return tone[1] / 255, tone[2] / 255, tone[3] / 255
    end
    local dx, dy = (x - (x < .65 and .475 or .825)) * aspect, y - .745
    local radius = math.sqrt(dx * dx + dy * dy) / .24
    if x < .65 then
        if radius > 1 then
            return .5, .5, .5
        end
        return hsv(math.atan2(dy, dx) / (2 * math.pi) % 1, radius)
    end
    local wave = .5 + .45 * math.cos(40 * radius * radius)
    return wave, wave, wave
end

-- Studio values by the BT.601 weights.
local function studio(r, g, b)
    local y = .299 * r + .587 * g + .114 * b
    return 16 + 219 * y, 128 + 112 * (b - y) / .886, 128 + 112 * (r - y) / .701
end

function card.frame(width, height)
    local cw, ch = math.ceil(width / 2), math.ceil(height / 2)
    local bytes = width * height + 2 * cw * ch
    local luma = ffi.new("uint8_t[?]", bytes)
    local u, v = luma + width * height, luma + width * height + cw * ch
    for cy = 0, ch - 1 do
        for cx = 0, cw - 1 do
            local sum_u, sum_v, n = 0, 0, 0
            for y = 2 * cy, math.min(2 * cy + 1, height - 1) do
                for x = 2 * cx, math.min(2 * cx + 1, width - 1) do
                    local value, cb, cr = studio(colour((x + .5) / width, (y + .5) / height, width / height))
                    luma[y * width + x] = value + .5
                    sum_u, sum_v, n = sum_u + cb, sum_v + cr, n + 1
                end
            end
            u[cy * cw + cx], v[cy * cw + cx] = sum_u / n + .5, sum_v / n + .5
        end
    end
    -- A decoder's array has rows of `width` bytes, where that comes out even.
    local rows = bytes / width
    local frame = rows == math.floor(rows) and gpu.mat(width, rows, "u8", {packed = true}) or gpu.mat(bytes, 1, "u8")
    return frame:upload(luma)
end

if arg and arg[0] and arg[0]:find("testcard%.lua$") then
    local out, width, height = arg[1], tonumber(arg[2] or 600), tonumber(arg[3] or 400)
    if not out or out == "--help" or not width or not height then
        io.stderr:write("usage: gpuwb scripts/testcard.lua OUT.npy|y4m|yuv [WIDTH HEIGHT]\n")
        os.exit(2)
    end
    local frame = card.frame(width, height)
    gpu.save(out:find("%.npy$") and frame or frame:planes("yuv420p", width, height, card.tags), out)
end

return card
