// SPDX-License-Identifier: MIT
// The command: runs Lua as `luajit` does, with gpuwb built in. What is policy rather than running scripts is Lua:
// lua/gpuwb/command.lua (-v -j -O -b and the long options that print) and lua/gpuwb/repl.lua (the prompt).
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <lauxlib.h>
#include <lua.h>
#include <luajit.h>
#include <lualib.h>

#include "gwb.h"
#include "line.h"
#include "script.h"

typedef struct options {
    int argc;
    char **argv;
    int script;  // index of the script's name in argv, argc where there is none
    bool no_env, interactive, version, strict, watch;
    bool exec;  // something else than a script is to run: no prompt and no script from stdin
} options;

// What the command line asks for; the last two are mistakes.
typedef enum request { RUN, PRINT_HELP, PRINT_VERSION, PRINT_DEVICES, PRINT_DOCTOR, UNKNOWN_OPTION, MISSING_VALUE } request;

typedef struct command {
    options opts;
    request request;
    int status;  // of the process
} command;

enum { MAX_VARARGS = 9999 };  // that a script gets as `...`, as in luajit; `arg` has all
enum { PATIENCE = 1 };        // seconds that a chunk at the prompt has to stop after Ctrl-C

static lua_State *main_state;  // this and the next: for the signal handler
static pthread_t main_thread;
static bool at_prompt;  // Ctrl-C also ends a wait for the device

static void say(const char *message)
{
    fflush(stdout);
    fprintf(stderr, "gpuwb: %s\n", message);
}

// Runs last at every way out, os.exit too: output that was lost must not look like success.
static void check_stdout(void)
{
    bool failed = ferror(stdout) != 0;
    errno = 0;
    if (fflush(stdout) == 0 && !failed) return;
    fprintf(stderr, "gpuwb: cannot write standard output: %s\n", errno ? strerror(errno) : "an earlier write failed");
    fflush(NULL);  // _exit skips the other open files
    _exit(EXIT_FAILURE);
}

// ---- calls: traceback, Ctrl-C, reports

static volatile sig_atomic_t presses;  // of Ctrl-C in a call

// LuaJIT drops a sample that comes while it collects or compiles. So until a chunk has heard of Ctrl-C its signal comes again and again; unless the
// user's own profiler has the timer, which does the same.
static void ask_again(bool on)
{
    static const struct itimerval often = {.it_interval.tv_usec = 20000, .it_value.tv_usec = 20000}, never;
    static volatile sig_atomic_t asking;
    struct itimerval now;
    if (on && !asking && getitimer(ITIMER_PROF, &now) == 0 && now.it_interval.tv_sec == 0 && now.it_interval.tv_usec == 0)
        asking = setitimer(ITIMER_PROF, &often, NULL) == 0;
    else if (!on && asking)
        asking = setitimer(ITIMER_PROF, &never, NULL) != 0;
}

// One error for one Ctrl-C. After a second every instruction raises one, so that no pcall in a loop can go on for ever.
static void raise_interrupt(lua_State *L, lua_Debug *ar)
{
    (void)ar;
    if (presses < 2) {
        lua_sethook(L, NULL, 0, 0);
        ask_again(false);
    }
    gwb_waits_break_off(at_prompt);     // it is told: what waits from here on has not heard of it
    luaL_where(L, 0);  // a hook has no frame of its own
    lua_pushfstring(L, "%sinterrupted!", lua_tostring(L, -1));
    lua_error(L);
}

// Whether LuaJIT's profiler runs: else its signal would end the process.
static bool profiler_runs(void)
{
    struct sigaction action;
    return sigaction(SIGPROF, NULL, &action) == 0 && action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN;
}

static void ignore_sample(void *data, lua_State *L, int samples, int vmstate)
{
    (void)data, (void)L, (void)samples, (void)vmstate;
}

// Compiled code runs no hooks. What is recorded while the profiler runs asks once a line whether a sample is due, and then goes back to
// the interpreter, which does. So at the prompt the profiler runs without its timer, and Ctrl-C is its signal. One that the user runs stays.
static void watch_compiled_code(lua_State *L)
{
    if (profiler_runs()) return;
    luaJIT_profile_start(L, "li2147483647", ignore_sample, NULL);
    setitimer(ITIMER_PROF, &(struct itimerval){0}, NULL);
}

