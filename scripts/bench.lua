-- SPDX-License-Identifier: MIT
-- Times copies and conversions on the device at hand: gpuwb scripts/bench.lua   (--device picks one)
--
-- On cuda each row sets gpuwb's copy beside the driver's own (cuMemcpy2DAsync, cuMemcpyAsync), called on the same stream. A figure is the median of
-- runs, each timed by events over many copies that were all enqueued before the first began; buffers are rotated over more
-- than 300 MB, so that the processor's cache serves none of them. On the host it is the wall clock, and ffi.copy row by row stands for the driver.
-- A conversion stands beside the driver's copy of half as many bytes as it reads and writes together, which moves as many: 100 % is the limit.
local gpu = require "gpuwb"
local ffi = require "ffi"
local bench = dofile((arg[0]:match("^.*/") or "") .. "bench_time.lua")
local each = bench.each

local ROTATE, RUNS = 320e6, 15     -- bytes, runs for a median

ffi.cdef [[
typedef struct gwb_bench_copy2d {
    size_t src_x, src_y; int src_type; const void *src_host; void *src; void *src_array; size_t src_step;
    size_t dst_x, dst_y; int dst_type; void *dst_host; void *dst; void *dst_array; size_t dst_step;
    size_t width, rows;
} gwb_bench_copy2d;
int cuMemcpy2DAsync_v2(const gwb_bench_copy2d *copy, void *stream);
int cuMemcpyAsync(void *dst, const void *src, size_t bytes, void *stream);
]]

local cuda = gpu.device() ~= "host" and ffi.load "libcuda.so.1"
local stream = gpu.stream()

local function time(fn, n) return bench.time(stream, fn, n, RUNS, 0.02) end

-- ---- the two sides of a row

local params = cuda and ffi.new("gwb_bench_copy2d", {src_type = 2, dst_type = 2})

-- The driver's copy of a mat, or on the host the plain one; false where it refuses.
local function plain(dst, src)
    local width, rows = src.width * src.elem_size, src.height
    if not cuda then
        local to, from = ffi.cast("uint8_t *", dst.data), ffi.cast("const uint8_t *", src.data)
        for y = 0, rows - 1 do ffi.copy(to + y * dst.step, from + y * src.step, width) end
        return true
    end
    if rows == 1 then return cuda.cuMemcpyAsync(dst.data, src.data, width, stream.handle) == 0 end
    params.src, params.src_step, params.dst, params.dst_step = src.data, src.step, dst.data, dst.step
    params.width, params.rows = width, rows
    return cuda.cuMemcpy2DAsync_v2(params, stream.handle) == 0
end

local function plain_planes(dst, src)
    for k, plane in ipairs(src.planes) do
        if not plain(dst.planes[k], plane) then return false end
    end
    return true
end

-- A mat of width x height bytes whose rows lie `step` bytes apart.
local function pitched(width, height, step, x)
    local whole = gpu.mat(step, height, "u8", {packed = true})
    local part = whole:roi(x or 0, 0, width, height)
    whole:close()       -- the part keeps the memory
    return part
end

-- The next row needs the memory, and compiled loops may hold the lists for longer.
local function close(list)
    for _, v in ipairs(list) do
        for _, m in ipairs(type(v) == "table" and v.planes or {v}) do m:close() end
    end
end

-- Times a copy of `bytes` from src to dst, each made by make(), which gives a mat or {planes=}; prints a line.
local function row(label, bytes, make_dst, make_src)
    local sets = math.max(2, math.ceil(ROTATE / (2 * bytes)))
    local dst, src = each(sets, make_dst), each(sets, make_src or make_dst)
    local function at(i) return dst[i % sets + 1], src[i % sets + 1] end
    local opts = {stream = stream}
    local n = math.max(4, math.min(100, math.ceil(4e9 / bytes)))
    if not cuda then n = math.max(1, math.ceil(n / 25)) end
    local ours = time(function(i)
        local to, from = at(i)
        gpu.copy(to, from, opts)
    end, n)
    local other = time(function(i)
        local to, from = at(i)
        return (type(from) == "table" and plain_planes or plain)(to, from)
    end, n)
    print(("%-46s %10.2f %10s %9s %8.2f"):format(label, ours, other and ("%.2f"):format(other) or "refused", other and ("%.0f %%"):format(100 * ours / other)
        or "-", 2 * bytes / ours * 1e-6))
    close(dst)
    close(src)
