-- SPDX-License-Identifier: MIT
-- The modules for GPU libraries: what is refused everywhere; what they pass on, against stand-ins that need no GPU; and their results on a GPU that has
-- the libraries.
local gpu = require "gpuwb"
local ffi = require "ffi"
local helper = require "tests.helper"
local kernels = require "tests.kernels"
local raises = helper.raises

local names = {"npp", "nvjpeg", "cufft", "cublas", "curand", "nvtx", "nvml"}
local module = {}
for _, name in ipairs(names) do
    module[name] = require("gpuwb." .. name)
end
local npp, nvjpeg, cufft, cublas, curand, nvtx = module.npp, module.nvjpeg, module.cufft, module.cublas, module.curand, module.nvtx

local cuda = false
for _, d in ipairs(gpu.devices()) do
    cuda = cuda or d.name == "cuda:0"
end

describe("a module for a GPU library", function()
    it("refuses the host device, with what to do", function()
        gpu.on("host", function()
            local m, real = gpu.mat(8, 8, "u8x3", {fill = 1}), gpu.mat(8, 8, "f32", {fill = 1})
            local nv12 = gpu.image("nv12", 8, 8, {matrix = "bt709", range = "limited"})
            for _, call in ipairs {
                {npp.convert, nv12, "rgb24"}, {npp.resize, m, 4, 4}, {npp.gauss, m, 3}, {npp.box, m, 3, 3}, {npp.add, m, m}, {npp.sub, m, 1},
                {npp.mul, real, 2}, {npp.div, real, real}, {npp.absdiff, m, m}, {npp.float, m}, {npp.split, m},
                {cublas.gemm, real, real}, {cublas.version}, {cufft.forward, real}, {cufft.inverse, gpu.mat(5, 8, "f32x2"), {width = 8}}, {curand.generator},
                {nvjpeg.encode, gpu.image_from("rgb24", {m})}, {nvjpeg.decode, "JPEG"}, {nvjpeg.decode_batch, {"JPEG"}}, {module.nvml.status},
            } do
                raises("UNSUPPORTED", "host", unpack(call))
            end
            raises("UNSUPPORTED", 'm:to("cuda")', npp.gauss, m, 3)
            raises("UNSUPPORTED", "host", module.nvml.status, "host")
            raises("UNSUPPORTED", "host", nvjpeg.decode, "JPEG", {device = "host"})
        end)
    end)

    it("checks its arguments before anything else", function()
        local m, image = gpu.mat(8, 8, "u8"), gpu.image("rgb24", 4, 4)
        for _, fn in ipairs {npp.resize, npp.gauss, npp.box, npp.add, npp.absdiff, npp.float, npp.split, cublas.gemm, cufft.forward, cufft.inverse} do
            raises("BAD_ARGUMENT", "must be a mat", fn, 3, 3, 3)
            raises("BAD_ARGUMENT", "must be a mat", fn, nil)
            raises("BAD_ARGUMENT", "must be a mat", fn, {}, {})
        end
        raises("BAD_ARGUMENT", "image", npp.convert, m, "rgb24")
        raises("BAD_ARGUMENT", "nonsense", npp.convert, image, "nonsense")
        raises("BAD_ARGUMENT", "filter", npp.resize, m, 4, 4, {filter = "best"})
        raises("BAD_ARGUMENT", "width", npp.resize, m, 0, 4)
        raises("BAD_ARGUMENT", "height", npp.resize, m, 4, 0 / 0)
        raises("BAD_ARGUMENT", "unknown option", npp.gauss, m, 3, {sigma = 1})
        raises("UNSUPPORTED", "u8x2", npp.gauss, gpu.mat(4, 4, "u8x2"), 3)
        raises("SHAPE", "0x4", npp.gauss, gpu.mat(0, 4, "u8"), 3)
        raises("SHAPE", "alike", npp.add, m, gpu.mat(8, 7, "u8"))
        raises("BAD_ARGUMENT", "256", npp.add, m, 256)
        raises("BAD_ARGUMENT", "0.5", npp.mul, m, 0.5)
        raises("BAD_ARGUMENT", "one number a channel", npp.add, m, {1, 2})
        raises("BAD_ARGUMENT", "b must be a mat", npp.absdiff, m, 1)
        raises("BAD_ARGUMENT", "b must be a mat", npp.add, m, "1")
        raises("BAD_ARGUMENT", "shift", npp.add, m, m, {shift = 16})
        raises("UNSUPPORTED", "u8", cublas.gemm, m, m)
        raises("BAD_ARGUMENT", "transpose_a", cublas.gemm, gpu.mat(2, 2, "f32"), gpu.mat(2, 2, "f32"), {transpose_a = 1})
        raises("UNSUPPORTED", "u8", cufft.forward, m)
        raises("BAD_ARGUMENT", "rows", cufft.forward, gpu.mat(2, 2, "f32"), {rows = 1})
        raises("BAD_ARGUMENT", "seed", curand.generator, {seed = -1})
        raises("BAD_ARGUMENT", "kind", curand.generator, {kind = "dice"})
        raises("BAD_ARGUMENT", "quality", nvjpeg.encode, image, {quality = 101})
        raises("UNSUPPORTED", "nv12", nvjpeg.encode, gpu.image("nv12", 4, 4))
        raises("BAD_ARGUMENT", "subsampling", nvjpeg.encode, image, {subsampling = "4:2:0"})
        raises("BAD_ARGUMENT", "format", nvjpeg.decode, "x", {format = "nv12"})
        raises("BAD_ARGUMENT", "device", nvjpeg.decode, "x", {device = 3})
        raises("BAD_ARGUMENT", "name", nvtx.push, 3)
        raises("BAD_ARGUMENT", "name", nvtx.mark, "a\0b")
        raises("BAD_ARGUMENT", "fn", nvtx.range, "name", 3)
        local closed = gpu.mat(4, 4, "u8")
        closed:close()
        raises("CLOSED", "closed", npp.gauss, closed, 3)
    end)

    it("has an example that runs, or says what is missing", function()
        local out, status = helper.run(helper.command() .. " scripts/interop_libraries.lua")
        assert.equal(0, status, out)
        for _, name in ipairs(names) do
            local rest = out:match("%-%-%-%- gpuwb%." .. name .. "\n.-\n%-%-%-%-\n([^\n]+)")
            assert(rest, name .. " printed nothing: " .. out)
        end
        out, status = helper.run(helper.command() .. " scripts/interop_libraries.lua nothing")
        assert.same({"interop_libraries.lua: there is no module gpuwb.nothing\n", 2}, {out, status})
    end)
end)

