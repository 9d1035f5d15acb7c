-- SPDX-License-Identifier: MIT
-- Who is right? Converts 4:2:0 frames to 8-bit RGB with gpuwb and with the CPU libraries that are installed, and holds each against double precision.
--   gpuwb scripts/peers.lua [--range limited|full] [--pictures DIR] [FRAME…]     .y4m, or .yuv and .npy named like NAME_480x270_nv12_bt709.yuv
-- Without frames: those in ../shared/data/frames, else the test card. Every frame is taken in all four matrices, with its chroma sited left.
--
-- A difference is counted in 8-bit steps from the value before rounding: perfect is largest 0.500, mean about 0.25, exact 100 %.
-- No library is charged for its rule of placing chroma: it is held against the nearest of "left" (bilinear, sited left), "center" (bilinear,
-- centred) and "replicated", and the table names which. ms: the shortest of 20 runs by the wall clock; with GPUWB_THREADS=1 all use one thread.
local gpu = require "gpuwb"
local ffi = require "ffi"

ffi.cdef [[
typedef struct peers_time { int64_t seconds, nanoseconds; } peers_time;
int peers_clock(int clock, peers_time *time) __asm__("clock_gettime");

typedef struct peers_zimg_format {
    unsigned version, width, height; int pixel_type; unsigned subsample_w, subsample_h; int family, matrix, transfer, primaries; unsigned depth;
    int range, parity, location; double left, top, active_width, active_height; int alpha;
} peers_zimg_format;
typedef struct peers_zimg_params {
    unsigned version; int filter; double a, b; int filter_uv; double a_uv, b_uv; int dither, cpu; double peak; char approximate;
} peers_zimg_params;
typedef struct peers_zimg_buffer { unsigned version; struct { void *data; ptrdiff_t step; unsigned mask; } plane[4]; } peers_zimg_buffer;
void zimg_image_format_default(peers_zimg_format *format, unsigned version);
void zimg_graph_builder_params_default(peers_zimg_params *params, unsigned version);
void *zimg_filter_graph_build(const peers_zimg_format *src, const peers_zimg_format *dst, const peers_zimg_params *params);
int zimg_filter_graph_get_tmp_size(const void *graph, size_t *bytes);
int zimg_filter_graph_process(const void *graph, const peers_zimg_buffer *src, const peers_zimg_buffer *dst, void *tmp, void *, void *, void *, void *);
void zimg_filter_graph_free(void *graph);

int av_get_pix_fmt(const char *name);
int av_opt_set_int(void *object, const char *name, int64_t value, int flags);
void av_log_set_level(int level);
void *sws_alloc_context(void);
int sws_init_context(void *context, void *, void *);
void sws_freeContext(void *context);
const int *sws_getCoefficients(int matrix);
int sws_setColorspaceDetails(void *context, const int *src, int src_full, const int *dst, int dst_full, int brightness, int contrast, int saturation);
int sws_scale(void *context, const uint8_t *const *src, const int *src_step, int y, int rows, uint8_t *const *dst, const int *dst_step);

extern const uint8_t kYuvI601Constants[1], kYuvJPEGConstants[1], kYuvH709Constants[1], kYuvF709Constants[1], kYuv2020Constants[1], kYuvV2020Constants[1];
int I420ToRGB24Matrix(const void *, int, const void *, int, const void *, int, uint8_t *dst, int step, const void *matrix, int width, int height);
int NV12ToRGB24Matrix(const void *, int, const void *, int, uint8_t *dst, int step, const void *matrix, int width, int height);
int P010ToARGBMatrix(const void *, int, const void *, int, uint8_t *dst, int step, const void *matrix, int width, int height);

void *cvCreateMatHeader(int rows, int columns, int type);
void cvSetData(void *mat, void *data, int step);
void cvReleaseMat(void **mat);
void cvSetNumThreads(int threads);
void cvCvtColor(const void *src, void *dst, int code);
]]