end

local function title(text)
    print(("\n%-46s %10s %10s %9s %8s"):format(text, "gpuwb us", cuda and "driver us" or "plain us", "ratio", "TB/s"))
end

print(("%s, gpuwb %s; bytes are counted as read and written"):format(gpu.device(), gpu.version))

title "one plane, 1080 rows: width at steps"
for _, width in ipairs {1919, 1920, 1921} do
    for _, step in ipairs {1920, 1921, 2048} do
        if step >= width then
            row(("%d at %d"):format(width, step), width * 1080, function() return pitched(width, 1080, step) end)
        end
    end
end
row("1921 from 1921 to 2048", 1921 * 1080, function() return pitched(1921, 1080, 2048) end, function() return pitched(1921, 1080, 1921) end)
row("1920 from byte 1 of a row to byte 0", 1920 * 1080, function() return pitched(1920, 1080, 2048) end,
    function() return pitched(1920, 1080, 2048, 1) end)

title "pictures 3840 x 2160"
local function planes(step, sizes)
    local list = {}
    for k, size in ipairs(sizes) do list[k] = pitched(size[1], size[2], size[3] or step) end
    return {planes = list}
end
for _, step in ipairs {3840, 4096} do
    row("nv12, planes at " .. step, 3840 * 3240, function() return planes(step, {{3840, 2160}, {3840, 1080}}) end)
end
for _, step in ipairs {3840, 4096} do
    local half = step / 2
    row("yuv420p, planes at " .. step .. ", " .. half, 3840 * 3240,
        function() return planes(step, {{3840, 2160}, {1920, 1080, half}, {1920, 1080, half}}) end)
end

title "without gaps"
for _, megabytes in ipairs(cuda and {1, 4, 16, 64, 255, 256, 1024} or {1, 16, 64}) do
    local bytes = megabytes * 1048576
    row(("%d MiB"):format(megabytes), bytes, function() return gpu.mat(bytes, 1, "u8") end)
end

-- ---- conversions

print(("\n%-46s %10s %10s %9s %8s"):format("conversions 3840 x 2160, bt709, limited", "gpuwb us", cuda and "copy us" or "plain us", "of limit", "TB/s"))
for _, pair in ipairs {{"nv12", "rgb24"}, {"nv12", "rgba"}, {"nv12", "gbrp"}, {"nv12", "rgbpf32le"}, {"yuv420p", "rgb24"}, {"p010le", "rgb24"},
                       {"yuv444p", "rgb24"}, {"rgb24", "nv12"}, {"rgb24", "yuv420p"}, {"nv12", "yuv420p"}, {"rgb24", "bgr24"}} do
    local function picture(name)
        local yuv = gpu.format(name).model == "yuv"
        local img = gpu.image(name, 3840, 2160, yuv and {matrix = "bt709", range = "limited"} or {})
        for _, plane in ipairs(img.planes) do plane:fill(100) end
        return img
    end
    local bytes = gpu.format(pair[1]):bytes(3840, 2160) + gpu.format(pair[2]):bytes(3840, 2160)
    local sets = math.ceil(ROTATE / bytes)
    local src, opts = each(sets, function() return picture(pair[1]) end), {}
    for i = 1, sets do opts[i] = {out = picture(pair[2]), stream = stream} end
    local n = cuda and 100 or 4
    local ours = time(function(i) src[i % sets + 1]:convert(pair[2], opts[i % sets + 1]) end, n)
    local function flat() return gpu.mat(bytes / 2, 1, "u8") end
    local to, from = each(sets, flat), each(sets, flat)
    local limit = time(function(i) return plain(to[i % sets + 1], from[i % sets + 1]) end, n)
    print(("%-46s %10.2f %10.2f %9s %8.2f"):format(pair[1] .. " to " .. pair[2], ours, limit, ("%.0f %%"):format(100 * limit / ours), bytes / ours * 1e-6))
    for i = 1, sets do
        src[i]:close()
        opts[i].out:close()
    end
    close(to)
    close(from)
end
