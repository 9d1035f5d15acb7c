# SPDX-License-Identifier: MIT
"""lua/gpuwb.py in a Python process, for tests/python_module_spec.lua: without arguments prints the tests' names, else runs one. GPUWB_DEVICE counts."""
import atexit
import gc
import os
import sys
import tempfile
import threading
import weakref


def raises(kind, words, call, *args):
    try:
        call(*args)
    except kind as e:
        assert words in str(e), "%r is not in %s" % (words, e)
        return e
    raise AssertionError("no %s was raised" % kind.__name__)


def numpy():
    try:
        import numpy
    except ImportError as e:
        print("pending: no NumPy: %s" % e)
        sys.exit(0)
    return numpy


def test_values_there_and_back():
    lua = gpuwb.Lua()
    for v in (None, True, False, 0, -7, 2 ** 53, -2 ** 53, 2 ** 62, 2 ** 64 - 1, 2 ** 70, 1.5, float("inf"), "", "abc", "\u00e5\0\u00df", "caf\udce9",
              [], [1, [2, "x"]], {"a": 1, "b": {"c": [True]}}, {5: 1.5}):
        back = lua.execute("return ...", v)
        assert back == v and type(back) is type(v), (v, back)
    assert lua.execute("return ...", b"\xff\0") == "\udcff\0"
    assert lua.execute("return ...", (1, 2)) == [1, 2]
    assert lua.execute("return ...", 3.0) == 3
    assert lua.execute("return 1, 'a', nil") == (1, "a", None)
    assert lua.execute("") is None
    assert lua.execute("return select('#', ...)", None, None) == 2
    thing = object()
    assert lua.execute("return ...", thing) is thing
    raises(TypeError, "thread", lua.execute, "return coroutine.create(print)")
    endless = []
    endless.append(endless)
    raises(ValueError, "holds itself", lua.execute, "return 1", endless)
    raises(ValueError, "holds itself", lua.execute, "local t = {} t[1] = t return t")
    raises(ValueError, "no key", lua.execute, "return 1", {None: 1})
    assert lua.execute("return 1") == 1


def test_globals_and_functions():
    lua = gpuwb.Lua()
    lua["x"] = {"k": [1, 2]}
    assert lua["x"] == {"k": [1, 2]} and lua["nothing"] is None
    add = lua.execute("local n = 0 return function(v) n = n + v return n end")
    assert add(5) == 5 and add(6) == 11
    assert lua.execute("local f = ... return f(1)", add) == 12
    del add
    gc.collect()
    assert lua.execute("return 7") == 7
    assert lua.execute("local f, x = ... return f(x, 3)", pow, 2) == 8


def test_errors():
    lua = gpuwb.Lua()
    assert raises(gpuwb.Error, "boo", lua.execute, "error('boo')").code == "LUA"
    assert raises(gpuwb.Error, "near", lua.execute, "this is no Lua").code == "LUA"
    e = raises(gpuwb.Error, "width must be", lua.execute, "gpu.mat(-1, 1, 'u8')")
    assert (e.code, e.op) == ("BAD_ARGUMENT", "gpu.mat")
    raises(gpuwb.Error, "no_such_file", lua.run, "/no_such_file.lua")

    def fail(x):
        raise KeyError(x)
    e = raises(gpuwb.Error, "KeyError", lua.execute, "local f = ... f('k')", fail)
    assert e.code == "PYTHON" and isinstance(e.__cause__, KeyError) and e.__cause__.args == ("k",)
    e = raises(gpuwb.Error, "this very call", lua.execute, "local f = ... f()", lambda: lua.execute("return 1"))
    assert isinstance(e.__cause__, RuntimeError)
    raises(gpuwb.Error, "table", lua.execute, "error({})")
    assert lua.execute("return 1") == 1


