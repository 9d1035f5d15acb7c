// SPDX-License-Identifier: MIT
// Recording a stream into a graph of CUDA's.
#include "cuda.h"

#include <stdlib.h>

typedef struct record {
    CUgraph graph;
    CUgraphExec exec;       // made at the first launch
} record;

int gwb_cuda_record_begin(gwb_queue *q)
{
    if (!gwb_cuda.StreamBeginCapture || !gwb_cuda.StreamEndCapture || !gwb_cuda.GraphInstantiate || !gwb_cuda.GraphLaunch || !gwb_cuda.GraphExecDestroy ||
        !gwb_cuda.GraphDestroy)
        return gwb_fail(GWB_UNSUPPORTED, "the driver (CUDA %d.%d) does not record streams as gpuwb does; it takes one of CUDA 11.4 or newer",
            gwb_cuda.version / 1000, gwb_cuda.version % 1000 / 10);
    CUDA_SCOPE(q->dev);
    int rc = gwb_cuda_queue_mark(q);
    // relaxed: what else the script does meanwhile, as making a mat, is its own affair
    return rc < 0 ? rc : gwb_cuda_check(gwb_cuda.StreamBeginCapture(gwb_cuda_stream(q), GWB_CUDA_CAPTURE_RELAXED), "recording a stream of %s", q->dev->info.name);
}

int gwb_cuda_record_end(gwb_queue *q, void **recorded)
{
    if (gwb_queue_lost(q))      // with its context
        return 0;
    CUDA_SCOPE(q->dev);
    record *r = calloc(1, sizeof *r);
    CUgraph graph = NULL;
    int rc = gwb_cuda_check(gwb_cuda.StreamEndCapture(gwb_cuda_stream(q), &graph), "recording a stream of %s", q->dev->info.name);
    if (!r && rc >= 0)
        rc = gwb_fail(GWB_OUT_OF_MEMORY, "out of host memory");
    if (rc < 0 || !recorded) {
        if (graph)
            gwb_cuda.GraphDestroy(graph);
        free(r);
        return rc;
    }
    r->graph = graph;
    *recorded = r;
    return 0;
}

int gwb_cuda_record_launch(gwb_queue *q, void *recorded)
{
    record *r = recorded;
    CUDA_SCOPE(q->dev);
    int rc = r->exec ? 0 : gwb_cuda_check(gwb_cuda.GraphInstantiate(&r->exec, r->graph, 0), "preparing a graph on %s", q->dev->info.name);
    if (rc < 0)
        return rc;
    gwb_cuda_queue_begin(q);
    gwb_cuda_note(q, "a graph");
    return gwb_cuda_check(gwb_cuda.GraphLaunch(r->exec, gwb_cuda_stream(q)), "launching a graph on %s", q->dev->info.name);
}

// What was prepared serves the new record too, where only numbers and addresses differ.
void gwb_cuda_record_replace(gwb_device *d, void *old, void *recorded)
{
    record *from = old, *to = recorded;
    gwb_cuda_graph_update result = {0};
    CUDA_SCOPE(d);
    if (from->exec && !to->exec && gwb_cuda.GraphExecUpdate && gwb_cuda.GraphExecUpdate(from->exec, to->graph, &result) == 0) {
        to->exec = from->exec;
        from->exec = NULL;
    }
}

static void destroy(gwb_device *d, const record *r)
{
    CUDA_SCOPE(d);
    if (r->exec)
        gwb_cuda.GraphExecDestroy(r->exec);     // what runs goes on
    gwb_cuda.GraphDestroy(r->graph);
}

void gwb_cuda_record_close(gwb_device *d, void *recorded, bool lost)
{
    if (!lost)
        destroy(d, recorded);
    free(recorded);
}
