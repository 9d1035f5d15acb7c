// SPDX-License-Identifier: MIT
// Kernels from a source: what is given for each parameter becomes the bytes that the device passes, mats are checked and ordered.
#include "device.h"
#include "mat.h"
#include "signature.h"
#include "stream.h"
#include "trace.h"

#include "number.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct gwb_kernel {
    gwb_device *dev;
    unsigned epoch;             // of the device, when the module was loaded
    void *module;
    gwb_source *source;
    char **options;
    int option_count;
    gwb_buf *uses;              // no memory: remembers the launches, so that the module outlives them
    int *list;                  // positions in source->list of the functions that are there
    int count;
    gwb_kernel *next;           // in `closing`
};

static gwb_kernel *closing;     // closed, with launches under way or in a graph; under gwb_lock

// ---- making and closing

// Under gwb_lock.
static void unload(gwb_kernel *k)
{
    if (k->module)
        k->dev->ops->kernel_close(k->dev, k->module, k->epoch != k->dev->epoch);
    if (k->uses)
        gwb_buf_release(k->uses);
    gwb_source_free(k->source);
    for (int i = 0; i < k->option_count; i++)
        free(k->options[i]);
    free(k->options);
    free(k->list);
    free(k);
}

static void sweep(void)
{
    for (gwb_kernel **at = &closing; *at;) {
        gwb_kernel *k = *at;
        if (!gwb_buf_idle(k->uses) || k->uses->refs > 1) {      // a launch is under way, or a graph has one
            at = &k->next;
            continue;
        }
        *at = k->next;
        unload(k);
    }
}

void gwb_kernel_close(gwb_kernel *k)
{
    if (!k || gwb_forked)
        return;
    gwb_lock();
    if (k->uses) {
        k->next = closing;
        closing = k;
        sweep();
    } else {
        unload(k);
    }
    gwb_unlock();
}

// Compiles and loads for the device as it is now.
static int load(gwb_kernel *k, gwb_bytes *log)
{
    const gwb_kernel_job job = {.source = k->source, .options = (const char *const *)k->options, .option_count = k->option_count, .log = log};
    void *module = NULL;
    const int rc = k->dev->ops->kernel_open(k->dev, &job, &module);
    if (rc < 0)
        return rc;
    if (k->module)
        k->dev->ops->kernel_close(k->dev, k->module, true);
    k->module = module;
    k->epoch = k->dev->epoch;
    return 0;
}

// The device was reset: its modules went with it, and the record of launches.
static int load_again(gwb_kernel *k)
{
    if (!gwb_device_at(k->dev->position))
        return GWB_NO_DEVICE;
    int rc = load(k, NULL);
    gwb_lock();
    gwb_buf *uses = NULL;
    if (rc >= 0)
        rc = gwb_buf_wrap(&uses, k->dev, NULL, 0, (gwb_owner){0}, false);
    if (rc >= 0) {
        gwb_buf_release(k->uses);
        k->uses = uses;
    }
    gwb_unlock();
    return rc;
}

static int copy_options(gwb_kernel *k, const gwb_kernel_params *params)
{
    k->options = calloc((size_t)params->option_count + 1, sizeof *k->options);
    if (!k->options)
        return gwb_fail(GWB_OUT_OF_MEMORY, "out of host memory");
    for (int i = 0; i < params->option_count; i++, k->option_count++)
        if (!(k->options[i] = strdup(params->options[i])))
            return gwb_fail(GWB_OUT_OF_MEMORY, "out of host memory");
    return 0;
}

static int list_functions(gwb_kernel *k)
{
    k->list = calloc((size_t)k->source->count + 1, sizeof *k->list);
    if (!k->list)
        return gwb_fail(GWB_OUT_OF_MEMORY, "out of host memory");
    for (int i = 0; i < k->source->count; i++)
        if (k->source->list[i].present)
            k->list[k->count++] = i;
    return k->count > 0 ? 0 : gwb_fail(GWB_COMPILE, "the source has no __global__ function that can be called");
}

