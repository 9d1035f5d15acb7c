// SPDX-License-Identifier: MIT
// Graphs: the operations of a stream, recorded once, launched again as one. What they use is held, and ordered by at each launch as one operation's uses are.
#include "stream.h"
#include "trace.h"

#include <stdlib.h>

struct gwb_graph {
    gwb_device *dev;
    gwb_queue *queue;       // that records into it; NULL once it is ended. Held
    unsigned epoch;         // the device's
    struct { gwb_buf *buf; bool write; } *use;      // held
    int uses, room;
    int operations;
    void *recorded;         // the device's own; NULL before the end
    struct gwb_graph *next; // in `recording`
};

static gwb_graph *recording;    // those under way; under gwb_lock

// Under gwb_lock.
static void release_uses(gwb_graph *g)
{
    for (int i = 0; i < g->uses; i++)
        gwb_buf_release(g->use[i].buf);
    free(g->use);
    g->use = NULL;
    g->uses = g->room = 0;
}

int gwb_graph_use(gwb_graph *g, gwb_buf *b, bool write)
{
    for (int i = 0; i < g->uses; i++)
        if (g->use[i].buf == b) {
            g->use[i].write |= write;
            return 0;
        }
    if (g->uses == g->room) {
        const int room = g->room ? 2 * g->room : 16;
        void *grown = realloc(g->use, (size_t)room * sizeof *g->use);
        if (!grown)
            return gwb_fail(GWB_OUT_OF_MEMORY, "out of host memory");
        g->use = grown;
        g->room = room;
    }
    gwb_buf_retain(b);
    g->use[g->uses].buf = b;
    g->use[g->uses++].write = write;
    return 0;
}

bool gwb_graph_recording(void)
{
    return recording != NULL;
}

int gwb_graph_check_result(const gwb_buf *b)
{
    for (const gwb_graph *g = recording; g; g = g->next)
        for (int i = 0; i < g->uses; i++)
            if (g->use[i].buf == b && g->use[i].write)
                return gwb_fail(GWB_UNSUPPORTED, "this waits for what a stream that is recording will write at a launch; do that outside of stream:capture");
    return 0;
}

void gwb_graph_count(gwb_graph *g)
{
    g->operations++;
}

int gwb_graph_begin(gwb_graph **out, const gwb_stream *s)
{
    int rc = gwb_stream_check(s, "stream");
    if (rc < 0)
        return rc;
    gwb_graph *g = calloc(1, sizeof *g);
    if (!g)
        return gwb_fail(GWB_OUT_OF_MEMORY, "out of host memory");
    gwb_lock();
    gwb_queue *q = s->queue;
    g->dev = q->dev;
    g->epoch = q->epoch;
    rc = q->graph ? gwb_fail(GWB_UNSUPPORTED, "the stream is recording already") : gwb_queue_check_recording(q, "this");
    if (rc >= 0) {
        gwb_queue_mark_twins(q);
        rc = q->dev->ops->record_begin(q);
    }
    if (rc >= 0) {
        gwb_queue_retain(q);
        g->queue = q;
        q->graph = g;
        g->next = recording;
        recording = g;
    }
    gwb_unlock();
    if (rc < 0)
        free(g);
    else
        *out = g;
    return rc;
}

// Under gwb_lock.
static int end(gwb_graph *g, bool wanted)
{
    gwb_queue *q = g->queue;
    int rc = 0;
    if (!q)
        return 0;
    g->queue = NULL;
    q->graph = NULL;
    gwb_graph **at = &recording;
    while (*at != g)
        at = &(*at)->next;
    *at = g->next;
    const bool lost = gwb_queue_lost(q);
    rc = q->dev->ops->record_end(q, wanted && !lost ? &g->recorded : NULL);
    if (lost)
        rc = gwb_fail(GWB_CLOSED, "%s was reset while the stream was recording", q->dev->info.name);
    gwb_queue_release(q);
    return rc;
}

int gwb_graph_end(gwb_graph *g)
{
    gwb_lock();
    const int rc = end(g, true);
    gwb_unlock();
    return rc;
}

int gwb_graph_launch(gwb_graph *g, const gwb_stream *s)
{
    if (!g || !g->recorded)
        return gwb_fail(GWB_BAD_ARGUMENT, "there is nothing recorded to launch");
    if (g->epoch != g->dev->epoch)
        return gwb_fail(GWB_CLOSED, "the graph was lost when %s was reset; record it again", g->dev->info.name);
    gwb_op op;
    int rc = gwb_op_begin(&op, g->dev->position, s);
    if (rc < 0)
        return rc;
    gwb_queue *q = op.queue;
    if (q->graph) {
        rc = gwb_fail(GWB_UNSUPPORTED, "the stream is recording; a graph in a graph is not done");
        return gwb_op_end(&op, rc);
    }
    for (int i = 0; i < g->uses && rc >= 0; i++)
        rc = g->use[i].buf->lost ? gwb_fail(GWB_CLOSED, "memory that the graph uses was lost when %s was reset", g->dev->info.name)
                                 : gwb_buf_order(g->use[i].buf, q, g->use[i].write);
    gwb_trace_note(&op, "kernel", "graph", "\"buffers\":%d", g->uses);
    const int ready = gwb_op_ready(&op);
    rc = rc < 0 ? rc : ready;
    if (rc >= 0)
        rc = q->dev->ops->record_launch(q, g->recorded);
    for (int i = 0; i < g->uses && rc >= 0; i++)
        rc = gwb_buf_used(g->use[i].buf, q, q->issued, g->use[i].write);
    return gwb_op_end(&op, rc);
}

void gwb_graph_update(gwb_graph *g, gwb_graph *newer)
{
    gwb_lock();
    if (g->recorded && newer->recorded && g->dev == newer->dev && g->epoch == newer->epoch)
        g->dev->ops->record_replace(g->dev, g->recorded, newer->recorded);
    const gwb_graph was = *g;
    *g = *newer;
    *newer = was;
    gwb_unlock();
}

void gwb_graph_close(gwb_graph *g)
{
    if (!g || gwb_forked)
        return;
    gwb_lock();
    end(g, false);
    if (g->recorded)
        g->dev->ops->record_close(g->dev, g->recorded, g->epoch != g->dev->epoch);
    release_uses(g);
    gwb_unlock();
    free(g);
}

int gwb_graph_size(const gwb_graph *g, int *allocations)
{
    *allocations = g->uses;
    return g->operations;
}
