-- SPDX-License-Identifier: MIT
-- The reference texts: none is missing, none speaks of what is not there, and their examples give what they say.
local gpu = require "gpuwb"
local help = require "gpuwb.help"
local helper = require "tests.helper"
local command = require "tests.command_helper"
local raises = helper.raises

describe("the reference", function()
    it("has a text for each public name", function()
        local _, known = help.entries()
        for name in pairs(gpu) do
            assert.truthy(known["gpu." .. name], "no text for gpu." .. name)
        end
        for kind, methods in pairs(help.methods()) do
            for name in pairs(methods) do
                assert.truthy(known[kind .. ":" .. name], ("no text for %s:%s"):format(kind, name))
            end
        end
    end)

    it("has a name for each text", function()
        local all, known = help.entries()
        local methods = help.methods()
        for name in pairs(known) do
            local before, rest = name:match("^(%a+)[.:](.*)$")
            local there = before == "gpu" and gpu[rest] or before ~= "gpu" and methods[before][rest] or name == "pipe:__call"
            assert.truthy(there, "a text for " .. name .. ", which is not there")
        end
        for _, entry in ipairs(all) do
            assert.truthy(#table.concat(entry.text) > 15, "hardly a text: " .. table.concat(entry.text))
        end
    end)

    it("has a text for each function of the modules, and a function for each text", function()
        local known = {}
        for _, entry in ipairs((select(3, help.entries()))) do
            for _, name in ipairs(entry.names) do known[name] = true end
        end
        local names = {npp = "npp", nvjpeg = "nvjpeg", cublas = "cublas", cufft = "cufft", curand = "curand", nvtx = "nvtx", nvml = "nvml"}
        for short, name in pairs(names) do
            local ok, module = pcall(require, "gpuwb." .. name)
            for key, value in pairs(ok and module or {}) do
                if type(value) == "function" then assert.truthy(known[short .. "." .. key], ("no text for %s.%s"):format(short, key)) end
            end
            for one in pairs(known) do
                local key = one:match("^" .. short .. "%.(.*)$")
                assert(not key or not ok or module[key] ~= nil, "a text for " .. one .. ", which is not there")
            end
        end
        assert.truthy(tostring(gpu.help "npp.add"):find("npp.sub", 1, true))
        assert.equal(tostring(gpu.help "gpuwb.cublas"), tostring(gpu.help "cublas.version") .. "\n\n" .. tostring(gpu.help "gemm"))
        assert.equal(require("gpuwb.npp").add, help.find_function "npp.add")
    end)

    it("has texts for the fields of mats and images", function()
        local listed = {}
        for _, entry in ipairs((help.entries())) do
            if entry.kind then
                listed[entry.kind] = {}
                for _, f in ipairs(entry.fields) do
                    listed[entry.kind][f.name] = true
                end
            end
        end
        for name in pairs(require("gpuwb.mat").fields) do
            assert.truthy(listed.mat[name], "no text for the field " .. name)
            listed.mat[name] = nil
        end
        assert.same({}, listed.mat)
        local img = gpu.image("yuv420p", 2, 2, {matrix = "bt709", range = "full", siting = "left", transfer = "srgb", primaries = "bt709"})
        for name in pairs(img) do
            assert.truthy(listed.image[name], "no text for the field " .. name)
            listed.image[name] = nil
        end
        assert.same({}, listed.image)
        assert.truthy(listed.stream.handle and listed.event.device and listed["progress bar"].done)
    end)

    -- Runs an example; print's texts, a line each, are what "-->" says.
    local function run(entry)
        local wanted, got = {}, {}
        for _, line in ipairs(entry.example) do
            wanted[#wanted + 1] = line:match("%-%->%s*(.-)%s*$")
        end
        local chunk = assert(loadstring(table.concat(entry.example, "\n"), "=example of " .. entry.names[1]))
        local env = setmetatable({gpu = gpu, print = function(...)
            local texts = {}
            for i = 1, select("#", ...) do
                texts[i] = tostring((select(i, ...)))
            end
            got[#got + 1] = table.concat(texts, "  ")
        end}, {__index = _G})
        local ok, err = pcall(setfenv(chunk, env))
        if not ok and err.code == "UNSUPPORTED" and tostring(err):find("C or C++ compiler", 1, true) then return end    -- no compiler for kernels here
        assert.is_true(ok, tostring(err))
        assert.same(wanted, got)
    end

    helper.each_device(function()
        it("has examples that give what they say", function()
            local count = 0
            for _, entry in ipairs((help.entries())) do
                if entry.example then
                    run(entry)
                    count = count + 1
                end
            end
            assert.truthy(count >= 8)
        end)
    end)
end)

describe("gpu.help", function()
    it("finds a name in any spelling", function()
        for _, name in ipairs {"mat:roi", "m:roi", "roi", " roi() ", "mat.roi"} do
            assert.truthy(tostring(gpu.help(name)):find("^m:roi%(x, y, width, height%)"), name)
        end
        assert.truthy(tostring(gpu.help("gpu.mat")):find("^gpu%.mat%(width"))
        assert.truthy(tostring(gpu.help("mat")):find("elem_size"))
        assert.truthy(tostring(gpu.help(gpu.copy2d)):find("^gpu%.copy2d{"))
        assert.truthy(tostring(gpu.help(require("gpuwb.image").methods.convert)):find("^i:convert"))
        assert.truthy(tostring(gpu.help("step")):find("bytes from one row to the next"))
        local several = tostring(gpu.help("close"))
        assert.truthy(several:find("m:close", 1, true) and several:find("k:close", 1, true) and several:find("s:close(), e:close()", 1, true))
    end)

    it("tells of stages with their parameters", function()
        local text = tostring(gpu.help("resize")):gsub("%s+", " ")
        assert.truthy(text:find("p:resize([width, height, filter, antialias])", 1, true))
        assert.truthy(text:find("filter: nearest, bilinear, .* %(default bilinear%)"))
        assert.equal(text, (tostring(gpu.help("image:resize")):gsub("%s+", " ")))
    end)

    it("lists all names without one, and says what is near", function()
        local text = tostring(gpu.help())
        for _, word in ipairs {"explain_copy", "record_stream", "letterbox", "linearize"} do
            assert.truthy(text:find("%f[%w_]" .. word .. "%f[^%w_]"), word)
        end
        raises("BAD_ARGUMENT", {"gpu.help", "rezise", "resize"}, gpu.help, "rezise")
        raises("BAD_ARGUMENT", "lists all names", gpu.help, "zzz")
        raises("BAD_ARGUMENT", "no text", gpu.help, print)
        raises("BAD_ARGUMENT", "what", gpu.help, 5)
        raises("BAD_ARGUMENT", "no text", gpu.help, "")
    end)

    it("has sources", function()
        local text, where = help.source(gpu.shard)
        assert.truthy(text:find("^%-%-%- gpu%.shard%(list") and text:find("end$") and text:find("check.options", 1, true))
        assert.truthy(where:find("^lua/gpuwb/batch.lua:%d+$"))
        assert.truthy(select(2, help.source(print)):find("written in C"))
        assert.truthy(help.source(raises):find("^%-%- Runs fn, which must raise"))
        assert.truthy(select(2, help.source(loadstring("return 1", "=nowhere"))):find("not at hand"))
    end)
end)

describe("the short name help", function()
    it("prints in -e and at the prompt", function()
        local text = tostring(gpu.help("gpu.trim")) .. "\n"
        assert.same({text, ""}, {command.run({"-e", "help('gpu.trim')"}).out, command.run({"-e", "help('gpu.trim')"}).err})
        local result = command.run({"-i"}, {stdin = "help 'gpu.trim'\nhelp\ngpu.help == help"})
        assert.equal("", result.err)
        assert.equal(text .. tostring(gpu.help()) .. "\nfalse\n", result.out)
        assert.truthy(command.run({"-e", "help 'no_such'"}).err:find("there is no text for no_such", 1, true))
    end)
end)

describe("scripts/docs.lua", function()
    local folder
    setup(function() folder = command.folder() end)
    teardown(function() command.remove(folder) end)

    it("writes the page and the file for editors, with all names", function()
        local result = command.run({"scripts/docs.lua", folder})
        assert.same({"", 0}, {result.err, result.status})
        local page, meta = command.read(folder .. "/reference.html"), command.read(folder .. "/meta/gpuwb.lua")
        for name in pairs((select(2, help.entries()))) do
            assert.truthy(page:find('id="' .. name .. '"', 1, true), name .. " is not in the page")
            if name ~= "pipe:__call" and name ~= "gpu.version" then
                assert.truthy(meta:find("\nfunction " .. name .. "(", 1, true), name .. " is not in the file for editors")
            end
        end
        assert.truthy(meta:find("%-%-%-@param opts%? {packed%?: boolean,[^\n]* stream%?: gpuwb%.stream[^\n]*}\n%-%-%-@return gpuwb%.mat\n"
            .. "function gpu%.mat%(width, height, type, opts%) end"))
        assert.truthy(loadstring(meta))
        local count = 0
        for jpg, text in page:gmatch('<img src="data:image/jpeg;base64,([%w+/=]+)" alt=""><figcaption><code>([^<]*)') do
            local img = gpu.decode(require("tests.base64")(jpg))
            assert.truthy(img.width > 0, text)
            count = count + 1
        end
        assert.truthy(count > 15)
        for _, wanted in ipairs {{"gpu.map", "rings: 240x160", "colours: 240x160"}, {"gpu.kernel", "m: 240x160"}, {"gpu.pipe", "img: 240x160",
                                 "turned: 140x180"}, {"mat:roi", "m: 120x80"}, {"gpu.mat"}} do      -- the pictures of the last are of one colour
            local entry, found = page:match('id="' .. wanted[1]:gsub("%p", "%%%0") .. '".-\n</div>\n<div class="entry">'), {wanted[1]}
            for png, text in entry:gmatch('<img src="data:image/png;base64,([%w+/=]+)" alt=""><figcaption><code>([^<]*)') do
                local img = gpu.decode(require("tests.base64")(png))
                assert.equal(text, ("%s: %dx%d"):format(text:match("%w+"), img.width, img.height))
                found[#found + 1] = text
            end
            assert.same(wanted, found)
        end
        local luacheck = command.find "luacheck"
        if luacheck then
            local out = command.shell(command.quote(luacheck) .. " --no-color -q --std luajit --globals gpu --no-unused --no-redefined --no-max-line-length "
                .. command.quote(folder .. "/meta/gpuwb.lua"))
            assert.truthy(out.out:find("0 warnings / 0 errors", 1, true), out.out)
        end
    end)

    it("writes a file by which a language server finds mistakes, and none in the scripts", function()
        local server = command.find "lua-language-server"
        if not server then return pending "no lua-language-server" end
        local settings = command.read ".luarc.json"
        if not settings then return pending "needs a checkout" end
        command.shell(("mkdir -p %s/build/docs && cp -r %s/meta %s/build/docs && cp scripts/*.lua %s"):format(folder, folder, folder, folder))
        command.write(folder .. "/.luarc.json", settings)
        command.write(folder .. "/wrong.lua", [[
local m = gpu.mat(4, 4, "u8")
m:no_such()
print(m.wdth, m.width)
gpu.nothing()
local i = gpu.load("x.png"):resize(640):flip("sideways")
gpu.mat("a")
i:resize(640, 480):save("b.jpg")
]])
        local out = folder .. "/found.json"
        command.shell(("cd %s && %s --check=. --checklevel=Warning --check_format=json --check_out_path=%s --logpath=%s/log")
            :format(folder, server, out, folder))
        local text, found = command.read(out), {}
        for file, list in text:gmatch('"file:[^"]*/([%w_.]+)": (%b[])') do
            for code, message, line in list:gmatch('"code": "([^"]*)",%s*"message": "(.-)",%s*"range": {.-"start": {%s*"character": %d+,%s*"line": (%d+)') do
                if file == "wrong.lua" then
                    found[line + 1] = true
                else
                    local ours = message:find("gpuwb", 1, true) and code ~= "cast-local-type"
                    assert.falsy(ours or code == "missing-parameter" or code == "redundant-parameter", file .. ":" .. line + 1 .. ": " .. message)
                end
            end
        end
        assert.same({[2] = true, [3] = true, [4] = true, [5] = true, [6] = true}, found)
    end)
end)
