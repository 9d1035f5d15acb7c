-- SPDX-License-Identifier: MIT
-- Pictures on a terminal: what it understands, asked of it, and how pixels are written for that. Pixels are u8x3 mats of the host with tight rows.
local ffi = require "ffi"
local bit = require "bit"
local posix = require "gpuwb.posix"
local check = require "gpuwb.check"
local C = require("gpuwb.cdef").C

local terminal = {}
local floor, concat, char = math.floor, table.concat, string.char
local band, bor, rshift, lshift = bit.band, bit.bor, bit.rshift, bit.lshift

-- ---- what it understands

local LIMIT = 0.1   -- seconds that an answer may take

-- A question to the terminal: kitty's graphics ("a=q": tells whether it could), the terminal's name, and the primary device attributes, which every
-- terminal answers: then no more answers come.
local QUESTION = "\27_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\27\\\27[>q\27[c"

-- "kitty", "iterm2", "sixel", "blocks" by the answers and the environment; nil where it draws nothing.
function terminal.judge(answers, env)
    local multiplexed = (env.TMUX or "") ~= "" or (env.STY or "") ~= "" or answers:find("\27P>|tmux", 1, true) ~= nil
    local attributes = answers:match("\27%[%?([%d;]*)c") or ""
    local sixel = (";" .. attributes .. ";"):find(";4;", 1, true) ~= nil
    if not multiplexed then     -- a multiplexer keeps its own picture of the screen, which these would be no part of
        if answers:find("\27_Gi=31;OK", 1, true) then
            return "kitty"
        elseif answers:find("\27P>|iTerm2", 1, true) or answers:find("\27P>|WezTerm", 1, true) then
            return "iterm2"
        end
    end
    if sixel then
        return "sixel"
    end
    local name = env.TERM or ""
    return name ~= "" and name ~= "dumb" and "blocks" or nil
end

local known

-- What this process's terminal draws, asked once; nil where standard output is none. Waits up to a tenth of a second.
function terminal.ability()
    if known ~= nil then
        return known or nil
    end
    known = false
    if posix.isatty(1) then
        local answers, skipped = "", false
        local name = os.getenv("TERM") or ""
        if name ~= "" and name ~= "dumb" then
            answers, skipped = posix.ask_terminal(QUESTION, "\27%[%?[%d;]*c", LIMIT)
        end
        local found = terminal.judge(answers, {TERM = name, TMUX = os.getenv("TMUX"), STY = os.getenv("STY")})
        if skipped then     -- somebody types: asked again next time
            known = nil
            return found
        end
        known = found or false
    end
    return known or nil
end

-- Pixels of the window's columns and rows: width, height, and those of a letter.
function terminal.pixels()
    local columns, rows, width, height = posix.window(1)
    if width == 0 or height == 0 then
        width, height = columns * 10, rows * 20
    end
    return width, height, width / columns, height / rows
end

-- ---- base64

local alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
local digits = ffi.new("uint8_t[64]", {alphabet:byte(1, 64)})

function terminal.base64(text)
    local size = #text
    local out = ffi.new("uint8_t[?]", 4 * math.ceil(size / 3) + 1)
    local bytes = ffi.cast("const uint8_t *", text)
    local to = 0
    for i = 0, size - 1, 3 do
        local b = i + 1 < size and bytes[i + 1] or 0
        local c = i + 2 < size and bytes[i + 2] or 0
        local v = bor(lshift(bytes[i], 16), lshift(b, 8), c)
        out[to] = digits[rshift(v, 18)]
        out[to + 1] = digits[band(rshift(v, 12), 63)]
        out[to + 2] = i + 1 < size and digits[band(rshift(v, 6), 63)] or 61
        out[to + 3] = i + 2 < size and digits[band(v, 63)] or 61
        to = to + 4
    end
    return ffi.string(out, to)
end

-- ---- the ways of writing

