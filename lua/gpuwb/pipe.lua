-- SPDX-License-Identifier: MIT
-- Pipelines: chains of stages from the stage table (src/ops.h), run as one kernel.
local ffi = require "ffi"
local check = require "gpuwb.check"
local format = require "gpuwb.format"
local image = require "gpuwb.image"
local mat = require "gpuwb.mat"
local stage = require "gpuwb.pipe_stage"
local types = require "gpuwb.types"
local C = require("gpuwb.cdef").C

local pipe = {public = {}}

local max_size = 2147483647
local tags = format.tags
local methods = {}
pipe.methods = methods
local meta = {__index = methods, __name = "pipeline"}
local hidden = setmetatable({}, {__mode = "k"})     -- pipe -> {steps =, handle =}

local function new(steps)
    local self = setmetatable({}, meta)
    hidden[self] = {steps = steps}
    return self
end

local function state(op, self)
    local s = hidden[self]
    if not s then
        check.fail("BAD_ARGUMENT", op, "call it as a method of a pipeline (gpu.pipe()), got %s", check.show(self))
    end
    return s
end

local function add_stage(row, self, ...)
    local op = "pipe:" .. row.name
    local list = {unpack(state(op, self).steps)}
    local step, keep, text = stage.make(row, op, ...)
    list[#list + 1] = {step = step, keep = keep, text = text}
    return new(list)
end

for _, row in ipairs(stage.list) do
    methods[row.name] = function(self, ...)
        return add_stage(row, self, ...)
    end
end

--- gpu.pipe() -> an empty pipeline. Its methods are the stages (gpu.pipe_stages()); each gives a new pipeline and leaves the old one as it is.
-- Nothing runs before p(src) or p:batch(list).
-- @example
-- local img = gpu.image("rgb24", 240, 160)
-- img.planes[1]:fill {40, 80, 120}
-- img.planes[1]:roi(40, 40, 80, 80):fill {250, 200, 60}
-- local turned = gpu.pipe():crop(20, 20, 160, 120):rotate(90):pad(10, 10, 10, 10, "value", {255, 255, 255})(img)
-- local batch = gpu.pipe():resize(4, 4):mul(2):to("nchw", "f32")(img)     -- three planes, one below the other
-- print(turned, batch.width, batch.height)         --> image 140x180 rgb24  4  12
function pipe.public.pipe()
    return new({})
end

--- gpu.pipe_stages() -> list of {name=, kind=, params={{name=, kind=, default=}, …}, text=}: what a pipeline can do.
function pipe.public.pipe_stages()
    local list = {}
    for i, row in ipairs(stage.list) do
        local params = {}
        for k, p in ipairs(row.params) do
            params[k] = {name = p.name, kind = p.kind, default = p.default}
        end
        list[i] = {name = row.name, kind = row.kind, params = params, text = row.text}
    end
    return list
end

-- The mats that a pipeline holds, one list a stage; nil for what is no pipeline.
function pipe.operands(v)
    local s = hidden[v]
    if not s then
        return nil
    end
    local lists = {}
    for i, step in ipairs(s.steps) do
        lists[i] = step.keep
    end
    return lists
end

-- ---- running

-- The C pipeline, made on first use.
local function handle(op, s)
    if not s.handle then
        local steps = ffi.new("gwb_pipe_step[?]", math.max(#s.steps, 1))
        for i, one in ipairs(s.steps) do
            steps[i - 1] = one.step
        end
        local out = ffi.new("gwb_pipe *[1]")
        check.status(C.gwb_pipe_open(out, steps, #s.steps), op)
        check.own(s, out[0], C.gwb_pipe_close)
    end
    return s.handle
end

-- What errors call the pictures of a batch. Kept, since text costs more than a picture's share of a call.
local picture_names = setmetatable({}, {__index = function(names, i)
    names[i] = "picture " .. i
    return names[i]
end})

-- A source into the C struct; whether it is a mat, which is the picture that its channels most plainly are.
local function fill_source(op, name, src, c)
    if check.is_mat(src) then
        stage.fill_plain(op, name, src, c)
        return true
    elseif not image.is(src) then
        check.fail("BAD_ARGUMENT", op, "%s must be an image or a mat, got %s", name, check.show(src))
    end
    image.fill(op, name, src, c)
    return false
end

local plan_type, image_array, crop_array = ffi.typeof("gwb_pipe_plan"), ffi.typeof("gwb_image[?]"), ffi.typeof("int32_t[?]")
local mat_type, mat_array, image_size, mat_size = ffi.typeof("gwb_mat *"), ffi.typeof("gwb_mat[?]"), ffi.sizeof("gwb_image"), ffi.sizeof("gwb_mat")

local planar_formats = {u8 = "rgbp", f16 = "rgbpf16le", f32 = "rgbpf32le"}

-- Rows of the mat that holds `count` pictures of a plan one behind the other.
local function rows_of(plan, count)
    return plan.out.height * (plan.layout == 3 and 1 or plan.channels) * count
end

-- New memory for `count` results of a plan: a list, or the one mat that holds them all.
local function allocate(op, plan, position, count)
    local width, height, channels = plan.out.width, plan.out.height, plan.channels
    local results = {}
    if plan.layout >= 3 then
        local rows = rows_of(plan, count)
        if rows > max_size then
            check.fail("LIMIT", op, "%d pictures of %d rows are more rows than a mat holds", count, rows / count)
        end
        return mat.allocate(op, position, width, rows, plan.type, plan.layout == 3 and channels or 1, true)
    end
    local element = types.names[plan.type + 1]
    for i = 1, count do
        if plan.layout == 0 then
            results[i] = image.new(op, format.by_position(plan.out.format), position, width, height, plan.out)
        elseif plan.layout == 1 then
            results[i] = mat.allocate(op, position, width, height, plan.type, channels)
        else    -- the planes of a picture lie one behind the other
            local planes = mat.allocate(op, position, width, height * channels, plan.type, 1, true):split(height, "rows")
            local f = channels == 3 and planar_formats[element] or channels == 1 and stage.plain_formats[element][1]
            results[i] = f and image.public.image_from(f, planes) or planes
        end
    end
    return results
end

-- What the caller gave as out=: a list of `count` results, or the one mat that holds them all.
local function given_results(op, plan, out, count, batch)
    local several = plan.layout >= 3 or (plan.layout == 2 and not batch)
    if several and check.is_mat(out) and (batch or plan.channels > 1) then
        local rows = rows_of(plan, count)
        if check.mat(op, "out", out).height ~= rows then
            check.fail("SHAPE", op, "out has %d rows, and the result takes %d", out.height, rows)
        end
        return out
    elseif not batch then
        return {out}
    elseif type(out) ~= "table" or image.is(out) or #out ~= count then
        check.fail("BAD_ARGUMENT", op, "out must be a list of %d results%s, got %s", count, several and ", or one mat" or "",
            type(out) == "table" and not image.is(out) and "a list of " .. #out or check.show(out))
    end
    return out
end

-- The results that lie one behind the other in a mat into the C structs. Returns what these borrow.
local function fill_parts(plan, whole, count, dst)
    local planes, rows = plan.layout == 3 and 1 or plan.channels, plan.out.height
    local from, parts = ffi.cast(mat_type, whole), mat_array(count * planes)
    for i = 0, count * planes - 1 do
        local part = parts[i]
        ffi.copy(part, from, mat_size)
        part.height = rows
        part.data = from.data + from.step * (i * rows)
    end
    for i = 0, count - 1 do
        dst[i].planes = planes
        for k = 0, planes - 1 do
            dst[i].plane[k] = parts + (i * planes + k)
        end
    end
    return parts
end

-- One result into the C struct; `r` is an image, a mat or a list of mats.
local function fill_result(op, r, c)
    if image.is(r) then
        image.fill(op, "out", r, c)
    elseif check.is_mat(r) then
        c.planes, c.plane[0] = 1, check.mat(op, "out", r)
    elseif type(r) == "table" and #r >= 1 and #r <= 4 then
        c.planes = #r
        for i = 1, #r do
            c.plane[i - 1] = check.mat(op, "out[" .. i .. "]", r[i])
        end
    else
        check.fail("BAD_ARGUMENT", op, "out must be an image, a mat or a list of mats, got %s", check.show(r))
    end
end

local function run(op, self, sources, crops, opts, batch)
    local s = state(op, self)
    local stream = check.stream(op, opts.stream)
    local count = #sources
    local src, dst, was_mat = image_array(count), image_array(count), false
    for i = 1, count do
        if i > 1 and rawequal(sources[i], sources[i - 1]) then
            ffi.copy(src + (i - 1), src + (i - 2), image_size)
        else
            was_mat = fill_source(op, batch and picture_names[i] or "src", sources[i], src[i - 1])
        end
    end
    local h, plan = handle(op, s), plan_type()
    check.status(C.gwb_pipe_describe(h, src[0], crops, plan), op)
    local out = opts.out
    local results = out == nil and allocate(op, plan, src[0].plane[0].device, count) or out ~= nil and given_results(op, plan, out, count, batch)
    local whole = check.is_mat(results) and fill_parts(plan, results, count, dst)
    for i = 1, whole and 0 or count do
        local r = results[i]
        if plan.layout == 0 and check.is_mat(r) then     -- a mat in, a mat out
            stage.fill_plain(op, "out", r, dst[i - 1])
        else
            fill_result(op, r, dst[i - 1])
        end
    end
    check.status(C.gwb_pipe_run(h, dst, src, crops, count, stream), op)
    if whole then
        return results
    end
    if plan.layout == 0 then
        for i = 1, count do
            local r = results[i]
            if out ~= nil and image.is(r) then
                for _, tag in ipairs(tags) do
                    r[tag] = format.tag_name(tag, plan.out[tag])
                end
            elseif out == nil and was_mat and #r.planes == 1 then
                results[i] = r.planes[1]
            end
        end
    end
    if out ~= nil then
        return out
    end
    return batch and results or results[1]
end

--- p(src [, {out=, stream=}]) -> the result: an image (a mat where src is one and the format stays plain), or what to() says: a mat for interleaved,
-- nhwc and nchw; for planar an image where there is a format of such planes, else a list of mats. out: memory of the result's shape to write to, which
-- is returned. One kernel launch where the chain has no wide separable filter; p:plan(src) tells.
function meta.__call(self, src, opts)
    local op = "pipe"
    return run(op, self, {src}, nil, check.options(op, opts, {"out", "stream"}), false)
end

--- p:batch(list [, {out=, stream=, crops=}]) -> list of results, or with to("nchw" | "nhwc", …) one tight mat of all. The pictures may differ in size,
-- not in format; crops: a list of {x, y, width, height}, the region of each picture that counts. One launch for all, where all need the same links.
function methods:batch(list, opts)
    local op = "pipe:batch"
    state(op, self)
    if type(list) ~= "table" or image.is(list) then
        check.fail("BAD_ARGUMENT", op, "wanted a list of images or mats, got %s", check.show(list))
    end
    opts = check.options(op, opts, {"out", "stream", "crops"})
    if #list == 0 then
        return {}
    end
    local crops
    if opts.crops ~= nil then
        if type(opts.crops) ~= "table" or #opts.crops ~= #list then
            check.fail("BAD_ARGUMENT", op, "crops must be a list of %d regions, one a picture, got %s", #list,
                type(opts.crops) == "table" and "a list of " .. #opts.crops or check.show(opts.crops))
        end
        crops = crop_array(4 * #list)
        for i, r in ipairs(opts.crops) do
            if type(r) ~= "table" or #r ~= 4 then
                stage.numbers(op, "crops[" .. i .. "]", r, 4, 4)
            end
            for k = 1, 4 do
                local v = r[k]
                if type(v) ~= "number" or not (v >= 0 and v <= max_size and v % 1 == 0) then
                    v = check.integer(op, ("crops[%d][%d]"):format(i, k), v, 0, max_size)
                end
                crops[4 * (i - 1) + k - 1] = v
            end
        end
    end
    return run(op, self, list, crops, opts, true)
end

-- ---- looking at it

function meta.__tostring(self)
    local lines = {}
    for i, one in ipairs(hidden[self].steps) do
        lines[i] = ("%d. %s"):format(i, one.text)
    end
    return #lines > 0 and "pipeline\n" .. table.concat(lines, "\n") or "pipeline without stages"
end

function meta.__concat(a, b)
    return tostring(a) .. tostring(b)
end

local function size_text(bytes)
    return bytes < 1e4 and ("%d B"):format(bytes) or bytes < 1e7 and ("%.1f kB"):format(bytes / 1e3) or ("%.1f MB"):format(bytes / 1e6)
end

local plan_meta = {__tostring = function(p)
    return ("%d launch%s, %s read at most, %s written; %s -> %s\n%s"):format(p.launches, p.launches == 1 and "" or "es", size_text(p.bytes_read),
        size_text(p.bytes_written), p.source, p.result, table.concat(p.stages, "\n"))
end}

--- p:plan(src) -> {launches=, bytes_read=, bytes_written=, stages=, width=, height=, source=, result=}, which prints itself. bytes_read counts the
-- region of a crop that the chain begins with, or the whole source; a resize may read less.
function methods:plan(src)
    local op = "pipe:plan"
    local s = state(op, self)
    local c, plan = image_array(1), plan_type()
    fill_source(op, "src", src, c[0])
    check.status(C.gwb_pipe_describe(handle(op, s), c[0], nil, plan), op)
    local stages = {}
    for i, one in ipairs(s.steps) do
        stages[i] = one.text
    end
    local layouts = {"interleaved", "planar", "nhwc", "nchw"}
    local what = plan.layout == 0 and format.by_position(plan.out.format).name
        or ("%s %s x %d"):format(layouts[plan.layout], types.names[plan.type + 1], plan.channels)
    return setmetatable({
        launches = plan.launches, bytes_read = tonumber(plan.bytes_read), bytes_written = tonumber(plan.bytes_written), stages = stages,
        width = plan.out.width, height = plan.out.height, source = ("%s %dx%d"):format(format.by_position(c[0].format).name, c[0].width, c[0].height),
        result = ("%s %dx%d"):format(what, plan.out.width, plan.out.height),
    }, plan_meta)
end

--- p:source(src [, pass [, {batch=}]]) -> the CUDA C of a pass (1: the first) for such a source, or with batch = true for many of them. It includes
-- gpuwb's own headers by name.
function methods:source(src, pass, opts)
    local op = "pipe:source"
    local s = state(op, self)
    pass = pass == nil and 1 or check.integer(op, "pass", pass, 1, 100)
    local batch = check.boolean(op, "batch", check.options(op, opts, {"batch"}).batch)
    local c, plan = image_array(1), plan_type()
    fill_source(op, "src", src, c[0])
    local h = handle(op, s)
    check.status(C.gwb_pipe_describe(h, c[0], nil, plan), op)
    local text = C.gwb_pipe_text(h, c[0], pass - 1, batch and 1 or 0)
    if text == nil then
        check.fail("BAD_ARGUMENT", op, "pass %d; this pipeline has %d for such a source", pass, plan.launches)
    end
    return ffi.string(text)
end

function meta.__newindex()
    check.fail("READ_ONLY", "pipe", "a pipeline's fields cannot be assigned; each stage gives a new pipeline")
end

-- ---- one-stage pipelines as methods of images and mats: i:resize(640, 480) -> image

local function one_stage(row)
    return function(self, ...)
        local count = select("#", ...)
        local last = count > 0 and select(count, ...) or nil
        if type(last) == "table" and (last.out ~= nil or last.stream ~= nil) and not image.is(last) then
            local opts, rest, given = {out = last.out, stream = last.stream}, {}, {...}
            for key, v in pairs(last) do
                if key ~= "out" and key ~= "stream" then
                    rest[key] = v
                end
            end
            given[count] = next(rest) ~= nil and rest or nil
            return add_stage(row, new({}), unpack(given, 1, next(rest) ~= nil and count or count - 1))(self, opts)
        end
        return add_stage(row, new({}), ...)(self)
    end
end

for _, row in ipairs(stage.list) do
    if row.name ~= "matrix" then        -- an image's matrix is its tag
        image.methods[row.name] = image.methods[row.name] or one_stage(row)
    end
    if row.kind == "place" then
        mat.methods[row.name] = mat.methods[row.name] or one_stage(row)
    end
end

return pipe