// At the prompt: a chunk that took no notice of an earlier Ctrl-C, since it is inside a C function, ends with the process.
static void end_stuck_chunk(int signo)
{
    static time_t asked;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (lua_gethook(main_state) != raise_interrupt)
        asked = now.tv_sec;
    else if (now.tv_sec - asked > PATIENCE) {
        static const char message[] = "gpuwb: the call does not stop: ended\n";
        ssize_t written = write(STDERR_FILENO, message, sizeof message - 1);
        (void)written;
        signal(signo, SIG_DFL);
        raise(signo);
    }
}

// The first Ctrl-C raises an error at the next hook, the second kills a script.
static void on_interrupt(int signo)
{
    if (!pthread_equal(pthread_self(), main_thread)) {  // a device's own thread took it
        pthread_kill(main_thread, signo);
        return;
    }
    signal(signo, at_prompt ? on_interrupt : SIG_DFL);
    if (at_prompt)
        end_stuck_chunk(signo);
    presses++;
    gwb_interrupt();
    lua_sethook(main_state, raise_interrupt, LUA_MASKCALL | LUA_MASKRET | LUA_MASKCOUNT, 1);
    if (at_prompt && profiler_runs()) {
        ask_again(true);
        raise(SIGPROF);
    }
}

// Error handler: an object with __tostring, such as gpuwb's own errors, becomes its text.
static int make_text(lua_State *L)
{
    if (!lua_isstring(L, 1) && luaL_callmeta(L, 1, "__tostring") && lua_isstring(L, -1))
        lua_replace(L, 1);
    lua_settop(L, 1);
    return 1;
}

// The level of the stack at which the script called what raised one of gpuwb's errors.
static int callers_level(lua_State *L)
{
    static const char ours[] = "@lua/gpuwb/";
    lua_Debug ar;
    bool inside = false;
    for (int level = 1; lua_getstack(L, level, &ar); level++) {
        lua_getinfo(L, "S", &ar);
        bool own = strncmp(ar.source, ours, sizeof ours - 1) == 0;
        inside = inside || own;
        if (!own && ar.what[0] != 'C') return inside ? level : 1;
    }
    return 1;
}

static int make_traceback(lua_State *L)
{
    int level = lua_isstring(L, 1) ? 1 : callers_level(L);
    make_text(L);
    if (lua_isstring(L, 1))
        luaL_traceback(L, L, lua_tostring(L, 1), level);
    return 1;
}

// lua_pcall with a traceback in the error and with Ctrl-C as an error.
static int call(lua_State *L, int args, int results)
{
    int base = lua_gettop(L) - args;
    lua_pushcfunction(L, make_traceback);
    lua_insert(L, base);
    presses = 0;
    if (at_prompt) {
        gwb_waits_break_off(1);
        watch_compiled_code(L);
    }
    void (*before)(int) = signal(SIGINT, on_interrupt);
    int status = lua_pcall(L, args, results, base);
    signal(SIGINT, before);
    if (at_prompt)
        ask_again(false);
    if (lua_gethook(L) == raise_interrupt)
        lua_sethook(L, NULL, 0, 0);
    lua_remove(L, base);
    return status;
}

// The error on top as text; NULL for nil, by which a script such as busted ends with status 1 and no word.
static const char *error_text(lua_State *L)
{
    if (lua_isnil(L, -1)) return NULL;
    const char *text = lua_tostring(L, -1);
    return text ? text : lua_pushfstring(L, "(error object is a %s value)", luaL_typename(L, -1));
}

// Tells a failure on stderr. True where there was none.
static bool succeeded(lua_State *L, int status)
{
    if (status == 0) return true;
    const char *text = error_text(L);
    if (text)
        say(text);
    lua_settop(L, 0);
    return false;
}

static bool run_loaded(lua_State *L, int load_status)
{
    return succeeded(L, load_status ? load_status : call(L, 0, 0));
}

static bool run_file(lua_State *L, const char *name)
{
    return run_loaded(L, luaL_loadfile(L, name));
}

static bool run_string(lua_State *L, const char *code, const char *name)
{
    return run_loaded(L, luaL_loadbuffer(L, code, strlen(code), name));
}

static bool run_require(lua_State *L, const char *module)
{
    lua_getglobal(L, "require");
    lua_pushstring(L, module);
    return succeeded(L, call(L, 1, 0));
}

