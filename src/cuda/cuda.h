// SPDX-License-Identifier: MIT
// What the files of the cuda device share: a device's own data, and the context rule.
//
// A device works in its primary context, which CUDA's runtime, and so every library in the process, uses too. Each function that calls the driver begins
// with CUDA_SCOPE(device): it makes that context the thread's current one where it is not, and puts the old one back at the end of
// the block, so that a library on the same thread never finds itself on another device.
#ifndef GWB_CUDA_CUDA_H
#define GWB_CUDA_CUDA_H

#include "driver.h"

#include "../../kernels/prelude.h"

#include "../../kernels/args.h"
#include "../../kernels/list.h"

// A launch that was not known to have ended when last looked at.
enum { GWB_CUDA_NOTES = 8 };
typedef struct gwb_cuda_launch_note {
    uintptr_t queue;            // its address alone; 0: ended
    uint64_t seq;
    char name[48];
} gwb_cuda_launch_note;

typedef struct gwb_cuda_device {
    CUcontext context;
    CUmodule module;                            // the built-in kernels
    CUfunction kernels[GWB_KERNEL_COUNT];       // gwb_NAME
    CUfunction tiles[GWB_TILE_COUNT];           // gwb_tile_…
    CUfunction copy_any, spin;                  // entries that are no kernel of the list
    int least_priority, greatest_priority;      // numbers: least >= 0 >= greatest
    int64_t max_step;                           // bytes that the driver's 2D copies take as a step
    int most_shared;                            // bytes of shared memory that a block can have
    uint64_t peers;                             // bit n: this context reaches cuda:n's memory, or cannot and was asked
    pthread_mutex_t lock;                       // over all below
    CUevent *spare;                             // events without timing, for marks
    int spares, spare_room;
    gwb_cuda_launch_note notes[GWB_CUDA_NOTES]; // the latest launches, a ring
    uint64_t noted;                             // launches noted so far
} gwb_cuda_device;

static inline gwb_cuda_device *gwb_cuda_of(const gwb_device *d)
{
    return d->impl;
}

// The open device at a position of the list of devices.
gwb_device *gwb_cuda_opened(int position);

// See above. A context that cannot be made current leaves none, so that the calls that follow fail instead of reaching another device.
CUcontext gwb_cuda_enter(const gwb_device *d);
void gwb_cuda_leave(CUcontext *outer);
#define CUDA_SCOPE(device) __attribute__((cleanup(gwb_cuda_leave), unused)) CUcontext gwb_outer = gwb_cuda_enter(device)

// queue.c: the queue, mark and event functions of the table.
int gwb_cuda_queue_open(gwb_queue *q, const gwb_stream_params *params);
void gwb_cuda_queue_close(gwb_queue *q);
void gwb_cuda_queue_retire(gwb_queue *q);
int gwb_cuda_queue_done(gwb_queue *q, uint64_t seq);
int gwb_cuda_queue_wait(gwb_queue *q, uint64_t seq);
int gwb_cuda_queue_after(gwb_queue *q, gwb_queue *other, uint64_t seq);
int gwb_cuda_event_open(gwb_event *e, gwb_device *d);
void gwb_cuda_event_close(gwb_event *e);
int gwb_cuda_event_record(gwb_event *e, gwb_queue *q);
int gwb_cuda_event_after(gwb_queue *q, const gwb_event *e);
int gwb_cuda_event_query(const gwb_event *e);
int gwb_cuda_event_wait(const gwb_event *e);
int gwb_cuda_event_elapsed(const gwb_event *a, const gwb_event *b, double *ms);
// Marks what the queue holds, so that nobody asks for a mark while it records.
int gwb_cuda_queue_mark(gwb_queue *q);
// Each enqueuing function says so before it enqueues.
void gwb_cuda_queue_begin(gwb_queue *q);
static inline CUstream gwb_cuda_stream(const gwb_queue *q)
{
    return q->handle;
}

// share.c: memory and events that other processes open.
int gwb_cuda_share_create(gwb_device *d, gwb_share *s);
int gwb_cuda_share_open(gwb_device *d, gwb_share *s, bool readonly);
void gwb_cuda_share_close(gwb_device *d, gwb_share *s);
int gwb_cuda_event_share(const gwb_event *e, char text[GWB_SHARE_TEXT]);
int gwb_cuda_event_join(gwb_event *e, gwb_device *d, const char *text);
int gwb_cuda_identify(gwb_device *d, char text[GWB_SHARE_TEXT]);

// copy.c
int gwb_cuda_copy(gwb_queue *q, const gwb_rect *rects, int count);

// graph.c: the recording functions of the table.
int gwb_cuda_record_begin(gwb_queue *q);
int gwb_cuda_record_end(gwb_queue *q, void **recorded);
int gwb_cuda_record_launch(gwb_queue *q, void *recorded);
void gwb_cuda_record_replace(gwb_device *d, void *old, void *recorded);
void gwb_cuda_record_close(gwb_device *d, void *recorded, bool lost);

// module.c
int gwb_cuda_module_open(gwb_device *d);        // in the device's context; GWB_NO_DEVICE where there is no code for the device
int gwb_cuda_launch(gwb_queue *q, const gwb_launch *launch);
// Launches a kernel of gpuwb's own, which begins with GWB_AFTER (kernels/prelude.h): where the device can, its blocks are set up while the kernel
// before it in the stream still ends, and wait there. Under CUDA_SCOPE.
CUresult gwb_cuda_start(gwb_queue *q, CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, void **params);
int gwb_cuda_sleep(gwb_queue *q, double ms);

// kernel.c
int gwb_cuda_kernel_open(gwb_device *d, const gwb_kernel_job *job, void **module);
void gwb_cuda_kernel_close(gwb_device *d, void *module, bool lost);
int gwb_cuda_kernel_launch(gwb_queue *q, const gwb_kernel_run *run);
void gwb_cuda_note(gwb_queue *q, const char *name);         // the operation being enqueued launches this kernel
void gwb_cuda_note_done(gwb_queue *q, uint64_t seq);        // operations 1 .. seq of q are done

#endif
