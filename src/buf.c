// SPDX-License-Identifier: MIT
// Counted storage: the pool of each device, the bytes in use, and who used a buffer last.
#include "buf.h"

#include "stream.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define POISON(p, n) __asan_poison_memory_region(p, (size_t)(n))
#define UNPOISON(p, n) __asan_unpoison_memory_region(p, (size_t)(n))
#else
#define POISON(p, n) ((void)(p), (void)(n))
#define UNPOISON(p, n) ((void)(p), (void)(n))
#endif

// Blocks whose mats are gone, kept for the next mat of about that size, with the uses that are still under way.
struct gwb_pool {
    gwb_buf *free;      // newest first, linked by next
    int64_t used;       // bytes of live buffers
    int64_t cached;     // bytes in `free`
    int64_t peak;       // most used at once
};

static gwb_buf *live;           // every buffer that a mat holds
static gwb_buf *leaving;        // foreign buffers without a mat, whose work may still run
static gwb_buf *dropping;       // of these, the ones whose work is done and whose owner waits for a call
static _Atomic(gwb_later *) later;      // references given up on other threads
static int64_t created;         // bytes since the last collection
static int64_t after_collect;   // bytes in use then

// ---- uses

static bool use_done(const gwb_use *u)
{
    return !u->queue || u->queue->dev->ops->queue_done(u->queue, u->seq) != 0;
}

static void use_clear(gwb_use *u)
{
    if (u->queue)
        gwb_queue_release(u->queue);
    u->queue = NULL;
}

static void clear_reads(gwb_buf *b)
{
    for (int i = 0; i < b->read_count; i++)
        use_clear(&b->reads[i]);
    b->read_count = 0;
}

bool gwb_buf_idle(gwb_buf *b)
{
    if (use_done(&b->write))
        use_clear(&b->write);
    int kept = 0;
    for (int i = 0; i < b->read_count; i++) {
        if (use_done(&b->reads[i]))
            use_clear(&b->reads[i]);
        else
            b->reads[kept++] = b->reads[i];
    }
    b->read_count = kept;
    return !b->write.queue && kept == 0;
}

static bool only_used_by(const gwb_buf *b, const gwb_queue *q)
{
    if (b->write.queue && b->write.queue != q)
        return false;
    for (int i = 0; i < b->read_count; i++)
        if (b->reads[i].queue != q)
            return false;
    return true;
}

int gwb_buf_used(gwb_buf *b, gwb_queue *q, uint64_t seq, bool write)
{
    if (write) {    // it ran after all earlier uses, so it stands for them
        clear_reads(b);
        use_clear(&b->write);
        gwb_queue_retain(q);
        b->write = (gwb_use){q, seq};
        return 0;
    }
    for (int i = 0; i < b->read_count; i++)
        if (b->reads[i].queue == q) {
            b->reads[i].seq = seq;
            return 0;
        }
    if (b->read_count == b->read_room) {
        int room = b->read_room ? 2 * b->read_room : 2;
        gwb_use *grown = realloc(b->reads, (size_t)room * sizeof *grown);
        if (!grown)
            return gwb_fail(GWB_OUT_OF_MEMORY, "out of host memory");
        b->reads = grown;
        b->read_room = room;
    }
    gwb_queue_retain(q);
    b->reads[b->read_count++] = (gwb_use){q, seq};
    return 0;
}

static int order_after(gwb_use *u, gwb_queue *q)
{
    if (!u->queue || u->queue == q || use_done(u))
        return 0;
    return q->dev->ops->queue_after(q, u->queue, u->seq);
}

int gwb_buf_order(gwb_buf *b, gwb_queue *q, bool write)
{
    int rc = order_after(&b->write, q);
    for (int i = 0; write && rc >= 0 && i < b->read_count; i++)
        rc = order_after(&b->reads[i], q);
    return rc;
}

