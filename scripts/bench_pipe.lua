-- SPDX-License-Identifier: MIT
-- Times pipelines on the device at hand: gpuwb scripts/bench_pipe.lua   (--device picks one)
--
-- A figure is the median of runs. On cuda each run is timed by events over many launches that were all enqueued before the first began; sources and
-- results rotate over more than 300 MB, so that the cache serves none of them. Bytes are counted as read and written once each. On the host it is the wall
-- clock, over smaller pictures. NPP stands beside it where its libraries can be opened.
local gpu = require "gpuwb"
local ffi = require "ffi"
local C = require("gpuwb.cdef").C
local bench = dofile((arg[0]:match("^.*/") or "") .. "bench_time.lua")
local now, each = bench.now, bench.each

local cuda = gpu.device() ~= "host"
local stream = gpu.stream()
local ROTATE, RUNS = cuda and 320e6 or 16e6, cuda and 11 or 3
local W, H = cuda and 3840 or 960, cuda and 2160 or 540
local PICTURES, CROPS = cuda and 16 or 4, cuda and 64 or 16

-- Microseconds of fn(i), i = 1 .. n, which enqueues on `stream`.
local function time(fn, n)
    for i = 1, cuda and 200 or 1 do     -- until it is compiled, here and there
        fn(i)
        if i % 20 == 0 then stream:synchronize() end
    end
    stream:synchronize()
    return bench.time(stream, fn, n, RUNS, 0.5)
end

local limit     -- bytes a microsecond that the copy reaches

local function row(label, us, bytes)
    local rate = bytes and bytes / us
    print(("%-74s %10.2f %9s %9s"):format(label, us, rate and ("%.3f"):format(rate * 1e-6) or "-",
        rate and limit and ("%.0f %%"):format(100 * rate / limit) or "-"))
end

local function absent(label, why)
    print(("%-74s absent: %s"):format(label, why))
end

print(("%s, gpuwb %s\n%-74s %10s %9s %9s"):format(gpu.device(), gpu.version, "", "us", "TB/s", "of copy"))

-- ---- the limit

do
    local bytes = cuda and 2 ^ 30 or 2 ^ 26
    local a, b = gpu.mat(bytes, 1, "u8"), gpu.mat(bytes, 1, "u8")
    local us = time(function() gpu.copy(b, a, {stream = stream}) end, cuda and 6 or 1)
    row(("copy of %d MiB"):format(bytes / 2 ^ 20), us, 2 * bytes)
    limit = 2 * bytes / us
    a:close()
    b:close()
end

-- ---- jobs

local pipe = gpu.pipe()
local mean, std = {0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}
local function normalised(p) return p:normalize {mean = mean, std = std, scale = 1 / 255} end

local function nv12()
    local i = gpu.image("nv12", W, H, {matrix = "bt709", range = "limited"})
    i.planes[1]:fill(100)
    i.planes[2]:fill {110, 140}
    return i
end

local function close(list)
    for _, v in ipairs(list) do
        for _, m in ipairs(type(v) == "table" and (v.planes or v) or {v}) do m:close() end
    end
end

-- A pipeline over one picture a call.
local function single(label, p, make)
    local sources = each(2, make)
    local plan = p:plan(sources[1])
    local bytes = plan.bytes_read + plan.bytes_written
    local sets = math.max(2, math.ceil(ROTATE / bytes))
    for i = 3, sets do sources[i] = make(i) end
    local results = each(sets, function(i) return p(sources[i]) end)
    local opts = each(sets, function(i) return {out = results[i], stream = stream} end)
    local us = time(function(i)
        local at = i % sets + 1
        p(sources[at], opts[at])
    end, cuda and 100 or 2)
    row(label, us, bytes)
    close(sources)
    close(results)
end

-- A batch a call, whose list make(i) gives; crops as p:batch takes them.
local function batch(label, p, make, bytes, crops)
    local sets = math.max(2, math.ceil(ROTATE / bytes))
    local lists = each(sets, make)
    local results = each(sets, function(i) return p:batch(lists[i], {crops = crops}) end)
    local opts = each(sets, function(i) return {out = results[i], stream = stream, crops = crops} end)
    local before = C.gwb_pipe_launches()
    p:batch(lists[1], opts[1])
    local launches = tonumber(C.gwb_pipe_launches() - before)
    local us = time(function(i)
        local at = i % sets + 1
        p:batch(lists[at], opts[at])
    end, cuda and 20 or 1)
    row(("%s, %d launch%s"):format(label, launches, launches == 1 and "" or "es"), us, bytes)
