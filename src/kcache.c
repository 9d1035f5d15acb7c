// SPDX-License-Identifier: MIT
// Compiled kernels on disk: one file each, KEY.kernel. A file is a header with a checksum, then the image; it is written aside and renamed, so
// that no process ever reads half of one.
#include "kcache.h"

#include "gwb.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const int64_t most_bytes = 256 << 20;
static const char suffix[] = ".kernel";

typedef struct header {
    char magic[8];
    uint64_t bytes;         // of the image
    uint64_t a, b;          // its hash
} header;
static const char magic[8] = "gpuwbk1";

void gwb_kcache_add(gwb_kcache_key *key, const void *data, size_t size)
{
    const unsigned char *bytes = data;
    uint64_t a = key->a ^ size, b = key->b + size;
    for (size_t i = 0; i < size; i++) {     // FNV-1a, and a second hash that shares no bit of its state with it
        a = (a ^ bytes[i]) * 0x100000001b3u;
        b = (b + bytes[i]) * 0x9e3779b97f4a7c15u;
        b ^= b >> 32;
    }
    key->a = (a ^ 0xff) * 0x100000001b3u;
    key->b = b ^ b >> 29;
}

void gwb_kcache_add_text(gwb_kcache_key *key, const char *text)
{
    gwb_kcache_add(key, text, strlen(text));
}

// The cache's folder into `path`; false where none can be named.
static bool folder(char path[PATH_MAX])
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n = -1;
    if (cache && cache[0] == '/')   // a relative one is to be ignored, says the standard
        n = snprintf(path, PATH_MAX, "%s/gpuwb", cache);
    else if (home && home[0] == '/')
        n = snprintf(path, PATH_MAX, "%s/.cache/gpuwb", home);
    return n > 0 && n < PATH_MAX - 64;
}

static bool make_folder(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(path, 0700);
        *slash = '/';
    }
    mkdir(path, 0700);
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static void append_key(char path[PATH_MAX], gwb_kcache_key key)
{
    size_t used = strlen(path);
    snprintf(path + used, PATH_MAX - used, "/%016" PRIx64 "%016" PRIx64 "%s", key.a, key.b, suffix);
}

static bool read_all(int fd, void *data, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = read(fd, (char *)data + done, size - done);
        if (n <= 0)
            return false;
        done += (size_t)n;
    }
    return true;
}

static bool write_all(int fd, const void *data, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = write(fd, (const char *)data + done, size - done);
        if (n <= 0)
            return false;
        done += (size_t)n;
    }
    return true;
}

static header describe(const void *data, size_t size)
{
    gwb_kcache_key sum = GWB_KCACHE_KEY;
    gwb_kcache_add(&sum, data, size);
    header h = {.bytes = size, .a = sum.a, .b = sum.b};
    memcpy(h.magic, magic, sizeof magic);
    return h;
}

bool gwb_kcache_load(gwb_kcache_key key, void **data, size_t *size)
{
    char path[PATH_MAX];
    if (!folder(path))
        return false;
    append_key(path, key);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    header h, found;
    char *image = NULL;
    bool good = read_all(fd, &h, sizeof h) && memcmp(h.magic, magic, sizeof magic) == 0 && h.bytes <= (uint64_t)most_bytes &&
        (image = malloc(h.bytes + 1)) && read_all(fd, image, h.bytes);
    if (good) {
        image[h.bytes] = 0;
        found = describe(image, h.bytes);
        good = memcmp(&h, &found, sizeof h) == 0;
    }
    if (good) {
        futimens(fd, NULL);     // the oldest are removed first: this one is in use
        *data = image;
        *size = h.bytes;
    } else {
        free(image);
        unlink(path);
    }
    close(fd);
    return good;
}

typedef struct entry {
    char name[NAME_MAX + 1];
    struct timespec time;
    int64_t bytes;
} entry;

static int older_first(const void *x, const void *y)
{
    const entry *a = x, *b = y;
    if (a->time.tv_sec != b->time.tv_sec)
        return a->time.tv_sec < b->time.tv_sec ? -1 : 1;
    return (a->time.tv_nsec > b->time.tv_nsec) - (a->time.tv_nsec < b->time.tv_nsec);
}

// Removes the oldest images, and parts that were left behind, until the rest takes at most three quarters of what is allowed.
static void shrink(const char *path)
{
    DIR *dir = opendir(path);
    if (!dir)
        return;
    entry *entries = NULL;
    size_t count = 0, room = 0;
    int64_t bytes = 0;
    for (struct dirent *d; (d = readdir(dir));) {
        struct stat st;
        if (!strstr(d->d_name, suffix) || fstatat(dirfd(dir), d->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode))
            continue;
        if (count == room) {
            room = room ? 2 * room : 64;
            entry *grown = realloc(entries, room * sizeof *grown);
            if (!grown)
                break;
            entries = grown;
        }
        entries[count].time = st.st_mtim;
        entries[count].bytes = st.st_size;
        snprintf(entries[count++].name, sizeof entries->name, "%s", d->d_name);
        bytes += st.st_size;
    }
    if (bytes > most_bytes) {
        qsort(entries, count, sizeof *entries, older_first);
        for (size_t i = 0; i < count && bytes > most_bytes / 4 * 3; i++)
            if (unlinkat(dirfd(dir), entries[i].name, 0) == 0)
                bytes -= entries[i].bytes;
    }
    free(entries);
    closedir(dir);
}

static atomic_llong compilations;

int64_t gwb_compilations(void)
{
    return compilations;
}

void gwb_kcache_compiled(void)
{
    compilations++;
}

void gwb_kcache_store(gwb_kcache_key key, const void *data, size_t size)
{
    char dir[PATH_MAX], path[PATH_MAX], part[PATH_MAX + 32];
    if ((int64_t)size > most_bytes / 2 || !folder(dir) || !make_folder(dir))
        return;
    strcpy(path, dir);
    append_key(path, key);
    snprintf(part, sizeof part, "%s.XXXXXX", path);
    int fd = mkostemp(part, O_CLOEXEC);
    if (fd < 0)
        return;
    const header h = describe(data, size);
    bool good = write_all(fd, &h, sizeof h) && write_all(fd, data, size);
    good = close(fd) == 0 && good;
    if (!good || rename(part, path) != 0)
        unlink(part);
    shrink(dir);
}
