// SPDX-License-Identifier: MIT
// Decoding in a process of its own: it inherits the file's bytes, has no rights but to compute and to take memory (seccomp), and writes the pixels
// into memory that both share. The parent trusts nothing that it finds there.
#include "codec.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// The thread sanitizer bears no fork of a process with threads.
#if defined __SANITIZE_THREAD__
#elif defined __x86_64__
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined __aarch64__
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#endif

// In front of the shared memory; pixels and profile follow from PIXELS.
typedef struct answer {
    int32_t done;               // written last
    int32_t status;
    int64_t bytes;              // of pixels; the profile follows
    gwb_picture picture;        // plane data as offsets
    char message[1024];
} answer;

enum { PIXELS = 8192 };
_Static_assert(sizeof(answer) <= PIXELS, "the answer fits in front of the pixels");

#ifdef ARCHITECTURE

// Memory, locks, the end: nothing else. A call that is not in the list ends the process.
static int drop_rights(void)
{
#define ALLOW(call) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(mmap), ALLOW(munmap), ALLOW(mremap), ALLOW(mprotect), ALLOW(madvise), ALLOW(brk), ALLOW(futex), ALLOW(exit), ALLOW(exit_group),
        ALLOW(rt_sigreturn), ALLOW(rt_sigprocmask), ALLOW(clock_gettime), ALLOW(sched_yield), ALLOW(getpid), ALLOW(gettid),
        ALLOW(sigaltstack),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
#undef ALLOW
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -1;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
}

// The child. Never returns.
static _Noreturn void decode_apart(const gwb_input *in, const gwb_read_params *params, answer *to, int64_t room, pid_t parent)
{
    // Of what the parent had open nothing is of use; the memory is a copy.
    if (syscall(SYS_close_range, 0, ~0u, 0) != 0) for (int fd = 0; fd < 1024; fd++) close(fd);
    struct sigaction fresh = {.sa_handler = SIG_DFL};
    for (int s = 1; s < 32; s++) sigaction(s, &fresh, NULL);
    int seconds = (params->timeout > 0 ? params->timeout : 60000) / 1000 + 2;
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    setrlimit(RLIMIT_CPU, &(struct rlimit){(rlim_t)seconds, (rlim_t)seconds});
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(0);
    if (drop_rights() != 0) {
        to->status = GWB_UNSUPPORTED;
        snprintf(to->message, sizeof to->message, "%s: isolated: this kernel gives no seccomp filter", in->name);
        to->done = 1;
        _exit(0);
    }
    gwb_picture picture;
    int rc = gwb_decode(in->bytes, in->size, in->name, params, &picture);
    if (rc < 0) {
        snprintf(to->message, sizeof to->message, "%s", gwb_error_message());
    } else {
        uint8_t *pixels = (uint8_t *)to + PIXELS;
        int64_t used = 0;
        to->picture = picture;
        for (int i = 0; i < picture.planes && rc == 0 && picture.memory; i++) {
            const gwb_plane *p = &picture.plane[i];
            int64_t row = (int64_t)p->width * p->channels * gwb_type_size(p->type), size = row * p->height;
            if (size > room - PIXELS - used) {
                rc = GWB_LIMIT;
                snprintf(to->message, sizeof to->message, "%s: isolated: its pixels are more than the limit (gpu.limits{bytes=...} raises it)", in->name);
                break;
            }
            for (int32_t y = 0; y < p->height; y++) memcpy(pixels + used + y * row, p->data + y * p->step, (size_t)row);
            to->picture.plane[i].data = (uint8_t *)(uintptr_t)used;
            to->picture.plane[i].step = row;
            used += (size + 63) / 64 * 64;
        }
        to->bytes = used;
        if (rc == 0 && picture.icc_size > 0 && picture.icc_size <= room - PIXELS - used) memcpy(pixels + used, picture.icc, (size_t)picture.icc_size);
        else to->picture.icc_size = 0;
    }
    to->status = rc;
    __atomic_store_n(&to->done, 1, __ATOMIC_RELEASE);
    _exit(0);
}

// Waits until the child has ended; false where it takes longer than that and was ended.
static bool wait_for(pid_t child, int64_t ms, int *status)
{
    struct timespec now, end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += ms / 1000;
    end.tv_nsec += ms % 1000 * 1000000;
    int fd = (int)syscall(SYS_pidfd_open, child, 0);
    bool ended = false;
    *status = 0;
    for (;;) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        int64_t left = (end.tv_sec - now.tv_sec) * 1000 + (end.tv_nsec - now.tv_nsec) / 1000000;
        if (fd >= 0) poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, left > 0 ? (int)left : 0);
        else nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        pid_t got = waitpid(child, status, WNOHANG);
        ended = got == child || (got < 0 && errno == ECHILD);
        if (ended || left <= 0) break;
    }
    if (!ended) {
        kill(child, SIGKILL);
        while (waitpid(child, status, 0) < 0 && errno == EINTR) continue;
    }
    if (fd >= 0) close(fd);
    return ended;
}

static bool ended_text(const char text[], size_t room) { return memchr(text, 0, room) != NULL; }

