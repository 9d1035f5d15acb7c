# SPDX-License-Identifier: MIT
"""gpuwb for Python: runs Lua scripts of the workbench in this process and shares its memory. One file, beside libgpuwb.so.

    import gpuwb                                      # PYTHONPATH=…/lua; GPUWB_LIBRARY names libgpuwb.so where it is not found
    import numpy as np

    lua = gpuwb.Lua()                                 # lua.run("script.lua", arguments…) runs a file
    m = lua.execute("local w, h = ... return gpu.mat(w, h, 'u8x3', {fill = 7, device = 'host'})", 640, 480)
    a = np.asarray(m)                                 # the same memory, height x width x channels; on a cuda device cupy.asarray,
    a[0, 0] = 255                                     # torch.from_dlpack, numba.cuda.as_cuda_array
    assert lua.execute("local m = ... return m:at(0, 0)", m) == (255, 255, 255)
    b = np.zeros((4, 5), "f4")
    n = gpuwb.mat(b)                                  # any array of these libraries as a Mat, without a copy
    lua.execute("local n = ... n:fill(2):wait()", n)
    assert b.sum() == 40

None, bool, numbers, str and bytes become Lua's own; lists, tuples and dicts become tables; a Mat becomes a mat; any other object stays a Python object
(see gpuwb.python in Lua). Back: strings are str (UTF-8, other bytes by surrogateescape), tables with items 1..n are lists, others dicts, functions can be
called. A failing script raises gpuwb.Error with `code` and `op`; an exception of Python that went through Lua is its cause. A Lua state is used by one
thread at a time; calls release the GIL.

The same text is the module `gpuwb` inside an interpreter that a Lua script started by `require "gpuwb.python"`.
"""
import collections
import ctypes
import numbers
import os
import sys
import threading
import weakref

__all__ = ["Error", "Lua", "Mat", "Stream", "execute", "mat", "run"]

# ---- the library

_TYPES = (("u8", "|u1"), ("i8", "|i1"), ("u16", "<u2"), ("i16", "<i2"), ("u32", "<u4"), ("i32", "<i4"), ("f16", "<f2"), ("f32", "<f4"), ("f64", "<f8"))
_READONLY = 1                                   # gwb_mat.flags
_CPU, _CUDA, _PINNED, _MANAGED = 1, 2, 3, 13    # DLPack's device types
_COPIED = 2                                     # flag of a versioned tensor


class _MatStruct(ctypes.Structure):
    _fields_ = [("tag", ctypes.c_uint32), ("flags", ctypes.c_uint32), ("width", ctypes.c_int32), ("height", ctypes.c_int32), ("type", ctypes.c_int32),
                ("channels", ctypes.c_int32), ("elem_size", ctypes.c_int32), ("device", ctypes.c_int32), ("step", ctypes.c_int64),
                ("data", ctypes.c_void_p), ("buf", ctypes.c_void_p)]


class _StreamStruct(ctypes.Structure):
    _fields_ = [("tag", ctypes.c_uint32), ("device", ctypes.c_int32), ("handle", ctypes.c_void_p), ("queue", ctypes.c_void_p)]


class _StreamParams(ctypes.Structure):
    _fields_ = [("handle", ctypes.c_void_p), ("foreign", ctypes.c_int32), ("priority", ctypes.c_int32), ("nonblocking", ctypes.c_int32),
                ("pad", ctypes.c_int32)]


