// SPDX-License-Identifier: MIT
// Finds the compiler and runs it in a folder of its own, with gpuwb's headers beside the source.
#include "compiler.h"

#include "../embedded.h"
#include "../kcache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

// No contraction and wrapping sums, as on the GPU here; pointers may be cast as CUDA code does it.
static const char *const common[] = {
    "-O2", "-shared", "-fPIC", "-w", "-pthread", "-fvisibility=hidden", "-ffp-contract=off", "-fno-math-errno", "-fwrapv", "-fno-strict-aliasing",
    "-fdiagnostics-color=never", "-D_GNU_SOURCE",
};
static const char *const cplusplus[] = {"-x", "c++", "-std=gnu++17", "-fno-exceptions", "-fno-rtti"};
static const char *const plain_c[] = {"-x", "c", "-std=gnu11", "-fgnu89-inline"};
enum { COMMON = sizeof common / sizeof *common, CPLUSPLUS = sizeof cplusplus / sizeof *cplusplus, PLAIN_C = sizeof plain_c / sizeof *plain_c };

// ---- finding

static bool runnable(const char *path, struct stat *st)
{
    return stat(path, st) == 0 && S_ISREG(st->st_mode) && access(path, X_OK) == 0;
}

static bool find_program(const char *name, gwb_compiler *c)
{
    struct stat st;
    bool found = false;
    if (strchr(name, '/')) {
        found = (size_t)snprintf(c->path, sizeof c->path, "%s", name) < sizeof c->path && runnable(c->path, &st);
    } else {
        const char *folders = getenv("PATH");
        for (const char *at = folders ? folders : "/usr/local/bin:/usr/bin:/bin"; *at && !found;) {
            const size_t n = strcspn(at, ":");
            found = (size_t)snprintf(c->path, sizeof c->path, "%.*s/%s", (int)n, at, name) < sizeof c->path && runnable(c->path, &st);
            at += n + (at[n] == ':');
        }
    }
    if (found) {
        c->stamp[0] = st.st_size;
        c->stamp[1] = st.st_mtim.tv_sec;
        c->stamp[2] = st.st_mtim.tv_nsec;
    }
    return found;
}

int gwb_compiler_find(gwb_compiler *c)
{
    static const char *const usual[] = {"cc", "gcc", "clang"};
    const char *wanted = getenv("CC");
    c->word_count = 0;
    if (wanted && wanted[strspn(wanted, " ")]) {
        snprintf(c->text, sizeof c->text, "%s", wanted);
        char *rest, *program = strtok_r(c->text, " ", &rest);
        for (char *word; (word = strtok_r(NULL, " ", &rest)) && c->word_count < 16;)
            c->words[c->word_count++] = word;
        if (find_program(program, c))
            return 0;
        return gwb_fail(GWB_UNSUPPORTED, "the host device compiles kernels with a C or C++ compiler, and $CC names %s, which is no program here; "
                        "set CC to one, or unset it", program);
    }
    for (int i = 0; i < 3; i++)
        if (find_program(usual[i], c))
            return 0;
    return gwb_fail(GWB_UNSUPPORTED, "the host device compiles kernels with a C or C++ compiler, and there is none: cc, gcc and clang are not in "
                    "$PATH; install gcc or clang, or set CC");
}

// ---- the folder

// The headers that a source may include, by position; false behind the last.
static bool header_at(size_t i, const gwb_embedded **file)
{
    for (size_t k = 0; k < gwb_embedded_count; k++) {
        const char *name = gwb_embedded_files[k].name, *dot = strrchr(name, '.');
        if (!dot || strcmp(dot, ".h") != 0 || (strncmp(name, "kernels/", 8) != 0 && strcmp(name, "src/abi_types.h") != 0) || i-- > 0)
            continue;
        *file = gwb_embedded_find(name);
        return true;
    }
    return false;
}

// abi_types.h has no guard of its own, since it has no preprocessor line.
static const char guard[] = "#pragma once\n#line 1\n";