// Calls a function of lua/gpuwb/command.lua with `count` strings. Its errors are for the user: no traceback.
static bool run_command(lua_State *L, const char *name, int count, char **words)
{
    enum { HANDLER = 1 };
    lua_settop(L, 0);
    lua_pushcfunction(L, make_text);
    lua_getglobal(L, "require");
    lua_pushliteral(L, "gpuwb.command");
    if (!succeeded(L, lua_pcall(L, 1, 1, HANDLER))) return false;
    lua_getfield(L, -1, name);
    luaL_checkstack(L, count, "too many arguments");
    for (int i = 0; i < count; i++)
        lua_pushstring(L, words[i]);
    return succeeded(L, lua_pcall(L, count, 0, HANDLER));
}

// Calls a function of what lazy_names left behind: short names "on" and "off", for -e and the prompt.
static bool run_short(lua_State *L, const char *name)
{
    lua_getfield(L, LUA_REGISTRYINDEX, "gpuwb.short");
    lua_getfield(L, -1, name);
    lua_remove(L, -2);
    return succeeded(L, lua_pcall(L, 0, 0, 0));
}

// ---- the command line

static bool starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

// The option at argv[*i] that starts with two dashes; moves *i over its value.
static request parse_long(options *o, int *i)
{
    const char *word = o->argv[*i];
    const char *device;
    if (strcmp(word, "--help") == 0) return PRINT_HELP;
    if (strcmp(word, "--version") == 0) return PRINT_VERSION;
    if (strcmp(word, "--devices") == 0) return PRINT_DEVICES;
    if (strcmp(word, "--doctor") == 0) return PRINT_DOCTOR;
    if (strcmp(word, "--watch") == 0) {
        o->watch = true;
        return RUN;
    }
    if (strcmp(word, "--strict") == 0) {
        o->strict = true;
        return RUN;
    }
    if (strcmp(word, "--device") == 0)
        device = *i + 1 < o->argc ? o->argv[++*i] : "";
    else if (starts_with(word, "--device="))
        device = word + strlen("--device=");
    else
        return UNKNOWN_OPTION;
    if (!*device) return MISSING_VALUE;
    setenv("GPUWB_DEVICE", device, 1);
    return RUN;
}

// Reads the options before the script, which o->script then names, or the option that is wrong. Runs nothing.
static request parse(options *o)
{
    int i = 1;
    for (; i < o->argc && o->argv[i][0] == '-' && o->argv[i][1]; i++) {
        const char *word = o->argv[i];
        bool alone = word[2] == '\0';
        o->script = i;
        if (strchr("hivE", word[1]) && !alone) return UNKNOWN_OPTION;
        switch (word[1]) {
        case '-':
            if (alone) {
                o->script = i + 1;
                return RUN;
            }
            request wanted = parse_long(o, &i);
            if (wanted != RUN) return wanted;
            break;
        case 'h': return PRINT_HELP;
        case 'i': o->interactive = true; break;
        case 'v': o->version = true; break;
        case 'E': o->no_env = true; break;
        case 'O': break;
        case 'b':
            if (i + 1 == o->argc) return MISSING_VALUE;
            o->exec = true;
            o->script = o->argc;
            return RUN;
        case 'e': o->exec = true;  // fall through
        case 'l':
        case 'j':
            if (alone && ++i == o->argc) return MISSING_VALUE;
            break;
        default: return UNKNOWN_OPTION;
        }
    }
    o->script = i;
    return RUN;
}

// Runs -e -l -j -O -b in their order. False where one failed.
static bool run_options(lua_State *L, const options *o)
{
    for (int i = 1; i < o->script; i++) {
        char *word = o->argv[i];
        if (strcmp(word, "--device") == 0) i++;
        char *value = word + 2;
        if (!*value && strchr("elj", word[1])) value = o->argv[++i];
        bool ok = true;
        switch (word[1]) {
        case 'e': ok = run_short(L, "on") && run_string(L, value, "=(command line)") && run_short(L, "off"); break;
        case 'l': ok = run_require(L, value); break;
        case 'j': ok = run_command(L, "jit", 1, &value); break;
        case 'O': ok = run_command(L, "optimize", *value != '\0', &value); break;
        case 'b': return run_command(L, "bytecode", o->argc - i, o->argv + i);
        }
        if (!ok) return false;
    }
    return true;
}

