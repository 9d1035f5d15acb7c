// SPDX-License-Identifier: MIT
// A device: its table of functions, its queues, its memory pool. src/host and src/cuda fill the table; everything above calls through it.
#ifndef GWB_DEVICE_H
#define GWB_DEVICE_H

#include "error.h"

#include <pthread.h>
#include <stdbool.h>

typedef struct gwb_device gwb_device;

// One rectangle of bytes to copy. Memory spaces are positions in the list of devices; GWB_SPACE_PAGEABLE and GWB_SPACE_PINNED are host memory.
enum { GWB_SPACE_PINNED = -1, GWB_SPACE_PAGEABLE = -2 };
typedef struct gwb_rect {
    uint8_t *dst;
    const uint8_t *src;
    int64_t dst_step, src_step; // bytes
    int64_t width;              // bytes of a row, at least 1
    int64_t rows;               // at least 1
    int dst_space, src_space;
} gwb_rect;

// A built-in kernel over nx * ny * nz work items; what an item is, is the kernel's matter (kernels/list.h).
typedef struct gwb_launch {
    int kernel;                 // GWB_KERNEL_name
    const void *args;           // copied before the call returns
    int32_t args_size;          // bytes
    int32_t nx, ny, nz;         // at least 1 each
} gwb_launch;

// A source of kernels that a caller brings (signature.h), to compile; and a launch of one of its functions.
typedef struct gwb_kernel_job {
    struct gwb_source *source;  // gets what only compiled code tells: which functions are present, the sizes of structs
    const char *const *options; // NVRTC's
    int option_count;
    gwb_bytes *log;             // gets the compiler's text; NULL: not wanted
} gwb_kernel_job;
typedef struct gwb_kernel_run {
    void *module;               // what kernel_open made
    int function;               // position in the source's list
    const struct gwb_signature *signature;
    void *const *args;          // one a parameter; copied before the call returns
    uint32_t grid[3], block[3]; // at least 1 each, within CUDA's limits
    uint32_t shared;            // bytes of dynamic shared memory
} gwb_kernel_run;

// Memory that other processes can open, here or from another process, by a text without blanks or colons.
enum { GWB_SHARE_TEXT = 160 };
typedef struct gwb_share {
    void *memory;
    int64_t bytes;
    int fd;                     // host: the file behind it
    bool opened;                // another process made it
    char text[GWB_SHARE_TEXT];
} gwb_share;

// The heart of a stream. Counted: streams and the use records of buffers hold references. Sequence numbers count its operations from 1.
struct gwb_queue {
    gwb_device *dev;
    int refs;               // under gwb_lock
    gwb_queue *next;        // in the list of all queues; under gwb_lock
    bool foreign;           // the handle is not ours to destroy
    bool dead;              // foreign and closed: nothing may be issued on the handle any more; its marks still stand
    void *handle;           // CUstream; the host device's worker
    unsigned epoch;         // the device's when it was opened
    uint64_t issued;        // operations issued; under gwb_lock
    unsigned number;        // on its device, from 1: what traces call it
    gwb_graph *graph;       // what operations are recorded into, instead of being done and numbered; NULL: none. Under gwb_lock
    void *impl;             // the device's own
};

// The queue's device was reset: its handle and everything that it held are gone.
#define gwb_queue_lost(q) ((q)->epoch != (q)->dev->epoch)

