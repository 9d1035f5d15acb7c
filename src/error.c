// SPDX-License-Identifier: MIT
// The last error of each thread.
#include "error.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local char message[2048];

#define STATUS_NAME(name, text) #name,
#define STATUS_TEXT(name, text) text,
static const char *const names[GWB_STATUS_COUNT] = {"OK", GWB_STATUSES(STATUS_NAME)};
static const char *const texts[GWB_STATUS_COUNT] = {"no error", GWB_STATUSES(STATUS_TEXT)};

int gwb_fail(int status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return status;
}

const char *gwb_status_name(int status)
{
    return status <= 0 && status > GWB_STATUS_LAST ? names[-status] : "UNKNOWN";
}

const char *gwb_error_message(void)
{
    return message[0] ? message : texts[0];
}

const char *gwb_status_text(int status)
{
    return status <= 0 && status > GWB_STATUS_LAST ? texts[-status] : "unknown status";
}