end

local size = W .. "x" .. H
single("nv12 -> rgb24 " .. size, pipe:convert "rgb24", nv12)
single("nv12 -> normalised planar f32 " .. size, normalised(pipe:convert "rgb24"):to("planar", "f32"), nv12)
single("nv12 " .. size .. " -> 640x640 bilinear, normalised planar f32",
    normalised(pipe:convert("rgb24"):resize(640, 640, {antialias = false})):to("planar", "f32"), nv12)
single("nv12 " .. size .. " -> 640x640 antialiased, normalised planar f32",
    normalised(pipe:convert("rgb24"):resize(640, 640)):to("planar", "f32"), nv12)

local function pictures() return each(PICTURES, nv12) end
batch(("%d x nv12 -> rgb24 %s"):format(PICTURES, size), pipe:convert "rgb24", pictures, PICTURES * W * H * 4.5)
batch(("%d x nv12 -> normalised nchw f32 %s"):format(PICTURES, size), normalised(pipe:convert "rgb24"):to("nchw", "f32"), pictures, PICTURES * W * H * 13.5)

do
    local crops, side = {}, 256
    for i = 1, CROPS do crops[i] = {i * 37 % (W - side), i * 61 % (H - side), side, side} end
    local bytes = CROPS * 3 * (side * side + 4 * 224 * 224)
    local function list()
        local m = gpu.mat(W, H, "u8x3", {fill = 7})
        return each(CROPS, function() return m end)
    end
    for _, aa in ipairs {false, true} do
        batch(("%d crops 256x256 of rgb24 -> 224x224%s, normalised nchw f32"):format(CROPS, aa and " antialiased" or ""),
            normalised(pipe:resize(224, 224, {antialias = aa})):to("nchw", "f32"), list, bytes, crops)
    end
end

-- ---- first use, and the CPU's part of a call

-- Prints and returns the microseconds of CPU that a call of fn takes: the median of runs, the clock's own time taken off.
local function cpu_row(label, fn)
    local figures, n = {}, 100
    for run = 1, 24 do
        local start = now(2)
        for _ = 1, n do fn() end
        figures[run] = (now(2) - start) / n
        stream:synchronize()
    end
    table.sort(figures)
    row(label, figures[12])
    return figures[12]
end

-- The driver's own launch, of a kernel that does nothing, called from here.
local function launch_alone()
    ffi.cdef [[
    int cuCtxGetCurrent(void **context);
    int cuCtxSetCurrent(void *context);
    int cuDevicePrimaryCtxRetain(void **context, int device);
    int cuModuleLoadData(void **module, const void *image);
    int cuModuleGetFunction(void **function, void *module, const char *name);
    int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, void *stream,
        void **params, void **extra);
    ]]
    local cu, at = ffi.load "libcuda.so.1", ffi.new "void *[4]"
    local function check(status) assert(status == 0, "the driver answers " .. status) end
    check(cu.cuCtxGetCurrent(at))
    check(cu.cuDevicePrimaryCtxRetain(at + 1, 0))
    check(cu.cuCtxSetCurrent(at[1]))
    check(cu.cuModuleLoadData(at + 2, ".version 6.0\n.target sm_50\n.address_size 64\n.visible .entry nothing() { ret; }\n"))
    check(cu.cuModuleGetFunction(at + 3, at[2], "nothing"))
    local fn, handle = at[3], stream.handle
    local us = cpu_row("CPU time of cuLaunchKernel alone", function() cu.cuLaunchKernel(fn, 1, 1, 1, 32, 1, 1, 0, handle, nil, nil) end)
    check(cu.cuCtxSetCurrent(at[0]))
    return us
end

