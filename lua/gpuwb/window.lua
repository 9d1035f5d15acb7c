-- SPDX-License-Identifier: MIT
-- Windows for pictures, by SDL2, which is opened when the first window is. One thread: a window lives while somebody polls it (view:is_open, view:wait,
-- the prompt while it waits for a line, --watch).
local ffi = require "ffi"
local check = require "gpuwb.check"
local display = require "gpuwb.display"
local image = require "gpuwb.image"
local mat = require "gpuwb.mat"
local posix = require "gpuwb.posix"
local C = require("gpuwb.cdef").C

local window = {}
local floor, min, max = math.floor, math.min, math.max

-- ---- SDL2, under names of our own

local VIDEO, RESIZABLE, SOFTWARE, CENTERED, RGB24, STREAMING = 0x20, 0x20, 1, 0x2FFF0000, 0x17101803, 1
local QUIT, WINDOW, KEY_DOWN, MOTION, WHEEL, CLOSED = 0x100, 0x200, 0x300, 0x400, 0x403, 14

local library, why_not

local open = {}         -- SDL's number of a window -> window

-- At the end of the state SDL gives back what it holds. Made after the library was opened: what is younger is finalized first.
local function end_later(sdl)
    local ending = newproxy(true)
    getmetatable(ending).__gc = function()
        for _, w in pairs(open) do
            w:close()
        end
        sdl.gwb_sdl_quit()
        library, why_not = nil, "the program ends"
    end
    window.ending = ending
end

local function load()
    if library or why_not then
        return library
    end
    if not pcall(ffi.typeof, "struct gwb_sdl_rect") then
        ffi.cdef [[
        struct gwb_sdl_rect { int x, y, w, h; };
        int gwb_sdl_init(uint32_t flags) __asm__("SDL_InitSubSystem");
        void gwb_sdl_quit(void) __asm__("SDL_Quit");
        int gwb_sdl_hint(const char *name, const char *value) __asm__("SDL_SetHint");
        const char *gwb_sdl_error(void) __asm__("SDL_GetError");
        void *gwb_sdl_window(const char *title, int x, int y, int w, int h, uint32_t flags) __asm__("SDL_CreateWindow");
        void *gwb_sdl_renderer(void *window, int index, uint32_t flags) __asm__("SDL_CreateRenderer");
        void *gwb_sdl_texture(void *renderer, uint32_t format, int access, int w, int h) __asm__("SDL_CreateTexture");
        int gwb_sdl_update(void *texture, const void *rect, const void *pixels, int step) __asm__("SDL_UpdateTexture");
        int gwb_sdl_copy(void *renderer, void *texture, const void *from, const void *to) __asm__("SDL_RenderCopy");
        void gwb_sdl_present(void *renderer) __asm__("SDL_RenderPresent");
        int gwb_sdl_read(void *renderer, const void *rect, uint32_t format, void *pixels, int step) __asm__("SDL_RenderReadPixels");
        int gwb_sdl_output_size(void *renderer, int *w, int *h) __asm__("SDL_GetRendererOutputSize");
        void gwb_sdl_title(void *window, const char *title) __asm__("SDL_SetWindowTitle");
        uint32_t gwb_sdl_id(void *window) __asm__("SDL_GetWindowID");
        int gwb_sdl_bounds(int display, struct gwb_sdl_rect *bounds) __asm__("SDL_GetDisplayUsableBounds");
        int gwb_sdl_poll(void *event) __asm__("SDL_PollEvent");
        int gwb_sdl_push(void *event) __asm__("SDL_PushEvent");
        void gwb_sdl_drop_texture(void *texture) __asm__("SDL_DestroyTexture");
        void gwb_sdl_drop_renderer(void *renderer) __asm__("SDL_DestroyRenderer");
        void gwb_sdl_drop_window(void *window) __asm__("SDL_DestroyWindow");
        ]]
    end
    local found, sdl = pcall(ffi.load, "libSDL2-2.0.so.0")
    if not found then
        why_not = "SDL2 is not installed (libSDL2-2.0.so.0; Debian's package is libsdl2-2.0-0)"
        return nil
    end
    end_later(sdl)
    sdl.gwb_sdl_hint("SDL_NO_SIGNAL_HANDLERS", "1")     -- Ctrl-C is the script's
    if sdl.gwb_sdl_init(VIDEO) ~= 0 then
        why_not = "SDL2 has no display: " .. ffi.string(sdl.gwb_sdl_error())
        return nil
    end
    library = sdl
    return library
end

