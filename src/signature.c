// SPDX-License-Identifier: MIT
// Reads the signatures of `__global__` functions: tokens, types by name and alias, and where each function ends.
#include "signature.h"

#include "embedded.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS = 96, ALIASES = 256, ALIAS_DEPTH = 8 };

typedef struct token {
    size_t at, size;
} token;

// A name for a type: its own text is text[at .. at + size) of `in`.
typedef struct alias {
    const char *name, *body;
    size_t name_size, body_size;
} alias;

typedef struct parser {
    gwb_source *s;
    alias aliases[ALIASES];
    int alias_count;
    char *strings, *strings_end;    // free part of s->strings
} parser;

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static bool same(const char *text, size_t size, const char *word)
{
    return strlen(word) == size && memcmp(text, word, size) == 0;
}

static bool one_of(const char *text, size_t size, const char *const *words)
{
    for (; *words; words++)
        if (same(text, size, *words))
            return true;
    return false;
}

// The next token of text[*at .. end): a word, a number, or a single sign.
static bool next_token(const char *text, size_t *at, size_t end, token *t)
{
    size_t i = *at;
    while (i < end && (isspace((unsigned char)text[i]) || text[i] <= GWB_MARK_LAST))
        i++;
    t->at = i;
    while (i < end && is_word(text[i]))
        i++;
    if (i == t->at && i < end)
        i++;
    t->size = i - t->at;
    *at = i;
    return t->size > 0;
}

// Behind the bracket that closes the one at `at`; 0 where there is none before `end`.
static size_t skip_brackets(const char *text, size_t at, size_t end)
{
    const char open = text[at], close = open == '(' ? ')' : open == '[' ? ']' : open == '{' ? '}' : '>';
    int depth = 0, saved[32], level = 0;
    for (size_t i = at; i < end; i++) {
        if (text[i] == open)
            depth++;
        else if (text[i] == close && --depth == 0)
            return i + 1;
        else if (text[i] == GWB_MARK_IF && level < 32)      // each branch of an #if may open the same bracket
            saved[level++] = depth;
        else if (text[i] == GWB_MARK_ELSE && level > 0)
            depth = saved[level - 1];
        else if (text[i] == GWB_MARK_ENDIF && level > 0)
            level--;
    }
    return 0;
}

// A string in the source's own memory, spaces collapsed. The memory suffices: each byte of the text is kept a few times at most.
static const char *keep(parser *p, const char *text, size_t size)
{
    char *out = p->strings, *to = out;
    for (size_t i = 0; i < size && to + 1 < p->strings_end; i++) {
        const char c = isspace((unsigned char)text[i]) || text[i] <= GWB_MARK_LAST ? ' ' : text[i];
        if (c != ' ' || (to > out && to[-1] != ' '))
            *to++ = c;
    }
    while (to > out && to[-1] == ' ')
        to--;
    *to++ = 0;
    p->strings = to;
    return out;
}

// ---- types by name

static const char *const qualifiers[] = {"const", "volatile", "__restrict__", "__restrict", "restrict", "struct", "class", "enum", "typename",
                                         "__grid_constant__", "register", NULL};
static const char *const basic[] = {"void", "bool", "char", "short", "int", "long", "signed", "unsigned", "float", "double", NULL};

typedef struct named {
    const char *name;
    gwb_param_kind kind;
    int size, element;
} named;

