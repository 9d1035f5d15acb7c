-- SPDX-License-Identifier: MIT
-- Copies between mats and images, the raw 2D copy, and the text that explains what a raw copy really touches.
local ffi = require "ffi"
local bit = require "bit"
local check = require "gpuwb.check"
local device = require "gpuwb.device"
local mat = require "gpuwb.mat"
local C = require("gpuwb.cdef").C

local copy = {}

local mode = "warn"
local keys = {"dst", "src", "width", "height", "dst_step", "src_step", "dst_x", "dst_y", "src_x", "src_y", "stream"}
local explain_keys = {"content", "sibling", unpack(keys)}

--- gpu.checks(["error" | "warn" | "off"]) -> the mode before. What gpu.copy2d does with a copy that breaks a plane-copy rule: raise SUSPICIOUS,
-- tell it on stderr and copy (the default), or copy.
function copy.checks(new)
    local before = mode
    if new ~= nil then
        mode = check.choice("gpu.checks", "mode", new, {"error", "warn", "off"})
    end
    return before
end

-- What C reads and writes is made for each call: a finalizer that runs in between may copy too.
local new_planes, new_params, new_report = ffi.typeof("const gwb_mat *[4]"), ffi.typeof("gwb_copy2d_params"), ffi.typeof("gwb_copy_report")

-- A mat as a list of one and nil, or the planes of an image and its format.
local function planes_of(op, name, v)
    if type(v) == "table" and type(v.planes) == "table" then
        return v.planes, v.format
    end
    if not check.is_mat(v) then
        check.fail("BAD_ARGUMENT", op, "%s must be a mat or an image, got %s", name, check.show(v))
    end
    return {v}
end

