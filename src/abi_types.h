// SPDX-License-Identifier: MIT
// The types that C, Lua (ffi.cdef) and the kernels share. No preprocessor line stands in this file: each reader takes the text as it is.
// Sizes are in pixels (width) and rows (height); a step is the number of bytes from one row to the next.

// Element type of one channel.
typedef enum gwb_type {
    GWB_U8, GWB_I8, GWB_U16, GWB_I16, GWB_U32, GWB_I32, GWB_F16, GWB_F32, GWB_F64, GWB_TYPES
} gwb_type;

enum {
    GWB_ABI = 1,                // changes when a struct here does
    GWB_MAT_TAG = 0x4d425747,   // first word of a live gwb_mat; 0 once it is closed
    GWB_STREAM_TAG = 0x53425747,
    GWB_EVENT_TAG = 0x45425747,
    GWB_MAX_PLANES = 4,
    GWB_MAX_CHANNELS = 4
};

// gwb_mat.flags
enum {
    GWB_MAT_READONLY = 1,       // no operation may write through this mat
    GWB_MAT_VIEW = 2,           // shows a part of another mat's buffer
    GWB_MAT_PINNED = 4,         // page-locked host memory, which a cuda device reads and writes by itself
    GWB_MAT_FOREIGN = 8,        // memory of another library
    GWB_MAT_SHARED = 16         // memory that another process can open, or did make
};

typedef struct gwb_buf gwb_buf;         // counted storage
typedef struct gwb_queue gwb_queue;     // counted heart of a stream
typedef struct gwb_graph gwb_graph;     // recorded operations of a stream

// A rectangle of pixels in pitched memory: what a kernel sees of a mat.
typedef struct gwb_view {
    uint8_t *data;      // first byte of row 0, in the memory of the device at hand
    int64_t step;       // bytes from one row to the next
    int32_t width;      // pixels
    int32_t height;     // rows
} gwb_view;

// One pitched plane. Fields are for reading; only the gwb_mat_ functions write them.
typedef struct gwb_mat {
    uint32_t tag;       // GWB_MAT_TAG while it lives
    uint32_t flags;     // GWB_MAT_READONLY ...
    int32_t width;      // pixels
    int32_t height;     // rows
    int32_t type;       // gwb_type of a channel
    int32_t channels;   // 1..4, interleaved
    int32_t elem_size;  // bytes of one pixel, all its channels
    int32_t device;     // position in the list of devices: 0 is the host
    int64_t step;       // bytes from one row to the next, at least width * elem_size
    uint8_t *data;      // first byte of row 0; NULL where width or height is 0
    gwb_buf *buf;       // storage; this mat holds one reference
} gwb_mat;

// An ordered queue of work on one device.
typedef struct gwb_stream {
    uint32_t tag;       // GWB_STREAM_TAG while it lives
    int32_t device;     // position in the list of devices
    void *handle;       // CUstream on cuda; an opaque pointer on the host device
    gwb_queue *queue;   // this stream holds one reference
} gwb_stream;

// A point in a stream's work.
typedef struct gwb_event {
    uint32_t tag;       // GWB_EVENT_TAG while it lives
    int32_t device;     // position in the list of devices; -1 before it is first recorded
    int32_t timing;     // 1: keeps the time it was reached
    int32_t recorded;   // 1: has been recorded
    uint32_t epoch;     // how often the device had been reset then
    int32_t shared;     // 1: other processes can open it; keeps no time
    void *handle;       // CUevent on cuda; an opaque pointer on the host device
} gwb_event;

// How a new mat's memory is laid out. All zero is the default.
typedef struct gwb_mat_params {
    int32_t packed;     // 1: step is width * elem_size
    int32_t align;      // step is a multiple of this many bytes (a power of two); 0: the device's own choice
    int32_t pinned;     // 1: page-locked host memory (device must be 0)
} gwb_mat_params;

// Memory of another library.
typedef struct gwb_wrap_params {
    void *ptr;          // first byte of row 0
    int64_t step;       // bytes; 0: rows are tight
    int32_t width;      // pixels
    int32_t height;     // rows
    int32_t type;       // gwb_type
    int32_t channels;   // 1..4
    int32_t device;     // -1: asked of the driver
    int32_t readonly;   // 1: no operation may write
    uint64_t owner;     // key of the owner, given back by gwb_released_owner when the memory is no longer used; 0: none
} gwb_wrap_params;

