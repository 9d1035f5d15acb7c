-- SPDX-License-Identifier: MIT
-- gpuwb --doctor: what this machine has for gpuwb, and what to do about each thing that is missing. Nothing here fails for what is not there.
local ffi = require "ffi"
local posix = require "gpuwb.posix"

local doctor = {}

-- Libraries that are opened when they are first used: file, what for, Debian's package.
doctor.libraries = {
    {"libSDL2-2.0.so.0", "windows of gpu.show", "libsdl2-2.0-0"},
    {"libturbojpeg.so.0", "faster JPEG", "libturbojpeg0 (or libjpeg-turbo-progs, which brings it)"},
    {"libdeflate.so.0", "faster PNG", "libdeflate0"},
}

local function shell_line(command)
    local pipe = io.popen(command .. " 2>/dev/null")
    local line = pipe and pipe:read("*l")
    if pipe then
        pipe:close()
    end
    return line
end

local function on_path(name)
    return shell_line("command -v " .. name)
end

local function size_text(bytes)
    return bytes < 1e6 and ("%.1f kB"):format(bytes / 1e3) or bytes < 1e9 and ("%.1f MB"):format(bytes / 1e6) or ("%.1f GB"):format(bytes / 1e9)
end

-- A folder's files and their bytes.
local function contents(path)
    local count, bytes = 0, 0
    for name, is_folder in posix.entries(path) do
        local file = not is_folder and io.open(path .. "/" .. name, "rb")
        if file then
            count, bytes = count + 1, bytes + (file:seek("end") or 0)
            file:close()
        end
    end
    return count, bytes
end

local function folder(variable, rest)
    local base, home = os.getenv(variable), os.getenv("HOME")
    if base and base:find("^/") then
        return base .. "/gpuwb"
    end
    return home and home .. rest .. "/gpuwb" or nil
end

local function writable(path)
    local probe = ("%s/.probe-%d"):format(path, posix.pid())
    local made = posix.create(probe)
    os.remove(probe)
    return made
end

-- ---- each part adds rows: {mark, name, text, what to do}. mark: "ok", "--" (missing, and gpuwb goes without), "!!" (wrong)

local function add_driver(add, gpu)
    local why = gpu.why_no_cuda()
    if why then
        local asked = why:find("GPUWB_DEVICE", 1, true) or why:find("CUDA_VISIBLE_DEVICES", 1, true)
        add("--", "CUDA driver", why, asked and "that variable hides the devices: unset it to use them" or
            "with an NVIDIA GPU: install its driver (nvidia-smi must work); without one all runs on the host device")
        return
    end
    add("ok", "CUDA driver", require("gpuwb.command").driver_version())
end

local function add_devices(add, gpu)
    for _, d in ipairs(gpu.devices()) do
        local rest = d.capability and "compute capability " .. d.capability or d.units .. " threads"
        local text = ("%s, %s, %s"):format(d.model, size_text(d.memory), rest)
        local ok, err = pcall(function()
            local m = gpu.mat(4, 4, "u8", {device = d.name, fill = 7})
            assert(m:at(3, 3) == 7, "a fill did not arrive")
            m:close()
        end)
        add(ok and "ok" or "!!", d.name, ok and text .. ": works" or text .. ": " .. tostring(err),
            not ok and "the device does not do a first piece of work: GPUWB_SYNC=1 and GPUWB_LOG=debug tell more" or nil)
    end
end

local function add_compilers(add, gpu)
    local C = require("gpuwb.cdef").C
    local nvcc = on_path("nvcc") or on_path((os.getenv("CUDA_HOME") or "/usr/local/cuda") .. "/bin/nvcc")
    if nvcc then
        add("ok", "CUDA toolkit", nvcc .. (shell_line(nvcc .. " --version | grep release") or ""):gsub("^.*release", ", release"))
    else
        add("--", "CUDA toolkit", "no nvcc", "not needed to run; building gpuwb with nvcc saves compiling its kernels at first use")
    end
    local version = C.gwb_nvrtc_version()
    if version > 0 then
        add("ok", "NVRTC", ("%d.%d"):format(version / 1000, version % 1000 / 10))
    else
        add("--", "NVRTC", ffi.string(C.gwb_error_message()),
            "gpu.kernel and pipelines on a GPU need it: install the CUDA toolkit or NVIDIA's pip package of it, or put libnvrtc.so on LD_LIBRARY_PATH")
    end
    local ok, err = pcall(gpu.kernel, "__global__ void doctor() {}", {device = "host"})
    local found
    for _, name in ipairs {os.getenv("CC") or "", "cc", "gcc", "clang"} do
        found = found or name ~= "" and on_path(name)
    end
    add(ok and "ok" or "--", "C compiler", ok and (found or "found") or tostring(err),
        not ok and "gpu.kernel and gpu.map on the host device need one: install gcc and g++, or set CC" or nil)
end

local function add_libraries(add)
    for _, row in ipairs(doctor.libraries) do
        local ok = pcall(ffi.load, row[1])
        add(ok and "ok" or "--", row[1], row[2], not ok and "install " .. row[3] .. " for " .. row[2] or nil)
    end
