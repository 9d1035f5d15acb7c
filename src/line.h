// SPDX-License-Identifier: MIT
// The prompt's line reader: libedit on a terminal, plain reading elsewhere; and the history.
#ifndef GWB_LINE_H
#define GWB_LINE_H

#include <stdbool.h>

struct lua_State;

// Pushes the reader of standard input, a table:
//   read(prompt)   the next line without its end; a pasted block or a recalled chunk comes whole, newlines inside;
//                  nil at the end of the input; false where Ctrl-C cancelled it. Waits.
//   remember(text) adds a chunk to the history (nothing where the input is no terminal; never fails)
//   set_completer(fn)  fn(line up to the cursor) gives the text that Tab inserts and a list to show where there are several; either may be nil
//   set_idle(fn)   fn() is called while a line is waited for, again and again as long as it gives true
//   edits          whether lines can be edited: the terminal understands escape sequences
//   terminal       whether standard input and output are a terminal: prompts are worth printing
// Gives `terminal`. Raises a Lua error only for lack of memory. One reader a process, main thread only.
bool gwb_line_open(struct lua_State *L);

#endif