// A tensor of another library, to be shown as one mat or as one mat a plane.
typedef struct gwb_array {
    void *ptr;          // first element
    int64_t shape[4];   // elements in each dimension, the outermost first
    int64_t strides[4]; // bytes from one element to the next in each dimension
    int32_t ndim;       // dimensions: 1 width, 2 height x width, 3 height x width x channels or, with `planar`, planes x height x width
    int32_t compact;    // 1: strides do not count, elements lie tight in row-major order
    int32_t type;       // gwb_type
    int32_t device;     // position in the list of devices; -1: asked of the driver
    int32_t readonly;   // 1: no operation may write
    int32_t planar;     // 1: the outermost of three dimensions counts planes
    uint64_t owner;     // as in gwb_wrap_params
} gwb_array;

// DLPack's structs, laid out and named as in its dlpack.h.
typedef struct gwb_dl_device {
    int32_t device_type;    // 1 CPU, 2 CUDA, 3 page-locked host memory, 13 managed memory
    int32_t device_id;      // as CUDA counts; 0 for all but type 2
} gwb_dl_device;
typedef struct gwb_dl_type {
    uint8_t code;           // 0 signed, 1 unsigned, 2 float
    uint8_t bits;           // of an element
    uint16_t lanes;         // 1
} gwb_dl_type;
typedef struct gwb_dl_version {
    uint32_t major;
    uint32_t minor;
} gwb_dl_version;
typedef struct gwb_dl_tensor {
    void *data;             // the first element is byte_offset behind it
    gwb_dl_device device;
    int32_t ndim;
    gwb_dl_type dtype;
    int64_t *shape;         // elements
    int64_t *strides;       // elements; NULL: tight, row-major
    uint64_t byte_offset;
} gwb_dl_tensor;
typedef struct gwb_dl_managed {             // DLManagedTensor
    gwb_dl_tensor dl_tensor;
    void *manager_ctx;
    void (*deleter)(struct gwb_dl_managed *self);       // NULL: nothing is to be released
} gwb_dl_managed;
typedef struct gwb_dl_versioned {           // DLManagedTensorVersioned
    gwb_dl_version version; // of another major version nothing but `deleter` may be touched
    void *manager_ctx;
    void (*deleter)(struct gwb_dl_versioned *self);
    uint64_t flags;         // 1 read-only, 2 a copy
    gwb_dl_tensor dl_tensor;
} gwb_dl_versioned;

typedef struct gwb_stream_params {
    void *handle;       // a foreign CUstream, never destroyed here
    int32_t foreign;    // 1: take `handle`
    int32_t priority;   // lower runs first; 0 is the default
    int32_t nonblocking;// 1: does not wait for CUDA's legacy default stream
    int32_t pad;
} gwb_stream_params;

// A device as a script sees it.
typedef struct gwb_device_info {
    char name[64];      // "host", "cuda:0"
    char model[128];    // "NVIDIA H200", the processor's name
    int32_t cuda;       // 1: a cuda device
    int32_t index;      // as its kind counts, from 0
    int32_t major;      // compute capability (cuda)
    int32_t minor;
    int32_t units;      // multiprocessors (cuda), threads (host)
    int32_t pad;
    int64_t memory;     // bytes in all
} gwb_device_info;

// What the components of a pixel format are.
typedef enum gwb_model {
    GWB_MODEL_GRAY,     // Y, and A
    GWB_MODEL_RGB,      // R G B, and A
    GWB_MODEL_YUV,      // Y U V, and A
    GWB_MODEL_BAYER     // one of R G B by position
} gwb_model;

// How a pixel format lies in its planes.
typedef enum gwb_layout {
    GWB_LAYOUT_INTERLEAVED,     // one plane, one sample a channel
    GWB_LAYOUT_PLANAR,          // one plane a component
    GWB_LAYOUT_SEMIPLANAR,      // Y, and U and V interleaved
    GWB_LAYOUT_PACKED422,       // groups of two pixels in four samples
    GWB_LAYOUT_WORD,            // bit fields of one word a pixel
    GWB_LAYOUT_V210,            // ten bits, three to a 32-bit word; groups of six pixels in 16 bytes
    GWB_LAYOUT_BAYER            // one plane, one sample a pixel
} gwb_layout;