end

local function add_programs(add)
    local ffmpeg, ffprobe = on_path("ffmpeg"), on_path("ffprobe")
    local all = ffmpeg and ffprobe
    add(all and "ok" or "--", "ffmpeg", all and ffmpeg or ffmpeg and "no ffprobe" or "no ffmpeg",
        not all and "install ffmpeg, which brings both, for gpu.frames, gpu.video_info and gpu.video_writer of video files" or nil)
    local C = require("gpuwb.cdef").C
    local libav = C.gwb_libav()
    add(libav ~= nil and "ok" or "--", "libav", libav ~= nil and ffi.string(libav) or ffi.string(C.gwb_error_message()),
        libav == nil and "gpu.frames goes through ffmpeg; for NVDEC and frames without a pipe install libavformat-dev, libavcodec-dev and libavutil-dev, "
            .. "and build gpuwb again" or nil)
    local ok, python = pcall(require, "gpuwb.python")
    local there, np = ok, nil
    if ok then
        there, np = pcall(python.import, "numpy")
    end
    local advice = "install python3 and libpython3-dev for gpuwb.python, or let GPUWB_PYTHON name an interpreter that has a shared library"
    if ok and not there then
        advice = "install NumPy for this Python (python3-numpy for Debian's), or let GPUWB_PYTHON name one that has it"
    end
    local info = ok and python.info or {}
    local text = ok and ("%s, %s, %s"):format(tostring(info.version):match("^%S+"), info.executable or "in the process already",
        there and "NumPy " .. np.__version__ or "no NumPy") or tostring(python)
    add(ok and there and "ok" or "--", "Python", text, not (ok and there) and advice or nil)
end

local function add_folders(add)
    for _, row in ipairs {{"kernel cache", "XDG_CACHE_HOME", "/.cache"}, {"history", "XDG_STATE_HOME", "/.local/state"}} do
        local path = folder(row[2], row[3])
        if not path then
            add("--", row[1], "neither " .. row[2] .. " nor HOME is set", "set one of them, else nothing is kept")
        else
            local count, bytes = contents(path)
            local is_there = count > 0 or writable(path)
            if not is_there then
                add("ok", row[1], path .. ": not made yet")
            elseif writable(path) then
                add("ok", row[1], ("%s: %d files, %s"):format(path, count, size_text(bytes)))
            else
                add("!!", row[1], path .. " cannot be written", "make it yours, or let " .. row[2] .. " name another folder")
            end
        end
    end
end

local function add_terminal(add)
    local terminal = require "gpuwb.terminal"
    if not posix.isatty(1) then
        add("--", "terminal", "standard output is none", nil)
        return
    end
    local columns, rows, width, height = posix.window(1)
    local ability = terminal.ability()
    local text = ("%s, %d x %d letters%s, pictures: %s"):format(os.getenv("TERM") or "no TERM", columns, rows,
        width > 0 and (" of %d x %d pixels"):format(width / columns, height / rows) or "", ability or "none")
    local advice = "a terminal with kitty's graphics or sixel shows pictures in pixels"
        .. ((os.getenv("TMUX") or "") ~= "" and "; tmux passes sixel on from 3.4 on" or "")
    add(ability and "ok" or "--", "terminal", text, (not ability or ability == "blocks") and advice or nil)
end

local function add_environment(add)
    local set = {}
    for _, name in ipairs {"GPUWB_DEVICE", "GPUWB_ROOT", "GPUWB_THREADS", "GPUWB_DUMP", "GPUWB_SYNC", "GPUWB_LOG", "GPUWB_SHOW", "GPUWB_PYTHON",
                            "CUDA_VISIBLE_DEVICES"} do
        local value = os.getenv(name)
        set[#set + 1] = value and ("%s=%s"):format(name, value)
    end
    add("ok", "environment", #set > 0 and table.concat(set, " ") or "nothing of gpuwb's is set")
end

-- The rows, each {mark=, name=, text=, advice=}.
function doctor.rows()
    local gpu, rows = require "gpuwb", {}
    local function add(mark, name, text, advice)
        rows[#rows + 1] = {mark = mark, name = name, text = text:gsub("%s+", " "), advice = advice}
    end
    add("ok", "gpuwb", ("%s, %s, %s"):format(gpu.version, jit.version, jit.status() and "JIT compiler on" or "JIT compiler off"))
    for _, part in ipairs {add_driver, add_devices, add_compilers, add_libraries, add_programs, add_folders, add_terminal, add_environment} do
        local ok, err = pcall(part, add, gpu)
        if not ok then
            add("!!", "doctor", tostring(err), "this is a fault in gpuwb itself")
        end
    end
    return rows
end

-- Prints them.
function doctor.run()
    for _, row in ipairs(doctor.rows()) do
        io.write(("%-3s %-18s %s\n"):format(row.mark, row.name, row.text))
        if row.advice then
            io.write(("%-22s -> %s\n"):format("", row.advice))
        end
    end
end

return doctor