int gwb_buf_wait(gwb_buf *b, bool for_write)
{
    int count = 0, rc = gwb_graph_check_result(b);
    if (rc < 0)
        return rc;
    gwb_use *uses = malloc((size_t)(1 + b->read_count) * sizeof *uses);
    if (!uses)
        return gwb_fail(GWB_OUT_OF_MEMORY, "out of host memory");
    if (b->write.queue)
        uses[count++] = b->write;
    for (int i = 0; for_write && i < b->read_count; i++)
        uses[count++] = b->reads[i];
    for (int i = 0; i < count; i++)
        gwb_queue_retain(uses[i].queue);
    gwb_buf_retain(b);
    gwb_unlock();
    for (int i = 0; i < count; i++) {   // all of them, also where one has failed
        int one = gwb_queue_wait(uses[i].queue, uses[i].seq);
        rc = rc < 0 ? rc : one;
    }
    gwb_lock();
    for (int i = 0; i < count; i++)
        gwb_queue_release(uses[i].queue);
    gwb_buf_release(b);
    free(uses);
    return rc < 0 ? rc : 0;
}

// ---- the list of live buffers

static void link_buf(gwb_buf **list, gwb_buf *b)
{
    b->previous = NULL;
    b->next = *list;
    if (*list)
        (*list)->previous = b;
    *list = b;
}

static void unlink_buf(gwb_buf **list, gwb_buf *b)
{
    if (b->next)
        b->next->previous = b->previous;
    if (b->previous)
        b->previous->next = b->next;
    else
        *list = b->next;
}

gwb_buf *gwb_buf_first(void)
{
    return live;
}

gwb_buf *gwb_buf_find(const void *pointer, int device)
{
    uintptr_t at = (uintptr_t)pointer;
    for (gwb_buf *b = live; b; b = b->next)
        if ((device < 0 || b->dev->position == device) && at >= (uintptr_t)b->base && at < (uintptr_t)b->base + (uintptr_t)b->bytes)
            return b;
    return NULL;
}

// ---- the pool

static struct gwb_pool *pool_of(gwb_device *dev)
{
    if (!dev->pool)
        dev->pool = calloc(1, sizeof *dev->pool);
    return dev->pool;
}

// Small blocks in powers of two, large ones in steps of 2 MiB on a device (its page) and of 64 KiB on the host, so that sizes recur.
static int64_t room_for(const gwb_device *dev, int64_t bytes)
{
    if (bytes <= 1 << 20) {
        int64_t room = 512;
        while (room < bytes)
            room *= 2;
        return room;
    }
    int64_t unit = dev->info.cuda ? 2 << 20 : 64 << 10;
    return bytes > INT64_MAX - unit ? bytes : (bytes + unit - 1) / unit * unit;
}

static int raw_alloc(gwb_device *dev, int64_t room, bool pinned, void **out, gwb_device **holder)
{
    if (pinned) {
        int rc = gwb_cuda_pinned_alloc(room, out, holder);
        if (rc != GWB_UNSUPPORTED)
            return rc;
    }
    return dev->ops->alloc(dev, room, out);
}

static void give_memory_back(gwb_buf *b)
{
    if (b->flags & GWB_MAT_FOREIGN || b->lost)
        return;
    UNPOISON(b->base, b->room);
    if (b->holder)
        gwb_cuda_pinned_release(b->base, b->holder);
    else
        b->dev->ops->release(b->dev, b->base, b->room);
}

static void destroy(gwb_buf *b)
{
    give_memory_back(b);
    clear_reads(b);
    use_clear(&b->write);
    free(b->reads);
    free(b);
}

void gwb_buf_release_later(gwb_later *l)
{
    l->next = atomic_load(&later);
    while (!atomic_compare_exchange_weak(&later, &l->next, l))
        ;
}

// A library drops its tensor when it has issued the work on it, not when that is done. So the memory waits for CUDA's legacy default
// stream, whose operations run behind those of all streams but the ones made not to block.
void gwb_buf_lent(gwb_buf *b)
{
    gwb_device *dev = b->dev->info.cuda ? b->dev : b->holder;
    gwb_queue *q = dev && !b->lost ? gwb_queue_legacy(dev) : NULL;
    if (!q)
        return;
    q->issued++;    // an operation of its own: asked without one, the stream would not tell of the others
    if (dev->ops->sleep(q, 0) < 0 || gwb_buf_used(b, q, q->issued, false) < 0)
        q->issued--;
}

static void release_later(void)
{
    gwb_later *l = atomic_exchange(&later, NULL);
    while (l) {
        gwb_later *next = l->next;
        if (l->buf && l->lent)
            gwb_buf_lent(l->buf);
        if (l->buf)
            gwb_buf_release(l->buf);
        free(l);
        l = next;
    }
}