// Where one component of a pixel format lies.
typedef struct gwb_component {
    int32_t plane;      // from 0; -1: the format has no such component
    int32_t offset;     // bytes from the row's first byte to the first sample (v210: ten-bit slots)
    int32_t pitch;      // bytes from one sample to the next (v210: ten-bit slots)
    int32_t shift;      // bits below the value in its word
    int32_t depth;      // bits of the value
} gwb_component;

// A pixel format: one row of the format table.
typedef struct gwb_format_info {
    const char *name;   // FFmpeg's where it has one; static
    int32_t model;      // gwb_model
    int32_t layout;     // gwb_layout
    int32_t planes;     // 1..4
    int32_t type;       // gwb_type of a plane's channel
    int32_t depth;      // bits of the deepest component
    int32_t log2_w;     // a chroma sample stands for 1 << log2_w pixels
    int32_t log2_h;     // and 1 << log2_h rows
    int32_t alpha;      // 1: has alpha
    int32_t group;      // pixels of the picture in one pixel of the first plane's mat
    int32_t row_align;  // bytes: a packed row is padded to a multiple
    int32_t pattern;    // bayer: position of red in the 2x2 block, x + 2 * y
    int32_t pad;
    gwb_component component[4];     // R G B A, or Y U V A; a fourth one where alpha is 0 is padding, written as ones
} gwb_format_info;

// One plane of a picture: the mat it wants, and where it lies in a packed frame.
typedef struct gwb_plane_info {
    int32_t width;      // pixels of the mat
    int32_t height;     // rows
    int32_t type;       // gwb_type
    int32_t channels;
    int64_t offset;     // bytes from the frame's start
    int64_t step;       // bytes from one row to the next in the frame
} gwb_plane_info;

// A picture: planes with a format, and what its numbers mean. The mats are borrowed.
typedef struct gwb_image {
    int32_t format;     // position in the format table (format.h)
    int32_t width;      // pixels of the picture
    int32_t height;     // rows of the picture
    int32_t planes;     // mats used
    int32_t matrix;     // gwb_matrix; 0 unknown
    int32_t range;      // gwb_range; 0 unknown
    int32_t siting;     // gwb_siting; 0 unknown
    int32_t transfer;   // gwb_transfer; 0 unknown
    int32_t primaries;  // gwb_primaries; 0 unknown
    int32_t pad;
    gwb_mat *plane[4];
} gwb_image;

// How a conversion is done, beyond what the two images' tags say. All zero is the default.
typedef struct gwb_convert_params {
    int32_t nearest;        // 1: chroma is repeated or picked, not filtered, as OpenCV and NPP do
    int32_t blend;          // 1: `background` shows through where alpha is dropped
    float background[3];    // R G B, 0..1
    int32_t dither;         // 0 none, 1 ordered, 2 blue noise: where depth falls
    int32_t bilinear;       // of a mosaic: 1 bilinear, 0 gradient-corrected (Malvar, He, Cutler)
    int32_t color;          // what is done where both images' transfer or primaries are known and differ: 0 an error, 1 convert, 2 keep the numbers
    int32_t tone;           // gwb_tone: from pq or hlg to a curve of SDR; 0 cuts
    float peak;             // of the source there, cd/m2; 0: 1000
    int32_t kernel;         // 0: the fastest; 1: the general one, 2: tiles, GWB_UNSUPPORTED where they cannot. All give the same bits
} gwb_convert_params;

// Bytes of a device's memory.
typedef struct gwb_memory {
    int64_t used;       // in live mats
    int64_t cached;     // kept for reuse
    int64_t peak;       // most used at once
    int64_t limit;      // of used + cached; 0: none
    int64_t free;       // that the device still has
    int64_t total;      // that the device has
} gwb_memory;

// A raw 2D copy: `height` rows of `width` bytes. Each side is a mat (its step is then the default), or a pointer with a step.
typedef struct gwb_copy2d_params {
    gwb_mat *dst_mat;       // NULL: dst_ptr
    gwb_mat *src_mat;       // NULL: src_ptr
    void *dst_ptr;
    void *src_ptr;
    int64_t dst_step;       // bytes; 0: the mat's
    int64_t src_step;
    int64_t width;          // bytes of a row
    int64_t height;         // rows
    int64_t dst_x;          // bytes
    int64_t dst_y;          // rows
    int64_t src_x;          // bytes
    int64_t src_y;          // rows
} gwb_copy2d_params;

