// SPDX-License-Identifier: MIT
// Finds the embedded files by name, or reads them from a checkout ($GPUWB_ROOT) so that a change needs no rebuild.
#include "embedded.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A file read from $GPUWB_ROOT. Never freed: whoever asked may still use it.
typedef struct disk_file {
    struct disk_file *next;
    gwb_embedded file;
    char text[];  // the content, a zero, the name, a zero
} disk_file;

static pthread_mutex_t disk_lock = PTHREAD_MUTEX_INITIALIZER;
static disk_file *disk_files;  // under disk_lock

static disk_file *read_file(const char *root, const char *name)
{
    size_t name_size = strlen(name) + 1, path_size = strlen(root) + 1 + name_size;
    char *path = malloc(path_size);
    if (!path) return NULL;
    snprintf(path, path_size, "%s/%s", root, name);
    FILE *stream = fopen(path, "rb");
    free(path);
    if (!stream) return NULL;

    disk_file *disk = NULL;
    long size = fseek(stream, 0, SEEK_END) == 0 ? ftell(stream) : -1;
    if (size >= 0 && size < (1L << 30)) disk = malloc(sizeof *disk + (size_t)size + 1 + name_size);
    rewind(stream);
    if (disk && fread(disk->text, 1, (size_t)size, stream) != (size_t)size) {
        free(disk);
        disk = NULL;
    }
    fclose(stream);
    if (!disk) return NULL;
    disk->text[size] = 0;
    char *own_name = memcpy(disk->text + size + 1, name, name_size);
    disk->file = (gwb_embedded){ .name = own_name, .data = (unsigned char *)disk->text, .size = (size_t)size };
    return disk;
}

static int same_file(const gwb_embedded *a, const gwb_embedded *b)
{
    return a->size == b->size && strcmp(a->name, b->name) == 0 && memcmp(a->data, b->data, a->size) == 0;
}

static const gwb_embedded *find_on_disk(const char *root, const char *name)
{
    disk_file *fresh = read_file(root, name);
    if (!fresh) return NULL;
    pthread_mutex_lock(&disk_lock);
    disk_file *known = disk_files;
    while (known && !same_file(&known->file, &fresh->file)) known = known->next;
    if (known) {
        free(fresh);
    } else {
        fresh->next = disk_files;
        disk_files = known = fresh;
    }
    pthread_mutex_unlock(&disk_lock);
    return &known->file;
}

static int compare_name(const void *name, const void *entry)
{
    return strcmp(name, ((const gwb_embedded *)entry)->name);
}

const gwb_embedded *gwb_embedded_find(const char *name)
{
    const char *root = getenv("GPUWB_ROOT");
    if (root && *root) return find_on_disk(root, name);
    return bsearch(name, gwb_embedded_files, gwb_embedded_count, sizeof *gwb_embedded_files, compare_name);
}