// What a device does. "Enqueues" means: the operation joins the queue and the call returns; the caller has raised q->issued to the operation's
// sequence number before the call. Every function returns 0 or a negative status with its text set, unless it says otherwise.
typedef struct gwb_device_ops {
    int (*open)(gwb_device *d);                                     // before first use of all below; once
    int (*memory)(gwb_device *d, int64_t *free, int64_t *total);    // bytes
    int (*alloc)(gwb_device *d, int64_t bytes, void **out);         // at least 256-byte aligned (host: 64); GWB_OUT_OF_MEMORY when full
    void (*release)(gwb_device *d, void *memory, int64_t bytes);    // nothing uses it any more
    int (*synchronize)(gwb_device *d);                              // waits for all work, foreign too

    int (*queue_open)(gwb_queue *q, const gwb_stream_params *params);   // sets handle, impl; params->foreign takes the handle as it is
    void (*queue_close)(gwb_queue *q);                              // last reference gone: all its operations are done or will end by themselves
    void (*queue_retire)(gwb_queue *q);                             // a foreign handle is about to go: mark what it holds now, so that waits still work
    int (*queue_done)(gwb_queue *q, uint64_t seq);                  // 1 operation `seq` is done, 0 not; polls, never blocks
    int (*queue_wait)(gwb_queue *q, uint64_t seq);                  // blocks until `seq` is done; from any thread, without gwb_lock
    int (*queue_after)(gwb_queue *q, gwb_queue *other, uint64_t seq);   // later operations of q run after `seq` of other, whichever device has that

    int (*event_open)(gwb_event *e, gwb_device *d);                 // sets handle
    void (*event_close)(gwb_event *e);                              // also of a lost event: what this process has of it
    int (*event_record)(gwb_event *e, gwb_queue *q);                // enqueues
    int (*event_after)(gwb_queue *q, const gwb_event *e);           // later operations of q (of this device) run after e (of this device)
    int (*event_query)(const gwb_event *e);                         // 1 reached, 0 not
    int (*event_wait)(const gwb_event *e);                          // blocks; from any thread, without gwb_lock
    int (*event_elapsed)(const gwb_event *a, const gwb_event *b, double *ms);

    int (*copy)(gwb_queue *q, const gwb_rect *rects, int count);    // enqueues; host: both spaces host memory; cuda: no space is PAGEABLE
    int (*launch)(gwb_queue *q, const gwb_launch *launch);          // enqueues
    int (*sleep)(gwb_queue *q, double ms);                          // enqueues
    // Host only: enqueues a call on a thread of the queue's own; fn calls nothing of gpuwb. drop(arg), where there is a drop, follows when `arg` is no longer
    // needed, also after a failure: a recorded call is made many times.
    int (*call)(gwb_queue *q, void (*fn)(void *), void *arg, void (*drop)(void *));
    // Between record_begin and record_end what is enqueued is recorded. record_end gives what was; NULL where it is not wanted, as of a lost queue.
    int (*record_begin)(gwb_queue *q);
    int (*record_end)(gwb_queue *q, void **recorded);
    int (*record_launch)(gwb_queue *q, void *recorded);             // enqueues; the same record may be under way already
    void (*record_replace)(gwb_device *d, void *old, void *recorded);   // `recorded` takes over what serves it of `old`, which it is launched in place of
    void (*record_close)(gwb_device *d, void *recorded, bool lost); // what is under way goes on; lost: the device was reset since it was recorded

    int (*share_create)(gwb_device *d, gwb_share *s);               // new memory of at least s->bytes; fills the rest
    int (*share_open)(gwb_device *d, gwb_share *s, bool readonly);  // the memory of s->text, which must hold s->bytes
    void (*share_close)(gwb_device *d, gwb_share *s);               // nothing here uses it any more
    int (*event_share)(const gwb_event *e, char text[GWB_SHARE_TEXT]);      // of an event that was opened with e->shared
    int (*event_join)(gwb_event *e, gwb_device *d, const char *text);       // sets handle: an event that another process made
    int (*identify)(gwb_device *d, char text[GWB_SHARE_TEXT]);      // a name that means the same device in each process of this machine

    int (*kernel_open)(gwb_device *d, const gwb_kernel_job *job, void **module);    // compiles or takes from the cache, without gwb_lock; waits
    void (*kernel_close)(gwb_device *d, void *module, bool lost);   // nothing runs in it any more; lost: the device was reset since it was opened
    int (*kernel_launch)(gwb_queue *q, const gwb_kernel_run *run);  // enqueues

    void *(*enter)(gwb_device *d);              // makes the device the one that other libraries on this thread work on; gives what `leave` puts back
    void (*leave)(gwb_device *d, void *outer);

    void (*reset)(gwb_device *d);   // gives up all that `open` made: memory, queues, events and modules of the device are gone; d->impl is NULL then
} gwb_device_ops;

struct gwb_device {
    const gwb_device_ops *ops;
    gwb_device_info info;
    int position;               // in the list of devices
    bool is_open;
    unsigned epoch;             // counts resets: what carries an older number is lost
    gwb_queue *default_queue;   // opened on first use
    unsigned queues;            // opened so far
    gwb_queue *legacy_queue;    // cuda: of CUDA's legacy default stream; opened on first use
    int64_t limit;              // bytes; 0: none
    struct gwb_pool *pool;      // buf.c's
    void *impl;                 // the device's own
};

// One lock over everything that issues work or changes ownership: short sections, never held while waiting for a device. Recursive.
void gwb_lock(void);
void gwb_unlock(void);

gwb_device *gwb_device_at(int position);        // NULL with the error set where there is none; opens it
bool gwb_devices_found(void);                   // the devices were looked for, so there may be work
// This process was forked from one that had looked for devices, and their threads, contexts and locks stayed there: calls are refused, and what is
// closed is left as it is.
extern bool gwb_forked;
int gwb_check_fork(void);                       // 0, or GWB_NO_DEVICE in such a process
void gwb_call_before_reset(void (*fn)(void));   // gwb_reset calls it first: it ends threads that use mats by themselves. Said again it is one
void gwb_device_settle(int position);           // waits for the work of a device that was opened; says nothing of errors
gwb_device *gwb_device_peek(int position);      // one of the list, which stays closed where it is
gwb_device *gwb_device_default(void);           // the current one, open; NULL with the error set

// src/host/host.c
extern const gwb_device_ops gwb_host_ops;
void gwb_host_describe(gwb_device_info *info);  // fills name, model, units, memory

// src/cuda/device.c. The driver is loaded here, once; absent stays NULL where that worked and there is a device.
int gwb_cuda_count(const char **absent);        // devices; 0 and a sentence that says why there are none
int gwb_cuda_describe(int ordinal, gwb_device_info *info);
extern const gwb_device_ops gwb_cuda_ops;       // gwb_device.info.index is the driver's ordinal
// Page-locked memory that every cuda device can reach. Fails with GWB_UNSUPPORTED where there is no cuda device.
// It belongs to the context of *holder.
int gwb_cuda_pinned_alloc(int64_t bytes, void **out, gwb_device **holder);
void gwb_cuda_pinned_release(void *memory, gwb_device *holder);
void *gwb_cuda_context(gwb_device *d);          // CUcontext that the open device works in
// 1 where the pointer is managed memory, which moves between the host and the devices.
int gwb_cuda_managed(const void *pointer);
// Whose memory a pointer is: sets a position in the list of devices, GWB_SPACE_PINNED or GWB_SPACE_PAGEABLE, and 1 where the allocation's range is known.
int gwb_cuda_pointer(const void *pointer, int *space, const uint8_t **first, int64_t *bytes);

#endif
