// SPDX-License-Identifier: MIT
// Frames from a program's standard output, and to its standard input. A thread moves them through a ring of blocks, so that the program and the
// caller work at the same time and the memory is bounded. The blocks of a reader are page-locked, where there is a cuda device to copy from them.
#include "codec.h"
#include "device.h"
#include "program.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_BLOCKS = 16, PATIENCE = 200 /* ms until a thread looks again whether it shall stop */ };

struct gwb_video {
    gwb_program program;
    int64_t frame_bytes;
    int count;              // blocks of the ring
    gwb_mat block[MOST_BLOCKS];         // a reader's
    uint8_t *memory[MOST_BLOCKS];       // the same bytes; a writer's own
    bool writes;
    bool lenient;           // what the program says is no failure, where frames came
    char *path;             // a writer's: what it writes, for messages
    char target[PATH_MAX];  // the file that is replaced in the end
    char part[PATH_MAX];    // the file that the program writes; "": it writes path itself

    pthread_t thread;
    bool runs;              // the thread is there to be joined; the caller's
    pthread_mutex_t lock;   // over all below
    pthread_cond_t changed;
    int first;              // the oldest block in use
    int given;              // a reader's blocks from there on that the caller has: copies from them may be under way
    int filled;             // blocks behind these with a frame in them
    int64_t frames;         // moved by the thread
    bool stop;              // the thread shall end
    bool finish;            // a writer's: no frame will follow
    bool ended;             // the thread does no more
    int rc;                 // then: how it ended
    char message[2048];

    gwb_video *previous, *next;         // the open ones, under `open_lock`
};

static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static gwb_video *open_videos;

// ---- the threads

// Failure texts belong to threads: this one is handed over.
static void end_thread(gwb_video *v, int rc)
{
    pthread_mutex_lock(&v->lock);
    v->rc = rc;
    if (rc < 0) snprintf(v->message, sizeof v->message, "%s", gwb_error_message());
    v->ended = true;
    pthread_cond_broadcast(&v->changed);
    pthread_mutex_unlock(&v->lock);
}

// Waits for what the thread works on next: the block's position, or -1 where there will be none.
static int next_block(gwb_video *v)
{
    pthread_mutex_lock(&v->lock);
    while (!v->stop && (v->writes ? v->filled == 0 && !v->finish : v->given + v->filled == v->count)) {
        pthread_cond_wait(&v->changed, &v->lock);
    }
    int at = v->stop || (v->writes && v->filled == 0) ? -1 : (v->first + (v->writes ? 0 : v->given + v->filled)) % v->count;
    pthread_mutex_unlock(&v->lock);
    return at;
}

static bool stopped(gwb_video *v)
{
    pthread_mutex_lock(&v->lock);
    bool stop = v->stop;
    pthread_mutex_unlock(&v->lock);
    return stop;
}

// Fills a block, or takes it to the program. Returns the bytes moved: fewer than a frame has at the end of the pipe, and where the thread shall stop.
static int64_t move_frame(gwb_video *v, uint8_t *memory)
{
    gwb_program *p = &v->program;
    int64_t done = 0;
    while (done < v->frame_bytes) {
        if (!gwb_program_poll(p, v->writes ? p->in : p->out, PATIENCE)) {
            if (stopped(v)) break;
            continue;
        }
        size_t left = (size_t)(v->frame_bytes - done);
        ssize_t moved = v->writes ? write(p->in, memory + done, left) : read(p->out, memory + done, left);
        if (moved > 0) done += moved;
        else if (moved == 0 || (errno != EAGAIN && errno != EINTR)) break;
    }
    return done;
}

// ffmpeg ends with status 0 also where the last bytes or the file's index found no room; it says so.
static bool tells_of_failure(const char *said)
{
    static const char *const signs[] = {"Error writing trailer", "Error closing file", "No space left on device", "Disk quota exceeded", "File too large"};
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (strstr(said, signs[i])) return true;
    return false;
}

