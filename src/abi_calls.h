// SPDX-License-Identifier: MIT
// The calls that C programs and scripts (ffi.cdef) make. gwb.h states the rules that hold for all of them. No preprocessor line stands here.

// ---- the library
const char *gwb_version(void);                  // "0.1.0"; static
const char *gwb_error_message(void);            // of the calling thread's last failure; valid until its next call
const char *gwb_status_name(int status);        // "OUT_OF_MEMORY"; static
const char *gwb_status_text(int status);        // a general sentence; static
int64_t gwb_abi_size(const char *type);         // sizeof a struct of abi_types.h by name, or -1: to check that both sides agree
const char *gwb_type_name(int type);            // "u8"; NULL for no type
int gwb_type_size(int type);                    // bytes of one channel; 0 for no type

// ---- devices. Position 0 is the host, then the cuda devices in the driver's order.
int gwb_device_count(void);                     // at least 1; loads the driver on first use
int gwb_device_info_get(int device, gwb_device_info *info);      // fills the caller's struct; GWB_NO_DEVICE
int gwb_device_find(const char *name);          // position of "host", "cuda" (= "cuda:0"), "cuda:N"; or a negative status
int gwb_device_current(void);                   // position, of the calling process; $GPUWB_DEVICE, else cuda:0, else the host; or a negative status
int gwb_device_use(int device);                 // makes it current
const char *gwb_cuda_absent(void);              // why there is no cuda device; NULL when there is one
int gwb_synchronize(int device);                // waits for all work of the device
// Closes the device and all that is on it: mats, streams and events of it are lost (GWB_CLOSED), kernels are loaded again when next launched. The device
// opens again when next used. On cuda the whole process loses its primary context; the way to go on after a kernel has failed. No other thread may be
// in a call meanwhile.
int gwb_reset(int device);
int gwb_resets(int device);                     // how often the device was reset: what libraries made on it before is gone; GWB_NO_DEVICE
// Waits by gwb_stream_synchronize, gwb_event_synchronize, gwb_synchronize and reading calls may be broken off (on) by gwb_interrupt: GWB_INTERRUPTED, the
// work goes on. Each call of the first begins anew. The second may be called in a signal handler.
void gwb_waits_break_off(int on);
void gwb_interrupt(void);
int gwb_memory_get(int device, gwb_memory *memory);     // bytes now; does not wait; GWB_NO_DEVICE
int64_t gwb_trim(int device);                   // gives memory kept for reuse back to the device; bytes given back, or a negative status
int gwb_limit(int device, int64_t bytes);       // most bytes for mats; 0: no limit
int gwb_collect_due(void);                      // 1: enough device bytes came up since gwb_collected that a collection pays
void gwb_collected(void);                       // a collection is done: the count begins anew
uint64_t gwb_owner_keys(void);                  // first of 2^32 keys for owners, which no other call in this process gets
uint64_t gwb_released_owner(uint64_t first);    // key of a wrapped owner, of those from `first`, whose memory is no longer used; 0: none. Asked until 0
int gwb_deleters_due(void);                     // 1: gwb_released_owner found imported memory that is no longer used
void gwb_run_deleters(void);                    // tells its libraries, on this thread; a deleter may call anything, so not from compiled FFI calls

