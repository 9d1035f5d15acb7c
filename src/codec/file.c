// SPDX-License-Identifier: MIT
// Whole files: read to the end, written beside the target and renamed. Every byte is checked.
#include "codec.h"
#include "stream.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int fail_io(const char *path, const char *doing, int error)
{
    char text[128];
    int status = error == EINTR ? GWB_INTERRUPTED : error == ENOENT || error == ENOTDIR ? GWB_NO_FILE : error == ENOMEM ? GWB_OUT_OF_MEMORY : GWB_IO;
    return gwb_fail(status, "%s: %s: %s", path, doing, strerror_r(error, text, sizeof text));
}

// ---- reading. A pipe may have nothing to give for ever, so what is no regular file is waited for in pieces of time, between which Ctrl-C is heard.

static ssize_t read_pipe(void *cookie, char *to, size_t size)
{
    struct pollfd end = {.fd = (int)(intptr_t)cookie, .events = POLLIN};
    for (;;) {
        if (poll(&end, 1, 100) > 0) {
            ssize_t got = read(end.fd, to, size);
            if (got >= 0 || (errno != EAGAIN && errno != EINTR)) return got;
        }
        if (gwb_interrupted()) {
            errno = EINTR;
            return -1;
        }
    }
}

static int close_pipe(void *cookie)
{
    return close((int)(intptr_t)cookie);
}

static FILE *open_stream(int fd, bool regular)
{
    if (regular) return fdopen(fd, "rb");
    return fopencookie((void *)(intptr_t)fd, "rb", (cookie_io_functions_t){.read = read_pipe, .close = close_pipe});
}

int gwb_file_open(const char *path, FILE **file, int64_t *size)
{
    bool standard = strcmp(path, "-") == 0;
    struct stat info;
    int fd = standard ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3) : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return fail_io(path, "cannot open", errno);
    *file = NULL;
    if (fstat(fd, &info) != 0) fail_io(path, "cannot read", errno);
    else if (S_ISDIR(info.st_mode)) fail_io(path, "cannot read", EISDIR);
    else if (!(*file = open_stream(fd, S_ISREG(info.st_mode)))) fail_io(path, "cannot read", errno);
    if (!*file) {
        close(fd);
        return GWB_IO;
    }
    *size = S_ISREG(info.st_mode) ? info.st_size : -1;
    return 0;
}

int gwb_file_rest(FILE *file, int64_t size, const char *name, int64_t max_bytes, gwb_bytes *bytes)
{
    int rc = 0;
    // The size at the start is a hint only: the file may grow or be cut meanwhile.
    int64_t piece = size > bytes->size ? size - bytes->size + 1 : 65536;
    for (;;) {
        if (piece > max_bytes - bytes->size + 1) piece = max_bytes - bytes->size + 1;
        uint8_t *to = gwb_bytes_room(bytes, piece);
        if (!to) {
            rc = GWB_OUT_OF_MEMORY;
            break;
        }
        int64_t got = (int64_t)fread(to, 1, (size_t)piece, file);
        bytes->size += got - piece;
        if (bytes->size > max_bytes) {
            rc = gwb_fail(GWB_LIMIT, "%s: more than the limit of %" PRId64 " bytes; gpu.limits{bytes=...} raises it", name, max_bytes);
            break;
        }
        if (got < piece) {
            if (ferror(file)) rc = fail_io(name, "cannot read", errno);
            break;
        }
        piece = bytes->size / 2 + 65536;
    }
    fclose(file);
    return rc;
}

int gwb_file_read(const char *path, int64_t max_bytes, gwb_bytes *bytes)
{
    FILE *file = NULL;
    int64_t size = -1;
    int rc = gwb_file_open(path, &file, &size);
    return rc < 0 ? rc : gwb_file_rest(file, size, path, max_bytes > 0 ? max_bytes : INT64_MAX / 4, bytes);
}

// ---- writing

