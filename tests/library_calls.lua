-- SPDX-License-Identifier: MIT
-- Run by libraries_spec.lua beside the stand-ins of tests/c: what the modules for GPU libraries pass on, and in what order it runs. Prints "done".
local gpu = require "gpuwb"
local ffi = require "ffi"
local npp, cublas, cufft, curand = require "gpuwb.npp", require "gpuwb.cublas", require "gpuwb.cufft", require "gpuwb.curand"
local nvjpeg, nvml = require "gpuwb.nvjpeg", require "gpuwb.nvml"
local helper = require "tests.helper"
local make = require "tests.pictures"
local raises = helper.raises

local device = arg[1]
gpu.device(device)
ffi.cdef "int fake_objects(void);"

local function mat(w, h, kind, opts)
    local m = gpu.mat(w, h, kind, opts)
    m:upload(helper.bytes(m.bytes))
    return m
end

-- Each byte of a and b through fn, as the result should be.
local function expect(out, a, b, fn)
    a, b, out = a:download(), b and b:download(), out:download()
    for i = 1, #out do
        assert(out:byte(i) == fn(a:byte(i), b and b:byte(i)), i)
    end
end

-- ---- NPP

assert(npp.version() == "13.7.5")
local s = gpu.stream()
local frame = gpu.image("nv12", 16, 6, {matrix = "bt709", range = "limited"})
s:sleep(30)
frame.planes[1]:fill(120, {stream = s})         -- what NPP must wait for, on another stream
frame.planes[2]:fill({100, 150}, {stream = s})
local rgb = npp.convert(frame, "rgb24")
assert(rgb.format == "rgb24" and rgb.range == "full" and rgb.matrix == nil)
frame.planes[1]:fill(7, {stream = s})           -- and what must wait for NPP
for y = 0, 5 do
    for x = 0, 15 do
        local r, g, b = rgb.planes[1]:at(x, y)
        assert(r == 120 and g == 100 and b == 150)
    end
end
assert(npp.convert(frame, "rgb24", {out = rgb, stream = s}) == rgb and rgb.planes[1]:at(3, 3) == 7)
local odd = gpu.image("nv12", 15, 6, {matrix = "bt709", range = "limited"})
raises("UNSUPPORTED", "even", npp.convert, odd, "rgb24")
raises("BAD_ARGUMENT", {"matrix", "bt709"}, npp.convert, gpu.image("nv12", 16, 6), "rgb24")
raises("UNSUPPORTED", "gbrp", npp.convert, frame, "gbrp")
raises("SHAPE", "out", npp.convert, frame, "rgb24", {out = gpu.image("rgb24", 4, 4)})
frame.matrix, frame.range = "fcc", "full"
raises("UNSUPPORTED", {"no function", "fcc full"}, npp.convert, frame, "rgb24")     -- the stand-in has no twist

local a, b = mat(33, 9, "u8x3"), mat(35, 11, "u8x3"):roi(1, 2, 33, 9)
local small = npp.resize(a, 11, 3)
assert(small.width == 11 and small.height == 3 and small.type == "u8x3")
for y = 0, 2 do
    for x = 0, 10 do
        assert(select(2, small:at(x, y)) == select(2, a:at(3 * x, 3 * y)))
    end
