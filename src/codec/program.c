// SPDX-License-Identifier: MIT
// Programs at the other end of pipes.
#include "program.h"

#include "codec.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void close_fd(int *fd)
{
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

// A pipe whose ends are none of the three standard numbers, which the program's own ends get.
static int open_pipe(int ends[2])
{
    int made[2];
    ends[0] = ends[1] = -1;
    if (pipe2(made, O_CLOEXEC) != 0) return -1;
    for (int i = 0; i < 2; i++) {
        ends[i] = made[i] > 2 ? made[i] : fcntl(made[i], F_DUPFD_CLOEXEC, 3);
        if (ends[i] != made[i]) close(made[i]);
    }
    if (ends[0] >= 0 && ends[1] >= 0) return 0;
    int error = errno;
    close_fd(&ends[0]);
    close_fd(&ends[1]);
    errno = error;
    return -1;
}

static int spawn(gwb_program *p, const char *const *argv, int in, int out, int err)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    sigset_t none, usual;
    int error = posix_spawn_file_actions_init(&files);
    if (error) return error;
    error = posix_spawnattr_init(&how);
    if (error) {
        posix_spawn_file_actions_destroy(&files);
        return error;
    }
    // Its own group: what the terminal sends to this program is not for it, and all that it starts can be stopped with it.
    sigemptyset(&none);
    sigfillset(&usual);
    posix_spawnattr_setsigmask(&how, &none);
    posix_spawnattr_setsigdefault(&how, &usual);
    posix_spawnattr_setpgroup(&how, 0);
    error = posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
    const int ends[3] = {in, out, err};
    for (int i = 0; i < 3 && !error; i++) {
        error = ends[i] >= 0 ? posix_spawn_file_actions_adddup2(&files, ends[i], i)
            : posix_spawn_file_actions_addopen(&files, i, "/dev/null", i ? O_WRONLY : O_RDONLY, 0);
    }
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 34)
    // Files that others opened without O_CLOEXEC: a pipe's end that stays open in there would never end.
    if (!error) error = posix_spawn_file_actions_addclosefrom_np(&files, 3);
#endif
    if (!error) error = posix_spawnp(&p->pid, argv[0], &files, &how, (char *const *)(uintptr_t)argv, environ);
    posix_spawnattr_destroy(&how);
    posix_spawn_file_actions_destroy(&files);
    return error;
}

int gwb_program_start(gwb_program *p, const char *const *argv, bool feeds, bool gives, const char *advice)
{
    int in[2] = {-1, -1}, out[2] = {-1, -1}, err[2] = {-1, -1}, error = 0;
    char text[128];
    *p = (gwb_program){.in = -1, .out = -1, .err = -1, .name = strdup(argv[0])};
    if (!p->name) return gwb_fail(GWB_OUT_OF_MEMORY, "out of host memory");
    pthread_mutex_init(&p->lock, NULL);
    if ((feeds && open_pipe(in) != 0) || (gives && open_pipe(out) != 0) || open_pipe(err) != 0) error = errno;
    if (!error) error = spawn(p, argv, in[0], out[1], err[1]);
    close_fd(&in[0]);
    close_fd(&out[1]);
    close_fd(&err[1]);
    p->in = in[1];
    p->out = out[0];
    p->err = err[0];
    if (error) {
        p->over = true;
        int rc = error == ENOENT || error == ENOTDIR || error == EACCES
            ? gwb_fail(GWB_UNSUPPORTED, "the program %s cannot be started (%s): %s", argv[0], strerror_r(error, text, sizeof text), advice)
            : gwb_fail(error == ENOMEM ? GWB_OUT_OF_MEMORY : GWB_IO, "%s cannot be started: %s", argv[0], strerror_r(error, text, sizeof text));
        gwb_program_free(p);
        return rc;
    }
    const int ends[3] = {p->in, p->out, p->err};
    for (int i = 0; i < 3; i++) {
        if (ends[i] < 0) continue;
        fcntl(ends[i], F_SETFL, O_NONBLOCK);
        if (i < 2) fcntl(ends[i], F_SETPIPE_SZ, 1 << 20); // fewer switches; a limit may forbid it
    }
    return 0;
}

// Adds to the text; where it is full, what came after the first half moves up.
static void keep(gwb_program *p, const char *bytes, int size)
{
    enum { HALF = GWB_PROGRAM_TEXT / 2 };
    p->said += size;
    for (int i = 0; i < size; i++) {
        if (p->size == GWB_PROGRAM_TEXT) {
            memmove(p->text + HALF, p->text + HALF + HALF / 2, HALF - HALF / 2);
            p->size -= HALF / 2;
        }
        p->text[p->size++] = bytes[i];
    }
}

