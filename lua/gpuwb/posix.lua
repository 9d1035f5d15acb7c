-- SPDX-License-Identifier: MIT
-- What the workbench asks of the operating system (Linux, glibc), once for all its modules.
local ffi = require "ffi"

-- Under names of our own, so that a script may declare the same functions in its own way.
if not pcall(ffi.typeof, "struct gwb_timespec") then
    ffi.cdef [[
    struct gwb_timespec { long seconds, nanoseconds; };
    struct gwb_winsize { unsigned short rows, columns, width, height; };
    struct gwb_dirent { uint64_t inode; int64_t offset; unsigned short size; unsigned char type; char name[256]; };
    struct gwb_pollfd { int fd; short events, revents; };
    int gwb_os_isatty(int fd) __asm__("isatty");
    int gwb_os_ioctl(int fd, unsigned long request, ...) __asm__("ioctl");
    int gwb_os_usleep(unsigned microseconds) __asm__("usleep");
    int gwb_os_clock_gettime(int clock, struct gwb_timespec *now) __asm__("clock_gettime");
    void *gwb_os_opendir(const char *path) __asm__("opendir");
    struct gwb_dirent *gwb_os_readdir(void *folder) __asm__("readdir");
    int gwb_os_closedir(void *folder) __asm__("closedir");
    int gwb_os_tcgetattr(int fd, void *state) __asm__("tcgetattr");
    int gwb_os_tcsetattr(int fd, int when, const void *state) __asm__("tcsetattr");
    void gwb_os_cfmakeraw(void *state) __asm__("cfmakeraw");
    ssize_t gwb_os_read(int fd, void *buffer, size_t size) __asm__("read");
    ssize_t gwb_os_write(int fd, const void *buffer, size_t size) __asm__("write");
    int gwb_os_open(const char *path, int flags, ...) __asm__("open");
    int gwb_os_close(int fd) __asm__("close");
    int gwb_os_getpid(void) __asm__("getpid");
    int gwb_os_inotify_init1(int flags) __asm__("inotify_init1");
    int gwb_os_inotify_add_watch(int fd, const char *path, uint32_t mask) __asm__("inotify_add_watch");
    int gwb_os_poll(struct gwb_pollfd *fds, unsigned long count, int timeout) __asm__("poll");
    ]]
end

local posix = {}
local CLOCK_MONOTONIC, TIOCGWINSZ = 1, 0x5413
local O_WRONLY, O_RDWR, O_CREAT, O_EXCL, O_NOCTTY, O_CLOEXEC, POLLIN = 1, 2, 64, 128, 256, 0x80000, 1
local IN_CLOSE_WRITE, IN_MOVED_TO = 8, 128
local DT_UNKNOWN, DT_DIR, DT_LNK = 0, 4, 10

-- True where the file descriptor is a terminal.
function posix.isatty(fd)
    return ffi.C.gwb_os_isatty(fd) == 1
end

-- Seconds of a clock that only goes forward.
function posix.now()
    local t = ffi.new("struct gwb_timespec")
    ffi.C.gwb_os_clock_gettime(CLOCK_MONOTONIC, t)
    return tonumber(t.seconds) + tonumber(t.nanoseconds) * 1e-9
end

-- The terminal's columns, rows, and its size in pixels (0 where it does not say); 80, 24, 0, 0 where it is no terminal.
function posix.window(fd)
    local size = ffi.new("struct gwb_winsize")
    if ffi.C.gwb_os_ioctl(fd, TIOCGWINSZ, size) ~= 0 or size.columns == 0 or size.rows == 0 then
        return 80, 24, 0, 0
    end
    return size.columns, size.rows, size.width, size.height
end

function posix.pid()
    return ffi.C.gwb_os_getpid()
end

-- Makes an empty file of this user's; false where it is there or cannot be made.
function posix.create(path)
    local fd = ffi.C.gwb_os_open(path, O_WRONLY + O_CREAT + O_EXCL + O_CLOEXEC, ffi.cast("int", 384))    -- 0600
    if fd < 0 then
        return false
    end
    ffi.C.gwb_os_close(fd)
    return true
end

-- True where there is something to read within so many seconds.
local function readable(fd, seconds)
    local p = ffi.new("struct gwb_pollfd")
    p.fd, p.events = fd, POLLIN
    return ffi.C.gwb_os_poll(p, 1, math.max(0, math.floor(seconds * 1000 + 0.5))) > 0