static bool run_script(lua_State *L, const options *o)
{
    const char *name = o->argv[o->script];
    bool from_stdin = strcmp(name, "-") == 0 && strcmp(o->argv[o->script - 1], "--") != 0;
    int loaded = luaL_loadfile(L, from_stdin ? NULL : name);
    if (loaded == LUA_ERRSYNTAX && !from_stdin) return run_command(L, "look", o->argc - o->script, o->argv + o->script);
    if (!succeeded(L, loaded)) return false;
    lua_getglobal(L, "arg");  // -e or LUA_INIT may have changed it
    int table = lua_gettop(L), count = 0;
    while (lua_istable(L, table) && count < MAX_VARARGS) {
        lua_rawgeti(L, table, count + 1);
        if (lua_isnil(L, -1)) break;
        count++;
    }
    lua_settop(L, table + count);
    lua_remove(L, table);
    return succeeded(L, call(L, count, 0));
}

// --watch: lua/gpuwb/watch.lua runs the script, and again.
static bool run_watch(lua_State *L, const options *o)
{
    lua_getglobal(L, "require");
    lua_pushliteral(L, "gpuwb.watch");
    if (!succeeded(L, lua_pcall(L, 1, 1, 0))) return false;
    lua_getfield(L, -1, "run");
    lua_pushstring(L, o->argv[o->script]);
    return succeeded(L, call(L, 1, 0));
}

// LUA_INIT: code, or @ and a file's name.
static bool run_init(lua_State *L)
{
    const char *init = getenv("LUA_INIT");
    if (!init) return true;
    return init[0] == '@' ? run_file(L, init + 1) : run_string(L, init, "=LUA_INIT");
}

// The prompt. Reading, compiling and printing is lua/gpuwb/repl.lua; the chunks run here, so that they stand on the same
// stack as a script.
static bool run_repl(lua_State *L)
{
    lua_getglobal(L, "require");
    lua_pushliteral(L, "gpuwb.repl");
    if (!succeeded(L, lua_pcall(L, 1, 1, 0))) return false;
    at_prompt = true;
    if (!run_short(L, "on")) return false;
    if (gwb_line_open(L)) signal(SIGINT, SIG_IGN);  // between chunks: the line reader and `call` set their own
    if (!succeeded(L, lua_pcall(L, 1, 1, 0))) return false;
    int repl = lua_gettop(L);
    for (;;) {
        lua_settop(L, repl);
        lua_getfield(L, repl, "read");
        if (!succeeded(L, lua_pcall(L, 0, 1, 0))) return false;
        if (lua_isnil(L, -1)) return true;
        int status = call(L, 0, LUA_MULTRET);
        if (status == 0) {
            lua_getfield(L, repl, "show");
            lua_insert(L, repl + 1);
            status = call(L, lua_gettop(L) - repl - 1, 0);
        }
        const char *text = status ? error_text(L) : NULL;
        if (text) {
            fflush(stdout);
            fprintf(stderr, "%s\n", text);
        }
    }
}

// ---- the state

// `arg`: the script at 0, what follows from 1, the command and its options below.
static void set_arg(lua_State *L, const options *o)
{
    lua_createtable(L, o->argc - o->script, o->script + 1);
    for (int i = 0; i < o->argc; i++) {
        lua_pushstring(L, o->argv[i]);
        lua_rawseti(L, -2, i - o->script);
    }
    lua_setglobal(L, "arg");
}

// Lua files installed beside the command come last in package.path, so that the user's own win.
static void add_share(lua_State *L)
{
    char exe[4096];
    ssize_t size = readlink("/proc/self/exe", exe, sizeof exe - 1);
    if (size <= 0) return;
    exe[size] = '\0';
    *strrchr(exe, '/') = '\0';
    lua_getglobal(L, "package");
    lua_getfield(L, -1, "path");
    lua_pushfstring(L, "%s;%s/../share/gpuwb/lua/?.lua", lua_tostring(L, -1), exe);
    lua_setfield(L, -3, "path");
    lua_pop(L, 2);
}

