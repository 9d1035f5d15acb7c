// SPDX-License-Identifier: MIT
// Finds the CUDA driver at run time, once, and says why there is no device; what its errors mean.
#include "driver.h"

#include "../embedded.h"
#include "nvrtc.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OLDEST_DRIVER = 11020 };     // CUDA 11.2

gwb_cuda_driver gwb_cuda;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int device_count;
static char absent[1024];           // "" where there is a device

// ---- errors

// What an error means for the person who sees it, where the driver's own words do not say; `lost` errors leave the context unusable.
static const struct { CUresult error; int status; bool lost; const char *text; } meanings[] = {
    {1, GWB_DEVICE, false, "an argument that the driver refuses"},
    {2, GWB_OUT_OF_MEMORY, false, "the device's memory is full"},
    {3, GWB_DEVICE, false, "the driver was not started in this process; after a fork, only the child or only the parent may use the device"},
    {4, GWB_DEVICE, false, "the process is ending"},
    {34, GWB_DEVICE, false, "this libcuda.so.1 is the toolkit's stub, made for linking; take the stubs folder out of LD_LIBRARY_PATH"},
    {36, GWB_DEVICE, false, "the driver is too old"},
    {46, GWB_DEVICE, false, "another process holds the device alone (compute mode)"},
    {100, GWB_NO_DEVICE, false, "the driver finds no device"},
    {101, GWB_NO_DEVICE, false, "CUDA_VISIBLE_DEVICES names a device that is not there"},
    {200, GWB_DEVICE, false, "the driver cannot read this kernel image"},
    {201, GWB_DEVICE, true, "the device's context is gone, as after a cudaDeviceReset by another library"},
    {209, GWB_DEVICE, false, "the image holds no kernel for this device"},
    {214, GWB_DEVICE, true, "a memory error that could not be corrected"},
    {217, GWB_UNSUPPORTED, false, "these devices cannot reach each other's memory"},
    {220, GWB_DEVICE, true, "an NVLink error that could not be corrected"},
    {222, GWB_DEVICE, false, "the kernel was compiled by a newer toolkit than the driver knows"},
    {400, GWB_BAD_ARGUMENT, false, "a stream or event that is no longer there, or of another device"},
    {700, GWB_DEVICE, true, "a kernel read or wrote outside its memory"},
    {701, GWB_DEVICE, false, "a kernel wants more registers or shared memory than a processor has"},
    {702, GWB_DEVICE, true, "a kernel ran longer than the display's watchdog allows"},
    {709, GWB_DEVICE, true, "the device's context was destroyed"},
    {710, GWB_DEVICE, true, "an assertion in a kernel failed"},
    {714, GWB_DEVICE, true, "a kernel's stack overflowed or was damaged"},
    {715, GWB_DEVICE, true, "a kernel ran into an illegal instruction"},
    {716, GWB_DEVICE, true, "a kernel accessed memory at an address that is no multiple of the access's size"},
    {717, GWB_DEVICE, true, "a kernel used an address of the wrong kind of memory"},
    {718, GWB_DEVICE, true, "a kernel jumped to an invalid address"},
    {719, GWB_DEVICE, true, "a kernel failed"},
    {801, GWB_UNSUPPORTED, false, "this device or driver does not do that"},
    {802, GWB_DEVICE, false, "the system is not ready: on machines with NVSwitch the fabric manager must run"},
    {803, GWB_DEVICE, false, "libcuda.so.1 and the kernel module are of different versions; reboot, or load the new module"},
    {804, GWB_DEVICE, false, "the compatibility libcuda.so.1 does not serve this device; take it out of LD_LIBRARY_PATH"},
    {900, GWB_UNSUPPORTED, false, "the stream is being captured, which does not allow that"},
    {999, GWB_DEVICE, false, "often /dev/nvidia-uvm is missing or not allowed, or the kernel module does not answer; see if nvidia-smi works"},
};

int gwb_cuda_check(CUresult result, const char *format, ...)
{
    if (result == 0)
        return 0;
    char what[512];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    const char *name = NULL, *text = "";
    char blame[640] = "";
    int status = GWB_DEVICE;
    if (gwb_cuda.GetErrorName(result, &name) != 0 || !name)
        name = "an error that the driver has no name for";
    if (gwb_cuda.GetErrorString(result, &text) != 0 || !text)
        text = "";
    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++)
        if (meanings[i].error == result) {
            text = meanings[i].text;
            status = meanings[i].status;
            if (meanings[i].lost)
                snprintf(blame, sizeof blame, "; the fault may be an earlier operation's, and the device must be reopened before anything else works on it");
        }
    if (blame[0])
        gwb_cuda_blame(blame, sizeof blame);
    return gwb_fail(status, "%s: %s (%u): %s%s", what, name, result, text, blame);
}

// ---- loading

static void load(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(absent, sizeof absent, "there is no NVIDIA driver (%s)", dlerror());
        return;
    }
#define LOAD(name, symbol, params) \
    if (!(*(void **)&gwb_cuda.name = dlsym(library, symbol))) { \
        snprintf(absent, sizeof absent, "the NVIDIA driver lacks %s: it is older than CUDA 11.2; update the driver", symbol); \
        return; \
    }
    GWB_CUDA_SYMBOLS(LOAD)
#undef LOAD
#define LOAD(name, symbol, params) *(void **)&gwb_cuda.name = dlsym(library, symbol);
    GWB_CUDA_NEWER_SYMBOLS(LOAD)
#undef LOAD

    CUresult result = gwb_cuda.Init(0);
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    if (result == GWB_CUDA_NO_DEVICE && visible) {
        snprintf(absent, sizeof absent, "the NVIDIA driver is there, but no device is visible: CUDA_VISIBLE_DEVICES is \"%.200s\"", visible);
        return;
    }
    if (result == GWB_CUDA_NO_DEVICE) {
        snprintf(absent, sizeof absent, "the NVIDIA driver is there, but this machine shows it no device");
        return;
    }
    if (gwb_cuda_check(result, "the NVIDIA driver did not start") < 0 ||
        gwb_cuda_check(gwb_cuda.DriverGetVersion(&gwb_cuda.version), "the NVIDIA driver does not tell its version") < 0) {
        snprintf(absent, sizeof absent, "%s", gwb_error_message());
        return;
    }
    if (gwb_cuda.version < OLDEST_DRIVER) {
        snprintf(absent, sizeof absent, "the NVIDIA driver serves CUDA %d.%d; wanted 11.2 or later: update the driver", gwb_cuda.version / 1000,
                 gwb_cuda.version % 1000 / 10);
        return;
    }
    if (gwb_embedded_fatbin_size == 0 && gwb_nvrtc_version() < 0) {
        snprintf(absent, sizeof absent, "this gpuwb was built without nvcc, so its kernels would be compiled now, but %s", gwb_error_message());
        return;
    }
    int count = 0;
    if (gwb_cuda_check(gwb_cuda.DeviceGetCount(&count), "the NVIDIA driver does not count its devices") < 0)
        snprintf(absent, sizeof absent, "%s", gwb_error_message());
    else if (count == 0)
        snprintf(absent, sizeof absent, "the NVIDIA driver is there, but shows no device");
    else
        device_count = count;
}

int gwb_cuda_count(const char **reason)
{
    pthread_once(&once, load);
    if (reason)
        *reason = device_count > 0 ? NULL : absent;
    return device_count;
}
