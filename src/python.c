// SPDX-License-Identifier: MIT
// What Python calls or is called from C: these may run on any thread, and while the interpreter ends. Python is in the process where they are needed;
// nothing here is linked against it.
#include "device.h"

#include <dlfcn.h>

void gwb_python_release(void *object)
{
    const intptr_t ensure = (intptr_t)dlsym(RTLD_DEFAULT, "PyGILState_Ensure"), release = (intptr_t)dlsym(RTLD_DEFAULT, "PyGILState_Release");
    const intptr_t drop = (intptr_t)dlsym(RTLD_DEFAULT, "Py_DecRef"), alive = (intptr_t)dlsym(RTLD_DEFAULT, "Py_IsInitialized");
    if (!ensure || !release || !drop || !alive || !((int (*)(void))alive)())
        return;
    const int state = ((int (*)(void))ensure)();
    ((void (*)(void *))drop)(object);
    ((void (*)(int))release)(state);
}

void gwb_capsule_destroy(void *capsule)
{
    static const char *const names[] = {"dltensor", "dltensor_versioned"};
    const intptr_t valid = (intptr_t)dlsym(RTLD_DEFAULT, "PyCapsule_IsValid"), get = (intptr_t)dlsym(RTLD_DEFAULT, "PyCapsule_GetPointer");
    if (!valid || !get)
        return;
    for (int versioned = 0; versioned < 2; versioned++)     // a consumer renames what it takes
        if (((int (*)(void *, const char *))valid)(capsule, names[versioned]))
            gwb_dlpack_delete(((void *(*)(void *, const char *))get)(capsule, names[versioned]), versioned);
}