end
expect(npp.gauss(a, 5), a, nil, function(v) return v end)
expect(npp.box(a, 5, 3), a, nil, function(v) return v end)
expect(npp.add(a, b, {shift = 1}), a, b, function(x, y) return math.floor((x + y + 1) / 2) end)
expect(npp.sub(a, b), a, b, function(x, y) return math.max(x - y, 0) end)
local before = a:clone()
npp.add(a, b, {shift = 1, out = a})
expect(a, before, b, function(x, y) return math.floor((x + y + 1) / 2) end)
local real = npp.float(a)
assert(real.type == "f32x3" and select(3, real:at(32, 8)) == select(3, a:at(32, 8)))
local scaled = npp.mul(real, {1, 2, 0.5})
assert(select(2, scaled:at(5, 5)) == 2 * select(2, a:at(5, 5)) and select(3, scaled:at(5, 5)) == select(3, a:at(5, 5)) / 2)
local parts = npp.split(scaled)
assert(#parts == 3 and parts[2].type == "f32" and parts[2]:at(7, 7) == select(2, scaled:at(7, 7)))
raises("DEVICE", {"NPP_SIZE_ERROR", "-6"}, npp.gauss, gpu.mat(2100, 2, "u8x3"), 5)
raises("DEVICE", "NPP_BAD_ARGUMENT_ERROR", npp.box, a, 3, 3)
raises("UNSUPPORTED", "nppiAdd_16u_C1RSfs_Ctx", npp.add, gpu.mat(4, 4, "u16"), gpu.mat(4, 4, "u16"))
raises("UNSUPPORTED", "u8x2", npp.gauss, gpu.mat(4, 4, "u8x2"), 5)
raises("BAD_ARGUMENT", "size", npp.gauss, a, 4)
raises("BAD_ARGUMENT", "shares", npp.gauss, a, 5, {out = a})

-- ---- cuBLAS

local function matrix(w, h, seed, step)
    local m = step and gpu.mat(step, h, "f32", {packed = true}):roi(1, 0, w, h) or gpu.mat(w, h, "f32")
    local rows, random = {}, helper.random(seed)
    for y = 1, h do
        rows[y] = {}
        for x = 1, w do
            rows[y][x] = random(20) - 10
        end
    end
    return m:upload(rows), rows
end

local function transposed(rows)
    local t = {}
    for x = 1, #rows[1] do
        t[x] = {}
        for y = 1, #rows do
            t[x][y] = rows[y][x]
        end
    end
    return t
end

local function product(x, y)
    local out = {}
    for i = 1, #x do
        out[i] = {}
        for j = 1, #y[1] do
            out[i][j] = 0
            for k = 1, #y do
                out[i][j] = out[i][j] + x[i][k] * y[k][j]
            end
        end
    end
    return out
end

local function equal(m, rows)
    local have = m:totable()
    for i = 1, #rows do
        for j = 1, #rows[1] do
            assert(have[i][j] == rows[i][j], ("%d, %d: %s, wanted %s"):format(i, j, tostring(have[i][j]), tostring(rows[i][j])))
        end
    end
end

assert(cublas.version() == 130700)
local p, p_rows = matrix(5, 3, 11, 9)
local q, q_rows = matrix(4, 5, 12)
equal(cublas.gemm(p, q), product(p_rows, q_rows))
equal(cublas.gemm(q, p, {transpose_a = true, transpose_b = true}), product(transposed(q_rows), transposed(p_rows)))
equal(cublas.gemm(p, p, {transpose_b = true}), product(p_rows, transposed(p_rows)))
local sum = cublas.gemm(p, q)
cublas.gemm(p, q, {out = sum, alpha = 2, beta = -1, stream = s})
equal(sum, product(p_rows, q_rows))
for i = 1, 20 do                                -- on two streams, one handle
    cublas.gemm(p, q, {out = sum, stream = i % 2 == 0 and s or nil})
end
equal(sum, product(p_rows, q_rows))
raises("SHAPE", {"5 columns", "3 rows"}, cublas.gemm, p, p)
raises("BAD_ARGUMENT", "beta", cublas.gemm, p, q, {beta = 1})
raises("BAD_ARGUMENT", "shares", cublas.gemm, q, q:roi(0, 0, 4, 4), {out = q})
raises("DEVICE", "CUBLAS_STATUS_NOT_SUPPORTED", cublas.gemm, gpu.mat(2, 2, "f64"), gpu.mat(2, 2, "f64"))

-- ---- cuFFT

assert(cufft.version() == 12700)
local function near(x, y)
    assert(x.width == y.width and x.height == y.height and x.type == y.type, tostring(x))
    x, y = x:clone {packed = true}, y:clone {packed = true}
    local n = x.width * x.height * x.channels
    local i, j = ffi.new("float[?]", n), ffi.new("float[?]", n)
    x:download(i)
    y:download(j)
    for k = 0, n - 1 do
        assert(math.abs(i[k] - j[k]) < 1e-3, ("%d: %g, wanted %g"):format(k, i[k], j[k]))
    end
end

for _, size in ipairs {{8, 6}, {7, 5}, {1, 4}, {9, 1}} do
    local m = matrix(size[1], size[2], 5, size[1] + 4)
    if tonumber(ffi.cast("uintptr_t", m.data)) % 8 ~= 0 then
        raises("SHAPE", "clone", cufft.forward, m)
        m = m:clone()
    end
    for _, rows in ipairs {false, true} do
        local half = cufft.forward(m, {rows = rows})
        assert(half.width == math.floor(size[1] / 2) + 1 and half.type == "f32x2")
        local kept = half:clone()
        near(m, cufft.inverse(half, {rows = rows, width = size[1]}))
        near(kept, half)                        -- what was transformed stays
        local complex = gpu.merge {m, gpu.mat(size[1], size[2], "f32", {fill = 0})}
        local whole = cufft.forward(complex, {rows = rows})
        near(half, whole:roi(0, 0, half.width, half.height))
        near(complex, cufft.inverse(whole, {rows = rows, out = whole, stream = s}))
    end
    local total = 0
    for _, row in ipairs(m:totable()) do
        for _, v in ipairs(row) do
            total = total + v
        end
    end
    assert(math.abs(total - cufft.forward(m):at(0, 0)) < 1e-3)
    near(m:cast("f32", {scale = size[1] * size[2]}), cufft.inverse(cufft.forward(m), {width = size[1], scale = false}))
end
for width = 2, 80 do                            -- more plans than are kept
    cufft.forward(gpu.mat(width, 1, "f32", {fill = 1}))
end
raises("SHAPE", {"width 9", "5"}, cufft.inverse, gpu.mat(4, 4, "f32x2"), {width = 9})
raises("UNSUPPORTED", "f32", cufft.inverse, gpu.mat(4, 4, "f32"))
raises("UNSUPPORTED", "u8", cufft.forward, gpu.mat(4, 4, "u8"))

-- ---- cuRAND

local g = curand.generator {seed = 10}
local m = gpu.mat(3, 3, "u32")
assert(g:bits(m) == m)
equal(m, {{10, 11, 12}, {13, 14, 15}, {16, 17, 18}})
equal(g:bits(gpu.mat(2, 1, "u32", {packed = true})), {{20, 21}})                     -- pairs are used up whole
equal(g:uniform(gpu.mat(2, 2, "f32"), {stream = s}), {{11, 11.5}, {12, 12.5}})
equal(g:normal(gpu.mat(1, 1, "f32"), 0.5, 2), {{52.5}})
raises("UNSUPPORTED", "u32", g.bits, g, gpu.mat(2, 2, "f32"))
raises("UNSUPPORTED", "f32", g.uniform, g, gpu.mat(2, 2, "u8"))
raises("DEVICE", "CURAND_STATUS_TYPE_ERROR", curand.generator, {kind = "philox"})
raises("UNSUPPORTED", "curandGenerateUniformDouble", g.uniform, g, gpu.mat(2, 2, "f64"))     -- which the stand-in lacks
local recorded = gpu.stream()
local scoped = curand.generator()
gpu.scope(function() scoped:uniform(gpu.mat(4, 4, "f32")) end)
scoped:uniform(gpu.mat(4, 4, "f32"))
raises("BAD_ARGUMENT", "nothing was recorded", recorded.capture, recorded, function(stream)
    raises("UNSUPPORTED", "recording", scoped.uniform, scoped, gpu.mat(4, 4, "f32"), {stream = stream})
end)
g:close()
g:close()
raises("CLOSED", "closed", g.bits, g, m)
raises("BAD_ARGUMENT", "method", g.bits, {}, m)

-- ---- nvJPEG

local function jpeg(components, subsampling, w, h, value)
    return "JPEG" .. string.char(components, subsampling, w, h, value)
end

local img = nvjpeg.decode(jpeg(3, 2, 20, 10, 40), {stream = s})
assert(img.format == "rgb24" and img.width == 20 and img.height == 10 and select(3, img.planes[1]:at(19, 9)) == 42)
local gray = nvjpeg.decode(jpeg(1, 6, 5, 4, 99), {format = "yuv"})
assert(gray.format == "gray" and gray.range == "full" and gray.planes[1]:at(4, 3) == 99)
local list = nvjpeg.decode_batch {jpeg(3, 2, 7, 5, 1), jpeg(3, 0, 200, 100, 2)}
assert(#list == 2 and list[1].width == 7 and list[1].planes[1]:at(6, 4) == 1 and list[2].planes[1]:at(199, 99) == 2)
assert(#nvjpeg.decode_batch {} == 0)
local picture = gpu.image_from("rgb24", {gpu.mat(64, 48, "u8x3", {fill = {200, 120, 40}})})
assert(nvjpeg.encode(picture, {quality = 77, subsampling = "420"}) == "JPEG" .. string.char(3, 2, 64, 48, 200, 77))
raises("BAD_FILE", {"file 2", "NVJPEG_STATUS_BAD_JPEG"}, nvjpeg.decode_batch, {jpeg(3, 2, 7, 5, 1), "no JPEG at all"})
raises("BAD_FILE", "no bytes", nvjpeg.decode, "")
raises("BAD_ARGUMENT", "string", nvjpeg.decode, 3)
raises("UNSUPPORTED", "4 components", nvjpeg.decode, jpeg(4, 0, 7, 5, 1))
raises("UNSUPPORTED", "subsampled", nvjpeg.decode, jpeg(3, 7, 7, 5, 1), {format = "yuv"})
raises("UNSUPPORTED", "one by one", nvjpeg.decode_batch, {jpeg(3, 2, 7, 5, 1)}, {format = "yuv"})
raises("UNSUPPORTED", {"bt709", "limited"}, nvjpeg.encode, gpu.image("yuv420p", 4, 4, {matrix = "bt709", range = "limited"}))
raises("DEVICE", "NVJPEG_STATUS_INVALID_PARAMETER", nvjpeg.encode, picture, {subsampling = "444"})
local limits = gpu.limits {pixels = 100}
raises("LIMIT", "200x100", nvjpeg.decode, jpeg(3, 2, 200, 100, 1))
gpu.limits(limits)

-- ---- nvJPEG on the threads of gpu.files

local folder = helper.folder()
local function gray_jpeg(name, comment, opts)
    opts = opts or {}
    opts.before = (opts.before or "") .. (comment and "\255\254" .. make.be16(#comment + 2) .. comment or "")
    return helper.write(folder .. "/" .. name, make.jpg(17, 9, {{{70}, {70}, {70}}, {{70}, {70}, {70}}}, opts))
end
local colour = {{{70, 128, 128}, {70, 128, 128}, {70, 128, 128}}, {{70, 128, 128}, {70, 128, 128}, {70, 128, 128}}}
local files = {
    gray_jpeg("a.jpg", "\201"), helper.write(folder .. "/b.jpg", make.jpg(17, 9, colour, {before = "\255\254\0\3\150"})),
    gray_jpeg("c.jpg", "\201\4"), helper.write(folder .. "/d.png", make.png(2, 1, 8, 0, {"\9\9"})), gray_jpeg("e.jpg", "\202", {before = make.exif(6)}),
    gray_jpeg("f.jpg", "\203", {sof = 0xc2}),
}
local function all(opts)
    local seen, reader = {}, gpu.files(files, opts)
    for given, _, n in reader do
        assert(given.planes[1].device == device)
        seen[n] = ("%dx%d %s %d"):format(given.width, given.height, given.format, (given.planes[1]:at(given.width - 1, given.height - 1)))
    end
    return seen, reader.failed
end
local objects = ffi.load "libnvjpeg.so.13".fake_objects()
for threads = 1, 3 do
    local seen = all {threads = threads, decode = "auto"}
    local want = {"17x9 gray 201", "17x9 rgb24 150", "17x9 gray 70", "2x1 gray 9", "9x17 gray ", "17x9 gray 70"}     -- a stand-in's kernel turns nothing
    for i, text in ipairs(want) do
        assert(seen[i]:find(text, 1, true) == 1, seen[i])
    end
    local by_it, failed = all {threads = threads, decode = "nvjpeg", errors = "skip", orient = false}
    assert(by_it[1] == want[1] and by_it[2] == want[2] and by_it[5] == "17x9 gray 202" and #failed == 3)
    for i, word in ipairs {"nvjpegDecode gave status 4", "no JPEG file", "not for nvJPEG"} do
        assert(failed[i].error.code == "UNSUPPORTED" and failed[i].error.message:find(word, 1, true), failed[i].error.message)
    end
    seen = all {threads = threads}
    assert(seen[1] == "17x9 gray 70" and seen[5] == "9x17 gray 70")
end
for given in gpu.files({files[2]}, {decode = "nvjpeg", format = "native"}) do
    assert(given.format == "yuv444p" and given.matrix == "bt601" and given.range == "full" and given.planes[3]:at(16, 8) == 152)
end
assert(ffi.load "libnvjpeg.so.13".fake_objects() == objects)      -- handles and states are gone with their readers
raises("UNSUPPORTED", "host", gpu.files, files, {decode = "nvjpeg", device = "host"})
raises("BAD_ARGUMENT", "isolated", gpu.files, files, {decode = "nvjpeg", isolated = true})
assert(gpu.files(files, {decode = "auto", device = "host"})().planes[1]:at(0, 0) == 70)
helper.remove(folder)

-- ---- NVML

if device == "cuda:0" then
    local now = nvml.status()
    assert(now.name == "Fake" and now.temperature == 41 and now.power == 123.456 and now.power_limit == nil and now.clock == 1001)
    assert(now.utilization.gpu == 12 and now.utilization.memory == 34 and now.memory.total == 2 ^ 37)
else
    raises("DEVICE", {"Not Found", "01122334"}, nvml.status)
end
assert(nvml.driver() == "580.1")

-- ---- a device that is reset, and what is left at the end

local old = curand.generator()
gpu.reset()
raises("CLOSED", "reset", old.bits, old, gpu.mat(2, 2, "u32"))
old:close()
equal(cublas.gemm((matrix(5, 3, 11)), (matrix(4, 5, 12))), product(p_rows, q_rows))
near(matrix(8, 6, 5), cufft.inverse(cufft.forward((matrix(8, 6, 5))), {width = 8}))
assert(nvjpeg.decode(jpeg(3, 2, 20, 10, 40)).width == 20)
print "done"
