// SPDX-License-Identifier: MIT
// The line reader over libedit's own interface. Reading of characters is ours: that is where Ctrl-C, Ctrl-Z and a changed
// window size are noticed, with no work in a signal handler and no race.
#define _POSIX_C_SOURCE 200809L

#include "line.h"

#include <errno.h>
#include <fcntl.h>
#include <histedit.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wchar.h>

#include <lauxlib.h>
#include <lua.h>

#define PASTE_BEGIN "\033[200~"  // what a terminal in bracketed-paste mode puts around a paste
#define PASTE_END "\033[201~"
#define PASTE_ON "\033[?2004h"
#define PASTE_OFF "\033[?2004l"

enum { HISTORY_KEEP = 1000 };  // entries; the file is cut to them when it holds twice as many

static struct {
    bool terminal;
    EditLine *el;  // NULL: plain reading
    History *history;
    char *history_path;  // NULL: none is kept
    const char *prompt;
    lua_State *L;          // that reads; for completion
    int completer;         // reference of the function that completes; LUA_NOREF: none
    int idle;              // of one that is called while input is waited for
    pthread_t thread;     // that reads
    sigset_t outer_mask;  // of signals, while input is waited for
} reader;

// ---- text that grows

typedef struct text {
    char *bytes;
    size_t size, capacity;
} text;

static bool append(text *t, const char *bytes, size_t size)
{
    if (t->size + size + 1 > t->capacity) {
        size_t capacity = (t->size + size + 1) * 2;
        char *grown = realloc(t->bytes, capacity);
        if (!grown) return false;
        t->bytes = grown;
        t->capacity = capacity;
    }
    memcpy(t->bytes + t->size, bytes, size);
    t->size += size;
    t->bytes[t->size] = '\0';
    return true;
}

// ---- signals: noted by a handler, seen where input is waited for

static volatile sig_atomic_t got_interrupt, got_stop, got_resize;

static void note_signal(int signo)
{
    if (!pthread_equal(pthread_self(), reader.thread))  // a device's own thread took it
        pthread_kill(reader.thread, signo);
    else if (signo == SIGINT)
        got_interrupt = 1;
    else if (signo == SIGTSTP)
        got_stop = 1;
    else
        got_resize = 1;
}

static const int watched[] = {SIGINT, SIGTSTP, SIGWINCH};
enum { WATCHED = sizeof watched / sizeof *watched, INTERRUPT_ONLY = 1 };
static struct sigaction before[WATCHED];

// Takes the first `count` of the watched signals and holds them back outside wait_for_input.
static void watch_signals(int count)
{
    struct sigaction action = {.sa_handler = note_signal};
    sigset_t held;
    sigemptyset(&held);
    reader.thread = pthread_self();
    got_interrupt = got_stop = got_resize = 0;
    for (int i = 0; i < count; i++) {
        sigaddset(&held, watched[i]);
        sigaction(watched[i], &action, &before[i]);
    }
    pthread_sigmask(SIG_BLOCK, &held, &reader.outer_mask);
}

static void unwatch_signals(int count)
{
    pthread_sigmask(SIG_SETMASK, &reader.outer_mask, NULL);
    for (int i = 0; i < count; i++)
        sigaction(watched[i], &before[i], NULL);
}

static void write_terminal(const char *sequence)
{
    fputs(sequence, stdout);
    fflush(stdout);
}

// Ctrl-Z: the shell gets its terminal back as it was; after `fg` the line stands there again.
static void stop_here(void)
{
    struct sigaction standard = {.sa_handler = SIG_DFL}, own;
    sigset_t blocked;
    el_set(reader.el, EL_PREP_TERM, 0);
    write_terminal(PASTE_OFF "\n");
    sigaction(SIGTSTP, &standard, &own);
    raise(SIGTSTP);
    pthread_sigmask(SIG_SETMASK, &reader.outer_mask, &blocked);  // stops here
    pthread_sigmask(SIG_SETMASK, &blocked, NULL);
    sigaction(SIGTSTP, &own, NULL);
    write_terminal(PASTE_ON);
    el_set(reader.el, EL_PREP_TERM, 1);
    el_set(reader.el, EL_REFRESH);
}

