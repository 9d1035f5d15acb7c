// SPDX-License-Identifier: MIT
// The C interface as a program without Lua uses it: linked to libgpuwb.so, on the host device.
#include "gwb.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static int failures;

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            printf("%s:%d: %s (last error: %s)\n", __FILE__, __LINE__, #condition, gwb_error_message()); \
            failures++; \
        } \
    } while (0)

static void check_library(void)
{
    CHECK(gwb_version()[0] != 0);
    CHECK(strcmp(gwb_status_name(GWB_OUT_OF_MEMORY), "OUT_OF_MEMORY") == 0);
    CHECK(strcmp(gwb_status_name(GWB_OK), "OK") == 0);
    CHECK(strcmp(gwb_status_name(1), gwb_status_name(-1000)) == 0);
    CHECK(gwb_status_text(GWB_SHAPE)[0] != 0);
    CHECK(gwb_abi_size("gwb_mat") == (int64_t)sizeof(gwb_mat));
    CHECK(gwb_abi_size("gwb_copy_report") == (int64_t)sizeof(gwb_copy_report));
    CHECK(gwb_abi_size("gwb_nothing") == -1);
    CHECK(strcmp(gwb_type_name(GWB_F16), "f16") == 0 && gwb_type_size(GWB_F16) == 2);
    CHECK(gwb_type_name(GWB_TYPES) == NULL && gwb_type_name(-1) == NULL && gwb_type_size(99) == 0);
}

static void check_devices(void)
{
    gwb_device_info info;
    CHECK(gwb_device_count() >= 1);
    CHECK(gwb_device_info_get(0, &info) == GWB_OK && strcmp(info.name, "host") == 0 && !info.cuda && info.memory > 0);
    CHECK(gwb_device_find("host") == 0);
    CHECK(gwb_device_find("toaster") < 0 && strstr(gwb_error_message(), "toaster"));
    CHECK(gwb_device_use(gwb_device_count()) == GWB_NO_DEVICE);
    CHECK(gwb_device_use(0) == GWB_OK && gwb_device_current() == 0);
    CHECK((gwb_device_count() == 1) == (gwb_cuda_absent() != NULL));
}

static void check_mats(void)
{
    enum { WIDTH = 5, HEIGHT = 3 };
    uint8_t in[HEIGHT][WIDTH], out[HEIGHT][WIDTH] = { { 0 } }, part[2][2];
    for (int i = 0; i < WIDTH * HEIGHT; i++) in[i / WIDTH][i % WIDTH] = (uint8_t)(i * 7);

    gwb_memory before, during, after;
    CHECK(gwb_memory_get(0, &before) == GWB_OK);
    gwb_mat mat, copy, view;
    CHECK(gwb_mat_create(&mat, 0, WIDTH, HEIGHT, GWB_U8, 1, NULL) == GWB_OK);
    CHECK(mat.tag == GWB_MAT_TAG && mat.width == WIDTH && mat.height == HEIGHT && mat.elem_size == 1 && mat.step % 64 == 0);
    CHECK(gwb_memory_get(0, &during) == GWB_OK && during.used > before.used);
    CHECK(gwb_upload(&mat, in, 0, NULL) == GWB_OK);
    CHECK(gwb_download(out, 0, &mat, NULL) == GWB_OK && memcmp(in, out, sizeof in) == 0);

    double value = 0;
    CHECK(gwb_mat_at(&mat, 4, 2, &value) == GWB_OK && value == 14 * 7);
    CHECK(gwb_mat_at(&mat, 5, 2, &value) < 0);
    CHECK(gwb_mat_view(&view, &mat, 3, 1, 2, 2) == GWB_OK && view.step == mat.step && view.data == mat.data + mat.step + 3);
    CHECK(gwb_mat_view(&copy, &mat, 4, 0, 2, 1) < 0);

    // A view keeps the memory alive, and a closed mat is an error, not a crash.
    gwb_mat_close(&mat);
    gwb_mat_close(&mat);
    CHECK(gwb_download(out, 0, &mat, NULL) == GWB_CLOSED);
    CHECK(gwb_download(part, 0, &view, NULL) == GWB_OK && part[0][0] == in[1][3] && part[1][1] == in[2][4]);

    CHECK(gwb_mat_create(&copy, 0, 2, 2, GWB_F32, 1, NULL) == GWB_OK);
    float scaled[2][2] = { { 0 } };
    CHECK(gwb_copy(&copy, &view, NULL) == GWB_SHAPE);
    CHECK(gwb_cast(&copy, &view, 0.5, 1, 0, NULL) == GWB_OK);
    CHECK(gwb_download(scaled, 0, &copy, NULL) == GWB_OK && scaled[1][0] == (float)in[2][3] * 0.5f + 1);
    gwb_mat_close(&view);
    gwb_mat_close(&copy);
    CHECK(gwb_synchronize(0) == GWB_OK);
    CHECK(gwb_trim(0) >= 0);
    CHECK(gwb_memory_get(0, &after) == GWB_OK && after.used == before.used);

    CHECK(gwb_mat_create(&mat, 0, -1, 3, GWB_U8, 1, NULL) == GWB_BAD_ARGUMENT);
    CHECK(gwb_mat_create(&mat, 0, 1, 3, GWB_TYPES, 1, NULL) == GWB_BAD_ARGUMENT);
    CHECK(gwb_mat_create(&mat, 0, 1, 3, GWB_U8, 5, NULL) == GWB_BAD_ARGUMENT);
    CHECK(gwb_mat_create(&mat, 0, 0, 0, GWB_U8, 1, NULL) == GWB_OK && gwb_download(out, 0, &mat, NULL) == GWB_OK);
    gwb_mat_close(&mat);
}