-- Whether a window can be opened; else why not.
function window.available()
    if load() then
        return true
    end
    return false, why_not
end

-- ---- windows

local methods = {}
local meta = {__index = methods}

local function size_of(w)
    local size = ffi.new("int[2]")
    library.gwb_sdl_output_size(w.renderer, size, size + 1)
    return max(size[0], 1), max(size[1], 1)
end

-- The pictures, {rgb=, source=} each, side by side; or the only one.
local function whole_of(pictures, labels)
    if #pictures == 1 and (labels[1] or "") == "" then
        return pictures[1].rgb
    end
    local list = {}
    for i, p in ipairs(pictures) do
        list[i] = p.rgb
    end
    return display.compose(list, labels)
end

-- A new window as large as its pictures, within the screen. It stays of that size.
function window.open(op, title, pictures, labels)
    local sdl = load()
    if not sdl then
        check.fail("UNSUPPORTED", op, "%s; how=\"file\" or GPUWB_SHOW=file writes a PNG instead", why_not)
    end
    local whole, bounds = whole_of(pictures, labels), ffi.new("struct gwb_sdl_rect")
    local most_w, most_h = 1280, 800
    if sdl.gwb_sdl_bounds(0, bounds) == 0 then
        most_w, most_h = floor(bounds.w * 0.9), floor(bounds.h * 0.85)
    end
    local scale = min(most_w / max(whole.width, 1), most_h / max(whole.height, 1), 1)
    local handle = sdl.gwb_sdl_window(title, CENTERED, CENTERED, max(160, floor(whole.width * scale)), max(120, floor(whole.height * scale)), RESIZABLE)
    local renderer = handle ~= nil and sdl.gwb_sdl_renderer(handle, -1, 0) or nil
    if handle ~= nil and renderer == nil then
        renderer = sdl.gwb_sdl_renderer(handle, -1, SOFTWARE)
    end
    if handle == nil or renderer == nil then
        check.fail("UNSUPPORTED", op, "no window: %s", ffi.string(sdl.gwb_sdl_error()))
    end
    local w = setmetatable({handle = handle, renderer = renderer, id = sdl.gwb_sdl_id(handle), title = title, channel = 0, stretched = false, current = 0,
                            zoom = 1, x = 0, y = 0, fresh = true, mouse_x = -1, mouse_y = -1, drawn = 0}, meta)
    open[w.id] = w
    return w:put(whole, pictures, labels)
end

function methods:close()
    if self.handle then
        open[self.id] = nil
        if self.texture then
            library.gwb_sdl_drop_texture(self.texture)
        end
        library.gwb_sdl_drop_renderer(self.renderer)
        library.gwb_sdl_drop_window(self.handle)
        self.handle, self.renderer, self.texture, self.pictures, self.whole = nil, nil, nil, nil, nil
    end
end

-- The picture that is looked at: one of several, or all of them side by side.
local function looked_at(w)
    if w.current > 0 then
        return w.pictures[w.current].rgb
    end
    return w.whole
end

-- The whole picture in the window, in its middle.
local function fit(w)
    local width, height = size_of(w)
    local m = looked_at(w)
    w.zoom = min(width / max(m.width, 1), height / max(m.height, 1))
    w.zoom = w.zoom > 1 and max(1, floor(w.zoom)) or w.zoom
    w.x, w.y = (m.width - width / w.zoom) / 2, (m.height - height / w.zoom) / 2
    w.scaled = nil
end

-- Shows other pictures. The place and zoom stay where the size does.
function methods:set(pictures, labels, title)
    self.title = title or self.title
    self:put(whole_of(pictures, labels), pictures, labels)
end

