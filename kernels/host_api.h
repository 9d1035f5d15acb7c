// SPDX-License-Identifier: MIT
// What gpuwb and a kernel that was compiled for the host device (host_cuda.h) call each other by.
#ifndef GWB_HOST_API_H
#define GWB_HOST_API_H

#include <stdint.h>

enum {
    GWB_HOST_SHARED = 227 << 10     // most bytes of dynamic shared memory, what the largest GPU has
};

// Operations that a thread does together with others of its warp. All of them give 32 or 64 bits.
enum {
    GWB_WARP_SYNC,
    GWB_WARP_INDEX, GWB_WARP_UP, GWB_WARP_DOWN, GWB_WARP_XOR,       // shuffles: `value` of lane, lane - n, lane + n, lane ^ n
    GWB_WARP_BALLOT, GWB_WARP_ANY, GWB_WARP_ALL,                    // of value != 0
    GWB_WARP_MATCH_ANY, GWB_WARP_MATCH_ALL,                         // lanes with the same value; all of them, or 0
    GWB_WARP_ADD, GWB_WARP_AND, GWB_WARP_OR, GWB_WARP_EXCLUSIVE_OR,
    GWB_WARP_MIN, GWB_WARP_MAX, GWB_WARP_UNSIGNED_MIN, GWB_WARP_UNSIGNED_MAX
};

typedef struct gwb_idx {
    uint32_t x, y, z;
} gwb_idx;

// The block that a worker runs, its threads as fibres. gpuwb's own part follows.
typedef struct gwb_host_block {
    gwb_idx thread;             // of the fibre that runs
} gwb_host_block;

// What a fibre may call. Each of them may run other fibres of the block before it returns.
typedef struct gwb_host_calls {
    int (*barrier)(gwb_host_block *b, int predicate);           // threads whose predicate was not 0
    uint64_t (*warp)(gwb_host_block *b, int operation, uint32_t mask, uint64_t value, int lane, int width);
    void (*fail)(gwb_host_block *b, const char *text);          // ends the launch with an error; does not return
} gwb_host_calls;

// One launch.
typedef struct gwb_host_run {
    const gwb_host_calls *calls;
    void *const *args;          // where each argument lies
    gwb_idx grid, block;
} gwb_host_run;

// A kernel in the compiled file, exported as gwb_entry_NAME.
typedef struct gwb_host_entry {
    int line;                   // of the function in the source
    const int *sizes;           // bytes of each parameter, behind a first 0
    // One of the two: a kernel without waits runs whole blocks, in order of their number (x fastest); else a fibre runs one thread.
    void (*blocks)(const gwb_host_run *run, int64_t first, int64_t end);
    void (*thread)(const gwb_host_run *run, gwb_host_block *b, gwb_idx block);
} gwb_host_entry;

#endif