static const named names[] = {
    {"bool", GWB_PARAM_BOOL, 1, GWB_U8}, {"half", GWB_PARAM_HALF, 2, GWB_F16}, {"__half", GWB_PARAM_HALF, 2, GWB_F16},
    {"float", GWB_PARAM_FLOAT, 4, GWB_F32}, {"double", GWB_PARAM_DOUBLE, 8, GWB_F64},
    {"int8_t", GWB_PARAM_SIGNED, 1, GWB_I8}, {"uint8_t", GWB_PARAM_UNSIGNED, 1, GWB_U8}, {"int16_t", GWB_PARAM_SIGNED, 2, GWB_I16},
    {"uint16_t", GWB_PARAM_UNSIGNED, 2, GWB_U16}, {"int32_t", GWB_PARAM_SIGNED, 4, GWB_I32}, {"uint32_t", GWB_PARAM_UNSIGNED, 4, GWB_U32},
    {"int64_t", GWB_PARAM_SIGNED, 8, GWB_POINTS_64}, {"uint64_t", GWB_PARAM_UNSIGNED, 8, GWB_POINTS_64},
    {"size_t", GWB_PARAM_UNSIGNED, 8, GWB_POINTS_64}, {"ptrdiff_t", GWB_PARAM_SIGNED, 8, GWB_POINTS_64},
    {"intptr_t", GWB_PARAM_SIGNED, 8, GWB_POINTS_64}, {"uintptr_t", GWB_PARAM_UNSIGNED, 8, GWB_POINTS_64},
    {"gwb_view", GWB_PARAM_VIEW, (int)sizeof(gwb_view), GWB_POINTS_ANY},
};

// The numbers of CUDA's vector types, without their count.
static const named vectors[] = {
    {"char", 0, 1, GWB_I8}, {"uchar", 0, 1, GWB_U8}, {"short", 0, 2, GWB_I16}, {"ushort", 0, 2, GWB_U16}, {"int", 0, 4, GWB_I32},
    {"uint", 0, 4, GWB_U32}, {"long", 0, 8, GWB_POINTS_64}, {"ulong", 0, 8, GWB_POINTS_64}, {"longlong", 0, 8, GWB_POINTS_64},
    {"ulonglong", 0, 8, GWB_POINTS_64}, {"float", 0, 4, GWB_F32}, {"double", 0, 8, GWB_F64},
};

// Fills kind, size, element, channels and align of a type by value. The words are the type's, qualifiers left out.
static void classify(gwb_param *to, const char *const *words, const size_t *sizes, int count)
{
    *to = (gwb_param){.kind = GWB_PARAM_STRUCT, .element = GWB_POINTS_ANY, .align = 1};
    int is_unsigned = 0, longs = 0, shorts = 0, chars = 0, whole = 0;
    for (int i = 0; i < count; i++) {
        is_unsigned += same(words[i], sizes[i], "unsigned");
        longs += same(words[i], sizes[i], "long");
        shorts += same(words[i], sizes[i], "short");
        chars += same(words[i], sizes[i], "char");
        whole += same(words[i], sizes[i], "int") || same(words[i], sizes[i], "unsigned") || same(words[i], sizes[i], "signed");
    }
    if (count > 0 && longs + shorts + chars + whole == count) {
        to->size = to->align = chars ? 1 : shorts ? 2 : longs ? 8 : 4;
        to->kind = is_unsigned ? GWB_PARAM_UNSIGNED : GWB_PARAM_SIGNED;
        const int types[] = {[1] = is_unsigned ? GWB_U8 : GWB_I8, [2] = is_unsigned ? GWB_U16 : GWB_I16, [4] = is_unsigned ? GWB_U32 : GWB_I32,
                             [8] = GWB_POINTS_64};
        to->element = chars && count == 1 ? GWB_POINTS_ANY : types[to->size];     // plain char: bytes of anything
        return;
    }
    if (count != 1)
        return;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (same(words[0], sizes[0], names[i].name)) {
            to->kind = names[i].kind;
            to->size = names[i].size;
            to->align = names[i].size > 8 ? 8 : names[i].size;
            to->element = names[i].element;
        }
    const int channels = words[0][sizes[0] - 1] - '0';
    for (size_t i = 0; channels >= 1 && channels <= 4 && i < sizeof vectors / sizeof *vectors; i++)
        if (same(words[0], sizes[0] - 1, vectors[i].name)) {
            to->kind = GWB_PARAM_VECTOR;
            to->size = channels * vectors[i].size;
            to->align = channels == 3 ? vectors[i].size : to->size > 16 ? 16 : to->size;
            to->element = vectors[i].element;
            to->channels = channels;
        }
}