// What the plane-copy rules say of one side of a raw 2D copy.
typedef struct gwb_copy_side {
    int32_t known;          // 1: the pointer lies in an allocation that gpuwb knows
    int32_t device;
    int32_t has_view;       // 1: view_* describe the mat that was given, or that starts at the pointer
    int32_t contiguous;     // 1: that view has no gap between its rows
    int64_t buf_bytes;      // size of the allocation
    int64_t first;          // offset of the first byte touched, from the start of the allocation
    int64_t behind;         // offset behind the last byte touched
    int64_t step;           // the copy's step, bytes
    int64_t view_first;     // the view's offset in the allocation
    int64_t view_width;     // bytes of its row
    int64_t view_height;
    int64_t view_step;
    int64_t outside;        // bytes touched that are not the view's own
    int64_t touched;        // bytes touched in all
    // P3: another packed copy from or to the same allocation, whose bytes this one touches too
    int64_t twin_first;     // its first byte; -1: there is none
    int64_t twin_shared;    // bytes that both touch
    int64_t twin_expected;  // where this copy would start if it followed the other one
    // P4: the plane of the declared format that has this copy's shape
    int32_t plane;          // 1..; 0: none
    int32_t plane_format;   // its format
    int64_t plane_first;    // where that plane begins
    int64_t plane_step;     // its step, bytes
} gwb_copy_side;

typedef struct gwb_copy_report {
    uint32_t rules;         // bit n: rule Pn speaks
    uint32_t dst_rules;     // those of the destination
    uint32_t src_rules;     // those of the source
    int32_t pad;
    gwb_copy_side dst;
    gwb_copy_side src;
} gwb_copy_report;

// Bytes that grow. All zero is empty.
typedef struct gwb_bytes {
    uint8_t *data;          // freed by gwb_bytes_free
    int64_t size;           // bytes used
    int64_t capacity;       // bytes allocated
} gwb_bytes;

// A plane of pixels in host memory.
typedef struct gwb_plane {
    uint8_t *data;          // first byte of row 0
    int64_t step;           // bytes from one row to the next
    int32_t width;          // pixels
    int32_t height;         // rows
    int32_t type;           // gwb_type of a channel
    int32_t channels;       // 1..4, interleaved
} gwb_plane;

// A picture in host memory, as a file holds it. Text is "" where the file does not say.
typedef struct gwb_picture {
    char kind[8];           // the file's format: "png"
    char format[16];        // pixel format: "rgb24"; "" for numbers that are no picture (npy)
    char matrix[16];        // "bt601"
    char range[16];         // "limited" or "full"
    char siting[16];        // "left", "center" or "topleft"
    char transfer[16];      // "srgb"
    char primaries[16];     // "bt709"
    char warning[160];      // what strict reading refuses
    int32_t width;          // pixels
    int32_t height;         // rows
    int32_t planes;         // planes used
    int32_t orientation;    // EXIF, 1..8, of the pixels as they lie here; 0: not said
    gwb_plane plane[4];
    void *memory;           // holds the planes; freed by gwb_picture_free. NULL: borrowed, or in `room`
    int64_t bytes;          // of all planes, where they lie tight and one behind the other
    int32_t rate[2];        // frames a second as a fraction; 0, 0: not said
    char native[16];        // pixel format of the planes as they are coded (JPEG): "yuv420p"
    char coding[96];        // what else the file says of itself: "progressive", "palette interlaced"; of an npz its arrays
    int32_t depth;          // bits of a sample in the file; 0: as in memory
    int32_t gamma;          // PNG's gAMA, times 100000; 0: not said
    int32_t delay;          // of a GIF's frame, in ms
    int32_t pad;
    int64_t frames;         // pictures in the file, read with header_only; -1: not known
    uint8_t *icc;           // colour profile, freed with the picture; NULL: none
    int64_t icc_size;       // bytes
    int64_t mapped;         // bytes of `memory` where it is mapped and not allocated; 0 else
    gwb_mat *room;          // memory of the host device's pool that holds the planes, given back with the picture; NULL: none
} gwb_picture;

