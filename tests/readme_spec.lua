-- SPDX-License-Identifier: MIT
-- README.md says what is so: its scripts and commands run, what it prints is right, and the files and stages it names are there.
local gpu = require "gpuwb"
local helper = require "tests.helper"

local file = io.open("README.md", "rb")
if not file or not io.open("premake5.lua") then
    pending("README.md is not here")
    return
end
local text = file:read("*a")
file:close()

local folder, root

-- A folder with what the scripts open, and the checkout's files by their names.
setup(function()
    folder, root = helper.folder(), helper.run("pwd"):match("[^\n]+")
    helper.run(("ln -s %s/scripts %s/build %s/"):format(helper.quote(root), helper.quote(root), folder))
    local photo = gpu.image("rgb24", 96, 64, {device = "host"})
    photo.planes[1]:fill {200, 120, 60}
    photo:save(folder .. "/photo.jpg")
    photo:save(folder .. "/photo.png")
    photo:save(gpu.make_folder(folder .. "/in") .. "/one.png")
    helper.run(helper.command() .. " scripts/testcard.lua " .. folder .. "/frame.npy")
    helper.run(("cd %s && ffmpeg -v error -f lavfi -i testsrc=size=64x48:rate=5:duration=1 -pix_fmt yuv420p holiday.mp4"):format(folder))
end)
teardown(function() helper.remove(folder) end)

local function run(command, device)
    return helper.run(("cd %s && env GPUWB_SHOW=none GPUWB_DEVICE=%s %s"):format(folder, device or "host", command))
end

-- What a script must print: the texts behind --> in it.
local function wanted(code)
    local list = {}
    for shown in code:gmatch("%-%->%s*([^\n]+)") do list[#list + 1] = shown:gsub("%s+", "\t") end
    return list
end

for _, device in ipairs(helper.devices()) do
    describe("the README's scripts on " .. device, function()
        for code in text:gmatch("\n```lua\n(.-)\n```") do
            it(code:match("[^\n]+"):sub(1, 60):gsub("%s+%-%-.*", "") .. " #script", function()
                if code:find "holiday" and not io.open(folder .. "/holiday.mp4") then pending("no ffmpeg here, which makes the video") return end
                helper.write(folder .. "/block.lua", code)
                local out, status = run(helper.command() .. " block.lua", device)
                for _, absent in ipairs {"No module named", "found no Python", "there is no cuda", "install ffmpeg", "no C or C++ compiler", "NVVM",
                                        "module 'numpy' has no attribute"} do
                    if out:find(absent, 1, true) then pending("not here: " .. out:match("[^\n]+")) end
                end
                assert.equal(0, status, out)
                for _, shown in ipairs(wanted(code)) do assert.truthy(out:find(shown, 1, true), out) end
            end)
        end
    end)
end

describe("the README", function()
    it("shows a prompt that answers", function()
        local typed = text:match("\n```\n(> .-)\n```"):gsub("^> ", ""):gsub("\n> ", "\n")
        helper.write(folder .. "/typed", typed .. "\n")
        local out, status = run(helper.command() .. " -i < typed")
        assert.equal(0, status, out)
        assert.is_nil(out:find("stack traceback", 1, true) or out:find("error", 1, true), out)
        assert.truthy(out:find("image 96x64 rgb24", 1, true), out)
        assert.same({640, 480}, {gpu.info(folder .. "/small.jpg").width, gpu.info(folder .. "/small.jpg").height})
    end)

    it("shows commands that run", function()
        local count = 0
        local video = io.open(folder .. "/holiday.mp4")
        for line in text:gmatch("\n    build/release/gpuwb ([^\n]+)") do
            if line:find "holiday" and not video then
                count = count + 1       -- no ffmpeg here, which makes it
            elseif not line:find("^%-%-watch") then
                local out, status = run(helper.command() .. " " .. line:gsub("%s+# .*", ""))
                assert.equal(0, status, out)
                count = count + 1
            end
        end
        assert.equal(4, count)
    end)

    it("names each stage, and no other", function()
        local named = {}
        for name in text:match("\n| | stages |\n(.-)\n\n"):gmatch("`(%w+)`") do named[name] = true end
        for _, stage in ipairs(gpu.pipe_stages()) do
            assert.is_true(named[stage.name], stage.name)
            named[stage.name] = nil
        end
        assert.is_nil(next(named))
    end)

    it("names functions, files and modules that are there", function()
        local count = 0
        for name in text:gmatch("gpu%.([%a_][%w_]*)[%({]") do
            assert(gpu[name], "gpu." .. name)
            count = count + 1
        end
        for name in text:gmatch("`gpuwb%.(%a+)`") do
            assert.truthy(name == "so" or require("gpuwb.core").embedded("lua/gpuwb/" .. name .. ".lua"), name)
        end
        for _, top in ipairs {"scripts", "src", "kernels", "lua", "tests"} do
            for path in text:gmatch("[`%(/ ](" .. top .. "/[%w_./]*[%w_])") do
                assert.equal(0, path:find "NAME" and 0 or select(2, helper.run(("test -e %s -o -n \"$(ls %s.* 2>/dev/null)\""):format(path, path))), path)
                count = count + 1
            end
        end
        assert.is_true(count > 60, count)
    end)
end)