// Gives idle cached blocks back to the device; with `wait`, those too whose work still runs.
static int64_t trim(gwb_device *dev, bool wait)
{
    struct gwb_pool *pool = pool_of(dev);
    int64_t given = 0;
    release_later();
    if (!pool)
        return 0;
    for (gwb_buf **at = &pool->free; *at;) {
        gwb_buf *b = *at;
        if (!gwb_buf_idle(b)) {
            if (!wait) {
                at = &b->next;
                continue;
            }
            *at = b->next;      // out of the list while the lock is given up
            b->refs = 2;
            int rc;
            while ((rc = gwb_buf_wait(b, true)) == GWB_INTERRUPTED)     // memory in use is no one's to free
                ;
            if (rc < 0) {       // a broken device: the memory goes with its context
                b->refs = 0;
            }
            at = &pool->free;
        } else {
            *at = b->next;
        }
        pool->cached -= b->room;
        given += b->room;
        destroy(b);
    }
    return given;
}

// The best cached block: the smallest that fits, is not much larger, and is idle or used by nobody but `queue`.
static gwb_buf *take_cached(struct gwb_pool *pool, int64_t room, bool pinned, gwb_queue *queue)
{
    gwb_buf **best = NULL;
    for (gwb_buf **at = &pool->free; *at; at = &(*at)->next) {
        gwb_buf *b = *at;
        if (b->room < room || b->room > room + room / 4 || ((b->flags & GWB_MAT_PINNED) != 0) != pinned)
            continue;
        if (best && (*best)->room <= b->room)
            continue;
        // the processor reaches host memory without a queue, so there only idle blocks will do
        if (gwb_buf_idle(b) || (queue && b->dev->info.cuda && only_used_by(b, queue)))
            best = at;
    }
    if (!best)
        return NULL;
    gwb_buf *b = *best;
    *best = b->next;
    pool->cached -= b->room;
    return b;
}

int gwb_buf_create(gwb_buf **out, gwb_device *dev, int64_t bytes, bool pinned, gwb_queue *queue)
{
    struct gwb_pool *pool = pool_of(dev);
    if (!pool)
        return gwb_fail(GWB_OUT_OF_MEMORY, "out of host memory");
    release_later();
    int64_t room = room_for(dev, bytes);
    gwb_buf *b = take_cached(pool, room, pinned, queue);
    if (!b) {
        if (dev->limit && pool->used + pool->cached + room > dev->limit)
            trim(dev, true);
        if (dev->limit && pool->used + room > dev->limit)
            return gwb_fail(GWB_OUT_OF_MEMORY, "%s: %" PRId64 " bytes more than the %" PRId64 " in use would pass the limit of %" PRId64
                            " that was set; close mats or raise gpu.limit", dev->info.name, room, pool->used, dev->limit);
        b = calloc(1, sizeof *b);
        if (!b)
            return gwb_fail(GWB_OUT_OF_MEMORY, "out of host memory");
        void *base = NULL;
        int rc = raw_alloc(dev, room, pinned, &base, &b->holder);
        if (rc == GWB_OUT_OF_MEMORY && trim(dev, true) > 0)
            rc = raw_alloc(dev, room, pinned, &base, &b->holder);
        if (rc < 0) {
            free(b);
            return rc == GWB_OUT_OF_MEMORY ? gwb_fail(rc, "%s: no room for %" PRId64 " bytes; %" PRId64 " are in use by live mats",
                                                      dev->info.name, bytes, pool->used) : rc;
        }
        b->dev = dev;
        b->base = base;
        b->room = room;
        b->flags = pinned ? GWB_MAT_PINNED : 0;
    }
    b->refs = 1;
    b->bytes = bytes;
    b->frame_format = -1;
    b->tracks = b->views = 0;
    if (!dev->info.cuda) {
        UNPOISON(b->base, bytes);
        POISON(b->base + bytes, b->room - bytes);
    }
    link_buf(&live, b);
    pool->used += b->room;
    if (pool->used > pool->peak)
        pool->peak = pool->used;
    created += b->room;
    *out = b;
    return 0;
}

gwb_buf *gwb_buf_take_up(const void *pointer, int64_t bytes, int device)
{
    const uint8_t *first = pointer;
    for (gwb_buf **at = &leaving; *at; at = &(*at)->next) {
        gwb_buf *b = *at;
        if (b->dev->position != device || !b->base || first < b->base || first + bytes > b->base + b->bytes || b->lost || gwb_buf_idle(b))
            continue;
        *at = b->next;
        b->refs = 1;
        link_buf(&live, b);
        return b;
    }
    return NULL;
}

