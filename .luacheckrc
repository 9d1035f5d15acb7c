std = "luajit"
max_line_length = 160
files["tests"].std = "+busted"
files["scripts/nginx"].globals = { "ngx" }
files["tests"].ignore = { "311" } -- a reference is dropped so that the collector takes what it held
files[".busted"].read_globals = { "gpu" }
files[".luacheckrc"].std = "+luacheckrc"
-- The vocabulary that Premake 5 and premake4 give a build script.
files["premake5.lua"].read_globals = {
    "workspace", "solution", "project", "filter", "configuration", "configurations", "defaultconfiguration", "location", "language", "kind",
    "files", "excludes", "includedirs", "defines", "buildoptions", "linkoptions", "links", "prebuildcommands", "symbols", "flags",
    "targetdir", "targetname", "targetprefix", "_ACTION", "_OPTIONS", "newoption", os = { fields = { "matchfiles", "mkdir", "remove" } },
}
