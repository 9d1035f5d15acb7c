// SPDX-License-Identifier: MIT
// CUDA C++ text: what is left of it without comments, literals and preprocessor lines, its words, and changes that keep its lines.
#include "signature.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

const char *gwb_source_word(const gwb_source *s, size_t *at, size_t end, size_t *length)
{
    size_t i = *at;
    while (i < end && !(isalpha((unsigned char)s->clean[i]) || s->clean[i] == '_')) {
        // a number with its letters is no word
        if (isdigit((unsigned char)s->clean[i]))
            while (i + 1 < end && is_word(s->clean[i + 1]))
                i++;
        i++;
    }
    size_t first = i;
    while (i < end && is_word(s->clean[i]))
        i++;
    *at = i;
    *length = i - first;
    return i > first ? s->clean + first : NULL;
}

int gwb_source_line(const gwb_source *s, size_t at)
{
    int line = 1;
    for (size_t i = 0; i < at; i++)
        line += s->text[i] == '\n';
    return line;
}

// ---- the clean text

// Behind the literal that begins at i with a quote.
static size_t skip_literal(const char *text, size_t size, size_t i)
{
    const char quote = text[i++];
    while (i < size && text[i] != quote && text[i] != '\n')
        i += text[i] == '\\' ? 2 : 1;
    return i < size ? i + 1 : size;
}

// Behind R"x(...)x", whose R is at i.
static size_t skip_raw(const char *text, size_t size, size_t i)
{
    char end[20] = ")";
    size_t open = i + 2, n = 0;
    while (open + n < size && text[open + n] != '(' && n < 16)
        n++;
    memcpy(end + 1, text + open, n);
    end[1 + n] = '"';
    end[2 + n] = 0;
    const char *found = strstr(text + open, end);
    return found ? (size_t)(found - text) + n + 2 : size;
}

static size_t skip_comment(const char *text, size_t size, size_t i)
{
    const bool line = text[i + 1] == '/';
    const char *end = line ? strchr(text + i, '\n') : strstr(text + i + 2, "*/");
    return !end ? size : (size_t)(end - text) + (line ? 0 : 2);
}

static bool comment_at(const char *text, size_t i)
{
    return text[i] == '/' && (text[i + 1] == '/' || text[i + 1] == '*');
}

// Behind the preprocessor line that begins at i, its continuations included.
static size_t skip_directive(const char *text, size_t size, size_t i)
{
    while (i < size && text[i] != '\n') {
        if (comment_at(text, i))
            i = skip_comment(text, size, i);
        else
            i += text[i] == '\\' && i + 1 < size ? 2 : 1;
    }
    return i;
}

// What the brace matching must know of a preprocessor line.
static char mark_of(const char *directive)
{
    directive += 1 + strspn(directive + 1, " \t");
    return strncmp(directive, "if", 2) == 0 ? GWB_MARK_IF : strncmp(directive, "el", 2) == 0 ? GWB_MARK_ELSE :
        strncmp(directive, "endif", 5) == 0 ? GWB_MARK_ENDIF : strncmp(directive, "include", 7) == 0 ? GWB_MARK_INCLUDE : ' ';
}

// Whether a preprocessor line is `#if 0`.
static bool is_never(const char *directive)
{
    directive += 1 + strspn(directive + 1, " \t");
    directive += strncmp(directive, "if", 2) == 0 ? 2 : 0;
    const size_t space = strspn(directive, " \t");
    return space > 0 && directive[space] == '0' && !is_word(directive[space + 1]);
}

// Behind what an `#if 0` that ends at i leaves out: at the #else, #elif or #endif.
static size_t skip_never(const char *text, size_t size, size_t i)
{
    int depth = 0;
    while (i < size) {
        const size_t line = i + strspn(text + i, " \t\n\r");
        if (text[line] == '#') {
            const char mark = mark_of(text + line);
            if (depth == 0 && (mark == GWB_MARK_ELSE || mark == GWB_MARK_ENDIF))
                return line;
            depth += mark == GWB_MARK_IF ? 1 : mark == GWB_MARK_ENDIF ? -1 : 0;
        }
        i = line + strcspn(text + line, "\n");
        i += i < size;
    }
    return size;
}