int gwb_kernel_create(gwb_kernel **out, const gwb_kernel_params *params)
{
    *out = NULL;
    if (!params || !params->source || params->option_count < 0 || (params->option_count > 0 && !params->options))
        return gwb_fail(GWB_BAD_ARGUMENT, "gwb_kernel_create wants a source, and a list of options or none");
    gwb_device *dev = gwb_device_at(params->device);
    if (!dev)
        return GWB_NO_DEVICE;
    gwb_kernel *k = calloc(1, sizeof *k);
    if (!k)
        return gwb_fail(GWB_OUT_OF_MEMORY, "out of host memory");
    k->dev = dev;
    int rc = copy_options(k, params);
    if (rc >= 0)
        rc = gwb_source_parse(&k->source, params->source, params->options, params->option_count);
    if (rc >= 0)
        rc = load(k, params->log);
    if (rc >= 0)
        rc = list_functions(k);
    gwb_lock();
    sweep();
    if (rc >= 0)
        rc = gwb_buf_wrap(&k->uses, dev, NULL, 0, (gwb_owner){0}, false);
    if (rc < 0)
        unload(k);
    else
        *out = k;
    gwb_unlock();
    return rc;
}

// ---- facts

int gwb_kernel_functions(const gwb_kernel *k)
{
    return k ? k->count : 0;
}

static const gwb_signature *function_at(const gwb_kernel *k, int function)
{
    return k && function >= 0 && function < k->count ? &k->source->list[k->list[function]] : NULL;
}

int gwb_kernel_function_get(const gwb_kernel *k, int function, gwb_kernel_function *info)
{
    const gwb_signature *f = function_at(k, function);
    if (!f)
        return gwb_fail(GWB_BAD_ARGUMENT, "the kernel has no function number %d; it has %d", function, gwb_kernel_functions(k));
    *info = (gwb_kernel_function){f->name, f->text, f->line, f->count};
    return 0;
}

const char *gwb_kernel_param_name(const gwb_kernel *k, int function, int param)
{
    const gwb_signature *f = function_at(k, function);
    return f && param >= 0 && param < f->count ? f->params[param].name : NULL;
}

int gwb_kernel_param_pointer(const gwb_kernel *k, int function, int param)
{
    const gwb_signature *f = function_at(k, function);
    return f && param >= 0 && param < f->count && f->params[param].kind == GWB_PARAM_POINTER;
}

// ---- arguments

// One value, as the device gets it.
typedef union slot {
    int64_t whole;
    uint64_t natural;
    float single;
    double real;
    const void *pointer;
    gwb_view view;
    unsigned char bytes[32];
} slot;

// A launch that is being put together.
typedef struct packing {
    const gwb_signature *f;
    const gwb_kernel_call *call;
    slot slots[GWB_PARAMS];
    void *args[GWB_PARAMS];
    struct { gwb_buf *buf; bool write; } use[GWB_OP_USES];
    int uses;
} packing;

static const char *describe(const gwb_arg *a, char text[128])
{
    char shape[96];
    switch (a->kind) {
    case GWB_ARG_NULL: snprintf(text, 128, "nothing"); break;
    case GWB_ARG_NUMBER: snprintf(text, 128, "%.17g", a->number); break;
    case GWB_ARG_SIGNED: snprintf(text, 128, "%" PRId64, a->whole); break;
    case GWB_ARG_UNSIGNED: snprintf(text, 128, "%" PRIu64, (uint64_t)a->whole); break;
    case GWB_ARG_BOOL: snprintf(text, 128, "%s", a->whole ? "true" : "false"); break;
    case GWB_ARG_MAT: snprintf(text, 128, "a mat of %s", gwb_mat_text(a->pointer, shape)); break;
    case GWB_ARG_POINTER: snprintf(text, 128, "a pointer"); break;
    case GWB_ARG_BYTES: snprintf(text, 128, "a value of %" PRId64 " bytes", a->whole); break;
    case GWB_ARG_LIST: snprintf(text, 128, "a list of %" PRId64 " numbers", a->whole); break;
    default: snprintf(text, 128, "an argument of no kind (%d)", a->kind); break;
    }
    return text;
}

// Says what parameter i wanted, what it got, and the signature.
static int wrong(const packing *p, int i, const char *wanted)
{
    const gwb_param *to = &p->f->params[i];
    char got[128];
    return gwb_fail(GWB_BAD_ARGUMENT, "argument %d (%s%s%s) must be %s, got %s; the kernel is %s", i + 1, to->type,
                    *to->name && to->type[strlen(to->type) - 1] != '*' ? " " : "", to->name, wanted, describe(&p->call->args[i], got), p->f->text);
}

