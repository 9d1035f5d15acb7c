-- SPDX-License-Identifier: MIT
-- Mats and images handed to other libraries and taken from them without a copy: CUDA array interface, NumPy's array interface, DLPack.
--
--     local m = gpu.mat(640, 480, "u8x3", {fill = 7})
--     local t = m:dlpack()                             -- DLManagedTensorVersioned *, height x width x channels; holds the memory
--     assert(t.dl_tensor.ndim == 3 and t.dl_tensor.shape[1] == 640)
--     m:close()                                        -- the pixels stay: the tensor has them
--     local same = gpu.from_dlpack(t)                  -- a C library takes it by consume(ffi.gc(t, nil)), and calls its deleter at the end
--     assert(same:at(639, 479) == 7)
--     local a = gpu.host_mat(5, 3, "f32", {fill = 1}):array_interface()
--     assert(a.typestr == "<f4" and a.shape[1] == 3 and a.strides[1] % 4 == 0)
--     assert(gpu.from_array_interface(a):at(4, 2) == 1)
--
-- Shapes are height, width[, channels]. A stride is in bytes here, but in elements in DLPack. An array interface is a table with an `owner` that
-- keeps the memory, as long as the table lives or whoever reads its pointer keeps it. A `stream` is the CUDA stream on which the memory is used: a
-- stream of gpuwb's, 1 (legacy default), 2 (per-thread default) or a CUstream as a cdata pointer.
--
-- A library lets go of memory when it has issued its work, not when that is done: on cuda the memory is then reused behind CUDA's legacy default stream,
-- which runs behind the work of all streams but non-blocking ones. Work on a non-blocking stream that is not gpuwb's is told by m:record_stream.
local ffi = require "ffi"
local bit = require "bit"
local core = require "gpuwb.core"
local check = require "gpuwb.check"
local types = require "gpuwb.types"
local device = require "gpuwb.device"
local mat = require "gpuwb.mat"
local streams = require "gpuwb.stream"
local image = require "gpuwb.image"
local format = require "gpuwb.format"
local C = require("gpuwb.cdef").C

local new_mat = require("gpuwb.live").scoped(core.mat.new)

local exchange = {public = {}}

-- The names that other libraries' declarations use. A script may have declared them itself.
for theirs, ours in pairs {DLTensor = "gwb_dl_tensor", DLManagedTensor = "gwb_dl_managed", DLManagedTensorVersioned = "gwb_dl_versioned"} do
    if not pcall(ffi.typeof, theirs) then
        ffi.cdef(("typedef %s %s;"):format(ours, theirs))
    end
end

local DL_CUDA, DL_CUDA_MANAGED = 2, 13
local READ_ONLY, COPIED = 1, 2      -- flags of a versioned tensor
local new_planes, new_sources = ffi.typeof("gwb_mat *[4]"), ffi.typeof("const gwb_mat *[4]")
local versioned_pointer, plain_pointer = ffi.typeof("gwb_dl_versioned *"), ffi.typeof("gwb_dl_managed *")
local max_size = 2147483647

-- ---- streams

-- The stream named in an option as one of gpuwb's, on a device; the second result says that it is to be closed after use.
local function stream_of(op, v, name)
    if check.is_stream(v) then
        return check.stream(op, v), false
    end
    if v == 0 then
        check.fail("BAD_ARGUMENT", op, "stream 0 could mean either of CUDA's default streams; say 1 (legacy) or 2 (per-thread)")
    end
    if type(v) == "number" and v ~= 1 and v ~= 2 then
        check.fail("BAD_ARGUMENT", op, "stream must be a stream, 1 (legacy default), 2 (per-thread default), -1 (no waiting) or a CUstream as a "
            .. "cdata pointer, got %s", check.show(v))
    end
    return streams.wrap(v, {device = name}), true
end

-- Makes `stream` wait for all work on the mats of one buffer; nil: waits here.
local function order(op, list, stream, name)
    local s, ours
    if stream ~= nil then
        s, ours = stream_of(op, stream, name)
    end
    local rc = 0
    for _, m in ipairs(list) do
        rc = rc < 0 and rc or C.gwb_mat_ready(m, s)
    end
    if ours then
        s:close()
    end
    check.status(rc, op)
end

-- ---- out

local function delete_versioned(p)
    C.gwb_dlpack_delete(p, 1)
end

local function delete_plain(p)
    C.gwb_dlpack_delete(p, 0)
end

-- Of a tensor behind an interface: whoever read that may have used the memory, on streams of its own.
local function delete_lent(p)
    p.deleter(p)
end