describe("ranges and marks for a profiler", function()
    it("nest, and end on an error too", function()
        local there, why = nvtx.present()
        if not there then
            assert.truthy(why:find("libnvtx3interop.so.1", 1, true), why)
            raises("UNSUPPORTED", {"libnvtx3interop.so.1", "LD_LIBRARY_PATH"}, nvtx.push, "x")
            return
        end
        nvtx.push "outer"
        nvtx.mark "point"
        assert.same({3, nil, 5}, {nvtx.range("inner", function(...) return ... end, 3, nil, 5)})
        local ok, err = pcall(nvtx.range, "failing", error, "oops")
        assert.same({false, "oops"}, {ok, err})
        nvtx.pop()
    end)

    -- A script's output beside a library that prints what it is told.
    local function beside_stand_in(code)
        local folder = helper.folder()
        helper.write(folder .. "/nvtx.c", [[
            #include <stdio.h>
            int nvtxRangePushA(const char *name) { return fprintf(stderr, "push %s\n", name); }
            int nvtxRangePop(void) { return fprintf(stderr, "pop\n"); }
            void nvtxMarkA(const char *name) { fprintf(stderr, "mark %s\n", name); }]])
        if select(2, helper.run(("${CC:-cc} -shared -fPIC %s/nvtx.c -o %s/libnvtx3interop.so.1"):format(folder, folder))) ~= 0 then
            pending "needs a C compiler"
        end
        local out, status = helper.run(("LD_LIBRARY_PATH=%s %s -e %s"):format(folder, helper.command(), helper.quote(code)))
        helper.remove(folder)
        assert.equal(0, status, out)
        return out
    end

    it("are gpu.range's too, and outlive the collector (L16)", function()
        assert.equal("push outer\npush inner\nmark here\npop\npop\npush failing\npop\n3\n", beside_stand_in [[
            gpu.range("outer", gpu.range, "inner", function()
                collectgarbage() collectgarbage()
                require("gpuwb.nvtx").mark "here"
            end)
            assert(select(2, pcall(gpu.range, "failing", error, "oops")) == "oops")
            io.stderr:write(select("#", gpu.range("", function() return nil, 1, nil end)), "\n")]]:gsub("push \npop\n", ""))
    end)

    it("are looked for once", function()
        assert.equal("1\n", beside_stand_in [[
            local library, count = require "gpuwb.library", 0
            library.open = function() count = count + 1 error "none" end
            for _ = 1, 3 do assert(gpu.range("x", tostring, 5) == "5") end
            print(count)]])
    end)
end)

