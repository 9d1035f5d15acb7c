// SPDX-License-Identifier: MIT
// The list of devices, and which one is current.
#include "device.h"

#include "stream.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static gwb_device *devices;     // [0] is the host
static int device_count;
static int current = -1;        // not chosen yet
static atomic_bool found;
static const char *absent;      // why there is no cuda device

static pthread_mutex_t lock;
static pthread_once_t once = PTHREAD_ONCE_INIT;
bool gwb_forked;

// gwb_lock is recursive, so that a call that is open to scripts may be used inside too.
static void open_lock(void)
{
    pthread_mutexattr_t attr;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&lock, &attr);
    pthread_mutexattr_destroy(&attr);
}

static void in_child(void)
{
    gwb_forked = true;
    open_lock();    // a thread that stayed in the parent may have held it
}

int gwb_check_fork(void)
{
    return !gwb_forked ? 0 : gwb_fail(GWB_NO_DEVICE, "this process was forked from one that had used gpuwb already, and has neither its threads nor its "
                                      "devices; use gpuwb in the child alone (multiprocessing's \"spawn\", nginx's init_worker_by_lua)");
}

static void find_devices(void)
{
    open_lock();
    pthread_atfork(NULL, NULL, in_child);

    const char *wanted = getenv("GPUWB_DEVICE");
    int cuda = wanted && strcmp(wanted, "host") == 0 ? 0 : gwb_cuda_count(&absent);
    if (wanted && strcmp(wanted, "host") == 0)
        absent = "the host device was asked for (GPUWB_DEVICE=host or --device host)";
    devices = calloc((size_t)cuda + 1, sizeof *devices);
    if (!devices)
        abort();
    for (int i = 0; i <= cuda; i++) {
        gwb_device *d = &devices[i];
        d->position = i;
        if (i == 0) {
            d->ops = &gwb_host_ops;
            gwb_host_describe(&d->info);
            snprintf(d->info.name, sizeof d->info.name, "host");
        } else {
            d->ops = &gwb_cuda_ops;
            d->info.cuda = 1;
            d->info.index = i - 1;
            gwb_cuda_describe(i - 1, &d->info);
            snprintf(d->info.name, sizeof d->info.name, "cuda:%d", i - 1);
        }
    }
    device_count = cuda + 1;
    found = true;
}

bool gwb_devices_found(void)
{
    return found;
}

void gwb_device_settle(int position)
{
    gwb_device *d = &devices[position];
    if (d->is_open && !gwb_forked)
        d->ops->synchronize(d);
}

void gwb_lock(void)
{
    pthread_once(&once, find_devices);
    pthread_mutex_lock(&lock);
}

void gwb_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

int gwb_device_count(void)
{
    pthread_once(&once, find_devices);
    return device_count;
}

const char *gwb_cuda_absent(void)
{
    return gwb_device_count() > 1 ? NULL : absent;
}

gwb_device *gwb_device_at(int position)
{
    int count = gwb_device_count();
    if (position < 0 || position >= count) {
        gwb_fail(GWB_NO_DEVICE, "there is no device number %d; there are %d", position, count);
        return NULL;
    }
    if (gwb_check_fork() < 0)
        return NULL;
    gwb_device *d = &devices[position];
    gwb_lock();
    if (!d->is_open)
        d->is_open = d->ops->open(d) >= 0;
    gwb_unlock();
    return d->is_open ? d : NULL;
}

int gwb_device_info_get(int device, gwb_device_info *info)
{
    if (device < 0 || device >= gwb_device_count())
        return gwb_fail(GWB_NO_DEVICE, "there is no device number %d; there are %d", device, device_count);
    *info = devices[device].info;
    return 0;
}

int gwb_device_find(const char *name)
{
    int count = gwb_device_count();
    if (!name)
        return gwb_fail(GWB_BAD_ARGUMENT, "no device name; wanted \"host\", \"cuda\" or \"cuda:N\"");
    for (int i = 0; i < count; i++)
        if (strcmp(devices[i].info.name, name) == 0)
            return i;
    bool cuda = strncmp(name, "cuda", 4) == 0 && (!name[4] || (name[4] == ':' && name[5] && strspn(name + 5, "0123456789") == strlen(name + 5)));
    if (cuda && !name[4] && count > 1)
        return 1;
    if (cuda && count > 1)
        return gwb_fail(GWB_NO_DEVICE, "there is no %s; there are %d cuda devices, counted from 0", name, count - 1);
    if (cuda)
        return gwb_fail(GWB_NO_DEVICE, "there is no %s: %s", name, absent ? absent : "no cuda device");
    return gwb_fail(GWB_BAD_ARGUMENT, "\"%.60s\" names no device; wanted \"host\", \"cuda\" or \"cuda:N\"", name);
}

int gwb_device_current(void)
{
    int count = gwb_device_count();
    gwb_lock();
    int device = current;
    if (device < 0) {
        const char *wanted = getenv("GPUWB_DEVICE");
        device = wanted && wanted[0] ? gwb_device_find(wanted) : count > 1 ? 1 : 0;
        if (device < 0 && wanted && wanted[0]) {
            char why[512];
            snprintf(why, sizeof why, "%s", gwb_error_message());
            gwb_fail(device, "%s (GPUWB_DEVICE or --device says %.60s)", why, wanted);
        }
        current = device;
    }
    gwb_unlock();
    return device;
}

int gwb_device_use(int device)
{
    if (!gwb_device_at(device))
        return GWB_NO_DEVICE;
    gwb_lock();
    current = device;
    gwb_unlock();
    return 0;
}

gwb_device *gwb_device_peek(int position)
{
    return &devices[position];
}

enum { RESET_CALLS = 4 };
static void (*before_reset[RESET_CALLS])(void);     // under gwb_lock

void gwb_call_before_reset(void (*fn)(void))
{
    gwb_lock();
    int i = 0;
    while (before_reset[i] && before_reset[i] != fn)
        i++;
    before_reset[i] = fn;
    gwb_unlock();
}

int gwb_reset(int device)
{
    if (device < 0 || device >= gwb_device_count())
        return gwb_fail(GWB_NO_DEVICE, "there is no device number %d; there are %d", device, device_count);
    if (gwb_check_fork() < 0)
        return GWB_NO_DEVICE;
    gwb_device *d = &devices[device];
    for (int i = 0; i < RESET_CALLS && before_reset[i]; i++)
        before_reset[i]();
    for (int i = 0; i < device_count; i++)      // others may wait for this one; one that failed does not wait
        gwb_device_settle(i);
    gwb_lock();
    if (d->is_open) {
        gwb_buf_lose(d);
        gwb_queue *q = d->default_queue;
        d->default_queue = NULL;
        if (q)
            gwb_queue_release(q);
        q = d->legacy_queue;
        d->legacy_queue = NULL;
        if (q)
            gwb_queue_release(q);
        d->epoch++;
        d->ops->reset(d);
        d->is_open = false;
    }
    gwb_unlock();
    return 0;
}

int gwb_resets(int device)
{
    if (device < 0 || device >= gwb_device_count())
        return gwb_fail(GWB_NO_DEVICE, "there is no device number %d; there are %d", device, device_count);
    return (int)(devices[device].epoch & INT32_MAX);
}

gwb_device *gwb_device_default(void)
{
    int device = gwb_device_current();
    return device < 0 ? NULL : gwb_device_at(device);
}

int gwb_synchronize(int device)
{
    gwb_device *d = gwb_device_at(device);
    return d ? gwb_device_wait(d) : GWB_NO_DEVICE;
}
