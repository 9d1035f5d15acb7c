-- SPDX-License-Identifier: MIT
-- What the specs of kernels share: whether there is a compiler, numbers by formula, and a trial of all sources on the cuda device without a GPU.
local gpu = require "gpuwb"
local helper = require "tests.helper"
local C = require("gpuwb.cdef").C

local kernels = {}

-- Whether the host device can compile kernels.
function kernels.compiler_at_hand()
    return select(2, helper.run("command -v ${CC:-cc} || command -v gcc || command -v clang")) == 0
end

-- n whole numbers below `most` (default 1000).
function kernels.numbers(n, most, seed)
    local random, list = helper.random(seed), {}
    for i = 1, n do
        list[i] = random(most or 1000)
    end
    return list
end

-- gpu.kernel that adds its source to a list.
function kernels.recorder(sources)
    return function(source, opts)
        sources[#sources + 1] = {source = source, opts = opts}
        return gpu.kernel(source, opts)
    end
end

-- Whether the kernels that the fake driver runs are in gpuwb: nvcc put them there.
function kernels.built_in()
    return os.getenv "GPUWB_SM" ~= "none" and helper.run("command -v nvcc || ls ${CUDA_HOME:-/usr/local/cuda}/bin/nvcc"):find "^/[^\n]*nvcc\n" ~= nil
end

-- A folder with a libcuda.so.1 and a libnvcuvid.so.1 that need no GPU; nil where it cannot be made. To be removed.
function kernels.fake_driver()
    if select(2, helper.run("test -f tests/c/fake_driver.c -a -f src/gwb.h && command -v ${CC:-cc}")) ~= 0 then
        return nil
    end
    local folder = helper.folder()
    local out, status = helper.run("${CC:-cc} -std=gnu11 -D_GNU_SOURCE= -O2 -Wall -Wextra -Werror -fPIC -shared -pthread -ffp-contract=off "
        .. "-fvisibility=hidden -Isrc -Ikernels tests/c/fake_driver.c tests/c/fake_nvdec.c tests/c/fake_rest.c -o " .. folder
        .. "/libcuda.so.1 -lm && ln -s libcuda.so.1 " .. folder .. "/libnvcuvid.so.1")
    assert(status == 0, out)
    return folder
end

local function quoted(list)
    local out = {}
    for _, v in ipairs(list or {}) do
        out[#out + 1] = ("%q"):format(v)
    end
    return table.concat(out, ", ")
end

local function pairs_of(t)
    local out = {}
    for key, value in pairs(t or {}) do
        out[#out + 1] = ("%s = %s"):format(key, type(value) == "string" and ("%q"):format(value) or tostring(value))
    end
    return table.concat(out, ", ")
end

-- Compiles every source by NVRTC for sm_90 as the cuda device does, which finds the names and sizes in the result; one of them prints as `signature`.
-- Pending where NVRTC, the checkout or a C compiler is missing.
function kernels.try_on_cuda(sources, signature)
    local folder = C.gwb_nvrtc_version() > 0 and kernels.fake_driver()
    if not folder then
        getfenv(2).pending("needs NVRTC, a checkout and a C compiler")
    end
    local script = {}
    for _, s in ipairs(sources) do
        script[#script + 1] = ("print(gpu.kernel(%q, {options = {%s}, defines = {%s}}))"):format(s.source, quoted(s.opts and s.opts.options),
            pairs_of(s.opts and s.opts.defines))
    end
    helper.write(folder .. "/all.lua", table.concat(script, "\n"))
    local out, status = helper.run(("env -u GPUWB_DEVICE -u CUDA_VISIBLE_DEVICES ASAN_OPTIONS=detect_leaks=0 LD_LIBRARY_PATH=%s %s --device cuda:0 "
        .. "%s/all.lua"):format(folder, helper.command(), folder))
    helper.remove(folder)
    assert(status == 0, out)
    local count = select(2, out:gsub("kernel on cuda:0", ""))
    assert(count == #sources and out:find(signature, 1, true), out)
end

return kernels