describe("the modules for GPU libraries beside stand-ins", function()
    local folder

    teardown(function()
        if folder then helper.remove(folder) end
    end)

    local function build()
        if folder then
            return
        end
        folder = kernels.built_in() and kernels.fake_driver()
        if not folder then
            pending "needs nvcc when gpuwb is built, a checkout and a C compiler"
        end
        local out, status = helper.run(([[cd %s && ${CC:-cc} -std=gnu11 -O2 -Wall -Werror -fPIC -shared -fvisibility=hidden \
                $OLDPWD/tests/c/fake_libraries.c -o fake.so libcuda.so.1 -lm &&
            for name in nppc.so.13 nppicc.so.13 nppig.so.13 nppif.so.13 nppial.so.13 nppidei.so.13 nvjpeg.so.13 cublas.so.13 cufft.so.12 curand.so.10 \
                nvidia-ml.so.1; do ln -s fake.so lib$name; done]]):format(folder))
        assert(status == 0, out)
    end

    local function run(device, code)
        return helper.run(("env -u GPUWB_DEVICE -u GPUWB_TEST_DEVICE -u CUDA_VISIBLE_DEVICES -u CUDA_HOME ASAN_OPTIONS=detect_leaks=0 FAKE_JITTER=1 "
            .. "LD_LIBRARY_PATH=%s %s %s %s"):format(folder, helper.command(), code or "tests/library_calls.lua", device))
    end

    for _, device in ipairs {"cuda:0", "cuda:1"} do
        it("pass on what they were given, in order, on " .. device, function()
            build()
            local out, status = run(device)
            assert.same({"done\n", 0}, {out, status})
        end)
    end

    it("say what was tried where a library is not there", function()
        if pcall(ffi.load, "libnppif.so.13") or io.open("/usr/local/cuda/lib64/libnppif.so.13") then
            pending "the library is there"      -- the real one, which the driver's stand-in does not serve
        end
        build()
        helper.run(("rm %s/libnppif.so.13 %s/libnvjpeg.so.13"):format(folder, folder))
        helper.write(folder .. "/a.jpg", require("tests.pictures").samples()["gray.jpg"])
        local out, status = run("", [[-e '
            gpu.device "cuda:0"
            print(select(2, pcall(require("gpuwb.npp").gauss, gpu.mat(4, 4, "u8"), 3)))
            print(select(2, pcall(gpu.files, {"]] .. folder .. [[/a.jpg"}, {decode = "nvjpeg"})))
            print(gpu.files({"]] .. folder .. [[/a.jpg"}, {decode = "auto"})())']])
        assert.equal(0, status, out)
        for _, word in ipairs {"gpu.files", "libnvjpeg.so.13", "9x17 gray",
                               "npp.gauss", "libnppif.so.13", "libnppif.so.12", "/usr/local/cuda/lib64/", "LD_LIBRARY_PATH"} do
            assert.truthy(out:find(word, 1, true), out)
        end
    end)

    it("are held against the toolkit's headers where these are there", function()
        local include = helper.run("ls -d ${CUDA_HOME:-/usr/local/cuda}/include"):match("^(/[^\n]*)\n$")
        if not include or select(2, helper.run("test -f tests/c/fake_libraries.c && command -v ${CC:-cc}")) ~= 0 then
            pending "needs the headers of a CUDA toolkit and a C compiler"
        end
        local out, status = helper.run(("${CC:-cc} -std=gnu11 -fsyntax-only -DUSE_HEADERS -I%s tests/c/fake_libraries.c"):format(include))
        assert(status == 0, out)
        -- the structs that travel by value or as arrays
        local text = [[
            #include <stddef.h>
            #define OWN(header) !__has_include(header)
            #if !OWN(<nppdefs.h>)
            #include <nppdefs.h>
            _Static_assert(sizeof(NppStreamContext) == %d && offsetof(NppStreamContext, nSharedMemPerBlock) == %d &&
                offsetof(NppStreamContext, nStreamFlags) == %d && NPP_MASK_SIZE_5_X_5 == 201 && NPP_MASK_SIZE_7_X_7 == 400 && NPP_BORDER_REPLICATE == 2 &&
                NPPI_INTER_SUPER == 8 && NPPI_INTER_LANCZOS == 16, "");
            #endif
            #if !OWN(<nvjpeg.h>)
            #include <nvjpeg.h>
            _Static_assert(sizeof(nvjpegImage_t) == %d && offsetof(nvjpegImage_t, pitch) == %d && NVJPEG_OUTPUT_RGBI == 5 && NVJPEG_CSS_410 == 5, "");
            #endif
            #if !OWN(<cublas_v2.h>)
            #include <cublas_v2.h>
            _Static_assert(CUBLAS_COMPUTE_32F == 68 && CUBLAS_COMPUTE_64F == 70 && CUDA_R_16F == 2 && CUDA_R_64F == 1, "");
            #endif
            #if !OWN(<cufft.h>)
            #include <cufft.h>
            _Static_assert(sizeof(cufftHandle) == 4 && CUFFT_R2C == 0x2a && CUFFT_Z2D == 0x6c && CUFFT_FORWARD == -1, "");
            #endif
            #if !OWN(<curand.h>)
            #include <curand.h>
            _Static_assert(CURAND_RNG_PSEUDO_XORWOW == 101 && CURAND_RNG_PSEUDO_PHILOX4_32_10 == 161, "");
            #endif
            int nothing;]]
        local context = "gwb_npp_context"
        text = text:format(ffi.sizeof(context), ffi.offsetof(context, "shared_per_block"), ffi.offsetof(context, "flags"), ffi.sizeof("gwb_nvjpeg_image"),
            ffi.offsetof("gwb_nvjpeg_image", "pitch"))
        local file = io.open(folder .. "/sizes.c", "w")
        file:write(text)
        file:close()
        out, status = helper.run(("${CC:-cc} -std=gnu11 -fsyntax-only -I%s %s/sizes.c"):format(include, folder))
        assert(status == 0, out)
    end)
end)

describe("the GPU libraries", function()
    -- A test on cuda:0 that is pending where there is none, or not this library.
    local function it_on_gpu(library, what, fn)
        it(("%s: %s"):format(library, what), function()
            if not cuda then
                pending "needs a GPU"
            end
            gpu.on("cuda:0", function()
                local ok, err = pcall(fn)
                if not ok and type(err) == "table" and err.code == "UNSUPPORTED" and tostring(err):find("there is no ", 1, true) then
                    pending("needs the library: " .. tostring(err))
                elseif not ok then
                    error(err, 0)
                end
            end)
        end)
    end

    for _, name in ipairs(names) do
        it_on_gpu(name, "the example of the module runs", function()
            local out, status = helper.run(("%s --device cuda:0 scripts/interop_libraries.lua %s"):format(helper.command(), name))
            assert.equal(0, status, out)
            if out:find("\nabsent: [^\n]*there is no ") then
                pending("needs the library: " .. out:match("absent: ([^\n]*)"))
            end
            assert.is_nil(out:find("\nabsent: "), out)
        end)
    end

    local function bytes(w, h, kind, seed)
        local m = gpu.mat(w, h, kind)
        return m:upload(helper.bytes(m.bytes, seed))
    end

    -- The largest difference of two u8 mats.
    local function difference(a, b)
        local x, y, most = a:download(), b:download(), 0
        for i = 1, #x do
            most = math.max(most, math.abs(x:byte(i) - y:byte(i)))
        end
        return most
    end

    it_on_gpu("npp", "converts as gpuwb with repeated chroma does, within some steps", function()
        for _, format in ipairs {"nv12", "yuv420p"} do
            for _, case in ipairs {{"bt709", "limited"}, {"bt709", "full"}, {"bt601", "limited"}, {"bt601", "full"}, {"bt2020nc", "limited"}} do
                local img = gpu.image("rgb24", 64, 48)
                img.planes[1]:upload(bytes(16, 12, "u8x3", 4):clone():download():rep(16))
                img = img:convert(format, {matrix = case[1], range = case[2], siting = "center"})
                local ok, theirs = pcall(npp.convert, img, "rgb24")
                if ok then
                    local ours = img:convert("rgb24", {chroma = "nearest"})
                    local most = difference(ours.planes[1], theirs.planes[1])
                    assert(most <= 4, ("%s %s %s: %d steps"):format(format, case[1], case[2], most))
                else
                    assert.equal("UNSUPPORTED", theirs.code, tostring(theirs))
                end
            end
        end
        local img = gpu.image_from("rgb24", {gpu.mat(32, 32, "u8x3", {fill = {200, 100, 50}})})
        for _, format in ipairs {"nv12", "yuv420p"} do
            local ours = img:convert(format, {matrix = "bt601", range = "limited"})
            local theirs = npp.convert(img, format, {matrix = "bt601", range = "limited"})
            for i, m in ipairs(ours.planes) do
                assert(difference(m, theirs.planes[i]) <= 2, format .. " plane " .. i)
            end
        end
        local planar = npp.convert(img:convert("nv12", {matrix = "bt601", range = "limited"}), "yuv420p")
        assert.equal(0, difference(planar.planes[3], img:convert("yuv420p", {matrix = "bt601", range = "limited"}).planes[3]))
    end)

    it_on_gpu("npp", "does its arithmetic, filters and sizes", function()
        for _, kind in ipairs {"u8", "u8x3", "u8x4"} do
            local a, b = bytes(61, 37, kind, 1), bytes(61, 37, kind, 2)
            local sum, less, apart = npp.add(a, b), npp.sub(a, b), npp.absdiff(a, b)
            local x, y, s, l, d = a:download(), b:download(), sum:download(), less:download(), apart:download()
            for i = 1, #x do
                local p, q = x:byte(i), y:byte(i)
                assert.same({math.min(p + q, 255), math.max(p - q, 0), math.abs(p - q)}, {s:byte(i), l:byte(i), d:byte(i)})
            end
        end
        local flat = gpu.mat(50, 40, "u8x3", {fill = {10, 20, 30}})
        for _, m in ipairs {npp.gauss(flat, 5), npp.box(flat, 5, 3), npp.resize(flat, 31, 17), npp.resize(flat, 25, 20, {filter = "super"})} do
            assert.same({10, 20, 30}, {m:at(m.width - 1, m.height - 1)})
            assert.same({10, 20, 30}, {m:at(0, 0)})
        end
        for _, filter in ipairs {"nearest", "cubic", "lanczos"} do
            assert.same({10, 20, 30}, {npp.resize(flat, 99, 70, {filter = filter}):at(50, 35)})
        end
        local real = npp.float(flat)
        local scaled = npp.add(npp.mul(real, {0.5, 2, 1}), 1)
        assert.same({6, 41, 31}, {scaled:at(49, 39)})
        assert.equal(41, npp.split(scaled)[2]:at(3, 3))
        assert.same({3, 8, 4}, {npp.div(npp.mul(real, {6, 4, 2}), {20, 10, 15}):at(0, 0)})
    end)

    it_on_gpu("npp", "is ordered by data with work on other streams", function()
        local a, b = gpu.stream(), gpu.stream()
        local m, out = gpu.mat(256, 256, "u8"), gpu.mat(256, 256, "u8")
        for i = 1, 100 do
            a:sleep(i % 3)
            m:fill(i, {stream = a})
            npp.add(m, m, {out = out, stream = b})
            m:fill(255, {stream = a})
            assert.equal(math.min(2 * i, 255), (out:at(255, 255)))
        end
    end)

    it_on_gpu("cublas", "multiplies in every type, also of regions and transposed", function()
        for _, kind in ipairs {"f32", "f64", "f16"} do
            local a = gpu.mat(13, 7, "u8"):upload(helper.bytes(91, 3)):cast(kind, {scale = 1 / 16, round = "nearest"})
            local wide = gpu.mat(16, 13, kind, {fill = 9})
            local b = wide:roi(4, 0, 5, 13)
            gpu.copy(b, gpu.mat(5, 13, "u8"):upload(helper.bytes(65, 4)):cast(kind, {scale = 1 / 16}))
            local c = cublas.gemm(a, b)
            local x, y, z = a:totable(), b:totable(), c:totable()
            for i = 1, 7 do
                for j = 1, 5 do
                    local sum = 0
                    for k = 1, 13 do
                        sum = sum + x[i][k] * y[k][j]
                    end
                    assert(math.abs(sum - z[i][j]) <= math.abs(sum) * (kind == "f16" and 2e-3 or 1e-5) + 1e-6, ("%s %g %g"):format(kind, sum, z[i][j]))
                end
            end
            local d = cublas.gemm(b, a, {transpose_a = true, transpose_b = true}):totable()
            for i = 1, 7 do
                for j = 1, 5 do
                    assert(math.abs(d[j][i] - z[i][j]) <= math.abs(z[i][j]) * 2e-3)
                end
            end
        end
    end)

    it_on_gpu("cufft", "transforms and gives back", function()
        for _, kind in ipairs {"f32", "f64"} do
            for _, size in ipairs {{64, 48}, {33, 7}, {1, 1}, {17, 1}} do
                local m = gpu.mat(size[1], size[2], "u8"):upload(helper.bytes(size[1] * size[2], 8)):cast(kind)
                for _, rows in ipairs {false, true} do
                    local back = cufft.inverse(cufft.forward(m, {rows = rows}), {width = size[1], rows = rows})
                    assert.equal(m:cast("u8"):download(), back:cast("u8"):download())
                end
                local sum = cufft.forward(m):at(0, 0)
                assert(math.abs(sum - gpu.reduce(m, "sum")) <= 1e-4 * sum + 1e-3)
            end
        end
    end)

    it_on_gpu("curand", "gives the same numbers for a seed, of the right kind", function()
        for _, kind in ipairs {"xorwow", "mrg32k3a", "mt19937", "philox"} do
            local a, b = curand.generator {seed = 5, kind = kind}, curand.generator {seed = 5, kind = kind}
            local m, view = gpu.mat(301, 33, "f32"), gpu.mat(400, 40, "f32"):roi(3, 3, 301, 33)
            assert.equal(a:uniform(m):download(), b:uniform(view):download())
            assert(math.abs(gpu.reduce(m, "mean") - 0.5) < 0.02)
            a:normal(m, 3, 2)
            assert(math.abs(gpu.reduce(m, "mean") - 3) < 0.1)
            a:normal(gpu.mat(64, 64, "f64"))
        end
        curand.generator():bits(gpu.mat(77, 5, "u32"))
    end)

    it_on_gpu("nvjpeg", "decodes what was encoded, one by one and together", function()
        local img = gpu.image("rgb24", 160, 96)
        for y = 0, 95 do
            img.planes[1]:row(y):fill {y * 2, 255 - y, 128}
        end
        local file = nvjpeg.encode(img, {quality = 95, subsampling = "444"})
        local ours = gpu.decode(file, {device = "cuda:0"})
        assert(difference(img.planes[1], ours.planes[1]) <= 8)
        for _, back in ipairs {nvjpeg.decode(file), unpack(nvjpeg.decode_batch {file, file, file})} do
            assert.same({"rgb24", 160, 96}, {back.format, back.width, back.height})
            assert(difference(ours.planes[1], back.planes[1]) <= 3)
        end
        local yuv = nvjpeg.decode(nvjpeg.encode(img), {format = "yuv"})
        assert.same({"yuv420p", "bt601", "full", "center"}, {yuv.format, yuv.matrix, yuv.range, yuv.siting})
        local luma = ours:convert("yuv444p", {matrix = "bt601", range = "full"}).planes[1]
        assert(difference(luma, nvjpeg.decode(file, {format = "gray"}).planes[1]) <= 4)
        local again = nvjpeg.decode(nvjpeg.encode(yuv, {quality = 98}), {format = "yuv"})
        assert(difference(yuv.planes[1], again.planes[1]) <= 4)
        assert.equal("rgbp", nvjpeg.decode(file, {format = "rgbp"}).format)
        raises("BAD_FILE", "nvJPEG", nvjpeg.decode, "this is no JPEG file")
        assert.equal(160, nvjpeg.decode(file).width)
    end)

    it_on_gpu("nvml", "tells what the device does", function()
        local now = module.nvml.status "cuda:0"
        assert(#now.name > 0 and (now.temperature == nil or now.temperature > 0 and now.temperature < 120))
        assert(now.memory == nil or now.memory.total > 2 ^ 30)
        assert(#module.nvml.driver() > 0)
    end)
end)
