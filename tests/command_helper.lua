-- SPDX-License-Identifier: MIT
-- Runs the command under test (the gpuwb that runs the specs) as a process: through files and pipes, or on a terminal.

local ffi = require "ffi"
local basic = require "tests.helper"

-- busted runs each spec file with fresh modules, FFI's declarations stay.
local function declare(text)
    local ok, message = pcall(ffi.cdef, text)
    if not ok and not message:find "redefine" then error(message) end
end

declare [[
    typedef struct { int fd; short events, revents; } gpuwb_test_pollfd;
    typedef struct { unsigned short rows, columns, x, y; } gpuwb_test_winsize;
    int posix_openpt(int flags);
    int grantpt(int fd);
    int unlockpt(int fd);
    int ptsname_r(int fd, char *buffer, size_t size);
    int ioctl(int fd, unsigned long request, ...);
    int poll(gpuwb_test_pollfd *fds, unsigned long count, int timeout);
    ssize_t read(int fd, void *buffer, size_t size);
    ssize_t write(int fd, const void *buffer, size_t size);
    int close(int fd);
    int kill(int pid, int signal);
    int waitpid(int pid, int *status, int options);
    int posix_spawn_file_actions_init(void *actions);
    int posix_spawn_file_actions_addopen(void *actions, int fd, const char *path, int flags, unsigned mode);
    int posix_spawn_file_actions_adddup2(void *actions, int from, int to);
    int posix_spawn_file_actions_destroy(void *actions);
    int posix_spawnattr_init(void *attributes);
    int posix_spawnattr_setflags(void *attributes, short flags);
    int posix_spawnattr_destroy(void *attributes);
    int posix_spawn(int *pid, const char *path, const void *actions, const void *attributes, const char **argv, const char **envp);
    extern const char **environ;
    int gettimeofday(long now[2], void *zone);
]]

local C = ffi.C
local O_RDWR, O_NOCTTY, SETSID = 2, 256, 0x80 -- Linux, glibc
local TIOCSWINSZ, POLLIN, SIGKILL = 0x5414, 1, 9

local helper = {}

helper.gpuwb = basic.readlink "/proc/self/exe"
helper.quote, helper.read, helper.write, helper.folder, helper.remove = basic.quote, basic.read, basic.write, basic.folder, basic.remove

-- The path of a program, or nil.
function helper.find(program)
    local pipe = io.popen("command -v " .. helper.quote(program))
    local path = pipe:read "*l"
    pipe:close()
    return path
end

-- Runs a shell command line; gives {out=, err=, status=}, status 128 + N after signal N.
function helper.shell(line, stdin)
    local base = os.tmpname()
    helper.write(base, stdin or "")
    local files = { out = base .. ".out", err = base .. ".err", status = base .. ".status" }
    os.execute(("{ %s\n} <%s >%s 2>%s; echo $? >%s"):format(line, base, files.out, files.err, files.status))
    local result = { out = helper.read(files.out), err = helper.read(files.err), status = tonumber(helper.read(files.status)) }
    os.remove(base)
    for _, path in pairs(files) do os.remove(path) end
    return result
end

