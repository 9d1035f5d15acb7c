// SPDX-License-Identifier: MIT
// Compiled kernels on disk, in $XDG_CACHE_HOME/gpuwb or ~/.cache/gpuwb. A cache that cannot be used is no error: nothing is found, nothing kept.
#ifndef GWB_KCACHE_H
#define GWB_KCACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// What a compiled kernel depends on, all of it added: 128 bits of hash. Starts as GWB_KCACHE_KEY.
typedef struct gwb_kcache_key {
    uint64_t a, b;
} gwb_kcache_key;
#define GWB_KCACHE_KEY ((gwb_kcache_key){0xcbf29ce484222325u, 0x9ae16a3b2f90404fu})

// Adds `size` bytes, and a border, so that "ab", "c" and "a", "bc" differ.
void gwb_kcache_add(gwb_kcache_key *key, const void *data, size_t size);
void gwb_kcache_add_text(gwb_kcache_key *key, const char *text);

// The image kept under `key`: *data of *size bytes, the caller's to free, followed by a zero that is not counted. False where there is
// none, or what is there is damaged. Waits for the disk. Thread-safe, also between processes, as is the next.
bool gwb_kcache_load(gwb_kcache_key key, void **data, size_t *size);

// Counts a compilation, for gwb_compilations. Each is counted once, whether its image is kept or not.
void gwb_kcache_compiled(void);

// Keeps an image, and removes the oldest ones where all together pass 256 MiB.
void gwb_kcache_store(gwb_kcache_key key, const void *data, size_t size);

#endif
