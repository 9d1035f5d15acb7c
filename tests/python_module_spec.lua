-- SPDX-License-Identifier: MIT
-- gpuwb inside Python: lua/gpuwb.py and libgpuwb.so, tested by tests/python_module.py in processes of its own.
local helper = require "tests.helper"
local python = require "tests.python_helper"

local folder = helper.command():match("^'(.*)/[^/]*'$")

-- The shell words before Python's own. A sanitizer's library has to be the first one in a program that is not built with it.
local function environment(device)
    local words = {"PYTHONPATH=lua PYTHONDONTWRITEBYTECODE=1", ("GPUWB_LIBRARY='%s/libgpuwb.so'"):format(folder), "GPUWB_DEVICE=" .. device}
    if folder:find("/asan$") then   -- of the objects that Python itself leaves at its end most are lost
        words[#words + 1] = "LD_PRELOAD=$(gcc -print-file-name=libasan.so) ASAN_OPTIONS=detect_leaks=0"
    end
    return table.concat(words, " ")
end

local function why_not()
    if not python.interpreter() then
        return "there is no python3"
    elseif select(2, helper.run("test -f '" .. folder .. "/libgpuwb.so'")) ~= 0 then
        return "there is no libgpuwb.so beside the command"
    elseif folder:find("/tsan$") then
        return "the thread sanitizer cannot be loaded into a program later"
    end
    return nil
end

for _, device in ipairs(helper.devices()) do
    describe("gpuwb inside Python on " .. device, function()
        local why, names = why_not(), nil
        if not why then
            local status
            names, status = helper.run(("%s %s tests/python_module.py"):format(environment(device), python.interpreter()))
            if status ~= 0 and names:find("libluajit", 1, true) then
                why = "there is no shared libluajit: " .. names:match("([^\n]*)\n*$")
            end
        end
        if why then
            pending(why)
            return
        end
        local count = 0
        for name in names:gmatch("[%w_]+") do
            count = count + 1
            it((name:gsub("_", " ")), function()
                local text, status = helper.run(("%s %s tests/python_module.py %s"):format(environment(device), python.interpreter(), name))
                if text:find("^pending: ") then
                    pending(text:match("pending: ([^\n]*)"))
                end
                assert.equal("done\n" .. (name == "the_end_with_all_alive" and "exit function\n" or ""), text)
                assert.equal(0, status)
            end)
        end
        it("has all its tests", function()
            assert.is_true(count >= 10, names)
        end)
    end)
end