-- The words that run a program in a changed environment: {NAME = value, or false to unset}. LUA_INIT is unset.
local function with_environment(program, words, env)
    local line = { "/usr/bin/env", "-u", "LUA_INIT" }
    local function add(word) line[#line + 1] = word end
    for name, value in pairs(env or {}) do
        if not value then
            add "-u"
            add(name)
        end
    end
    for name, value in pairs(env or {}) do
        if value then add(name .. "=" .. value) end
    end
    add(program)
    for _, word in ipairs(words) do add(word) end
    return line
end

-- Runs gpuwb. Options: program = another one; env as above; cwd; stdin = text; redirect = shell text such as ">/dev/full".
function helper.run(words, options)
    options = options or {}
    local line = with_environment(options.program or helper.gpuwb, words, options.env)
    for i, word in ipairs(line) do line[i] = helper.quote(word) end
    local cd = options.cwd and "cd " .. helper.quote(options.cwd) .. " && " or ""
    return helper.shell("( " .. cd .. "exec " .. table.concat(line, " ") .. " " .. (options.redirect or "") .. " )", options.stdin)
end

-- ---- a terminal

local Terminal = {}
Terminal.__index = Terminal

local function now()
    local time = ffi.new("long[2]")
    C.gettimeofday(time, nil)
    return tonumber(time[0]) + tonumber(time[1]) / 1e6
end

local function strings(list)
    local array = ffi.new("const char *[?]", #list + 1)
    for i, text in ipairs(list) do array[i - 1] = text end
    return array
end

-- Starts gpuwb on a new terminal of 24 rows and 80 columns. `env`: {NAME = value, or false to unset}.
function helper.terminal(words, env)
    local master = C.posix_openpt(O_RDWR + O_NOCTTY)
    assert(master >= 0 and C.grantpt(master) == 0 and C.unlockpt(master) == 0, "no pseudo terminal")
    local name = ffi.new("char[256]")
    assert(C.ptsname_r(master, name, 256) == 0)
    C.ioctl(master, TIOCSWINSZ, ffi.new("gpuwb_test_winsize", 24, 80))
    local actions, attributes = ffi.new("uint64_t[64]"), ffi.new("uint64_t[64]")
    C.posix_spawn_file_actions_init(actions)
    C.posix_spawn_file_actions_addopen(actions, 0, name, O_RDWR, 0) -- as a session's leader: its controlling terminal
    C.posix_spawn_file_actions_adddup2(actions, 0, 1)
    C.posix_spawn_file_actions_adddup2(actions, 0, 2)
    C.posix_spawnattr_init(attributes)
    C.posix_spawnattr_setflags(attributes, SETSID)
    local line, pid = with_environment(helper.gpuwb, words, env), ffi.new("int[1]")
    local status = C.posix_spawn(pid, line[1], actions, attributes, strings(line), C.environ)
    C.posix_spawn_file_actions_destroy(actions)
    C.posix_spawnattr_destroy(attributes)
    assert(status == 0, "the command did not start")
    return setmetatable({ master = master, pid = pid[0], output = "", seen = 1 }, Terminal)
end

function Terminal:send(text)
    assert(C.write(self.master, text, #text) == #text, "the terminal takes no input")
end

function Terminal:resize(rows, columns)
    assert(C.ioctl(self.master, TIOCSWINSZ, ffi.new("gpuwb_test_winsize", rows, columns)) == 0)
end

-- Takes what arrives within `seconds`; false at the terminal's end or when nothing came.
function Terminal:receive(seconds)
    local fds = ffi.new("gpuwb_test_pollfd[1]")
    fds[0].fd, fds[0].events = self.master, POLLIN
    if C.poll(fds, 1, math.ceil(seconds * 1000)) <= 0 then return false end
    local buffer = ffi.new("char[4096]")
    local size = tonumber(C.read(self.master, buffer, 4096))
    if size <= 0 then return false end
    self.output = self.output .. ffi.string(buffer, size)
    return true
end

-- Waits for a plain text after what was seen before; gives what stood between. Fails after `seconds` (10).
function Terminal:expect(text, seconds)
    local deadline = now() + (seconds or 10)
    while true do
        local first, last = self.output:find(text, self.seen, true)
        if first then
            local between = self.output:sub(self.seen, first - 1)
            self.seen = last + 1
            return between
        end
        if now() > deadline or not self:receive(math.max(0, deadline - now())) then
            error(("%q did not come; the terminal shows: %q"):format(text, self.output:sub(math.max(self.seen, #self.output - 2000))), 2)
        end
    end
end

-- Waits for the end of the command: its exit status, 128 + N after signal N. Kills it after `seconds` (10).
function Terminal:wait(seconds)
    local status, deadline, killed = ffi.new("int[1]"), now() + (seconds or 10), false
    while C.waitpid(self.pid, status, 1) == 0 do
        if now() > deadline then
            C.kill(self.pid, SIGKILL)
            killed = true
        end
        self:receive(0.01)
    end
    while self:receive(0) do end
    C.close(self.master)
    assert(not killed, "the command did not end")
    local signal = status[0] % 128
    return signal == 0 and math.floor(status[0] / 256) or 128 + signal
end

return helper
