-- SPDX-License-Identifier: MIT
-- gpu.show: a picture where it can be seen: on the terminal, in a window, or in a file.
local check = require "gpuwb.check"
local display = require "gpuwb.display"
local files = require "gpuwb.files"
local image = require "gpuwb.image"
local mat = require "gpuwb.mat"
local terminal = require "gpuwb.terminal"
local C = require("gpuwb.cdef").C

local show = {public = {}}
local WAYS = {"kitty", "iterm2", "sixel", "blocks", "window", "file", "none"}

-- ---- which way

local function on_display()
    return (os.getenv("DISPLAY") or "") ~= "" or (os.getenv("WAYLAND_DISPLAY") or "") ~= ""
end

-- The way that was asked for, or the best there is: a terminal that draws pixels, a window, half blocks, a file.
local function choose(op, wanted)
    wanted = wanted or os.getenv("GPUWB_SHOW")
    if wanted and wanted ~= "" then
        return check.choice(op, wanted == os.getenv("GPUWB_SHOW") and "GPUWB_SHOW" or "how", wanted, WAYS)
    end
    local ability = terminal.ability()
    if ability and ability ~= "blocks" then
        return ability
    end
    if on_display() and require("gpuwb.window").available() then
        return "window"
    end
    return ability or "file"
end

-- The way that gpu.show takes by itself.
function show.way()
    return choose("gpu.show")
end

-- ---- on the terminal

-- The text that draws a u8x3 mat, within so many pixels and, for half blocks, letters.
local function drawn(how, m, columns, rows)
    local width, height, letter_w, letter_h = terminal.pixels()
    if how == "blocks" then
        return terminal.blocks(display.fit(m, columns or math.floor(width / letter_w), 2 * (rows or math.floor(height / letter_h) - 2)))
    end
    m = display.fit(m, columns and columns * letter_w or width, rows and rows * letter_h or height - 3 * letter_h)
    if how == "sixel" then
        return terminal.sixel(m)
    end
    local png = files.public.encode(m, "png", {level = 1})
    if how == "kitty" then
        return terminal.kitty(png, math.max(1, math.ceil(m.width / letter_w)), math.max(1, math.ceil(m.height / letter_h)))
    end
    return terminal.iterm2(png, m.width, m.height)
end

-- A small picture for the prompt, or nil where the terminal draws none.
function show.preview(img)
    local wanted = os.getenv("GPUWB_SHOW")
    local how = wanted and wanted ~= "" and wanted or terminal.ability()
    if how ~= "kitty" and how ~= "iterm2" and how ~= "sixel" and how ~= "blocks" or img.width == 0 or img.height == 0 then
        return nil
    end
    return drawn(how, (display.rgb("show", img)), 32, 8)
end

-- ---- what was shown

--- Fields of a view, to be read.
-- @field how string "kitty", "iterm2", "sixel", "blocks", "window", "file" or "none"
-- @field note string? what was done to the numbers so that they can be seen
-- @field path string? the file
local methods = {}
local meta = {__index = methods, __name = "view"}
show.methods = methods

function meta.__tostring(v)
    return v.how == "file" and v.path and "view in " .. v.path or ("view (%s)"):format(v.how)
end

local function own_view(op, v)
    if type(v) ~= "table" or getmetatable(v) ~= meta then
        check.fail("BAD_ARGUMENT", op, "call it as a method of a view (gpu.show(…)), got %s", check.show(v))
    end
    return v
end

-- ---- under --watch: each run gets the windows of the one before, in the order in which it opens them

local kept, taken, stop     -- windows; how many the run has; whether a change waits for the script's end

function show.keep_windows(changed)
    kept, stop = {}, changed
end

function show.begin_run()
    taken = 0
end