-- One tensor over mats; owned by the cdata that is returned.
local function export(op, list, versioned)
    local planes, out = new_sources(), ffi.new("void *[1]")
    for i, m in ipairs(list) do
        planes[i - 1] = m
    end
    check.status(C.gwb_dlpack_export(out, planes, #list, versioned and 1 or 0), op)
    if versioned then
        return ffi.gc(ffi.cast(versioned_pointer, out[0]), delete_versioned)
    end
    return ffi.gc(ffi.cast(plain_pointer, out[0]), delete_plain)
end

local dlpack_options = {"versioned", "stream", "device"}

local function dlpack(op, list, opts)
    local versioned = opts.versioned == nil or check.boolean(op, "versioned", opts.versioned)
    local copied = false
    if opts.device ~= nil then
        local there = {}
        for i, m in ipairs(list) do
            there[i] = m:to(opts.device)
            copied = copied or not rawequal(there[i], m)
        end
        list = there
    end
    local p = export(op, list, versioned)
    local kind = p.dl_tensor.device.device_type
    local on_cuda = kind == DL_CUDA or kind == DL_CUDA_MANAGED and list[1].device ~= "host"
    local stream = opts.stream
    if stream == nil and on_cuda then
        stream = 1
    end
    if stream ~= -1 then
        if not on_cuda and stream ~= nil and not check.is_stream(stream) then
            check.fail("BAD_ARGUMENT", op, "%s is host memory, which no CUDA stream uses; stream must be a stream of gpuwb's, -1 (no "
                .. "waiting), or nil to wait here; got %s", tostring(list[1]), check.show(stream))
        end
        order(op, list, stream, list[1].device)
    end
    if copied and versioned then
        p.flags = bit.bor(tonumber(p.flags), COPIED)
    end
    return p
end

--- m:dlpack([{versioned=true, stream=, device=}]) -> `DLManagedTensorVersioned *`, or with versioned=false `DLManagedTensor *`: height x width, or
-- height x width x channels. The tensor holds the memory until its deleter has run. The cdata calls that when it is collected, unless a consumer
-- takes the tensor: gpu.from_dlpack does; pass ffi.gc(t, nil) to any other, which then calls the deleter once, on whatever thread. stream: the
-- consumer's, which will wait for all work on m (cuda: default 1; host: without one the call waits); -1: nothing waits. device: the tensor is on
-- that device, a copy where m is elsewhere. Errors: READ_ONLY for read-only memory in the old struct; SHAPE where the step is no multiple of the
-- element.
function mat.methods:dlpack(opts)
    local op = "mat:dlpack"
    check.mat(op, "mat", self)
    return dlpack(op, {self}, check.options(op, opts, dlpack_options))
end

--- m:dlpack_device() -> DLPack's device type and number of m's memory, as Python's __dlpack_device__: 1 host, 2 cuda, 3 page-locked, 13 managed.
function mat.methods:dlpack_device()
    local op = "mat:dlpack_device"
    check.mat(op, "mat", self)
    local d = ffi.new("gwb_dl_device")
    check.status(C.gwb_mat_dl_device(self, d), op)
    return d.device_type, d.device_id
end

-- Shape, strides, data and type of a tensor as both array interfaces have them.
local function describe(p, element)
    ffi.gc(p, delete_lent)
    local t = p.dl_tensor
    local size = types.size[element]
    local shape, strides, tight, run = {}, {}, true, 1
    for i = t.ndim, 1, -1 do
        shape[i], strides[i] = tonumber(t.shape[i - 1]), tonumber(t.strides[i - 1]) * size
        tight = tight and (shape[i] == 1 or strides[i] == run * size)
        run = run * shape[i]
    end
    local kind = element:sub(1, 1)
    return {
        shape = shape, typestr = (size == 1 and "|" or "<") .. kind .. size,
        data = {run > 0 and t.data or ffi.cast("void *", 0), bit.band(tonumber(p.flags), READ_ONLY) ~= 0},
        strides = not (tight or run == 0) and strides or nil, version = 3, owner = p,
    }
end

local function array_interface(op, list)
    local m = list[1]
    if m.device ~= "host" then
        check.fail("BAD_ARGUMENT", op, "the memory is on %s, which NumPy's interface cannot say; use cuda_array_interface(), or m:to(\"host\")",
            m.device)
    end
    local p = export(op, list, true)
    order(op, list, nil)
    return describe(p, m.dtype)
end

--- m:array_interface() -> NumPy's __array_interface__ (version 3) of a mat in host memory: {shape=, typestr=, data={void *, read-only}, strides=
-- (bytes; nil where rows are tight), version=3, owner=}. data[1] is NULL for a size of zero. Waits for all work on m, since whoever reads it knows
-- no stream.
function mat.methods:array_interface()
    local op = "mat:array_interface"
    check.mat(op, "mat", self)
    return array_interface(op, {self})
end

local function cuda_array_interface(op, list, opts)
    local m, stream = list[1], opts.stream
    local p = export(op, list, true)
    local kind = p.dl_tensor.device.device_type
    if m.device == "host" and kind == 1 then
        check.fail("BAD_ARGUMENT", op, "%s is plain host memory, which a cuda device cannot reach; use array_interface(), gpu.host_mat or "
            .. "m:to(\"cuda\")", tostring(m))
    end
    local t = describe(p, m.dtype)
    if stream == nil and m.device == "host" then
        order(op, list, nil)    -- page-locked: there is no stream of its device to name, so nothing is left to wait for
    elseif stream ~= -1 then
        local s = stream
        if stream == nil then
            s = streams.default(m.device)
        end
        order(op, list, s, m.device)
        t.stream = s
        if check.is_stream(s) then
            local handle = tonumber(ffi.cast("uintptr_t", s.handle))
            t.stream = handle > 2 and s.handle or math.max(handle, 1)
            t.owner = {p, s}    -- the stream lives as long as its handle is named
        end
    end
    return t
end

--- m:cuda_array_interface([{stream=}]) -> __cuda_array_interface__ version 3: the fields of array_interface, and `stream`: 1, 2 or a `void *`, on
-- which all work on m is done before the consumer's. stream: the one to name (default: the device's default stream); -1: none is named and nothing
-- waits. gpuwb does not see what the consumer does: m:record_stream(s) makes later operations wait for it. Page-locked host memory has one too, and
-- waits.
function mat.methods:cuda_array_interface(opts)
    local op = "mat:cuda_array_interface"
    check.mat(op, "mat", self)
    return cuda_array_interface(op, {self}, check.options(op, opts, {"stream"}))
