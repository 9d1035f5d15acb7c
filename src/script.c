// SPDX-License-Identifier: MIT
// The Lua seam: finds the embedded modules, makes the userdata that own mats, streams and events, and closes them when they are collected.
// Everything else a script does goes through FFI calls (lua/gpuwb/).
#include "script.h"

#include "device.h"
#include "embedded.h"

#include <dlfcn.h>
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdio.h>
#include <string.h>

#define MODULES "gpuwb.modules"     // registry: what each module gave, so that it is loaded once a state

// ---- userdata

// The first argument where it is a userdata of the metatable in upvalue 1; NULL for all else that the debug library may hand to a finalizer.
static void *own(lua_State *L)
{
    return lua_isuserdata(L, 1) && lua_getmetatable(L, 1) && lua_rawequal(L, -1, lua_upvalueindex(1)) ? lua_touserdata(L, 1) : NULL;
}

static int collect_mat(lua_State *L)
{
    gwb_mat_close(own(L));
    return 0;
}

static int collect_stream(lua_State *L)
{
    gwb_stream_close(own(L));
    return 0;
}

static int collect_event(lua_State *L)
{
    gwb_event_close(own(L));
    return 0;
}

static const struct { const char *name; size_t size; lua_CFunction collect; } kinds[] = {
    {"mat", sizeof(gwb_mat), collect_mat},
    {"stream", sizeof(gwb_stream), collect_stream},
    {"event", sizeof(gwb_event), collect_event},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

// Pushes the innermost line of the script that is running, "script.lua:3", or false. In C, since each new mat asks for it.
static void push_caller(lua_State *L)
{
    static const char own[] = "@lua/gpuwb/";
    lua_Debug at;
    for (int level = 1; level < 1000 && lua_getstack(L, level, &at); level++) {
        lua_getinfo(L, "Sl", &at);
        if (at.currentline > 0 && strncmp(at.source, own, sizeof own - 1) != 0) {
            lua_pushfstring(L, "%s:%d", at.short_src, at.currentline);
            return;
        }
    }
    lua_pushboolean(L, 0);
}

// new(): an empty userdata of the kind in upvalue 1, whose metatable is upvalue 2; it counts as closed until an FFI call fills it. Where it was made is noted
// in upvalue 3, a table with weak keys, or nil.
static int new_userdata(lua_State *L)
{
    size_t size = kinds[lua_tointeger(L, lua_upvalueindex(1))].size;
    memset(lua_newuserdata(L, size), 0, size);
    lua_pushvalue(L, lua_upvalueindex(2));
    lua_setmetatable(L, -2);
    if (lua_istable(L, lua_upvalueindex(3))) {
        lua_pushvalue(L, -1);
        push_caller(L);
        lua_rawset(L, lua_upvalueindex(3));
    }
    return 1;
}

// Pushes a table with weak keys.
static void push_weak(lua_State *L)
{
    lua_newtable(L);
    lua_newtable(L);
    lua_pushliteral(L, "k");
    lua_setfield(L, -2, "__mode");
    lua_setmetatable(L, -2);
}

// At the end of the state no work may run any more that reads memory which the state owns.
static int finish(lua_State *L)
{
    const uint64_t keys = (uint64_t)lua_tonumber(L, lua_upvalueindex(1));
    if (!gwb_devices_found() || gwb_forked)
        return 0;
    for (int i = 0; i < gwb_device_count(); i++)
        gwb_device_settle(i);
    while (gwb_released_owner(keys))    // the script's owners go with the state
        ;
    gwb_run_deleters();
    return 0;
}

// ---- modules

// embedded(name) -> text or nil; embedded() -> list of the names
static int embedded(lua_State *L)
{
    if (lua_gettop(L) == 0) {
        lua_createtable(L, (int)gwb_embedded_count, 0);
        for (size_t i = 0; i < gwb_embedded_count; i++) {
            lua_pushstring(L, gwb_embedded_files[i].name);
            lua_rawseti(L, -2, (int)i + 1);
        }
        return 1;
    }
    const gwb_embedded *file = gwb_embedded_find(luaL_checkstring(L, 1));
    if (!file)
        return 0;
    lua_pushlstring(L, (const char *)file->data, file->size);
    return 1;
}

// whole(fn, ...) -> what fn gives; a coroutine cannot yield in it, since a C function stands between
static int whole(lua_State *L)
{
    lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
    return lua_gettop(L);
}

// require "gpuwb.core": {mat = {new=, meta=, made=}, stream = ..., event = ..., embedded=, whole=, library=, owner_keys=}
static int open_core(lua_State *L)
{
    lua_newtable(L);
    for (int i = 0; i < KINDS; i++) {
        lua_newtable(L);
        lua_newtable(L);
        lua_pushvalue(L, -1);
        lua_pushcclosure(L, kinds[i].collect, 1);
        lua_setfield(L, -2, "__gc");
        if (i == 0) {
            push_weak(L);
            lua_pushvalue(L, -1);
            lua_setfield(L, -4, "made");
        } else {
            lua_pushnil(L);
        }
        lua_pushinteger(L, i);
        lua_pushvalue(L, -3);
        lua_pushvalue(L, -3);
        lua_pushcclosure(L, new_userdata, 3);
        lua_setfield(L, -4, "new");
        lua_pop(L, 1);
        lua_setfield(L, -2, "meta");
        lua_setfield(L, -2, kinds[i].name);
    }
    lua_pushcfunction(L, embedded);
    lua_setfield(L, -2, "embedded");
    lua_pushcfunction(L, whole);
    lua_setfield(L, -2, "whole");
    Dl_info info;
    if (dladdr((void *)(intptr_t)finish, &info) && info.dli_fname)
        lua_pushstring(L, info.dli_fname);
    else
        lua_pushnil(L);
    lua_setfield(L, -2, "library");
    lua_pushnumber(L, (lua_Number)gwb_owner_keys());
    lua_pushvalue(L, -1);
    lua_setfield(L, -3, "owner_keys");
    lua_newuserdata(L, 1);
    lua_newtable(L);
    lua_pushvalue(L, -3);
    lua_pushcclosure(L, finish, 1);
    lua_setfield(L, -2, "__gc");
    lua_setmetatable(L, -2);
    lua_setfield(L, LUA_REGISTRYINDEX, "gpuwb.finish");
    lua_pop(L, 1);
    return 1;
}

// load(name): what the module gave when it was first loaded in this state
static int load_module(lua_State *L)
{
    const char *name = luaL_checkstring(L, 1);
    lua_settop(L, 1);
    luaL_findtable(L, LUA_REGISTRYINDEX, MODULES, 8);
    lua_getfield(L, 2, name);
    if (!lua_isnil(L, 3))
        return 1;
    lua_settop(L, 2);
    if (strcmp(name, "gpuwb.core") == 0) {
        open_core(L);
    } else {
        char file[128];
        snprintf(file, sizeof file, "lua/gpuwb/%s.lua", strcmp(name, "gpuwb") == 0 ? "init" : name + strlen("gpuwb."));
        const gwb_embedded *text = gwb_embedded_find(file);
        if (!text)
            return luaL_error(L, "module '%s' is not part of gpuwb (no %s)", name, file);
        lua_pushfstring(L, "@%s", file);
        if (luaL_loadbuffer(L, (const char *)text->data, text->size, lua_tostring(L, -1)) != 0)
            return lua_error(L);
        lua_pushvalue(L, 1);
        lua_call(L, 1, 1);
    }
    lua_pushvalue(L, -1);
    lua_setfield(L, 2, name);
    return 1;
}

// package.loaders entry
static int search(lua_State *L)
{
    const char *name = luaL_checkstring(L, 1);
    if (strcmp(name, "gpuwb") != 0 && strncmp(name, "gpuwb.", 6) != 0)
        return 0;
    char file[128];
    snprintf(file, sizeof file, "lua/gpuwb/%s.lua", strcmp(name, "gpuwb") == 0 ? "init" : name + strlen("gpuwb."));
    if (strcmp(name, "gpuwb.core") != 0 && !gwb_embedded_find(file)) {
        lua_pushfstring(L, "\n\tno file '%s' in gpuwb", file);
        return 1;
    }
    lua_pushcfunction(L, load_module);
    return 1;
}

void gwb_script_open(lua_State *L)
{
    luaL_findtable(L, LUA_REGISTRYINDEX, MODULES, 8);
    lua_getfield(L, -1, "searching");
    bool done = lua_toboolean(L, -1);
    lua_pop(L, 1);
    if (!done) {
        lua_pushboolean(L, 1);
        lua_setfield(L, -2, "searching");
        lua_getglobal(L, "package");
        lua_getfield(L, -1, "loaders");
        for (int i = (int)lua_objlen(L, -1); i >= 2; i--) {     // behind package.preload, before the files
            lua_rawgeti(L, -1, i);
            lua_rawseti(L, -2, i + 1);
        }
        lua_pushcfunction(L, search);
        lua_rawseti(L, -2, 2);
        lua_pop(L, 2);
    }
    lua_pop(L, 1);
}

__attribute__((visibility("default"))) int luaopen_gpuwb(lua_State *L)
{
    gwb_script_open(L);
    lua_pushcfunction(L, load_module);
    lua_pushliteral(L, "gpuwb");
    lua_call(L, 1, 1);
    return 1;
}