static void hear(gwb_program *p)
{
    char piece[4096];
    ssize_t got = read(p->err, piece, sizeof piece);
    if (got > 0) keep(p, piece, (int)got);
    else if (got == 0 || (errno != EAGAIN && errno != EINTR)) close_fd(&p->err);
}

int gwb_program_poll(gwb_program *p, int fd, int ms)
{
    struct pollfd ends[2] = {{.fd = fd, .events = fd == p->in ? POLLOUT : POLLIN}, {.fd = p->err, .events = POLLIN}};
    if (poll(ends, 2, ms) <= 0) return 0;
    if (ends[1].revents) hear(p);
    return ends[0].revents != 0;
}

void gwb_program_quote(const gwb_program *p, char *text, int size)
{
    int at = 0, end = p->size;
    text[0] = 0;
    while (end > 0 && (unsigned char)p->text[end - 1] <= ' ') end--;
    if (end == 0) return;
    at = snprintf(text, (size_t)size, "%s says: ", p->name);
    for (int i = 0; i < end && at < size - 8; i++) {
        unsigned char c = (unsigned char)p->text[i];
        if (i == GWB_PROGRAM_TEXT / 2 && p->said > GWB_PROGRAM_TEXT) at += snprintf(text + at, (size_t)(size - at), " ... ");
        if (c == '\n') at += snprintf(text + at, (size_t)(size - at), "; ");
        else text[at++] = c < ' ' || c == 127 ? ' ' : (char)c;
    }
    text[at] = 0;
}

int gwb_program_wait(gwb_program *p, int status)
{
    close_fd(&p->in);
    while (p->err >= 0) gwb_program_poll(p, -1, -1);
    // It stays a zombie until the lock is held, so that nobody signals a number that another process has got.
    siginfo_t info;
    while (waitid(P_PID, (id_t)p->pid, &info, WEXITED | WNOWAIT) != 0 && errno == EINTR) continue;
    pthread_mutex_lock(&p->lock);
    if (!p->over && waitpid(p->pid, &p->status, 0) < 0) p->status = 0; // SIGCHLD is ignored here: nobody knows
    p->over = true;
    pthread_mutex_unlock(&p->lock);
    char said[GWB_PROGRAM_TEXT + 200];
    gwb_program_quote(p, said, sizeof said);
    if (WIFSIGNALED(p->status)) {
        return gwb_fail(GWB_IO, "%s was ended by signal %d (%s)%s%s", p->name, WTERMSIG(p->status), strsignal(WTERMSIG(p->status)),
                        said[0] ? "; " : "", said);
    }
    if (WEXITSTATUS(p->status) == 0) return 0;
    if (said[0]) return gwb_fail(status, "%s", said);
    return gwb_fail(status, "%s ended with status %d and said nothing", p->name, WEXITSTATUS(p->status));
}

void gwb_program_kill(gwb_program *p)
{
    pthread_mutex_lock(&p->lock);
    if (!p->over) kill(-p->pid, SIGKILL);
    pthread_mutex_unlock(&p->lock);
}

void gwb_program_free(gwb_program *p)
{
    if (!p->name) return;
    if (!p->over) {
        gwb_program_kill(p);
        while (waitpid(p->pid, &p->status, 0) < 0 && errno == EINTR) continue;
        p->over = true;
    }
    close_fd(&p->in);
    close_fd(&p->out);
    close_fd(&p->err);
    pthread_mutex_destroy(&p->lock);
    free(p->name);
    p->name = NULL;
}

int gwb_program_read(const char *const *argv, const char *advice, int64_t max_bytes, gwb_bytes *bytes)
{
    gwb_program p;
    int rc = gwb_program_start(&p, argv, false, true, advice);
    if (rc < 0) return rc;
    for (bool more = true; more && rc == 0;) {
        if (!gwb_program_poll(&p, p.out, -1)) continue;
        char piece[4096];
        ssize_t got = read(p.out, piece, sizeof piece);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) more = false;
        else if (got > max_bytes - bytes->size) rc = gwb_fail(GWB_LIMIT, "%s gave more than %" PRId64 " bytes", argv[0], max_bytes);
        else if (got > 0) rc = gwb_bytes_add(bytes, piece, got);
    }
    if (rc == 0) rc = gwb_program_wait(&p, GWB_BAD_FILE);
    gwb_program_free(&p);
    return rc;
}