static int pack_whole(packing *p, int i, slot *to)
{
    const gwb_param *param = &p->f->params[i];
    const gwb_arg *a = &p->call->args[i];
    const bool is_signed = param->kind == GWB_PARAM_SIGNED;
    const int bits = 8 * param->size;
    const int64_t low = is_signed ? INT64_MIN >> (64 - bits) : 0, high = is_signed ? INT64_MAX >> (64 - bits) : 0;
    const uint64_t top = is_signed ? (uint64_t)high : UINT64_MAX >> (64 - bits);
    bool fits = false;
    if (a->kind == GWB_ARG_NUMBER) {
        // the upper limits of 64 bits are no doubles: the number above them is
        fits = a->number >= (double)low && a->number < (double)top + (bits < 64 ? 1.0 : 0.0) && a->number == gwb_number_round(a->number, 1);
        to->natural = fits && a->number < 0 ? (uint64_t)(int64_t)a->number : fits ? (uint64_t)a->number : 0;
    } else if (a->kind == GWB_ARG_SIGNED || a->kind == GWB_ARG_BOOL) {
        fits = a->whole < 0 ? a->whole >= low : (uint64_t)a->whole <= top;
        to->whole = a->whole;
    } else if (a->kind == GWB_ARG_UNSIGNED) {
        fits = (uint64_t)a->whole <= top;
        to->whole = a->whole;
    }
    if (fits)
        return 0;
    char wanted[96];
    if (is_signed)
        snprintf(wanted, sizeof wanted, "a whole number %" PRId64 "..%" PRId64, low, high);
    else
        snprintf(wanted, sizeof wanted, "a whole number 0..%" PRIu64, top);
    return wrong(p, i, wanted);
}

static bool to_double(const gwb_arg *a, double *v)
{
    *v = a->kind == GWB_ARG_NUMBER ? a->number : a->kind == GWB_ARG_UNSIGNED ? (double)(uint64_t)a->whole : (double)a->whole;
    return a->kind == GWB_ARG_NUMBER || a->kind == GWB_ARG_SIGNED || a->kind == GWB_ARG_UNSIGNED;
}

static int pack_real(packing *p, int i, slot *to)
{
    const gwb_param_kind kind = p->f->params[i].kind;
    double v;
    if (!to_double(&p->call->args[i], &v))
        return wrong(p, i, "a number");
    if (kind == GWB_PARAM_HALF)
        to->natural = gwb_double_to_half(v);
    else if (kind == GWB_PARAM_FLOAT)
        to->single = (float)v;
    else
        to->real = v;
    return 0;
}

static int pack_bool(packing *p, int i, slot *to)
{
    const gwb_arg *a = &p->call->args[i];
    double v;
    const bool number = to_double(a, &v);
    if (a->kind != GWB_ARG_BOOL && !(number && (v == 0 || v == 1)))
        return wrong(p, i, "true or false");
    to->natural = a->kind == GWB_ARG_BOOL ? a->whole != 0 : v == 1;
    return 0;
}

static int pack_bytes(packing *p, int i, const char *else_wanted)
{
    const gwb_arg *a = &p->call->args[i];
    char wanted[192];
    if (a->kind == GWB_ARG_BYTES && a->whole == p->f->params[i].size) {
        p->args[i] = (void *)(uintptr_t)a->pointer;
        return 0;
    }
    snprintf(wanted, sizeof wanted, "%.128sa cdata value of %d bytes", else_wanted, p->f->params[i].size);
    return wrong(p, i, wanted);
}

static int pack_vector(packing *p, int i, slot *to)
{
    static const double low[GWB_TYPES] = {0, -128, 0, -32768, 0, -2147483648.0}, high[GWB_TYPES] = {255, 127, 65535, 32767, 4294967295.0, 2147483647};
    const gwb_param *param = &p->f->params[i];
    const gwb_arg *a = &p->call->args[i];
    char wanted[128];
    snprintf(wanted, sizeof wanted, "a list of %d numbers, or ", param->channels);
    if (a->kind != GWB_ARG_LIST || a->whole != param->channels)
        return pack_bytes(p, i, wanted);
    for (int c = 0; c < param->channels; c++) {
        const double v = ((const double *)a->pointer)[c];
        unsigned char *at = to->bytes + c * (param->size / param->channels);
        const int type = param->element;
        const bool real = type == GWB_F32 || type == GWB_F64;
        const int64_t whole = type == GWB_POINTS_64 && v >= -9007199254740992.0 && v <= 9007199254740992.0 ? (int64_t)v : 0;
        if (type == GWB_POINTS_64 ? (double)whole != v : !real && !(v >= low[type] && v <= high[type] && v == gwb_number_round(v, 1))) {
            snprintf(wanted, sizeof wanted, "a list of %d whole numbers that fit its type", param->channels);
            return wrong(p, i, wanted);
        }
        switch (type) {
        case GWB_POINTS_64: memcpy(at, &whole, 8); break;
#define STORE(NAME, name) case GWB_##NAME: gwb_number_store_##name(at, v, 0); break;
        GWB_NUMBERS(STORE)
#undef STORE
        }
    }
    return 0;
}

