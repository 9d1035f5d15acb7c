// SPDX-License-Identifier: MIT
// Counted storage: the pool of each device, the bytes in use, and who used a buffer last. Everything here runs under gwb_lock.
#ifndef GWB_BUF_H
#define GWB_BUF_H

#include "device.h"

// An operation that used a buffer: number `seq` of a queue. The record holds a reference to the queue. Empty where queue is NULL.
typedef struct gwb_use {
    gwb_queue *queue;
    uint64_t seq;
} gwb_use;

// Rows of bytes in an allocation: what a copy touches.
typedef struct gwb_footprint {
    int64_t first;      // offset of the first byte
    int64_t step;       // bytes from one row to the next, at least width
    int64_t width;      // bytes of a row
    int64_t rows;
} gwb_footprint;

// Who is told that foreign memory is no longer used: gwb_released_owner gives the key, or gwb_run_deleters calls drop(arg). All zero: nobody.
typedef struct gwb_owner {
    uint64_t key;
    void (*drop)(void *arg);    // of another library, so called without gwb_lock
    void *arg;
} gwb_owner;

// A reference that was given up on a thread which may not take gwb_lock. The first member of a block of malloc.
typedef struct gwb_later {
    struct gwb_later *next;
    gwb_buf *buf;           // may be NULL
    bool lent;              // another library used the memory, on streams that nobody named
} gwb_later;

enum { GWB_BUF_TRACKS = 8, GWB_BUF_VIEWS = 32 };

struct gwb_buf {
    gwb_device *dev;
    uint8_t *base;          // first byte
    int64_t bytes;          // that were asked for
    int64_t room;           // that were allocated
    uint32_t flags;         // GWB_MAT_PINNED, GWB_MAT_FOREIGN
    int refs;
    gwb_owner owner;        // of foreign memory
    gwb_buf *also;          // further owners of it: a chain of buffers without memory
    gwb_device *holder;     // own page-locked memory: the device whose context it came from
    bool lost;              // the device was reset: there is no memory any more
    gwb_use write;          // the last write
    gwb_use *reads;         // reads since then, one a queue
    int read_count, read_room;
    gwb_buf *previous, *next;
    // for the plane-copy rules
    int frame_format;       // a packed frame begins at frame_first; -1: none declared
    int32_t frame_width, frame_height;
    int64_t frame_first;
    gwb_footprint track[GWB_BUF_TRACKS];    // packed raw copies from or to this buffer, newest first
    int tracks;
    gwb_footprint view[GWB_BUF_VIEWS];      // the mats made over this buffer, a ring: what a raw pointer may mean
    int views;                              // made so far
};

// New storage of `bytes` (at least 1), on `dev`; pinned: page-locked host memory. `queue` may use it at once, others once earlier work is done.
// The buffer has one reference, the caller's. GWB_OUT_OF_MEMORY after the pool was emptied; GWB_LIMIT where gwb_limit says so.
int gwb_buf_create(gwb_buf **out, gwb_device *dev, int64_t bytes, bool pinned, gwb_queue *queue);
int gwb_buf_wrap(gwb_buf **out, gwb_device *dev, void *base, int64_t bytes, gwb_owner owner, bool pinned);
// Notes one more owner of memory that `b` shows; it is given back when b's memory is no longer used.
int gwb_buf_add_owner(gwb_buf *b, gwb_owner owner);
void gwb_buf_retain(gwb_buf *b);
void gwb_buf_lent(gwb_buf *b);          // another library has issued its work on the memory, on streams that nobody named: reuse and writes come behind it
void gwb_buf_release(gwb_buf *b);       // the last one gives the memory to the pool, with its uses
// Releases l->buf and frees l, at the next call that makes or counts memory; lent memory is reused behind what CUDA's legacy default stream holds then. From any thread, with or without the lock, also from a driver's
// callback.
void gwb_buf_release_later(gwb_later *l);

// Records that operation `seq` of `q` (its newest) reads or writes the buffer.
int gwb_buf_used(gwb_buf *b, gwb_queue *q, uint64_t seq, bool write);
// Makes `q` run after whatever a read (or write) of b must wait for.
int gwb_buf_order(gwb_buf *b, gwb_queue *q, bool write);
// Waits for the writes of b (for_write: the reads too). Gives the lock up meanwhile, so it must be held exactly once.
int gwb_buf_wait(gwb_buf *b, bool for_write);
bool gwb_buf_idle(gwb_buf *b);          // nothing uses it; forgets uses that are done
// The device is about to be reset: all its memory, cached or in use, and page-locked memory of its context is given back, and who used what on its
// queues is forgotten. Live buffers are lost.
void gwb_buf_lose(gwb_device *dev);

// The live buffer of `device` that holds the byte at `pointer` (device -1: any), or NULL.
gwb_buf *gwb_buf_find(const void *pointer, int device);
// A foreign buffer without a mat that holds these bytes and whose work still runs, with a reference for the caller; or NULL.
gwb_buf *gwb_buf_take_up(const void *pointer, int64_t bytes, int device);
gwb_buf *gwb_buf_first(void);           // the list of live buffers

// Bytes that two footprints of one allocation share.
int64_t gwb_footprint_shared(gwb_footprint a, gwb_footprint b);
int64_t gwb_footprint_end(gwb_footprint f);     // offset behind the last byte; first where nothing is touched

#endif