--- gpu.copy(dst, src [, {stream=}]) -> dst. Mats of the same shape and type, or images of the same format and size, on any devices; all planes go
-- in one launch. From or to pageable memory of the host a cuda copy may wait; gpu.host_mat never does.
function copy.copy(dst, src, opts)
    local op = "gpu.copy"
    local stream = check.stream(op, check.options(op, opts, {"stream"}).stream)
    local to, to_format = planes_of(op, "dst", dst)
    local from, from_format = planes_of(op, "src", src)
    if #to ~= #from or to_format ~= from_format then
        check.fail("SHAPE", op, "dst (%s) and src (%s) must both be mats, or images of one format; use convert() between formats", tostring(dst),
            tostring(src))
    end
    if #to > 4 then
        check.fail("BAD_ARGUMENT", op, "%d planes; at most 4", #to)
    end
    local dst_planes, src_planes = new_planes(), new_planes()
    for k = 1, #to do
        dst_planes[k - 1], src_planes[k - 1] = check.mat(op, "dst", to[k]), check.mat(op, "src", from[k])
    end
    check.status(C.gwb_copy_planes(dst_planes, src_planes, #to, stream), op)
    return dst
end

-- ---- the raw copy

-- The arguments as the C struct, which stays valid while `opts` is held.
local function fill(op, c, opts, known)
    opts = check.options(op, opts or {}, known)
    c.width = check.integer(op, "width", opts.width, 0, 2 ^ 53)
    c.height = check.integer(op, "height", opts.height, 0, 2 ^ 53)
    local nothing = c.width == 0 or c.height == 0
    for _, side in ipairs {"dst", "src"} do
        c[side .. "_step"] = opts[side .. "_step"] == nil and 0 or check.integer(op, side .. "_step", opts[side .. "_step"], -2 ^ 53, 2 ^ 53)
        for _, axis in ipairs {"_x", "_y"} do
            c[side .. axis] = opts[side .. axis] == nil and 0 or check.integer(op, side .. axis, opts[side .. axis], 0, 2 ^ 53)
        end
    end
    for _, side in ipairs {"dst", "src"} do
        local v, step = opts[side], opts[side .. "_step"]
        local as_mat, as_pointer
        if check.is_mat(v) then
            as_mat = check.mat(op, side, v)
        elseif not (nothing and (v == nil or type(v) == "cdata" and ffi.cast("void *", v) == nil)) then
            local bytes
            as_pointer, bytes = check.pointer(op, side, v)
            local tight = tonumber(c.width)
            local need = c.height > 0 and ((opts[side .. "_y"] or 0) + tonumber(c.height) - 1) * (step or tight) + (opts[side .. "_x"] or 0) + tight or 0
            if bytes and bytes < need then
                check.fail("BAD_ARGUMENT", op, "%s is an array of %d bytes; the copy touches %.0f", side, bytes, need)
            end
        end
        if step ~= nil and step <= 0 and not nothing then
            check.fail("BAD_ARGUMENT", op, "%s pitch %d; wanted at least the width of %d bytes (m:fill(row) repeats one row)", side, step,
                tonumber(c.width))
        end
        c[side .. "_mat"], c[side .. "_ptr"] = as_mat, as_pointer
    end
    return opts
end

local explain

--- gpu.copy2d{dst=, src=, width=, height=, dst_step=, src_step=, dst_x=, dst_y=, src_x=, src_y=, stream=}: copies `height` rows of `width` BYTES.
-- dst, src: mats (their step is the default) or cdata pointers (with a step in bytes). dst_x, src_x: bytes; dst_y, src_y: rows. What memory a pointer
-- belongs to is found out, never told. Zero width or height touches nothing. The plane-copy rules are asked first: see gpu.checks.
function copy.copy2d(opts)
    local op = "gpu.copy2d"
    local params, report = new_params(), new_report()
    opts = fill(op, params, opts, keys)
    local stream = check.stream(op, opts.stream)
    if mode ~= "off" then
        check.status(C.gwb_copy2d_check(params, report), op)
        if report.rules ~= 0 then
            local text = explain(params, report).text
            if mode == "error" then
                check.fail("SUSPICIOUS", op, "this copy is hardly meant\n%s\n(gpu.checks(\"warn\") lets it pass)", text)
            end
            io.stderr:write("gpuwb: warning: gpu.copy2d: this copy is hardly meant\n", text, "\n")
        end
    end
    check.status(C.gwb_copy2d(params, stream), op)
end

-- ---- the explanation

local function has(rules, n)
    return bit.band(rules, bit.lshift(1, n)) ~= 0
end

local function share(part, whole)
    local percent = 100 * part / whole
    return percent < 99.95 and ("%.1f %%"):format(percent) or ("%.2f %%"):format(percent)
end

-- A bar of the allocation: `[` first, `]` end of what is marked.
local function bar(total, first, finish, mark, columns)
    local from = math.floor(first / total * columns)
    local to = math.max(from + 1, math.ceil(finish / total * columns))
    return ("."):rep(from) .. mark:rep(to - from) .. ("."):rep(math.max(0, columns - to))
end

local columns = 56

local function describe(lines, name, verb, s, width, height)
    local n = tonumber
    if s.known == 0 then
        lines[#lines + 1] = ("%s: %d rows of %d bytes, step %d, in memory that gpuwb did not make (its extent is unknown)"):format(name, height, width,
            n(s.step))
        return
    end
    lines[#lines + 1] = ("%s: %s %d rows of %d bytes, step %d: bytes %d..%d of an allocation of %d on %s"):format(name, verb, height, width, n(s.step),
        n(s.first), n(s.behind) - 1, n(s.buf_bytes), device.name(s.device))
    local label = ("  %-10s|%s|"):format("copy", bar(n(s.buf_bytes), n(s.first), n(s.behind), verb == "reads" and "r" or "w", columns))
    lines[#lines + 1] = label
    if s.has_view == 1 then
        local view_end = s.view_first + (s.view_height - 1) * s.view_step + s.view_width
        lines[#lines + 1] = ("  %-10s|%s|  %d rows of %d bytes, step %d%s"):format("view", bar(n(s.buf_bytes), n(s.view_first),
            math.max(n(s.view_first), n(view_end)), "v", columns), n(s.view_height), n(s.view_width), n(s.view_step),
            s.contiguous == 1 and "" or " (rows have gaps)")
    end
    if s.twin_first >= 0 then
        lines[#lines + 1] = ("  %-10s|%s|  an earlier copy of the same shape, from byte %d"):format("sibling", bar(n(s.buf_bytes), n(s.twin_first),
            n(s.twin_first) + width * height, "s", columns), n(s.twin_first))
        lines[#lines + 1] = ("  %-10s|%s|  where the next plane would lie, from byte %d"):format("expected", bar(n(s.buf_bytes), n(s.twin_expected),
            n(s.twin_expected) + width * height, "e", columns), n(s.twin_expected))
    elseif s.plane > 0 then
        lines[#lines + 1] = ("  %-10s|%s|  plane %d of the %s frame, from byte %d"):format("expected", bar(n(s.buf_bytes), n(s.plane_first),
            n(s.plane_first) + n(s.plane_step) * (height - 1) + width, "e", columns), s.plane, ffi.string(C.gwb_format_get(s.plane_format).name),
            n(s.plane_first))
    end
end