// What the tokens of a type say.
typedef struct type_words {
    const char *words[8];       // without qualifiers
    size_t sizes[8];
    int count, stars;
    bool target;                // the last star points to const
    bool constant;              // const behind the last star
    bool complex;               // something that is no plain type: a template, a namespace
} type_words;

static const alias *find_alias(const parser *p, const char *word, size_t size)
{
    for (int i = p->alias_count - 1; i >= 0; i--)
        if (p->aliases[i].name_size == size && memcmp(p->aliases[i].name, word, size) == 0)
            return &p->aliases[i];
    return NULL;
}

static void add_type(const parser *p, type_words *w, const char *text, size_t size, int depth)
{
    size_t at = 0;
    int angle = 0;
    for (token t; next_token(text, &at, size, &t);) {
        const char *word = text + t.at;
        const alias *a = is_word(*word) && depth < ALIAS_DEPTH ? find_alias(p, word, t.size) : NULL;
        angle += *word == '<' ? 1 : *word == '>' ? -1 : 0;
        if (angle > 0 || (!is_word(*word) && *word != '*')) {
            w->complex = true;
        } else if (*word == '*') {
            w->stars++;
            w->target = w->constant;
            w->constant = false;
        } else if (a) {
            const bool before = w->constant;
            const int stars = w->stars;
            w->constant = false;
            add_type(p, w, a->body, a->body_size, depth + 1);
            w->constant |= before && w->stars == stars;     // const before the name of a pointer type is the pointer's own
        } else if (same(word, t.size, "const")) {
            w->constant = true;
        } else if (!one_of(word, t.size, qualifiers)) {
            if (w->count == 8) {
                w->complex = true;
                return;
            }
            w->sizes[w->count] = t.size;
            w->words[w->count++] = word;
        }
    }
}

// ---- aliases

static void add_alias(parser *p, const char *name, size_t name_size, const char *body, size_t body_size)
{
    for (size_t i = 0; i + 1 < body_size; i++)
        if (body[i] == '/' && (body[i + 1] == '/' || body[i + 1] == '*'))
            body_size = i;
    while (body_size > 0 && isspace((unsigned char)body[body_size - 1]))
        body_size--;
    // what is no type's text cannot mislead: its words are unknown then as the name is
    if (name_size > 0 && body_size > 0 && p->alias_count < ALIASES && !memchr(body, '(', body_size) && !memchr(body, '{', body_size) &&
        !memchr(body, '[', body_size))
        p->aliases[p->alias_count++] = (alias){name, body, name_size, body_size};
}

const char *gwb_source_definition(const char *option)
{
    static const char *const prefixes[] = {"-D", "--define-macro="};
    for (int i = 0; i < 2; i++)
        if (strncmp(option, prefixes[i], strlen(prefixes[i])) == 0)
            return option + strlen(prefixes[i]);
    return NULL;
}

static int read_options(parser *p, const char *const *options, int count)
{
    size_t size;
    FILE *out = open_memstream(&p->s->defines, &size);
    for (int i = 0; out && i < count; i++) {
        const char *name = gwb_source_definition(options[i]), *equals = name ? strchr(name, '=') : NULL;
        if (equals)
            add_alias(p, name, (size_t)(equals - name), equals + 1, strlen(equals + 1));
        if (name)
            fprintf(out, "#define %.*s %s\n", (int)strcspn(name, "="), name, equals ? equals + 1 : "1");
    }
    return out && fclose(out) == 0 ? 0 : gwb_fail(GWB_OUT_OF_MEMORY, "out of host memory");
}

// Words that begin so make a thread wait for others of its block, or give up alone.
static const char *const waiting[] = {"__syncthreads", "__syncwarp", "__shfl", "__ballot", "__any", "__all", "__match", "__reduce_", "__trap", NULL};

static bool waits(const char *word, size_t size)
{
    for (const char *const *w = waiting; *w; w++)
        if (size >= strlen(*w) && memcmp(word, *w, strlen(*w)) == 0)
            return true;
    return false;
}

