-- SPDX-License-Identifier: MIT
-- What the command's options do beyond running code: called by src/main.c, once an option. Errors are for the user of
-- the command, without a position: LuaJIT's functions are called in tail position, so that theirs have none either.

local ffi = require "ffi"

local command = {}

local HELP = [==[
usage: gpuwb [options] [script [args]]

Runs a Lua script as luajit does; the workbench is the global `gpu` (or require "gpuwb"). With no script: a prompt on a
terminal, else the script is read from standard input.

  -e CODE          run CODE; may be repeated
  -l NAME          require the library NAME
  -i               a prompt after the script
  -v               print versions, then go on
  -j CMD           a LuaJIT command: on, off, v, dump, p, ...
  -O[LEVEL|FLAGS]  LuaJIT's optimisation
  -b ...           save or list bytecode
  -E               ignore LUA_INIT, LUA_PATH and LUA_CPATH
  --               end of the options
  -                the script is standard input
  --device NAME    compute on host, cuda or cuda:N (the default: cuda:0 where there is one, else host)
  --devices        list the devices
  --doctor         tell what this machine has for gpuwb, and what to do about what is missing
  --watch          run the script again whenever it or a file that it loaded changes; windows stay
  --strict         reading or assigning an undeclared global is an error
  --version        print versions
  --help, -h       print this

A picture, an array or a video in the place of the script is shown, with a line about what it holds.
In -e and at the prompt the names of `gpu` work without it, as in gpuwb -e 'load("a.png"):resize(640, 480):save("b.jpg")'.
?NAME at the prompt, or gpuwb -e 'help("NAME")', tells of a name.

Environment: LUA_INIT (code or @file, run first), GPUWB_DEVICE (as --device), GPUWB_SHOW (how gpu.show shows: kitty, iterm2,
sixel, blocks, window, file, none), GPUWB_LOG=debug (each launch and copy on stderr), GPUWB_ROOT (a checkout to read gpuwb's
Lua files and kernels from).
]==]

command.text = HELP     -- scripts/docs.lua makes the man page and the shells' completions of it

function command.help()
    io.write(HELP)
end

function command.driver_version()
    ffi.cdef "int cuDriverGetVersion(int *version);"
    local version = ffi.new "int[1]"
    ffi.load("libcuda.so.1").cuDriverGetVersion(version)
    return ("%d.%d"):format(version[0] / 1000, version[0] % 1000 / 10)
end

-- One line each; works where no driver is installed.
function command.version()
    local gpu = require "gpuwb"
    local why_no_cuda = gpu.why_no_cuda()
    print("gpuwb " .. gpu.version)
    print(jit.version)
    print(why_no_cuda and "no CUDA: " .. why_no_cuda or "CUDA driver " .. command.driver_version())
end

function command.devices()
    local gpu = require "gpuwb"
    for _, device in ipairs(gpu.devices()) do
        print(("%-7s %s, %.1f GiB"):format(device.name, device.model, device.memory / 2^30))
    end
    local why_no_cuda = gpu.why_no_cuda()
    if why_no_cuda then print("no CUDA: " .. why_no_cuda) end
end

function command.doctor()
    require("gpuwb.doctor").run()
end

-- What could not be read as a script, and what came after it.
function command.look(...)
    require("gpuwb.look").run(...)
end

-- "a,b" as "a", "b"; nothing for nil.
local function words(list)
    local result = {}
    for word in ((list or "") .. ","):gmatch "([^,]*)," do result[#result + 1] = word end
    if not list then result[1] = nil end
    return result
end

-- A module of LuaJIT's own, which comes as a Lua file beside it.
local function jit_module(name)
    local found, module = pcall(require, "jit." .. name)
    if not found and not tostring(module):find("module 'jit." .. name .. "' not found", 1, true) then error(module, 0) end
    if not found or type(module) ~= "table" or not module.start then
        error("unknown luaJIT command or jit.* modules not installed", 0)
    end
    return module
end

-- -j NAME[=ARG,ARG...]: a function of `jit`, or the module jit.NAME.
function command.jit(text)
    local name, list = text:match "^([^=]*)=(.*)$"
    name = name or text
    local run = type(jit[name]) == "function" and jit[name] or jit_module(name).start
    return run(unpack(words(list)))
end

-- -O[LEVEL|FLAG,FLAG...]
function command.optimize(list)
    return require("jit.opt").start(unpack(words(list)))
end

-- -b[OPTIONS] ARG...: all that follows belongs to jit.bcsave.
function command.bytecode(first, ...)
    local options = first:sub(3)
    local start = jit_module("bcsave").start
    if options == "" then start(...) else start("-" .. options, ...) end
end

return command
