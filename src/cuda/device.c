// SPDX-License-Identifier: MIT
// A cuda device: its context, its memory, pinned memory, and whose memory a pointer is.
#include "cuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- the context

enum { MOST_DEVICES = 64 };     // a bit each in gwb_cuda_device.peers
static gwb_device *opened[MOST_DEVICES];    // by the driver's ordinal; set once, under gwb_lock

gwb_device *gwb_cuda_opened(int position)
{
    return position >= 1 && position <= MOST_DEVICES ? __atomic_load_n(&opened[position - 1], __ATOMIC_ACQUIRE) : NULL;
}

CUcontext gwb_cuda_enter(const gwb_device *d)
{
    CUcontext outer = NULL, own = gwb_cuda_of(d)->context;
    gwb_cuda.CtxGetCurrent(&outer);
    if (outer == own)
        return NULL;
    if (gwb_cuda.CtxSetCurrent(own) != 0)
        gwb_cuda.CtxSetCurrent(NULL);
    return outer;
}

void gwb_cuda_leave(CUcontext *outer)
{
    if (*outer)
        gwb_cuda.CtxSetCurrent(*outer);
}

void *gwb_cuda_context(gwb_device *d)
{
    return gwb_cuda_of(d)->context;
}

static void *cuda_enter(gwb_device *d)
{
    return gwb_cuda_enter(d);
}

static void cuda_leave(gwb_device *d, void *outer)
{
    (void)d;
    gwb_cuda_leave(&(CUcontext){outer});
}

// ---- devices

int gwb_cuda_describe(int ordinal, gwb_device_info *info)
{
    CUdevice device;
    size_t bytes = 0;
    int rc = gwb_cuda_check(gwb_cuda.DeviceGet(&device, ordinal), "asking for device %d", ordinal);
    if (rc >= 0)
        rc = gwb_cuda_check(gwb_cuda.DeviceGetName(info->model, (int)sizeof info->model, device), "asking for the name of device %d", ordinal);
    if (rc >= 0)
        rc = gwb_cuda_check(gwb_cuda.DeviceTotalMem(&bytes, device), "asking for the memory of device %d", ordinal);
    static const int attributes[] = {GWB_CUDA_ATTRIBUTE_MAJOR, GWB_CUDA_ATTRIBUTE_MINOR, GWB_CUDA_ATTRIBUTE_UNITS};
    int values[3] = {0};
    for (int i = 0; i < 3 && rc >= 0; i++)
        rc = gwb_cuda_check(gwb_cuda.DeviceGetAttribute(&values[i], attributes[i], device), "asking for attribute %d of device %d", attributes[i], ordinal);
    info->cuda = 1;
    info->index = ordinal;
    info->major = values[0];
    info->minor = values[1];
    info->units = values[2];
    info->memory = (int64_t)bytes;
    snprintf(info->name, sizeof info->name, "cuda:%d", ordinal);
    return rc;
}

// What the device needs once its context is current.
static int set_up(gwb_device *d, CUdevice device)
{
    gwb_cuda_device *c = d->impl;
    int step = 0;
    int rc = gwb_cuda_check(gwb_cuda.CtxGetStreamPriorityRange(&c->least_priority, &c->greatest_priority), "asking %s for its priorities", d->info.name);
    if (rc >= 0)
        rc = gwb_cuda_check(gwb_cuda.DeviceGetAttribute(&step, GWB_CUDA_ATTRIBUTE_MAX_PITCH, device), "asking %s for its largest pitch", d->info.name);
    if (rc >= 0)
        rc = gwb_cuda_check(gwb_cuda.DeviceGetAttribute(&c->most_shared, GWB_CUDA_ATTRIBUTE_SHARED, device), "asking %s for its shared memory", d->info.name);
    c->max_step = step;
    return rc < 0 ? rc : gwb_cuda_module_open(d);
}

