// SPDX-License-Identifier: MIT
// The last error of each thread.
#ifndef GWB_ERROR_H
#define GWB_ERROR_H

#include "gwb.h"

// Keeps the text for gwb_error_message() of this thread and returns `status`, so that a caller says `return gwb_fail(...)`.
// The text is a sentence without a full stop: what was given, what was wanted, what to do. Cut at 2000 bytes.
int gwb_fail(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
