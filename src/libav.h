// SPDX-License-Identifier: MIT
// gpuwb_av.so, opened when it is first asked for and never closed.
#ifndef GWB_LIBAV_H
#define GWB_LIBAV_H

#include "av/av.h"

// Its calls; NULL with the error set (GWB_UNSUPPORTED) where it is not there or does not open.
const gwb_av_calls *gwb_libav_calls(void);

#endif