static int cuda_open(gwb_device *d)
{
    CUdevice device;
    if (d->info.index >= MOST_DEVICES)
        return gwb_fail(GWB_UNSUPPORTED, "%s: at most %d devices are used", d->info.name, MOST_DEVICES);
    gwb_cuda_device *c = calloc(1, sizeof *c);
    if (!c)
        return gwb_fail(GWB_OUT_OF_MEMORY, "out of host memory");
    int rc = gwb_cuda_check(gwb_cuda.DeviceGet(&device, d->info.index), "opening %s", d->info.name);
    const CUresult opening = rc < 0 ? 0 : gwb_cuda.DevicePrimaryCtxRetain(&c->context, device);
    if (opening >= GWB_CUDA_FIRST_FAULT && opening <= GWB_CUDA_LAST_FAULT)
        rc = gwb_fail(GWB_DEVICE, "%s cannot be opened again: its driver keeps a kernel's fault (%u) for the rest of the process; start the program again, "
                      "or go on with gpu.device(\"host\")", d->info.name, opening);
    else if (rc >= 0)
        rc = gwb_cuda_check(opening, "opening %s", d->info.name);
    if (rc < 0) {
        free(c);
        return rc;
    }
    pthread_mutex_init(&c->lock, NULL);
    d->impl = c;
    {
        CUDA_SCOPE(d);
        rc = set_up(d, device);
    }
    if (rc < 0) {
        gwb_cuda.DevicePrimaryCtxRelease(device);
        pthread_mutex_destroy(&c->lock);
        free(c);
        d->impl = NULL;
        return rc;
    }
    __atomic_store_n(&opened[d->info.index], d, __ATOMIC_RELEASE);
    return 0;
}

// The primary context goes, whoever else uses it: that also ends the state in which a fault has left it. Other libraries in the process lose it too.
static void cuda_reset(gwb_device *d)
{
    gwb_cuda_device *c = gwb_cuda_of(d);
    CUcontext current = NULL;
    CUdevice device;
    gwb_cuda.CtxGetCurrent(&current);
    if (current == c->context)
        gwb_cuda.CtxSetCurrent(NULL);
    __atomic_store_n(&opened[d->info.index], NULL, __ATOMIC_RELEASE);
    for (int i = 0; i < MOST_DEVICES; i++)      // others that reached its memory ask again
        if (opened[i])
            gwb_cuda_of(opened[i])->peers &= ~(UINT64_C(1) << d->info.index);
    if (gwb_cuda.DeviceGet(&device, d->info.index) == 0) {
        gwb_cuda.DevicePrimaryCtxReset(device);
        gwb_cuda.DevicePrimaryCtxRelease(device);
    }
    pthread_mutex_destroy(&c->lock);
    free(c->spare);
    free(c);
    d->impl = NULL;
}

static int cuda_synchronize(gwb_device *d)
{
    CUDA_SCOPE(d);
    const int rc = gwb_cuda_check(gwb_cuda.CtxSynchronize(), "waiting for %s", d->info.name);
    if (rc >= 0) {
        gwb_cuda_device *c = gwb_cuda_of(d);
        pthread_mutex_lock(&c->lock);
        memset(c->notes, 0, sizeof c->notes);
        pthread_mutex_unlock(&c->lock);
    }
    return rc;
}

// ---- memory

static int cuda_memory(gwb_device *d, int64_t *free_bytes, int64_t *total)
{
    CUDA_SCOPE(d);
    size_t left = 0, all = 0;
    int rc = gwb_cuda_check(gwb_cuda.MemGetInfo(&left, &all), "asking %s for its free memory", d->info.name);
    *free_bytes = (int64_t)left;
    *total = (int64_t)all;
    return rc;
}

static int cuda_alloc(gwb_device *d, int64_t bytes, void **out)
{
    CUDA_SCOPE(d);
    CUdeviceptr memory = 0;
    int rc = gwb_cuda_check(gwb_cuda.MemAlloc(&memory, (size_t)bytes), "%s: taking %lld bytes", d->info.name, (long long)bytes);
    *out = (void *)(uintptr_t)memory;
    return rc;
}

// Failures are left alone here and below: there is nobody to tell, and at the process's end, or with a lost context, the memory is gone anyway.
static void cuda_release(gwb_device *d, void *memory, int64_t bytes)
{
    (void)bytes;
    CUDA_SCOPE(d);
    gwb_cuda.MemFree((uintptr_t)memory);
}

// Any device's context will do for pinned memory: one that is open, else the first.
static gwb_device *any_device(void)
{
    for (int i = 1; i <= MOST_DEVICES; i++)
        if (gwb_cuda_opened(i))
            return gwb_cuda_opened(i);
    return gwb_device_at(1);
}

