-- SPDX-License-Identifier: MIT
-- Many files: read ahead on threads, written behind on threads.
local ffi = require "ffi"
local check = require "gpuwb.check"
local device = require "gpuwb.device"
local files = require "gpuwb.files"
local format = require "gpuwb.format"
local image = require "gpuwb.image"
local nvjpeg = require "gpuwb.nvjpeg_library"
local C = require("gpuwb.cdef").C

local many = {public = {}}
local public = many.public

-- The strings of a gwb_bytes that holds each with a zero behind it; frees it.
local function strings(op, rc, bytes)
    check.status(rc, op)
    local list, at = {}, 0
    local size = tonumber(bytes.size)
    while at < size do
        local text = ffi.string(bytes.data + at)
        list[#list + 1] = text
        at = at + #text + 1
    end
    C.gwb_bytes_free(ffi.gc(bytes, nil))
    return list
end

local function new_bytes()
    return ffi.gc(ffi.new("gwb_bytes"), C.gwb_bytes_free)
end

--- gpu.list(what [, {deep=}]) -> a sorted list of paths: of the files that a pattern names ("in/*.jpg"), or of those in a folder; deep=true: in its
-- folders too. A pattern or a folder with no file gives an empty list; a folder that is not there is an error.
function public.list(what, opts)
    local op = "gpu.list"
    check.path(op, "what", what)
    local deep = check.boolean(op, "deep", check.options(op, opts, {"deep"}).deep)
    local bytes = new_bytes()
    if C.gwb_path_kind(what) ~= 2 then
        if not what:find("[%*%?%[]") and C.gwb_path_kind(what) == 0 then
            check.fail("NO_FILE", op, "%s: no such file or folder", what)
        end
        return strings(op, C.gwb_file_glob(what, bytes), bytes)
    end
    local list = strings(op, C.gwb_folder_list(what, deep and 1 or 0, bytes), bytes)
    local folder = what:gsub("/+$", "") .. "/"
    for i, name in ipairs(list) do
        list[i] = folder .. name
    end
    return list
end

local function paths_of(op, what)
    if type(what) == "string" then
        return public.list(what)
    end
    if type(what) ~= "table" then
        check.fail("BAD_ARGUMENT", op, "the files must be a list of paths, a pattern or a folder, got %s", check.show(what))
    end
    for i, path in ipairs(what) do
        check.path(op, "path " .. i, path)
    end
    return what
end

-- A picture upright, as its EXIF orientation says.
local turns = {
    [2] = function(i) return i:flip("horizontal") end, [3] = function(i) return i:rotate(180) end, [4] = function(i) return i:flip("vertical") end,
    [5] = function(i) return i:transpose() end, [6] = function(i) return i:rotate(90) end, [7] = function(i) return i:transpose():rotate(180) end,
    [8] = function(i) return i:rotate(270) end,
}

function many.upright(img, orientation)
    return turns[orientation] and turns[orientation](img) or img
end

-- The image or mat of a taken picture, whose pixels lie in `mats` or still on the host. turn: what was not turned on the way is turned now.
local function finish(op, rc, picture, mats, position, turn)
    if rc == 1 then
        return files.place(op, picture, position, nil)
    end
    local planes, opts = {}, {}
    for i = 1, rc - 1 do
        planes[i] = mats[i]
    end
    for _, tag in ipairs {"matrix", "range", "siting", "transfer", "primaries"} do
        local value = ffi.string(picture[tag])
        opts[tag] = value ~= "" and value or nil
    end
    opts.width, opts.height = picture.width, picture.height
    local img = image.public.image_from(ffi.string(picture.format), planes, opts)
    if turn then
        img = many.upright(img, picture.orientation)
        picture.orientation = 1
    end
    files.annotate(img, picture)
    return img
end

local reader_meta = {__name = "files"}

local function check_reader(reader)
    if type(reader) ~= "table" or getmetatable(reader) ~= reader_meta then
        check.fail("BAD_ARGUMENT", "files:close", "call it as a method of what gpu.files gave, got %s", check.show(reader))
    end
    return reader
end

local function close(reader)
    check.disown(check_reader(reader), C.gwb_loader_close)
end

-- The next file that there is a result for: image or mat, path, position in the list, warning.
local function step(reader)
    local op = "gpu.files"
    while reader.handle do
        local mats, pointers = {}, ffi.new("gwb_mat *[4]")
        for i = 1, 4 do
            mats[i] = files.empty_mat()
            pointers[i - 1] = ffi.cast("gwb_mat *", mats[i])
        end
        device.collect_due()        -- pictures that the loop has let go of
        local picture = ffi.gc(ffi.new("gwb_picture"), C.gwb_picture_free)
        local index = ffi.new("int64_t[1]")
        local rc = C.gwb_loader_next(reader.handle, picture, pointers, index)
        if rc == 0 then
            close(reader)
            return nil
        end
        local n = tonumber(index[0]) + 1
        local path = reader.paths[n]
        local ok, result
        if rc > 0 then
            ok, result = pcall(finish, op, rc, picture, mats, reader.position, reader.turn)
        else
            ok, result = pcall(check.status, rc, op)
        end
        if ok then
            local warning = ffi.string(picture.warning)
            C.gwb_picture_free(ffi.gc(picture, nil))
            return result, path, n, warning ~= "" and warning or nil
        end
        if not reader.skip then
            close(reader)
            error(result, 0)
        end
        reader.failed[#reader.failed + 1] = {path = path, index = n, error = result}
    end
    return nil
end

reader_meta.__index, reader_meta.__call = {close = close}, step

--- gpu.files(what [, {threads=, prefetch=, ordered=, errors=, decode=, device=, strict=, orient=, scale=, format=, isolated=, timeout=}]) -> iterator:
-- for img, path, n, warning in gpu.files("in/*.jpg"). what: a list of paths, a pattern, or a folder. Pictures are decoded ahead on `threads` threads
-- (as many as processors; at most 4 with nvJPEG), at most `prefetch` of them (two a thread), so that memory stays bounded, and uploaded through
-- page-locked memory on streams of their own. ordered=false: as they become ready. errors: "raise" (default) or "skip": a bad file is passed over and
-- listed in the iterator's `failed`, {path=, index=, error=}. decode: "host" (default); "nvjpeg": JPEGs on the cuda device by nvJPEG, other files are
-- bad ones; "auto": by nvJPEG what it decodes, if it is there, and the rest on the host. nvJPEG's pixels are a few steps from the host's, and damage
-- amid them is found only as far as it finds it; a cut file is found as ever; it takes about half a second to open. The rest is as with gpu.load. A
-- loop that is left early is followed by iterator:close(), or the collector does it.
function public.files(what, opts)
    local op = "gpu.files"
    opts = check.options(op, opts, {"threads", "prefetch", "ordered", "errors", "decode", "device", "strict", "orient", "scale", "format", "isolated",
                                    "timeout"})
    local paths = paths_of(op, what)
    local p = ffi.new("gwb_loader_params")
    p.read = files.picture_reading(op, opts)
    p.threads = opts.threads == nil and 0 or check.integer(op, "threads", opts.threads, 1, 64)
    p.prefetch = opts.prefetch == nil and 0 or check.integer(op, "prefetch", opts.prefetch, 1, 4096)
    check.boolean(op, "ordered", opts.ordered)
    p.unordered = opts.ordered == false and 1 or 0
    p.isolated = check.boolean(op, "isolated", opts.isolated) and 1 or 0
    p.device = device.position(op, opts.device)
    local decode = check.choice(op, "decode", opts.decode == nil and "host" or opts.decode, {"host", "auto", "nvjpeg"})
    if decode == "nvjpeg" and p.device == 0 then
        check.fail("UNSUPPORTED", op, 'decode="nvjpeg" is for a cuda device, and the pictures go to the host; decode="host" or "auto" decodes them there')
    elseif decode ~= "host" and opts.isolated then
        check.fail("BAD_ARGUMENT", op, 'isolated=true decodes on the host, so decode="host" belongs to it, not "%s"', decode)
    elseif decode ~= "host" and p.device > 0 then
        local there, err = pcall(nvjpeg.pointers, op, p.nvjpeg)
        if not there and decode == "nvjpeg" then
            error(err, 0)
        elseif not there then
            p.nvjpeg = ffi.new("gwb_nvjpeg")
        end
        p.only = decode == "nvjpeg" and 1 or 0
    end
    local skip = check.choice(op, "errors", opts.errors == nil and "raise" or opts.errors, {"raise", "skip"}) == "skip"
    local list = {}
    for i, path in ipairs(paths) do
        list[i] = path
    end
    local c, out = ffi.new("const char *[?]", math.max(#list, 1), list), ffi.new("gwb_loader *[1]")
    check.status(C.gwb_loader_open(c, #list, p, out), op)
    local reader = setmetatable({paths = list, count = #list, failed = {}, skip = skip, position = p.device}, reader_meta)
    reader.turn = opts.orient ~= false and opts.format ~= "native"
    return check.own(reader, out[0], C.gwb_loader_close)
end

-- ---- writing

local writer = {}
local writer_meta = {__index = writer, __name = "writer"}
many.writer = writer

local function check_writer(op, w)
    if type(w) ~= "table" or getmetatable(w) ~= writer_meta then
        check.fail("BAD_ARGUMENT", op, "the writer must be one of gpu.writer's, got %s", check.show(w))
    end
    if not w.handle then
        check.fail("CLOSED", op, "the writer is closed")
    end
    return w
end

--- gpu.writer([{threads=, ahead=}]) -> writer. Its threads encode and write what w:save was given; at most `ahead` pictures (two a thread) wait.
-- What could not be written is told by w:failed(), w:wait() and w:close(). Errors: BAD_ARGUMENT, OUT_OF_MEMORY.
function public.writer(opts)
    local op = "gpu.writer"
    opts = check.options(op, opts, {"threads", "ahead"})
    local out = ffi.new("gwb_writer *[1]")
    local threads = opts.threads == nil and 0 or check.integer(op, "threads", opts.threads, 1, 64)
    local ahead = opts.ahead == nil and 0 or check.integer(op, "ahead", opts.ahead, 1, 4096)
    check.status(C.gwb_writer_open(threads, ahead, out), op)
    return check.own(setmetatable({}, writer_meta), out[0], C.gwb_writer_close)
end

--- w:save(obj, path [, {…as gpu.save…}]) -> obj. Waits for the pixels and for a free place, not for the file. What cannot be written at all (a wrong
-- option, a format that holds no such pixels) is told at once or by w:failed(), as is a full disk. Errors: BAD_ARGUMENT, UNSUPPORTED, CLOSED, OUT_OF_MEMORY.
function writer:save(obj, path, opts)
    local op = "writer:save"
    check_writer(op, self)
    check.path(op, "path", path)
    local list = files.list_of(op, obj)
    if #list > 1 then
        check.fail("UNSUPPORTED", op, "a writer takes one picture a file; gpu.save writes frames")
    end
    local kind, params = files.writing(op, path, opts, list[1])
    local picture = ffi.new("gwb_picture")
    local keep, own = files.fill(op, list[1], kind, picture)
    if own then
        check.status(C.gwb_picture_keep(picture, keep[1]), op)
    end
    local rc = C.gwb_writer_put(self.handle, picture, kind, params, path)
    if rc < 0 and own then
        picture.icc, picture.memory = nil, nil
        C.gwb_picture_free(picture)
    end
    check.status(rc, op)
    keep[1] = nil
    return obj
end

--- w:failed() -> list of {path=, error=}: what failed since the last call. Does not wait. Errors: CLOSED.
function writer:failed()
    local op, list = "writer:save", {}
    check_writer("writer:failed", self)
    while true do
        local bytes = new_bytes()
        local rc = C.gwb_writer_failed(self.handle, bytes)
        if rc == 0 then
            return list
        end
        local _, err = pcall(check.status, rc, op)
        list[#list + 1] = {path = bytes.data ~= nil and ffi.string(bytes.data) or nil, error = err}
    end
end

--- w:wait() -> list of what failed, as w:failed(). Waits until all is written or has failed; the writer goes on. Errors: CLOSED.
function writer:wait()
    check_writer("writer:wait", self)
    C.gwb_writer_wait(self.handle)
    return self:failed()
end

--- w:close() -> list of what failed. Waits for all; closing twice is harmless.
function writer:close()
    if type(self) == "table" and getmetatable(self) == writer_meta and not self.handle then
        return {}
    end
    local list = check_writer("writer:close", self):wait()
    local handle = self.handle
    self.handle = nil
    C.gwb_writer_close(ffi.gc(handle, nil))
    return list
end

--- gpu.make_folder(path) -> path: makes it, and those above it; one that is there is fine. Errors: NO_FILE, IO.
function public.make_folder(path)
    local op = "gpu.make_folder"
    check.status(C.gwb_folder_make(check.path(op, "path", path)), op)
    return path
end

-- ---- any picture for any file format

local held = {jpg = "8", bmp = "8", tga = "8", qoi = "8", png = "16", pnm = "16", hdr = "f32", pfm = "f32"}
local names = {
    gray = {["8"] = {"gray", "ya8"}, ["16"] = {"gray16le", "ya16le"}, f32 = {"grayf32le", "grayf32le"}},
    rgb = {["8"] = {"rgb24", "rgba"}, ["16"] = {"rgb48le", "rgba64le"}, f32 = {"rgbf32le", "rgbaf32le"}},
}
local mats = {u8 = {"gray", "ya8", "rgb24", "rgba"}, u16 = {"gray16le", "ya16le", "rgb48le", "rgba64le"}, f32 = {"grayf32le", nil, "rgbf32le", "rgbaf32le"}}

--- gpu.fit(obj, kind [, {matrix=, range=, background=, depth=}]) -> an image that the file format `kind` ("png", "jpg", …) holds: a mat of 1 to 4 channels
-- as gray or RGB, YUV and mosaics as RGB, of 8 or 16 bits or f32, whichever is nearest; itself where that is what it is. matrix and range: of YUV that
-- does not say. background: alpha that the format does not hold is blended over it. depth: 8 makes 8 bits of more. For npy and yuv nothing is changed;
-- for y4m RGB becomes yuv420p, by matrix and range.
function public.fit(obj, kind, opts)
    local op = "gpu.fit"
    opts = check.options(op, opts, {"matrix", "range", "background", "depth"})
    local known = C.gwb_file_kind(check.string(op, "kind", kind))
    if known == nil then
        check.fail("UNSUPPORTED", op, "kind must be a file format that is written (%s), got %s", ffi.string(C.gwb_file_kinds(1)), check.show(kind))
    end
    kind = ffi.string(known)
    if kind == "npy" or kind == "yuv" then
        return obj
    end
    local img = obj
    if check.is_mat(obj) then
        local name = (mats[obj.dtype] or {})[obj.channels]
        if not name then
            check.fail("UNSUPPORTED", op, "a mat of %s is no picture: npy holds it", obj.type)
        end
        img = image.public.image_from(name, {obj})
    end
    local f = format.find(op, image.check(op, "the object", img).format)
    local tags = {}
    if f.model == "yuv" then
        tags = {matrix = img.matrix == nil and opts.matrix or nil, range = img.range == nil and opts.range or nil}
    end
    if kind == "y4m" then
        if f.model == "yuv" and f.planes >= 3 or f.model == "gray" and not f.alpha then
            return img
        end
        return img:convert("yuv420p", {to = {matrix = opts.matrix, range = opts.range, siting = "left"}})
    end
    local bits = held[kind] or "8"
    if bits == "16" and (f.depth <= 8 or opts.depth == 8) then
        bits = "8"
    end
    local alpha = f.alpha and not (opts.background ~= nil and (kind == "jpg" or kind == "hdr" or kind == "pfm"))
    local name = names[f.model == "gray" and "gray" or "rgb"][bits][alpha and 2 or 1]
    if name == img.format and not (f.model == "gray" and img.range == "limited") then
        return img
    end
    local to = f.model == "gray" and img.range == "limited" and {range = "full"} or nil
    local out = img:convert(name, {from = tags, to = to, background = f.alpha and not alpha and opts.background or nil})
    out.icc, out.gamma = img.icc, img.gamma
    return out
end

return many