// ---- mats

static bool listed(const gwb_mat *m, const gwb_mat *const *list, int count)
{
    for (int i = 0; i < count; i++)
        if (list[i] == m || gwb_mat_same(list[i], m))
            return true;
    return false;
}

static int add_use(packing *p, gwb_buf *b, bool write)
{
    if (!b)
        return 0;
    for (int i = 0; i < p->uses; i++)
        if (p->use[i].buf == b) {
            p->use[i].write |= write;
            return 0;
        }
    if (p->uses == GWB_OP_USES - 1)     // one is the kernel's own
        return gwb_fail(GWB_LIMIT, "a launch uses at most %d different mats", GWB_OP_USES - 1);
    p->use[p->uses].buf = b;
    p->use[p->uses++].write = write;
    return 0;
}

// A mat that a launch uses: alive, on the device, and writable where it is written.
static int use_mat(packing *p, const gwb_kernel *k, const gwb_mat *m, const char *what, bool write)
{
    int rc = gwb_mat_check(m, what);
    if (rc < 0)
        return rc;
    if (m->device != k->dev->position && !gwb_mat_empty(m))
        return gwb_fail(GWB_BAD_ARGUMENT, "%s is on %s, the kernel on %s; bring it there with m:to(\"%s\")", what,
                        gwb_device_at(m->device)->info.name, k->dev->info.name, k->dev->info.name);
    if (write && m->flags & GWB_MAT_READONLY)
        return gwb_fail(GWB_READ_ONLY, "%s is read-only; where the kernel only reads it, make its parameter const or list the mat in reads=", what);
    return add_use(p, m->buf, write);
}

static int check_element(const packing *p, int i, const gwb_mat *m)
{
    const gwb_param *param = &p->f->params[i];
    char wanted[160];
    bool fits;
    if (param->element == GWB_POINTS_ANY)
        return 0;
    if (param->element == GWB_POINTS_64) {
        fits = param->channels == 0 && m->elem_size == 8;
        snprintf(wanted, sizeof wanted, "a mat whose pixels have 8 bytes, as u32x2, or a cdata pointer");
    } else if (param->channels > 0) {
        fits = m->type == param->element && m->channels == param->channels;
        snprintf(wanted, sizeof wanted, "a mat of the type %sx%d", gwb_type_name(param->element), param->channels);
    } else {
        const bool bits = param->element == GWB_U16 && m->type == GWB_F16;    // f16 travels as uint16_t where there is no half
        fits = m->type == param->element || bits;
        snprintf(wanted, sizeof wanted, "a mat of %s numbers%s", gwb_type_name(param->element), param->element == GWB_U16 ? " (or f16)" : "");
    }
    if (!fits)
        return wrong(p, i, wanted);
    if ((uintptr_t)m->data % (uintptr_t)param->align) {
        snprintf(wanted, sizeof wanted, "a mat at an address that is a multiple of %d, not %p", param->align, (void *)m->data);
        return wrong(p, i, wanted);
    }
    return 0;
}

static int pack_pointer(packing *p, const gwb_kernel *k, int i, slot *to)
{
    const gwb_param *param = &p->f->params[i];
    const gwb_arg *a = &p->call->args[i];
    const bool view = param->kind == GWB_PARAM_VIEW;
    if (!view && (a->kind == GWB_ARG_NULL || a->kind == GWB_ARG_POINTER)) {
        to->pointer = a->kind == GWB_ARG_NULL ? NULL : a->pointer;
        return 0;
    }
    if (view && a->kind == GWB_ARG_BYTES)
        return pack_bytes(p, i, "a mat, or ");
    if (a->kind != GWB_ARG_MAT)
        return wrong(p, i, view ? "a mat" : "a mat, a cdata pointer or nil");
    const gwb_mat *m = a->pointer;
    char what[96];
    snprintf(what, sizeof what, "argument %d (%s)", i + 1, *param->name ? param->name : param->type);
    const bool write = listed(m, p->call->writes, p->call->write_count) ||
        ((view || !param->constant) && !listed(m, p->call->reads, p->call->read_count));
    int rc = use_mat(p, k, m, what, write);
    if (rc >= 0 && !view)
        rc = check_element(p, i, m);
    if (rc < 0)
        return rc;
    if (view)
        to->view = gwb_mat_to_view(m);
    else
        to->pointer = m->data;
    return 0;
}