// Work that still runs on a part of the new buffer's bytes, through a record whose mats are gone. Two writes under way can not both be kept as such: the
// second one then holds up writers alone.
static int inherit_uses(gwb_buf *b)
{
    int rc = 0;
    for (gwb_buf *old = leaving; old && rc >= 0; old = old->next) {
        if (old->dev != b->dev || !old->base || old->base >= b->base + b->bytes || b->base >= old->base + old->bytes || gwb_buf_idle(old))
            continue;
        if (old->write.queue)
            rc = gwb_buf_used(b, old->write.queue, old->write.seq, !b->write.queue && b->read_count == 0);
        for (int i = 0; i < old->read_count && rc >= 0; i++)
            rc = gwb_buf_used(b, old->reads[i].queue, old->reads[i].seq, false);
    }
    return rc;
}

int gwb_buf_wrap(gwb_buf **out, gwb_device *dev, void *base, int64_t bytes, gwb_owner owner, bool pinned)
{
    gwb_buf *b = calloc(1, sizeof *b);
    if (!b)
        return gwb_fail(GWB_OUT_OF_MEMORY, "out of host memory");
    b->dev = dev;
    b->base = base;
    b->bytes = b->room = bytes;
    b->flags = GWB_MAT_FOREIGN | (pinned ? GWB_MAT_PINNED : 0);
    b->refs = 1;
    b->owner = owner;
    b->frame_format = -1;
    if (base && inherit_uses(b) < 0) {
        destroy(b);
        return GWB_OUT_OF_MEMORY;
    }
    link_buf(&live, b);
    created += owner.key || owner.drop ? bytes : 0;     // what a collection may let go of
    *out = b;
    return 0;
}

int gwb_buf_add_owner(gwb_buf *b, gwb_owner owner)
{
    gwb_buf *anchor = calloc(1, sizeof *anchor);
    if (!anchor)
        return gwb_fail(GWB_OUT_OF_MEMORY, "out of host memory");
    anchor->dev = b->dev;
    anchor->flags = GWB_MAT_FOREIGN;
    anchor->owner = owner;
    gwb_buf **list = b->flags & GWB_MAT_FOREIGN ? &b->also : &leaving;  // our own memory needs no one else to live
    anchor->next = *list;
    *list = anchor;
    return 0;
}

void gwb_buf_retain(gwb_buf *b)
{
    b->refs++;
}

void gwb_buf_release(gwb_buf *b)
{
    if (gwb_forked || --b->refs > 0)
        return;
    if (b->flags & GWB_MAT_FOREIGN) {
        unlink_buf(&live, b);
        b->next = leaving;
        leaving = b;
        return;
    }
    unlink_buf(&live, b);
    if (b->lost) {
        destroy(b);
        return;
    }
    struct gwb_pool *pool = b->dev->pool;
    pool->used -= b->room;
    pool->cached += b->room;
    gwb_buf_idle(b);
    b->next = pool->free;
    pool->free = b;
    if (!b->dev->info.cuda)
        POISON(b->base, gwb_buf_idle(b) ? b->room : 0);
}

enum { OWNER_BITS = 32 };      // of a key that tell the owners of one script state apart

// Takes a foreign buffer whose work is done off the list; its further owners come next.
static gwb_buf *take_leaving(gwb_buf **at)
{
    gwb_buf *b = *at;
    *at = b->next;
    if (b->also) {
        gwb_buf **end = &b->also;
        while (*end)
            end = &(*end)->next;
        *end = *at;
        *at = b->also;
        b->also = NULL;
    }
    return b;
}

uint64_t gwb_owner_keys(void)
{
    static _Atomic uint64_t next;
    return (atomic_fetch_add(&next, 1) + 1) << OWNER_BITS;
}

uint64_t gwb_released_owner(uint64_t first)
{
    uint64_t owner = 0;
    gwb_lock();
    release_later();
    for (gwb_buf **at = &leaving; *at && !owner;) {
        const gwb_owner *o = &(*at)->owner;
        if ((o->key && o->key >> OWNER_BITS != first >> OWNER_BITS) || !gwb_buf_idle(*at)) {
            at = &(*at)->next;
            continue;
        }
        gwb_buf *b = take_leaving(at);
        if (b->owner.drop) {
            b->next = dropping;
            dropping = b;
            continue;
        }
        owner = b->owner.key;
        destroy(b);
    }
    gwb_unlock();
    return owner;
}

