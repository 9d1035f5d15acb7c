-- SPDX-License-Identifier: MIT
-- The ABI texts, and what several loads of the module in one state do.
local ffi = require "ffi"
local helper = require "tests.helper"

describe("the ABI texts", function()
    local core = require "gpuwb.core"

    it("hold no preprocessor line", function()
        for _, file in ipairs {"src/abi_types.h", "src/abi_calls.h"} do
            local text = core.embedded(file)
            assert.is_true(#text > 1000)
            for line in text:gmatch("[^\n]+") do
                assert.is_nil(line:match("^%s*#"), line)
            end
        end
    end)

    it("give the sizes that the program has", function()
        local C = require("gpuwb.cdef").C
        local checked = 0
        for name in core.embedded("src/abi_types.h"):gmatch("}%s*(gwb_[%w_]+);") do
            local size = tonumber(C.gwb_abi_size(name))
            if size >= 0 then
                assert.equal(ffi.sizeof(name), size, name)
                checked = checked + 1
            end
        end
        assert.is_true(checked >= 13)
        assert.equal(-1, tonumber(C.gwb_abi_size("no such type")))
    end)
end)

describe("require", function()
    it("gives one module a state, also after package.loaded was reset (L8)", function()
        local gpu = require "gpuwb"
        local saved = package.loaded.gpuwb
        package.loaded.gpuwb, package.loaded["gpuwb.mat"] = nil, nil
        local again = require "gpuwb"
        assert.is_true(rawequal(gpu, again))
        assert.is_true(rawequal(require "gpuwb.mat", require "gpuwb.mat"))
        package.loaded.gpuwb = saved
    end)

    it("is not needed: the files of the public modules run again and again (L8)", function()
        local out, status = helper.run("ASAN_OPTIONS=detect_leaks=0 " .. helper.command() .. [[ -e '
            -- Python itself leaves objects
            local core = require "gpuwb.core"
            local python = pcall(require, "gpuwb.python")
            for _, name in ipairs {"init", "npp", "nvjpeg", "cublas", "cufft", "curand", "nvtx", "nvml", python and "python" or nil} do
                local file = "lua/gpuwb/" .. name .. ".lua"
                for _ = 1, 2 do assert(loadstring(core.embedded(file), "@" .. file))() end
            end
            print(require("gpuwb").mat(1, 1, "u8", {fill = 3}):at(0, 0))']])
        assert.same({"3\n", 0}, {out, status})
    end)

    it("leaves other modules to the other searchers", function()
        local ok, err = pcall(require, "gpuwb.no_such_part")
        assert.is_false(ok)
        assert.truthy(tostring(err):find("lua/gpuwb/no_such_part.lua", 1, true))
    end)

    it("lets a script call an exported function that it declares itself (L15)", function()
        local out, status = helper.run(helper.command() .. [[ -e '
            local ffi = require "ffi"
            ffi.cdef "const char *gwb_status_text(int status);"
            print(ffi.string(ffi.C.gwb_status_text(0)))']])
        assert.equal("no error\n", out)
        assert.equal(0, status)
    end)
end)

describe("between Lua and C", function()
    local gpu = require "gpuwb"

    it("no callback is made: C never calls Lua (L10)", function()
        local core, seen = require "gpuwb.core", 0
        for _, file in ipairs(core.embedded()) do
            if file:find("%.lua$") then
                local text = core.embedded(file)
                assert.is_nil(text:match("ffi%.cast%(%s*[\"'][^\"']*%(%*[^\n]*"), file)
                seen = seen + select(2, text:gsub("ffi%.cast%(", ""))
            end
        end
        assert.is_true(seen > 50)
    end)

    it("errors pass by the thousand (L14)", function()
        for i = 1, 1000 do
            assert.equal("BAD_ARGUMENT", select(2, pcall(gpu.mat, -i, 1, "u8")).code)
            assert.equal("NO_FILE", select(2, pcall(gpu.load, "/no/such/file." .. i)).code)
        end
    end)

    it("finalizers never raise, whatever they are given (L20)", function()
        for _, make in ipairs {function() return gpu.mat(2, 2, "u8") end, gpu.stream, gpu.event} do
            local object = make()
            local collect = debug.getmetatable(object).__gc
            for _, given in ipairs {5, "x", {}, io.stdout, newproxy(true), make ~= gpu.stream and gpu.stream() or gpu.event(), object, object} do
                collect(given)
            end
            collect()
            assert.truthy(tostring(object):find "closed")
        end
        collectgarbage()
    end)
end)