// Streams keep order, and work on two of them is ordered by the data that both touch.
static void check_streams(void)
{
    gwb_stream slow, other;
    gwb_mat mat;
    uint8_t bytes[4] = { 0 };
    const double first = 1, second = 2;
    CHECK(gwb_stream_create(&slow, 0, NULL) == GWB_OK && gwb_stream_create(&other, 0, NULL) == GWB_OK);
    CHECK(gwb_mat_create(&mat, 0, 4, 1, GWB_U8, 1, NULL) == GWB_OK);
    CHECK(gwb_stream_sleep(&slow, 50) == GWB_OK);
    CHECK(gwb_fill(&mat, &first, &slow) == GWB_OK);
    CHECK(gwb_stream_query(&slow) == 0 && gwb_mat_pending(&mat) == 1);
    CHECK(gwb_fill(&mat, &second, &other) == GWB_OK);
    CHECK(gwb_download(bytes, 0, &mat, NULL) == GWB_OK && bytes[0] == 2 && bytes[3] == 2);
    CHECK(gwb_stream_query(&slow) == 1);
    gwb_mat_close(&mat);
    gwb_stream_close(&slow);
    gwb_stream_close(&other);
    CHECK(gwb_fill(&mat, &first, &other) == GWB_CLOSED);
}

// A tensor holds the memory until its deleter is called, from whatever thread; one that comes back is the same memory.
static void *delete_from_thread(void *tensor)
{
    gwb_dl_versioned *t = tensor;
    t->deleter(t);
    return NULL;
}

static void check_exchange(void)
{
    gwb_memory before, during, after;
    gwb_mat mat, copy, *mats[4] = { &copy };
    const gwb_mat *planes[4] = { &mat };
    const double value = 7;
    uint8_t bytes[6] = { 0 };
    void *first, *second, *old, *none;
    int count = 0;
    CHECK(gwb_memory_get(0, &before) == GWB_OK);
    CHECK(gwb_mat_create(&mat, 0, 3, 2, GWB_U8, 1, NULL) == GWB_OK && gwb_fill(&mat, &value, NULL) == GWB_OK);
    CHECK(gwb_dlpack_export(&first, planes, 1, 1) == GWB_OK && gwb_dlpack_export(&second, planes, 1, 1) == GWB_OK);
    CHECK(gwb_dlpack_export(&old, planes, 1, 0) == GWB_OK && gwb_dlpack_export(&none, planes, 0, 0) == GWB_BAD_ARGUMENT && !none);
    CHECK(gwb_mat_ready(&mat, NULL) == GWB_OK);
    gwb_mat_close(&mat);
    const gwb_dl_tensor *t = &((gwb_dl_versioned *)first)->dl_tensor;
    CHECK(t->ndim == 2 && t->shape[0] == 2 && t->shape[1] == 3 && t->strides[1] == 1 && ((uint8_t *)t->data)[0] == 7);
    CHECK(gwb_dlpack_import(mats, &count, first, 1, 0) == GWB_OK && count == 1 && copy.data == t->data);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, delete_from_thread, second) == 0 && pthread_join(thread, NULL) == 0);
    CHECK(gwb_download(bytes, 0, &copy, NULL) == GWB_OK && bytes[5] == 7);
    CHECK(gwb_memory_get(0, &during) == GWB_OK && during.used > before.used);
    gwb_mat_close(&copy);
    while (gwb_released_owner(0))
        ;
    CHECK(gwb_deleters_due() == 1);
    gwb_run_deleters();
    CHECK(gwb_deleters_due() == 0);
    CHECK(gwb_dlpack_import(mats, &count, NULL, 1, 0) == GWB_BAD_ARGUMENT && count == 0);
    gwb_dlpack_delete(NULL, 1);
    CHECK(gwb_memory_get(0, &after) == GWB_OK && after.used > before.used);
    gwb_dlpack_delete(old, 0);
    CHECK(gwb_memory_get(0, &after) == GWB_OK && after.used == before.used);
}

static void *use_from_thread(void *result)
{
    gwb_mat mat;
    const double value = 9;
    uint8_t bytes[64 * 64];
    for (int round = 0; round < 50; round++) {
        if (gwb_mat_create(&mat, 0, 64, 64, GWB_U8, 1, NULL) != GWB_OK) return NULL;
        if (gwb_fill(&mat, &value, NULL) != GWB_OK || gwb_download(bytes, 0, &mat, NULL) != GWB_OK) return NULL;
        if (bytes[0] != 9 || bytes[sizeof bytes - 1] != 9) return NULL;
        gwb_mat_close(&mat);
    }
    // Each thread has its own last error.
    if (gwb_device_find("nowhere") >= 0 || !strstr(gwb_error_message(), "nowhere")) return NULL;
    *(int *)result = 1;
    return NULL;
}

static void check_threads(void)
{
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    int good[THREADS] = { 0 };
    CHECK(gwb_device_find("toaster") < 0);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, use_from_thread, &good[i]) == 0);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0 && good[i]);
    CHECK(strstr(gwb_error_message(), "toaster"));
}

int main(void)
{
    check_library();
    check_devices();
    check_mats();
    check_streams();
    check_exchange();
    check_threads();
    return failures ? 1 : 0;
}
