// SPDX-License-Identifier: MIT
// Pixels whose samples lie together, stored by a warp at once: a thread's words lie three or more apart, and stores that leave gaps cost the cache as much as
// ones that fill them, so they go through shared memory.
#ifndef GWB_KERNEL_INTERLEAVE_H
#define GWB_KERNEL_INTERLEAVE_H

#include "run.h"

#if defined(__CUDACC__)

// ROWS rows of a warp's pixels, WORDS words a lane and a row, to bytes `at` .. of row y .. of what begins at `to`; all of them multiples of 4. `lanes` lanes count. Lane 0's come
// first. All of the warp comes here; a block has 8 warps.
template <int WORDS, int ROWS, int ROOM> GWB_FN void gwb_store_warp(uint8_t *to, int step, int y, int at, int lane, int lanes, const uint32_t w[ROWS][ROOM])
{
    __shared__ uint4 stage[8][8 * WORDS * ROWS];
    uint32_t *own = (uint32_t *)stage[threadIdx.y];
    __syncwarp();       // what was stored before has been read
    GWB_UNROLL
    for (int r = 0; r < ROWS; r++)
        if (WORDS % 2)
            GWB_UNROLL
            for (int i = 0; i < WORDS; i++)
                own[(r * 32 + lane) * WORDS + i] = w[r][i];
        else if (WORDS % 4)
            GWB_UNROLL
            for (int i = 0; i < WORDS; i += 2)
                *(uint2 *)&own[(r * 32 + lane) * WORDS + i] = make_uint2(w[r][i], w[r][i + 1]);
        else
            GWB_UNROLL
            for (int i = 0; i < WORDS; i += 4)
                *(uint4 *)&own[(r * 32 + lane) * WORDS + i] = make_uint4(w[r][i], w[r][i + 1], w[r][i + 2], w[r][i + 3]);
    __syncwarp();
    if (lanes == 32 && (((uint32_t)(uint64_t)to | (uint32_t)step | (uint32_t)at) & 15) == 0) {
        const uint8_t *first = gwb_near(to, step, y, at + lane * 16);
        GWB_UNROLL
        for (int i = 0; i < 8 * WORDS * ROWS; i += 32) {
            const int chunk = i + lane;
            const bool second = i >= 8 * WORDS || (i + 32 > 8 * WORDS && chunk >= 8 * WORDS);     // of the rows
            if (i + 32 <= 8 * WORDS * ROWS || chunk < 8 * WORDS * ROWS)
                *(uint4 *)(first + ((second ? step - 8 * WORDS * 16 : 0) + i * 16)) = stage[threadIdx.y][chunk];
        }
        return;
    }
    GWB_UNROLL
    for (int i = 0; i < WORDS * ROWS; i++) {
        const int word = i % WORDS * 32 + lane;
        if (word < lanes * WORDS)
            *(uint32_t *)gwb_near(to, step, y + i / WORDS, at + word * 4) = own[i / WORDS * 32 * WORDS + word];
    }
}

#endif

// The same for two rows, from w[r][0] on; on the host there is one lane.
GWB_FN void gwb_store_side_by_side(int words, uint8_t *to, int step, int y, int at, int lane, int lanes, uint32_t w[2][8])
{
#if defined(__CUDACC__)
    if (words == 6)
        gwb_store_warp<6, 2, 8>(to, step, y, at, lane, lanes, w);
    else
        gwb_store_warp<8, 2, 8>(to, step, y, at, lane, lanes, w);
#else
    (void)lanes;
    for (int r = 0; r < 2; r++)
        memcpy(gwb_near(to, step, y + r, at + lane * words * 4), w[r], (size_t)words * 4);
#endif
}

#endif
