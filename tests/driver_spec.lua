-- SPDX-License-Identifier: MIT
-- The cuda device against a driver that needs no GPU (tests/c/fake_driver.c): what is said where there is no device, and the specs of mats,
-- streams and copies with the device's own logic, while its operations take their time.
local helper = require "tests.helper"
local kernels = require "tests.kernels"

describe("the cuda device on a fake driver", function()
    local folder = kernels.fake_driver()
    if not folder then
        pending("needs a checkout and a C compiler")
        return
    end

    local function gpuwb(env, rest)     -- os.exit leaves events to the driver, which a leak checker cannot know
        return helper.run(("env -u GPUWB_DEVICE -u GPUWB_TEST_DEVICE -u CUDA_VISIBLE_DEVICES ASAN_OPTIONS=detect_leaks=0 LD_LIBRARY_PATH=%s %s %s %s")
            :format(folder, env, helper.command(), rest))
    end

    teardown(function() helper.remove(folder) end)

    -- The fake driver runs the kernels that nvcc puts into gpuwb; without nvcc the specs that launch some are pending.
    local function opens()
        if not kernels.built_in() then
            pending("needs nvcc when gpuwb is built")
            return false
        end
        return true
    end

    -- What a script is told when it asks for the device.
    local function refusal(env)
        local out, status = gpuwb(env, [[-e '
            local ok, err = pcall(gpu.device, "cuda")
            print(ok, err.code, err.message)
            gpu.device("host")
            print(gpu.mat(2, 2, "u8", {fill = 3}):at(1, 1))']])
        assert.equal(0, status, out)
        assert.truthy(out:find("\n3\n", 1, true), out)
        return out
    end

    it("tells a machine without a driver from one without a visible device (T12)", function()
        local hidden = refusal("CUDA_VISIBLE_DEVICES=")
        assert.truthy(hidden:find('false\tNO_DEVICE', 1, true), hidden)
        assert.truthy(hidden:find('no device is visible: CUDA_VISIBLE_DEVICES is ""', 1, true), hidden)
        local none = refusal("FAKE_INIT=100")
        assert.truthy(none:find("this machine shows it no device", 1, true), none)
        if not pcall(require("ffi").load, "libcuda.so.1") then
            local missing = refusal("LD_LIBRARY_PATH=")
            assert.truthy(missing:find("there is no NVIDIA driver (libcuda.so.1", 1, true), missing)
        end
    end)

    it("says what keeps a driver from starting", function()
        for code, words in pairs {[999] = "nvidia-smi", [803] = "different versions", [34] = "stub", [802] = "fabric manager"} do
            assert.truthy(refusal("FAKE_INIT=" .. code):find(words, 1, true), code)
        end
        assert.truthy(refusal("FAKE_VERSION=11010"):find("serves CUDA 11.1; wanted 11.2", 1, true))
    end)

    it("tells a libcuda.so.1 that lacks a function", function()
        helper.run(("mkdir %s/empty && echo 'int nothing;' | ${CC:-cc} -shared -x c - -o %s/empty/libcuda.so.1"):format(folder, folder))
        assert.truthy(refusal("LD_LIBRARY_PATH=" .. folder .. "/empty"):find("lacks cuInit: it is older than CUDA 11.2", 1, true))
    end)

    for _, spec in ipairs {"mat", "stream", "copy", "graph", "exit", "fork", "exchange", "dlpack", "dlpack_import", "ipc",
                           "python_arrays", "python_module", "workbench"} do
        it("passes the specs of " .. spec, function()
            if not opens() then return end
            -- kernels of scripts do not run there, and its legacy stream is one like the others
            local out, status = gpuwb("GPUWB_TEST_DEVICE=cuda:0 FAKE_JITTER=1",
                ("$(command -v busted) --exclude-tags=script,kernels,legacy tests/%s_spec.lua"):format(spec))
            assert.equal(0, status, out)
            assert.truthy(out:find("on cuda:0", 1, true) or out:find("%d+ successes / 0 failures / 0 errors"), out)
        end)
    end

    it("copies between two devices, ordered by data", function()
        if not opens() then return end
        local out, status = gpuwb("FAKE_JITTER=1", [[-e '
            local wide, tight = {}, {packed = true}
            for round = 1, 20 do
                local a = gpu.on("cuda:0", gpu.mat, 61, 7, "u8x3", round % 2 == 0 and wide or tight)
                local b = gpu.on("cuda:1", gpu.mat, 61, 7, "u8x3", round % 3 == 0 and wide or tight)
                local c = gpu.on("cuda:0", gpu.mat, 61, 7, "u8x3")
                a:fill({round, 2, 3})
                gpu.copy(b, a)
                a:fill(0)
                gpu.copy(c, b)
                assert(b.device ~= a.device and c:at(60, 6) == round, round)
                assert(c:download() == b:download())
            end
            print "equal"']])
        assert.equal("equal\n", out)
        assert.equal(0, status)
    end)

    it("gives all memory back, and collects before it is out of memory", function()
        if not opens() then return end
        local out, status = gpuwb("", [[-e '
            gpu.device("cuda:0")
            local free = gpu.memory().free
            for _ = 1, 200 do gpu.mat(8192, 8192, "u8"):row(0):fill(1) end
            assert(not pcall(gpu.mat, 65536, 65536, "u8"))
            local code = select(2, pcall(gpu.mat, 65536, 65536, "u8")).code
            collectgarbage() collectgarbage() gpu.trim()
            print(code, gpu.memory().free == free)']])
        assert.equal("OUT_OF_MEMORY\ttrue\n", out)
        assert.equal(0, status)
    end)
end)