static const char *base_name(const gwb_embedded *file)
{
    return strrchr(file->name, '/') + 1;
}

static int write_file(const char *folder, const char *name, const char *head, const char *text)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "we");
    const bool good = f && fputs(head, f) >= 0 && fputs(text, f) >= 0;
    if ((f && fclose(f) != 0) || !good)
        return gwb_fail(GWB_IO, "cannot write %s: %s", path, strerror(errno));
    return 0;
}

static int make_folder(char folder[PATH_MAX], const char *source)
{
    const char *place = getenv("TMPDIR");
    const gwb_embedded *file;
    snprintf(folder, PATH_MAX, "%s/gpuwb-XXXXXX", place && place[0] ? place : "/tmp");
    if (!mkdtemp(folder)) {
        const int rc = gwb_fail(GWB_IO, "cannot make a folder %s to compile in: %s; set TMPDIR to a place that can be written", folder,
                                strerror(errno));
        folder[0] = 0;
        return rc;
    }
    int rc = write_file(folder, "kernel.cu", "", source);
    for (size_t i = 0; rc >= 0 && header_at(i, &file); i++)
        rc = !file ? gwb_fail(GWB_NO_FILE, "a kernel header is not in the checkout that GPUWB_ROOT names")
                   : write_file(folder, base_name(file), strcmp(base_name(file), "abi_types.h") == 0 ? guard : "", (const char *)file->data);
    return rc;
}

static void remove_folder(const char *folder)
{
    DIR *dir = folder[0] ? opendir(folder) : NULL;
    if (!dir)
        return;
    for (struct dirent *d; (d = readdir(dir));)
        unlinkat(dirfd(dir), d->d_name, 0);     // "." and ".." refuse
    closedir(dir);
    rmdir(folder);
}

static int read_file(const char *folder, const char *name, void **data, size_t *size)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "re");
    struct stat st;
    char *bytes = f && fstat(fileno(f), &st) == 0 ? malloc((size_t)st.st_size + 1) : NULL;
    const bool good = bytes && fread(bytes, 1, (size_t)st.st_size, f) == (size_t)st.st_size;
    if (f)
        fclose(f);
    if (!good) {
        free(bytes);
        return gwb_fail(GWB_IO, "cannot read %s, which the compiler was to write", path);
    }
    bytes[st.st_size] = 0;
    *data = bytes;
    *size = (size_t)st.st_size;
    return 0;
}

// ---- running