// How to read. All zero is the default.
typedef struct gwb_read_params {
    int64_t max_pixels;     // of a compressed picture; 0: 2^28
    int64_t max_bytes;      // of the file, and of the pixels in memory; 0: 4 GiB
    int64_t frame;          // of a file with several, from 0
    int32_t lenient;        // 1: a truncated or damaged picture is given as far as it goes, with a warning
    int32_t as_stored;      // 1: an EXIF orientation is not applied
    int32_t unscaled;       // 1: PNM samples stay as they are, else their maximum becomes 255 or 65535
    int32_t native;         // 1: a JPEG's planes as they are coded, not turned
    int32_t header_only;    // 1: sizes, format and tags; no pixels (memory is NULL)
    int32_t timeout;        // ms that an isolated decoder may take; 0: 60000
    int32_t room;           // where large pictures lie: 0 in memory of malloc, 1 in the host device's pool, 2 there and page-locked
    int32_t pad;
    const char *array;      // of an npz; NULL: the only one
} gwb_read_params;

// How to write. All zero is the default.
typedef struct gwb_write_params {
    int32_t quality;        // JPEG, 1..100; 0: 90
    int32_t level;          // PNG's effort, 1..12; 0: 4
    int32_t flatten;        // 1: alpha is blended over `background` where the format holds none; else that is refused
    int32_t background[3];  // in the picture's own numbers
    int32_t sync;           // 1: on the disk before the call returns
    int32_t further;        // 1: a further frame of a y4m file: no header
    int32_t rate[2];        // frames a second of a y4m file as a fraction; 0, 0: 25
    int32_t subsampling;    // a JPEG's chroma: 444, 422, 420, 440, 411; 0: 420 up to quality 90, else 444
} gwb_write_params;

// The functions of nvJPEG that decode on threads; lua/gpuwb/nvjpeg_library.lua opens them. Not set: none.
typedef struct gwb_nvjpeg {
    int (*create)(void **handle);
    int (*destroy)(void *handle);
    int (*state_create)(void *handle, void **state);
    int (*state_destroy)(void *state);
    int (*info)(void *handle, const uint8_t *data, uint64_t bytes, int *components, int *subsampling, int *widths, int *heights);
    int (*decode)(void *handle, void *state, const uint8_t *data, uint64_t bytes, int format, void *image, void *stream);
} gwb_nvjpeg;

// How to read many files. All zero is the default.
typedef struct gwb_loader_params {
    gwb_read_params read;
    gwb_nvjpeg nvjpeg;      // set: JPEGs are decoded by it on `device`, which is a cuda one, and not turned as EXIF says
    int32_t threads;        // that decode; 0: as many as there are processors
    int32_t prefetch;       // pictures that may be decoded and not taken; 0: two a thread
    int32_t unordered;      // 1: as they become ready, else as in the list
    int32_t isolated;       // 1: each in a process of its own
    int32_t device;         // position of the device that gets the pixels
    int32_t only;           // 1: what nvJPEG does not decode is an error, else it is decoded on the host
} gwb_loader_params;

typedef struct gwb_loader gwb_loader;   // files that are decoded ahead
typedef struct gwb_writer gwb_writer;   // pictures that are written behind
typedef struct gwb_frames gwb_frames;   // a file of frames, read one after the other
typedef struct gwb_video gwb_video;     // frames from a program, or to one
typedef struct gwb_decoder gwb_decoder; // frames of a video by libav

// How to read a video. All zero but the path is the default.
typedef struct gwb_decoder_params {
    const char *path;
    int64_t max_pixels;     // of a frame; 0: no limit but the library's
    int64_t frame;          // to begin with, from 0
    int32_t device;         // position of the device that gets the frames
    int32_t nvdec;          // 1: decoded on that device, by NVDEC
    int32_t lenient;        // 1: damage is borne
    int32_t pad;
} gwb_decoder_params;

// The first video stream that is no cover picture. Names are FFmpeg's.
typedef struct gwb_decoder_info {
    char codec[32];
    char format[32];        // pixel format; "" where only decoding tells
    int32_t width;          // pixels, as stored
    int32_t height;         // rows
    int32_t turn;           // as EXIF's orientation, 1..8, how it is to be shown; 0: by another angle
    int32_t pad;
} gwb_decoder_info;

