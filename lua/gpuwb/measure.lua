-- SPDX-License-Identifier: MIT
-- Measuring: how long work takes, and where two pictures differ.
local ffi = require "ffi"
local check = require "gpuwb.check"
local format = require "gpuwb.format"
local image = require "gpuwb.image"
local posix = require "gpuwb.posix"
local stream = require "gpuwb.stream"
local types = require "gpuwb.types"
local C = require("gpuwb.cdef").C

local measure = {public = {}}
local abs, floor, log10, huge = math.abs, math.floor, math.log10, math.huge

-- ---- time

local ENOUGH, FEWEST, MOST = 200, 5, 1000   -- milliseconds and runs, where n is not given

local function spread(list)
    local sorted = {}
    for i, v in ipairs(list) do
        sorted[i] = v
    end
    table.sort(sorted)
    local n = #sorted
    return {min = sorted[1], median = n % 2 == 1 and sorted[(n + 1) / 2] or (sorted[n / 2] + sorted[n / 2 + 1]) / 2, max = sorted[n]}
end

local time_meta = {__name = "time", __tostring = function(t)
    local function line(name, s)
        return ("%s %.3f ms (%.3f to %.3f)"):format(name, s.median, s.min, s.max)
    end
    return ("%s, %s, %d runs"):format(line("device", t.device), line("wall", t.wall), t.n)
end}