// Runs a program in `folder` with its text going to the file "log" there. Its exit status, or a failure.
static int run_program(const char *folder, char *const *argv)
{
    char log[PATH_MAX], **env = NULL;
    size_t count = 0;
    while (environ[count])
        count++;
    env = malloc((count + 2) * sizeof *env);
    if (!env)
        return gwb_fail(GWB_OUT_OF_MEMORY, "out of host memory");
    env[0] = (char *)"LC_ALL=C";        // messages that can be read for their line numbers
    size_t kept = 1;
    for (size_t i = 0; i < count; i++)
        if (strncmp(environ[i], "LC_ALL=", 7) != 0)
            env[kept++] = environ[i];
    env[kept] = NULL;

    snprintf(log, sizeof log, "%s/log", folder);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    pid_t child;
    int status = 0, error = posix_spawn(&child, argv[0], &actions, NULL, argv, env);
    posix_spawn_file_actions_destroy(&actions);
    free(env);
    if (error != 0)
        return gwb_fail(GWB_UNSUPPORTED, "the compiler %s cannot be run: %s", argv[0], strerror(error));
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return 0;       // whoever ignores SIGCHLD took the status; the output tells
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

// One compilation; `language` is the options of one. Its exit status, or a failure.
static int compile(const gwb_compiler *c, const gwb_compile *job, const char *folder, const char *const *language, int language_count,
                   const char *file, const char *output)
{
    enum { FIXED = 64 };
    char include[PATH_MAX + 2], in[PATH_MAX], out[PATH_MAX], map[PATH_MAX + 32];
    const char **argv = calloc((size_t)(FIXED + job->option_count), sizeof *argv);
    if (!argv)
        return gwb_fail(GWB_OUT_OF_MEMORY, "out of host memory");
    int n = 0;
    argv[n++] = c->path;
    for (int i = 0; i < c->word_count; i++)
        argv[n++] = c->words[i];
    for (int i = 0; i < language_count; i++)
        argv[n++] = language[i];
    for (int i = 0; i < COMMON; i++)
        argv[n++] = common[i];
    for (int i = 0; i < job->option_count; i++)
        argv[n++] = job->options[i];
    snprintf(include, sizeof include, "-I%s", folder);
    snprintf(in, sizeof in, "%s/%s", folder, file);
    snprintf(out, sizeof out, "%s/%s", folder, output);
    snprintf(map, sizeof map, "-ffile-prefix-map=%s/=", folder);   // the folder's name is in no message of the kernel and in no image
    argv[n++] = map;
    argv[n++] = include;
    argv[n++] = "-o";
    argv[n++] = out;
    argv[n++] = in;
    argv[n++] = "-lm";
    const int status = run_program(folder, (char *const *)argv);
    free(argv);
    return status;
}

// Whether the compiler knows C++ with its library, asked only after something failed.
static bool knows_cplusplus(const gwb_compiler *c, const char *folder)
{
    const gwb_compile probe = {0};
    return write_file(folder, "probe.cu", "", "#include <cmath>\nint probe;\n") >= 0 &&
        compile(c, &probe, folder, cplusplus, CPLUSPLUS, "probe.cu", "probe.so") == 0;
}

static void take_log(const char *folder, gwb_bytes *log)
{
    void *text = NULL;
    size_t size = 0;
    if (read_file(folder, "log", &text, &size) < 0)
        return;
    free(log->data);
    *log = (gwb_bytes){text, (int64_t)size, (int64_t)size + 1};
}

// The log's first line with an error, else its first line.
static void first_error(const gwb_bytes *log, char line[256])
{
    const char *text = log->data ? (const char *)log->data : "", *error = strstr(text, "error");
    while (error && error > text && error[-1] != '\n')
        error--;
    error = error ? error : text;
    snprintf(line, 256, "%.*s", (int)strcspn(error, "\n"), *error ? error : "it gives no reason");
}

int gwb_compiler_run(const gwb_compiler *c, const gwb_compile *job, void **image, size_t *size)
{
    char folder[PATH_MAX], line[256];
    gwb_bytes log = {0};
    int rc = make_folder(folder, job->source);
    if (rc >= 0) {
        gwb_kcache_compiled();
        rc = compile(c, job, folder, cplusplus, CPLUSPLUS, "kernel.cu", "kernel.so");
        take_log(folder, &log);
        if (rc > 0 && !knows_cplusplus(c, folder)) {
            rc = compile(c, job, folder, plain_c, PLAIN_C, "kernel.cu", "kernel.so");
            take_log(folder, &log);
        }
        first_error(&log, line);
        if (rc > 0)
            rc = gwb_fail(GWB_COMPILE, "the source does not compile for the host device (%s): %s", c->path, line);
    }
    if (rc >= 0)
        rc = read_file(folder, "kernel.so", image, size);
    remove_folder(folder);
    if (job->log) {
        free(job->log->data);
        *job->log = log;
    } else {
        free(log.data);
    }
    return rc;
}

int gwb_compiler_environment(void (*add)(void *context, const char *text), void *context)
{
    const gwb_embedded *file;
    for (int i = 0; i < COMMON; i++)
        add(context, common[i]);
    for (int i = 0; i < CPLUSPLUS; i++)
        add(context, cplusplus[i]);
    for (int i = 0; i < PLAIN_C; i++)
        add(context, plain_c[i]);
    for (size_t i = 0; header_at(i, &file); i++) {
        if (!file)
            return gwb_fail(GWB_NO_FILE, "a kernel header is not in the checkout that GPUWB_ROOT names");
        add(context, (const char *)file->data);
    }
    return 0;
}
