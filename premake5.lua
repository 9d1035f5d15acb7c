-- SPDX-License-Identifier: MIT
-- The build, for Premake 5 (`premake5 gmake`) and Debian's premake4 (`premake4 --file=premake5.lua gmake`); then
-- `make -C build config=release`. Only what both versions know is used; where they differ the branch stands at the top.
-- A source file that is added or removed needs a new premake run.

local space = workspace or solution

local function when(config)
    if filter then filter(config and "configurations:" .. config or {}) else configuration(config or "*") end
end

local function debug_symbols()
    if symbols then symbols "On" else flags { "Symbols" } end
end

local function pkg_config(options)
    local pipe = io.popen("pkg-config " .. options)
    local text = pipe:read("*a"):gsub("%s+$", "")
    pipe:close()
    if text == "" then error("pkg-config " .. options .. " found nothing: run scripts/setup.sh", 0) end
    return text
end

-- `premake5 --fuzz gmake`: the readers of files under libFuzzer, in a configuration of their own that clang compiles; scripts/fuzz.sh builds and runs it.
newoption { trigger = "fuzz", description = "the fuzz configuration, and nothing else, into build/fuzz" }
if _OPTIONS.fuzz then
    space "fuzz"
        configurations { "fuzz" }
        location "build/fuzz"
        language "C"
    project "fuzz"
        kind "ConsoleApp"
        location "build/fuzz"
        targetdir "build/fuzz"
        includedirs { "src", "kernels" }
        defines { "_GNU_SOURCE=" }
        files { "tests/c/fuzz.c", "src/codec/*.c", "src/error.c", "src/format.c" }
        excludes { "src/codec/video.c", "src/codec/program.c", "src/codec/room.c" }     -- ffmpeg is another program's business, the pool the devices'
        buildoptions { "-g", "-O1", "-std=gnu11", "-ffp-contract=off", "-w", "-fsanitize=fuzzer,address,undefined", "-fno-sanitize-recover=undefined",
                       pkg_config "--cflags stb" }
        linkoptions { "-fsanitize=fuzzer,address,undefined", "-pthread", "-ldl", "-lm" }
    return
end

-- Frames of video by Debian's libav packages, where these are.
local libav = os.execute("pkg-config --exists libavformat libavcodec libavutil")
libav = libav == 0 or libav == true

-- One static library a source folder: premake4 names objects by their file's base name, which is unique in a folder only.
local CONFIGS = { "release", "debug", "asan", "tsan" }
local PARTS = { "embed", "core", "host", "cuda", "codec" }

space "gpuwb"
    configurations(CONFIGS)
    if defaultconfiguration then defaultconfiguration "release" end
    location "build"
    language "C"
    includedirs { "src", "kernels" }
    defines { "_GNU_SOURCE=" }
    buildoptions {
        "-std=gnu11", "-fPIC", "-fvisibility=hidden", "-ffp-contract=off", "-pthread",
        "-Wall", "-Wextra", "-Wpedantic", "-Werror", pkg_config "--cflags luajit libedit stb",
    }
    debug_symbols()
    for _, name in ipairs(CONFIGS) do
        when(name)
            targetdir("build/" .. name)
    end
    when "release"
        buildoptions { "-O3" }
    when "debug"
        buildoptions { "-Og" }
    -- The code that a sanitizer adds misleads gcc's warnings about ranges; the other configurations see the same sources.
    when "asan"
        buildoptions { "-O1", "-Wno-error", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined" }
        linkoptions { "-fsanitize=address,undefined" }
    when "tsan"
        buildoptions { "-O1", "-Wno-error", "-fno-omit-frame-pointer", "-fsanitize=thread" }
        linkoptions { "-fsanitize=thread" }
    when()

local function part(name, sources)
    project("gwb_" .. name)
        kind "StaticLib"
        location "build"
        files(sources)
end

-- Runs the generator before all else; the file that it writes is compiled as part of the core.
part("embed", { "src/embedded.c" })
    prebuildcommands { "cd .. && luajit scripts/embed.lua build/embed" }
part("core", { "src/*.c", "build/embed/embedded_files.c" })
    excludes { "src/embedded.c", "src/main.c", "src/line.c" }
    links { "gwb_embed" }
for _, name in ipairs { "host", "cuda", "codec" } do
    part(name, { "src/" .. name .. "/**.c" })
end

-- A product holds every object of every part, whether anything refers to it or not: FFI finds its functions by name.
local function product(name, target_kind, target_name, libraries)
    project(name)
        kind(target_kind)
        location "build"
        targetprefix ""
        targetname(target_name)
        for _, from in ipairs(PARTS) do links { "gwb_" .. from } end
        for _, config in ipairs(CONFIGS) do
            local archives = {}
            for i, from in ipairs(PARTS) do archives[i] = config .. "/libgwb_" .. from .. ".a" end
            when(config)
                linkoptions { "-pthread -Wl,--whole-archive " .. table.concat(archives, " ") .. " " .. libraries }
        end
        when()
end

-- The command is one file to copy to another machine: LuaJIT and libedit are linked statically.
product("gpuwb", "ConsoleApp", "gpuwb", "-l:libluajit-5.1.a -Wl,--no-whole-archive -rdynamic "
    .. "-l:libedit.a -l:libbsd.a -l:libmd.a -l:libtinfo.a -Wl,--exclude-libs,libedit.a:libbsd.a:libmd.a:libtinfo.a -ldl -lm")
    files { "src/main.c", "src/line.c" }
product("libgpuwb", "SharedLib", "libgpuwb", "-Wl,--no-whole-archive -lluajit-5.1 -ldl -lm")
product("module", "SharedLib", "gpuwb", "-Wl,--no-whole-archive -ldl -lm")

-- Opened by these at run time, so that they do not depend on libav.
if libav then
    project "gpuwb_av"
        kind "SharedLib"
        location "build"
        targetprefix ""
        targetname "gpuwb_av"
        files { "src/av/*.c" }
        buildoptions { pkg_config "--cflags libavformat libavcodec libavutil" }
        linkoptions { "-pthread -Wl,--no-undefined -Wl,--as-needed " .. pkg_config "--libs libavformat libavcodec libavutil" .. " -lm" }
end

-- `ar` adds to an archive that is there: where a source came or went, start anew, so that the object of a removed one does not stay.
if _ACTION then
    local sources = table.concat(os.matchfiles("src/**.c"), "\n")
    local file = io.open("build/sources")
    local known = file and file:read("*a")
    if file then file:close() end
    if known ~= sources then
        for _, config in ipairs(CONFIGS) do
            for _, name in ipairs(PARTS) do os.remove("build/" .. config .. "/libgwb_" .. name .. ".a") end
        end
        os.mkdir("build")
        file = assert(io.open("build/sources", "w"))
        file:write(sources)
        file:close()
    end
end
