// SPDX-License-Identifier: MIT
// Streams and the ordering by data: how an operation finds its queue, waits for what it needs, and is remembered.
#ifndef GWB_STREAM_H
#define GWB_STREAM_H

#include "buf.h"

typedef struct gwb_trace_op gwb_trace_op;

// One operation under way, from begin to end on one thread, which holds gwb_lock meanwhile.
enum { GWB_OP_USES = 64 };
typedef struct gwb_op {
    gwb_queue *queue;
    gwb_trace_op *note;           // what a trace will say of it (trace.h); NULL: nothing
    int64_t bytes_read, bytes_written;  // of the mats that were named
    int count;
    struct { gwb_buf *buf; bool write; } use[GWB_OP_USES];
} gwb_op;

// Takes the lock and picks the queue: the stream's, which must belong to `device`, or the default stream of `device` where `s` is NULL.
// After a success gwb_op_end must follow; after a failure nothing.
int gwb_op_begin(gwb_op *op, int device, const gwb_stream *s);
void gwb_op_read(gwb_op *op, const gwb_mat *m);
void gwb_op_write(gwb_op *op, const gwb_mat *m);
void gwb_op_use(gwb_op *op, gwb_buf *b, bool write);
// Makes the queue wait for other streams where the data asks for it, and numbers the operation. One enqueuing device call may follow.
int gwb_op_ready(gwb_op *op);
void gwb_op_again(gwb_op *op);          // before each further device call of the same operation
// Records the uses (rc >= 0) and lets the lock go; returns rc, or a failure of its own. With $GPUWB_SYNC=1 it also waits for the operation.
int gwb_op_end(gwb_op *op, int rc);

// Makes q run after what a read (or write) of b must wait for; notes that operation `seq` of q, its newest, does so. While q records: only that the graph does.
int gwb_queue_before(gwb_queue *q, gwb_buf *b, bool write);
int gwb_queue_behind(gwb_queue *q, gwb_buf *b, uint64_t seq, bool write);
// An error where the stream records: `what` would wait for work that is not done. For everything that waits, or makes others wait, for a queue.
int gwb_queue_check_recording(const gwb_queue *q, const char *what);
void gwb_queue_mark_twins(const gwb_queue *q);      // of other queues over its stream: what they hold can be waited for while it is recorded. Under gwb_lock
// graph.c: notes what a recorded operation uses. Under gwb_lock.
int gwb_graph_use(gwb_graph *graph, gwb_buf *b, bool write);
void gwb_graph_count(gwb_graph *graph);     // one more operation
bool gwb_graph_recording(void);             // whether any stream records
int gwb_graph_check_result(const gwb_buf *b);       // an error where a recording that is under way has a write of b: its result is not there

// Under gwb_lock.
void gwb_queue_retain(gwb_queue *q);
void gwb_queue_release(gwb_queue *q);
gwb_queue *gwb_queue_default(gwb_device *dev);  // not retained; NULL with the error set
gwb_queue *gwb_queue_legacy(gwb_device *dev);   // CUDA's legacy default stream on a cuda device; the same

// Blocks until operation `seq` of the queue is done, without gwb_lock. Where waits may be broken off (gwb_waits_break_off) and gwb_interrupt was called:
// GWB_INTERRUPTED, and the work goes on.
int gwb_queue_wait(gwb_queue *q, uint64_t seq);
bool gwb_interrupted(void);                     // gwb_interrupt was called since gwb_waits_break_off
// Whether a wait has to ask again and again, since it may be broken off: 1, 0, or GWB_INTERRUPTED where it was.
int gwb_wait_asks(void);
int gwb_device_wait(gwb_device *d);             // the same for all work of a device

int gwb_event_check(const gwb_event *e);
int gwb_stream_check(const gwb_stream *s, const char *what);    // GWB_OK, or GWB_CLOSED / GWB_BAD_ARGUMENT

#endif