static void read_directive(void *context, size_t at, size_t end)
{
    parser *p = context;
    const char *text = p->s->text;
    at++;
    token t, name;
    if (!next_token(text, &at, end, &t))
        return;
    if (same(text + t.at, t.size, "define") && next_token(text, &at, end, &name)) {
        if (at < end && (text[at] == ' ' || text[at] == '\t'))
            add_alias(p, text + name.at, name.size, text + at, end - at);
        while (next_token(text, &at, end, &t))
            p->s->waits |= waits(text + t.at, t.size);
    } else if (same(text + t.at, t.size, "include") && next_token(text, &at, end, &t)) {
        const char *file = text + t.at + 1;
        const size_t size = strcspn(file, ">\"\n");
        char path[96];
        snprintf(path, sizeof path, "kernels/%.*s", (int)(size < 80 ? size : 80), file);
        p->s->includes |= !same(file, size, "abi_types.h") && !gwb_embedded_find(path);
    }
}

// `typedef X Y;` and `using Y = X;` from `at` on, which stands behind the word.
static void read_typedef(parser *p, size_t at, bool is_using)
{
    const char *clean = p->s->clean;
    const size_t size = strcspn(clean + at, ";{"), end = at + size;
    if (clean[end] != ';')
        return;
    token t, last = {0}, name;
    size_t from = at;
    if (is_using) {
        if (next_token(clean, &from, end, &name) && is_word(clean[name.at]) && next_token(clean, &from, end, &t) && clean[t.at] == '=')
            add_alias(p, clean + name.at, name.size, clean + from, end - from);
        return;
    }
    while (next_token(clean, &from, end, &t))
        last = t;
    if (last.size && is_word(clean[last.at]))
        add_alias(p, clean + last.at, last.size, clean + at, last.at - at);
}

// ---- signatures

static int refuse(const gwb_signature *f, const char *param, const char *why)
{
    return gwb_fail(GWB_COMPILE, "kernel.cu:%d: the parameter `%s` of %s: %s", f->line, param, f->name, why);
}

static int parse_param(parser *p, const gwb_signature *f, size_t at, size_t end, gwb_param *out)
{
    const char *clean = p->s->clean;
    token tokens[TOKENS];
    int count = 0, angle = 0, plain = 0, last = -1, last_star = -1;
    size_t cut = end;       // where an array's bounds begin
    const char *shown = keep(p, clean + at, end - at);
    for (token t; next_token(clean, &at, end, &t);) {
        const char c = clean[t.at];
        if (count == TOKENS)
            return refuse(f, shown, "it is too long");
        if (c == '=' && angle == 0) {       // a default value, which a launch has no use for
            end = cut < t.at ? cut : t.at;
            break;
        }
        if (c == '&' && angle == 0)
            return refuse(f, shown, "a kernel takes no references; pass a pointer or a value");
        if (c == '(' || c == '.')
            return refuse(f, shown, "a kernel takes numbers, pointers, vectors and structs; no functions, no pointers to arrays, no `...`");
        if (c == '[' && angle == 0 && cut == end)
            cut = t.at;
        angle += c == '<' ? 1 : c == '>' ? -1 : 0;
        tokens[count++] = t;
        if (t.at >= cut || angle > 0 || c == '>')
            continue;
        if (c == '*')
            last_star = count - 1;
        if (is_word(c) && !one_of(clean + t.at, t.size, qualifiers)) {
            plain++;
            last = count - 1;
        }
    }
    if (count == 0)
        return refuse(f, shown, "it is empty");
    // the last plain word is the name, unless it is all there is of the type
    const bool named = last >= 0 && plain > 1 && !one_of(clean + tokens[last].at, tokens[last].size, basic) && last > last_star &&
                       !(last > 0 && clean[tokens[last - 1].at] == ':');
    const size_t first = tokens[0].at, type_end = cut < end ? cut : end;
    const size_t name_at = named ? tokens[last].at : type_end, name_end = named ? name_at + tokens[last].size : type_end;
    const bool array = cut < end;

    type_words w = {0};
    add_type(p, &w, clean + first, name_at - first, 0);
    if (w.complex)
        w.count = 0;
    gwb_param base;
    classify(&base, w.words, w.sizes, w.count);
    *out = base;
    if (w.stars > 0 || array) {
        const bool deep = w.stars + array > 1, opaque = base.kind == GWB_PARAM_STRUCT || base.kind == GWB_PARAM_VIEW;
        *out = (gwb_param){.kind = GWB_PARAM_POINTER, .size = 8, .constant = array ? w.constant : w.target,
                           .align = deep ? 8 : opaque ? 1 : base.align, .element = deep || opaque ? GWB_POINTS_ANY : base.element,
                           .channels = deep || base.channels < 2 ? 0 : base.channels};
    }
    out->name = named ? keep(p, clean + name_at, name_end - name_at) : "";
    char type[512];
    const int n = snprintf(type, sizeof type, "%.*s %.*s%s", (int)(name_at - first), clean + first, (int)(type_end - name_end), clean + name_end,
                           array ? " *" : "");
    if (n < 0 || n >= (int)sizeof type)
        return refuse(f, shown, "its type is too long");
    out->type = keep(p, type, (size_t)n);
    return 0;
}