-- kitty's protocol: a PNG in base64, in pieces of 4096 bytes; over so many columns and rows where they are given.
function terminal.kitty(png, columns, rows)
    local data, out = terminal.base64(png), {}
    local size = columns and (",c=%d,r=%d"):format(columns, rows) or ""
    for from = 1, #data, 4096 do
        local more = from + 4096 <= #data and 1 or 0
        out[#out + 1] = ("\27_G%sm=%d;%s\27\\"):format(from == 1 and "a=T,f=100,q=2" .. size .. "," or "", more, data:sub(from, from + 4095))
    end
    return concat(out)
end

function terminal.iterm2(png, width, height)
    return ("\27]1337;File=inline=1;size=%d;width=%dpx;height=%dpx;preserveAspectRatio=1:%s\7"):format(#png, width, height, terminal.base64(png))
end

-- An 8 x 8 threshold matrix, 0..63.
local bayer = ffi.new("uint8_t[64]")
for y = 0, 7 do
    for x = 0, 7 do
        local v = 0
        for i = 0, 2 do
            v = bor(v, lshift(band(rshift(bit.bxor(x, y), i), 1), 5 - 2 * i), lshift(band(rshift(y, i), 1), 4 - 2 * i))
        end
        bayer[y * 8 + x] = v
    end
end

local LEVELS = {6, 7, 6}    -- of red, green, blue: 252 colours

local function level(v, levels, threshold)
    local scaled = v * (levels - 1) / 255
    local whole = floor(scaled)
    return scaled - whole > (threshold + 0.5) / 64 and whole + 1 or whole
end

-- The colour of each pixel, 0..251, with ordered dither.
local function quantize(m)
    check.status(C.gwb_mat_wait(m, 0), "gpu.show")
    local p = ffi.cast("gwb_mat *", m)
    local width, height = p.width, p.height
    local out = ffi.new("uint8_t[?]", math.max(width * height, 1))
    for y = 0, height - 1 do
        local row = p.data + y * p.step
        for x = 0, width - 1 do
            local t = bayer[band(y, 7) * 8 + band(x, 7)]
            local r, g, b = level(row[x * 3], LEVELS[1], t), level(row[x * 3 + 1], LEVELS[2], t), level(row[x * 3 + 2], LEVELS[3], t)
            out[y * width + x] = (r * LEVELS[2] + g) * LEVELS[3] + b
        end
    end
    return out
end

local function run_length(out, bits, count)
    local letter = char(63 + bits)
    out[#out + 1] = count > 3 and ("!%d%s"):format(count, letter) or letter:rep(count)
end

function terminal.sixel(m)
    local width, height = m.width, m.height
    local pixels = quantize(m)
    local out = {("\27P0;1;0q\"1;1;%d;%d"):format(width, height)}
    local used = ffi.new("uint8_t[256]")
    for i = 0, width * height - 1 do
        used[pixels[i]] = 1
    end
    for color = 0, LEVELS[1] * LEVELS[2] * LEVELS[3] - 1 do
        if used[color] == 1 then
            local r, g, b = floor(color / (LEVELS[2] * LEVELS[3])), floor(color / LEVELS[3]) % LEVELS[2], color % LEVELS[3]
            out[#out + 1] = ("#%d;2;%d;%d;%d"):format(color, floor(r * 100 / (LEVELS[1] - 1) + 0.5), floor(g * 100 / (LEVELS[2] - 1) + 0.5),
                floor(b * 100 / (LEVELS[3] - 1) + 0.5))
        end
    end
    local line = ffi.new("uint8_t[?]", width + 1)
    for top = 0, height - 1, 6 do
        local rows = math.min(6, height - top)
        ffi.fill(used, 256)
        for i = top * width, (top + rows) * width - 1 do
            used[pixels[i]] = 1
        end
        local first = true
        for color = 0, 255 do
            if used[color] == 1 then
                ffi.fill(line, width)
                for r = 0, rows - 1 do
                    for x = 0, width - 1 do
                        if pixels[(top + r) * width + x] == color then
                            line[x] = bor(line[x], lshift(1, r))
                        end
                    end
                end
                out[#out + 1] = (first and "" or "$") .. "#" .. color
                first = false
                local count, last = 0, width
                while last > 0 and line[last - 1] == 0 do
                    last = last - 1
                end
                for x = 0, last - 1 do
                    count = count + 1
                    if x + 1 == last or line[x + 1] ~= line[x] then
                        run_length(out, line[x], count)
                        count = 0
                    end
                end
            end
        end
        out[#out + 1] = "-"
    end
    out[#out + 1] = "\27\\"
    return concat(out)
end

-- Two pixels a letter, the upper half block in 24-bit colours.
function terminal.blocks(m)
    check.status(C.gwb_mat_wait(m, 0), "gpu.show")
    local p, out = ffi.cast("gwb_mat *", m), {}
    for y = 0, p.height - 1, 2 do
        local top, bottom = p.data + y * p.step, y + 1 < p.height and p.data + (y + 1) * p.step or nil
        local upper, lower = -1, -1
        for x = 0, p.width - 1 do
            local r, g, b = top[x * 3], top[x * 3 + 1], top[x * 3 + 2]
            local color = (r * 256 + g) * 256 + b
            if color ~= upper then
                out[#out + 1] = ("\27[38;2;%d;%d;%dm"):format(r, g, b)
                upper = color
            end
            if bottom then
                r, g, b = bottom[x * 3], bottom[x * 3 + 1], bottom[x * 3 + 2]
                color = (r * 256 + g) * 256 + b
                if color ~= lower then
                    out[#out + 1] = ("\27[48;2;%d;%d;%dm"):format(r, g, b)
                    lower = color
                end
            end
            out[#out + 1] = "\226\150\128"
        end
        out[#out + 1] = y + 2 < p.height and "\27[0m\n" or "\27[0m"
    end
    return concat(out)
end

return terminal
