// SPDX-License-Identifier: MIT
// Memory and events of a cuda device that other processes open, by the driver's handles of 64 bytes, written in hex.
#include "cuda.h"

#include <stdio.h>
#include <string.h>

static void write_hex(char *text, const unsigned char *bytes, int count)
{
    for (int i = 0; i < count; i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
}

static int read_hex(gwb_cuda_ipc *handle, const char *text)
{
    static const char digits[] = "0123456789abcdef";
    if (strlen(text) != 2 * sizeof handle->bytes || strspn(text, digits) != 2 * sizeof handle->bytes)
        return gwb_fail(GWB_BAD_ARGUMENT, "the handle is damaged: \"%.60s\" are not the 64 bytes of a CUDA handle in hex", text);
    for (size_t i = 0; i < sizeof handle->bytes; i++)
        handle->bytes[i] = (unsigned char)((strchr(digits, text[2 * i]) - digits) << 4 | (strchr(digits, text[2 * i + 1]) - digits));
    return 0;
}

int gwb_cuda_identify(gwb_device *d, char text[GWB_SHARE_TEXT])
{
    CUdevice device;
    gwb_cuda_uuid uuid;
    int rc = gwb_cuda_check(gwb_cuda.DeviceGet(&device, d->info.index), "asking for %s", d->info.name);
    if (rc >= 0)
        rc = gwb_cuda_check(gwb_cuda.DeviceGetUuid(&uuid, device), "asking %s for its UUID", d->info.name);
    if (rc >= 0)
        write_hex(text, uuid.bytes, (int)sizeof uuid.bytes);
    return rc;
}

// A handle opens the whole block that the driver took from the device, 2 MiB and more, whatever else lies in it: memory to be shared fills its blocks.
int gwb_cuda_share_create(gwb_device *d, gwb_share *s)
{
    enum { BLOCK = 2 << 20 };
    CUDA_SCOPE(d);
    CUdeviceptr memory = 0;
    gwb_cuda_ipc handle;
    if (s->bytes > INT64_MAX - BLOCK)
        return gwb_fail(GWB_OUT_OF_MEMORY, "%s: no room for %lld bytes", d->info.name, (long long)s->bytes);
    s->bytes = (s->bytes + BLOCK - 1) / BLOCK * BLOCK;
    int rc = gwb_cuda_check(gwb_cuda.MemAlloc(&memory, (size_t)s->bytes), "%s: taking %lld bytes to share", d->info.name, (long long)s->bytes);
    if (rc < 0)
        return rc;
    rc = gwb_cuda_check(gwb_cuda.IpcGetMemHandle(&handle, memory), "%s: sharing memory with other processes", d->info.name);
    if (rc < 0) {
        gwb_cuda.MemFree(memory);
        return rc;
    }
    s->memory = (void *)(uintptr_t)memory;
    write_hex(s->text, handle.bytes, (int)sizeof handle.bytes);
    return 0;
}

int gwb_cuda_share_open(gwb_device *d, gwb_share *s, bool readonly)
{
    (void)readonly;     // the driver knows no such thing; the mat says it
    CUDA_SCOPE(d);
    CUdeviceptr memory = 0;
    gwb_cuda_ipc handle;
    int rc = read_hex(&handle, s->text);
    if (rc >= 0)
        rc = gwb_cuda_check(gwb_cuda.IpcOpenMemHandle(&memory, handle, GWB_CUDA_IPC_PEER_ACCESS),
                            "%s: opening memory of another process, which must be alive and hold it", d->info.name);
    s->memory = (void *)(uintptr_t)memory;
    s->opened = true;
    return rc;
}

void gwb_cuda_share_close(gwb_device *d, gwb_share *s)
{
    CUDA_SCOPE(d);
    if (s->opened)
        gwb_cuda.IpcCloseMemHandle((uintptr_t)s->memory);
    else
        gwb_cuda.MemFree((uintptr_t)s->memory);
}

int gwb_cuda_event_share(const gwb_event *e, char text[GWB_SHARE_TEXT])
{
    const gwb_device *d = gwb_cuda_opened(e->device);
    CUDA_SCOPE(d);
    gwb_cuda_ipc handle;
    int rc = gwb_cuda_check(gwb_cuda.IpcGetEventHandle(&handle, e->handle), "%s: sharing an event with other processes", d->info.name);
    if (rc >= 0)
        write_hex(text, handle.bytes, (int)sizeof handle.bytes);
    return rc;
}

int gwb_cuda_event_join(gwb_event *e, gwb_device *d, const char *text)
{
    CUDA_SCOPE(d);
    gwb_cuda_ipc handle;
    CUevent event = NULL;
    int rc = read_hex(&handle, text);
    if (rc >= 0)
        rc = gwb_cuda_check(gwb_cuda.IpcOpenEventHandle(&event, handle), "%s: opening an event of another process, which must be alive and hold it",
                            d->info.name);
    e->handle = event;
    return rc;
}