static int check_end(gwb_video *v, int64_t rest)
{
    gwb_program *p = &v->program;
    int rc = gwb_program_wait(p, v->writes ? GWB_IO : GWB_BAD_FILE);
    char said[GWB_PROGRAM_TEXT + 200];
    const bool lenient = v->lenient && v->frames > 0;
    if (rc < 0) return lenient && rc == GWB_BAD_FILE ? 0 : rc;
    gwb_program_quote(p, said, sizeof said);
    if (v->writes && tells_of_failure(said)) return gwb_fail(GWB_IO, "%s", said);
    if (v->writes) return rest < 0 ? gwb_fail(GWB_IO, "%s ended before it had all frames", p->name) : 0;
    if (lenient) return 0;
    if (said[0]) return gwb_fail(GWB_BAD_FILE, "damaged: %s (strict=false takes what there is)", said);
    if (rest > 0) {
        return gwb_fail(GWB_BAD_FILE, "truncated: %s gave %" PRId64 " of the %" PRId64 " bytes of frame %" PRId64, p->name, rest, v->frame_bytes,
                        v->frames);
    }
    return 0;
}

static void *move_frames(void *argument)
{
    gwb_video *v = argument;
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL); // signals are the script's; and a pipe that nobody reads is an error, not an end
    int64_t rest = 0;
    for (int at; (at = next_block(v)) >= 0;) {
        int64_t moved = move_frame(v, v->memory[at]);
        if (moved < v->frame_bytes) {
            rest = v->writes ? -1 : moved;
            break;
        }
        pthread_mutex_lock(&v->lock);
        v->frames++;
        if (v->writes) {
            v->first = (v->first + 1) % v->count;
            v->filled--;
        } else {
            v->filled++;
        }
        pthread_cond_broadcast(&v->changed);
        pthread_mutex_unlock(&v->lock);
    }
    end_thread(v, stopped(v) ? gwb_fail(GWB_CLOSED, "it is closed") : check_end(v, rest));
    return NULL;
}

// ---- opening and closing

static void stop_thread(gwb_video *v)
{
    if (!v->runs) return;
    pthread_mutex_lock(&v->lock);
    v->stop = true;
    pthread_cond_broadcast(&v->changed);
    pthread_mutex_unlock(&v->lock);
    gwb_program_kill(&v->program);
    pthread_join(v->thread, NULL);
    v->runs = false;
}

// A reset takes the memory of readers away, while their threads fill it.
static void stop_readers(void)
{
    pthread_mutex_lock(&open_lock);
    for (gwb_video *v = open_videos; v; v = v->next) {
        if (v->writes) continue;
        stop_thread(v);
        v->rc = GWB_CLOSED;
        v->filled = 0;
        snprintf(v->message, sizeof v->message, "the video was lost when a device was reset; open it again");
    }
    pthread_mutex_unlock(&open_lock);
}

static void enter(gwb_video *v)
{
    gwb_call_before_reset(stop_readers);
    pthread_mutex_lock(&open_lock);
    v->next = open_videos;
    if (v->next) v->next->previous = v;
    open_videos = v;
    pthread_mutex_unlock(&open_lock);
}

static void leave(gwb_video *v)
{
    pthread_mutex_lock(&open_lock);
    if (v->next) v->next->previous = v->previous;
    if (v->previous) v->previous->next = v->next;
    else if (open_videos == v) open_videos = v->next;
    pthread_mutex_unlock(&open_lock);
}

void gwb_video_close(gwb_video *video)
{
    gwb_video *v = video;
    if (!v || gwb_forked) return;
    leave(v);
    stop_thread(v);
    gwb_program_free(&v->program);
    if (v->part[0]) unlink(v->part);
    for (int i = 0; i < v->count; i++) {
        if (v->writes) free(v->memory[i]);
        else gwb_mat_close(&v->block[i]);
    }
    pthread_cond_destroy(&v->changed);
    pthread_mutex_destroy(&v->lock);
    free(v->path);
    free(v);
}