static int pack(packing *p, const gwb_kernel *k)
{
    const gwb_signature *f = p->f;
    const gwb_kernel_call *call = p->call;
    if (call->arg_count != f->count)
        return gwb_fail(GWB_BAD_ARGUMENT, "wanted %d argument%s, got %d; the kernel is %s", f->count, f->count == 1 ? "" : "s", call->arg_count,
                        f->text);
    int rc = 0;
    // first, since a check of their liveness must come before any comparison
    for (int i = 0; i < call->read_count && rc >= 0; i++)
        rc = use_mat(p, k, call->reads[i], "a mat in reads", false);
    for (int i = 0; i < call->write_count && rc >= 0; i++)
        rc = use_mat(p, k, call->writes[i], "a mat in writes", true);
    for (int i = 0; i < f->count && rc >= 0; i++) {
        slot *to = &p->slots[i];
        *to = (slot){0};
        p->args[i] = to;
        switch (f->params[i].kind) {
        case GWB_PARAM_SIGNED: case GWB_PARAM_UNSIGNED: rc = pack_whole(p, i, to); break;
        case GWB_PARAM_HALF: case GWB_PARAM_FLOAT: case GWB_PARAM_DOUBLE: rc = pack_real(p, i, to); break;
        case GWB_PARAM_BOOL: rc = pack_bool(p, i, to); break;
        case GWB_PARAM_VECTOR: rc = pack_vector(p, i, to); break;
        case GWB_PARAM_STRUCT: rc = pack_bytes(p, i, ""); break;
        case GWB_PARAM_VIEW: case GWB_PARAM_POINTER: rc = pack_pointer(p, k, i, to); break;
        }
    }
    return rc;
}

// ---- launches

// CUDA's limits, which the host device keeps too.
static int check_sizes(const gwb_kernel_call *call, gwb_kernel_run *run)
{
    static const int64_t most_grid[3] = {INT32_MAX, 65535, 65535}, most_block[3] = {1024, 1024, 64};
    for (int i = 0; i < 3; i++) {
        if (call->grid[i] < 0 || call->grid[i] > most_grid[i])
            return gwb_fail(GWB_BAD_ARGUMENT, "grid.%c is %" PRId64 "; wanted 0..%" PRId64, 'x' + i, call->grid[i], most_grid[i]);
        if (call->block[i] < 1 || call->block[i] > most_block[i])
            return gwb_fail(GWB_BAD_ARGUMENT, "block.%c is %" PRId64 "; wanted 1..%" PRId64, 'x' + i, call->block[i], most_block[i]);
        run->grid[i] = (uint32_t)call->grid[i];
        run->block[i] = (uint32_t)call->block[i];
    }
    const int64_t threads = call->block[0] * call->block[1] * call->block[2];
    if (threads > 1024)
        return gwb_fail(GWB_BAD_ARGUMENT, "block has %" PRId64 " threads (%" PRId64 " x %" PRId64 " x %" PRId64 "); a block has at most 1024",
                        threads, call->block[0], call->block[1], call->block[2]);
    if (call->shared < 0 || call->shared > INT32_MAX)
        return gwb_fail(GWB_BAD_ARGUMENT, "shared is %" PRId64 " bytes; wanted 0 or more", call->shared);
    run->shared = (uint32_t)call->shared;
    return 0;
}

int gwb_kernel_launch(gwb_kernel *k, int function, const gwb_kernel_call *call, const gwb_stream *stream)
{
    const gwb_signature *f = function_at(k, function);
    if (!f)
        return gwb_fail(GWB_BAD_ARGUMENT, "the kernel has no function number %d; it has %d", function, gwb_kernel_functions(k));
    packing p;
    p.f = f;
    p.call = call;
    p.uses = 0;
    gwb_kernel_run run = {.function = k->list[function], .signature = f, .args = p.args};
    int rc = check_sizes(call, &run);
    if (rc >= 0 && k->epoch != k->dev->epoch)
        rc = load_again(k);
    if (rc >= 0)
        rc = pack(&p, k);
    if (rc < 0 || run.grid[0] == 0 || run.grid[1] == 0 || run.grid[2] == 0)
        return rc;
    run.module = k->module;

    gwb_op op;
    rc = gwb_op_begin(&op, k->dev->position, stream);
    if (rc < 0)
        return rc;
    gwb_op_use(&op, k->uses, false);
    for (int i = 0; i < p.uses; i++)
        gwb_op_use(&op, p.use[i].buf, p.use[i].write);
    gwb_trace_kernel(&op, &run, call);
    rc = gwb_op_ready(&op);
    if (rc >= 0)
        rc = k->dev->ops->kernel_launch(op.queue, &run);
    return gwb_op_end(&op, rc);
}