// ---- mats. Sizes and positions in pixels, steps and offsets in bytes; `type` is a gwb_type, `channels` 1..4. Nothing here waits that does not say so.
// Memory is not cleared. Where it runs out, or gwb_limit is reached, creation waits for what is kept for reuse, gives it back, then is GWB_OUT_OF_MEMORY.
int gwb_mat_create(gwb_mat *m, int device, int32_t width, int32_t height, int type, int channels, const gwb_mat_params *params);
// The same in memory that other processes can open, on either device. It does not count as used memory of gwb_memory_get, and is not kept for reuse.
int gwb_mat_create_shared(gwb_mat *m, int device, int32_t width, int32_t height, int type, int channels, const gwb_mat_params *params);
int gwb_mat_wrap(gwb_mat *m, const gwb_wrap_params *params);    // foreign memory, which stays its owner's; see gwb_released_owner
// A view of `width` x `height` pixels from (x, y): the parent's memory and step; keeps the buffer alive.
int gwb_mat_view(gwb_mat *m, const gwb_mat *parent, int32_t x, int32_t y, int32_t width, int32_t height);
// A view of the same bytes in another shape; GWB_SHAPE where the parent is not contiguous or the bytes do not match.
int gwb_mat_reshape(gwb_mat *m, const gwb_mat *parent, int32_t width, int32_t height, int type, int channels);
// A view from `offset` bytes behind the parent's first byte, with a step of its own; must lie in the parent's bytes.
int gwb_mat_slice(gwb_mat *m, const gwb_mat *parent, int64_t offset, int64_t step, int32_t width, int32_t height, int type, int channels);
void gwb_mat_close(gwb_mat *m);                 // never fails, never waits; the memory is reused after the work that uses it
int gwb_mat_contiguous(const gwb_mat *m);       // 1: no gap between rows
int64_t gwb_mat_bytes(const gwb_mat *m);        // from the first byte to behind the last: (height - 1) * step + width * elem_size
int64_t gwb_mat_offset(const gwb_mat *m);       // bytes from the start of the buffer
int64_t gwb_mat_buffer_bytes(const gwb_mat *m); // of the whole buffer that m lies in
int gwb_mat_same(const gwb_mat *a, const gwb_mat *b);   // 1: same memory, shape, type and step
int gwb_mat_wait(const gwb_mat *m, int for_write);      // waits for the work that writes m (for_write: and that reads it)
int gwb_mat_pending(const gwb_mat *m);          // 1: work that uses m's buffer is not done yet
// Tells the ordering that `stream` is used outside gpuwb to read (or write) m from here on: later operations wait for what it holds now.
int gwb_mat_record_stream(const gwb_mat *m, const gwb_stream *stream, int write);
// Another library has issued its work on m, on streams that nobody named (cuda): the memory is reused, and written by gpuwb, behind what CUDA's legacy
// default stream holds now.
void gwb_mat_lent(const gwb_mat *m);
int gwb_mat_ready(const gwb_mat *m, const gwb_stream *stream);  // later work of `stream`, of any device, runs after all that uses m now; NULL: waits for that
// Calls of another library that use mats on `stream` stand between these two, which get the same lists. begin makes the stream wait for the work that the
// mats depend on, and the device current for libraries on this thread; end tells the ordering, and puts the device back that was current (*outer). Where
// begin fails there is no end; the mats and the stream stay open until end.
int gwb_library_begin(const gwb_stream *stream, const gwb_mat *const *reads, int read_count, const gwb_mat *const *writes, int write_count, void **outer);
int gwb_library_end(const gwb_stream *stream, const gwb_mat *const *reads, int read_count, const gwb_mat *const *writes, int write_count, void *outer);
int gwb_mat_at(const gwb_mat *m, int32_t x, int32_t y, double *values);     // waits; `channels` values
int gwb_mat_declare(const gwb_mat *frame, int format, int32_t width, int32_t height);   // a packed frame of that format begins at `frame`: rule P4 then knows its planes

