-- SPDX-License-Identifier: MIT
-- Times reading and writing picture files: gpuwb scripts/bench_files.lua [PICTURE]    (GPUWB_THREADS=1 keeps it to one thread)
--
-- A picture of 3840x2160 (PICTURE, resized, else made by formula) is decoded and encoded in memory by gpuwb with the libraries that it finds, by its
-- built-in code, and by libjpeg-turbo, libspng and stb themselves where they are installed. A figure is the median of runs, milliseconds on one
-- thread. Then many files: one after the other, and by gpu.files and gpu.writer; on a GPU also to it, decoded on the host and by nvJPEG.
local gpu = require "gpuwb"
local ffi = require "ffi"
local bench = dofile((arg[0]:match("^.*/") or "") .. "bench_time.lua")
local C = require("gpuwb.cdef").C

local RUNS, W, H = 7, 3840, 2160
io.stdout:setvbuf("line")

ffi.cdef [[
void *tjInitDecompress(void);
void *tjInitCompress(void);
int tjDecompress2(void *h, const void *jpeg, unsigned long size, void *to, int w, int step, int h2, int format, int flags);
int tjCompress2(void *h, const void *from, int w, int step, int h2, int format, unsigned char **to, unsigned long *size, int sub, int quality, int flags);
void tjFree(void *);
void *spng_ctx_new(int flags);
void spng_ctx_free(void *ctx);
int spng_set_png_buffer(void *ctx, const void *buf, size_t size);
int spng_decode_image(void *ctx, void *out, size_t len, int fmt, int flags);
struct gwb_bench_ihdr { uint32_t width, height; uint8_t bit_depth, color_type, compression, filter, interlace; };
int spng_set_ihdr(void *ctx, struct gwb_bench_ihdr *ihdr);
int spng_set_option(void *ctx, int option, int value);
int spng_encode_image(void *ctx, const void *img, size_t len, int fmt, int flags);
void *spng_get_png_buffer(void *ctx, size_t *len, int *error);
unsigned char *stbi_load_from_memory(const void *buffer, int len, int *x, int *y, int *channels, int wanted);
void stbi_image_free(void *);
unsigned char *stbi_write_png_to_mem(const void *pixels, int step, int x, int y, int n, int *len);
int stbi_write_jpg_to_func(void *func, void *context, int x, int y, int comp, const void *data, int quality);
void *malloc(size_t);
void free(void *);
]]

local function library(name)
    local ok, lib = pcall(ffi.load, name)
    return ok and lib or nil
end
local turbo, spng, stb = library "libturbojpeg.so.0", library "libspng.so.0", library "libstb.so.0"

local function picture()
    if arg[1] then
        return gpu.fit(gpu.load(arg[1], {device = "host"}), "jpg", {background = {0, 0, 0}}):convert("rgb24"):resize(W, H)
    end
    local bytes, seed = ffi.new("uint8_t[?]", W * H * 3), 1
    for y = 0, H - 1 do
        for x = 0, W - 1 do
            local at = (y * W + x) * 3
            seed = (seed * 1103515245 + 12345) % 2147483648
            local noise = math.floor(seed / 65536) % 5
            local wave = math.sin(x / 97) * math.cos(y / 61) * 80 + math.sin((x + y) / 13) * 20
            bytes[at], bytes[at + 1], bytes[at + 2] = 120 + wave + noise, 100 + wave / 2 + y / 40 + noise, x / 20 + noise
        end
    end
    local img = gpu.image("rgb24", W, H, {device = "host"})
    img.planes[1]:upload(bytes)
    return img
end

local function median(fn)
    local list = {}
    fn()
    for i = 1, RUNS do
        local start = bench.now()
        fn()
        list[i] = (bench.now() - start) / 1e3
    end
    table.sort(list)
    return list[math.ceil(RUNS / 2)]
end

local img = picture()
local pixels = ffi.new("uint8_t[?]", W * H * 3)
img.planes[1]:download(pixels)
local jpg = gpu.encode(img, "jpg", {quality = 90, subsampling = "420"})
gpu.codecs {libraries = true}
local png = gpu.encode(img, "png")