// ---- characters

// Calls the idle function. True where it wants to be called again soon.
static bool idle_again(void)
{
    lua_State *L = reader.L;
    if (!L || reader.idle == LUA_NOREF) return false;
    int top = lua_gettop(L);
    lua_rawgeti(L, LUA_REGISTRYINDEX, reader.idle);
    bool again = lua_pcall(L, 0, 1, 0) == 0 && lua_toboolean(L, -1);
    lua_settop(L, top);
    return again;
}

// Waits until there is input or the input's end. False from Ctrl-C to the end of the line.
static bool wait_for_input(void)
{
    for (;;) {
        if (got_interrupt) return false;
        if (got_stop) {
            got_stop = 0;
            stop_here();
        }
        if (got_resize) {
            got_resize = 0;
            el_resize(reader.el);
        }
        fd_set set;
        FD_ZERO(&set);
        FD_SET(STDIN_FILENO, &set);
        static const struct timespec soon = {.tv_nsec = 20000000};
        int ready = pselect(STDIN_FILENO + 1, &set, NULL, NULL, idle_again() ? &soon : NULL, &reader.outer_mask);
        if (ready > 0 || (ready < 0 && errno != EINTR)) return true;
    }
}

// The next byte of the terminal: 1, 0 at its end, -1 after Ctrl-C.
static int next_byte(char *byte)
{
    if (!wait_for_input()) return -1;
    return read(STDIN_FILENO, byte, 1) == 1;  // a terminal that is gone reads as an error
}

// libedit asks for one character; bytes that are none in this locale are left out. Ctrl-C ends the line as Enter does.
static int next_char(EditLine *el, wchar_t *out)
{
    (void)el;
    mbstate_t state = {0};
    for (;;) {
        char byte;
        int got = next_byte(&byte);
        if (got < 0) *out = L'\n';
        if (got <= 0) return got != 0;
        size_t used = mbrtowc(out, &byte, 1, &state);
        if (used == (size_t)-1)
            memset(&state, 0, sizeof state);
        else if (used != (size_t)-2) return 1;
    }
}

// Bound to PASTE_BEGIN: the block goes into the line as it is, so that Enter runs it as one chunk.
static unsigned char paste(EditLine *el, int key)
{
    (void)key;
    static const size_t mark = sizeof PASTE_END - 1;
    text block = {0};
    unsigned char result = CC_REFRESH;
    while (block.size < mark || memcmp(block.bytes + block.size - mark, PASTE_END, mark) != 0) {
        char byte;
        if (next_byte(&byte) <= 0 || !append(&block, &byte, 1)) goto done;  // at the end the next character tells
    }
    block.size -= mark;
    while (block.size && strchr("\r\n", block.bytes[block.size - 1]))
        block.size--;
    block.bytes[block.size] = '\0';
    for (char *c = block.bytes; (c = strchr(c, '\r'));)  // a terminal sends a line's end as Enter
        *c = '\n';
    if (block.size && el_insertstr(el, block.bytes) != 0)
        result = CC_ERROR;
done:
    free(block.bytes);
    return result;
}

// ---- completion

// Bound to Tab: asks the completer with the line up to the cursor; gets text to insert, and where that is not clear a list to show.
static unsigned char complete(EditLine *el, int key)
{
    (void)key;
    lua_State *L = reader.L;
    const LineInfo *line = el_line(el);
    if (!L || reader.completer == LUA_NOREF) return CC_ERROR;
    unsigned char result = CC_ERROR;
    int top = lua_gettop(L);
    lua_rawgeti(L, LUA_REGISTRYINDEX, reader.completer);
    lua_pushlstring(L, line->buffer, (size_t)(line->cursor - line->buffer));
    if (lua_pcall(L, 1, 2, 0) == 0) {
        const char *insert = lua_tostring(L, -2), *list = lua_tostring(L, -1);
        if (insert && *insert && el_insertstr(el, insert) == 0) result = CC_REFRESH;
        if (list && *list) {
            fputs("\n", stdout);
            fputs(list, stdout);
            fputs("\n", stdout);
            result = CC_REDISPLAY;
        }
    }
    lua_settop(L, top);
    return result;
}