// ---- streams and events
int gwb_stream_create(gwb_stream *s, int device, const gwb_stream_params *params);
int gwb_stream_default(gwb_stream *s, int device);      // the device's default stream; close it too
int gwb_stream_share(gwb_stream *s, const gwb_stream *other);   // one more handle of that stream, which lives until the last is closed
void gwb_stream_close(gwb_stream *s);           // work in it goes on
int gwb_stream_synchronize(const gwb_stream *s);        // waits
int gwb_stream_query(const gwb_stream *s);      // 1: all work is done, 0: not yet
int gwb_stream_records(int device, const gwb_stream *s);        // 1: what is enqueued on it is recorded; NULL: on the default stream of the device
int gwb_stream_wait_stream(const gwb_stream *s, const gwb_stream *other);   // later work of s runs after what `other` holds now
int gwb_stream_wait_event(const gwb_stream *s, const gwb_event *e);
int gwb_stream_sleep(const gwb_stream *s, double ms);   // keeps the stream busy for about that long (0..10000), to try out order
// Records what is enqueued on a stream instead of doing it, from gwb_graph_begin to gwb_graph_end; what waits for the stream is GWB_UNSUPPORTED
// meanwhile, as all of it is where the driver cannot record. The graph is the caller's until gwb_graph_close, which also ends a recording; it holds the
// memory that its operations use. None of these waits. GWB_CLOSED after a reset of the device, for a graph and for the memory that it uses.
int gwb_graph_begin(gwb_graph **graph, const gwb_stream *s);
int gwb_graph_end(gwb_graph *graph);
int gwb_graph_launch(gwb_graph *graph, const gwb_stream *s);    // enqueues all of it as one operation; NULL: the default stream of its device
void gwb_graph_update(gwb_graph *graph, gwb_graph *newer);      // exchanges what they hold; cheap where they differ in numbers and addresses alone
void gwb_graph_close(gwb_graph *graph); // NULL is fine; work under way goes on
int gwb_graph_size(const gwb_graph *graph, int *allocations);   // operations; sets the allocations that they use
int gwb_event_create(gwb_event *e, int timing);
int gwb_event_create_shared(gwb_event *e, int device);  // one of that device that other processes can open; keeps no time
void gwb_event_close(gwb_event *e);
int gwb_event_record(gwb_event *e, const gwb_stream *s);        // reached when all that s holds now is done
int gwb_event_synchronize(const gwb_event *e);  // waits
int gwb_event_query(const gwb_event *e);        // 1: reached, 0: not yet
int gwb_event_elapsed(const gwb_event *start, const gwb_event *end, double *ms);    // waits for both; GWB_NOT_READY where one was never recorded

// ---- work on mats. Shapes must match, else GWB_SHAPE. `stream` may be NULL.
int gwb_fill(const gwb_mat *m, const double *values, const gwb_stream *stream);     // `channels` values that fit the type
int gwb_upload(const gwb_mat *dst, const void *src, int64_t step, const gwb_stream *stream);    // src may be freed on return; step 0: tight
int gwb_download(void *dst, int64_t step, const gwb_mat *src, const gwb_stream *stream);        // waits until dst holds the pixels
int gwb_copy(const gwb_mat *dst, const gwb_mat *src, const gwb_stream *stream);     // any device to any device
int gwb_copy_planes(const gwb_mat *const *dst, const gwb_mat *const *src, int count, const gwb_stream *stream);  // up to GWB_MAX_PLANES, in one launch
int gwb_copy2d(const gwb_copy2d_params *copy, const gwb_stream *stream);   // validates, issues; the rules are asked by gwb_copy2d_check
int gwb_copy2d_check(const gwb_copy2d_params *copy, gwb_copy_report *report);   // issues nothing
int gwb_fill_rows(const gwb_mat *m, const gwb_mat *row, const gwb_stream *stream);      // each row becomes `row`, one row of the same width and type
// Saturating conversion: dst = value * scale + offset, in double; round: 0 to nearest even, 1 towards zero, 2 down, 3 up (integer dst).
int gwb_cast(const gwb_mat *dst, const gwb_mat *src, double scale, double offset, int round, const gwb_stream *stream);
int gwb_split(const gwb_mat *const *dst, const gwb_mat *src, const gwb_stream *stream);     // one single-channel mat a channel
int gwb_merge(const gwb_mat *dst, const gwb_mat *const *src, const gwb_stream *stream);     // the other way

