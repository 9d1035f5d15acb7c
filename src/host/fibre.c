// SPDX-License-Identifier: MIT
// Threads of a block as fibres: each has a stack of its own and runs until it waits for others; a scheduler on the worker's own stack goes round.
//
// Threads that have returned are not waited for, as on GPUs since 2017. When every thread that is left waits and nobody can go on, the launch fails.
#include "fibre.h"

#include "../device.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { STACK = 128 << 10, WARP = 32 };

// What runs on a fibre's stack is left alone by the sanitizers, which know one stack a thread.
#define ON_FIBRE __attribute__((noinline, no_sanitize("address"), no_sanitize("thread"), no_sanitize("undefined")))

// ---- switching

#if defined(__x86_64__) && !defined(GWB_FIBRE_UCONTEXT)

typedef void *context;      // the stack pointer; what the callee must preserve lies there

// switch_context(from, to): keeps the caller in *from, goes on in `to`.
void gwb_fibre_switch(context *from, context to);
__asm__(".text\n"
        ".globl gwb_fibre_switch\n"
        ".hidden gwb_fibre_switch\n"
        ".type gwb_fibre_switch, @function\n"
        "gwb_fibre_switch:\n"
        "    pushq %rbp\n    pushq %rbx\n    pushq %r12\n    pushq %r13\n    pushq %r14\n    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n    popq %r14\n    popq %r13\n    popq %r12\n    popq %rbx\n    popq %rbp\n"
        "    ret\n"
        ".size gwb_fibre_switch, .-gwb_fibre_switch\n");

ON_FIBRE static void switch_context(context *from, context *to)
{
    gwb_fibre_switch(from, *to);
}

// A context that calls fn on a stack; fn never returns.
static void make_context(context *c, char *stack, size_t size, void (*fn)(void))
{
    void **top = (void **)(stack + size);
    *--top = NULL;          // where fn would return to: the stack is aligned as at a call
    *--top = (void *)(intptr_t)fn;
    for (int i = 0; i < 6; i++)
        *--top = NULL;
    *c = top;
}

#else

#include <ucontext.h>

typedef ucontext_t context;

ON_FIBRE static void switch_context(context *from, context *to)
{
    swapcontext(from, to);
}

static void make_context(context *c, char *stack, size_t size, void (*fn)(void))
{
    getcontext(c);
    c->uc_stack.ss_sp = stack;
    c->uc_stack.ss_size = size;
    c->uc_link = NULL;
    makecontext(c, fn, 0);
}

#endif

// ---- a block

typedef enum state { READY, AT_BARRIER, AT_WARP, ENDED } state;

typedef struct fibre {
    context context;
    gwb_idx thread;
    state state;
    int predicate;              // at a barrier
    // at a warp operation
    int operation, lane, width;
    uint32_t mask;
    uint64_t value, result;
} fibre;

// A worker's block; one a processor thread, kept until that ends.
typedef struct block {
    gwb_host_block shown;       // what kernels see; first
    const gwb_host_entry *entry;
    const gwb_host_run *run;
    gwb_fibre_fault *fault;
    gwb_idx index;
    context scheduler;
    fibre *fibres;
    int count, current, live;
    int votes;                  // predicates that were not 0 at the last barrier
    bool failed;
    char *stacks;
    int stack_count;
} block;

static _Thread_local block *own;
static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void destroy(void *arg)
{
    block *b = arg;
    if (b->stacks)
        munmap(b->stacks, (size_t)b->stack_count * STACK);
    free(b->fibres);
    free(b);
}

static void make_key(void)
{
    pthread_key_create(&key, destroy);
}