static char *give_prompt(EditLine *el)
{
    (void)el;
    return (char *)reader.prompt;
}

// ---- history: one entry a line, `\` and newlines escaped

static void put_history(const char *entry)
{
    HistEvent event;
    history(reader.history, &event, H_ENTER, entry);
}

static bool escape(const char *entry, text *out)
{
    for (const char *c = entry; *c; c++)
        if (!(*c == '\n' ? append(out, "\\n", 2) : *c == '\\' ? append(out, "\\\\", 2) : append(out, c, 1))) return false;
    return append(out, "\n", 1);
}

static void unescape(char *line)
{
    char *to = line;
    for (char *c = line; *c; c++) {
        if (*c == '\\' && c[1])
            *to++ = *++c == 'n' ? '\n' : *c;
        else
            *to++ = *c;
    }
    *to = '\0';
}

// The folders above `path`, for this user alone, where they are missing.
static void make_folders(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
}

static char *find_history(void)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    text path = {0};
    bool ok = state && state[0] == '/' ? append(&path, state, strlen(state))
                                       : home && append(&path, home, strlen(home)) && append(&path, "/.local/state", 13);
    if (ok && append(&path, "/gpuwb/history", 14)) return path.bytes;
    free(path.bytes);
    return NULL;
}

// Writes the newest entries to a new file in place of the old one.
static void cut_history(char **lines, int count)
{
    text name = {0};
    if (append(&name, reader.history_path, strlen(reader.history_path)) && append(&name, ".XXXXXX", 7)) {
        int fd = mkstemp(name.bytes);  // 0600
        FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
        if (file) {
            for (int i = count - HISTORY_KEEP; i < count; i++)
                fputs(lines[i], file);
            if (fclose(file) != 0 || rename(name.bytes, reader.history_path) != 0) unlink(name.bytes);
        }
    }
    free(name.bytes);
}

static void load_history(void)
{
    FILE *file = fopen(reader.history_path, "r");
    if (!file) return;
    char **lines = NULL, *line = NULL;
    size_t size = 0;
    int count = 0;
    while (getline(&line, &size, file) > 0) {
        if (count % HISTORY_KEEP == 0) {
            char **grown = realloc(lines, (size_t)(count + HISTORY_KEEP) * sizeof *lines);
            if (!grown) break;
            lines = grown;
        }
        lines[count++] = line;
        line = NULL;
        size = 0;
    }
    free(line);
    fclose(file);
    if (count > 2 * HISTORY_KEEP)
        cut_history(lines, count);
    for (int i = 0; i < count; i++) {
        if (count - i <= HISTORY_KEEP) {
            lines[i][strcspn(lines[i], "\n")] = '\0';
            unescape(lines[i]);
            put_history(lines[i]);
        }
        free(lines[i]);
    }
    free(lines);
}

static void save_history(const char *entry)
{
    text line = {0};
    int fd = -1;
    if (escape(entry, &line))
        fd = open(reader.history_path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0) {
        ssize_t written = write(fd, line.bytes, line.size);
        (void)written;  // a full disk is no reason to disturb the session
        close(fd);
    }
    free(line.bytes);
}

// ---- libedit

static void bind_key(const char *key, const char *action)
{
    el_set(reader.el, EL_BIND, key, action, NULL);
}