// ---- files. Pixels in host memory; every call is finished when it returns. A path "-" is standard input or output.
const char *gwb_file_kinds(int writing);        // "png jpg ...", the formats read or written; static
const char *gwb_file_kind(const char *extension);       // the format of "jpeg" is "jpg"; NULL for none; static
// Reads a picture by its content. `name` is what messages call it. The picture is the caller's until gwb_picture_free, whatever the result.
int gwb_decode(const void *bytes, int64_t size, const char *name, const gwb_read_params *params, gwb_picture *picture);
int gwb_load(const char *path, const gwb_read_params *params, gwb_picture *picture);
// The same in a process of its own that has no rights but to compute: a decoder's crash or loop becomes GWB_BAD_FILE, and takes nothing with it.
// Safe for files of strangers. Forks: the time grows with the memory of the calling process.
int gwb_decode_isolated(const void *bytes, int64_t size, const char *name, const gwb_read_params *params, gwb_picture *picture);
int gwb_load_isolated(const char *path, const gwb_read_params *params, gwb_picture *picture);
void gwb_picture_free(gwb_picture *picture);
// Moves the pixels of a picture that lies in the host device's pool as such a mat would into `mat`, which is the caller's then: 1. 0: it lies elsewhere.
// gwb_picture_keep goes the other way, with a mat that nobody else uses and whose pixels the picture shows: it is the picture's then; 0, or
// GWB_OUT_OF_MEMORY with nothing changed. Neither copies or waits; one thread at a time may use a picture.
int gwb_picture_move(gwb_picture *picture, gwb_mat *mat);
int gwb_picture_keep(gwb_picture *picture, gwb_mat *mat);
// Whether optional libraries are used (use < 0 asks, 0 and 1 set, for the whole process); returns what it was.
int gwb_codec_libraries(int use);
const char *gwb_codec_library(const char *kind);        // what "png" or "jpg" is decoded by now; static
// Adds a file's bytes to `bytes`. The planes are read, whatever their step; a format that cannot hold them is GWB_UNSUPPORTED.
int gwb_encode(const gwb_picture *picture, const char *kind, const gwb_write_params *params, gwb_bytes *bytes);
void gwb_bytes_free(gwb_bytes *bytes);
int gwb_file_read(const char *path, int64_t max_bytes, gwb_bytes *bytes);       // 0: no limit
// Writes beside the target and renames: after a failure the old file is untouched and nothing new is left. What is no regular file (a pipe,
// a device) is written directly.
int gwb_file_write(const char *path, const void *bytes, int64_t size, int sync);
// A y4m file, or with frame_bytes > 0 raw frames of that many bytes. The reader is the caller's until gwb_frames_close.
int gwb_frames_open(const char *path, int64_t frame_bytes, const gwb_read_params *params, gwb_frames **frames);
// 1: `picture` shows the next frame in memory that the reader keeps and reuses; 0: there is none; or a negative status. A raw frame counts no
// planes: plane[0].data is where its bytes begin.
int gwb_frames_next(gwb_frames *frames, gwb_picture *picture);
void gwb_frames_close(gwb_frames *frames);      // NULL is fine
int gwb_frames_known(const char *path);         // 1: gwb_frames_open reads it (a y4m, or no regular file); 0: something else; or a negative status

// ---- programs that read and write video. `argv` ends with NULL; argv[0] is looked for on PATH, no shell is in between. Where it is not there the call
// is GWB_UNSUPPORTED, and `advice` ends its text. A program runs beside this one and is ended by gwb_video_close at the latest.
int gwb_program_read(const char *const *argv, const char *advice, int64_t max_bytes, gwb_bytes *bytes);     // adds its whole standard output; waits
// Frames of frame_bytes each from its standard output, up to `ahead` (2..16) of them held in page-locked memory. What it says on standard error makes the
// end a GWB_BAD_FILE, with `lenient` it does not. The reader is the caller's; one thread may use it.
int gwb_video_read(gwb_video **video, const char *const *argv, const char *advice, int64_t frame_bytes, int32_t ahead, int lenient);
// Waits for the next frame: the number of its block from 1; 0: there is none. *frames: how many came so far. The block is filled anew when the work is
// done that was enqueued on it before the next call.
int gwb_video_next(gwb_video *video, int64_t *frames);
int gwb_video_block(const gwb_video *video, int block, gwb_mat *m);    // a view of the block, the caller's; one row, or more of 1 MiB
// Frames to its standard input. "file:NAME" is added to the arguments: a new file beside `path` whose name ends with `end`; or `path` itself, where that
// is no regular file.
int gwb_video_write(gwb_video **video, const char *const *argv, const char *advice, const char *path, const char *end, int64_t frame_bytes,
                    int32_t ahead);
int gwb_video_room(gwb_video *video, int64_t frame_bytes, uint8_t **frame);     // waits for a place for a frame; a failure where the program has ended
void gwb_video_send(gwb_video *video);          // the frame is there
int gwb_video_finish(gwb_video *video, int sync);       // waits for the program's end, and renames its file to `path`; close it all the same
void gwb_video_close(gwb_video *video);         // NULL is fine. Ends the program at once; a file that is not finished is removed

