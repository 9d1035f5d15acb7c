// SPDX-License-Identifier: MIT
// Another library that makes and consumes DLPack tensors, for tests/dlpack_spec.lua: it counts its deleters' calls, and deletes on threads of its own.
#include "gwb.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define API __attribute__((visibility("default")))

static atomic_int deleted;

API int test_deleted(void)
{
    return deleted;
}

__attribute__((destructor)) static void report(void)
{
    if (getenv("DLPACK_REPORT"))
        printf("%d deleted\n", deleted);
}

// What a tensor's lists are in: freed by its deleter, so that a sanitizer sees who looks at them later.
typedef struct lists { int64_t shape[8], strides[8]; } lists;

static void delete_plain(gwb_dl_managed *t)
{
    deleted++;
    free(t->manager_ctx);
    memset(t, 0xa5, sizeof *t);
    free(t);
}

static void delete_versioned(gwb_dl_versioned *t)
{
    deleted++;
    free(t->manager_ctx);
    memset(t, 0xa5, sizeof *t);
    free(t);
}

static void fill(gwb_dl_tensor *t, lists *l, void *data, int type, int id)
{
    *t = (gwb_dl_tensor){data, {type, id}, 2, {1, 8, 1}, l->shape, l->strides, 0};
}

// Tensors over `data`, whose fields are then for the caller to set; lists of 8.
API gwb_dl_managed *test_plain(void *data, int type, int id)
{
    gwb_dl_managed *t = malloc(sizeof *t);
    t->manager_ctx = calloc(1, sizeof(lists));
    t->deleter = delete_plain;
    fill(&t->dl_tensor, t->manager_ctx, data, type, id);
    return t;
}

API gwb_dl_versioned *test_versioned(void *data, int type, int id)
{
    gwb_dl_versioned *t = malloc(sizeof *t);
    t->version = (gwb_dl_version){1, 0};
    t->manager_ctx = calloc(1, sizeof(lists));
    t->deleter = delete_versioned;
    t->flags = 0;
    fill(&t->dl_tensor, t->manager_ctx, data, type, id);
    return t;
}

// A tensor of version 2.0, which has nothing behind its deleter that may be read: the memory ends there.
API gwb_dl_versioned *test_newer(void)
{
    unsigned char *raw = malloc(offsetof(gwb_dl_versioned, flags));
    gwb_dl_versioned *t = (void *)raw;
    memset(raw, 0xee, offsetof(gwb_dl_versioned, flags));
    t->version = (gwb_dl_version){2, 0};
    return t;
}

static void delete_newer(gwb_dl_versioned *t)
{
    deleted++;
    free(t);
}

API void test_arm_newer(gwb_dl_versioned *t)
{
    t->deleter = delete_newer;
}

// ---- a consumer with threads

typedef struct batch { void **list; int count, versioned; } batch;

static void *consume(void *arg)
{
    const batch *b = arg;
    for (int i = 0; i < b->count; i++) {
        gwb_dl_managed *plain = b->list[i];
        gwb_dl_versioned *versioned = b->list[i];
        if (b->versioned)
            versioned->deleter(versioned);
        else
            plain->deleter(plain);
    }
    return NULL;
}

enum { MOST_THREADS = 8 };
static pthread_t threads[MOST_THREADS];
static batch batches[MOST_THREADS];
static int running;

// Deletes `count` tensors on each of `n` threads, list being n * count long; returns at once.
API void test_delete_start(void **list, int count, int n, int versioned)
{
    for (running = 0; running < n; running++) {
        batches[running] = (batch){list + running * count, count, versioned};
        if (pthread_create(&threads[running], NULL, consume, &batches[running]) != 0)
            abort();
    }
}

API void test_delete_join(void)
{
    for (int i = 0; i < running; i++)
        pthread_join(threads[i], NULL);
    running = 0;
}