// Takes the picture out of the shared memory, which `out` then owns; every number is held against what the memory has.
static bool accept(const gwb_input *in, const gwb_read_params *params, uint8_t *memory, int64_t room, gwb_picture *out)
{
    gwb_picture p;
    int64_t bytes;
    memcpy(&p, &((answer *)(void *)memory)->picture, sizeof p);
    memcpy(&bytes, memory + offsetof(answer, bytes), sizeof bytes);
    bool good = p.planes >= 1 && p.planes <= GWB_MAX_PLANES && p.width >= 1 && p.height >= 1 && bytes >= 0 && bytes <= room - PIXELS
        && p.icc_size >= 0 && p.icc_size <= room - PIXELS - bytes && ended_text(p.kind, sizeof p.kind) && ended_text(p.format, sizeof p.format)
        && ended_text(p.matrix, sizeof p.matrix) && ended_text(p.range, sizeof p.range) && ended_text(p.siting, sizeof p.siting)
        && ended_text(p.transfer, sizeof p.transfer) && ended_text(p.primaries, sizeof p.primaries) && ended_text(p.warning, sizeof p.warning)
        && ended_text(p.native, sizeof p.native) && ended_text(p.coding, sizeof p.coding);
    bool pixels = !params->header_only;
    for (int i = 0; good && i < p.planes; i++) {
        gwb_plane *plane = &p.plane[i];
        int64_t offset = (int64_t)(uintptr_t)plane->data, row;
        good = plane->width >= 1 && plane->height >= 1 && plane->channels >= 1 && plane->channels <= 4 && gwb_type_size(plane->type) > 0;
        if (!good || !pixels) continue;
        row = (int64_t)plane->width * plane->channels * gwb_type_size(plane->type);
        good = plane->step == row && offset >= 0 && offset <= bytes && row <= (bytes - offset) / plane->height;
        plane->data = memory + PIXELS + offset;
    }
    // The planes must be those of the format, and of a size that fits it: what reads them next relies on that.
    int format = good && p.format[0] ? gwb_format_find(p.format, NULL, NULL) : -1;
    if (good && p.format[0]) {
        const gwb_format_info *info = format >= 0 ? gwb_format_get(format) : NULL;
        good = info && info->planes == p.planes;
        for (int i = 0; good && i < p.planes; i++) {
            gwb_plane_info plane;
            good = gwb_format_plane(format, i, p.width, p.height, &plane) == 0 && plane.width == p.plane[i].width && plane.height == p.plane[i].height
                && plane.type == p.plane[i].type && plane.channels == p.plane[i].channels;
        }
    }
    good = good && (p.format[0] || p.planes == 1);
    if (!good) {
        gwb_refuse(in, GWB_BAD_FILE, "isolated: its decoder gave an answer that is none");
        return false;
    }
    p.memory = memory;
    p.mapped = room;
    p.room = NULL;
    p.icc = NULL;
    if (p.icc_size > 0 && (p.icc = malloc((size_t)p.icc_size))) memcpy(p.icc, memory + PIXELS + bytes, (size_t)p.icc_size);
    if (!p.icc) p.icc_size = 0;
    *out = p;
    return true;
}

int gwb_decode_isolated(const void *bytes, int64_t size, const char *name, const gwb_read_params *params, gwb_picture *picture)
{
    *picture = (gwb_picture){0};
    gwb_read_params p = gwb_read_defaults(params);
    p.room = 0;     // the pool's lock may be held while this forks
    gwb_input in = {bytes, size, name ? name : "picture", p};
    int64_t room = PIXELS + p.max_bytes + (1 << 20), timeout = p.timeout > 0 ? p.timeout : 60000;
    gwb_codec_prepare();
    // Address space only: what is not written takes no memory.
    uint8_t *memory = mmap(NULL, (size_t)room, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return gwb_refuse(&in, GWB_OUT_OF_MEMORY, "isolated: no %" PRId64 " bytes to share", room);
    answer *a = (answer *)(void *)memory;
    pid_t self = getpid(), child = fork();
    if (child == 0) decode_apart(&in, &p, a, room, self);
    int status = 0, rc = 0;
    if (child < 0) rc = gwb_refuse(&in, GWB_OUT_OF_MEMORY, "isolated: no new process: %s", strerror(errno));
    else if (!wait_for(child, timeout, &status)) {
        rc = gwb_refuse(&in, GWB_BAD_FILE, "isolated: its decoder took more than %" PRId64 " ms and was ended", timeout);
    } else if (!__atomic_load_n(&a->done, __ATOMIC_ACQUIRE)) {
        rc = gwb_refuse(&in, GWB_BAD_FILE, "isolated: its decoder crashed (%s)",
                        WIFSIGNALED(status) ? WTERMSIG(status) == SIGSYS ? "a system call that it has no right to" : strsignal(WTERMSIG(status)) : "it ended early");
    } else if (a->status < 0) {
        char text[sizeof a->message];
        memcpy(text, a->message, sizeof text);
        text[sizeof text - 1] = 0;
        rc = gwb_fail(a->status > GWB_STATUS_LAST ? a->status : GWB_BAD_FILE, "%s", text);
    } else if (!accept(&in, &p, memory, room, picture)) {
        rc = GWB_BAD_FILE;
    }
    if (rc < 0 || p.header_only) {
        munmap(memory, (size_t)room);
        picture->memory = NULL;
        picture->mapped = 0;
    }
    return rc;
}

#else

int gwb_decode_isolated(const void *bytes, int64_t size, const char *name, const gwb_read_params *params, gwb_picture *picture)
{
    (void)bytes, (void)size, (void)params;
    *picture = (gwb_picture){0};
    return gwb_fail(GWB_UNSUPPORTED, "%s: this build has no isolated decoding (it wants x86-64 or 64-bit ARM, and no thread sanitizer)", name ? name : "picture");
}

#endif

int gwb_load_isolated(const char *path, const gwb_read_params *params, gwb_picture *picture)
{
    gwb_bytes bytes = {0};
    *picture = (gwb_picture){0};
    int rc = gwb_file_read(path, gwb_read_defaults(params).max_bytes, &bytes);
    if (rc == 0) rc = gwb_decode_isolated(bytes.data, bytes.size, path, params, picture);
    gwb_bytes_free(&bytes);
    return rc;
}
