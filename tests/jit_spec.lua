-- SPDX-License-Identifier: MIT
-- Methods that scripts call often stay compiled: no trace of such a loop ends in a stitch to a C function or is blacklisted.
local helper = require "tests.helper"

local function traces(code)
    local file = os.tmpname()
    local f = assert(io.open(file, "w"))
    f:write("local _ = gpu.version\nrequire('jit.v').on()\n", code)    -- what loading the modules traces is not asked
    f:close()
    local out, status = helper.run(helper.command() .. " --device host " .. file)
    os.remove(file)
    assert(status == 0, out)
    return out
end

describe("hot loops", function()
    it("compile over fields, fills, copies and views' facts", function()
        for what, body in pairs {
            fields = "x = x + m.width + m.step + m.elem_size + m.height",
            pointer = "x = x + (m.data == n.data and 1 or 0)",
            fill = "m:fill(i % 200)",
            upload = "m:upload(bytes)",
            contiguous = "x = x + (m:is_contiguous() and 1 or 0)",
            query = "x = x + (s:query() and 1 or 0)",
        } do
            local out = traces(([[
                local ffi = require "ffi"
                local m, n = gpu.mat(8, 4, "u8", {packed = true}), gpu.mat(8, 4, "u8")
                local s, bytes, x = gpu.default_stream(), ffi.new("uint8_t[32]"), 0
                for i = 1, 300 do
                    %s
                end
            ]]):format(body))
            assert(out:find("%[TRACE +%d+ [^\n]*loop%]"), what .. ": no loop was compiled\n" .. out)
            -- of the script's own trace: making the two mats may look hot by chance, since counters are shared by what hashes alike
            assert(not out:find("lua_[%w]+:%d+ stitch"), what .. ": a C function interrupts the loop\n" .. out)
        end
    end)

    it("read pixels by the hundred thousand from temporary views (T14)", function()
        local out = traces [[
            local m = gpu.mat(4, 4, "u8", {fill = 3})
            local sum = 0
            for i = 1, 2000 do
                sum = sum + gpu.mat(2, 2, "u8", {fill = 1}):roi(0, 0, 1, 1):clone():at(0, 0)
            end
            assert(sum == 2000, sum)
        ]]
        assert.truthy(out:find("TRACE"))
    end)
end)