static int parse_params(parser *p, gwb_signature *f, size_t close)
{
    const char *clean = p->s->clean;
    gwb_param params[GWB_PARAMS];
    char text[4096];
    size_t used = (size_t)snprintf(text, sizeof text, "%s(", f->name);
    size_t at = f->params_at, probe = at;
    token t;
    const bool none = !next_token(clean, &probe, close, &t) || (same(clean + t.at, t.size, "void") && !next_token(clean, &probe, close, &t));
    while (!none && at <= close) {
        size_t end = at;
        for (int angle = 0; end < close && !(clean[end] == ',' && angle == 0); end++) {
            angle += clean[end] == '<' ? 1 : clean[end] == '>' && angle > 0 ? -1 : 0;
            if (strchr("([{", clean[end]) && clean[end])
                end = skip_brackets(clean, end, close) ? skip_brackets(clean, end, close) - 1 : close - 1;
        }
        if (f->count == GWB_PARAMS)
            return gwb_fail(GWB_COMPILE, "kernel.cu:%d: %s has more than %d parameters; put them into a struct", f->line, f->name, GWB_PARAMS);
        gwb_param *to = &params[f->count];
        const int rc = parse_param(p, f, at, end, to);
        if (rc < 0)
            return rc;
        if (used < sizeof text) {
            const char *space = !*to->name || to->type[strlen(to->type) - 1] == '*' ? "" : " ";
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s%s%s", f->count ? ", " : "", to->type, space, to->name);
        }
        f->count++;
        at = end + 1;
    }
    if (used < sizeof text)
        used += (size_t)snprintf(text + used, sizeof text - used, ")");
    f->text = keep(p, text, strlen(text));
    f->params = calloc((size_t)(f->count ? f->count : 1), sizeof *f->params);
    if (!f->params)
        return gwb_fail(GWB_OUT_OF_MEMORY, "out of host memory");
    memcpy(f->params, params, (size_t)f->count * sizeof *params);
    return 0;
}

static bool contains(const gwb_source *s, size_t at, size_t end, const char *wanted)
{
    size_t size;
    for (const char *word; (word = gwb_source_word(s, &at, end, &size));)
        if (same(word, size, wanted))
            return true;
    return false;
}