class _DLDevice(ctypes.Structure):
    _fields_ = [("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32)]


def _places():
    """Where libgpuwb.so may be, the first wins; a bare name is left to the dynamic loader."""
    named = os.environ.get("GPUWB_LIBRARY")
    if named:
        return [named]
    here = os.path.dirname(os.path.abspath(__file__)) if "__file__" in globals() else os.getcwd()
    near = [here, os.path.join(here, "..", "build", "release"), os.path.join(here, "..", "..", "lib")]
    return [path for path in (os.path.join(folder, "libgpuwb.so") for folder in near) if os.path.exists(path)] + ["libgpuwb.so"]


def _open():
    if "_library_path" in globals():            # inside gpuwb: the program itself, or the file that has its functions
        return ctypes.CDLL(_library_path)       # noqa: F821
    tried = []
    for path in _places():
        try:
            return ctypes.CDLL(path, ctypes.RTLD_GLOBAL)    # LuaJIT with it: Lua modules in C take its symbols from the process
        except OSError as e:
            tried.append(str(e))
    raise ImportError("gpuwb: cannot open libgpuwb.so (build it with scripts/build.sh release, or name it in GPUWB_LIBRARY): " + "; ".join(tried))


_lib = _open()      # calls through it release the GIL


def _function(name, result, *arguments):
    f = getattr(_lib, name)
    f.restype, f.argtypes = result, arguments
    return f


_pointer, _int, _text = ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p
_abi_size = _function("gwb_abi_size", ctypes.c_int64, _text)
_status_name = _function("gwb_status_name", _text, _int)
_error_message = _function("gwb_error_message", _text)
_device_info = _function("gwb_device_info_get", _int, _int, _pointer)
_device_find = _function("gwb_device_find", _int, _text)
_mat_create = _function("gwb_mat_create", _int, _pointer, _int, ctypes.c_int32, ctypes.c_int32, _int, _int, _pointer)
_mat_view = _function("gwb_mat_view", _int, _pointer, _pointer, ctypes.c_int32, ctypes.c_int32, ctypes.c_int32, ctypes.c_int32)
_mat_close = _function("gwb_mat_close", None, _pointer)
_mat_lent = _function("gwb_mat_lent", None, _pointer)
_mat_ready = _function("gwb_mat_ready", _int, _pointer, _pointer)
_mat_dl_device = _function("gwb_mat_dl_device", _int, _pointer, _pointer)
_copy = _function("gwb_copy", _int, _pointer, _pointer, _pointer)
_stream_create = _function("gwb_stream_create", _int, _pointer, _int, _pointer)
_stream_default = _function("gwb_stream_default", _int, _pointer, _int)
_stream_share = _function("gwb_stream_share", _int, _pointer, _pointer)
_stream_close = _function("gwb_stream_close", None, _pointer)
_dlpack_export = _function("gwb_dlpack_export", _int, _pointer, _pointer, _int, _int)

for _struct, _name in ((_MatStruct, b"gwb_mat"), (_StreamStruct, b"gwb_stream"), (_StreamParams, b"gwb_stream_params")):
    if _abi_size(_name) != ctypes.sizeof(_struct):
        raise ImportError("gpuwb: %s has %d bytes in the library and %d here: gpuwb.py and libgpuwb.so are of different versions" % (
            _name.decode(), _abi_size(_name), ctypes.sizeof(_struct)))


class Error(Exception):
    """What gpuwb refuses or what fails: `code` as "OUT_OF_MEMORY", `op` the call; str() is the whole sentence."""

    def __init__(self, message, code, op):
        super().__init__(message)
        self.code, self.op = code, op


def _check(rc, op):
    if rc < 0:
        raise Error("%s: %s" % (op, _error_message().decode("utf-8", "replace")), _status_name(rc).decode(), op)
    return rc


# ---- capsules. The destructor is C, since it may run while the interpreter ends.

_capsule_new = ctypes.pythonapi.PyCapsule_New
_capsule_new.restype, _capsule_new.argtypes = ctypes.py_object, (_pointer, _text, _pointer)
_capsule_get = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_get.restype, _capsule_get.argtypes = _pointer, (ctypes.py_object, _text)
_capsule_valid = ctypes.pythonapi.PyCapsule_IsValid
_capsule_valid.restype, _capsule_valid.argtypes = _int, (ctypes.py_object, _text)
_capsule_rename = ctypes.pythonapi.PyCapsule_SetName
_capsule_rename.restype, _capsule_rename.argtypes = _int, (ctypes.py_object, _text)
_capsule_destroy = ctypes.cast(_lib.gwb_capsule_destroy, _pointer)
# A capsule keeps the address of its name only: these strings are never freed.
_NAMES = [ctypes.create_string_buffer(name) for name in (b"dltensor", b"dltensor_versioned", b"used_dltensor", b"used_dltensor_versioned")]
for _name in _NAMES:
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(_name))
_NAME, _USED = [ctypes.cast(n, _text) for n in _NAMES[:2]], [ctypes.cast(n, _text) for n in _NAMES[2:]]


# ---- mats and streams

class Mat:
    """A plane of memory on a device, shared with gpuwb: height x width, or height x width x channels. It keeps the memory alive by itself.

    NumPy, CuPy, PyTorch, Numba and others take it by __array_interface__ (host memory), __cuda_array_interface__ and __dlpack__. Reading one of the first
    two makes all work on the mat that was issued before come first: on the host it waits. Later work of gpuwb on the same memory is not held up by what the
    other library does: on a cuda device say m:record_stream(s) in Lua. close() releases now; twice is harmless.
    """
    __slots__ = ("_c", "_read", "__weakref__")

    def __init__(self):
        raise TypeError("gpuwb.Mat is made by a script, or of an array by gpuwb.mat(array)")

    def __del__(self, _close=_mat_close, _lent=_mat_lent, _byref=ctypes.byref):
        c = getattr(self, "_c", None)
        if c is not None and c.tag:
            if self._read:      # whoever read the cuda interface may have work under way
                _lent(_byref(c))
            _close(_byref(c))

    close = __del__

    def _live(self):
        if not self._c.tag:
            raise Error("gpuwb.Mat: the mat is closed", "CLOSED", "gpuwb.Mat")
        return self._c

    width = property(lambda self: self._live().width, doc="pixels")
    height = property(lambda self: self._live().height, doc="rows")
    channels = property(lambda self: self._live().channels)
    step = property(lambda self: self._live().step, doc="bytes from one row to the next")
    dtype = property(lambda self: _TYPES[self._live().type][0], doc='element type of a channel, as "u8"')
    typestr = property(lambda self: _TYPES[self._live().type][1], doc='the same as NumPy says it, as "|u1"')
    itemsize = property(lambda self: self._live().elem_size // self._c.channels, doc="bytes of an element")
    nbytes = property(lambda self: self._live().width * self._c.height * self._c.elem_size, doc="bytes of all pixels")
    readonly = property(lambda self: bool(self._live().flags & _READONLY))
    data = property(lambda self: self._live().data or 0, doc="address of row 0; 0 where there are no pixels")
    ndim = property(lambda self: len(self.shape))

    @property
    def shape(self):
        c = self._live()
        return (c.height, c.width, c.channels) if c.channels > 1 else (c.height, c.width)

    @property
    def strides(self):
        """Bytes, one a dimension."""
        c = self._live()
        return (c.step, c.elem_size, self.itemsize) if c.channels > 1 else (c.step, c.elem_size)

    @property
    def device(self):
        """"host" or "cuda:0"."""
        return _device_name(self._live().device)

    def __repr__(self):
        if not self._c.tag:
            return "<gpuwb.Mat (closed)>"
        channels = "x%d" % self.channels if self.channels > 1 else ""
        return "<gpuwb.Mat %dx%d %s%s step %d %s 0x%x>" % (self.width, self.height, self.dtype, channels, self.step, self.device, self.data)

    def _interface(self):
        c = self._c
        tight = c.step == c.width * c.elem_size or c.height <= 1 or not c.width
        return {"shape": self.shape, "typestr": self.typestr, "data": (c.data or 0, self.readonly), "strides": None if tight else self.strides, "version": 3}

    @property
    def __array_interface__(self):
        self._live()
        if self.__dlpack_device__()[0] == _CUDA:
            raise AttributeError("gpuwb.Mat: the memory is on %s; __cuda_array_interface__ shows it" % self.device)
        _check(_mat_ready(ctypes.byref(self._c), None), "gpuwb.Mat")
        interface = self._interface()
        if not self.nbytes:     # NumPy before 2 takes no NULL
            interface["data"] = (ctypes.addressof(self._c), self.readonly)
        return interface

    @property
    def __cuda_array_interface__(self):
        self._live()
        if self.__dlpack_device__()[0] == _CPU:
            raise AttributeError("gpuwb.Mat: the memory is plain host memory; __array_interface__ shows it")
        interface, self._read = self._interface(), True
        if self.device == "host":       # page-locked: there is no stream of its device to name
            _check(_mat_ready(ctypes.byref(self._c), None), "gpuwb.Mat")
            return interface
        stream = _StreamStruct()        # of the device, and as long-lived
        _check(_stream_default(ctypes.byref(stream), self._c.device), "gpuwb.Mat")
        try:
            _check(_mat_ready(ctypes.byref(self._c), ctypes.byref(stream)), "gpuwb.Mat")
            interface["stream"] = stream.handle or 1
        finally:
            _stream_close(ctypes.byref(stream))
        return interface

    def __array__(self, dtype=None, copy=None):
        if self.__dlpack_device__()[0] == _CUDA:
            raise TypeError("gpuwb.Mat: the memory is on %s, which NumPy cannot read; m:to(\"host\") in Lua copies it" % self.device)
        import numpy
        a = numpy.asarray(_Shown(self))
        if copy is False and dtype is not None and a.dtype != dtype:
            raise ValueError("gpuwb.Mat: %s as %s is a copy" % (a.dtype, dtype))
        return numpy.array(a, dtype=dtype, copy=True) if copy else a if dtype is None else a.astype(dtype, copy=False)

    def __dlpack_device__(self):
        """DLPack's device type and number: (1, 0) host, (2, n) cuda, (3, 0) page-locked, (13, 0) managed."""
        device = _DLDevice()
        _check(_mat_dl_device(ctypes.byref(self._live()), ctypes.byref(device)), "gpuwb.Mat")
        return device.device_type, device.device_id

    def _on(self, position, op):
        """A copy on the device at that position of the list of devices."""
        c, m = self._c, _new_mat()
        _check(_mat_create(ctypes.byref(m._c), position, c.width, c.height, c.type, c.channels, None), op)
        _check(_copy(ctypes.byref(m._c), ctypes.byref(c), None), op)
        return m

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        """A capsule by the Python array API standard. stream: the consumer's on a cuda device, 1 legacy default (None too), 2 per-thread default, else its
        handle; -1: nothing waits. dl_device: where the tensor shall be; copy: True a copy, False never one (BufferError), None only where needed."""
        op, own, source = "gpuwb.Mat.__dlpack__", self.__dlpack_device__(), self
        wanted = own if dl_device is None else (int(dl_device[0]), int(dl_device[1]))
        host = wanted == (_CPU, 0) and own[0] in (_PINNED, _MANAGED)    # that memory is read by the host as it is
        versioned = max_version is not None and max_version[0] >= 1
        if wanted != own and not host or copy:
            if copy is False:
                raise BufferError("%s: the memory is on DLPack device %s; on %s it would be a copy" % (op, own, wanted))
            if wanted == own:
                position = self._c.device
            elif wanted == (_CPU, 0) or wanted[0] == _CUDA:
                position = _device_find(b"host" if wanted[0] == _CPU else b"cuda:%d" % wanted[1])
            else:
                position = -1
            if position < 0:
                raise BufferError("%s: cannot copy to DLPack device %s" % (op, wanted))
            source = self._on(position, op)
        kind = source.__dlpack_device__()[0]
        if kind == _CUDA or kind == _MANAGED and source.device != "host":
            source._order(1 if stream is None else stream, op)
        elif stream is None or stream == -1:
            if stream is None:
                _check(_mat_ready(ctypes.byref(source._c), None), op)
        else:
            raise ValueError("%s: %s is host memory; stream must be None or -1, got %r" % (op, source, stream))
        if source.readonly and not versioned:
            raise BufferError("%s: the mat is read-only, which only DLPack 1.0 can say; the consumer asks for an older version" % op)
        out, planes = _pointer(), (_pointer * 1)(ctypes.addressof(source._c))
        _check(_dlpack_export(ctypes.byref(out), planes, 1, versioned), op)
        if versioned and source is not self:
            ctypes.c_uint64.from_address(out.value + 24).value |= _COPIED
        return _capsule_new(out, _NAME[versioned], _capsule_destroy)

    def _order(self, stream, op):
        """All work on the mat comes before the later work of a consumer's stream."""
        if stream == -1:
            return
        if isinstance(stream, bool) or not isinstance(stream, int) or stream <= 0:
            raise ValueError("%s: stream must be None, -1, 1, 2 or a handle (0 could mean either default stream), got %r" % (op, stream))
        theirs, params = _StreamStruct(), _StreamParams(handle=stream, foreign=1)
        _check(_stream_create(ctypes.byref(theirs), self._c.device, ctypes.byref(params)), op)
        try:
            _check(_mat_ready(ctypes.byref(self._c), ctypes.byref(theirs)), op)
        finally:
            _stream_close(ctypes.byref(theirs))


class _Shown:
    def __init__(self, m):
        self.__array_interface__, self.mat = m.__array_interface__, m


def _device_name(position):
    info = ctypes.create_string_buffer(_abi_size(b"gwb_device_info"))
    _check(_device_info(position, info), "gpuwb")
    return info.value.decode()      # the name comes first


def _new_mat():
    m = Mat.__new__(Mat)
    m._c, m._read = _MatStruct(), False
    return m


def _share_mat(address):
    """A Mat over the same memory as the gwb_mat at that address."""
    m, theirs = _new_mat(), _MatStruct.from_address(address)
    _check(_mat_view(ctypes.byref(m._c), address, 0, 0, theirs.width, theirs.height), "gpuwb.Mat")
    return m


class Stream:
    """A stream of gpuwb's, which it keeps alive. `handle` is the CUstream; cupy(), torch() and numba() give these libraries' stream objects over it, and
    __cuda_stream__ is there for libraries that ask for it."""
    __slots__ = ("_c", "__weakref__")

    def __init__(self):
        raise TypeError("gpuwb.Stream is made by a script")

    def __del__(self, _close=_stream_close, _byref=ctypes.byref):
        c = getattr(self, "_c", None)
        if c is not None and c.tag:
            _close(_byref(c))

    handle = property(lambda self: self._c.handle or 0)

    @property
    def device(self):
        """"host" or "cuda:0"."""
        return _device_name(self._c.device)

    def __repr__(self):
        return "<gpuwb.Stream %s 0x%x>" % (self.device, self.handle)

    def _index(self, library):
        device = self.device
        if not device.startswith("cuda:"):
            raise ValueError("gpuwb.Stream: %s knows streams of a cuda device; this one is of %s" % (library, device))
        return int(device[5:])

    def __cuda_stream__(self):
        self._index("CUDA")
        return 0, self.handle

    def cupy(self):
        index = self._index("CuPy")
        import cupy
        return self._kept(cupy.cuda.ExternalStream(self.handle, index))

    def torch(self):
        index = self._index("PyTorch")
        import torch
        return self._kept(torch.cuda.ExternalStream(self.handle, device=torch.device("cuda", index)))

    def numba(self):
        index = self._index("Numba")
        from numba import cuda
        with cuda.gpus[index]:
            return self._kept(cuda.external_stream(self.handle))

    def _kept(self, theirs):
        """Their object, which holds this one: it knows the handle only."""
        try:
            theirs.gpuwb_stream = self
        except AttributeError:
            weakref.finalize(theirs, lambda stream: None, self)
        return theirs


def _share_stream(address):
    s = Stream.__new__(Stream)
    s._c = _StreamStruct()
    _check(_stream_share(ctypes.byref(s._c), address), "gpuwb.Stream")
    return s


def _mat_address(m):
    """Address of the gwb_mat of a Mat, 0 for any other object."""
    return ctypes.addressof(m._live()) if isinstance(m, Mat) else 0


def _dlpack_device(array):
    kind, index = array.__dlpack_device__()
    return int(kind), int(index)


def _take(array, stream):
    """Takes the DLPack tensor out of an array: its address, and whether it is versioned. stream: handle of the stream that shall wait for the array's
    data, None for host memory."""
    kwargs = {} if stream is None else {"stream": stream}
    try:
        capsule = array.__dlpack__(max_version=(1, 0), **kwargs)
    except TypeError:       # from before DLPack 1.0
        capsule = array.__dlpack__(**kwargs)
    for versioned in (True, False):
        if _capsule_valid(capsule, _NAME[versioned]):
            address = _capsule_get(capsule, _NAME[versioned])
            _capsule_rename(capsule, _USED[versioned])
            return address, versioned
    raise BufferError("gpuwb: __dlpack__ of %s gave %r; wanted a capsule named dltensor or dltensor_versioned" % (type(array).__name__, capsule))


# ---- for Lua

def _describe(exception):
    """Class, one line and traceback of an exception; the traceback is empty where none of Python's lines took part."""
    import traceback
    kind = type(exception)
    name = kind.__qualname__ if kind.__module__ in ("builtins", "__main__") else kind.__module__ + "." + kind.__qualname__
    try:
        text = str(exception)
    except Exception:
        text = "(its str() fails)"
    trace = ""
    if exception.__traceback__ is not None or exception.__cause__ is not None:
        trace = "".join(traceback.format_exception(kind, exception, exception.__traceback__)).rstrip()
    return name, name + ": " + text if text else name, trace


def _embedded():
    """Readies an interpreter that gpuwb started: one buffer for the output of Lua and Python, and a way out of the process."""
    import io
    libc = ctypes.CDLL(None)
    libc.fwrite.restype, libc.fwrite.argtypes = ctypes.c_size_t, (ctypes.c_char_p, ctypes.c_size_t, ctypes.c_size_t, _pointer)
    libc.fflush.argtypes = (_pointer,)
    stdout = _pointer.in_dll(libc, "stdout")

    class Output(io.RawIOBase):
        def writable(self):
            return True

        def write(self, data):
            data = bytes(data)
            return libc.fwrite(data, 1, len(data), stdout)

        def flush(self):
            libc.fflush(stdout)

        def fileno(self):
            return 1

        def isatty(self):
            return os.isatty(1)

    sys.stdout = io.TextIOWrapper(Output(), encoding="utf-8", errors="surrogateescape", newline="\n", write_through=True)
    if not hasattr(sys, "argv"):
        sys.argv = [""]

    # The interpreter is never taken down, since mats may still hold memory of its objects and other threads may run: at the process's exit its own
    # threads are waited for and its exit functions run, as Python itself does first.
    def leave(_):
        import atexit
        for step in (threading._shutdown, atexit._run_exitfuncs, sys.stderr.flush):
            try:
                step()
            except BaseException as e:
                sys.excepthook(type(e), e, e.__traceback__)

    global _leave
    _leave = ctypes.CFUNCTYPE(None, _pointer)(leave)
    libc.__cxa_atexit(_leave, None, None)


# ---- Lua in Python

_SEAM = rb"""
local ffi = require "ffi"
local core = require "gpuwb.core"
local check = require "gpuwb.check"
local C = require("gpuwb.cdef").C
local value

local function python()
    if not value then
        require "gpuwb.python"
        value = require "gpuwb.python_value"
    end
    return value
end

local seam = {}

function seam.mat(address)
    local m, p = core.mat.new(), ffi.cast("gwb_mat *", address)
    check.status(C.gwb_mat_view(m, p, 0, 0, p.width, p.height), "gpuwb.Lua")
    return m
end

function seam.object(address)
    return python().from_address(address)
end

-- What a value is that Lua's C interface does not tell: "mat", "object" with its address, "integer" with its digits, or a text for an error.
function seam.kind(v)
    if check.is_mat(v) then
        check.mat("gpuwb.Lua", "the mat", v)
        return "mat", tonumber(ffi.cast("uintptr_t", ffi.cast("gwb_mat *", v)))
    elseif value and value.is_object(v) then
        return "object", value.address(v)
    elseif type(v) == "cdata" and (ffi.istype("int64_t", v) or ffi.istype("uint64_t", v)) then
        return "integer", (tostring(v):gsub("U?LL$", ""))
    end
    return "other", check.show(v)
end

-- An error as text, code, op, and the address of a Python exception.
function seam.error(e)
    if type(e) == "table" and getmetatable(e) == check.Error then
        return tostring(e), e.code, e.op, e.exception and python().address(e.exception)
    end
    return tostring(e), "LUA", "gpuwb.Lua"
end

return seam
"""

_NIL, _BOOLEAN, _LIGHT, _NUMBER, _STRING, _TABLE, _FUNCTION, _USERDATA = range(8)
_GLOBALS, _REGISTRY = -10002, -10000
_EXACT = 2 ** 53


def _lua_functions():
    """LuaJIT's C interface, which libgpuwb.so or the program brings along."""
    c, s, d, z = _int, _pointer, ctypes.c_double, ctypes.c_size_t
    table = {
        "luaL_newstate": (s,), "luaL_openlibs": (None, s), "lua_close": (None, s), "luaL_loadbuffer": (c, s, _text, z, _text),
        "luaL_loadfile": (c, s, _text), "lua_pcall": (c, s, c, c, c), "lua_gettop": (c, s), "lua_settop": (None, s, c), "lua_type": (c, s, c),
        "lua_checkstack": (c, s, c), "lua_toboolean": (c, s, c), "lua_tonumber": (d, s, c), "lua_tolstring": (s, s, c, ctypes.POINTER(z)),
        "lua_pushnil": (None, s), "lua_pushboolean": (None, s, c), "lua_pushnumber": (None, s, d), "lua_pushlstring": (None, s, _text, z),
        "lua_pushvalue": (None, s, c), "lua_pushcclosure": (None, s, s, c), "lua_createtable": (None, s, c, c), "lua_rawset": (None, s, c),
        "lua_rawget": (None, s, c), "lua_rawseti": (None, s, c, c), "lua_rawgeti": (None, s, c, c), "lua_next": (c, s, c), "lua_objlen": (z, s, c),
        "lua_remove": (None, s, c),
        "luaL_ref": (c, s, c), "luaL_unref": (None, s, c, c),
    }
    return type("LuaC", (), {name: staticmethod(_function(name, spec[0], *spec[1:])) for name, spec in table.items()})


class Lua:
    """A Lua state with gpuwb in it (the global `gpu`). One thread uses it at a time; a call from Python that it made itself is refused."""

    def __init__(self):
        self._c = _lua_functions()
        self._lock, self._holder, self._dropped = threading.Lock(), None, collections.deque()
        self._state = self._c.luaL_newstate()
        if not self._state:
            raise MemoryError("not enough memory for a Lua state")
        self._finalizer = weakref.finalize(self, _close_lua, self._c.lua_close, self._state, self._lock)
        c, s = self._c, self._state
        with self._held():
            c.luaL_openlibs(s)
            c.lua_pushcclosure(s, ctypes.cast(_lib.luaopen_gpuwb, _pointer), 0)
            self._enter(0)
            c.lua_settop(s, -2)     # of luaopen_gpuwb: the module, which is also the global
            self._seam = None
            self._load(_SEAM, b"=gpuwb.py")
            self._enter(0)
            self._seam = c.luaL_ref(s, _REGISTRY)
            self._load(b"gpu = require 'gpuwb'", b"=gpuwb.py")
            self._enter(0)
            c.lua_settop(s, 0)

    def run(self, path, *args):
        """Runs a script file with these arguments (`...`) and gives what it returns: None, a value, or a tuple of them."""
        with self._held():
            if self._c.luaL_loadfile(self._state, os.fsencode(path)):
                self._raise()
            return self._call(args)

    def execute(self, text, *args, name="=(gpuwb.execute)"):
        """The same of a text. name: what errors call it; with "=" before, as it is."""
        with self._held():
            self._load(text.encode() if isinstance(text, str) else bytes(text), name.encode())
            return self._call(args)

    def __getitem__(self, name):
        """A global of the state."""
        with self._held():
            self._push(name)
            self._c.lua_rawget(self._state, _GLOBALS)
            return self._pull(-1)

    def __setitem__(self, name, value):
        with self._held():
            self._push(name)
            self._push(value)
            self._c.lua_rawset(self._state, _GLOBALS)

    def close(self):
        """Ends the state now; twice is harmless. Mats that Python holds stay."""
        if self._holder == threading.get_ident():
            raise RuntimeError("gpuwb.Lua: the state runs this very call")
        with self._lock:
            pass
        self._finalizer()
        self._state = None

    # The rest is called with the state held.

    def _held(self):
        return _Held(self)

    def _load(self, text, name):
        if self._c.luaL_loadbuffer(self._state, text, len(text), name):
            self._raise()

    def _enter(self, count):
        """Calls the function below `count` arguments; all results stay on the stack."""
        if self._c.lua_pcall(self._state, count, -1, 0):
            self._raise()

    def _call(self, args):
        if not self._c.lua_checkstack(self._state, len(args) + 20):
            raise MemoryError("gpuwb.Lua: too many arguments")
        for value in args:
            self._push(value)
        self._enter(len(args))
        count = self._c.lua_gettop(self._state)
        results = tuple(self._pull(i + 1) for i in range(count))
        return None if count == 0 else results[0] if count == 1 else results

    def _ask(self, name, push, count):
        """seam[name](what `push` pushes) with `count` results on the stack."""
        c, s = self._c, self._state
        c.lua_rawgeti(s, _REGISTRY, self._seam)
        self._push(name)
        c.lua_rawget(s, -2)
        c.lua_remove(s, -2)
        push()
        if c.lua_pcall(s, 1, count, 0):
            self._raise()

    def _push(self, value, depth=0):
        c, s = self._c, self._state
        if depth > 100 or not c.lua_checkstack(s, 20):
            raise ValueError("gpuwb.Lua: containers are nested more than 100 deep; one that holds itself has no counterpart")
        if value is None:
            c.lua_pushnil(s)
        elif isinstance(value, bool):
            c.lua_pushboolean(s, value)
        elif isinstance(value, float) or isinstance(value, numbers.Integral) and -_EXACT <= value <= _EXACT:
            c.lua_pushnumber(s, float(value))
        elif isinstance(value, str):
            self._push_bytes(value.encode("utf-8", "surrogateescape"))
        elif isinstance(value, (bytes, bytearray)):
            self._push_bytes(bytes(value))
        elif isinstance(value, (list, tuple)):
            c.lua_createtable(s, len(value), 0)
            for i, item in enumerate(value):
                self._push(item, depth + 1)
                c.lua_rawseti(s, -2, i + 1)
        elif isinstance(value, dict):
            c.lua_createtable(s, 0, len(value))
            for key, item in value.items():
                if key is None or key != key:
                    raise ValueError("gpuwb.Lua: %r is no key of a table" % (key,))
                self._push(key, depth + 1)
                self._push(item, depth + 1)
                c.lua_rawset(s, -3)
        elif isinstance(value, Function) and value._lua is self:
            c.lua_rawgeti(s, _REGISTRY, value._ref)
        elif isinstance(value, Mat):
            self._ask("mat", lambda: c.lua_pushnumber(s, _mat_address(value)), 1)
        else:
            self._ask("object", lambda: c.lua_pushnumber(s, id(value)), 1)

    def _push_bytes(self, data):
        self._c.lua_pushlstring(self._state, data, len(data))

    def _bytes(self, at):
        size = ctypes.c_size_t()
        data = self._c.lua_tolstring(self._state, at, ctypes.byref(size))
        return ctypes.string_at(data, size.value)

    def _pull(self, at, depth=0):
        c, s = self._c, self._state
        if depth > 100 or not c.lua_checkstack(s, 20):
            raise ValueError("gpuwb.Lua: tables are nested more than 100 deep; one that holds itself has no counterpart")
        kind = c.lua_type(s, at)
        if kind <= _NIL:
            return None
        if kind == _BOOLEAN:
            return bool(c.lua_toboolean(s, at))
        if kind == _NUMBER:
            number = c.lua_tonumber(s, at)
            return int(number) if number.is_integer() and abs(number) <= _EXACT else number
        if kind == _STRING:
            return self._bytes(at).decode("utf-8", "surrogateescape")
        if at < 0:
            at = c.lua_gettop(s) + 1 + at
        if kind == _TABLE:
            return self._pull_table(at, depth + 1)
        if kind == _FUNCTION:
            c.lua_pushvalue(s, at)
            return Function(self, c.luaL_ref(s, _REGISTRY))
        top = c.lua_gettop(s)
        self._ask("kind", lambda: c.lua_pushvalue(s, at), 2)
        what, value = self._pull(-2), self._pull(-1)
        c.lua_settop(s, top)
        if what == "mat":
            return _share_mat(value)
        if what == "object":
            return ctypes.cast(value, ctypes.py_object).value
        if what == "integer":
            return int(value)
        raise TypeError("gpuwb.Lua: %s has no counterpart in Python" % value)

    def _pull_table(self, at, depth):
        c, s = self._c, self._state
        length, found = c.lua_objlen(s, at), {}
        c.lua_pushnil(s)
        while c.lua_next(s, at):
            key = self._pull(-2, depth)
            found[key] = self._pull(-1, depth)
            c.lua_settop(s, -2)
        if len(found) == length:
            return [found[i + 1] for i in range(length)]
        return found

    def _raise(self):
        """Raises what the failed call left on the stack."""
        c, s = self._c, self._state
        at = c.lua_gettop(s)
        if c.lua_type(s, at) == _STRING or self._seam is None:
            raise Error(self._bytes(at).decode("utf-8", "replace") if c.lua_type(s, at) == _STRING else "gpuwb.Lua: no Lua state", "LUA", "gpuwb.Lua")
        self._ask("error", lambda: c.lua_pushvalue(s, at), 4)
        message, code, op, cause = (self._pull(i) for i in range(-4, 0))
        raise Error(message, code, op) from (ctypes.cast(cause, ctypes.py_object).value if cause else None)


class _Held:
    """The state, for this thread alone and with an empty stack."""

    def __init__(self, lua):
        self.lua = lua

    def __enter__(self):
        lua = self.lua
        if lua._holder == threading.get_ident():
            raise RuntimeError("gpuwb.Lua: the state runs this very call")
        lua._lock.acquire()
        if not lua._state or not lua._finalizer.alive:
            lua._lock.release()
            raise Error("gpuwb.Lua: the state is closed", "CLOSED", "gpuwb.Lua")
        lua._holder = threading.get_ident()
        while lua._dropped:
            lua._c.luaL_unref(lua._state, _REGISTRY, lua._dropped.popleft())

    def __exit__(self, *_):
        lua = self.lua
        lua._c.lua_settop(lua._state, 0)
        lua._holder = None
        lua._lock.release()


def _close_lua(close, state, lock):
    if lock.acquire(blocking=False):        # at the end of the process a thread may still run it
        try:
            close(state)
        finally:
            lock.release()


class Function:
    """A function of a Lua state; calls take and give what Lua.execute does."""

    def __init__(self, lua, ref):
        self._lua, self._ref = lua, ref

    def __call__(self, *args):
        lua = self._lua
        with lua._held():
            lua._c.lua_rawgeti(lua._state, _REGISTRY, self._ref)
            return lua._call(args)

    def __del__(self):
        self._lua._dropped.append(self._ref)


_default_lock, _default_lua = threading.Lock(), None


def _default():
    global _default_lua
    with _default_lock:
        if _default_lua is None:
            _default_lua = Lua()
    return _default_lua


def run(path, *args):
    """Runs a script file in a Lua state that the process keeps; see Lua.run."""
    return _default().run(path, *args)


def execute(text, *args):
    """Runs a text in that state; see Lua.execute."""
    return _default().execute(text, *args)


def mat(array, layout="hwc"):
    """A Mat over an array of NumPy, CuPy, PyTorch, Numba or any other that has DLPack or an array interface, without a copy: height x width, or height x
    width x channels; with layout="chw" a list with a Mat a plane. The array's memory is kept alive. What a mat cannot express is an Error that says which
    value."""
    return _default().execute("local array, layout = ... return require('gpuwb.python').mat(array, {layout = layout})", array, layout)