// One stage of a pipeline as a script gives it; src/ops.h says what n, v and the rest hold for each.
typedef struct gwb_pipe_step {
    int32_t op;             // position in the stage table
    int32_t n[8];
    int32_t count;          // numbers of a list
    double v[16];
    const gwb_mat *operand; // borrowed by gwb_pipe_open, which holds its buffer
    gwb_image target;       // convert: format and tags; blend: the other picture's format
    const uint8_t *program; // expr: pairs of gwb_expr_op (kernels/expr.h) and number; copied by gwb_pipe_open
    int32_t program_size;   // bytes
    int32_t pad;
} gwb_pipe_step;

// What a pipeline would do with a source.
typedef struct gwb_pipe_plan {
    gwb_image out;          // format, size and tags of the result; format -1: plain channels
    int32_t layout;         // 0 as the format says, 1 interleaved, 2 planar, 3 nhwc, 4 nchw
    int32_t type;           // gwb_type of the result's channels
    int32_t channels;
    int32_t launches;
    int64_t bytes_read;     // at most, each once: of the source's region, and what passes between launches
    int64_t bytes_written;
} gwb_pipe_plan;

typedef struct gwb_pipe gwb_pipe;       // a chain of stages, with the kernels it was given so far

// A source of kernels, compiled for one device.
typedef struct gwb_kernel gwb_kernel;

typedef struct gwb_kernel_params {
    const char *source;             // CUDA C++, a text
    const char *const *options;     // of NVRTC; the host device takes -D, -U, -I and --std of them
    int32_t option_count;
    int32_t device;                 // position in the list of devices
    gwb_bytes *log;                 // gets the compiler's text, to be freed by gwb_bytes_free; NULL: not wanted
} gwb_kernel_params;

// One of its `__global__` functions. Borrowed from the kernel.
typedef struct gwb_kernel_function {
    const char *name;
    const char *signature;          // "blur(const float *src, int n)"
    int32_t line;                   // of the name in the source, from 1
    int32_t params;                 // its parameters
} gwb_kernel_function;

// What a caller gives for a parameter.
typedef enum gwb_arg_kind {
    GWB_ARG_NULL,                   // a NULL pointer
    GWB_ARG_NUMBER,                 // `number`
    GWB_ARG_SIGNED,                 // `whole`
    GWB_ARG_UNSIGNED,               // `whole` as uint64_t
    GWB_ARG_BOOL,                   // `whole`, 0 or 1
    GWB_ARG_MAT,                    // `pointer` to a gwb_mat
    GWB_ARG_POINTER,                // `pointer` itself, an address of the device
    GWB_ARG_BYTES,                  // `whole` bytes at `pointer`, a value of that size
    GWB_ARG_LIST                    // `whole` doubles at `pointer`, the numbers of a vector
} gwb_arg_kind;

typedef struct gwb_arg {
    int32_t kind;                   // gwb_arg_kind
    int32_t pad;
    double number;
    int64_t whole;
    const void *pointer;
} gwb_arg;

// A launch. Sizes may be 0 in `grid`: then nothing runs.
typedef struct gwb_kernel_call {
    const gwb_arg *args;
    const gwb_mat *const *reads;    // mats that are read, whatever their parameter says; also ones that are no argument
    const gwb_mat *const *writes;   // mats that are written
    int32_t arg_count;
    int32_t read_count;
    int32_t write_count;
    int32_t pad;
    int64_t grid[3];                // blocks in x, y, z
    int64_t block[3];               // threads of a block
    int64_t shared;                 // bytes of dynamic shared memory
} gwb_kernel_call;

// What gwb_reduce makes of a channel.
typedef enum gwb_reduction {
    GWB_REDUCE_SUM,
    GWB_REDUCE_MIN,                 // infinity where there is no number, as -infinity for the next
    GWB_REDUCE_MAX,
    GWB_REDUCE_ABS,                 // sum of magnitudes
    GWB_REDUCE_SQUARES,             // sum of squares
    GWB_REDUCE_NONZERO,             // how many are not 0
    GWB_REDUCTIONS
} gwb_reduction;