def test_script_files():
    lua = gpuwb.Lua()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "sum.lua")
        with open(path, "w") as file:
            file.write("#!/usr/bin/env gpuwb\nlocal a, opts = ...\nreturn a + opts.b, gpu.version\n")
        assert lua.run(path, 1, {"b": 2}) == (3, lua.execute("return gpu.version"))
        assert gpuwb.run(path, 3, {"b": 4})[0] == 7


def test_mats_share_memory():
    m = gpuwb.execute("return gpu.mat(5, 3, 'u16x3', {fill = 7})")
    assert (m.shape, m.dtype, m.width, m.height, m.channels) == ((3, 5, 3), "u16", 5, 3, 3)
    assert gpuwb.execute("local m = ... m:fill(9) return m:at(4, 2)", m) == (9, 9, 9)
    same = gpuwb.mat(m)
    assert same.data == m.data and same.step == m.step
    assert gpuwb.execute("return (...).type", [m]) is None
    assert gpuwb.execute("return (...)[1].type", [m]) == "u16x3"
    other = gpuwb.Lua()
    assert other.execute("local m = ... m:fill(3) return m:at(0, 0)", m) == (3, 3, 3)
    other.close()
    m.close()
    raises(gpuwb.Error, "closed", gpuwb.execute, "return 1", m)
    assert gpuwb.execute("return (...):at(4, 2)", same) == (3, 3, 3)
    raises(TypeError, "made by", gpuwb.Mat)
    image = gpuwb.execute("return gpu.image('yuv420p', 6, 4, {matrix = 'bt601'})")
    assert [p.shape for p in image["planes"]] == [(4, 6), (2, 3), (2, 3)] and image["matrix"] == "bt601"


def test_arrays():
    np = numpy()
    gpuwb.execute("gpu.device('host')")
    m = gpuwb.execute("return gpu.mat(5, 3, 'f32', {fill = 2})")
    a = np.asarray(m)
    a[1, 4] = 9
    assert gpuwb.execute("return (...):at(4, 1)", m) == 9 and a.shape == (3, 5)
    b = np.arange(24, dtype="u1").reshape(2, 4, 3)
    n = gpuwb.mat(b)
    assert (n.shape, n.dtype) == ((2, 4, 3), "u8")
    gpuwb.execute("local n = ... n:roi(0, 0, 1, 1):fill(200) n:wait()", n)
    assert b[0, 0, 2] == 200
    planes = gpuwb.mat(b.reshape(3, 2, 4), layout="chw")
    assert [p.shape for p in planes] == [(2, 4)] * 3
    alive = weakref.ref(b)
    del b, planes
    assert np.asarray(n)[1, 3, 2] == 23 and alive() is not None
    del n
    gc.collect()
    gpuwb.execute("collectgarbage() collectgarbage() gpu.memory()")
    assert alive() is None
    raises(gpuwb.Error, "stride", gpuwb.mat, np.zeros((4, 6))[::-1])
    assert np.asarray(gpuwb.execute("return gpu.mat(0, 3, 'u8')")).shape == (3, 0)
    c = np.ones((3, 3), "f4")
    c.flags.writeable = False
    assert gpuwb.mat(c).readonly
    e = np.array(m, dtype="f8", copy=True)
    e[:] = 0
    assert a[1, 4] == 9 and m.__array__("f8")[1, 4] == 9


def test_memory_of_interfaces_outlives_the_state():
    import ctypes

    class Interface:
        pass
    buffer = ctypes.create_string_buffer(b"\x07" * 12)
    array = Interface()
    array.buffer = buffer
    array.__array_interface__ = {"shape": (3, 4), "typestr": "|u1", "data": (ctypes.addressof(buffer), False), "version": 3}
    lua, other, alive = gpuwb.Lua(), gpuwb.Lua(), weakref.ref(array)
    m = lua.execute("return require('gpuwb.python').mat(...)", array)
    del array
    lua.execute("keep = gpu.wrap{ptr = require('ffi').new('uint8_t[4]'), width = 4, height = 1, type = 'u8'}")
    other.execute("local w = gpu.wrap{ptr = require('ffi').new('uint8_t[4]'), width = 4, height = 1, type = 'u8'} w:close()")
    other.execute("collectgarbage() gpu.memory()")      # owners of another state are none of its business
    assert lua.execute("collectgarbage() keep:fill(3) return keep:at(3, 0)") == 3
    lua.close()
    gc.collect()
    assert alive() is not None and other.execute("return (...):at(3, 2)", m) == 7
    m.close()
    other.execute("collectgarbage() gpu.memory()")
    assert alive() is None


