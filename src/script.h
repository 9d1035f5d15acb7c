// SPDX-License-Identifier: MIT
// The Lua seam: the one place that knows lua.h, besides the command in main.c.
#ifndef GWB_SCRIPT_H
#define GWB_SCRIPT_H

struct lua_State;

// Makes `require "gpuwb"` and `require "gpuwb.NAME"` work in a state whose standard libraries are open (a searcher over the
// embedded files; modules are loaded once a state, also when package.loaded is reset). Opens no device.
// Raises a Lua error only for lack of memory: call it protected. Not thread-safe for one state.
void gwb_script_open(struct lua_State *L);

// The LuaJIT module: pushes what `require "gpuwb"` gives.
int luaopen_gpuwb(struct lua_State *L);

#endif