// Video by gpuwb_av.so, which uses libavformat and libavcodec; the calls are GWB_UNSUPPORTED where it is not there. Sizes are in pixels, of a frame as stored.
const char *gwb_libav(void);                    // "libavformat 59.27.100, ..."; static; NULL: gwb_error_message says why there is none
// Opens a file and fills info, and waits for its header. GWB_NO_FILE, GWB_BAD_FILE, GWB_UNSUPPORTED (no decoder). The decoder is the caller's; one thread
// may use it.
int gwb_decoder_open(gwb_decoder **decoder, const gwb_decoder_params *params, gwb_decoder_info *info);
// Decodes the first frame, tells what it is (no planes), and starts the thread that decodes ahead. Once. GWB_UNSUPPORTED where NVDEC was asked for and
// does not decode it. Waits.
int gwb_decoder_begin(gwb_decoder *decoder, gwb_picture *first);
// Waits for the next frame: the number of its planes, in mats[0..], the caller's, on params.device; 0: there is none; or a status. `picture` tells the
// rest; its `frames` is how many came so far. Planes that have to be copied are copied on `stream`. After GWB_OUT_OF_MEMORY it may be called again.
int gwb_decoder_next(gwb_decoder *decoder, const gwb_stream *stream, gwb_picture *picture, gwb_mat *const *mats);
void gwb_decoder_say(const char *text);         // a line of the log, where $GPUWB_LOG is debug
void gwb_decoder_close(gwb_decoder *decoder);   // NULL is fine. Ends the thread; mats of its frames stay good

// Many files: threads decode ahead, at most `prefetch` pictures, and upload what has a pixel format to the device on streams of their own. The paths are
// copied. The loader is the caller's until gwb_loader_close, which waits for what is being decoded.
int gwb_loader_open(const char *const *paths, int64_t count, const gwb_loader_params *params, gwb_loader **loader);
// Waits for the next picture. 1: `picture` holds the pixels, the caller's until gwb_picture_free; 1 + n: they lie in mats[0..n-1], which are the
// caller's, and `picture` tells the rest; 0: no more; or the failure of that file, behind which one goes on. *index: its place in the list, from 0.
int gwb_loader_next(gwb_loader *loader, gwb_picture *picture, gwb_mat *const *mats, int64_t *index);
void gwb_loader_close(gwb_loader *loader);      // NULL is fine
// Pictures written behind: `threads` encode and write, at most `ahead` wait (0: two a thread). The writer is the caller's until gwb_writer_close,
// which waits for all.
int gwb_writer_open(int threads, int ahead, gwb_writer **writer);
// Copies the picture, or takes over its `room` where it has one; waits for a place, and returns. After a failure the room is the caller's.
int gwb_writer_put(gwb_writer *writer, const gwb_picture *picture, const char *kind, const gwb_write_params *params, const char *path);
void gwb_writer_wait(gwb_writer *writer);       // until all that was put is written or has failed
int gwb_writer_failed(gwb_writer *writer, gwb_bytes *path);     // the oldest failure that was not told yet, and its path to be freed; 0: none
void gwb_writer_close(gwb_writer *writer);      // NULL is fine
// Lists of paths, each with a zero behind it, added to `paths`, sorted; files only. gwb_folder_list gives them relative to the folder, with deep = 1
// those in its folders too.
int gwb_file_glob(const char *pattern, gwb_bytes *paths);
int gwb_folder_list(const char *folder, int deep, gwb_bytes *paths);
int gwb_folder_make(const char *path);          // with those above it; one that is there is fine
int gwb_path_kind(const char *path);            // 0: nothing, 1: a file, 2: a folder, 3: something else (a pipe, a device)

// ---- pixel formats. Positions count from 0; a format's position may change between versions, its name does not.
int gwb_format_count(void);
const gwb_format_info *gwb_format_get(int format);      // static; NULL where there is none
// Position of the format of that name or alias, or GWB_BAD_ARGUMENT. An alias may also mean a range (gwb_image.range) and that V lies before U
// in a packed frame; both may be NULL.
int gwb_format_find(const char *name, int *range, int *swapped);
const char *gwb_format_alias(int position, const char **format);    // walks the aliases; NULL behind the last
int gwb_format_plane(int format, int plane, int32_t width, int32_t height, gwb_plane_info *info);   // plane from 0
int64_t gwb_format_bytes(int format, int32_t width, int32_t height);   // of a packed frame, or a negative status
// The names of a tag: "matrix", "range", "siting", "transfer", "primaries".
int gwb_tag_find(const char *tag, const char *name);    // value (from 1) of a name or alias, or GWB_BAD_ARGUMENT
const char *gwb_tag_name(const char *tag, int value);   // NULL where there is none; 0 is unknown

