// SPDX-License-Identifier: MIT
// gpuwb's C interface: the types and calls that scripts reach by FFI, for C and C++ programs that link libgpuwb.so.
//
// Rules that hold for every call:
// - A function that can fail returns 0, or a negative gwb_status; gwb_error_message() then tells the story to the calling thread.
// - A struct filled by NAME_create, NAME_wrap or NAME_view is the caller's, and holds a counted reference until NAME_close; closing twice is
//   harmless, and every call on a closed one fails with GWB_CLOSED. The struct may be moved as long as one copy is closed once.
// - Work is asynchronous on its stream (NULL: the device's default stream) unless the call says that it waits. Work is ordered by data: an
//   operation waits for the operations on other streams that wrote what it reads, or read or wrote what it writes.
// - Calls may come from any thread; two threads must not use the same struct at once.
// - No device survives a fork: in the child of a process that has used one, each call fails with GWB_NO_DEVICE and closing leaves things as they are.
#ifndef GWB_H
#define GWB_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Each status: name, and what it means where no better text is at hand.
#define GWB_STATUSES(_) \
    _(BAD_ARGUMENT, "an argument is out of its range") \
    _(CLOSED, "the object is closed") \
    _(READ_ONLY, "the memory is read-only") \
    _(SHAPE, "sizes or types do not match") \
    _(OUT_OF_MEMORY, "out of memory") \
    _(LIMIT, "a limit that was set is reached") \
    _(NO_DEVICE, "no such device") \
    _(DEVICE, "the device reports an error") \
    _(UNSUPPORTED, "not supported") \
    _(SUSPICIOUS, "a copy that is hardly meant") \
    _(NOT_READY, "not recorded yet") \
    _(NO_FILE, "no such file") \
    _(IO, "reading or writing failed") \
    _(BAD_FILE, "the file is damaged or not what it says") \
    _(COMPILE, "a kernel does not compile") \
    _(INTERRUPTED, "the wait was broken off") \
    _(INTERNAL, "a fault in gpuwb itself")

#define GWB_STATUS_POSITION(name, text) GWB_POSITION_##name,
enum { GWB_POSITION_OK, GWB_STATUSES(GWB_STATUS_POSITION) GWB_STATUS_COUNT };
#undef GWB_STATUS_POSITION
#define GWB_STATUS_VALUE(name, text) GWB_##name = -(int)GWB_POSITION_##name,
typedef enum gwb_status { GWB_OK, GWB_STATUSES(GWB_STATUS_VALUE) GWB_STATUS_LAST = -(int)GWB_STATUS_COUNT } gwb_status;
#undef GWB_STATUS_VALUE

#pragma GCC visibility push(default)
#include "abi_types.h"
#include "abi_calls.h"
#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