int gwb_deleters_due(void)
{
    gwb_lock();
    const int due = dropping != NULL;
    gwb_unlock();
    return due;
}

void gwb_run_deleters(void)
{
    gwb_lock();
    gwb_buf *list = dropping;
    dropping = NULL;
    gwb_unlock();
    while (list) {
        gwb_buf *b = list;
        list = b->next;
        b->owner.drop(b->owner.arg);
        gwb_lock();
        destroy(b);
        gwb_unlock();
    }
}

// ---- a device that is reset

static void forget_uses(gwb_buf *b, const gwb_device *dev)
{
    if (b->write.queue && b->write.queue->dev == dev)
        use_clear(&b->write);
    int kept = 0;
    for (int i = 0; i < b->read_count; i++) {
        if (b->reads[i].queue->dev == dev)
            use_clear(&b->reads[i]);
        else
            b->reads[kept++] = b->reads[i];
    }
    b->read_count = kept;
}

static bool goes_with(const gwb_buf *b, const gwb_device *dev)
{
    const bool pinned = b->flags & GWB_MAT_PINNED && dev->info.cuda && (b->holder == dev || b->flags & GWB_MAT_FOREIGN);
    return b->dev == dev || pinned;
}

static void lose_cached(struct gwb_pool *pool, const gwb_device *dev)
{
    for (gwb_buf **at = &pool->free; *at;) {
        gwb_buf *b = *at;
        forget_uses(b, dev);
        if (!goes_with(b, dev)) {
            at = &b->next;
            continue;
        }
        *at = b->next;
        pool->cached -= b->room;
        destroy(b);
    }
}

void gwb_buf_lose(gwb_device *dev)
{
    for (gwb_buf *b = leaving; b; b = b->next)
        forget_uses(b, dev);
    for (gwb_buf *b = live; b; b = b->next) {
        forget_uses(b, dev);
        if (b->lost || !goes_with(b, dev))
            continue;
        give_memory_back(b);
        if (!(b->flags & GWB_MAT_FOREIGN))
            b->dev->pool->used -= b->room;
        b->lost = true;
        b->base = NULL;     // no pointer is found in it
        b->bytes = 0;
    }
    for (int i = 0; i < gwb_device_count(); i++)
        if (gwb_device_peek(i)->pool)
            lose_cached(gwb_device_peek(i)->pool, dev);
}

// ---- figures

int gwb_memory_get(int device, gwb_memory *memory)
{
    gwb_device *dev = gwb_device_at(device);
    if (!dev)
        return GWB_NO_DEVICE;
    gwb_lock();
    release_later();
    struct gwb_pool *pool = pool_of(dev);
    *memory = (gwb_memory){.limit = dev->limit};
    if (pool)
        memory->used = pool->used, memory->cached = pool->cached, memory->peak = pool->peak;
    int rc = dev->ops->memory(dev, &memory->free, &memory->total);
    gwb_unlock();
    return rc;
}

int64_t gwb_trim(int device)
{
    gwb_device *dev = gwb_device_at(device);
    if (!dev)
        return GWB_NO_DEVICE;
    gwb_lock();
    int64_t given = trim(dev, true);
    gwb_unlock();
    return given;
}

int gwb_limit(int device, int64_t bytes)
{
    gwb_device *dev = gwb_device_at(device);
    if (!dev)
        return GWB_NO_DEVICE;
    if (bytes < 0)
        return gwb_fail(GWB_BAD_ARGUMENT, "a limit of %" PRId64 " bytes; wanted 0 (none) or more", bytes);
    gwb_lock();
    dev->limit = bytes;
    gwb_unlock();
    return 0;
}

// A collection pays once as much came up as half of what lived after the last one, and at least this much.
static const int64_t collect_least = 64 << 20;

int gwb_collect_due(void)
{
    gwb_lock();
    int due = created >= collect_least && created >= after_collect / 2;
    gwb_unlock();
    return due;
}

void gwb_collected(void)
{
    gwb_lock();
    release_later();
    created = 0;
    after_collect = 0;
    for (const gwb_buf *b = live; b; b = b->next)
        after_collect += b->flags & GWB_MAT_FOREIGN ? 0 : b->room;
    gwb_unlock();
}