-- Closes the windows that the run did not take; after a failure they stay, and tell it. True where there are windows.
function show.end_run(failure)
    for i = #kept, failure and #kept + 1 or taken + 1, -1 do
        kept[i]:close()
        kept[i] = nil
    end
    for _, w in ipairs(failure and kept or {}) do
        w:tell("failed: " .. failure:match("^[^\n]*"))
    end
    return #kept > 0
end

function show.any_window()
    local window = package.loaded["gpuwb.window"]
    if window then
        window.poll()
    end
    return window and window.any() or false
end

-- The pictures in the window that is given, in one that was kept, or in a new one.
local function in_window(op, own, title, pictures, labels)
    if kept and not (own and own.handle) then
        taken = taken + 1
        own = kept[taken]
    end
    if own and own.handle then
        own:set(pictures, labels, title)
        return own
    end
    own = require("gpuwb.window").open(op, title or labels[1] or "gpuwb", pictures, labels)
    if kept then
        kept[taken] = own
    end
    return own
end

-- ---- the view's methods

--- v:close(): closes the window; nothing elsewhere. Twice is harmless.
function methods:close()
    own_view("view:close", self)
    if self.window then
        self.window:close()
    end
end

--- v:wait() -> v, once the window was closed (q, Escape or its button). Returns at once elsewhere.
function methods:wait()
    own_view("view:wait", self)
    if self.window then
        self.window:wait(stop)
    end
    return self
end

--- v:is_open() -> true while there is a window; draws it and takes its keys, so that a loop that asks keeps it alive.
function methods:is_open()
    own_view("view:is_open", self)
    return self.window ~= nil and self.window:poll() and not (stop and stop())
end

local function new_file(op)
    local folder = os.getenv("TMPDIR") or "/tmp"
    local posix = require "gpuwb.posix"
    for i = 1, 10000 do
        local path = ("%s/gpuwb-%d-%d.png"):format(folder, posix.pid(), i)
        if posix.create(path) then
            return path
        end
    end
    check.fail("IO", op, "no file could be made in %s; TMPDIR names another folder", folder)
end

local function present(op, pictures, labels, notes, opts, view)
    local how = view and view.how or choose(op, opts.how)
    local v = view or setmetatable({how = how}, meta)
    local text = #notes > 0 and table.concat(notes, "; ") or nil
    v.note = text
    if how == "window" then
        v.window = in_window(op, v.window, opts.title, pictures, labels)
        return opts.wait and v:wait() or v
    end
    local m = #pictures == 1 and (labels[1] or "") == "" and pictures[1].rgb or nil
    if not m then
        local list = {}
        for i, p in ipairs(pictures) do
            list[i] = p.rgb
        end
        m = display.compose(list, labels)
    end
    if m.width == 0 or m.height == 0 then
        io.stdout:write(("a picture of %dx%d has nothing to show\n"):format(m.width, m.height))
    elseif how == "file" then
        local own = not (v.path or opts.path)
        v.path = opts.path or v.path or new_file(op)
        files.public.save(m, v.path)
        if own then     -- else the script knows
            io.stdout:write("shown in ", v.path, text and "\n" .. text or "", "\n")
        end
    elseif how ~= "none" then
        io.stdout:write(drawn(how, m), "\n", text and text .. "\n" or "")
        io.stdout:flush()
    end
    return v
end

local function is_picture(v)
    return check.is_mat(v) or image.is(v)
end