end

-- Asks the terminal: sends the question and gives what came until the pattern `ending` was there or `seconds` had passed. Where something was typed
-- already it is left alone: "", true.
function posix.ask_terminal(question, ending, seconds)
    local fd = ffi.C.gwb_os_open("/dev/tty", O_RDWR + O_NOCTTY + O_CLOEXEC)
    if fd < 0 then
        return "", false
    end
    local before, raw, buffer = ffi.new("uint8_t[256]"), ffi.new("uint8_t[256]"), ffi.new("char[512]")     -- a struct termios has 60 bytes
    local answers, typed = "", readable(fd, 0)
    if not typed and ffi.C.gwb_os_tcgetattr(fd, before) == 0 then
        ffi.copy(raw, before, 256)
        ffi.C.gwb_os_cfmakeraw(raw)
        ffi.C.gwb_os_tcsetattr(fd, 0, raw)
        io.stdout:flush()
        ffi.C.gwb_os_write(fd, question, #question)
        local deadline = posix.now() + seconds
        while not answers:find(ending) and readable(fd, deadline - posix.now()) do
            local size = tonumber(ffi.C.gwb_os_read(fd, buffer, 512))
            if size <= 0 then
                break
            end
            answers = answers .. ffi.string(buffer, size)
        end
        ffi.C.gwb_os_tcsetattr(fd, 0, before)
    end
    ffi.C.gwb_os_close(fd)
    return answers, typed
end

-- An iterator over the entries of a folder: name, and whether it is a folder; none where it cannot be read. "." and ".." are left out.
function posix.entries(path)
    local list, at = {}, 0
    local folder = ffi.C.gwb_os_opendir(path)
    if folder ~= nil then
        local entry = ffi.C.gwb_os_readdir(folder)
        while entry ~= nil do
            local name = ffi.string(entry.name)
            if name ~= "." and name ~= ".." then
                local is_folder = entry.type == DT_DIR
                if entry.type == DT_LNK or entry.type == DT_UNKNOWN then
                    local inside = ffi.C.gwb_os_opendir(path .. "/" .. name)
                    is_folder = inside ~= nil
                    if is_folder then
                        ffi.C.gwb_os_closedir(inside)
                    end
                end
                list[#list + 1] = {name, is_folder}
            end
            entry = ffi.C.gwb_os_readdir(folder)
        end
        ffi.C.gwb_os_closedir(folder)
    end
    return function()
        at = at + 1
        if list[at] then
            return list[at][1], list[at][2]
        end
    end
end

-- ---- files that change. Folders are watched, since editors put a new file in the place of the old one.

local notice = {}
notice.__index = notice

-- A watcher of files; nil where the system has none.
function posix.notice()
    local fd = ffi.C.gwb_os_inotify_init1(O_CLOEXEC)
    if fd < 0 then
        return nil
    end
    return setmetatable({fd = fd, folders = {}, names = {}, buffer = ffi.new("uint8_t[4096]")}, notice)
end

function notice:add(path)
    local folder, name = path:match("^(.*/)([^/]+)$")
    folder, name = folder or "./", name or path
    local number = self.folders[folder]
    if not number then
        number = ffi.C.gwb_os_inotify_add_watch(self.fd, folder, IN_CLOSE_WRITE + IN_MOVED_TO)
        if number < 0 then
            return
        end
        self.folders[folder] = number
        self.names[number] = self.names[number] or {}
    end
    self.names[number][name] = true
end

-- True where one of the files changed by now or within so many seconds.
function notice:changed(seconds)
    local found = false
    while readable(self.fd, found and 0 or seconds) do
        local size = tonumber(ffi.C.gwb_os_read(self.fd, self.buffer, 4096))
        local at = 0
        while at + 16 <= size do    -- struct inotify_event: wd, mask, cookie, len, name
            local words = ffi.cast("int32_t *", self.buffer + at)
            local names = self.names[words[0]]
            local name = words[3] > 0 and ffi.string(self.buffer + at + 16) or ""
            found = found or names ~= nil and names[name] == true
            at = at + 16 + words[3]
        end
        if not found then
            seconds = 0
        end
    end
    return found
end

function posix.sleep(seconds)
    ffi.C.gwb_os_usleep(math.floor(seconds * 1e6))
end

return posix
