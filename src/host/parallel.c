// SPDX-License-Identifier: MIT
// Rows of work over the machine's threads.
#include "parallel.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

// A call of gwb_parallel under way; lives on its caller's stack.
typedef struct task {
    gwb_rows_fn *fn;
    void *context;
    int64_t rows, chunk;    // a run is `chunk` rows
    int64_t next;           // first row nobody took
    int helpers;            // pool threads inside
    struct task *below;     // the task that was newest before
} task;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER;      // a task came
static pthread_cond_t left = PTHREAD_COND_INITIALIZER;      // a helper left a task
static task *tasks;         // newest first
static int threads;         // 0: not counted yet
static pthread_once_t once = PTHREAD_ONCE_INIT;

// Takes runs of `t` until none is left. Called with the lock, returns with it.
static void take_runs(task *t)
{
    while (t->next < t->rows) {
        int64_t first = t->next;
        int64_t end = t->rows - first < t->chunk ? t->rows : first + t->chunk;
        t->next = end;
        pthread_mutex_unlock(&lock);
        t->fn(t->context, first, end);
        pthread_mutex_lock(&lock);
    }
}

static void *help(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&lock);
    for (;;) {
        task *t = tasks;
        while (t && t->next >= t->rows)
            t = t->below;
        if (!t) {
            pthread_cond_wait(&work, &lock);
            continue;
        }
        t->helpers++;
        take_runs(t);
        if (--t->helpers == 0)
            pthread_cond_broadcast(&left);
    }
    return NULL;
}

static void start(void)
{
    const char *wanted = getenv("GPUWB_THREADS");
    int n = wanted ? atoi(wanted) : 0;
    cpu_set_t set;
    if (n < 1)
        n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    threads = n < 1 ? 1 : n > 256 ? 256 : n;
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    for (int i = 1; i < threads; i++) {
        pthread_t thread;
        if (pthread_create(&thread, &attr, help, NULL) != 0)
            break;
    }
    pthread_attr_destroy(&attr);
}

int gwb_parallel_threads(void)
{
    pthread_once(&once, start);
    return threads;
}

void gwb_parallel(int64_t rows, int64_t grain, gwb_rows_fn *fn, void *context)
{
    int n = gwb_parallel_threads();
    if (grain < 1)
        grain = 1;
    if (n == 1 || rows <= grain) {
        if (rows > 0)
            fn(context, 0, rows);
        return;
    }
    // four runs a thread even out threads that were held up
    int64_t chunk = (rows + 4 * n - 1) / (4 * n);
    task t = {.fn = fn, .context = context, .rows = rows, .chunk = chunk < grain ? grain : chunk};
    pthread_mutex_lock(&lock);
    t.below = tasks;
    tasks = &t;
    pthread_cond_broadcast(&work);
    take_runs(&t);
    for (task **at = &tasks; *at; at = &(*at)->below)
        if (*at == &t) {
            *at = t.below;
            break;
        }
    while (t.helpers > 0)
        pthread_cond_wait(&left, &lock);
    pthread_mutex_unlock(&lock);
}