// The global `gpu` is loaded when a script first asks for it: start-up stays luajit's, and scripts without it run even
// where it cannot be loaded. In -e and at the prompt an absent global is looked up in `gpu` too, so that no name is hidden by it; `load` gives a
// picture for a string that is no Lua code but a file's name. Lua rather than C, so that compiled code may read absent globals.
static const char lazy_names[] =
    "local require, rawset, pcall, type, setmetatable, loadstring = require, rawset, pcall, type, setmetatable, loadstring\n"
    "local short, lua_load = false, load\n"
    "setmetatable(_G, {__index = function(globals, name)\n"
    "    if name == 'gpu' then\n"
    "        local gpu = require 'gpuwb'\n"
    "        rawset(globals, name, gpu)\n"
    "        return gpu\n"
    "    elseif short and type(name) == 'string' then\n"
    "        local found, gpu = pcall(require, 'gpuwb')\n"
    "        return found and (name == 'help' and require('gpuwb.help').printed or gpu[name]) or nil\n"
    "    end\n"
    "end})\n"
    "local function load_any(what, ...)\n"
    "    if type(what) == 'string' and what:find '^[^\\n]*%.%w+$' and not loadstring(what) then return require('gpuwb').load(what, ...) end\n"
    "    return lua_load(what, ...)\n"
    "end\n"
    "return {\n"
    "    on = function() short = true if load == lua_load then load = load_any end end,\n"
    "    off = function() short = false if load == load_any then load = lua_load end end,\n"
    "}\n";

static bool open_state(lua_State *L, const options *o)
{
    if (o->no_env) {
        lua_pushboolean(L, 1);
        lua_setfield(L, LUA_REGISTRYINDEX, "LUA_NOENV");
    }
    lua_gc(L, LUA_GCSTOP, 0);
    luaL_openlibs(L);
    add_share(L);
    gwb_script_open(L);
    set_arg(L, o);
    lua_gc(L, LUA_GCRESTART, 0);
    if (!succeeded(L, luaL_loadbuffer(L, lazy_names, sizeof lazy_names - 1, "=gpuwb") || call(L, 0, 1))) return false;
    lua_setfield(L, LUA_REGISTRYINDEX, "gpuwb.short");
    return !o->strict || run_require(L, "gpuwb.strict");
}

static bool run_all(lua_State *L, const command *c)
{
    const options *o = &c->opts;
    if (!open_state(L, o)) return false;
    switch (c->request) {
    case PRINT_HELP: return run_command(L, "help", 0, NULL);
    case PRINT_VERSION: return run_command(L, "version", 0, NULL);
    case PRINT_DEVICES: return run_command(L, "devices", 0, NULL);
    case PRINT_DOCTOR: return run_command(L, "doctor", 0, NULL);
    default: break;
    }
    bool has_script = o->script < o->argc;
    if (o->watch && !has_script) {
        say("--watch wants a script");
        return false;
    }
    if (!o->no_env && !run_init(L)) return false;
    if (o->version && !run_command(L, "version", 0, NULL)) return false;
    if (!run_options(L, o) || (has_script && !(o->watch ? run_watch(L, o) : run_script(L, o)))) return false;
    if (o->interactive) return run_repl(L);
    if (has_script || o->exec || o->version) return true;
    return isatty(STDIN_FILENO) ? run_repl(L) : run_file(L, NULL);
}

static int protected_main(lua_State *L)
{
    command *c = lua_touserdata(L, 1);
    lua_settop(L, 0);
    c->status = run_all(L, c) ? EXIT_SUCCESS : EXIT_FAILURE;
    return 0;
}

int main(int argc, char **argv)
{
    atexit(check_stdout);
    main_thread = pthread_self();
    command c = {.opts = {.argc = argc, .argv = argv, .script = argc}, .status = EXIT_FAILURE};
    c.request = parse(&c.opts);
    if (c.request == UNKNOWN_OPTION || c.request == MISSING_VALUE) {
        fprintf(stderr, "gpuwb: %s '%s'\nusage: gpuwb [options] [script [args]]\ngpuwb --help lists the options\n",
                c.request == UNKNOWN_OPTION ? "there is no option" : "a value is missing after", argv[c.opts.script]);
        return EXIT_FAILURE;
    }
    lua_State *L = luaL_newstate();
    if (!L) {
        say("not enough memory for a Lua state");
        return EXIT_FAILURE;
    }
    main_state = L;
    if (!succeeded(L, lua_cpcall(L, protected_main, &c)))
        c.status = EXIT_FAILURE;
    lua_close(L);
    return c.status;
}