// ---- images
int gwb_image_check(const gwb_image *image);            // 0 where the planes fit the format and the size, and the tags are ones
// Fills what dst's tags leave open, by the rules of convert.h, without looking at planes; GWB_BAD_ARGUMENT where a tag is needed that nobody gave.
int gwb_convert_tags(gwb_image *dst, const gwb_image *src, const gwb_convert_params *params);
// Any format to any other, same size, same device. dst's planes may share no byte with src's.
int gwb_convert(const gwb_image *dst, const gwb_image *src, const gwb_convert_params *params, const gwb_stream *stream);

// ---- the run-time compiler for CUDA C++
int gwb_nvrtc_version(void);                            // 13000 for 13.0; GWB_UNSUPPORTED where there is none
// Compiles `source` for `arch`: "sm_90" machine code, "compute_90" PTX, kept in the disk cache. It may include abi_types.h and the headers of
// kernels/ by name. Waits; GWB_COMPILE where it does not compile. `log` (may be NULL) gets the compiler's text, cut at log_size: nothing where the
// result was in the cache; image_size (may be NULL) gets the bytes made.
int gwb_nvrtc_compile(const char *source, const char *name, const char *const *options, int option_count, const char *arch,
                      char *log, int64_t log_size, int64_t *image_size);

// ---- pipelines: chains of stages that run as one kernel
int gwb_op_count(void);
const char *gwb_op_name(int op);        // of the stage table; static; NULL behind the last, as the next three
const char *gwb_op_kind(int op);        // "value", "place" or "end"
const char *gwb_op_params(int op);      // see src/ops.h
const char *gwb_op_text(int op);
const char *gwb_expr_name(int op);      // of a gwb_expr_op (kernels/expr.h); static; NULL behind the last
int gwb_pipe_open(gwb_pipe **pipe, const gwb_pipe_step *steps, int count);     // the caller's, until gwb_pipe_close
void gwb_pipe_close(gwb_pipe *pipe);    // NULL is fine; work under way goes on
// Checks the chain against a source and says what comes out. The first stage that does not fit is named by number and name.
int gwb_pipe_describe(gwb_pipe *pipe, const gwb_image *src, const int32_t *crop, gwb_pipe_plan *plan);
// CUDA C of a pass (from 0) for one picture or for a batch, valid until the next call on the pipe; NULL: there is no such pass.
const char *gwb_pipe_text(gwb_pipe *pipe, const gwb_image *src, int pass, int batch);
// Runs the chain from src[i] to dst[i] for `count` pictures of one format and range on one device. Each dst has the planes that gwb_pipe_describe
// says; plain channels (format -1) are one mat, or with a planar layout one a channel. crops: x, y, width, height of the region of each source that
// counts, or NULL. Results must have one size. As many launches as the chain has passes, for pictures of different sizes that need different links some more.
int gwb_pipe_run(gwb_pipe *pipe, const gwb_image *dst, const gwb_image *src, const int32_t *crops, int count, const gwb_stream *stream);
int64_t gwb_pipe_launches(void);        // launches that pipelines made in this process so far
int64_t gwb_compilations(void);         // kernels compiled by this process so far, cache hits not counted

// ---- kernels from a source
// Compiles the source, or takes it from the disk cache; waits. On failure *kernel is NULL; GWB_COMPILE has the compiler's text in params->log, where it
// calls the source kernel.cu; GWB_UNSUPPORTED where there is no compiler, or the host device lacks something that the source uses.
int gwb_kernel_create(gwb_kernel **kernel, const gwb_kernel_params *params);
void gwb_kernel_close(gwb_kernel *kernel);      // NULL is fine; work under way goes on
int gwb_kernel_functions(const gwb_kernel *kernel);     // how many
int gwb_kernel_function_get(const gwb_kernel *kernel, int function, gwb_kernel_function *info);
const char *gwb_kernel_param_name(const gwb_kernel *kernel, int function, int param);   // "" where it has none; NULL behind the last
int gwb_kernel_param_pointer(const gwb_kernel *kernel, int function, int param);        // 1: takes a pointer
// Checks the arguments against the signature, and launches. A mat that a pointer to const takes is read, any other is written, but for `reads` and
// `writes`; the launch is ordered by these.
int gwb_kernel_launch(gwb_kernel *kernel, int function, const gwb_kernel_call *call, const gwb_stream *stream);