function methods:put(whole, pictures, labels)
    local before = self.whole
    self.whole, self.pictures, self.labels, self.scaled = whole, pictures, labels, nil
    self.current = min(self.current, #pictures)
    if not before or before.width ~= whole.width or before.height ~= whole.height then
        fit(self)
    end
    self.fresh = true
    self:poll()
    return self
end

-- ---- drawing

-- Least and largest number of the picture, for the range key.
local function stretch_of(m)
    local p, lo, hi = ffi.cast("gwb_mat *", m), 255, 0
    for y = 0, p.height - 1 do
        local row = p.data + y * p.step
        for i = 0, p.width * 3 - 1 do
            lo, hi = min(lo, row[i]), max(hi, row[i])
        end
    end
    return lo, max(hi, lo + 1)
end

-- The window's pixels: each from the picture, or from its reduced copy where it is shown smaller.
local function paint(w, out, width, height)
    local m, zoom = looked_at(w), w.zoom
    check.status(C.gwb_mat_wait(m, 0), "gpu.show")
    local lo, hi = 0, 255
    if w.stretched then
        lo, hi = stretch_of(m)
    end
    if zoom < 1 and m.width > 0 and m.height > 0 then
        if not w.scaled or ffi.cast("gwb_mat *", w.scaled).tag == 0 then     -- a gpu.scope may have closed it
            w.scaled = m:resize(max(1, floor(m.width * zoom + 0.5)), max(1, floor(m.height * zoom + 0.5)))
            check.status(C.gwb_mat_wait(w.scaled, 0), "gpu.show")
        end
        m = w.scaled
    end
    local p, scale, channel = ffi.cast("gwb_mat *", m), 255 / (hi - lo), w.channel
    local at_x, at_y, step = w.x, w.y, 1 / zoom
    if zoom < 1 then
        at_x, at_y, step = w.x * zoom, w.y * zoom, 1
    end
    local fetch = m.width > 0 and m.height > 0
    for y = 0, height - 1 do
        local sy, to = floor(at_y + y * step), out + y * width * 3
        local row = p.data + sy * p.step
        for x = 0, width - 1 do
            local sx = floor(at_x + x * step)
            local r, g, b = 24, 24, 24
            if fetch and sx >= 0 and sy >= 0 and sx < p.width and sy < p.height then
                r, g, b = row[sx * 3], row[sx * 3 + 1], row[sx * 3 + 2]
                if channel > 0 then
                    r = channel == 1 and r or channel == 2 and g or b
                    g, b = r, r
                end
                r, g, b = max(0, min(255, (r - lo) * scale)), max(0, min(255, (g - lo) * scale)), max(0, min(255, (b - lo) * scale))
            end
            to[x * 3], to[x * 3 + 1], to[x * 3 + 2] = r, g, b
        end
    end
end

local function at_pointer(w)
    local x, y = floor(w.x + w.mouse_x / w.zoom), floor(w.y + w.mouse_y / w.zoom)
    local m = looked_at(w)
    if w.mouse_x < 0 or x < 0 or y < 0 or x >= m.width or y >= m.height then
        return nil
    end
    return x, y, m
end

-- The numbers of the picture itself at a pixel, of each plane of an image.
local function values_at(source, x, y)
    local texts = {}
    local function add(m, px, py)
        if check.is_mat(m) and tostring(m) ~= "mat (closed)" and px < m.width and py < m.height then
            for _, v in ipairs {m:at(px, py)} do
                texts[#texts + 1] = ("%.6g"):format(v)
            end
        end
    end
    if image.is(source) then
        for _, m in ipairs(source.planes) do
            add(m, floor(x * m.width / source.width), floor(y * m.height / source.height))
        end
    else
        add(source, x, y)
    end
    return table.concat(texts, " ")
end

local function title_of(w)
    local parts = {w.title}
    local x, y, m = at_pointer(w)
    local single = w.current > 0 and w.pictures[w.current] or #w.pictures == 1 and w.whole == w.pictures[1].rgb and w.pictures[1]
    if w.current > 0 then
        parts[#parts + 1] = w.labels[w.current]
    end
    if x then
        local values = single and values_at(single.source, x, y) or table.concat({m:at(x, y)}, " ")
        parts[#parts + 1] = ("(%d, %d) %s"):format(x, y, values)
    end
    parts[#parts + 1] = ("%.3gx"):format(w.zoom)
    parts[#parts + 1] = w.channel > 0 and "channel " .. w.channel or nil
    parts[#parts + 1] = w.stretched and "stretched" or nil
    return table.concat(parts, "   ")
end

local function draw(w)
    local width, height = size_of(w)
    if not w.texture or w.width ~= width or w.height ~= height then
        if w.texture then
            library.gwb_sdl_drop_texture(w.texture)
        end
        w.texture = library.gwb_sdl_texture(w.renderer, RGB24, STREAMING, width, height)
        w.width, w.height, w.pixels = width, height, ffi.new("uint8_t[?]", width * height * 3)
    end
    paint(w, w.pixels, width, height)
    if w.texture ~= nil then
        library.gwb_sdl_update(w.texture, nil, w.pixels, width * 3)
        library.gwb_sdl_copy(w.renderer, w.texture, nil, nil)
    end
    library.gwb_sdl_title(w.handle, title_of(w))
    library.gwb_sdl_present(w.renderer)
    w.fresh = false
    w.drawn = w.drawn + 1
end

-- ---- keys and pointer

local function zoom_by(w, factor, px, py)
    local before = w.zoom
    w.zoom = max(1 / 64, min(64, w.zoom * factor))
    w.x, w.y = w.x + px / before - px / w.zoom, w.y + py / before - py / w.zoom
    w.scaled = nil
end

local keys = {
    [27] = function(w) w:close() end,
    [9] = function(w)
        local before = looked_at(w)
        w.current = #w.pictures > 1 and w.current % #w.pictures + 1 or 0
        w.scaled = nil
        if looked_at(w).width ~= before.width or looked_at(w).height ~= before.height then
            fit(w)
        end
    end,
}
local function key(letter, fn)
    keys[letter:byte()] = fn
end
key("q", keys[27])
key("+", function(w) zoom_by(w, 2, w.width / 2, w.height / 2) end)
key("=", keys[43])
key("-", function(w) zoom_by(w, 0.5, w.width / 2, w.height / 2) end)
key("f", fit)
key("a", function(w)
    w.current = 0
    fit(w)
end)
key("r", function(w) w.stretched = not w.stretched end)
for channel = 0, 3 do
    key(tostring(channel), function(w) w.channel = channel end)
end
local ARROWS = {[0x4000004F] = {1, 0}, [0x40000050] = {-1, 0}, [0x40000051] = {0, 1}, [0x40000052] = {0, -1}}

local function on_key(w, symbol)
    local arrow = ARROWS[symbol]
    if arrow then
        w.x, w.y = w.x + arrow[1] * w.width / 8 / w.zoom, w.y + arrow[2] * w.height / 8 / w.zoom
    elseif keys[symbol] then
        keys[symbol](w)
    end
end

-- An SDL_Event, by its bytes.
local event = ffi.new("uint8_t[128]")

local function word(at)
    return ffi.cast("int32_t *", event + at)[0]
end

local function handle()
    local kind, w = word(0), open[ffi.cast("uint32_t *", event + 8)[0]]
    if kind == QUIT then
        for _, one in pairs(open) do
            one:close()
        end
    elseif not w or not w.pictures then
        return
    elseif kind == WINDOW then
        if event[12] == CLOSED then
            w:close()
        else
            w.fresh = true
        end
    elseif kind == KEY_DOWN then
        on_key(w, word(20))
        w.fresh = true
    elseif kind == MOTION then
        if ffi.cast("uint32_t *", event + 16)[0] ~= 0 then      -- a button is held
            w.x, w.y = w.x - word(28) / w.zoom, w.y - word(32) / w.zoom
        end
        w.mouse_x, w.mouse_y = word(20), word(24)
        w.fresh = true
    elseif kind == WHEEL then
        zoom_by(w, 1.25 ^ word(20), max(w.mouse_x, 0), max(w.mouse_y, 0))
        w.fresh = true
    end
end

-- Takes what happened, and draws the windows that changed.
function window.poll()
    if not library then
        return
    end
    while library.gwb_sdl_poll(event) ~= 0 do
        handle()
    end
    for _, w in pairs(open) do
        if w.fresh and w.pictures then
            draw(w)
        end
    end
end

function window.any()
    return next(open) ~= nil
end

function methods:poll()
    window.poll()
    return self.handle ~= nil
end

-- Until it is closed, or stop() gives true.
function methods:wait(stop)
    while self:poll() and not (stop and stop()) do
        posix.sleep(0.01)
    end
end

-- Puts a text into the title, until the next picture or key.
function methods:tell(text)
    if self.handle then
        library.gwb_sdl_title(self.handle, text)
    end
end

-- What the window shows, as a u8x3 mat, read back from SDL: for specs.
function methods:screenshot()
    draw(self)
    library.gwb_sdl_copy(self.renderer, self.texture, nil, nil)
    local pixels = ffi.new("uint8_t[?]", self.width * self.height * 3)
    if library.gwb_sdl_read(self.renderer, nil, RGB24, pixels, self.width * 3) ~= 0 then
        check.fail("INTERNAL", "screenshot", "%s", ffi.string(library.gwb_sdl_error()))
    end
    return mat.create(self.width, self.height, "u8x3", {packed = true, device = "host"}):upload(pixels)
end

-- Puts an event into SDL's queue, as if it came from a person: for specs.
function window.push(kind, w, set)
    local e = ffi.new("uint8_t[128]")
    ffi.cast("int32_t *", e)[0] = kind
    ffi.cast("uint32_t *", e + 8)[0] = w.id
    set(e)
    library.gwb_sdl_push(e)
end

return window