local matrices = {      -- the two weights, and each library's own number or name
    {name = "bt601", kr = .299, kb = .114, zimg = 6, sws = 5, yuv = {limited = "kYuvI601Constants", full = "kYuvJPEGConstants"}},
    {name = "bt709", kr = .2126, kb = .0722, zimg = 1, sws = 1, yuv = {limited = "kYuvH709Constants", full = "kYuvF709Constants"}},
    {name = "bt2020nc", kr = .2627, kb = .0593, zimg = 9, sws = 9, yuv = {limited = "kYuv2020Constants", full = "kYuvV2020Constants"}},
    {name = "smpte240m", kr = .212, kb = .087, zimg = 7, sws = 7, yuv = {}},
}
local rules = {"left", "center", "replicated"}

local function open(name)
    local ok, library = pcall(ffi.load, name)
    return ok and library or nil
end

local function now()    -- milliseconds
    local time = ffi.new("peers_time")
    ffi.C.peers_clock(1, time)
    return tonumber(time.seconds) * 1e3 + tonumber(time.nanoseconds) / 1e6
end

local function shortest(run)
    local least = math.huge
    for _ = 1, 20 do
        local start = now()
        run()
        least = math.min(least, now() - start)
    end
    return least
end

-- Rows of at least `bytes`, at addresses and steps of 64 bytes with room behind, as vector code likes them: {data=, step=, memory=}.
local function rows(bytes, count)
    local step = math.ceil(bytes / 64) * 64
    local memory = ffi.new("uint8_t[?]", step * count + 256)
    local address = tonumber(ffi.cast("uintptr_t", memory))
    return {data = memory + (-address) % 64, step = step, memory = memory}
end

-- Where a converter puts its picture: red, green and blue of pixel x, y are data[y * step + x * pixel + at[1 .. 3]].
local function picture(frame, pixel, at)
    local p = rows(frame.width * pixel, frame.height)
    p.pixel, p.at = pixel, at
    return p
end

------------------------------------------------------------------------------------------------------------------------------- frames

local formats = {yuv420p = {depth = 8, high = 0}, nv12 = {depth = 8, high = 0, pairs = true}, p010le = {depth = 10, high = 6, pairs = true}}

