-- SPDX-License-Identifier: MIT
-- Any call with any arguments: every public function and method with nonsense of all kinds, in rows from fixed seeds. A result that prints itself, or an error
-- that has a code and names the script's line; and after each row the workbench works. In child processes, so that a crash or a hang tells its call.
local helper = require "tests.helper"

local SCRIPT = [=[
local gpu, ffi = require "gpuwb", require "ffi"
local seed, calls, folder = tonumber(arg[1]), tonumber(arg[2]), arg[3]
local state = ffi.new("uint32_t[1]", seed * 2654435761 % 2 ^ 32 + 1)
local function random(n)    -- 1..n
    local x = state[0]
    x = bit.bxor(x, bit.lshift(x, 13))
    x = bit.bxor(x, bit.rshift(x, 17))
    state[0] = bit.bxor(x, bit.lshift(x, 5))
    return tonumber(state[0]) % n + 1
end
local function one(list) return list[random(#list)] end

gpu.limits {pixels = 2 ^ 20, bytes = 2 ^ 24}
gpu.limit(2 ^ 27)
local stream = gpu.stream()
local types = {"u8", "u8x3", "u16", "f32", "f16x2", "i32", "f64x4"}
local words = {"", "x", "%s%n", "a\0b", ("x"):rep(500), "nv12", "rgb24", "gray", "yuv420p", "bt709", "limited", "png", "jpg", "npy", "host",
    "cuda:7", "rows", "area", "chw",
    "u8", "f32x3", "8UC3", "u8x9", folder .. "/a.png", folder, folder .. "/none/b.png", folder .. "/out.png"}
local function mat() return gpu.mat(random(20) - 1, random(20) - 1, one(types), random(2) == 1 and {fill = 1} or nil) end
local function image() return gpu.image("nv12", 16, 10, {matrix = "bt709", range = "limited"}) end
local function graph()
    local m = gpu.mat(4, 4, "u8", {fill = 1})
    stream = pcall(stream.query, stream) and stream or gpu.stream()
    return stream:capture(function(s) m:fill(2, {stream = s}) end)
end
local function closed(object)
    object:close()
    return object
end
gpu.save(gpu.mat(7, 5, "u8x3", {fill = 9}), folder .. "/a.png")
local values = {
    function() return nil end, function() return random(2) == 1 end, function() return one {0 / 0, 1 / 0, -1 / 0, -0.0, 0.5, 2 ^ 31, -2 ^ 31, 2 ^ 53,
        1e308, -1} end,
    function() return random(12) - 1 end, function() return random(300) end, function() return one(words) end, function() return one(words) end,
    function() return one {{}, {1, 2, 3}, {0 / 0}, {{}, {{}}}, {"x", nil, "y"}} end, function() local t = {} t[1] = t return t end,
    function() return function() error("mine", 0) end end, function() return function(...) return ... end end, function() return coroutine.create(print) end,
    function() return one {io.stdout, newproxy(true), setmetatable({}, {__index = function() error("mine", 0) end,
        __tostring = function() error("mine", 0) end})} end,
    function() return one {ffi.new("void *"), ffi.new("int64_t", -5), 5ULL, ffi.typeof("int"), ffi.new("uint8_t[64]"), ffi.new("complex"), ffi.C} end,
    mat, mat, function() return gpu.mat(30, 20, "u8x3", {fill = 1}):roi(random(9), random(9), random(20), random(9)) end, function() return closed(mat()) end,
    image, function() return gpu.image("rgb24", random(9) - 1, random(9) - 1) end, function() return closed(image()) end,
    function() local i = image() i[one {"planes", "width", "format", "matrix"}] = one {{}, 0 / 0, "rgb24", 5} return i end,
    function() return stream end, function() return closed(gpu.stream()) end, function() return gpu.event() end,
    function() return closed(gpu.event()) end, graph,
    function() return gpu.pipe():resize(random(9), random(9)) end, function() return gpu.format("nv12") end, function() return gpu.progress(3) end,
    function() return gpu.writer() end, function() return gpu.files(folder) end, function() return {image(), mat()} end, function() return gpu end,
}
local function value()
    return one(values)()
end

-- Every function, with a maker of the object whose method it is.
local functions, known = {}, {}
local function add(prefix, t, make)
    local names = {}
    for name, fn in pairs(t) do
        if type(fn) == "function" and not name:find("^__") then names[#names + 1] = name end
    end
    table.sort(names)
    for _, name in ipairs(names) do
        functions[#functions + 1] = {name = prefix .. name, fn = t[name], make = make}
    end
end
add("gpu.", gpu)
for kind, methods in pairs {mat = {require("gpuwb.mat").methods, mat}, image = {require("gpuwb.image").methods, image},
        stream = {require("gpuwb.stream").methods, gpu.stream},
    event = {require("gpuwb.stream").event_methods, gpu.event}} do
    add(kind .. ":", methods[1], methods[2])
end
for kind, make in pairs {graph = graph, pipe = function() return gpu.pipe():resize(4, 4) end, format = function() return gpu.format("nv12") end,
    progress = function() return gpu.progress(3) end, writer = gpu.writer, files = function() return gpu.files(folder) end,
    video_writer = function() return gpu.video_writer(folder .. "/v.mkv") end} do
    local meta = getmetatable(make())
    add(kind .. ":", type(meta.__index) == "table" and meta.__index or meta, make)
end
table.sort(functions, function(a, b) return a.name < b.name end)

local function show(v)
    local ok, text = pcall(tostring, v)
    return type(v) == "string" and ("%q"):format(v:sub(1, 40)) or ok and text:sub(1, 60) or type(v)
end

state[0] = seed * 40503     -- whatever the tables' order took
local device = gpu.device()
local last = io.open(folder .. "/last", "w")
for i = 1, calls do
    local f, args, n = one(functions), {}, random(6) - 1
    args[1] = f.make and random(12) > 1 and f.make() or value()
    for k = 2, n do
        args[k] = value()
        if known[f.name] and random(3) == 1 then
            args[k] = {}
            for _ = 1, random(4) do args[k][one(known[f.name])] = value() end
        end
    end
    if random(6) == 1 then
        n = n + 1
        args[n] = {unheard_of = 1}
    end
    n = math.max(n, f.make and 1 or n)
    local texts = {}
    for k = 1, n do texts[k] = show(args[k]) end
    local call = f.name .. "(" .. table.concat(texts, ", "):gsub("%c", " ") .. ")"
    last:seek("set")
    last:write(call, (" "):rep(600), "\n")
    last:flush()
    local left_out = f.name == "gpu.from_dlpack" or f.name == "gpu.reset" and random(10) > 1   -- a pointer to what is no tensor is believed
    if f.name == "stream:sleep" and type(args[2]) == "number" then args[2] = math.min(args[2], 5) end
    local start = os.time()
    local ok, result = true, nil
    if not left_out then
        local function run()
            local first = f.fn(unpack(args, 1, n))      -- no tail call, which would leave no line to name
            return first
        end
        if random(10) == 1 then
            ok, result = coroutine.resume(coroutine.create(run))
        else
            ok, result = pcall(run)
        end
    end
    if os.time() - start > 5 then print("slow: " .. call) end
    if ok and not rawequal(result, args[1]) then
        local fine, why = pcall(tostring, result)
        if not fine and not tostring(why):find("mine") then print("does not print: " .. call .. ": " .. tostring(why)) end
    elseif not ok and type(result) == "table" and rawget(result, "code") then
        local names = tostring(result.message):match("known: ([%w_, ]+)")
        if names and not known[f.name] then
            known[f.name] = {}
            for name in names:gmatch("[%w_]+") do table.insert(known[f.name], name) end
        end
        if result.code == "INTERNAL" or #result.message < 12 or not result.where then print("poor: " .. call .. ": " .. tostring(result)) end
    elseif not ok and not tostring(result):find("mine") then
        print("no error of gpuwb's: " .. call .. ": " .. tostring(result))
    end
    if i % 20 == 0 then
        gpu.device(device)
        gpu.limit(2 ^ 27)
        gpu.limits {pixels = 2 ^ 20, bytes = 2 ^ 24}
        gpu.checks("off")
        if not pcall(stream.query, stream) then stream = gpu.stream() end
        assert(gpu.mat(5, 5, "u8", {fill = 7}):at(4, 4) == 7)
    end
    if i % 300 == 0 then collectgarbage() end
end
print("done")
os.exit(0, true)
]=]

describe("any call with any arguments", function()
    local folder
    setup(function()
        folder = helper.run("mktemp -d"):match("[^\n]+")
        local file = assert(io.open(folder .. "/script.lua", "w"))
        file:write(SCRIPT)
        file:close()
    end)
    teardown(function()
        helper.run("rm -rf " .. folder)
    end)

    for seed = 1, 4 do
        it("is a result or an error that says what and where, seed " .. seed, function()
            local own = folder .. "/" .. seed
            local out, status = helper.run(("mkdir %s; cd %s; env -u DISPLAY -u GPUWB_SHOW HOME=%s TMPDIR=. timeout 60 %s --device host "
                .. "%s/script.lua %d 2500 %s </dev/null 2>err"):format(
                own, own, own, helper.command(), folder, seed, own))
            local last, err = io.open(own .. "/last"), io.open(own .. "/err")
            assert.equal("done\n", out:sub(-5))
            local wrong = {}
            for line in out:gmatch("[^\n]+") do
                if line:find("^[%a ']+: [%w_.:]+%(") then wrong[#wrong + 1] = line end
            end
            assert.same({}, wrong)
            assert.equal(0, status, (last and last:read("*l") or "") .. (err and err:read("*a") or ""))
        end)
    end
end)
