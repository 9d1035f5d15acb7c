-- SPDX-License-Identifier: MIT
-- Makes kernels/blue_noise.h: a 64x64 threshold matrix by void and cluster (Ulichney). The same table on every run.
--   gpuwb scripts/blue_noise.lua > kernels/blue_noise.h
local ffi = require "ffi"
local bit = require "bit"

local N, SIGMA = 64, 1.9
local CELLS = N * N

-- How much a point adds to the crowding of each cell, by the distance around the edges.
local spread = ffi.new("double[?]", CELLS)
for y = 0, N - 1 do
    for x = 0, N - 1 do
        local dx, dy = math.min(x, N - x), math.min(y, N - y)
        spread[y * N + x] = math.exp(-(dx * dx + dy * dy) / (2 * SIGMA * SIGMA))
    end
end

local set, crowd = ffi.new("uint8_t[?]", CELLS), ffi.new("double[?]", CELLS)

local function put(at, value)
    set[at] = value
    local sign, px, py = value == 1 and 1 or -1, at % N, math.floor(at / N)
    for y = 0, N - 1 do
        local row = bit.band(y - py, N - 1) * N
        for x = 0, N - 1 do
            crowd[y * N + x] = crowd[y * N + x] + sign * spread[row + bit.band(x - px, N - 1)]
        end
    end
end

-- The most crowded point (value 1), or the emptiest gap (value 0).
local function find(value)
    local best, best_crowd
    for at = 0, CELLS - 1 do
        if set[at] == value and (not best or (value == 1 and crowd[at] > best_crowd) or (value == 0 and crowd[at] < best_crowd)) then
            best, best_crowd = at, crowd[at]
        end
    end
    return best
end

-- A tenth of the cells, at random, then spread out until the most crowded point is the emptiest gap.
local state = 12345
local function random(n)
    state = (state * 16807) % 2147483647
    return state % n
end
local points = 0
while points < CELLS / 10 do
    local at = random(CELLS)
    if set[at] == 0 then
        put(at, 1)
        points = points + 1
    end
end
while true do
    local from = find(1)
    put(from, 0)
    local to = find(0)
    put(to, 1)
    if from == to then break end
end

-- Ranks: the starting points by taking the most crowded away, the rest by filling the emptiest gap.
local rank, start = ffi.new("int[?]", CELLS), ffi.new("uint8_t[?]", CELLS)
ffi.copy(start, set, CELLS)
for r = points - 1, 0, -1 do
    local at = find(1)
    rank[at] = r
    put(at, 0)
end
for at = 0, CELLS - 1 do
    if start[at] == 1 then put(at, 1) end
end
for r = points, CELLS - 1 do
    local at = find(0)
    rank[at] = r
    put(at, 1)
end

io.write([[
// SPDX-License-Identifier: MIT
// Made by scripts/blue_noise.lua: a 64x64 threshold matrix without low frequencies, 0..255.
#ifndef GWB_KERNEL_BLUE_NOISE_H
#define GWB_KERNEL_BLUE_NOISE_H

#include "prelude.h"

#if defined(__CUDACC__)
__device__
#endif
static const uint8_t gwb_blue_noise[64 * 64] = {
]])
for row = 0, CELLS / 32 - 1 do
    local line = {}
    for i = 0, 31 do line[i + 1] = ("%d,"):format(math.floor(rank[row * 32 + i] / 16)) end
    io.write("    ", table.concat(line), "\n")
end
io.write("};\n\n#endif\n")