def test_the_example():
    numpy()
    lines = [line[4:] for line in gpuwb.__doc__.split("\n") if line.startswith("    ")]
    assert len(lines) > 10
    exec("\n".join(lines), {})


def test_threads():
    lua, results = gpuwb.Lua(), []

    def work(i):
        for _ in range(50):
            results.append(lua.execute("local x = ... for i = 1, 1000 do x = x + 1 end return x", i) == i + 1000)
    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(results) == 200 and all(results)


def test_the_lock_is_free_while_lua_runs():
    lua, count, stop = gpuwb.Lua(), [0], []

    def work():
        while not stop:
            count[0] += 1
    t = threading.Thread(target=work)
    t.start()
    before = count[0]
    lua.execute("gpu.stream{device = 'host'}:sleep(50):synchronize()")
    stop.append(1)
    t.join()
    assert count[0] > before


def test_the_end_with_all_alive():
    # Mats, functions, a state with Python objects in it, a cycle, and a thread in Lua.
    lua = gpuwb.Lua()
    m = lua.execute("kept = gpu.mat(9, 9, 'u8', {fill = 1}) return kept")
    box = type("Box", (), {})()
    box.mat, box.self, box.lua = m, box, lua
    lua["box"] = box
    box.function = lua.execute("return function() return box end")
    lua.execute("py = require 'gpuwb.python' keep = py.eval('[]') gpu.stream():sleep(20)")
    threading.Thread(target=lua.execute, args=("gpu.stream{device = 'host'}:sleep(300):synchronize()",), daemon=True).start()
    atexit.register(lambda: print("exit function", flush=True))


def test_forked_processes_are_told():
    import multiprocessing
    m = gpuwb.execute("return gpu.mat(8, 8, 'u8', {fill = 3})")

    def child():
        read, new = "local m = ... return m:at(0, 0)", "gpu.mat(1, 1, 'u8')"
        for call in (lambda: gpuwb.execute(read, m), lambda: m.__dlpack__(), lambda: gpuwb.Lua().execute(new)):
            e = raises(gpuwb.Error, "forked", call)
            assert e.code == "NO_DEVICE" and "spawn" in str(e)

    p = multiprocessing.get_context("fork").Process(target=child)
    p.start()
    p.join(30)
    assert p.exitcode == 0, p.exitcode
    assert gpuwb.execute("local m = ... return m:at(0, 0)", m) == 3


def test_lua_modules_in_c():
    lua = gpuwb.Lua()
    assert lua.execute("local ok, lfs = pcall(require, 'lfs') return ok and lfs.currentdir() or lfs") == os.getcwd()


def test_close():
    lua = gpuwb.Lua()
    f = lua.execute("return function() return 1 end")
    m = lua.execute("return gpu.mat(4, 4, 'u8', {fill = 6})")
    lua.close()
    lua.close()
    raises(gpuwb.Error, "closed", lua.execute, "return 1")
    raises(gpuwb.Error, "closed", f)
    assert gpuwb.execute("return (...):at(3, 3)", m) == 6


tests = {name[5:]: f for name, f in list(globals().items()) if name.startswith("test_")}
import gpuwb    # noqa: E402    what is missing is told by its own words

if len(sys.argv) == 1:
    print("\n".join(sorted(tests)))
else:
    tests[sys.argv[1]]()
    print("done")
