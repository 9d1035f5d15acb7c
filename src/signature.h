// SPDX-License-Identifier: MIT
// The `__global__` functions of a CUDA C++ text: their names, where they stand, and what their parameters take. Read from the text as it is written:
// functions that a macro makes are not seen, and of preprocessor lines only `#define NAME type` counts.
#ifndef GWB_SIGNATURE_H
#define GWB_SIGNATURE_H

#include "error.h"

#include <stdbool.h>

enum { GWB_PARAMS = 64 };       // most parameters of a function

typedef enum gwb_param_kind {
    GWB_PARAM_SIGNED,           // a whole number of `size` bytes
    GWB_PARAM_UNSIGNED,
    GWB_PARAM_BOOL,
    GWB_PARAM_HALF,
    GWB_PARAM_FLOAT,
    GWB_PARAM_DOUBLE,
    GWB_PARAM_VECTOR,           // float3 and the like
    GWB_PARAM_VIEW,             // gwb_view
    GWB_PARAM_POINTER,
    GWB_PARAM_STRUCT            // any other type by value
} gwb_param_kind;

// What a pointer points to, where it is no gwb_type.
enum {
    GWB_POINTS_ANY = -1,        // void, plain char, a type that is not known here
    GWB_POINTS_64 = -2          // whole numbers of 64 bits
};

typedef struct gwb_param {
    const char *name;           // "" where it has none
    const char *type;           // as written, without the name: "const float *__restrict__"
    gwb_param_kind kind;
    int element;                // pointer, vector: gwb_type of a number, or GWB_POINTS_
    int channels;               // pointer to a vector, vector: its numbers; pointer to a number: 0
    int size;                   // bytes by value; struct: 0 until a device has compiled it
    int align;                  // pointer: the bytes that the address must be a multiple of
    bool constant;              // pointer to const
} gwb_param;

typedef struct gwb_signature {
    const char *name;
    const char *text;           // "blur(const float *src, int n)"
    int line;                   // of the name, from 1
    int count;                  // parameters
    gwb_param *params;
    bool defined;               // has a body
    bool waits;                 // its body waits for other threads of the block
    bool present;               // set by the device that compiled it: no #if left it out
    // offsets in the text
    size_t first;               // where the declaration begins
    size_t mark;                // `__global__`
    size_t name_at;
    size_t params_at;           // behind the opening parenthesis
    size_t end;                 // behind the body; 0 where there is none
} gwb_signature;

typedef struct gwb_source {
    char *text;                 // the whole source
    char *clean;                // of the same length; comments, literals and preprocessor lines are blank
    size_t size;
    gwb_signature *list;
    int count;
    bool waits;                 // something outside the kernels' bodies waits for other threads
    bool includes;              // includes a file that is not gpuwb's own
    char *defines;              // `#define` lines for the options' definitions: given as options they would change the compiler's own headers too
    void *strings;              // memory of the names and texts
} gwb_source;

// Reads `text`; `options` may define macros ("-DT=float"). On success *out is the caller's until gwb_source_free. Thread-safe.
// GWB_COMPILE where a signature cannot be understood or is no kernel that can be called from outside. Messages call the text kernel.cu.
int gwb_source_parse(gwb_source **out, const char *text, const char *const *options, int option_count);
void gwb_source_free(gwb_source *s);
const char *gwb_source_definition(const char *option);  // "T=float" of "-DT=float"; NULL where the option defines nothing
int gwb_source_line(const gwb_source *s, size_t at);    // from 1

// Makes s->clean of s->text; `directive` hears of each preprocessor line. In its place the clean text has one of the marks, or spaces.
enum { GWB_MARK_IF = 1, GWB_MARK_ELSE, GWB_MARK_ENDIF, GWB_MARK_INCLUDE, GWB_MARK_LAST = GWB_MARK_INCLUDE };
void gwb_source_clean(gwb_source *s, void (*directive)(void *context, size_t at, size_t end), void *context);

// Words of the clean text: finds the next one from *at on, below `end`; *at is then behind it. NULL at the end.
const char *gwb_source_word(const gwb_source *s, size_t *at, size_t end, size_t *length);

// A change to the text: `removed` bytes at `at` become `text` (freed by gwb_edits_apply).
typedef struct gwb_edit {
    size_t at, removed;
    char *text;
} gwb_edit;
typedef struct gwb_edits {
    gwb_edit *list;
    int count, room;
    bool failed;                // out of memory
} gwb_edits;

void gwb_edits_add(gwb_edits *e, size_t at, size_t removed, const char *format, ...) __attribute__((format(printf, 4, 5)));
// Blanks `static`, `inline` and `extern "C"` before a signature's `__global__`, for a device that says itself how the function is linked.
void gwb_edits_unlink(gwb_edits *e, const gwb_source *s, const gwb_signature *f);
// The text with all changes, behind `head`, the definitions and a #line, and before `tail`; the caller's to free. Frees the list. NULL with the error
// set.
char *gwb_edits_apply(gwb_edits *e, const gwb_source *s, const char *head, const char *tail);

#endif
