// SPDX-License-Identifier: MIT
// A program beside this one, at the other end of pipes: started without a shell, what it says on standard error kept for messages, stopped
// at any time, and never left behind as a zombie.
#ifndef GWB_PROGRAM_H
#define GWB_PROGRAM_H

#include "error.h"

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

enum { GWB_PROGRAM_TEXT = 1200 };   // bytes kept of what it says

// One thread uses it, but gwb_program_kill may come from any. All zero, it is none.
typedef struct gwb_program {
    char *name;             // owned
    pid_t pid;              // also its process group
    int in;                 // to its standard input, -1: none. Never blocks
    int out;                // from its standard output, -1: none. Never blocks
    int err;                // from its standard error, -1 once that has ended
    pthread_mutex_t lock;   // over `over` and the signal that is sent while it is not set
    bool over;              // waited for: the pid may be another's
    int status;             // of waitpid
    int64_t said;           // bytes it said in all
    int size;               // bytes of text
    char text[GWB_PROGRAM_TEXT];    // the first half of it, and the last
} gwb_program;

// Starts argv[0], looked for on PATH, with the arguments as they are; a list that ends with NULL. `feeds`: its standard input is `in`, else
// nothing; `gives`: its standard output is `out`, else nothing. GWB_UNSUPPORTED where there is no such program; `advice` says what to do then.
int gwb_program_start(gwb_program *p, const char *const *argv, bool feeds, bool gives, const char *advice);
// Waits until fd (`out`, or `in`; -1: neither) is ready, standard error has ended, or `ms` are over, and keeps what standard error has. 1: fd is
// ready.
int gwb_program_poll(gwb_program *p, int fd, int ms);
// Waits for its end, with `in` closed. 0, or `status` with "NAME ended with ..." and what it said.
int gwb_program_wait(gwb_program *p, int status);
// "ffmpeg says: ..." in `text`; "" where it said nothing.
void gwb_program_quote(const gwb_program *p, char *text, int size);
void gwb_program_kill(gwb_program *p);      // it and its children; from any thread
void gwb_program_free(gwb_program *p);      // kills, waits, closes. Harmless on none

#endif