local function show_any(op, obj, opts, view)
    if type(opts) == "string" then
        if C.gwb_file_kind(opts:match("%.([^./]*)$") or "") ~= nil then
            check.fail("BAD_ARGUMENT", op, "a text alone is the title, and %s is a file's name: to write it, save(obj, %s); for a title, {title = %s}",
                check.show(opts), check.show(opts), check.show(opts))
        end
        opts = {title = opts}
    end
    opts = check.options(op, opts, {"title", "how", "range", "wait", "labels", "path"})
    if opts.title ~= nil then
        check.string(op, "title", opts.title)
    end
    if opts.how ~= nil then
        check.choice(op, "how", opts.how, WAYS)
    end
    if opts.path ~= nil then
        check.path(op, "path", opts.path)
        opts.how = opts.how or "file"
    end
    check.boolean(op, "wait", opts.wait)
    local list = is_picture(obj) and {obj} or obj
    if type(list) ~= "table" or #list == 0 then
        check.fail("BAD_ARGUMENT", op, "wanted a mat, an image or a list of them, got %s%s", check.show(obj),
            type(obj) == "string" and "; a file is opened first: gpu.show(gpu.load(path))" or "")
    end
    if opts.labels ~= nil and type(opts.labels) ~= "table" then
        check.fail("BAD_ARGUMENT", op, "labels must be a list of texts, got %s", check.show(opts.labels))
    end
    local pictures, labels, notes = {}, {}, {}
    for i, one in ipairs(list) do
        if not is_picture(one) then
            check.fail("BAD_ARGUMENT", op, "picture %d must be a mat or an image, got %s", i, check.show(one))
        end
        local rgb, note = display.rgb(op, one, opts.range)
        local label = opts.labels and opts.labels[i]
        if label ~= nil then
            check.string(op, ("labels[%d]"):format(i), label)
        elseif #list > 1 then
            label = ("%d: %s"):format(i, image.is(one) and ("%s %dx%d"):format(one.format, one.width, one.height) or
                ("%s %dx%d"):format(one.type, one.width, one.height))
        end
        pictures[i], labels[i] = {rgb = rgb, source = one, note = note}, label or ""
        if note then
            notes[#notes + 1] = #list > 1 and ("%d: %s"):format(i, note) or note
        end
    end
    return present(op, pictures, labels, notes, opts, view)
end

--- gpu.show(obj | {obj, …} [, title | {title=, labels=, range=, how=, path=, wait=}]) -> view. Shows a mat or an image, or several side by side with labels:
-- by kitty's graphics, iTerm2's or sixel where the terminal says within 0.1 s that it draws them (under tmux only what tmux draws), else in a window where
-- there is a display and SDL2, else in half blocks of 24-bit colour, else in a PNG file whose path is printed. how, or GPUWB_SHOW in the
-- environment: "kitty", "iterm2", "sixel", "blocks", "window", "file", "none". path: the file to write; a text in the place of the options is the title.
-- YUV is converted; what is not known of it is taken to be limited range and bt601, bt709 above 576 rows, and said. Other types than u8 are shown from
-- their least to their largest number (floats within 0..1 as such) or range={black, white}, and it is said. NaN is magenta, transparency gray. labels: a
-- text above each. A window has zoom (wheel, + -), pan (drag, arrows), values under the pointer, 1 to 3 for a channel and 0 for all, r stretches the
-- range, Tab flickers between pictures (a: all), f fits; it closes with q or v:close(); wait=true waits for that. v:show(obj) puts another picture in its
-- place. Errors: BAD_ARGUMENT, CLOSED, UNSUPPORTED for a window that cannot be had, IO and NO_FILE for a file.
-- @example
-- local v = gpu.show(gpu.mat(8, 8, "f32", {fill = 0.5}), {how = "none"})
-- print(v.how, v.note)                             --> none  f32, 0 is black and 1 is white
function show.public.show(obj, opts)
    return show_any("gpu.show", obj, opts)
end

--- v:show(obj | {obj, …} [, {title=, labels=, range=, …}]) -> v with another picture in its place: in the same window or file.
function methods:show(obj, opts)
    return show_any("view:show", obj, opts, own_view("view:show", self))
end

--- m:show([title | {…as gpu.show…}]), i:show([title | {…}]) -> view: see gpu.show.
function mat.methods:show(opts)
    return show_any("mat:show", check.mat("mat:show", "mat", self), opts)
end

function image.methods:show(opts)
    return show_any("image:show", image.check("image:show", "the image", self), opts)
end

return show
