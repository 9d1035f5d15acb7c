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
    it("gives one module a state, also after package.loaded was reset", function()
        local gpu = require "gpuwb"
        local saved = package.loaded.gpuwb
        package.loaded.gpuwb, package.loaded["gpuwb.mat"] = nil, nil
        local again = require "gpuwb"
        assert.is_true(rawequal(gpu, again))
        assert.is_true(rawequal(require "gpuwb.mat", require "gpuwb.mat"))
        package.loaded.gpuwb = saved
    end)

    it("leaves other modules to the other searchers", function()
        local ok, err = pcall(require, "gpuwb.no_such_part")
        assert.is_false(ok)
        assert.truthy(tostring(err):find("lua/gpuwb/no_such_part.lua", 1, true))
    end)

    it("lets a script call an exported function that it declares itself", function()
        local out, status = helper.run(helper.command() .. [[ -e '
            local ffi = require "ffi"
            ffi.cdef "const char *gwb_status_text(int status);"
            print(ffi.string(ffi.C.gwb_status_text(0)))']])
        assert.equal("no error\n", out)
        assert.equal(0, status)
    end)
end)