void gwb_source_clean(gwb_source *s, void (*directive)(void *context, size_t at, size_t end), void *context)
{
    const char *text = s->text;
    bool fresh = true;      // nothing but space on this line so far
    for (size_t i = 0, end; i < s->size; i = end) {
        end = i + 1;
        const char c = text[i], previous = i ? text[i - 1] : ' ';
        if (comment_at(text, i)) {
            end = skip_comment(text, s->size, i);
        } else if (c == '#' && fresh) {
            end = skip_directive(text, s->size, i);
            directive(context, i, end);
            if (is_never(text + i))
                end = skip_never(text, s->size, end);
        } else if (c == 'R' && text[i + 1] == '"' && !is_word(previous)) {
            end = skip_raw(text, s->size, i);
        } else if (c == '"' || (c == '\'' && !isdigit((unsigned char)previous))) {     // 1'000 is a number
            end = skip_literal(text, s->size, i);
        } else {
            s->clean[i] = c;
            fresh = c == '\n' || (fresh && isspace((unsigned char)c));
            continue;
        }
        for (size_t k = i; k < end; k++)
            s->clean[k] = text[k] == '\n' ? '\n' : ' ';
        if (c == '#')
            s->clean[i] = mark_of(text + i);
    }
}

// ---- changes

void gwb_edits_add(gwb_edits *e, size_t at, size_t removed, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = NULL;
    if (vasprintf(&text, format, args) < 0)
        text = NULL;
    va_end(args);
    if (text && e->count == e->room) {
        int room = e->room ? 2 * e->room : 32;
        gwb_edit *grown = realloc(e->list, (size_t)room * sizeof *grown);
        if (grown) {
            e->list = grown;
            e->room = room;
        }
    }
    if (!text || e->count == e->room) {
        free(text);
        e->failed = true;
        return;
    }
    e->list[e->count++] = (gwb_edit){at, removed, text};
}

void gwb_edits_unlink(gwb_edits *e, const gwb_source *s, const gwb_signature *f)
{
    size_t at = f->first, length;
    for (const char *word; (word = gwb_source_word(s, &at, f->mark, &length));) {
        const size_t first = (size_t)(word - s->clean);
        if ((length == 6 && memcmp(word, "static", 6) == 0) || (length == 6 && memcmp(word, "inline", 6) == 0)) {
            gwb_edits_add(e, first, length, "%*s", (int)length, "");
        } else if (length == 6 && memcmp(word, "extern", 6) == 0) {
            const char *quote = strstr(s->text + first, "\"C\"");
            if (quote && quote < s->text + f->mark) {
                gwb_edits_add(e, first, length, "%*s", (int)length, "");
                gwb_edits_add(e, (size_t)(quote - s->text), 3, "   ");
            }
        }
    }
}

static int earlier_first(const void *x, const void *y)
{
    const gwb_edit *a = x, *b = y;
    return (a->at > b->at) - (a->at < b->at);
}

char *gwb_edits_apply(gwb_edits *e, const gwb_source *s, const char *head, const char *tail)
{
    static const char line[] = "#line 1 \"kernel.cu\"\n";
    size_t size = strlen(head) + strlen(s->defines) + sizeof line + s->size + strlen(tail) + 1;
    for (int i = 0; i < e->count; i++)
        size += strlen(e->list[i].text);
    char *out = e->failed ? NULL : malloc(size), *to = out;
    if (out) {
        size_t from = 0;
        if (e->count > 0)
            qsort(e->list, (size_t)e->count, sizeof *e->list, earlier_first);
        to = stpcpy(stpcpy(stpcpy(to, head), s->defines), line);
        for (int i = 0; i < e->count; i++) {
            if (e->list[i].at < from)       // of text that another change has removed
                continue;
            to = (char *)mempcpy(to, s->text + from, e->list[i].at - from);
            to = stpcpy(to, e->list[i].text);
            from = e->list[i].at + e->list[i].removed;
        }
        to = (char *)mempcpy(to, s->text + from, s->size - from);
        strcpy(to, tail);
    } else {
        gwb_fail(GWB_OUT_OF_MEMORY, "out of host memory");
    }
    for (int i = 0; i < e->count; i++)
        free(e->list[i].text);
    free(e->list);
    *e = (gwb_edits){0};
    return out;
}
