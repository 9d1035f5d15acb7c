// SPDX-License-Identifier: MIT
// The files of lua/, kernels/ and the ABI texts, compiled into the program by scripts/embed.lua (never committed).
#ifndef GWB_EMBEDDED_H
#define GWB_EMBEDDED_H

#include <stddef.h>

typedef struct gwb_embedded {
    const char *name;           // path in the checkout, as "lua/gpuwb/init.lua"
    const unsigned char *data;  // `size` bytes and a zero that is not counted
    size_t size;                // bytes
} gwb_embedded;

// Sorted by name, `gwb_embedded_count` entries.
extern const gwb_embedded gwb_embedded_files[];
extern const size_t gwb_embedded_count;

// The fatbin of kernels/builtin.cu, or size 0 where no nvcc was at hand when this was built.
extern const unsigned char gwb_embedded_fatbin[];
extern const size_t gwb_embedded_fatbin_size;

// The file of that name: from $GPUWB_ROOT where that is set, else the embedded one; NULL where there is none.
// Owned by the module, lives until the process ends. Thread-safe. Waits for the disk only with $GPUWB_ROOT.
const gwb_embedded *gwb_embedded_find(const char *name);

#endif
