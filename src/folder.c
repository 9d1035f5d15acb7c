// SPDX-License-Identifier: MIT
// Lists of files by pattern or folder, and folders made.
#include "error.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int fail(const char *path, const char *doing, int error)
{
    char text[128];
    return gwb_fail(error == ENOENT || error == ENOTDIR ? GWB_NO_FILE : error == ENOMEM ? GWB_OUT_OF_MEMORY : GWB_IO, "%s: %s: %s", path, doing,
                    strerror_r(error, text, sizeof text));
}

// Adds a path with its zero.
static int add(gwb_bytes *out, const char *path)
{
    int64_t length = (int64_t)strlen(path) + 1;
    if (length > out->capacity - out->size) {
        int64_t capacity = out->capacity * 2 + length + 4096;
        uint8_t *data = realloc(out->data, (size_t)capacity);
        if (!data) return gwb_fail(GWB_OUT_OF_MEMORY, "no memory for a list of files");
        out->data = data;
        out->capacity = capacity;
    }
    memcpy(out->data + out->size, path, (size_t)length);
    out->size += length;
    return 0;
}

int gwb_file_glob(const char *pattern, gwb_bytes *out)
{
    glob_t found = {0};
    int rc = glob(pattern, GLOB_MARK, NULL, &found);    // sorted; folders end in '/'
    int status = rc == GLOB_NOSPACE ? gwb_fail(GWB_OUT_OF_MEMORY, "no memory for a list of files") : rc == GLOB_ABORTED ? fail(pattern, "cannot list", EACCES) : 0;
    for (size_t i = 0; i < found.gl_pathc && status == 0; i++) {
        const char *path = found.gl_pathv[i];
        if (path[strlen(path) - 1] != '/') status = add(out, path);
    }
    globfree(&found);
    return status;
}

static int plain(const struct dirent *e) { return strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0; }

static int list(const char *root, const char *inside, bool deep, int depth, gwb_bytes *out)
{
    char folder[PATH_MAX], path[PATH_MAX], name[PATH_MAX];
    struct dirent **entries;
    if (snprintf(folder, sizeof folder, "%s/%s", root, inside) >= PATH_MAX || depth > 64) return fail(root, "cannot list", ENAMETOOLONG);
    int n = scandir(folder, &entries, plain, alphasort), rc = n < 0 ? fail(folder, "cannot list", errno) : 0;
    for (int i = 0; i < n; i++) {
        struct stat info;
        int length = snprintf(name, sizeof name, "%s%s%s", inside, *inside ? "/" : "", entries[i]->d_name);
        free(entries[i]);
        if (rc < 0) continue;
        if (length >= PATH_MAX || snprintf(path, sizeof path, "%s/%s", root, name) >= PATH_MAX) rc = fail(folder, "cannot list", ENAMETOOLONG);
        else if (lstat(path, &info) != 0) continue;     // gone meanwhile
        else if (S_ISDIR(info.st_mode)) rc = deep ? list(root, name, deep, depth + 1, out) : 0;
        else if (S_ISREG(info.st_mode) || (S_ISLNK(info.st_mode) && stat(path, &info) == 0 && S_ISREG(info.st_mode))) rc = add(out, name);
    }
    if (n >= 0) free(entries);
    return rc;
}

int gwb_folder_list(const char *folder, int deep, gwb_bytes *out)
{
    return list(folder, "", deep, 0, out);
}

int gwb_folder_make(const char *path)
{
    char part[PATH_MAX];
    size_t length = strlen(path);
    if (length >= sizeof part) return fail(path, "cannot make", ENAMETOOLONG);
    for (size_t i = 1; i <= length; i++) {
        if (path[i] != '/' && path[i] != 0) continue;
        memcpy(part, path, i);
        part[i] = 0;
        struct stat info;
        if (mkdir(part, 0777) != 0 && (errno != EEXIST || stat(part, &info) != 0 || !S_ISDIR(info.st_mode))) return fail(part, "cannot make", errno);
    }
    return 0;
}

int gwb_path_kind(const char *path)
{
    struct stat info;
    if (stat(path, &info) != 0) return 0;
    return S_ISREG(info.st_mode) ? 1 : S_ISDIR(info.st_mode) ? 2 : 3;
}
