// SPDX-License-Identifier: MIT
// What operations do and when: written as a trace (gpu.trace), told on stderr ($GPUWB_LOG=debug). An operation that nobody wants to know of costs a test.
#ifndef GWB_TRACE_H
#define GWB_TRACE_H

#include "stream.h"

// Whether notes are wanted. Looked at under gwb_lock, behind gwb_op_begin.
bool gwb_trace_wanted(void);

// Tells of something else in the log, as a sentence without a line feed.
void gwb_trace_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

// Says what the operation is, between gwb_op_begin and gwb_op_ready. category: "copy", "kernel" or "wait"; name: text that needs no escaping in JSON;
// args: members of a JSON object, as "\"bytes\":%d". Where there is no memory for the note it is left out.
void gwb_trace_note(gwb_op *op, const char *category, const char *name, const char *args, ...) __attribute__((format(printf, 4, 5)));
void gwb_trace_copy(gwb_op *op, const gwb_rect *rects, int count);
void gwb_trace_launch(gwb_op *op, const gwb_launch *launch);
void gwb_trace_kernel(gwb_op *op, const gwb_kernel_run *run, const gwb_kernel_call *call);

// stream.c's: right before the operation's device calls, and behind them with their outcome. Under gwb_lock.
void gwb_trace_begin(gwb_op *op);
void gwb_trace_end(gwb_op *op, int rc);

#endif
