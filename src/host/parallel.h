// SPDX-License-Identifier: MIT
// Rows of work over the machine's threads.
#ifndef GWB_HOST_PARALLEL_H
#define GWB_HOST_PARALLEL_H

#include <stdint.h>

typedef void gwb_rows_fn(void *context, int64_t first, int64_t end);

// Calls fn for disjoint runs of [0, rows), each of at least `grain` rows, on the calling thread and on idle threads of the pool; returns
// when all are done. May be called from several threads at once. Never fails: without threads the caller does it all.
void gwb_parallel(int64_t rows, int64_t grain, gwb_rows_fn *fn, void *context);

// Threads that take part, the caller included: $GPUWB_THREADS, else the processors this process may use.
int gwb_parallel_threads(void);

#endif
