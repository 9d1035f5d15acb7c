-- SPDX-License-Identifier: MIT
-- Pipelines: chains of stages from the stage table (src/ops.h), run as one kernel.
local ffi = require "ffi"
local check = require "gpuwb.check"
local device = require "gpuwb.device"
local format = require "gpuwb.format"
local image = require "gpuwb.image"
local mat = require "gpuwb.mat"
local types = require "gpuwb.types"
local C = require("gpuwb.cdef").C

local pipe = {public = {}, stages = {}}

local nan = 0 / 0
local max_size = 2147483647
local tags = format.tags
local methods = {}
local meta = {__index = methods, __name = "pipeline"}
local hidden = setmetatable({}, {__mode = "k"})     -- pipe -> {steps =, handle =}

local step_type = ffi.typeof("gwb_pipe_step")

-- ---- the stage table

local function parse_params(text)
    local list = {}
    for name, rest in text:gmatch("(%w+):(%S+)") do
        local kind, default = rest:match("^([^=]*)=(.*)$")
        local p = {name = name, kind = kind or rest, default = default}
        if p.kind:find("|", 1, true) then
            p.choices = {}
            for choice in p.kind:gmatch("[^|]+") do
                p.choices[#p.choices + 1] = choice
            end
        end
        list[#list + 1] = p
    end
    return list
end

for position = 0, C.gwb_op_count() - 1 do
    pipe.stages[#pipe.stages + 1] = {
        op = position, name = ffi.string(C.gwb_op_name(position)), kind = ffi.string(C.gwb_op_kind(position)):lower(),
        params = parse_params(ffi.string(C.gwb_op_params(position))), text = ffi.string(C.gwb_op_text(position)),
    }
end

-- ---- arguments of a stage

local function numbers(op, name, v, least, most)
    if type(v) ~= "table" or #v < least or #v > most then
        check.fail("BAD_ARGUMENT", op, "%s must be a list of %s numbers, got %s", name, least == most and least or least .. " to " .. most,
            type(v) == "table" and "a list of " .. #v or check.show(v))
    end
    for i = 1, #v do
        check.number(op, name .. "[" .. i .. "]", v[i])
    end
    return v
end

-- A list of numbers, or of as many lists, as an f32 mat of one row a list; or {r, g, b, …}.
local function table_mat(op, name, v, cube)
    if check.is_mat(v) then
        if v.type ~= "f32" then
            check.fail("BAD_ARGUMENT", op, "%s must be an f32 mat, got %s", name, v.type)
        end
        return check.mat(op, name, v)
    end
    if type(v) ~= "table" or #v == 0 then
        check.fail("BAD_ARGUMENT", op, "%s must be a list of numbers, got %s", name, check.show(v))
    end
    local rows = type(v[1]) == "table" and v or {v}
    for i, row in ipairs(rows) do
        numbers(op, name, row, cube and 24 or 2, cube and 3 * 129 ^ 3 or 65536)
        if #row ~= #rows[1] then
            check.fail("BAD_ARGUMENT", op, "the lists of %s have %d and %d numbers; wanted as many each", name, #rows[1], #row)
        end
        rows[i] = row
    end
    local m = mat.allocate(op, device.position(op), #rows[1], #rows, types.code.f32, 1, true)
    return m:upload(rows)
end

-- The numbers and the size of a .cube file.
local function read_cube(op, path)
    local file, why = io.open(path, "r")
    if not file then
        check.fail("NO_FILE", op, "%s", why)
    end
    local list, size = {}, nil
    for line in file:lines() do
        size = size or tonumber(line:match("^%s*LUT_3D_SIZE%s+(%d+)"))
        local r, g, b = line:match("^%s*([-%d.eE+]+)%s+([-%d.eE+]+)%s+([-%d.eE+]+)%s*$")
        if tonumber(r) and tonumber(g) and tonumber(b) then
            list[#list + 1], list[#list + 2], list[#list + 3] = tonumber(r), tonumber(g), tonumber(b)
        end
    end
    file:close()
    if not size or size < 2 or size > 129 or #list ~= 3 * size ^ 3 then
        check.fail("BAD_FILE", op, "%s holds %d colours; a .cube file names LUT_3D_SIZE n and holds n^3", path, #list / 3)
    end
    return list
end

local letters = {r = 0, g = 1, b = 2, a = 3, ["0"] = 4, ["1"] = 5}

-- Each kind of parameter: puts the value into the step. `at` holds the next free n and v.
local put = {}

function put.int(op, p, v, step, at)
    step.n[at.n] = check.integer(op, p.name, v, -max_size, max_size)
    at.n = at.n + 1
end

function put.size(op, p, v, step, at)
    step.n[at.n] = check.integer(op, p.name, v, p.default == "0" and 0 or 1, max_size)
    at.n = at.n + 1
end

function put.choice(op, p, v, step, at)
    local text = type(v) == "number" and ("%g"):format(v) or v
    for i, choice in ipairs(p.choices) do
        if text == choice then
            step.n[at.n] = i - 1
            at.n = at.n + 1
            return
        end
    end
    check.choice(op, p.name, v, p.choices)
end

put["bool"] = function(op, p, v, step, at)
    step.n[at.n] = check.boolean(op, p.name, v) and 1 or 0
    at.n = at.n + 1
end

function put.number(op, p, v, step, at)
    step.v[at.v] = v == "max" and nan or check.number(op, p.name, v)
    if v ~= v then
        check.fail("BAD_ARGUMENT", op, "%s must be a number, got nan", p.name)
    end
    at.v = at.v + 1
end

function put.color(op, p, v, step, at)
    if type(v) == "number" and v == v then
        step.v[at.v], step.v[at.v + 1], step.v[at.v + 2], step.v[at.v + 3] = v, v, v, nan
    else
        numbers(op, p.name, v, 1, 4)
        for i = 1, 4 do
            step.v[at.v + i - 1] = v[i] or nan
            if v[i] and v[i] ~= v[i] then
                check.fail("BAD_ARGUMENT", op, "%s[%d] must be a number, got nan", p.name, i)
            end
        end
    end
    at.v = at.v + 4
end

function put.matrix9(op, p, v, step, at)
    numbers(op, p.name, v, 9, 9)
    for i = 1, 9 do
        step.v[at.v + i - 1] = v[i]
    end
    at.v = at.v + 9
end

function put.matrix12(op, p, v, step)
    if type(v) == "table" and type(v[1]) == "table" then    -- rows
        local flat = {}
        for _, row in ipairs(v) do
            for _, number in ipairs(numbers(op, p.name, row, 3, 4)) do
                flat[#flat + 1] = number
            end
        end
        v = flat
    end
    if type(v) ~= "table" or (#v ~= 9 and #v ~= 12) then
        check.fail("BAD_ARGUMENT", op, "%s must be 9 or 12 numbers, row by row, got %s", p.name, type(v) == "table" and #v or check.show(v))
    end
    numbers(op, p.name, v, 9, 12)
    local columns = #v / 3
    for i = 0, 2 do
        for j = 0, 3 do
            step.v[4 * i + j] = j < columns and v[i * columns + j + 1] or 0
        end
    end
end

function put.list(op, p, v, step, _, keep)
    local cube = op == "pipe:cube"
    if cube and type(v) == "string" then
        v = read_cube(op, v)
    end
    local m = table_mat(op, p.name, v, cube)
    if cube then
        local n = math.floor((m.width / 3) ^ (1 / 3) + 0.5)
        if 3 * n ^ 3 ~= m.width or m.height ~= 1 then
            check.fail("BAD_ARGUMENT", op, "%s has %d numbers; wanted 3 * n^3", p.name, m.width * m.height)
        end
        step.count = n
    end
    step.operand = m
    keep[#keep + 1] = m
end

function put.mat(op, p, v, step, _, keep)
    step.operand = check.mat(op, p.name, v)
    keep[#keep + 1] = v
end

function put.image(op, p, v, step, _, keep)
    if check.is_mat(v) then
        v = pipe.as_image(op, p.name, v)
    end
    image.fill(op, p.name, v, step.target)
    if #v.planes ~= 1 then
        check.fail("UNSUPPORTED", op, "%s must have its channels in one plane, as rgb24 or rgba; got %s", p.name, v.format)
    end
    step.operand = v.planes[1]
    keep[#keep + 1] = v.planes[1]
end

function put.format(op, p, v, step, at, _, opts)
    local f = format.find(op, v)
    step.target.format = f.position
    for _, tag in ipairs(tags) do
        step.target[tag] = format.tag(op, tag, opts[tag])
    end
    if f.range and opts.range == nil then
        step.target.range = format.tag(op, "range", f.range)
    end
    at.name = p.name
end

function put.type(op, p, v, step, at)
    local code, channels = types.parse(op, p.name, v)
    if channels ~= 1 then
        check.fail("BAD_ARGUMENT", op, "%s is the element type alone, as \"f32\"; got %s", p.name, v)
    end
    step.n[at.n] = code
    at.n = at.n + 1
end

function put.text(op, p, v, step)
    check.string(op, p.name, v)
    if #v < 1 or #v > 4 then
        check.fail("BAD_ARGUMENT", op, "%s must be 1 to 4 letters of r g b a 0 1, got %s", p.name, check.show(v))
    end
    for i = 1, #v do
        local n = letters[v:sub(i, i)]
        if not n then
            check.fail("BAD_ARGUMENT", op, "%s must be letters of r g b a 0 1, got %s", p.name, check.show(v))
        end
        step.n[i - 1] = n
    end
    step.count = #v
end

local function default_of(p)
    if p.default == "true" or p.default == "false" then
        return p.default == "true"
    end
    return tonumber(p.default) or p.default
end

-- What a value looks like in tostring(pipe).
local function brief(v)
    if type(v) == "table" then
        local parts = {}
        for i = 1, math.min(#v, 4) do
            parts[i] = type(v[i]) == "number" and ("%g"):format(v[i]) or "…"
        end
        return "{" .. table.concat(parts, ", ") .. (#v > 4 and ", …}" or "}")
    end
    return type(v) == "number" and ("%g"):format(v) or type(v) == "string" and v or check.show(v)
end

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

local function add_stage(stage, self, ...)
    local op = "pipe:" .. stage.name
    local steps = state(op, self).steps
    local given, count, named = {...}, select("#", ...), nil
    local extra = stage.name == "convert" and tags or {}
    local last = given[count]
    -- options come last; a table that has numbers in it is a list
    if type(last) == "table" and not check.is_mat(last) and not image.is(last) and #last == 0 and next(last) ~= nil then
        named = last
        count = count - 1
    end
    local known = {unpack(extra)}
    for _, p in ipairs(stage.params) do
        known[#known + 1] = p.name
    end
    named = check.options(op, named, known)
    if count > #stage.params then
        check.fail("BAD_ARGUMENT", op, "%d arguments; wanted %d: %s", count, #stage.params, table.concat(known, ", "))
    end
    local step, at, keep, shown = step_type(), {n = 0, v = 0}, {}, {}
    step.op = stage.op
    for i, p in ipairs(stage.params) do
        local v = i <= count and given[i] or nil
        if i <= count and given[i] == false then
            v = false
        end
        if v == nil then
            v = named[p.name]
        end
        local was_given = v ~= nil
        if v == nil then
            if p.default == nil then
                check.fail("BAD_ARGUMENT", op, "%s is missing; wanted %s", p.name, p.choices and table.concat(p.choices, " or ") or p.kind)
            end
            v = default_of(p)
        end
        put[p.choices and "choice" or p.kind](op, p, v, step, at, keep, named)
        if was_given then
            shown[#shown + 1] = (i > count and p.name .. "=" or "") .. brief(v)
        end
    end
    for _, tag in ipairs(extra) do
        if named[tag] ~= nil then
            shown[#shown + 1] = tag .. "=" .. tostring(named[tag])
        end
    end
    local list = {unpack(steps)}
    list[#list + 1] = {step = step, keep = keep, text = stage.name .. "(" .. table.concat(shown, ", ") .. ")"}
    return new(list)
end

for _, stage in ipairs(pipe.stages) do
    methods[stage.name] = function(self, ...)
        return add_stage(stage, self, ...)
    end
end

--- gpu.pipe() -> an empty pipeline. Its methods are the stages (gpu.pipe_stages()); each gives a new pipeline and leaves the old one as it is.
-- Nothing runs before p(src) or p:batch(list).
function pipe.public.pipe()
    return new({})
end

--- gpu.pipe_stages() -> list of {name=, kind=, params={{name=, kind=, default=}, …}, text=}: what a pipeline can do.
function pipe.public.pipe_stages()
    local list = {}
    for i, stage in ipairs(pipe.stages) do
        local params = {}
        for k, p in ipairs(stage.params) do
            params[k] = {name = p.name, kind = p.kind, default = p.default}
        end
        list[i] = {name = stage.name, kind = stage.kind, params = params, text = stage.text}
    end
    return list
end

-- ---- running

local plain_formats = {
    u8 = {"gray", "ya8", "rgb24", "rgba"}, u16 = {"gray16le", "ya16le", "rgb48le", "rgba64le"},
    f16 = {"grayf16le", nil, "rgbf16le", "rgbaf16le"}, f32 = {"grayf32le", nil, "rgbf32le", "rgbaf32le"},
}

-- A mat as the picture that its channels most plainly are: gray, rgb or rgba.
function pipe.as_image(op, name, m)
    check.mat(op, name, m)
    local list = plain_formats[m.dtype]
    local f = list and list[m.channels]
    if not f then
        check.fail("UNSUPPORTED", op, "%s is %s; a pipeline takes mats of u8, u16, f16 or f32 with 1, 3 or 4 channels (and 2 of u8, u16), and images", name,
            m.type)
    end
    return image.public.image_from(f, {m})
end

-- The C pipeline, made on first use.
local function handle(op, s)
    if not s.handle then
        local steps = ffi.new("gwb_pipe_step[?]", math.max(#s.steps, 1))
        for i, stage in ipairs(s.steps) do
            steps[i - 1] = stage.step
        end
        local out = ffi.new("gwb_pipe *[1]")
        check.status(C.gwb_pipe_open(out, steps, #s.steps), op)
        s.handle = ffi.gc(out[0], C.gwb_pipe_close)
    end
    return s.handle
end

local function as_source(op, name, src)
    if check.is_mat(src) then
        return pipe.as_image(op, name, src), true
    elseif not image.is(src) then
        check.fail("BAD_ARGUMENT", op, "%s must be an image or a mat, got %s", name, check.show(src))
    end
    return src, false
end

local plan_type, image_array, crop_array = ffi.typeof("gwb_pipe_plan"), ffi.typeof("gwb_image[?]"), ffi.typeof("int32_t[?]")

local planar_formats = {u8 = "rgbp", f16 = "rgbpf16le", f32 = "rgbpf32le"}

-- New memory for `count` results of a plan: a list of {planes}, and what the caller gets for them.
local function allocate(op, plan, position, count)
    local width, height, channels = plan.out.width, plan.out.height, plan.channels
    local element = types.names[plan.type + 1]
    local results = {}
    if plan.layout == 0 then
        local f = format.by_position(plan.out.format)
        for i = 1, count do
            results[i] = image.new(op, f, position, width, height, plan.out)
        end
        return results
    elseif plan.layout == 1 then
        for i = 1, count do
            results[i] = mat.allocate(op, position, width, height, plan.type, channels)
        end
        return results
    elseif plan.layout == 2 then
        for i = 1, count do     -- the planes of one picture lie one behind the other
            local m = mat.allocate(op, position, width, height * channels, plan.type, 1, true)
            local planes = m:split(height, "rows")
            local f = channels == 3 and planar_formats[element] or channels == 1 and plain_formats[element][1]
            results[i] = f and image.public.image_from(f, planes) or planes
        end
        return results
    end
    local nhwc = plan.layout == 3
    local rows = height * (nhwc and 1 or channels) * count
    if rows > max_size then
        check.fail("LIMIT", op, "a batch of %d x %d rows does not fit a mat", count, height)
    end
    local whole = mat.allocate(op, position, width, rows, plan.type, nhwc and channels or 1, true)
    return pipe.cut(plan, whole, count), whole
end

-- The pictures of an nhwc or nchw mat.
function pipe.cut(plan, whole, count)
    local results, height, channels = {}, plan.out.height, plan.channels
    local list = whole:split(height, "rows")
    for i = 1, count do
        if plan.layout == 3 then
            results[i] = list[i]
        else
            results[i] = {unpack(list, (i - 1) * channels + 1, i * channels)}
        end
    end
    return results
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
    local src, dst = image_array(count), image_array(count)
    local was_mat, kept = false, {}     -- luacheck: ignore 241 (holds what the C structs point to)
    for i = 1, count do
        local img
        img, was_mat = as_source(op, batch and "picture " .. i or "src", sources[i])
        kept[i] = img
        image.fill(op, batch and "picture " .. i or "src", img, src[i - 1])
    end
    local h, plan = handle(op, s), plan_type()
    check.status(C.gwb_pipe_describe(h, src[0], crops, plan), op)
    local position = src[0].plane[0].device
    local out, results, whole = opts.out, nil, nil
    if out == nil then
        results, whole = allocate(op, plan, position, count)
    elseif batch then
        if plan.layout >= 3 and check.is_mat(out) then
            local rows = plan.out.height * (plan.layout == 3 and 1 or plan.channels) * count
            if out.height ~= rows then
                check.fail("SHAPE", op, "out has %d rows; %d pictures of this pipeline take %d", out.height, count, rows)
            end
            results, whole = pipe.cut(plan, out, count), out
        elseif type(out) == "table" and #out == count then
            results = out
        else
            check.fail("BAD_ARGUMENT", op, "out must be a list of %d results%s, got %s", count, plan.layout >= 3 and ", or one mat" or "",
                type(out) == "table" and "a list of " .. #out or check.show(out))
        end
    elseif plan.layout == 4 and check.is_mat(out) then
        results, whole = {out:split(plan.out.height, "rows")}, out
    else
        results = {out}
    end
    for i = 1, count do
        local r = results[i]
        if plan.layout == 0 and check.is_mat(r) then     -- a mat in, a mat out
            r = pipe.as_image(op, "out", r)
        end
        kept[count + i] = r
        fill_result(op, r, dst[i - 1])
    end
    check.status(C.gwb_pipe_run(h, dst, src, crops, count, stream), op)
    if out ~= nil then
        return out
    elseif whole then
        return whole
    end
    if was_mat and plan.layout == 0 then
        for i = 1, count do
            if #results[i].planes == 1 then
                results[i] = results[i].planes[1]
            end
        end
    end
    return batch and results or results[1]
end

--- p(src [, {out=, stream=}]) -> the result: an image (a mat where src is one and the format stays plain), or what to() says. out: memory of the
-- result's shape to write to, which is returned. One kernel launch where the chain has no wide separable filter.
function meta.__call(self, src, opts)
    local op = "pipe"
    return run(op, self, {src}, nil, check.options(op, opts, {"out", "stream"}), false)
end

--- p:batch(list [, {out=, stream=, crops=}]) -> list of results, or with to("nchw" | "nhwc", …) one tight mat of all. The pictures may differ in size,
-- not in format; crops: a list of {x, y, width, height}, the region of each picture that counts. One launch for all.
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
            numbers(op, "crops[" .. i .. "]", r, 4, 4)
            for k = 1, 4 do
                crops[4 * (i - 1) + k - 1] = check.integer(op, ("crops[%d][%d]"):format(i, k), r[k], 0, max_size)
            end
        end
    end
    return run(op, self, list, crops, opts, true)
end

-- ---- looking at it

function meta.__tostring(self)
    local lines = {}
    for i, stage in ipairs(hidden[self].steps) do
        lines[i] = ("%d. %s"):format(i, stage.text)
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
-- whole source; a crop or a resize reads less.
function methods:plan(src)
    local op = "pipe:plan"
    local s = state(op, self)
    local img = as_source(op, "src", src)
    local c, plan = image_array(1), plan_type()
    image.fill(op, "src", img, c[0])
    check.status(C.gwb_pipe_describe(handle(op, s), c[0], nil, plan), op)
    local stages = {}
    for i, stage in ipairs(s.steps) do
        stages[i] = stage.text
    end
    local layouts = {"interleaved", "planar", "nhwc", "nchw"}
    local what = plan.layout == 0 and format.by_position(plan.out.format).name
        or ("%s %s x %d"):format(layouts[plan.layout], types.names[plan.type + 1], plan.channels)
    return setmetatable({
        launches = plan.launches, bytes_read = tonumber(plan.bytes_read), bytes_written = tonumber(plan.bytes_written), stages = stages,
        width = plan.out.width, height = plan.out.height, source = ("%s %dx%d"):format(img.format, img.width, img.height),
        result = ("%s %dx%d"):format(what, plan.out.width, plan.out.height),
    }, plan_meta)
end

--- p:source(src [, pass]) -> the CUDA C of a pass (1: the first) for such a source. It includes pipe.h, which is one of gpuwb's headers.
function methods:source(src, pass)
    local op = "pipe:source"
    local s = state(op, self)
    local img = as_source(op, "src", src)
    pass = pass == nil and 1 or check.integer(op, "pass", pass, 1, 100)
    local c, plan = image_array(1), plan_type()
    image.fill(op, "src", img, c[0])
    local h = handle(op, s)
    check.status(C.gwb_pipe_describe(h, c[0], nil, plan), op)
    local text = C.gwb_pipe_text(h, c[0], pass - 1)
    if text == nil then
        check.fail("BAD_ARGUMENT", op, "pass %d; this pipeline has %d", pass, plan.launches)
    end
    return ffi.string(text)
end

function meta.__newindex()
    check.fail("READ_ONLY", "pipe", "a pipeline's fields cannot be assigned; each stage gives a new pipeline")
end

-- ---- one-stage pipelines as methods of images and mats: i:resize(640, 480) -> image

local function one_stage(stage)
    return function(self, ...)
        local count = select("#", ...)
        local last = select(count, ...)
        if count > 0 and type(last) == "table" and (last.out ~= nil or last.stream ~= nil) and not image.is(last) then
            local opts, rest, given = {out = last.out, stream = last.stream}, {}, {...}
            for key, v in pairs(last) do
                if key ~= "out" and key ~= "stream" then
                    rest[key] = v
                end
            end
            given[count] = next(rest) ~= nil and rest or nil
            return add_stage(stage, new({}), unpack(given, 1, next(rest) ~= nil and count or count - 1))(self, opts)
        end
        return add_stage(stage, new({}), ...)(self)
    end
end

for _, stage in ipairs(pipe.stages) do
    if stage.name ~= "matrix" then      -- an image's matrix is its tag
        image.methods[stage.name] = image.methods[stage.name] or one_stage(stage)
    end
    if stage.kind == "place" then
        mat.methods[stage.name] = mat.methods[stage.name] or one_stage(stage)
    end
end

return pipe