static int make_blocks(gwb_video *v)
{
    static const gwb_mat_params pinned = {.packed = 1, .pinned = 1};
    // A mat's width has 32 bits: rows of 1 MiB, the last one longer than the frame needs.
    int64_t width = v->frame_bytes < 1 << 20 ? v->frame_bytes : 1 << 20, height = (v->frame_bytes + width - 1) / width;
    for (int i = 0; i < v->count; i++) {
        if (v->writes) {
            v->memory[i] = malloc((size_t)v->frame_bytes);
            if (!v->memory[i]) return gwb_fail(GWB_OUT_OF_MEMORY, "no memory for a frame of %" PRId64 " bytes", v->frame_bytes);
            continue;
        }
        int rc = gwb_mat_create(&v->block[i], 0, (int32_t)width, (int32_t)height, GWB_U8, 1, &pinned);
        if (rc == 0) rc = gwb_mat_wait(&v->block[i], 1);
        if (rc < 0) return rc;
        v->memory[i] = v->block[i].data;
    }
    return 0;
}

// `v` is closed where it fails.
static int start(gwb_video *v, const char *const *argv, const char *advice, gwb_video **out)
{
    int rc = make_blocks(v);
    if (rc == 0) rc = gwb_program_start(&v->program, argv, v->writes, !v->writes, advice);
    if (rc == 0 && pthread_create(&v->thread, NULL, move_frames, v) != 0) rc = gwb_fail(GWB_OUT_OF_MEMORY, "a thread cannot be started");
    else if (rc == 0) v->runs = true;
    if (rc == 0) {
        enter(v);
        *out = v;
    } else {
        gwb_video_close(v);
    }
    return rc;
}

static int create(gwb_video **out, int64_t frame_bytes, int32_t ahead, bool writes)
{
    if (frame_bytes < 1 || frame_bytes > INT64_C(1) << 40) return gwb_fail(GWB_BAD_ARGUMENT, "a frame of %" PRId64 " bytes", frame_bytes);
    if (ahead < 2 || ahead > MOST_BLOCKS) return gwb_fail(GWB_BAD_ARGUMENT, "%d frames ahead; wanted 2..%d", ahead, MOST_BLOCKS);
    gwb_video *v = calloc(1, sizeof *v);
    if (!v) return gwb_fail(GWB_OUT_OF_MEMORY, "out of host memory");
    v->frame_bytes = frame_bytes;
    v->count = ahead;
    v->writes = writes;
    pthread_mutex_init(&v->lock, NULL);
    pthread_cond_init(&v->changed, NULL);
    *out = v;
    return 0;
}

int gwb_video_read(gwb_video **video, const char *const *argv, const char *advice, int64_t frame_bytes, int32_t ahead, int lenient)
{
    gwb_video *v = NULL;
    *video = NULL;
    int rc = create(&v, frame_bytes, ahead, false);
    if (rc < 0) return rc;
    v->lenient = lenient != 0;
    return start(v, argv, advice, video);
}

int gwb_video_write(gwb_video **video, const char *const *argv, const char *advice, const char *path, const char *end, int64_t frame_bytes,
                    int32_t ahead)
{
    gwb_video *v = NULL;
    struct stat old;
    char name[PATH_MAX + 8];
    int count = 0;
    *video = NULL;
    int rc = create(&v, frame_bytes, ahead, true);
    if (rc < 0) return rc;
    while (argv[count]) count++;
    const char **all = calloc((size_t)count + 2, sizeof *all);
    v->path = strdup(path);
    if (!all || !v->path) {
        rc = gwb_fail(GWB_OUT_OF_MEMORY, "out of host memory");
    } else if (stat(path, &old) != 0 || S_ISREG(old.st_mode) || S_ISDIR(old.st_mode)) {
        int fd = gwb_file_part(path, end, v->target, v->part);
        if (fd >= 0) close(fd);
        else v->part[0] = 0;
        rc = fd < 0 ? fd : 0;
    }
    if (rc < 0) {
        free(all);
        gwb_video_close(v);
        return rc;
    }
    memcpy(all, argv, (size_t)count * sizeof *all);
    snprintf(name, sizeof name, "file:%s", v->part[0] ? v->part : path);
    all[count] = name;
    rc = start(v, all, advice, video);
    free(all);
    return rc;
}