// The worker's block with room for `count` fibres; NULL where there is no memory for it.
static block *own_block(int count)
{
    pthread_once(&once, make_key);
    if (!own) {
        own = calloc(1, sizeof *own);
        if (own)
            pthread_setspecific(key, own);
    }
    if (!own || own->stack_count >= count)
        return own;
    fibre *fibres = realloc(own->fibres, (size_t)count * sizeof *fibres);
    if (!fibres)
        return NULL;
    own->fibres = fibres;
    if (own->stacks)
        munmap(own->stacks, (size_t)own->stack_count * STACK);
    own->stack_count = 0;
    own->stacks = mmap(NULL, (size_t)count * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (own->stacks == MAP_FAILED) {
        own->stacks = NULL;
        return NULL;
    }
    own->stack_count = count;
    // a page below each stack that faults, so that an overflow is not another thread's data; the number of such pages is limited by the system
    for (int i = 0; i < count; i++)
        mprotect(own->stacks + (size_t)i * STACK, (size_t)sysconf(_SC_PAGESIZE), PROT_NONE);
    return own;
}

ON_FIBRE static void fail(block *b, const char *format, ...)
{
    int none = 0;
    b->failed = true;
    if (!atomic_compare_exchange_strong(&b->fault->state, &none, 1))
        return;
    va_list args;
    va_start(args, format);
    const int n = snprintf(b->fault->text, sizeof b->fault->text, "block (%u, %u, %u): ", b->index.x, b->index.y, b->index.z);
    vsnprintf(b->fault->text + n, sizeof b->fault->text - (size_t)n, format, args);
    va_end(args);
    b->fault->state = 2;
}

// Lets the others run; returns when this fibre is ready again, or never where the launch failed.
ON_FIBRE static void give_way(block *b)
{
    switch_context(&b->fibres[b->current].context, &b->scheduler);
}

ON_FIBRE static void fibre_main(void)
{
    block *b = own;
    b->entry->thread(b->run, &b->shown, b->index);
    b->fibres[b->current].state = ENDED;
    b->live--;
    give_way(b);
}

// ---- barriers and warps

ON_FIBRE static int barrier(gwb_host_block *shown, int predicate)
{
    block *b = (block *)shown;
    fibre *f = &b->fibres[b->current];
    f->state = AT_BARRIER;
    f->predicate = predicate;
    give_way(b);
    return b->votes;
}

static bool release_barrier(block *b)
{
    int waiting = 0, votes = 0;
    for (int i = 0; i < b->count; i++) {
        waiting += b->fibres[i].state == AT_BARRIER;
        votes += b->fibres[i].state == AT_BARRIER && b->fibres[i].predicate;
    }
    if (waiting == 0 || waiting != b->live)
        return false;
    b->votes = votes;
    for (int i = 0; i < b->count; i++)
        if (b->fibres[i].state == AT_BARRIER)
            b->fibres[i].state = READY;
    return true;
}

// The lane that a shuffle reads from; `lane` itself where that lies outside its part of the warp.
static int source_lane(const fibre *f, int lane)
{
    const int first = lane & ~(f->width - 1), last = first + f->width - 1;
    switch (f->operation) {
    case GWB_WARP_INDEX: return first + (f->lane & (f->width - 1));
    case GWB_WARP_UP: return f->lane >= 0 && f->lane <= lane - first ? lane - f->lane : lane;
    case GWB_WARP_DOWN: return f->lane >= 0 && f->lane <= last - lane ? lane + f->lane : lane;
    default: return ((lane ^ f->lane) & 31) <= last ? (lane ^ f->lane) & 31 : lane;     // as the hardware does, an earlier part may be read
    }
}

static uint64_t combine(int operation, uint64_t a, uint64_t v)
{
    switch (operation) {
    case GWB_WARP_ADD: return (uint32_t)(a + v);
    case GWB_WARP_AND: return a & v;
    case GWB_WARP_OR: return a | v;
    case GWB_WARP_EXCLUSIVE_OR: return a ^ v;
    case GWB_WARP_MIN: return (int32_t)a < (int32_t)v ? a : v;
    case GWB_WARP_MAX: return (int32_t)a > (int32_t)v ? a : v;
    case GWB_WARP_UNSIGNED_MIN: return (uint32_t)a < (uint32_t)v ? a : v;
    default: return (uint32_t)a > (uint32_t)v ? a : v;
    }
}

// The results of an operation for the lanes in `active` of the warp that begins at `warp`.
static void warp_results(fibre *warp, uint32_t active)
{
    const fibre *first = &warp[__builtin_ctz(active)];
    uint64_t ballot = 0, sum = first->value;
    bool same = true;
    for (int lane = 0; lane < WARP; lane++)
        if (active >> lane & 1) {
            ballot |= (uint64_t)(warp[lane].value != 0) << lane;
            same = same && warp[lane].value == first->value;
            if (&warp[lane] != first)
                sum = combine(first->operation, sum, warp[lane].value);
        }
    for (int lane = 0; lane < WARP; lane++) {
        if (!(active >> lane & 1))
            continue;
        fibre *f = &warp[lane];
        f->state = READY;
        switch (f->operation) {
        case GWB_WARP_SYNC: break;
        case GWB_WARP_INDEX: case GWB_WARP_UP: case GWB_WARP_DOWN: case GWB_WARP_XOR: {
            const int from = source_lane(f, lane);
            f->result = warp[active >> from & 1 ? from : lane].value;
            break;
        }
        case GWB_WARP_BALLOT: f->result = ballot; break;
        case GWB_WARP_ANY: f->result = ballot != 0; break;
        case GWB_WARP_ALL: f->result = ballot == active; break;
        case GWB_WARP_MATCH_ALL: f->result = same ? active : 0; break;
        case GWB_WARP_MATCH_ANY:
            f->result = 0;
            for (int other = 0; other < WARP; other++)
                f->result |= (uint64_t)(active >> other & 1 && warp[other].value == f->value) << other;
            break;
        default: f->result = sum; break;
        }
    }
}

// Lanes of the warp that fibre i belongs to which have not ended.
static uint32_t living(const block *b, int i)
{
    uint32_t lanes = 0;
    for (int lane = 0, first = i & ~(WARP - 1); lane < WARP && first + lane < b->count; lane++)
        lanes |= (uint32_t)(b->fibres[first + lane].state != ENDED) << lane;
    return lanes;
}

// Does the operation that fibre i waits for, where all lanes of its mask that live are there.
static bool release_warp(block *b, int i)
{
    fibre *f = &b->fibres[i], *warp = &b->fibres[i & ~(WARP - 1)];
    const uint32_t active = f->mask & living(b, i);
    for (int lane = 0; lane < WARP; lane++) {
        if (!(active >> lane & 1))
            continue;
        if (warp[lane].state != AT_WARP || warp[lane].mask != f->mask)
            return false;
        if (warp[lane].operation != f->operation) {
            fail(b, "threads of one warp meet at different operations with the same mask 0x%08x", f->mask);
            return false;
        }
    }
    warp_results(warp, active);
    return true;
}

ON_FIBRE static uint64_t warp(gwb_host_block *shown, int operation, uint32_t mask, uint64_t value, int lane, int width)
{
    block *b = (block *)shown;
    fibre *f = &b->fibres[b->current];
    const int own_lane = b->current & (WARP - 1);
    if (width < 1 || width > WARP || (width & (width - 1)))
        fail(b, "thread (%u, %u, %u): a shuffle's width is %d; wanted a power of two up to 32", f->thread.x, f->thread.y, f->thread.z, width);
    else if (!(mask >> own_lane & 1))
        fail(b, "thread (%u, %u, %u), lane %d, is not in the mask 0x%08x that it gives", f->thread.x, f->thread.y, f->thread.z, own_lane, mask);
    if (b->failed)
        give_way(b);
    f->state = AT_WARP;
    f->operation = operation;
    f->mask = mask;
    f->value = value;
    f->lane = lane;
    f->width = width;
    if (!release_warp(b, b->current))
        give_way(b);
    return f->result;
}

ON_FIBRE static void fail_thread(gwb_host_block *shown, const char *text)
{
    block *b = (block *)shown;
    const gwb_idx t = b->fibres[b->current].thread;
    fail(b, "thread (%u, %u, %u): %s", t.x, t.y, t.z, text);
    give_way(b);
}

static const gwb_host_calls calls = {.barrier = barrier, .warp = warp, .fail = fail_thread};

// ---- the scheduler

static void explain_deadlock(block *b)
{
    int barriers = 0, warps = 0;
    const fibre *at = NULL;
    for (int i = 0; i < b->count; i++) {
        barriers += b->fibres[i].state == AT_BARRIER;
        warps += b->fibres[i].state == AT_WARP;
        at = !at && b->fibres[i].state == AT_WARP ? &b->fibres[i] : at;
    }
    const gwb_idx t = at ? at->thread : (gwb_idx){0};
    fail(b, "a deadlock: of %d threads %d have returned, %d wait in __syncthreads(), and %d wait for others of their warp, thread (%u, %u, %u) "
            "with the mask 0x%08x; nobody can go on", b->count, b->count - b->live, barriers, warps, t.x, t.y, t.z, at ? at->mask : 0);
}

static void run_block(block *b)
{
    const gwb_idx size = b->run->block;
    b->live = b->count = (int)(size.x * size.y * size.z);
    for (int i = 0; i < b->count; i++) {
        fibre *f = &b->fibres[i];
        f->state = READY;
        f->thread = (gwb_idx){(uint32_t)i % size.x, (uint32_t)i / size.x % size.y, (uint32_t)i / size.x / size.y};
        // tops that all lie alike in their pages would share a few lines of the first-level cache
        make_context(&f->context, b->stacks + (size_t)i * STACK, STACK - (size_t)(i % 16) * 256, fibre_main);
    }
    while (b->live > 0 && !b->failed) {
        bool moved = false;
        for (int i = 0; i < b->count && !b->failed; i++)
            if (b->fibres[i].state == READY) {
                moved = true;
                b->current = i;
                b->shown.thread = b->fibres[i].thread;
                switch_context(&b->scheduler, &b->fibres[i].context);
            }
        if (moved || b->failed || b->live == 0 || release_barrier(b))
            continue;
        // a thread that ended may have been the last that a warp waited for
        for (int i = 0; i < b->count; i++)
            moved |= b->fibres[i].state == AT_WARP && !b->failed && release_warp(b, i);
        if (!moved && !b->failed)
            explain_deadlock(b);
    }
}

void gwb_fibre_blocks(const gwb_host_entry *entry, const gwb_host_run *run, gwb_fibre_fault *fault, int64_t first, int64_t end)
{
    const gwb_idx size = run->block, grid = run->grid;
    block *b = own_block((int)(size.x * size.y * size.z));
    gwb_host_run with_calls = *run;
    with_calls.calls = &calls;
    if (!b) {
        block none = {.fault = fault};
        fail(&none, "no memory for the stacks of its threads");
        return;
    }
    b->entry = entry;
    b->run = &with_calls;
    b->fault = fault;
    b->failed = false;
    for (int64_t n = first; n < end && fault->state == 0; n++) {
        b->index = (gwb_idx){(uint32_t)(n % grid.x), (uint32_t)(n / grid.x % grid.y), (uint32_t)(n / grid.x / grid.y)};
        run_block(b);
    }
}