int gwb_cuda_pinned_alloc(int64_t bytes, void **out, gwb_device **holder)
{
    if (gwb_device_count() < 2)
        return gwb_fail(GWB_UNSUPPORTED, "page-locked memory needs a cuda device: %s", gwb_cuda_absent());
    gwb_device *d = any_device();
    if (!d)
        return GWB_NO_DEVICE;
    CUDA_SCOPE(d);
    *holder = d;
    return gwb_cuda_check(gwb_cuda.MemHostAlloc(out, (size_t)bytes, GWB_CUDA_HOST_PORTABLE), "taking %lld bytes of page-locked memory", (long long)bytes);
}

void gwb_cuda_pinned_release(void *memory, gwb_device *holder)
{
    CUDA_SCOPE(holder);
    gwb_cuda.MemFreeHost(memory);
}

// The driver, where it serves this process; it is not loaded for this question alone, since without it no pointer can be a device's.
static bool driver_at_hand(void)
{
    void *loaded = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (!loaded)
        return false;
    dlclose(loaded);
    return gwb_device_count() > 1;
}

int gwb_cuda_pointer(const void *pointer, int *space, const uint8_t **first, int64_t *bytes)
{
    *space = GWB_SPACE_PAGEABLE;
    *first = NULL;
    *bytes = 0;
    if (!driver_at_hand())
        return 0;
    unsigned int type = 0;
    int ordinal = 0;
    CUdeviceptr start = 0;
    size_t size = 0;
    int attributes[] = {GWB_CUDA_POINTER_MEMORY_TYPE, GWB_CUDA_POINTER_ORDINAL, GWB_CUDA_POINTER_RANGE_START, GWB_CUDA_POINTER_RANGE_SIZE};
    void *values[] = {&type, &ordinal, &start, &size};
    // a pointer that the driver does not know is a success with zeros
    if (gwb_cuda.PointerGetAttributes(4, attributes, values, (uintptr_t)pointer) != 0)
        return 0;
    if (type == GWB_CUDA_MEMORY_DEVICE || type == GWB_CUDA_MEMORY_UNIFIED)
        *space = 1 + ordinal;
    else if (type == GWB_CUDA_MEMORY_HOST)
        *space = GWB_SPACE_PINNED;
    else
        return 0;
    *first = (const uint8_t *)(uintptr_t)start;
    *bytes = (int64_t)size;
    return start && size ? 1 : 0;
}

int gwb_cuda_managed(const void *pointer)
{
    unsigned int managed = 0;
    int attributes[] = {GWB_CUDA_POINTER_MANAGED};
    void *values[] = {&managed};
    return driver_at_hand() && gwb_cuda.PointerGetAttributes(1, attributes, values, (uintptr_t)pointer) == 0 && managed != 0;
}

const gwb_device_ops gwb_cuda_ops = {
    .open = cuda_open, .memory = cuda_memory, .alloc = cuda_alloc, .release = cuda_release, .synchronize = cuda_synchronize,
    .queue_open = gwb_cuda_queue_open, .queue_close = gwb_cuda_queue_close, .queue_retire = gwb_cuda_queue_retire,
    .queue_done = gwb_cuda_queue_done, .queue_wait = gwb_cuda_queue_wait, .queue_after = gwb_cuda_queue_after,
    .event_open = gwb_cuda_event_open, .event_close = gwb_cuda_event_close, .event_record = gwb_cuda_event_record, .event_after = gwb_cuda_event_after,
    .event_query = gwb_cuda_event_query, .event_wait = gwb_cuda_event_wait, .event_elapsed = gwb_cuda_event_elapsed,
    .share_create = gwb_cuda_share_create, .share_open = gwb_cuda_share_open, .share_close = gwb_cuda_share_close,
    .event_share = gwb_cuda_event_share, .event_join = gwb_cuda_event_join, .identify = gwb_cuda_identify,
    .copy = gwb_cuda_copy, .launch = gwb_cuda_launch, .sleep = gwb_cuda_sleep,
    .record_begin = gwb_cuda_record_begin, .record_end = gwb_cuda_record_end, .record_launch = gwb_cuda_record_launch,
    .record_replace = gwb_cuda_record_replace, .record_close = gwb_cuda_record_close,
    .kernel_open = gwb_cuda_kernel_open, .kernel_close = gwb_cuda_kernel_close, .kernel_launch = gwb_cuda_kernel_launch, .enter = cuda_enter, .leave = cuda_leave,
    .reset = cuda_reset,
};