--- gpu.time(fn [, {n=, stream=}]) -> {device=, wall=, n=}, each {min=, median=, max=} in milliseconds; prints itself. Runs fn once to warm up, then n times
-- (default: for 0.2 s, 5 to 1000 times), waiting for the device after each. device: between events before and behind fn's work on the stream
-- (default: the current device's default stream), wall: of the clock, with the wait. Work that fn puts on other streams counts in wall alone.
-- Errors: BAD_ARGUMENT, those of fn and of its work.
-- @example
-- local m = gpu.mat(640, 480, "f32", {fill = 1})
-- local t = gpu.time(function() m:fill(2) end, {n = 10})
-- print(t.n, t.wall.min <= t.wall.median, t.device.median <= t.device.max)     --> 10  true  true
function measure.public.time(fn, opts)
    local op = "gpu.time"
    check.callable(op, "fn", fn)
    opts = check.options(op, opts, {"n", "stream"})
    local n = opts.n ~= nil and check.integer(op, "n", opts.n, 1, 1e6) or nil
    local s = check.stream(op, opts.stream) or stream.default()
    local before, behind = stream.event(), stream.event()
    fn()
    s:synchronize()
    local device, wall, total = {}, {}, 0
    while #wall < (n or MOST) and (n or #wall < FEWEST or total < ENOUGH) do
        local start = posix.now()
        s:record(before)
        fn()
        s:record(behind)
        s:synchronize()
        wall[#wall + 1] = (posix.now() - start) * 1e3
        device[#device + 1] = stream.elapsed(before, behind)
        total = total + wall[#wall]
    end
    return setmetatable({device = spread(device), wall = spread(wall), n = #wall}, time_meta)
end

-- ---- differences

-- The samples of a row: adds what differs to `sum` = {count, nan, max, total, squares}; the position of the first difference, or nil.
local function compare_row(a, b, n, sum)
    local count, nan, most, total, squares, first = 0, 0, sum.max, 0, 0, nil
    for i = 0, n - 1 do
        local x, y = tonumber(a[i]), tonumber(b[i])
        if x ~= y and (x == x or y == y) then
            local d = abs(x - y)
            count = count + 1
            first = first or i
            if d == d then
                if d > most then most = d end
                total = total + d
                squares = squares + d * d
            else
                nan = nan + 1
            end
        end
    end
    sum.count, sum.nan, sum.max, sum.total, sum.squares = sum.count + count, sum.nan + nan, most, sum.total + total, sum.squares + squares
    return first
end

-- Of two host mats of one shape and type; `plane` is 1 for a mat.
local function compare(op, a, b, plane, sum)
    local channels, width = a.channels, a.width
    local pointer = ffi.typeof("const " .. types.ctype[a.dtype] .. " *")
    check.status(C.gwb_mat_wait(a, 0), op)
    check.status(C.gwb_mat_wait(b, 0), op)
    local p, q = ffi.cast("gwb_mat *", a), ffi.cast("gwb_mat *", b)
    for y = 0, a.height - 1 do
        local first = compare_row(ffi.cast(pointer, p.data + y * p.step), ffi.cast(pointer, q.data + y * q.step), width * channels, sum)
        if first and not sum.first then
            sum.first = {x = floor(first / channels), y = y, c = first % channels, plane = plane}
        end
    end
    sum.samples = sum.samples + width * a.height * channels
end

local function on_host(m)
    if m.dtype == "f16" then
        m = m:cast(types.text(types.code.f32, m.channels))
    end
    return m:to("host")
end

local whole = {u8 = 255, i8 = 255, u16 = 65535, i16 = 65535, u32 = 4294967295, i32 = 4294967295}

-- The largest value of an image's samples, in the numbers of its planes.
local function image_peak(op, f)
    if f.layout == "word" or f.layout == "v210" then
        check.fail("UNSUPPORTED", op, "%s packs several components into a word: convert both first, as to rgb48le", f.name)
    end
    if f.type:find("^f") then
        return 1
    end
    return (2 ^ f.depth - 1) * 2 ^ C.gwb_format_get(f.position).component[0].shift
end

local function planes_of(op, name, v)
    if image.is(v) then
        image.fill(op, name, v, ffi.new("gwb_image"))
        return v.planes, v.format
    end
    return {check.mat(op, name, v)}
end

local diff_meta = {__name = "difference", __tostring = function(d)
    if d.count == 0 then
        return ("equal, all %.0f samples"):format(d.samples)
    end
    local where = d.first.plane > 1 and (" of plane %d"):format(d.first.plane) or ""
    return ("%.0f of %.0f samples differ, by %.6g at most and %.6g in the mean, PSNR %.2f dB; the first at x %d, y %d, channel %d%s"):format(d.count, d.samples,
        d.max, d.mean, d.psnr, d.first.x, d.first.y, d.first.c, where) .. (d.nan > 0 and ("; %.0f have a NaN on one side"):format(d.nan) or "")
end}

--- gpu.diff(a, b [, {peak=}]) -> {max=, mean=, psnr=, first={x=, y=, c=, plane=}, count=, samples=, nan=}: where two mats or images of one shape first differ,
-- and how much; prints itself. max, mean: of the magnitudes of the differences over all samples; psnr: decibels, math.huge where they are equal, of
-- peak (default: the type's or depth's largest value; 1 for floats); count: samples that differ; first: nil where none does, x and y in pixels of its
-- plane, c from 0, plane from 1, in the order of rows. NaN equals NaN; NaN against a number differs: such samples are counted
-- in count, NaN in nan too and not in max and mean. Waits. Images must have one format; tags are not compared. Errors: SHAPE, BAD_ARGUMENT,
-- CLOSED, those of the work.
-- @example
-- local a = gpu.mat(4, 3, "u8", {fill = 10})
-- local b = a:clone()
-- b:roi(2, 1, 1, 1):fill(13)
-- local d = gpu.diff(a, b)
-- print(d.max, d.mean, d.count, d.first.x, d.first.y)      --> 3  0.25  1  2  1
function measure.public.diff(a, b, opts)
    local op = "gpu.diff"
    local left, format_a = planes_of(op, "a", a)
    local right, format_b = planes_of(op, "b", b)
    opts = check.options(op, opts, {"peak"})
    if format_a ~= format_b then
        check.fail("SHAPE", op, "a is %s and b is %s: convert one of them", tostring(a), tostring(b))
    end
    local peak = opts.peak ~= nil and check.number(op, "peak", opts.peak) or format_a and image_peak(op, format.find(op, format_a)) or
        whole[left[1].dtype] or 1
    local sum = {count = 0, nan = 0, max = 0, total = 0, squares = 0, samples = 0}
    for i, p in ipairs(left) do
        local q = right[i]
        if p.width ~= q.width or p.height ~= q.height or p.type ~= q.type then
            check.fail("SHAPE", op, "a is %s and b is %s; wanted the same size and type", tostring(a), tostring(b))
        end
        compare(op, on_host(p), on_host(q), i, sum)
    end
    local n = math.max(sum.samples - sum.nan, 1)
    return setmetatable({max = sum.max, mean = sum.total / n, psnr = sum.count == 0 and huge or 10 * log10(peak * peak / (sum.squares / n)), first = sum.first,
                         count = sum.count, samples = sum.samples, nan = sum.nan}, diff_meta)
end

return measure