local function row(name, ms, size)
    print(("%-44s %9.1f %10s"):format(name, ms, size and ("%.2f MB"):format(tonumber(size) / 1e6) or ""))
end

-- gpuwb's own calls in C: what a library does too, pixels in host memory.
local function decode(bytes)
    return function()
        local p = ffi.new("gwb_picture")
        assert(C.gwb_decode(bytes, #bytes, "bench", nil, p) == 0)
        C.gwb_picture_free(p)
    end
end

local size
local function encode(kind, params)
    local p = ffi.new("gwb_picture", {format = "rgb24", width = W, height = H, planes = 1})
    p.plane[0] = ffi.new("gwb_plane", {data = pixels, step = W * 3, width = W, height = H, type = 0, channels = 3})
    return function()
        local out = ffi.new("gwb_bytes")
        assert(C.gwb_encode(p, kind, ffi.new("gwb_write_params", params or {}), out) == 0)
        size = out.size
        C.gwb_bytes_free(out)
    end
end

print(("%dx%d, %s for JPEG, %s for PNG\n%-44s %9s"):format(W, H, gpu.codecs().jpg, gpu.codecs().png, "JPEG, 4:2:0, quality 90: decode", "ms"))
row("gpuwb", median(decode(jpg)))
row("gpuwb, to an image (gpu.decode)", median(function() gpu.decode(jpg, {device = "host"}).planes[1]:close() end))
if turbo then
    row("libjpeg-turbo itself", median(function()
        local to = ffi.C.malloc(W * H * 3)
        assert(turbo.tjDecompress2(turbo.tjInitDecompress(), jpg, #jpg, to, W, 0, H, 0, 4096) == 0)
        ffi.C.free(to)
    end))
end
gpu.codecs {libraries = false}
row("gpuwb, built in", median(decode(jpg)))
gpu.codecs {libraries = true}
local n = ffi.new("int[3]")
local function stb_decode(bytes)
    return function() stb.stbi_image_free(assert(stb.stbi_load_from_memory(bytes, #bytes, n, n + 1, n + 2, 0))) end
end
if stb then row("stb_image", median(stb_decode(jpg))) end

print("JPEG: encode")
row("gpuwb", median(encode("jpg", {quality = 90})), size)
if turbo then
    local handle, to, length = turbo.tjInitCompress(), ffi.new("unsigned char *[1]"), ffi.new("unsigned long[1]")
    row("libjpeg-turbo itself", median(function()
        to[0] = nil
        assert(turbo.tjCompress2(handle, pixels, W, 0, H, 0, to, length, 2, 90, 4096) == 0)
        turbo.tjFree(to[0])
    end), length[0])
end
gpu.codecs {libraries = false}
row("gpuwb, built in", median(encode("jpg", {quality = 90})), size)
gpu.codecs {libraries = true}
if stb then
    local bytes = 0
    local take = ffi.cast("void (*)(void *, void *, int)", function(_, _, count) bytes = bytes + count end)
    row("stb_image_write", median(function()
        bytes = 0
        assert(stb.stbi_write_jpg_to_func(take, nil, W, H, 3, pixels, 90) == 1)
    end), bytes)
    take:free()
end

print("PNG: decode")
row("gpuwb", median(decode(png)))
if spng then
    row("libspng itself", median(function()
        local ctx, to = spng.spng_ctx_new(0), ffi.C.malloc(W * H * 3)
        spng.spng_set_png_buffer(ctx, png, #png)
        assert(spng.spng_decode_image(ctx, to, W * H * 3, 4, 0) == 0)
        spng.spng_ctx_free(ctx)
        ffi.C.free(to)
    end))
end
gpu.codecs {libraries = false}
row("gpuwb, built in", median(decode(png)))
gpu.codecs {libraries = true}
if stb then row("stb_image", median(stb_decode(png))) end

print("PNG: encode")
RUNS = 3
for _, level in ipairs {1, 4, 9} do
    row("gpuwb, level " .. level, median(encode("png", {level = level})), size)
end
if spng then
    local length, err = ffi.new("size_t[1]"), ffi.new("int[1]")
    row("libspng itself", median(function()
        local ctx = spng.spng_ctx_new(2)
        spng.spng_set_option(ctx, 12, 1)
        spng.spng_set_ihdr(ctx, ffi.new("struct gwb_bench_ihdr", {W, H, 8, 2, 0, 0, 0}))
        assert(spng.spng_encode_image(ctx, pixels, W * H * 3, 256, 2) == 0)
        ffi.C.free(spng.spng_get_png_buffer(ctx, length, err))
        spng.spng_ctx_free(ctx)
    end), length[0])
end
gpu.codecs {libraries = false}
row("gpuwb, built in", median(encode("png")), size)
gpu.codecs {libraries = true}
if stb then
    row("stb_image_write", median(function() ffi.C.free(stb.stbi_write_png_to_mem(pixels, W * 3, W, H, 3, n)) end), n[0])
end

-- The same work one after the other and on threads, in turns, since other programs come and go meanwhile. Wall time and the CPU time of the process (user
-- and system): where threads take no more CPU time than one, what is missing in wall time is that of the machine, not of gpuwb.
local function turns(list)
    local wall, cpu = {}, {}
    for round = 0, 3 do
        for i, fn in ipairs(list) do
            local w, c = bench.now(), bench.now(2)
            fn()
            if round > 0 then       -- the first one is to warm up
                wall[i], cpu[i] = math.min(wall[i] or math.huge, bench.now() - w), math.min(cpu[i] or math.huge, bench.now(2) - c)
            end
        end
    end
    return wall, cpu
end

local function many(names, list, count)
    local wall, cpu = turns(list)
    for i, name in ipairs(names) do
        print(("%-44s %9.2f %9.2f %9.2f"):format(name, wall[i] / 1e3 / count, cpu[i] / 1e3 / count, wall[1] / wall[i]))
    end
end

local folder = os.tmpname()
os.remove(folder)
gpu.make_folder(folder)
for _, shape in ipairs {{1920, 1080, 200}, {4000, 3000, 40}} do
    local w, h, count = unpack(shape)
    local small, list = img:resize(w, h), {}
    small:save(folder .. "/0.jpg")
    for i = 1, count do list[i] = folder .. "/0.jpg" end
    print(("%-44s %9s %9s %9s"):format(("%d JPEG files of %dx%d, least of 3"):format(count, w, h), "wall ms", "CPU ms", "faster"))
    local function read(threads)
        return function()
            for picture_read in gpu.files(list, {threads = threads, device = "host"}) do picture_read.planes[1]:close() end
        end
    end
    many({"one after the other", "gpu.files, 1 thread", "gpu.files, 2 threads", "gpu.files, 4 threads"}, {function()
        for _, path in ipairs(list) do gpu.load(path, {device = "host"}).planes[1]:close() end
    end, read(1), read(2), read(4)}, count)
    local name = gpu.device()
    if name ~= "host" then
        local function to_device(how)
            return function()
                for picture_read in gpu.files(list, {device = name, decode = how}) do picture_read.planes[1]:close() end
                gpu.synchronize()
            end
        end
        local ok, why = pcall(gpu.files, {}, {device = name, decode = "nvjpeg"})
        many({"to " .. name .. ", decoded on the host, all threads", ok and "decoded by nvJPEG" or nil},
            {to_device "host", ok and to_device "nvjpeg" or nil}, count)
        if not ok then print(why) end
    end
    count = count / 2
    many({"written one after the other", "gpu.writer, 2 threads"}, {function()
        for i = 1, count do small:save(folder .. "/w" .. i .. ".jpg") end
    end, function()
        local out = gpu.writer {threads = 2}
        for i = 1, count do out:save(small, folder .. "/w" .. i .. ".jpg") end
        assert(#out:close() == 0)
    end}, count)
end
os.execute("rm -r '" .. folder .. "'")
