// SPDX-License-Identifier: MIT
// The host device's memory and events that other processes open.
#include "host/share.h"

#include "host/kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

// ---- files of memory. Their text is "pid.fd.inode": the inode tells a number that was reused.

static int describe(int fd, char text[GWB_SHARE_TEXT])
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return gwb_fail(GWB_IO, "looking at shared memory: %s", strerror(errno));
    snprintf(text, GWB_SHARE_TEXT, "%ld.%d.%" PRIu64, (long)getpid(), fd, (uint64_t)st.st_ino);
    return 0;
}

static void *map(int fd, int64_t bytes, bool readonly)
{
    void *memory = mmap(NULL, (size_t)bytes, readonly ? PROT_READ : PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) {
        gwb_fail(errno == ENOMEM ? GWB_OUT_OF_MEMORY : GWB_IO, "mapping %" PRId64 " bytes of shared memory: %s", bytes, strerror(errno));
        return NULL;
    }
    return memory;
}

int gwb_host_share_create(gwb_device *d, gwb_share *s)
{
    if (s->bytes > d->info.memory)      // the kernel promises more than there is and kills later
        return gwb_fail(GWB_OUT_OF_MEMORY, "host: no room for %" PRId64 " bytes", s->bytes);
    s->fd = memfd_create("gpuwb", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (s->fd < 0)
        return gwb_fail(GWB_UNSUPPORTED, "making shared memory: %s", strerror(errno));
    // sealed: a file that shrinks kills whoever reads behind its end
    const bool sized = ftruncate(s->fd, s->bytes) == 0 && fcntl(s->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0;
    int rc = sized ? describe(s->fd, s->text) : gwb_fail(GWB_OUT_OF_MEMORY, "shared memory of %" PRId64 " bytes: %s", s->bytes, strerror(errno));
    if (rc >= 0 && !(s->memory = map(s->fd, s->bytes, false)))
        rc = GWB_OUT_OF_MEMORY;
    if (rc < 0)
        close(s->fd);
    return rc;
}

static int open_file(const char *text, int64_t bytes, bool readonly, int *out)
{
    long pid;
    int number, end = 0;
    uint64_t inode;
    struct stat st;
    char path[64];
    if (sscanf(text, "%ld.%d.%" SCNu64 "%n", &pid, &number, &inode, &end) != 3 || text[end] || pid <= 0 || number < 0)
        return gwb_fail(GWB_BAD_ARGUMENT, "the handle is damaged: \"%.60s\" names no memory of a process", text);
    snprintf(path, sizeof path, "/proc/%ld/fd/%d", pid, number);
    const int fd = open(path, (readonly ? O_RDONLY : O_RDWR) | O_CLOEXEC);
    if (fd < 0)
        return gwb_fail(GWB_NO_FILE, "the process %ld does not share this any more (%s: %s): it has ended, closed it, or runs as another user or in "
                        "another container", pid, path, strerror(errno));
    const int seals = fcntl(fd, F_GET_SEALS);
    if (fstat(fd, &st) != 0 || (uint64_t)st.st_ino != inode || seals < 0 || !(seals & F_SEAL_SHRINK) || st.st_size < bytes) {
        close(fd);
        return gwb_fail(GWB_NO_FILE, "the process %ld does not share this any more: its file %d is another one by now", pid, number);
    }
    *out = fd;
    return 0;
}

int gwb_host_share_open(gwb_device *d, gwb_share *s, bool readonly)
{
    (void)d;
    int rc = open_file(s->text, s->bytes, readonly, &s->fd);
    if (rc < 0)
        return rc;
    s->opened = true;
    s->memory = map(s->fd, s->bytes, readonly);
    rc = s->memory ? describe(s->fd, s->text) : GWB_OUT_OF_MEMORY;     // whoever gets a handle from here asks here
    if (rc < 0)
        gwb_host_share_close(d, s);
    return rc;
}

void gwb_host_share_close(gwb_device *d, gwb_share *s)
{
    (void)d;
    if (s->memory)
        munmap(s->memory, (size_t)s->bytes);
    close(s->fd);
}

int gwb_host_identify(gwb_device *d, char text[GWB_SHARE_TEXT])
{
    (void)d;
    snprintf(text, GWB_SHARE_TEXT, "host");
    return 0;
}

// ---- events: a page that the processes share

typedef struct page {
    _Atomic uint64_t recorded;      // how often it was recorded
    _Atomic uint64_t reached;       // the newest recording that was reached
    _Atomic uint32_t turn;          // changes when `reached` does; what waiters sleep on
    _Atomic int32_t recorder;       // the process of the newest recording
} page;

// Counted: the gwb_event, and each job under way.
typedef struct shared_event {
    atomic_int refs;
    page *page;
    gwb_share share;
} shared_event;

typedef struct visit {              // of a queue's worker at an event
    shared_event *event;
    uint64_t number;                // of the recording
} visit;

static void unref(shared_event *e)
{
    if (atomic_fetch_sub(&e->refs, 1) == 1) {
        gwb_host_share_close(NULL, &e->share);
        free(e);
    }
}

static int finish_open(gwb_event *e, shared_event *h, int rc)
{
    if (rc < 0) {
        free(h);
        return rc;
    }
    h->refs = 1;
    h->page = h->share.memory;
    e->handle = h;
    return 0;
}

static shared_event *new_event(void)
{
    shared_event *h = calloc(1, sizeof *h);
    if (h)
        h->share.bytes = (int64_t)sizeof(page);
    else
        gwb_fail(GWB_OUT_OF_MEMORY, "out of host memory");
    return h;
}

int gwb_host_event_create(gwb_event *e)
{
    shared_event *h = new_event();
    return h ? finish_open(e, h, gwb_host_share_create(gwb_device_peek(0), &h->share)) : GWB_OUT_OF_MEMORY;
}

int gwb_host_event_join(gwb_event *e, gwb_device *d, const char *text)
{
    shared_event *h = new_event();
    if (!h)
        return GWB_OUT_OF_MEMORY;
    snprintf(h->share.text, sizeof h->share.text, "%s", text);
    return finish_open(e, h, gwb_host_share_open(d, &h->share, false));
}

int gwb_host_event_share(const gwb_event *e, char text[GWB_SHARE_TEXT])
{
    memcpy(text, ((shared_event *)e->handle)->share.text, GWB_SHARE_TEXT);
    return 0;
}

void gwb_host_event_leave(gwb_event *e)
{
    unref(e->handle);
    e->handle = NULL;
}

static long futex(_Atomic uint32_t *word, int what, uint32_t value, const struct timespec *limit)
{
    return syscall(SYS_futex, word, what, value, limit, NULL, 0);
}

// A process that has ended, also where its parent has not asked for its status yet.
static bool is_gone(int32_t pid)
{
    char path[32], line[512];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *f = fopen(path, "re");
    if (!f)
        return errno == ENOENT;
    const char *state = fgets(line, sizeof line, f) ? strrchr(line, ')') : NULL;
    fclose(f);
    return state && (state[2] == 'Z' || state[2] == 'X');
}

// Blocks until recording `number` is reached. A recorder that ends in the middle takes the waiters with it to an error, not to a wait without end:
// `text` is then filled.
static int wait_for(page *p, uint64_t number, char text[160])
{
    for (;;) {
        const uint32_t turn = p->turn;
        if (p->reached >= number)
            return 0;
        if (is_gone(p->recorder) && p->reached < number) {
            snprintf(text, 160, "a shared event is never reached: the process %d that recorded it has ended", p->recorder);
            return GWB_DEVICE;
        }
        futex(&p->turn, FUTEX_WAIT, turn, &(struct timespec){.tv_nsec = 100000000});
    }
}

static void tell(page *p, uint64_t number)
{
    uint64_t before = p->reached;
    while (before < number && !atomic_compare_exchange_weak(&p->reached, &before, number))
        ;
    p->turn++;
    futex(&p->turn, FUTEX_WAKE, INT_MAX, NULL);
}

static void reach(void *arg)
{
    visit *v = arg;
    tell(v->event->page, v->number);
    unref(v->event);
    free(v);
}

static void stay(void *arg)
{
    visit *v = arg;
    char text[160];
    if (wait_for(v->event->page, v->number, text) < 0)
        gwb_host_fault(text);
    unref(v->event);
    free(v);
}

static int enqueue(gwb_queue *q, shared_event *e, uint64_t number, void (*fn)(void *))
{
    visit *v = malloc(sizeof *v);
    if (!v)
        return gwb_fail(GWB_OUT_OF_MEMORY, "out of host memory");
    *v = (visit){e, number};
    atomic_fetch_add(&e->refs, 1);
    int rc = gwb_host_ops.call(q, fn, v, NULL);
    if (rc < 0) {
        unref(e);
        free(v);
    }
    return rc;
}

int gwb_host_event_record(gwb_event *e, gwb_queue *q)
{
    shared_event *h = e->handle;
    h->page->recorder = (int32_t)getpid();
    const uint64_t number = atomic_fetch_add(&h->page->recorded, 1) + 1;
    int rc = enqueue(q, h, number, reach);
    if (rc < 0)     // others may wait for the number already
        tell(h->page, number);
    return rc;
}

int gwb_host_event_after(gwb_queue *q, const gwb_event *e)
{
    shared_event *h = e->handle;
    const uint64_t number = h->page->recorded;
    return h->page->reached >= number ? 0 : enqueue(q, h, number, stay);
}

int gwb_host_event_query(const gwb_event *e)
{
    const shared_event *h = e->handle;
    return h->page->reached >= h->page->recorded;
}

int gwb_host_event_wait(const gwb_event *e)
{
    shared_event *h = e->handle;
    char text[160];
    return wait_for(h->page, h->page->recorded, text) < 0 ? gwb_fail(GWB_DEVICE, "host: %s", text) : 0;
}