// ---- reductions
// A number for each channel into out[channels]; `what` is a gwb_reduction. Summed in double in an order that is the same on every device. Waits.
int gwb_reduce(const gwb_mat *m, int what, double *out, const gwb_stream *stream);
int64_t gwb_mat_shared(const gwb_mat *a, const gwb_mat *b);     // bytes of pixels that both show

// ---- exchange with other libraries. Nothing here waits.
// How DLPack calls the memory that m lies in, asked of the driver: 1 host, 2 a cuda device (with its number), 3 page-locked, 13 managed.
int gwb_mat_dl_device(const gwb_mat *m, gwb_dl_device *device);
// A gwb_dl_versioned (versioned 1) or gwb_dl_managed (0) over one mat, as height x width or height x width x channels, or over up to four mats of one
// channel and one shape that lie in one buffer at even distances, as count x height x width. It holds the memory until its deleter is called: once, on
// any thread. GWB_READ_ONLY for read-only memory in the old struct, which cannot say so.
int gwb_dlpack_export(void **managed, const gwb_mat *const *planes, int count, int versioned);
// Shows a DLPack tensor as a mat, or with `planar` a tensor of planes x height x width as a mat each; `mats` has room for four, *count is set. Takes the
// tensor over in any case: its deleter is called before a failure returns, else by gwb_run_deleters once its memory is no longer used.
int gwb_dlpack_import(gwb_mat *const *mats, int *count, void *managed, int versioned, int planar);
void gwb_dlpack_delete(void *managed, int versioned);   // calls the deleter where there is one; NULL is fine. One of gpuwb's own counts as never lent
int gwb_array_wrap(gwb_mat *const *mats, int *count, const gwb_array *array);   // the same of an array described by hand; see gwb_released_owner
// The same with a function for the owner, which gwb_run_deleters calls with `arg`; where nothing was wrapped (*count is 0) it is not called.
int gwb_array_wrap_owned(gwb_mat *const *mats, int *count, const gwb_array *array, void (*drop)(void *arg), void *arg);
void gwb_python_release(void *object);          // drops a reference to a Python object, whether the thread has Python's lock or not
// For PyCapsule_New, called with Python's lock: deletes the tensor of a capsule "dltensor" or "dltensor_versioned" that nobody took.
void gwb_capsule_destroy(void *capsule);

// ---- between processes of one machine. Handles are text without line breaks, less than 512 bytes, good as long as the process that gave it holds the object.
// Waits for the work that uses m, so that whoever opens the handle finds it done; work after that is ordered by shared events alone.
int gwb_mat_ipc_handle(const gwb_mat *m, char *text, int64_t size);
int gwb_mat_ipc_open(gwb_mat *m, const char *handle);   // GWB_NO_FILE where its process is gone; a view where this process has the memory already
int gwb_event_ipc_handle(const gwb_event *e, char *text, int64_t size);
int gwb_event_ipc_open(gwb_event *e, const char *handle);       // waits and queries are for the newest recording at the time of the call, in whatever process
int gwb_ipc_identify(int device, char *text, int64_t size);     // how handles name a device: "host", or the UUID in hex

// ---- traces
// Begins a trace of what streams do, in the JSON of Perfetto and chrome://tracing; the file is opened now. One trace at a time. GWB_IO
int gwb_trace_start(const char *path);
// Waits for the work that the trace holds, and closes the file; nothing where there is no trace. A process that exits does it too. GWB_IO
int gwb_trace_stop(void);
// A range of the script's own; 0 where there is no trace. Names are copied.
int64_t gwb_trace_range(const char *name);
void gwb_trace_range_end(int64_t range);