static void open_editor(void)
{
    const char *terminal = getenv("TERM");
    if (!terminal || !*terminal || strcmp(terminal, "dumb") == 0) return;
    setlocale(LC_CTYPE, "");
    if (MB_CUR_MAX == 1)  // the C locale reads nothing beyond ASCII
        setlocale(LC_CTYPE, "C.UTF-8");
    HistEvent event;
    reader.history = history_init();
    reader.el = reader.history ? el_init("gpuwb", stdin, stdout, stderr) : NULL;
    if (!reader.el) return;
    EditLine *el = reader.el;
    history(reader.history, &event, H_SETSIZE, HISTORY_KEEP);
    history(reader.history, &event, H_SETUNIQUE, 1);
    el_set(el, EL_HIST, history, reader.history);
    el_set(el, EL_PROMPT_ESC, give_prompt, '\1');  // \1 stands around what has no width
    el_set(el, EL_EDITOR, "emacs");
    el_set(el, EL_SIGNAL, 0);
    el_wset(el, EL_GETCFN, next_char);
    el_set(el, EL_ADDFN, "gpuwb-paste", "Insert a pasted block", paste);
    bind_key("^R", "em-inc-search-prev");
    bind_key("\\e[3~", "ed-delete-next-char");
    bind_key("\\e[1;5C", "em-next-word");
    bind_key("\\e[1;5D", "ed-prev-word");
    el_set(el, EL_ADDFN, "gpuwb-complete", "Complete the word before the cursor", complete);
    bind_key("^I", "gpuwb-complete");
    el_source(el, NULL);  // the user's ~/.editrc
    bind_key("\\e[200~", "gpuwb-paste");
    reader.history_path = find_history();
    if (reader.history_path) {
        make_folders(reader.history_path);
        load_history();
    }
}

// ---- the Lua side

static int push_line(lua_State *L, const char *line, size_t size)
{
    if (size && line[size - 1] == '\n')
        size--;
    lua_pushlstring(L, line, size);
    return 1;
}

static int read_edited(lua_State *L)
{
    reader.L = L;
    watch_signals(WATCHED);
    el_set(reader.el, EL_PREP_TERM, 1);  // before the prompt: what is typed from then on is not echoed twice
    write_terminal(PASTE_ON);
    int size = 0;
    const char *line = el_gets(reader.el, &size);
    write_terminal(line ? PASTE_OFF : PASTE_OFF "\n");
    unwatch_signals(WATCHED);
    reader.L = NULL;
    if (got_interrupt)
        lua_pushboolean(L, 0);
    else if (!line)
        lua_pushnil(L);
    else
        push_line(L, line, (size_t)size);
    return 1;
}

static int read_plain(lua_State *L)
{
    static char *line;
    static size_t capacity;
    if (reader.terminal) {
        watch_signals(INTERRUPT_ONLY);
        write_terminal(reader.prompt);
        bool cancelled = !wait_for_input();
        unwatch_signals(INTERRUPT_ONLY);
        if (cancelled) {
            write_terminal("\n");
            lua_pushboolean(L, 0);
            return 1;
        }
    }
    ssize_t size = getline(&line, &capacity, stdin);
    if (size >= 0) return push_line(L, line, (size_t)size);
    lua_pushnil(L);
    return 1;
}

static int read_line(lua_State *L)
{
    reader.prompt = luaL_checkstring(L, 1);
    return reader.el ? read_edited(L) : read_plain(L);
}

static int remember(lua_State *L)
{
    const char *entry = luaL_checkstring(L, 1);
    if (!reader.el) return 0;
    put_history(entry);
    if (reader.history_path)
        save_history(entry);
    return 0;
}

static int set_function(lua_State *L, int *reference)
{
    luaL_checktype(L, 1, LUA_TFUNCTION);
    lua_settop(L, 1);
    luaL_unref(L, LUA_REGISTRYINDEX, *reference);
    *reference = luaL_ref(L, LUA_REGISTRYINDEX);
    return 0;
}

static int set_completer(lua_State *L)
{
    return set_function(L, &reader.completer);
}

static int set_idle(lua_State *L)
{
    return set_function(L, &reader.idle);
}

bool gwb_line_open(lua_State *L)
{
    reader.completer = reader.idle = LUA_NOREF;
    reader.terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    if (reader.terminal && !reader.el)
        open_editor();
    lua_createtable(L, 0, 6);
    lua_pushcfunction(L, set_idle);
    lua_setfield(L, -2, "set_idle");
    lua_pushcfunction(L, set_completer);
    lua_setfield(L, -2, "set_completer");
    lua_pushboolean(L, reader.el != NULL);
    lua_setfield(L, -2, "edits");
    lua_pushcfunction(L, read_line);
    lua_setfield(L, -2, "read");
    lua_pushcfunction(L, remember);
    lua_setfield(L, -2, "remember");
    lua_pushboolean(L, reader.terminal);
    lua_setfield(L, -2, "terminal");
    return reader.terminal;
}