// The function whose `__global__` ends at `at`. 1 and *f filled, 0 where it is no function, or a failure.
static int parse_function(parser *p, size_t mark, size_t at, gwb_signature *f)
{
    gwb_source *s = p->s;
    const char *clean = s->clean;
    *f = (gwb_signature){.mark = mark, .first = mark};
    while (f->first > 0 && clean[f->first - 1] > GWB_MARK_LAST && !strchr(";{}", clean[f->first - 1]))
        f->first--;
    token t, name = {0};
    while (next_token(clean, &at, s->size, &t)) {
        size_t behind = at;
        token sign;
        if (!is_word(clean[t.at]) || !next_token(clean, &behind, s->size, &sign))
            return 0;
        if (clean[sign.at] != '(')
            continue;       // void, static and the like
        name = t;
        at = sign.at;
        if (strncmp(clean + t.at, "__", 2) != 0)
            break;
        at = skip_brackets(clean, at, s->size);     // __launch_bounds__(…) and other attributes
        if (!at)
            return 0;
    }
    const size_t close = name.size ? skip_brackets(clean, at, s->size) : 0;
    if (!close)
        return 0;
    f->name_at = name.at;
    f->name = keep(p, clean + name.at, name.size);
    f->line = gwb_source_line(s, name.at);
    f->params_at = at + 1;
    if (contains(s, f->first, mark, "template"))
        return gwb_fail(GWB_COMPILE, "kernel.cu:%d: %s is a template, which has no address to launch; write a __global__ function for each type, "
                        "which calls a __device__ template", f->line, f->name);
    const int rc = parse_params(p, f, close - 1);
    if (rc < 0)
        return rc;
    const size_t behind = close + strcspn(clean + close, "{;");
    f->defined = clean[behind] == '{';
    if (f->defined) {
        f->end = skip_brackets(clean, behind, s->size);
        if (!f->end)
            return gwb_fail(GWB_COMPILE, "kernel.cu:%d: the body of %s has no end: a } is missing", f->line, f->name);
    }
    return 1;
}

static int parse(parser *p)
{
    gwb_source *s = p->s;
    size_t at = 0, size, outside = 0;
    int room = 0;
    for (const char *word; (word = gwb_source_word(s, &at, s->size, &size));) {
        if (same(word, size, "typedef") || same(word, size, "using"))
            read_typedef(p, at, *word == 'u');
        s->waits |= at > outside && waits(word, size);
        if (!same(word, size, "__global__"))
            continue;
        gwb_signature f;
        const int rc = parse_function(p, at - size, at, &f);
        if (rc < 0) {
            free(f.params);
            return rc;
        }
        if (rc == 0)
            continue;
        if (s->count == room) {
            room = room ? 2 * room : 8;
            gwb_signature *grown = realloc(s->list, (size_t)room * sizeof *grown);
            if (!grown) {
                free(f.params);
                return gwb_fail(GWB_OUT_OF_MEMORY, "out of host memory");
            }
            s->list = grown;
        }
        size_t inside = f.params_at, length;
        while (f.end && (word = gwb_source_word(s, &inside, f.end, &length)))
            f.waits |= waits(word, length);
        outside = f.end > at ? f.end : at;
        s->list[s->count++] = f;
    }
    return 0;
}

int gwb_source_parse(gwb_source **out, const char *text, const char *const *options, int option_count)
{
    *out = NULL;
    parser *p = calloc(1, sizeof *p);
    gwb_source *s = calloc(1, sizeof *s);
    const size_t size = strlen(text), strings = 8 * size + (64 << 10);
    if (p && s) {
        s->size = size;
        s->text = strdup(text);
        s->clean = calloc(1, size + 1);
        s->strings = malloc(strings);
    }
    int rc = p && s && s->text && s->clean && s->strings ? 0 : gwb_fail(GWB_OUT_OF_MEMORY, "out of host memory");
    if (rc >= 0) {
        p->s = s;
        p->strings = s->strings;
        p->strings_end = p->strings + strings;
        rc = read_options(p, options, option_count);
    }
    if (rc >= 0) {
        gwb_source_clean(s, read_directive, p);
        rc = parse(p);
    }
    free(p);
    if (rc >= 0)
        *out = s;
    else
        gwb_source_free(s);
    return rc;
}

void gwb_source_free(gwb_source *s)
{
    if (!s)
        return;
    for (int i = 0; i < s->count; i++)
        free(s->list[i].params);
    free(s->list);
    free(s->strings);
    free(s->defines);
    free(s->clean);
    free(s->text);
    free(s);
}
