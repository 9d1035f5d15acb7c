-- SPDX-License-Identifier: MIT
-- Python inside a script: values, calls, errors, references, threads, signals, the ways out, and how an interpreter is found.
local gpu = require "gpuwb"
local ffi = require "ffi"
local helper = require "tests.helper"
local python = require "tests.python_helper"

local py = python.py

describe("Python in a script", function()
    if not py then
        pending("there is no Python to open: " .. python.why)
        return
    end

    local identity, typename

    setup(function()
        identity = py.eval("lambda x: x")
        typename = py.eval("lambda x: type(x).__name__")
    end)

    -- A fresh Python dict, for code that assigns.
    local function names(t)
        return py.builtins.dict(py.dict(t or {}))
    end

    describe("values", function()
        it("go there as the type that they are", function()
            for _, case in ipairs {
                {nil, "NoneType"}, {py.None, "NoneType"}, {true, "bool"}, {false, "bool"}, {0, "int"}, {-7, "int"}, {2 ^ 53, "int"}, {-2 ^ 53, "int"},
                {2 ^ 53 + 2, "float"}, {1.5, "float"}, {-0.0, "float"}, {1 / 0, "float"}, {0 / 0, "float"}, {py.float(3), "float"}, {2LL ^ 62, "int"},
                {18446744073709551615ULL, "int"}, {"", "str"}, {"abc", "str"}, {"å\0ß", "str"}, {py.bytes "\255\0", "bytes"}, {{}, "list"}, {{1, 2}, "list"},
                {{a = 1}, "dict"}, {py.list {}, "list"}, {py.tuple {}, "tuple"}, {py.tuple {1, n = 3}, "tuple"}, {py.dict {}, "dict"}, {py.dict {5}, "dict"},
            } do
                assert.equal(case[2], typename((case[1])))
            end
        end)

        it("come back as they went", function()
            for _, v in ipairs {true, false, 0, -7, 2 ^ 53, -2 ^ 53, 1.5, 1e300, 1 / 0, -1 / 0, "", "abc", "å\0ß", "\240\159\144\141"} do
                assert.equal(v, identity(v))
            end
            assert.is_nil(identity(nil))
            assert.is_nil(identity(py.None))
            local nan = identity(0 / 0)
            assert.is_true(nan ~= nan)
            assert.equal(-1 / 0, 1 / identity(-0.0))
            assert.equal("\255\0x", identity(py.bytes "\255\0x"))
        end)

        it("keep whole numbers of 64 bits exact", function()
            for _, v in ipairs {9007199254740993LL, -9007199254740993LL, 9223372036854775807LL, -9223372036854775807LL - 1} do
                local back = identity(v)
                assert.is_true(ffi.istype("int64_t", back))
                assert.is_true(back == v)
            end
            local big = identity(18446744073709551615ULL)
            assert.is_true(ffi.istype("uint64_t", big) and big == 18446744073709551615ULL)
            assert.equal(9007199254740992, identity(9007199254740992LL))
            local huge = py.eval("2 ** 64")
            assert.equal("int", typename(huge))
            assert.equal("18446744073709551616", tostring(huge))
            assert.equal(2 ^ 64, py.builtins.float(huge))
        end)

        it("travel in tables, deep ones too", function()
            local v = py.totable(identity {1, "a", {x = {true, py.None, 2.5}, y = {}}})
            assert.same({1, "a"}, {v[1], v[2]})
            assert.equal(true, v[3].x[1])
            assert.is_true(py.is(v[3].x[2], nil))
            assert.equal(2.5, v[3].x[3])
            assert.same({}, v[3].y)
            assert.equal("(1, None, 3)", py.repr(py.tuple {1, nil, 3, n = 3}))
            assert.is_true(py.eval("d == {5: 'x', 'k': [1]}", {d = py.dict {[5] = "x", k = {1}}}))
        end)

        it("hold all bytes of undecodable paths", function()
            assert.equal("caf\233", py.eval("'caf\\udce9'"))
        end)

        it("without a counterpart are refused", function()
            helper.raises("BAD_ARGUMENT", {"no UTF-8", "py.bytes"}, identity, "\255")
            helper.raises("BAD_ARGUMENT", "Lua function", identity, print)
            helper.raises("BAD_ARGUMENT", "a thread", identity, coroutine.create(print))
            helper.raises("BAD_ARGUMENT", "uintptr_t", identity, ffi.new("int[3]"))
            helper.raises("BAD_ARGUMENT", "a userdata", identity, newproxy(true))
            helper.raises("BAD_ARGUMENT", "neither a list nor a dict", identity, {1, 2, x = 3})
            helper.raises("BAD_ARGUMENT", "a table", identity, setmetatable({}, {}))
            helper.raises("BAD_ARGUMENT", "last argument", identity, py.kw {x = 1}, 2)
            helper.raises("BAD_ARGUMENT", "keyword", py.kw, {1})
            helper.raises("BAD_ARGUMENT", "got 5", py.kw, 5)
            helper.raises("BAD_ARGUMENT", "got 5", py.tuple, 5)
            helper.raises("BAD_ARGUMENT", "n must be", py.list, {n = -1})
            helper.raises("BAD_ARGUMENT", "got nil", py.dict)
            helper.raises("BAD_ARGUMENT", "s must be", py.bytes, 5)
            helper.raises("BAD_ARGUMENT", "x must be", py.float, "5")
            local loop = {}
            loop[1] = loop
            helper.raises("BAD_ARGUMENT", "holds itself", identity, loop)
            local m = gpu.mat(1, 1, "u8")
            m:close()
            helper.raises("CLOSED", "closed", identity, m)
            local img = gpu.image("nv12", 4, 4)
            helper.raises("BAD_ARGUMENT", "2 planes", identity, img)
            assert.equal(1, identity(1))
        end)

        it("of a list that holds itself do not become tables", function()
            local d = names()
            py.exec("l = [1]\nl.append(l)", d)
            helper.raises("BAD_ARGUMENT", "holds itself", py.totable, py.item(d, "l"))
        end)
    end)

    describe("objects", function()
        it("have attributes, items, a length and iterators", function()
            local d = names()
            py.exec([[
class Thing:
    kind = "thing"
    def __init__(self, *args, **kwargs):
        self.args, self.kwargs = args, kwargs
    def method(self, x, y=2):
        return (self, x, y)
]], d)
            local thing = py.item(d, "Thing")(1, "two", py.kw {three = 3})
            assert.equal("thing", thing.kind)
            assert.equal(2, #thing.args)
            assert.equal("two", thing.args[1])
            assert.equal("two", thing.args[-1])
            assert.equal(3, py.item(thing.kwargs, "three"))
            thing.kind = {1, 2}
            assert.equal("[1, 2]", tostring(thing.kind))
            thing.kind[0] = "first"
            assert.equal("['first', 2]", py.repr(thing.kind))
            local result = thing.method(7, py.kw {y = 8})
            assert.is_true(py.is(result[0], thing))
            assert.is_true(result[0] == thing)
            assert.equal(7, result[1])
            assert.equal(8, result[2])
            assert.equal("['first']", py.repr(thing.kind[py.slice(0, 1)]))
            py.set_item(thing.kwargs, "four", 4)
            py.del_item(thing.kwargs, "three")
            assert.equal("{'four': 4}", tostring(thing.kwargs))
            assert.is_true(py.isinstance(thing, py.item(d, "Thing")))
            assert.is_false(py.isinstance(5, py.item(d, "Thing")))
        end)

        it("are iterated with a count, None included", function()
            local seen = {}
            for i, v in py.iter(py.eval("[10, None, 'x']")) do
                seen[i] = v == nil and "none" or v
            end
            assert.same({10, "none", "x"}, seen)
            for _ in py.iter(py.eval("()")) do
                error("an empty tuple has no items")
            end
            local sum = 0
            for _, v in py.iter(py.eval("(i * i for i in range(100))")) do
                sum = sum + v
            end
            assert.equal(328350, sum)
        end)

        it("compute and compare", function()
            local fraction = py.import("fractions").Fraction
            local a, b = fraction(1, 3), fraction(1, 6)
            assert.equal("1/2", tostring(a + b))
            assert.equal("1/6", tostring(a - b))
            assert.equal("1/18", tostring(a * b))
            assert.equal("2", tostring(a / b))
            assert.equal("-1/3", tostring(-a))
            assert.equal("4/3", tostring(1 + a))
            assert.equal("1/9", tostring(a ^ 2))
            assert.equal("0", tostring(a % b))
            assert.is_true(b < a and b <= a and a > b)
            assert.is_false(a < b)
            assert.is_true(a == fraction(2, 6))
            assert.is_false(a == b)
            assert.is_false(a == nil)
            for _, other in ipairs {print, {1, 2, x = 3}, "\255", ffi.new("int[1]"), newproxy(true)} do
                assert.is_false(a == other)
            end
            assert.is_true(py.eval("1") == 1)
            local one = py.eval("[1]")
            assert.is_true(one == py.eval("[1]"))
            py.release(one)
            assert.is_false(one == py.eval("[1]"))
            assert.equal("1/3 and 1/6", a .. " and " .. b)
        end)

        it("give their number", function()
            local d = names()
            py.exec("import enum\nclass E(enum.IntEnum):\n    A = 5", d)
            assert.equal(5, py.number(py.item(d, "E").A))
            assert.equal(0.25, py.number(py.import("fractions").Fraction(1, 4)))
            helper.raises("PYTHON", "ValueError", py.number, "x")
        end)

        it("are refused where one is wanted and none is given", function()
            helper.raises("BAD_ARGUMENT", "got 5", py.item, 5, 1)
            helper.raises("BAD_ARGUMENT", "got nil", py.iter)
            helper.raises("BAD_ARGUMENT", "got 5", py.totable, 5)
            helper.raises("BAD_ARGUMENT", "got nil", py.with)
            helper.raises("BAD_ARGUMENT", "the module's name must be a string", py.import)
            helper.raises("BAD_ARGUMENT", "the code must be a string", py.exec)
            helper.raises("BAD_ARGUMENT", "NUL", py.import, "a\0b")
            helper.raises("BAD_ARGUMENT", "code must be", py.exec, 5)
            helper.raises("BAD_ARGUMENT", "names must be", py.eval, "1", 5)
            helper.raises("BAD_ARGUMENT", "a name must be", py.eval, "1", {5})
        end)
    end)

    describe("code", function()
        it("runs in __main__", function()
            py.exec("gpuwb_spec_value = 5")
            assert.equal(5, py.eval("gpuwb_spec_value"))
            assert.equal(5, py.import("__main__").gpuwb_spec_value)
            py.exec("del gpuwb_spec_value")
            helper.raises("PYTHON", "NameError", py.eval, "gpuwb_spec_value")
        end)

        it("sees a table's names in this run alone, in inner scopes too", function()
            assert.equal("[0, 2, 4]", tostring(py.eval("[x * i for i in range(3)]", {x = 2})))
            py.exec("gpuwb_spec_once = x", {x = 1})
            helper.raises("PYTHON", "NameError", py.eval, "gpuwb_spec_once")
            helper.raises("PYTHON", "NameError", py.eval, "x")
        end)

        it("assigns in a dict that is given", function()
            local d = names {x = 20}
            py.exec("def f():\n    return x + 1\ny = f()", d)
            assert.equal(21, py.item(d, "y"))
        end)
    end)

    describe("an exception", function()
        it("is an error with its class and traceback", function()
            local d = names()
            py.exec("def inner(x):\n    raise ValueError('bad %s' % x)\ndef outer(x):\n    inner(x)", d)
            local err = helper.raises("PYTHON", {"ValueError: bad 7", "in inner", "in outer"}, py.item(d, "outer"), 7)
            assert.equal("ValueError", err.type)
            assert.truthy(err.traceback:find("Traceback (most recent call last)", 1, true))
            assert.equal("bad 7", err.exception.args[0])
        end)

        it("leaves all working, wherever it comes up", function()
            local d = names()
            py.exec([[
class Bad:
    def __len__(self): raise RuntimeError("len")
    def __getitem__(self, key): raise RuntimeError("item")
    def __setitem__(self, key, value): raise RuntimeError("set")
    def __getattr__(self, name): raise RuntimeError("attribute")
    def __setattr__(self, name, value): raise RuntimeError("assign")
    def __iter__(self): raise RuntimeError("iter")
    def __eq__(self, other): raise RuntimeError("eq")
    def __lt__(self, other): raise RuntimeError("lt")
    def __add__(self, other): raise RuntimeError("add")
    def __str__(self): raise RuntimeError("str")
    def __call__(self): raise RuntimeError("call")
def half():
    yield 1
    raise RuntimeError("half")
class Untold(Exception):
    def __str__(self): raise RuntimeError("no words")
]], d)
            local bad = py.item(d, "Bad")()
            for _, case in ipairs {
                {"len", function() return #bad end}, {"item", function() return bad[1] end}, {"set", function() bad[1] = 2 end},
                {"attribute", function() return bad.x end}, {"assign", function() bad.x = 1 end}, {"iter", function() return py.iter(bad) end},
                {"eq", function() return bad == py.None end}, {"lt", function() return bad < 1 end}, {"add", function() return bad + 1 end},
                {"str", function() return py.tostring(bad) end}, {"call", function() return bad() end},
                {"item", function() py.set_item(bad.x or bad, 1, 2) end, "attribute"},
            } do
                helper.raises("PYTHON", "RuntimeError: " .. (case[3] or case[1]), case[2])
                assert.equal(3, py.eval("1 + 2"))
            end
            assert.truthy(tostring(bad):find("fails"))
            local count = 0
            helper.raises("PYTHON", "half", function()
                for _ in py.iter(py.item(d, "half")()) do
                    count = count + 1
                end
            end)
            assert.equal(1, count)
            helper.raises("PYTHON", "Untold", py.exec, "raise Untold()", d)
            helper.raises("PYTHON", "SystemExit: 3", py.exec, "raise SystemExit(3)")
            helper.raises("PYTHON", "KeyboardInterrupt", py.exec, "raise KeyboardInterrupt")
            helper.raises("PYTHON", {"SyntaxError", "py.exec"}, py.exec, "x = = 1")
            helper.raises("PYTHON", {"ModuleNotFoundError", py.info.executable or ""}, py.import, "no_such_module_at_all")
            helper.raises("PYTHON", "AttributeError", function() return py.builtins.no_such_name end)
            helper.raises("PYTHON", "not callable", function() return py.None() end)
        end)

        it("of a call with a colon says so", function()
            local list, math = py.eval("[1]"), py.import("math")
            helper.raises("PYTHON", {"TypeError", "a dot, never a colon"}, function() list:append(2) end)
            helper.raises("PYTHON", {"TypeError", "a dot, never a colon"}, function() math:sqrt(2) end)
            local err = helper.raises("PYTHON", "TypeError", function() math.sqrt(list) end)
            assert.is_nil(tostring(err):find("colon", 1, true))
            assert.equal(2, math.sqrt(4))
        end)

        it("names its cause", function()
            helper.raises("PYTHON", {"KeyError", "ZeroDivisionError", "direct cause"}, py.exec,
                "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise KeyError('k') from e")
        end)

        it("in arguments that cannot be converted drops what was made so far", function()
            local d = names()
            py.exec("class Token: pass\nimport weakref, gc\ntoken = Token()\nref = weakref.ref(token)", d)
            local token = py.item(d, "token")
            for _ = 1, 10 do
                assert.is_false(pcall(identity, token, {token, token}, print))
                assert.is_false(pcall(identity, {a = token, b = {token, "\255"}}))
            end
            py.del_item(d, "token")
            py.release(token)
            assert.is_nil(py.item(d, "ref")())
        end)
    end)

    describe("with", function()
        local d

        before_each(function()
            d = names()
            py.exec([[
class Context:
    def __init__(self, swallow): self.swallow, self.log = swallow, []
    def __enter__(self): self.log.append("in"); return 5
    def __exit__(self, kind, value, trace): self.log.append(kind.__name__ if kind else "out"); return self.swallow
]], d)
        end)

        it("enters, leaves, and gives what the function returns", function()
            local context = py.item(d, "Context")(false)
            assert.same({5, "x"}, {py.with(context, function(v) return v, "x" end)})
            assert.equal("['in', 'out']", tostring(context.log))
        end)

        it("passes errors through the context", function()
            local context = py.item(d, "Context")(false)
            helper.raises("PYTHON", "ZeroDivisionError", py.with, context, function() return py.eval("1 / 0") end)
            local ok, err = pcall(py.with, context, function() error("boo", 0) end)
            assert.same({false, "boo"}, {ok, err})
            assert.equal("['in', 'ZeroDivisionError', 'in', 'RuntimeError']", tostring(context.log))
            assert.is_nil(py.with(py.item(d, "Context")(true), function() error("boo") end))
            for _, odd in ipairs {setmetatable({}, {__tostring = function() error("worse") end}), {exception = 5}, false} do
                assert.is_nil(py.with(py.item(d, "Context")(true), function() error(odd) end))
            end
        end)
    end)

    describe("references", function()
        local d

        before_each(function()
            d = names()
            py.exec("import weakref\nclass Token: pass\nrefs = []\ndef make():\n    t = Token()\n    refs.append(weakref.ref(t))\n    return t\n"
                .. "def alive():\n    return sum(r() is not None for r in refs)", d)
        end)

        it("are dropped by the collector, and by release at once", function()
            local make, alive = py.item(d, "make"), py.item(d, "alive")
            local kept = make()
            for _ = 1, 50 do
                make()
            end
            collectgarbage()
            collectgarbage()
            assert.equal(1, alive())
            py.release(kept)
            py.release(kept)
            assert.equal(0, alive())
            helper.raises("CLOSED", "released", function() return kept.x end)
            helper.raises("CLOSED", "released", identity, kept)
        end)

        it("of a call's arguments and of its steps end with the call", function()
            local make, alive = py.item(d, "make"), py.item(d, "alive")
            local list = py.eval("[]")
            local token = make()
            list.append(token)
            py.release(identity({token, {x = token}, py.tuple {token}}, py.kw {}))
            py.release(token)
            assert.equal(1, alive())
            list.clear()
            assert.equal(0, alive())
        end)

        it("hold what an exception holds, until the error goes", function()
            local alive = py.item(d, "alive")
            py.exec("def fail():\n    t = make()\n    raise ValueError(t)", d)
            local _, err = pcall(py.item(d, "fail"))
            assert.equal(1, alive())
            err = err.code -- luacheck: ignore 311
            collectgarbage()
            collectgarbage()
            assert.equal(0, alive())
        end)

        it("may go while the same object is used elsewhere", function()
            for i = 1, 2000 do
                local o = py.builtins.list({i})
                assert.equal(i, o[0])
                if i % 500 == 0 then
                    collectgarbage()
                end
            end
        end)
    end)

    describe("threads of Python", function()
        it("go on while Lua runs, and between calls", function()
            local d = names()
            py.exec([[
import threading, time
count, stop = 0, False
def work():
    global count
    while not stop:
        count += 1
        time.sleep(0.001)
thread = threading.Thread(target=work)
thread.start()
]], d)
            local before, s = py.item(d, "count"), gpu.stream {device = "host"}
            s:sleep(100):synchronize()      -- no call into Python meanwhile
            local after = py.item(d, "count")
            py.exec("stop = True\nthread.join()", d)
            assert.is_true(after > before + 3, ("%d, then %d"):format(before, after))
        end)

        it("and calls from Lua take turns", function()
            local d = names()
            py.exec([[
import threading
total, stop = 0, False
def busy():
    global total
    while not stop:
        total += 1
threads = [threading.Thread(target=busy) for _ in range(2)]
for t in threads: t.start()
]], d)
            for i = 1, 30 do
                assert.equal(i * i, py.eval("x * x", {x = i}))
            end
            py.exec("stop = True\nfor t in threads: t.join()", d)
            assert.is_true(py.item(d, "total") > 0)
        end)
    end)
end)

-- ---- in processes of their own

describe("a process with Python", function()
    if not py then
        pending("there is no Python to open: " .. python.why)
        return
    end

    local function run(code, before)
        local file = os.tmpname()
        local out = assert(io.open(file, "w"))
        out:write(code)
        out:close()
        local text, status = helper.run((before or "") .. " " .. helper.command() .. " " .. file)
        os.remove(file)
        return text, status
    end

    local start = "local py = require 'gpuwb.python' "

    it("keeps the order of what Lua and Python print", function()
        local code = start .. "for i = 1, 3 do print('lua', i) py.exec('print(\"python\", i)', {i = i}) end io.write('last') py.eval('print(\"!\")')"
        assert.same({"lua\t1\npython 1\nlua\t2\npython 2\nlua\t3\npython 3\nlast!\n", 0}, {run(code)})
        assert.same({"å\n", 0}, {run(start .. "py.exec('print(\"å\")')")})
    end)

    for name, way in pairs {
        ["the end of the script"] = {"", 0}, ["os.exit(0)"] = {"os.exit(0)", 0}, ["os.exit(3)"] = {"os.exit(3)", 3},
        ["os.exit(true, true)"] = {"os.exit(true, true)", 0}, ["an error"] = {"error('out of ideas')", 1, "out of ideas"},
        ["an exception"] = {"py.eval('1 / 0')", 1, "ZeroDivisionError"},
    } do
        it("is left by " .. name .. " with all that Python does at its end", function()
            local code = start .. [[
                keep = {py.import("__main__"), py.import("sys")}    -- Python holds them too: at os.exit nobody drops Lua's reference
                local m = gpu.mat(64, 64, "u8", {fill = 1, device = "host"})
                py.exec("class Box: pass\nbox = Box()\nbox.mat, box.self = m, box", {m = m})
                keep[1].held = m
                keep.held = keep[1].held
                keep.late = newproxy(true)          -- a finalizer that runs after those of the objects
                getmetatable(keep.late).__gc = function() pcall(function() return keep[1].x end) pcall(py.eval, "1") end
                py.exec("import atexit, sys, threading, time\n"
                    .. "atexit.register(lambda: print('exit function'))\n"
                    .. "threading.Thread(target=lambda: (time.sleep(0.05), print('thread'))).start()\n"
                    .. "threading.Thread(target=lambda: time.sleep(1000), daemon=True).start()\n"
                    .. "sys.stdout.write('no newline ')")
            ]] .. way[1]
            local text, status = run(code)
            assert.equal(way[2], status, text)
            assert.truthy(text:find("no newline ", 1, true), text)
            -- the thread is waited for, and may print before the error is told
            assert.truthy(text:find("no newline .*thread\n.*exit function\n$"), text)
            if way[3] then
                assert.truthy(text:find(way[3], 1, true), text)
            else
                assert.equal("no newline thread\nexit function\n", text)
            end
        end)
    end

    it("leaves Ctrl-C to gpuwb", function()
        local text, status = run(start .. "py.exec('import time') io.write('go ') io.flush() for _ = 1, 400 do py.exec('time.sleep(0.05)') end print('never')",
            "timeout --foreground --signal=INT --preserve-status 2")
        assert.truthy(text:find("interrupted!", 1, true), text)
        assert.falsy(text:find("never", 1, true), text)
        assert.falsy(text:find("KeyboardInterrupt", 1, true), text)
        assert.equal(1, status)
    end)

    it("leaves the other signals as they are", function()
        local text = run(start .. "local s = py.import('signal') print(py.is(s.getsignal(s.SIGPIPE), s.SIG_DFL))")
        assert.equal("true\n", text)
    end)

    it("runs several Lua states, and outlives them", function()
        local code = start .. [[
            local lua = py.import("gpuwb").Lua()
            local twice = lua.execute("local py = require 'gpuwb.python' return function(x) return py.eval('x * 2', {x = x}) end")
            assert(twice(21) == 42)
            local m = gpu.mat(3, 2, "u8", {fill = 9, device = "host"})
            assert(lua.execute("local m = ... m:fill(m:at(0, 0) + 1) return m:at(2, 1)", m) == 10 and m:at(0, 0) == 10)
            lua.close()
            assert(py.eval("1 + 1") == 2)
            print("done")
        ]]
        assert.same({"done\n", 0}, {run(code)})
    end)

    it("says what it tried where there is no usable Python", function()
        local code = "print(select(2, pcall(require, 'gpuwb.python')))"
        local text = run(code, "GPUWB_PYTHON=/no/such/python3")
        assert.truthy(text:find("GPUWB_PYTHON: /no/such/python3 does not run", 1, true), text)
        text = run(code, "GPUWB_PYTHON=/no/such/libpython3.99.so.1.0")
        assert.truthy(text:find("libpython3.99.so.1.0", 1, true), text)
        text = run(code, "GPUWB_PYTHON=/bin/true")
        assert.truthy(text:find("/bin/true does not run", 1, true), text)
        text = run(code, "GPUWB_PYTHON=libm.so.6")
        assert.truthy(text:find("libm.so.6 is no library of Python", 1, true), text)
        local folder = helper.folder()
        helper.run(("printf '#!/bin/sh\\nprintf \"python\\\\t2.7.18\\\\t/x\\\\n\"\\n' > %s/python3; chmod +x %s/python3"):format(folder, folder))
        text = run(code, ("GPUWB_PYTHON=%s/python3"):format(folder))
        assert.truthy(text:find("is Python 2.7.18; wanted 3.8 or later", 1, true), text)
        helper.run(("printf '#!/bin/sh\\nprintf \"python\\\\t3.99.1\\\\t/x\\\\nname\\\\tlibpython3.99.so\\\\n\"\\n' > %s/python3"):format(folder))
        text = run(code, ("GPUWB_PYTHON=%s/python3"):format(folder))
        assert.truthy(text:find("without a shared library", 1, true) and text:find("libpython3.99", 1, true), text)
        helper.remove(folder)
    end)

    it("has the virtual environment of the interpreter that is named", function()
        local folder = helper.folder()
        local text, status = helper.run(("%s -m venv --without-pip %s/venv"):format(py.info.executable, folder))
        if status ~= 0 then
            helper.remove(folder)
            pending("this Python makes no virtual environments: " .. text:match("[^\n]*"))
        end
        text = run(start .. "local sys = py.import('sys') print(sys.executable, sys.prefix, py.info.executable)",
            ("GPUWB_PYTHON=%s/venv/bin/python3"):format(folder))
        local exe = folder .. "/venv/bin/python3"
        helper.remove(folder)
        assert.equal(("%s\t%s/venv\t%s\n"):format(exe, folder, exe), text)
    end)

    it("takes a library by its name", function()
        if not py.info.library:find("^/") then
            pending("the library of this Python has no path")
        end
        local text, status = run(start .. "print(py.info.version)", "GPUWB_PYTHON=" .. py.info.library)
        assert.same({py.info.version .. "\n", 0}, {text, status})
    end)
end)