end

-- ---- images

-- fn(op, mats, opts) for each plane of an image, or once for all planes in the order of the components.
local function each_plane(op, img, opts, known, fn)
    image.fill(op, "the image", img, ffi.new("gwb_image"))
    local all = {"layout"}
    for _, name in ipairs(known) do
        all[#all + 1] = name
    end
    opts = check.options(op, opts, all)
    local layout = check.choice(op, "layout", opts.layout == nil and "planes" or opts.layout, {"planes", "chw"})
    if layout == "planes" then
        local list = {}
        for i, m in ipairs(img.planes) do
            list[i] = fn(op, {m}, opts)
        end
        return list
    end
    local f = format.find(op, img.format)
    if f.layout ~= "planar" or f.planes < 2 then
        check.fail("SHAPE", op, "%s is not one plane a component, so it is no tensor of planes; wanted rgbp, gbrp, yuv444p and the like", f.name)
    end
    local info, list = C.gwb_format_get(f.position), {}
    for i = 1, f.planes do
        list[i] = img.planes[info.component[i - 1].plane + 1]
    end
    return fn(op, list, opts)
end

--- i:dlpack([{layout="planes"|"chw", versioned=, stream=, device=}]) -> a list with a tensor a plane; with "chw" one tensor planes x height x width,
-- in the order R G B (A) or Y U V (A), of planes alike that lie at even distances in one buffer, as m:planes("rgbp", w, h) gives. Else as m:dlpack.
function image.methods:dlpack(opts)
    return each_plane("image:dlpack", self, opts, dlpack_options, dlpack)
end

--- i:cuda_array_interface([{layout=, stream=}]), i:array_interface([{layout=}]) -> a list with a table a plane, or with layout="chw" one table.
function image.methods:cuda_array_interface(opts)
    return each_plane("image:cuda_array_interface", self, opts, {"stream"}, cuda_array_interface)
end

function image.methods:array_interface(opts)
    return each_plane("image:array_interface", self, opts, {}, array_interface)
end

-- ---- in

-- Four mats to fill, as a list and as C takes it.
local function new_mats()
    local list, pointers = {}, new_planes()
    for i = 1, 4 do
        list[i] = new_mat()
        pointers[i - 1] = list[i]
    end
    return list, pointers
end

-- What an import gives: a mat, or for "chw" the list of its planes; they share one record of who uses the memory.
local function finish(op, list, count, planar, stream)
    if stream then
        check.status(C.gwb_mat_record_stream(list[1], stream, 1), op)
    end
    if not planar then
        return list[1]
    end
    for i = #list, count + 1, -1 do
        list[i] = nil
    end
    return list
end

local function is_planar(op, opts)
    return check.choice(op, "layout", opts.layout == nil and "hwc" or opts.layout, {"hwc", "chw"}) == "chw"
end

local taken = setmetatable({}, {__mode = "k"})      -- cdata whose tensor was consumed

-- Whether a pointer is to the versioned struct, by its C type; nil: the type does not say.
local function is_versioned(ptr)
    local name = tostring(ffi.typeof(ptr))
    if ffi.istype(versioned_pointer, ptr) or name:find("DLManagedTensorVersioned %*>$") then
        return true
    elseif ffi.istype(plain_pointer, ptr) or name:find("DLManagedTensor %*>$") then
        return false
    end
    return nil
end

local function import_options(op, ptr, versioned, opts)
    opts = check.options(op, opts, {"versioned", "layout", "stream"})
    if opts.versioned ~= nil and opts.versioned ~= versioned then
        check.fail("BAD_ARGUMENT", op, "versioned is %s, and ptr is a %s", check.show(opts.versioned), check.show(ptr))
    end
    local planar, stream = is_planar(op, opts), check.stream(op, opts.stream)
    local list, pointers = new_mats()
    return list, pointers, planar, stream
end

--- gpu.from_dlpack(ptr [, {versioned=, layout="hwc"|"chw", stream=}]) -> mat over a DLPack tensor, without a copy. ptr: a `DLManagedTensorVersioned
-- *` or `DLManagedTensor *`; for a pointer of another type, as what a PyCapsule holds, versioned= says which (its name "dltensor_versioned" or
-- "dltensor"). The call takes the tensor over: its deleter runs once, before an error is raised, else when no mat and no work uses the memory any
-- more, on this thread. layout "chw": a tensor planes x height x width becomes a list of mats. stream: the one of gpuwb's on which the producer made
-- the data ready, which operations on others then wait for (default: it is ready). Errors: SHAPE, UNSUPPORTED (type, device, version), NO_DEVICE:
-- each says which value.
function exchange.public.from_dlpack(ptr, opts)
    local op = "gpu.from_dlpack"
    local p, size = check.pointer(op, "ptr", ptr)
    local versioned = is_versioned(ptr)
    local said = nil
    if type(opts) == "table" then
        said = opts.versioned
    end
    if versioned == nil and type(said) ~= "boolean" then
        check.fail("BAD_ARGUMENT", op, "ptr is a %s, which does not say which struct it points to; give {versioned = true} for "
            .. "DLManagedTensorVersioned or false for DLManagedTensor (nothing was taken over)", check.show(ptr))
    elseif size and size < ffi.sizeof((versioned == nil and said or versioned) and "gwb_dl_versioned" or "gwb_dl_managed") then
        check.fail("BAD_ARGUMENT", op, "ptr is an array of %d bytes, which holds no tensor of DLPack", size)
    elseif taken[ptr] then
        check.fail("CLOSED", op, "the tensor was taken already; a tensor has one consumer, so export anew")
    end
    taken[ptr] = true
    ffi.gc(ptr, nil)
    if versioned == nil then
        versioned = said
    end
    device.collect_due()
    local ok, list, pointers, planar, stream = pcall(import_options, op, ptr, versioned, opts)
    if not ok then
        C.gwb_dlpack_delete(p, versioned and 1 or 0)
        error(list, 0)
    end
    local count = ffi.new("int[1]")
    check.status(C.gwb_dlpack_import(pointers, count, p, versioned and 1 or 0, planar and 1 or 0), op)
    return finish(op, list, count[0], planar, stream)
end
jit.off(exchange.public.from_dlpack)    -- a deleter is foreign code, which a compiled FFI call must not run

local kinds = {u = "unsigned", i = "signed", f = "float"}

local function element_of(op, typestr)
    local order_mark, kind, size = check.string(op, "typestr", typestr):match("^([<>|=])(%a)(%d+)$")
    local name = kind and kinds[kind] and kind .. size * 8
    if not types.code[name] then
        check.fail("UNSUPPORTED", op, "typestr %s is no element type of a mat; wanted u1 i1 u2 i2 u4 i4 f2 f4 or f8 behind \"|\" or \"<\"%s",
            check.show(typestr), kind == "b" and "; view it as uint8" or "")
    elseif order_mark == ">" and types.size[name] > 1 then
        check.fail("UNSUPPORTED", op, "typestr %s is big-endian, and mats are little-endian; swap the bytes first", check.show(typestr))
    end
    return types.code[name]
end

-- An address given as a cdata pointer, as a 64-bit cdata number or as a Lua number, which is how a table from Python may come.
local function address(op, name, v)
    local plain = type(v) == "number" and v >= 0 and v < 2 ^ 53 and v == math.floor(v)
    if plain or ffi.istype("uint64_t", v) or ffi.istype("int64_t", v) then
        return ffi.cast("void *", ffi.cast("uintptr_t", v))
    elseif type(v) == "cdata" and v == nil then     -- NULL, for a size of zero
        return ffi.cast("void *", 0)
    end
    return (check.pointer(op, name, v))
end

local function list_of(op, name, v)
    if type(v) ~= "table" then
        check.fail("BAD_ARGUMENT", op, "%s must be a list of numbers, got %s", name, check.show(v))
    end
    return v
end

-- The stream that an interface names, on the device of its memory.
local function producer_stream(op, v, m)
    local name = m.device
    if name == "host" then      -- page-locked memory: some cuda device's stream
        local current = device.device()
        name = current ~= "host" and current or "cuda:0"
    end
    if v ~= 1 and v ~= 2 then
        v = v == 0 and 0 or address(op, "stream", v)
    end
    return (stream_of(op, v, name))
end

--- gpu.from_array_interface(t [, {layout="hwc"|"chw", owner=, stream=}]) -> mat over what a __cuda_array_interface__ or __array_interface__ table
-- describes, without a copy. t and owner are kept alive until no mat and no work uses the memory. Where t names a stream, operations on others wait
-- for it. The device is asked of the driver. layout "chw": planes x height x width becomes a list of mats. stream: as in from_dlpack. Errors: SHAPE
-- (negative, broken or overlapping strides, too many dimensions or channels), UNSUPPORTED (typestr, version, mask): each says which value.
function exchange.public.from_array_interface(t, opts)
    return exchange.import_interface(t, opts)
end

-- The same for modules whose owner is no Lua value: owner = {drop = a C function, arg = a pointer}, whose `taken` says afterwards, also after an error,
-- that drop(arg) is called when the memory is no longer used.
function exchange.import_interface(t, opts, owner)
    local op = "gpu.from_array_interface"
    if type(t) ~= "table" or type(t.data) ~= "table" then
        check.fail("BAD_ARGUMENT", op, "wanted a table with shape, typestr, data = {pointer, read-only} and version, got %s", type(t) == "table"
            and "data = " .. check.show(t.data) or check.show(t))
    end
    opts = check.options(op, opts, {"layout", "owner", "stream"})
    local planar, stream = is_planar(op, opts), check.stream(op, opts.stream)
    check.integer(op, "version", t.version, 0, 1000)
    if t.version > 3 or t.mask ~= nil then
        check.fail("UNSUPPORTED", op, t.mask ~= nil and "the array has a mask, which a mat has not" or "version %d of the interface is newer than 3",
            t.version)
    end
    local a = ffi.new("gwb_array")
    a.type, a.device, a.planar = element_of(op, t.typestr), -1, planar and 1 or 0
    a.ptr = address(op, "data[1]", t.data[1])
    a.readonly = check.boolean(op, "data[2]", t.data[2]) and 1 or 0
    local shape, strides = list_of(op, "shape", t.shape), t.strides
    a.ndim, a.compact = #shape, strides == nil and 1 or 0
    if strides ~= nil and #list_of(op, "strides", strides) ~= #shape then
        check.fail("SHAPE", op, "there are %d strides for a shape of %d dimensions", #strides, #shape)
    end
    for i = 1, math.min(#shape, 4) do
        a.shape[i - 1] = check.integer(op, ("shape[%d]"):format(i), shape[i], 0, max_size)
        if strides ~= nil then
            a.strides[i - 1] = check.integer(op, ("strides[%d]"):format(i), strides[i], -2 ^ 53, 2 ^ 53)
        end
    end
    device.collect_due()
    local list, pointers = new_mats()
    local count = ffi.new("int[1]")
    if owner then
        check.status(C.gwb_array_wrap_owned(pointers, count, a, owner.drop, owner.arg), op)
        owner.taken = true
    else
        local key = device.keep({t, opts.owner})
        a.owner = key
        local rc = C.gwb_array_wrap(pointers, count, a)
        if rc < 0 then
            device.forget(key)
        end
        check.status(rc, op)
    end
    if t.stream ~= nil then
        local theirs = producer_stream(op, t.stream, list[1])
        check.status(C.gwb_mat_record_stream(list[1], theirs, 1), op)
        theirs:close()
    end
    return finish(op, list, count[0], planar, stream)
end

return exchange
