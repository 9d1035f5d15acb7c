-- SPDX-License-Identifier: MIT
-- Every way out of the program with live mats, streams and work under way: the right status, nothing on stderr, no crash.
local helper = require "tests.helper"

local setup_code = [[
    local ffi = require "ffi"
    keep = {}
    local s = gpu.stream()
    s:sleep(30)
    for i = 1, 20 do
        local m = gpu.mat(256, 256, "u8")
        m:fill(i, {stream = s})
        keep[i] = m:roi(1, 1, 9, 9)
    end
    local bytes = ffi.new("uint8_t[?]", 65536)
    local w = gpu.wrap {ptr = bytes, width = 256, height = 256, type = "u8"}
    if w.device == s.device then w:fill(3, {stream = s}) end
    keep.s, keep.e = s, s:record()
]]

for _, device in ipairs(helper.devices()) do
    describe("leaving with live mats (T10) on " .. device, function()
        local function leave(code, wanted, message)
            local out, status = helper.run(helper.command() .. " --device " .. device .. " -e '" .. setup_code .. code .. "'")
            assert.equal(wanted, status, out)
            if message then
                assert.truthy(out:find(message, 1, true), out)
            else
                assert.equal("", out)
            end
        end

        it("by the end of the script", function() leave("", 0) end)
        it("by os.exit(0)", function() leave("os.exit(0)", 0) end)
        it("by os.exit(3)", function() leave("os.exit(3)", 3) end)
        it("by os.exit(0, true)", function() leave("os.exit(0, true)", 0) end)
        it("by os.exit(false, true)", function() leave("os.exit(false, true)", 1) end)
        it("by an error", function() leave("error(\"out of ideas\")", 1, "out of ideas") end)
        it("by error(nil)", function() leave("error()", 1) end)
        it("after a gpuwb error", function() leave("gpu.mat(-1, 1, \"u8\")", 1, "width must be a whole number") end)
        it("with a finalizer that launches a kernel", function()
            leave("local k = gpu.kernel(\"__global__ void f(unsigned char *p) { }\") local m = gpu.mat(1, 1, \"u8\") keep.p = newproxy(true) "
                .. "getmetatable(keep.p).__gc = function() pcall(k.f, {grid = 1, block = 1, args = {m}}) end", 0)
        end)
        it("after everything was closed", function()
            leave("for _, m in ipairs(keep) do m:close() end keep.s:close() keep.e:close() keep = nil collectgarbage() gpu.trim()", 0)
        end)
    end)
end