// A closed pipe and a size limit answer with an error, not with a signal that ends the process.
static ssize_t quiet_write(int fd, const void *bytes, size_t size)
{
    sigset_t quiet, before;
    sigemptyset(&quiet);
    sigaddset(&quiet, SIGPIPE);
    sigaddset(&quiet, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &quiet, &before);
    ssize_t written = write(fd, bytes, size);
    int error = errno;
    if (written < (ssize_t)size) { // a write that is cut short sends the signal too; one that the caller blocks is the caller's
        if (sigismember(&before, SIGPIPE)) sigdelset(&quiet, SIGPIPE);
        if (sigismember(&before, SIGXFSZ)) sigdelset(&quiet, SIGXFSZ);
        while (sigtimedwait(&quiet, NULL, &(struct timespec){0}) > 0) continue;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = error;
    return written;
}

// Writes all, and closes `fd` in any case.
static int write_all(int fd, const char *path, const uint8_t *bytes, int64_t size, int sync)
{
    int rc = 0;
    while (size > 0 && rc == 0) {
        ssize_t written = quiet_write(fd, bytes, size < 1 << 30 ? (size_t)size : 1 << 30);
        if (written < 0 && errno != EINTR) rc = fail_io(path, "cannot write", errno);
        if (written > 0) {
            bytes += written;
            size -= written;
        }
    }
    if (rc == 0 && sync && fsync(fd) != 0 && errno != EINVAL) rc = fail_io(path, "cannot write", errno);
    if (close(fd) != 0 && rc == 0) rc = fail_io(path, "cannot write", errno);
    return rc;
}

// A new file in the folder of `target`, its name in `part`, which ends with `end`.
static int open_part(const char *target, const char *end, char part[PATH_MAX])
{
    static atomic_uint counter;
    const char *slash = strrchr(target, '/');
    int folder = slash ? (int)(slash - target) + 1 : 0, fd = -1;
    for (int i = 0; i < 100; i++) {
        int length = snprintf(part, PATH_MAX, "%.*s.gpuwb-%d-%u.part%s", folder, target, (int)getpid(),
                              atomic_fetch_add(&counter, 1), end);
        if (length >= PATH_MAX) {
            errno = ENAMETOOLONG;
            return -1;
        }
        fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST) break;
    }
    return fd;
}

// So that the new name outlives a power cut.
static void sync_folder(char part[PATH_MAX])
{
    char *slash = strrchr(part, '/');
    if (slash) slash[1] = 0;
    int fd = open(slash ? part : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    fsync(fd);
    close(fd);
}

int gwb_file_part(const char *path, const char *end, char target[PATH_MAX], char part[PATH_MAX])
{
    struct stat old;
    bool exists = stat(path, &old) == 0;
    if (exists && !S_ISREG(old.st_mode)) return fail_io(path, "cannot be replaced", S_ISDIR(old.st_mode) ? EISDIR : EINVAL);
    if (exists) {
        if (access(path, W_OK) != 0 || !realpath(path, target)) return fail_io(path, "cannot write", errno); // a link stays a link
    } else {
        if (strlen(path) >= PATH_MAX) return fail_io(path, "cannot write", ENAMETOOLONG);
        strcpy(target, path);
    }
    int fd = open_part(target, end, part);
    if (fd < 0) return fail_io(path, "cannot write", errno);
    int rc = 0;
    if (exists) {
        // Owner first: a change of owner takes set-user bits away. Only root may give a file away.
        if (old.st_uid != geteuid() && fchown(fd, old.st_uid, old.st_gid) != 0) rc = fail_io(path, "cannot keep the owner", errno);
        if (rc == 0 && fchmod(fd, old.st_mode & 07777) != 0) rc = fail_io(path, "cannot write", errno);
    }
    if (rc == 0) return fd;
    close(fd);
    unlink(part);
    return rc;
}

int gwb_file_replace(const char *path, const char *target, char part[PATH_MAX], int sync)
{
    if (rename(part, target) != 0) {
        int rc = fail_io(path, "cannot write", errno);
        unlink(part);
        return rc;
    }
    if (sync) sync_folder(part);
    return 0;
}

int gwb_file_write(const char *path, const void *bytes, int64_t size, int sync)
{
    struct stat old;
    char target[PATH_MAX], part[PATH_MAX];
    if (strcmp(path, "-") == 0 || (stat(path, &old) == 0 && !S_ISREG(old.st_mode))) {
        fflush(stdout);
        int fd = strcmp(path, "-") == 0 ? fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3) : open(path, O_WRONLY | O_CLOEXEC);
        return fd < 0 ? fail_io(path, "cannot open", errno) : write_all(fd, path, bytes, size, sync);
    }
    int fd = gwb_file_part(path, "", target, part);
    if (fd < 0) return fd;
    int rc = write_all(fd, path, bytes, size, sync);
    if (rc == 0) return gwb_file_replace(path, target, part, sync);
    unlink(part);
    return rc;
}