// ---- what callers do

// The thread's failure as the caller's.
static int failure(const gwb_video *v)
{
    return v->writes ? gwb_fail(v->rc, "%s: %s", v->path, v->message) : gwb_fail(v->rc, "%s", v->message);
}

int gwb_video_next(gwb_video *video, int64_t *frames)
{
    gwb_video *v = video;
    if (gwb_check_fork() < 0) return GWB_NO_DEVICE;
    // Only the caller's thread changes `first` and `given` of a reader, so the blocks are its own here.
    int done = 0;
    while (done < v->given && !gwb_mat_pending(&v->block[(v->first + done) % v->count])) done++;
    if (done == 0 && v->given == v->count) {
        int rc = gwb_mat_wait(&v->block[v->first], 1);
        if (rc < 0) return rc;
        done = 1;
    }
    pthread_mutex_lock(&v->lock);
    v->first = (v->first + done) % v->count;
    v->given -= done;
    pthread_cond_broadcast(&v->changed);
    while (v->filled == 0 && !v->ended) pthread_cond_wait(&v->changed, &v->lock);
    int at = -1;
    if (v->filled > 0) {
        at = (v->first + v->given) % v->count;
        v->given++;
        v->filled--;
    }
    int rc = at < 0 ? v->rc : 0;
    *frames = v->frames;
    pthread_mutex_unlock(&v->lock);
    return rc < 0 ? failure(v) : at + 1;
}

int gwb_video_block(const gwb_video *video, int block, gwb_mat *m)
{
    if (block < 1 || block > video->count || video->writes) return gwb_fail(GWB_BAD_ARGUMENT, "no block %d", block);
    const gwb_mat *own = &video->block[block - 1];
    return gwb_mat_view(m, own, 0, 0, own->width, own->height);
}

int gwb_video_room(gwb_video *video, int64_t frame_bytes, uint8_t **frame)
{
    gwb_video *v = video;
    if (gwb_check_fork() < 0) return GWB_NO_DEVICE;
    if (frame_bytes != v->frame_bytes) {
        return gwb_fail(GWB_SHAPE, "%s: a frame of %" PRId64 " bytes, and the others have %" PRId64, v->path, frame_bytes, v->frame_bytes);
    }
    pthread_mutex_lock(&v->lock);
    while (v->filled == v->count && !v->ended) pthread_cond_wait(&v->changed, &v->lock);
    bool ended = v->ended;
    *frame = v->memory[(v->first + v->filled) % v->count];
    pthread_mutex_unlock(&v->lock);
    if (!ended) return 0;
    return v->rc < 0 ? failure(v) : gwb_fail(GWB_CLOSED, "%s is finished", v->path);
}

void gwb_video_send(gwb_video *video)
{
    pthread_mutex_lock(&video->lock);
    video->filled++;
    pthread_cond_broadcast(&video->changed);
    pthread_mutex_unlock(&video->lock);
}

int gwb_video_finish(gwb_video *video, int sync)
{
    gwb_video *v = video;
    if (gwb_check_fork() < 0) return GWB_NO_DEVICE;
    if (!v->runs) return gwb_fail(GWB_CLOSED, "%s is finished", v->path);
    pthread_mutex_lock(&v->lock);
    v->finish = true;
    pthread_cond_broadcast(&v->changed);
    pthread_mutex_unlock(&v->lock);
    pthread_join(v->thread, NULL);
    v->runs = false;
    if (v->rc < 0) return failure(v);
    if (!v->part[0]) return 0;
    int rc = gwb_file_replace(v->path, v->target, v->part, sync);
    v->part[0] = 0; // renamed, or removed
    return rc;
}