-- Whole rows by which one packed copy is moved against its sibling, or nil.
local function moved_rows(s, width)
    local moved = tonumber(s.first - s.twin_first)
    if s.twin_first >= 0 and moved % width == 0 then
        return moved / width
    end
    return nil
end

local function rule_texts(name, s, rules, width, height)
    local n, texts = tonumber, {}
    if has(rules, 1) then
        texts[#texts + 1] = ("P1 %s: the step of %d bytes is not the view's %d, and the view's rows have gaps: from the second row on, other bytes are meant"
            ):format(name, n(s.step), n(s.view_step))
    end
    if has(rules, 2) then
        texts[#texts + 1] = ("P2 %s: %s of the bytes touched (%d of %d) are outside the view"):format(name, share(n(s.outside), n(s.touched)),
            n(s.outside), n(s.touched))
    end
    if has(rules, 3) then
        texts[#texts + 1] = ("P3 %s: %s of the bytes are those of an earlier copy from byte %d; a plane that follows it begins at byte %d (%+d), "
            .. "this copy begins at byte %d (%+d)"):format(name, share(n(s.twin_shared), n(s.touched)), n(s.twin_first), n(s.twin_expected),
            n(s.twin_expected - s.twin_first), n(s.first), n(s.first - s.twin_first))
        local rows = moved_rows(s, width)
        if rows then
            texts[#texts + 1] = ("   so this plane is its sibling moved %s by %s: row r here is row r%+d there (V is U moved by one row, where they are "
                .. "the chroma of a frame)"):format(rows > 0 and "up" or "down", math.abs(rows) == 1 and "one row" or math.abs(rows) .. " rows", rows)
            if math.abs(rows) ~= 1 then
                texts[#texts] = texts[#texts]:gsub(" %(V is.-%)", "")
            end
        end
    end
    if has(rules, 4) then
        texts[#texts + 1] = ("P4 %s: the copy has the shape of plane %d of the declared %s frame, which begins at byte %d with step %d; the copy begins at "
            .. "byte %d with step %d"):format(name, s.plane, ffi.string(C.gwb_format_get(s.plane_format).name), n(s.plane_first), n(s.plane_step),
            n(s.first), n(s.step))
    end
    if has(rules, 7) then
        texts[#texts + 1] = ("P7 %s: the copy takes parts of more than one plane: with this width and height a chroma plane does not end where a row of "
            .. "the frame ends, so rows of it cannot be split; use m:planes(format, width, height)"):format(name)
    end
    return texts, height
end

local function advice(name, s, rules, width, height)
    local n = tonumber
    if has(rules, 3) then
        return ("meant was probably: frame:planes(format, width, height), then gpu.copy(dst, planes[3]); or by hand %s = first byte of the "
            .. "sibling %+d, step %d"):format(name, n(s.twin_expected - s.twin_first), width)
    elseif has(rules, 4) then
        return ("meant was probably: frame:planes(format, width, height)[%d]; or by hand %s = start of the frame %+d, step %d"):format(s.plane, name,
            n(s.plane_first), n(s.plane_step))
    elseif has(rules, 1) or has(rules, 2) then
        local same = has(rules, 1) and width <= n(s.view_width)
        return same and ("meant was probably: gpu.copy2d{%s = the view, width = %d, height = %d} without %s_step, so that the view's step of %d holds")
            :format(name, width, math.min(height, n(s.view_height)), name, n(s.view_step))
            or ("meant was probably: gpu.copy(dst, src) with views of the same shape; this view has %d rows of %d bytes"):format(n(s.view_height),
                n(s.view_width))
    end
    return "meant was probably: gpu.copy(dst, frame:planes(format, width, height))"
end

-- The text and the table of a report.
explain = function(c, r)
    local width, height = tonumber(c.width), tonumber(c.height)
    local lines, out = {}, {rules = {}, width = width, height = height}
    local sides = {{"src", "reads", r.src, r.src_rules}, {"dst", "writes", r.dst, r.dst_rules}}
    for _, side in ipairs(sides) do
        describe(lines, side[1], side[2], side[3], width, height)
        local s = side[3]
        out[side[1]] = {known = s.known == 1, device = device.name(s.device), first = tonumber(s.first), last = tonumber(s.behind) - 1,
                        step = tonumber(s.step), allocation = tonumber(s.buf_bytes), outside = tonumber(s.outside), touched = tonumber(s.touched),
                        given_offset = s.twin_first >= 0 and tonumber(s.first - s.twin_first) or nil,
                        expected_offset = s.twin_first >= 0 and tonumber(s.twin_expected - s.twin_first) or nil,
                        shared = tonumber(s.twin_shared), moved_rows = s.twin_first >= 0 and moved_rows(s, width) or nil,
                        plane = s.plane > 0 and s.plane or nil, plane_offset = s.plane > 0 and tonumber(s.plane_first) or nil}
    end
    for _, side in ipairs(sides) do
        for _, text in ipairs((rule_texts(side[1], side[3], side[4], width, height))) do
            lines[#lines + 1] = text
        end
        for n = 1, 7 do
            if has(side[4], n) then
                out.rules["P" .. n] = true
            end
        end
        if side[4] ~= 0 then
            lines[#lines + 1] = advice(side[1], side[3], side[4], width, height)
        end
    end
    out.suspicious = r.rules ~= 0
    if not out.suspicious then
        lines[#lines + 1] = "no rule speaks against it"
    end
    out.text = table.concat(lines, "\n")
    return out
end

-- The bytes of rows at a pointer or in a mat, tight, as a cdata array.
local function read_rows(op, what, step, x, y, width, height)
    local tmp = mat.allocate(op, 0, width, height, 0, 1, true)
    local c = new_params()
    c.dst_mat, c.width, c.height = tmp, width, height
    if check.is_mat(what) then
        c.src_mat = what
    else
        c.src_ptr = check.pointer(op, "sibling", what)
    end
    c.src_step, c.src_x, c.src_y = step or 0, x or 0, y or 0
    check.status(C.gwb_copy2d(c, nil), op)
    local bytes = ffi.new("uint8_t[?]", width * height)
    check.status(C.gwb_download(bytes, 0, tmp, nil), op)
    return bytes
end

-- Rule P6: are rows 0..n-2 of `a` rows 1..n-1 of `b`, on a picture that would show it?
local function is_moved(a, b, width, height)
    local varied = false
    for i = 0, width * (height - 1) - 1 do
        if a[i] ~= b[i + width] then
            return false
        end
        varied = varied or b[i] ~= b[i + width]
    end
    return varied
end

--- gpu.explain_copy{…as gpu.copy2d…, content=, sibling=} -> text, table. Copies nothing: says which bytes the copy reads and writes, drawn over the
-- allocations, which plane-copy rule it breaks, what was probably meant. content=true also reads the pixels and compares them with those of
-- `sibling` (a pointer or mat of the same shape and step; default: the earlier copy that rule P3 found): rule P6. Waits only for content.
-- The table: {suspicious=, rules={P1=true, …}, src={first=, last=, step=, outside=, touched=, given_offset=, expected_offset=, moved_rows=}, dst=…}.
function copy.explain(opts)
    local op = "gpu.explain_copy"
    local c, report = new_params(), new_report()
    opts = fill(op, c, opts, explain_keys)
    check.status(C.gwb_copy2d_check(c, report), op)
    local width, height = tonumber(c.width), tonumber(c.height)
    if width == 0 or height == 0 then
        return "zero width or height: nothing is touched", {suspicious = false, rules = {}, width = width, height = height}
    end
    local out = explain(c, report)
    if check.boolean(op, "content", opts.content) or opts.sibling ~= nil then
        local step = tonumber(report.src.step)
        local sibling, offset = opts.sibling, 0
        if sibling == nil and report.src.twin_first >= 0 then
            sibling, offset = opts.src, tonumber(report.src.first - report.src.twin_first)
        end
        if sibling == nil then
            out.text = out.text .. "\nP6 not asked: there is no sibling to compare with; name it by sibling="
        elseif height > 1 then
            local mine = read_rows(op, opts.src, step, opts.src_x, opts.src_y, width, height)
            local theirs
            if offset ~= 0 then     -- the earlier copy's rows, by way of the pointer behind this one's
                local p = check.is_mat(opts.src) and ffi.cast("uint8_t *", opts.src.data) or ffi.cast("uint8_t *", (check.pointer(op, "src", opts.src)))
                theirs = read_rows(op, p - offset, step, opts.src_x, opts.src_y, width, height)
            else
                theirs = read_rows(op, sibling, step, 0, 0, width, height)
            end
            if is_moved(mine, theirs, width, height) then
                out.rules.P6, out.suspicious = true, true
                out.text = out.text .. "\nP6 src: the pixels say so too: each row is the sibling's next row (this plane is the sibling moved up by one row)"
            else
                out.text = out.text .. "\nP6 the pixels do not repeat the sibling's rows"
            end
        end
    end
    return out.text, out
end

return copy
