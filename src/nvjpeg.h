// SPDX-License-Identifier: MIT
// JPEG files to mats on a cuda device by nvJPEG, for the threads that read ahead.
#ifndef GWB_NVJPEG_H
#define GWB_NVJPEG_H

#include "device.h"

// nvJPEG's objects on a device. A reset of the device takes them with it.
typedef struct gwb_jpeg_decoder gwb_jpeg_decoder;
int gwb_jpeg_decoder_open(const gwb_nvjpeg *lib, int device, gwb_jpeg_decoder **decoder);
void gwb_jpeg_decoder_close(gwb_jpeg_decoder *decoder);     // NULL is fine; its states are closed before

// What one thread decodes with; `stream` is the thread's own and stays open as long.
typedef struct gwb_jpeg_state {
    gwb_jpeg_decoder *decoder;
    const gwb_stream *stream;
    void *handle;               // made with the first picture
} gwb_jpeg_state;
void gwb_jpeg_state_close(gwb_jpeg_state *state);

// Decodes into new mats, which are the caller's then, and waits for it. `picture` gets all but pixels; it lies as stored. A failure leaves neither.
int gwb_jpeg_decode(gwb_jpeg_state *state, const gwb_bytes *file, const char *name, const gwb_read_params *read, gwb_picture *picture,
                    gwb_mat mats[GWB_MAX_PLANES]);

#endif