-- What the converters read of an image: its planes as they are; Y, U, V each in a plane of its own with the value in the low bits; all packed.
local function frame_of(img, name)
    local f = formats[img.format] or error(("%s is %s; this report reads yuv420p, nv12 and p010le"):format(name, img.format), 0)
    local frame = {img = img, name = name, format = img.format, width = img.width, height = img.height, depth = f.depth, planes = {}, yuv = {}}
    local element, bytes = f.depth > 8 and "uint16_t *" or "uint8_t *", f.depth > 8 and 2 or 1
    local cw, ch = math.ceil(img.width / 2), math.ceil(img.height / 2)
    local tight = {}
    for i, mat in ipairs(img.planes) do
        tight[i] = mat:download()
        local line = mat.width * mat.elem_size
        local plane = rows(line, mat.height)
        for y = 0, mat.height - 1 do
            ffi.copy(plane.data + y * plane.step, ffi.cast("const uint8_t *", tight[i]) + y * line, line)
        end
        frame.planes[i] = plane
    end
    for i = 1, 3 do
        local w, h = i == 1 and img.width or cw, i == 1 and img.height or ch
        local src = frame.planes[math.min(i, #frame.planes)]
        local stride, at = f.pairs and i > 1 and 2 or 1, f.pairs and i == 3 and 1 or 0
        local plane = rows(2 * cw * bytes, 2 * ch)
        for y = 0, h - 1 do
            local from, to = ffi.cast(element, src.data + y * src.step), ffi.cast(element, plane.data + y * plane.step)
            for x = 0, w - 1 do
                to[x] = from[x * stride + at] / 2 ^ f.high
            end
        end
        plane.width, plane.height, plane.element = w, h, element
        frame.yuv[i] = plane
    end
    frame.packed = table.concat(tight)
    return frame
end

local function load_frame(path)
    local name = path:match("[^/]+$")
    local w, h, format = name:match("(%d+)x(%d+)_(%w+)_%w+%.%w+$")
    w, h = tonumber(w), tonumber(h)
    if name:find("%.y4m$") then
        return frame_of(gpu.load(path), name)
    elseif not format then
        error(("%s: its name must give size, format and matrix, as in cat_480x270_nv12_bt709.yuv"):format(path), 0)
    elseif name:find("%.npy$") then
        return frame_of(gpu.load(path):planes(format, w, h), name)
    end
    return frame_of(gpu.load_raw(path, format, w, h), name)
end

---------------------------------------------------------------------------------------------------------------------------- reference

-- A plane in doubles at the full size. Sample i of the small plane lies at 2 i (left) or 2 i + 1/2 (center) of the large one, down always at 2 i + 1/2.
local function enlarge(plane, w, h, rule)
    local out = ffi.new("double[?]", w * h)
    local shift = rule == "left" and 0 or .5
    for y = 0, h - 1 do
        local v = math.min(math.max((y - .5) / 2, 0), plane.height - 1)
        v = rule == "replicated" and math.floor(y / 2) or v
        local v0 = math.floor(v)
        local above = ffi.cast(plane.element, plane.data + v0 * plane.step)
        local below = ffi.cast(plane.element, plane.data + math.min(v0 + 1, plane.height - 1) * plane.step)
        for x = 0, w - 1 do
            local u = math.min(math.max((x - shift) / 2, 0), plane.width - 1)
            u = rule == "replicated" and math.floor(x / 2) or u
            local u0 = math.floor(u)
            local u1 = math.min(u0 + 1, plane.width - 1)
            local a = above[u0] + (above[u1] - above[u0]) * (u - u0)
            local b = below[u0] + (below[u1] - below[u0]) * (u - u0)
            out[y * w + x] = a + (b - a) * (v - v0)
        end
    end
    return out
end

-- Red, green, blue in 8-bit steps, not rounded.
local function reference(frame, rule, matrix, range)
    local n, scale = frame.width * frame.height, 2 ^ (frame.depth - 8)
    local black, white, swing = 16 * scale, 219 * scale, 224 * scale
    if range == "full" then
        black, white, swing = 0, 256 * scale - 1, 256 * scale - 1
    end
    local kr, kb = matrix.kr, matrix.kb
    local rgb, luma, yuv = ffi.new("double[?]", 3 * n), frame.yuv[1], frame[rule]
    for y = 0, frame.height - 1 do
        local line = ffi.cast(luma.element, luma.data + y * luma.step)
        for x = 0, frame.width - 1 do
            local i = y * frame.width + x
            local l, u, v = (line[x] - black) / white, (yuv[1][i] - 128 * scale) / swing, (yuv[2][i] - 128 * scale) / swing
            local r, b = l + 2 * (1 - kr) * v, l + 2 * (1 - kb) * u
            local g = (l - kr * r - kb * b) / (1 - kr - kb)
            rgb[3 * i] = math.min(math.max(255 * r, 0), 255)
            rgb[3 * i + 1] = math.min(math.max(255 * g, 0), 255)
            rgb[3 * i + 2] = math.min(math.max(255 * b, 0), 255)
        end
    end
    return rgb
end

local function compare(frame, p, rgb)
    local largest, sum, exact = 0, 0, 0
    for c = 0, 2 do
        for y = 0, frame.height - 1 do
            local line = p.data + y * p.step + p.at[c + 1]
            for x = 0, frame.width - 1 do
                local d = math.abs(line[x * p.pixel] - rgb[3 * (y * frame.width + x) + c])
                largest, sum = math.max(largest, d), sum + d
                exact = exact + (d <= .5 + 1e-9 and 1 or 0)      -- at a tie either neighbour is right
            end
        end
    end
    return {largest = largest, sum = sum, exact = exact, n = 3 * frame.width * frame.height}
end

---------------------------------------------------------------------------------------------------------------------------- libraries
-- Each: name, package (that is missing) or make(frame, matrix, range) -> run, picture[, finish]; or nil and why not.

local peers = {}

local function add_gpuwb(device, chroma)
    peers[#peers + 1] = {name = ("gpuwb %s, %s"):format(device, chroma), make = function(frame, matrix, range)
        return gpu.on(device, function()
            local tags = {matrix = matrix.name, range = range, siting = "left"}
            local src, dst = gpu.image(frame.format, frame.width, frame.height, tags), gpu.image("rgb24", frame.width, frame.height)
            gpu.copy(src, gpu.image_from(frame.format, frame.img.planes, tags))
            local p = picture(frame, 3, {0, 1, 2})
            return function()
                src:convert("rgb24", {chroma = chroma, out = dst})
                gpu.on(device, gpu.synchronize)
            end, p, function()
                dst.planes[1]:download(p.data, {step = p.step})
                return dst
            end
        end)
    end}
end

local function add_zimg(zimg)
    peers[#peers + 1] = {name = "zimg", package = not zimg and "libzimg2", make = function(frame, matrix, range)
        local src, dst = ffi.new("peers_zimg_format"), ffi.new("peers_zimg_format")
        local params, from, to = ffi.new("peers_zimg_params"), ffi.new("peers_zimg_buffer"), ffi.new("peers_zimg_buffer")
        local version = 0x203
        zimg.zimg_image_format_default(src, version)
        zimg.zimg_image_format_default(dst, version)
        zimg.zimg_graph_builder_params_default(params, version)
        -- It takes even sizes only: an odd frame goes in with a column and a row more, which no other pixel depends on.
        local w, h = math.ceil(frame.width / 2) * 2, math.ceil(frame.height / 2) * 2
        src.width, src.height, dst.width, dst.height = w, h, w, h
        src.pixel_type, src.depth, src.family, src.matrix = frame.depth > 8 and 1 or 0, frame.depth, 2, matrix.zimg
        src.subsample_w, src.subsample_h, src.range, src.location = 1, 1, range == "full" and 1 or 0, 0
        dst.pixel_type, dst.depth, dst.family, dst.matrix, dst.range = 0, 8, 1, 0, 1
        params.filter_uv = 1
        local graph = zimg.zimg_filter_graph_build(src, dst, params)
        if graph == nil then
            return nil, "refused"
        end
        graph = ffi.gc(graph, zimg.zimg_filter_graph_free)
        local p = rows(w, 3 * h)
        p.pixel, p.at = 1, {0, h * p.step, 2 * h * p.step}
        from.version, to.version = version, version
        for i = 0, 2 do
            local plane = frame.yuv[i + 1]
            from.plane[i].data, from.plane[i].step, from.plane[i].mask = plane.data, plane.step, 0xffffffff
            to.plane[i].data, to.plane[i].step, to.plane[i].mask = p.data + p.at[i + 1], p.step, 0xffffffff
        end
        local bytes = ffi.new("size_t[1]")
        zimg.zimg_filter_graph_get_tmp_size(graph, bytes)
        local tmp = rows(tonumber(bytes[0]), 1)
        return function()
            assert(zimg.zimg_filter_graph_process(graph, from, to, tmp.data, nil, nil, nil, nil) == 0)
        end, p
    end}
end

local function add_swscale(name, options, sws, util)
    peers[#peers + 1] = {name = name, package = not sws and "libswscale6", make = function(frame, matrix, range)
        local context = ffi.gc(sws.sws_alloc_context(), sws.sws_freeContext)
        local shape = {
            srcw = frame.width, srch = frame.height, src_format = util.av_get_pix_fmt(frame.format),
            dstw = frame.width, dsth = frame.height, dst_format = util.av_get_pix_fmt("rgb24"),
        }
        for _, set in ipairs {shape, options} do
            for key, value in pairs(set) do
                assert(util.av_opt_set_int(context, key, value, 0) >= 0)
            end
        end
        local coefficients = sws.sws_getCoefficients(matrix.sws)
        if sws.sws_init_context(context, nil, nil) < 0
            or sws.sws_setColorspaceDetails(context, coefficients, range == "full" and 1 or 0, coefficients, 1, 0, 65536, 65536) < 0 then
            return nil, "refused"
        end
        local p = picture(frame, 3, {0, 1, 2})
        local from, from_step, to, to_step = ffi.new("const uint8_t *[4]"), ffi.new("int[4]"), ffi.new("uint8_t *[4]"), ffi.new("int[4]")
        for i, plane in ipairs(frame.planes) do
            from[i - 1], from_step[i - 1] = plane.data, plane.step
        end
        to[0], to_step[0] = p.data, p.step
        return function()
            assert(sws.sws_scale(context, from, from_step, 0, frame.height, to, to_step) == frame.height)
        end, p
    end}
end

local function add_libyuv(yuv)
    peers[#peers + 1] = {name = "libyuv", package = not yuv and "libyuv0", make = function(frame, matrix, range)
        local constants = matrix.yuv[range]
        if not constants then
            return nil, "has no such matrix"
        end
        local deep = frame.depth > 8
        local p = picture(frame, deep and 4 or 3, {2, 1, 0})
        local call = yuv[({yuv420p = "I420ToRGB24Matrix", nv12 = "NV12ToRGB24Matrix", p010le = "P010ToARGBMatrix"})[frame.format]]
        local args = {}
        for _, plane in ipairs(frame.planes) do
            args[#args + 1] = plane.data
            args[#args + 1] = plane.step / (deep and 2 or 1)
        end
        for _, value in ipairs {p.data, p.step, ffi.cast("const void *", yuv[constants]), frame.width, frame.height} do
            args[#args + 1] = value
        end
        return function()
            assert(call(unpack(args)) == 0)
        end, p
    end}
end

local function add_opencv(core, proc)
    if core then
        core.cvSetNumThreads(1)
    end
    local codes = {yuv420p = 100, nv12 = 90}
    local function mat(h, w, type, data, step)
        local m = ffi.gc(core.cvCreateMatHeader(h, w, type), function(m) core.cvReleaseMat(ffi.new("void *[1]", m)) end)
        core.cvSetData(m, data, step)
        return m
    end
    peers[#peers + 1] = {name = "OpenCV", package = not proc and "libopencv-imgproc406", make = function(frame, matrix, range)
        if matrix.name ~= "bt601" or range ~= "limited" then
            return nil, "has bt601 limited only"
        elseif not codes[frame.format] or frame.width % 2 + frame.height % 2 > 0 then
            return nil, "has 8 bits and even sizes only"
        end
        local p = picture(frame, 3, {0, 1, 2})
        local data = ffi.cast("uint8_t *", frame.packed)
        local src = mat(frame.height * 3 / 2, frame.width, 0, data, frame.width)
        local dst = mat(frame.height, frame.width, 16, p.data, p.step)
        return function() proc.cvCvtColor(src, dst, codes[frame.format]) end, p
    end}
end

------------------------------------------------------------------------------------------------------------------------------- report

-- Prints one frame in one matrix; adds to `total`, by library and matrix.
local function report(frame, matrix, range, total, folder)
    local references = {}
    for i, rule in ipairs(rules) do
        references[i] = reference(frame, rule, matrix, range)
    end
    print(("\n%s, %s %s\n  %-28s %-11s %8s %8s %11s %8s"):format(frame.name, matrix.name, range, "", "chroma", "largest", "mean", "exact", "ms"))
    for _, peer in ipairs(peers) do
        local run, p, finish
        if not peer.package then
            run, p, finish = peer.make(frame, matrix, range)
        end
        if not run then
            print(("  %-28s %s"):format(peer.name, peer.package and "not installed: " .. peer.package or p))
        else
            local ms, best, rule = shortest(run)
            local result = finish and finish()
            for i, name in ipairs(rules) do
                local s = compare(frame, p, references[i])
                if not best or s.sum < best.sum then
                    best, rule = s, name
                end
            end
            print(("  %-28s %-11s %8.3f %8.4f %9.3f %% %8.3f"):format(peer.name, rule, best.largest, best.sum / best.n, 100 * best.exact / best.n, ms))
            local key = peer.name .. matrix.name
            local t = total[key] or {largest = 0, sum = 0, exact = 0, n = 0}
            total[key] = {largest = math.max(t.largest, best.largest), sum = t.sum + best.sum, exact = t.exact + best.exact, n = t.n + best.n}
            peer.ms, peer.pixels = (peer.ms or 0) + ms, (peer.pixels or 0) + frame.width * frame.height
            if folder and result and rule == "left" then
                result:save(("%s/%s-%s.png"):format(folder, frame.name:match("^[^.]+"), matrix.name))
            end
        end
    end
end

local function summary(total)
    print("\nAll frames: largest difference, mean difference, share of exactly rounded samples\n")
    print("| | bt601 | bt709 | bt2020nc | smpte240m | ms a megapixel |\n|---|---|---|---|---|---|")
    for _, peer in ipairs(peers) do
        local cells = {peer.name}
        for _, matrix in ipairs(matrices) do
            local t = total[peer.name .. matrix.name]
            cells[#cells + 1] = t and ("%.2f, %.3f, %.2f %%"):format(t.largest, t.sum / t.n, 100 * t.exact / t.n) or "-"
        end
        cells[#cells + 1] = peer.ms and ("%.2f"):format(peer.ms / peer.pixels * 1e6) or "-"
        print("| " .. table.concat(cells, " | ") .. " |")
    end
end

-- The frames that the arguments name, else those of the folder, else the test card.
local function frames_of(paths)
    local folder, frames = "../shared/data/frames/", {}
    if #paths == 0 then
        for _, name in ipairs {"astronaut_352x288_bt601.y4m", "chelsea_480x270_nv12_bt709.yuv", "chelsea_321x241_yuv420p_bt709.yuv",
            "chelsea_480x270_p010le_bt2020.yuv", "coffee_600x400_yuv420p_bt601.npy"} do
            local file = io.open(folder .. name, "rb")
            if file then
                file:close()
                paths[#paths + 1] = folder .. name
            end
        end
    end
    for i, path in ipairs(paths) do
        frames[i] = load_frame(path)
    end
    if #frames == 0 then
        local card = dofile((arg[0]:match("^.*/") or "") .. "testcard.lua")
        frames[1] = frame_of(card.frame(600, 400):planes("yuv420p", 600, 400), "test card")
    end
    return frames
end

local function main(args)
    local options, paths, i = {["--range"] = "limited", ["--pictures"] = false}, {}, 1
    while args[i] do
        if options[args[i]] ~= nil and args[i + 1] then
            options[args[i]] = args[i + 1]
            i = i + 1
        else
            paths[#paths + 1] = args[i]
        end
        i = i + 1
    end
    local range, folder = options["--range"], options["--pictures"]
    if range ~= "limited" and range ~= "full" or (paths[1] or ""):find("^%-") then
        io.stderr:write("usage: gpuwb scripts/peers.lua [--range limited|full] [--pictures DIR] [FRAME…]\n")
        os.exit(2)
    end
    local device = gpu.device()
    local frames = gpu.on("host", frames_of, paths)
    for _, name in ipairs(device == "host" and {"host"} or {"host", device}) do
        add_gpuwb(name, "bilinear")
        add_gpuwb(name, "nearest")
    end
    local util = open("libavutil.so.57")
    local sws = util and open("libswscale.so.6")        -- each package brings the library it stands on
    if util then
        util.av_log_set_level(16)       -- errors only: it remarks on its own slow paths
    end
    add_zimg(open("libzimg.so.2"))
    add_swscale("swscale, default", {}, sws, util)
    -- accurate_rnd and full_chroma_int, with bilinear and point; chroma is sited left, halfway down.
    add_swscale("swscale, accurate, bilinear", {sws_flags = 0x42002, src_h_chr_pos = 0, src_v_chr_pos = 128}, sws, util)
    add_swscale("swscale, accurate, point", {sws_flags = 0x42010}, sws, util)
    add_libyuv(open("libyuv.so.0"))
    local core = open("libopencv_core.so.406")
    add_opencv(core, core and open("libopencv_imgproc.so.406"))

    local total = {}
    for _, frame in ipairs(frames) do
        for _, rule in ipairs(rules) do
            frame[rule] = {enlarge(frame.yuv[2], frame.width, frame.height, rule), enlarge(frame.yuv[3], frame.width, frame.height, rule)}
        end
        for _, matrix in ipairs(matrices) do
            report(frame, matrix, range, total, folder)
        end
    end
    summary(total)
end

main(arg)