do
    local alone = cuda and launch_alone() or 0
    local src, p = gpu.mat(64, 64, "u8x3", {fill = 1}), pipe:resize(32, 32, {antialias = false}):to("planar", "f32")
    local image = gpu.image_from("rgb24", {src})
    local opts = {out = p(src), stream = stream}
    row("  of a call of a pipeline, above that", cpu_row("CPU time of a call of a pipeline", function() p(image, opts) end) - alone)
    local list, crops = {}, {}
    for i = 1, 64 do list[i], crops[i] = src, {0, 0, 64, 64} end
    local batch_opts = {stream = stream, crops = crops}
    local many = pipe:resize(32, 32, {antialias = false}):to("nchw", "f32")
    batch_opts.out = many:batch(list, batch_opts)
    cpu_row("CPU time of a call of a batch of 64", function() many:batch(list, batch_opts) end)
    local function several(s)
        for _ = 1, 10 do p(image, {out = opts.out, stream = s}) end
    end
    cpu_row("CPU time of ten calls", function() several(stream) end)
    local graph = stream:capture(several)
    cpu_row("CPU time of a launch of the graph of them", function() graph:launch() end)
end

if cuda then
    local code = [[
        local gpu = require "gpuwb"
        local ffi, i = require "ffi", gpu.image("nv12", 640, 360, {matrix = "bt709", range = "limited"})
        gpu.pipe():flip("both")(i)
        gpu.synchronize()
        ffi.cdef "typedef struct { long s, n; } t; int clock_gettime(int, t *);"
        local function now() local t = ffi.new("t") ffi.C.clock_gettime(1, t) return tonumber(t.s) * 1e3 + tonumber(t.n) / 1e6 end
        local p, start = gpu.pipe():convert("rgb24"):resize(320, 180, {antialias = false}):mul(2):to("planar", "f32"), now()
        p(i)
        gpu.synchronize()
        io.write(now() - start)]]
    local folder = os.tmpname()
    os.remove(folder)
    local exe = "/proc/" .. io.open("/proc/self/stat"):read("*n") .. "/exe"
    for _, what in ipairs {"compiled", "from the disk cache"} do
        local out = io.popen(("XDG_CACHE_HOME=%s %s --device %s -e '%s'"):format(folder, exe, gpu.device(), code))
        local ms = tonumber(out:read("*a"))
        out:close()
        print(("%-74s %7.1f ms"):format("first use of a new chain, " .. what, ms or 0 / 0))
    end
    os.execute("rm -rf " .. folder)
end

-- ---- NPP: the same jobs, call by call. Each crop goes through five calls.

local function npp_jobs()
    local label = "NPP: nv12 -> rgb24 " .. size
    if not cuda then return absent(label, "the device is the host") end
    local npp = require "gpuwb.npp"
    local ok, why = pcall(npp.version)
    if not ok then return absent(label, why.message) end

    local sets = math.ceil(ROTATE / (W * H * 4.5))
    local from = each(sets, nv12)
    local to = each(sets, function() return gpu.image("rgb24", W, H) end)
    local into = each(sets, function(i) return {out = to[i], stream = stream} end)
    row(label, time(function(i) npp.convert(from[i % sets + 1], "rgb24", into[i % sets + 1]) end, 100), W * H * 4.5)

    local scale, offset = {}, {}
    for c = 1, 3 do scale[c], offset[c] = 1 / (255 * std[c]), -mean[c] / std[c] end
    -- From an interleaved u8 mat to planes of side x side, through mats that are there.
    local function chain(side)
        local small, real = gpu.mat(side, side, "u8x3"), gpu.mat(side, side, "f32x3")
        local planes = each(3, function() return gpu.mat(side, side, "f32") end)
        local a, b, c = {out = small, stream = stream}, {out = real, stream = stream}, {out = planes, stream = stream}
        return function(source)
            npp.resize(source, side, side, a)
            npp.float(small, b)
            npp.mul(real, scale, b)
            npp.add(real, offset, b)
            npp.split(real, c)
        end
    end
    local rest = chain(640)
    row("NPP: nv12 " .. size .. " -> 640x640 bilinear, normalised planar f32, 6 calls", time(function(i)
        local at = i % sets + 1
        npp.convert(from[at], "rgb24", into[at])
        rest(to[at].planes[1])
    end, 50))
    close(from)

    local views = each(CROPS, function(i) return to[i % sets + 1].planes[1]:roi(i * 37 % (W - 256), i * 61 % (H - 256), 256, 256) end)
    local crop = chain(224)
    local function all() for i = 1, CROPS do crop(views[i]) end end
    all()
    row(("NPP: %d crops 256x256 of rgb24 -> 224x224, normalised planar f32, 5 calls a crop"):format(CROPS), bench.time(stream, all, 3, RUNS, 100))
end
npp_jobs()
