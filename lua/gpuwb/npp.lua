-- SPDX-License-Identifier: MIT
-- NVIDIA's Performance Primitives (NPP) on mats and images, by FFI: what the CUDA toolkit's libnppicc, libnppig, libnppif, libnppial and libnppidei do.
--
--     local gpu, npp = require "gpuwb", require "gpuwb.npp"
--     local frame = gpu.image("nv12", 640, 360, {matrix = "bt709", range = "limited", device = "cuda"})
--     frame.planes[1]:fill(120)
--     frame.planes[2]:fill {100, 150}
--     local rgb = npp.convert(frame, "rgb24")                              -- an image, by nppiNV12ToRGB_709CSC_8u_P2C3R_Ctx
--     local small = npp.resize(rgb.planes[1], 320, 180, {filter = "linear"})
--     local soft = npp.gauss(small, 5)
--     local both = npp.add(small, soft, {shift = 1})                       -- (small + soft) / 2
--     print(both:at(10, 10))
--
-- Every function takes stream= and out=, is ordered by data as gpuwb's own, and raises what NPP reports, by its name. NPP rounds, clips and places chroma
-- in its own way: gpuwb's conversions (image:convert) are the exact ones. Sizes in pixels, positions of a region at the mat's own first pixel.
local ffi = require "ffi"
local check = require "gpuwb.check"
local format = require "gpuwb.format"
local image = require "gpuwb.image"
local library = require "gpuwb.library"
local mat = require "gpuwb.mat"
local types = require "gpuwb.types"

local npp = {}

local WHAT = "NPP"
local VERSIONS = {13, 12}
local max_size = 2147483647

-- ---- declarations

local element = {u8 = "8u", u16 = "16u", i16 = "16s", f16 = "16f", f32 = "32f"}
local ctype = {u8 = "uint8_t", u16 = "uint16_t", i16 = "int16_t", f16 = "uint16_t", f32 = "float"}

if not pcall(ffi.typeof, "gwb_npp_context") then
    local text = {[[
        typedef struct gwb_npp_size { int width, height; } gwb_npp_size;
        typedef struct gwb_npp_point { int x, y; } gwb_npp_point;
        typedef struct gwb_npp_rect { int x, y, width, height; } gwb_npp_rect;
        typedef struct gwb_npp_context {    /* NppStreamContext */
            void *stream;
            int device, multiprocessors, threads_per_multiprocessor, threads_per_block;
            size_t shared_per_block;
            int major, minor;
            unsigned flags, workspace;
        } gwb_npp_context;
        typedef struct gwb_npp_version { int major, minor, build; } gwb_npp_version;
        const gwb_npp_version *nppGetLibVersion(void);
    ]]}
    local function declare(fmt, ...)
        text[#text + 1] = fmt:format(...)
    end
    for _, name in ipairs {"709CSC", "601"} do
        for _, order in ipairs {"RGB", "BGR"} do
            declare("int nppiNV12To%s_%s_8u_P2C3R_Ctx(const uint8_t *const src[2], int src_step, uint8_t *dst, int dst_step, gwb_npp_size size, "
                .. "gwb_npp_context context);", order, name)
        end
    end
    for _, order in ipairs {"RGB", "BGR"} do
        for _, kind in ipairs {"", "_JPEG"} do
            declare("int nppiYCbCr420To%s%s_8u_P3C3R_Ctx(const uint8_t *const src[3], int src_step[3], uint8_t *dst, int dst_step, gwb_npp_size size, "
                .. "gwb_npp_context context);", order, kind)
            declare("int nppi%sToYCbCr420%s_8u_C3P3R_Ctx(const uint8_t *src, int src_step, uint8_t *dst[3], int dst_step[3], gwb_npp_size size, "
                .. "gwb_npp_context context);", order, kind)
        end
    end
    declare [[
        int nppiNV12ToRGB_8u_ColorTwist32f_P2C3R_Ctx(const uint8_t *const src[2], int src_step[2], uint8_t *dst, int dst_step, gwb_npp_size size,
            const float *twist, gwb_npp_context context);
        int nppiYUV420ToRGB_8u_ColorTwist32f_P3C3R_Ctx(const uint8_t *const src[3], int src_step[3], uint8_t *dst, int dst_step, gwb_npp_size size,
            const float *twist, gwb_npp_context context);
        int nppiRGBToNV12_8u_ColorTwist32f_C3P2R_Ctx(const uint8_t *src, int src_step, uint8_t *dst[2], int dst_step[2], gwb_npp_size size,
            const float *twist, gwb_npp_context context);
        int nppiRGBToYUV420_8u_ColorTwist32f_C3P3R_Ctx(const uint8_t *src, int src_step, uint8_t *dst[3], int dst_step[3], gwb_npp_size size,
            const float *twist, gwb_npp_context context);
        int nppiNV12ToYUV420_8u_P2P3R_Ctx(const uint8_t *const src[2], int src_step, uint8_t *dst[3], int dst_step[3], gwb_npp_size size,
            gwb_npp_context context);
        int nppiYCbCr420_8u_P3P2R_Ctx(const uint8_t *const src[3], int src_step[3], uint8_t *y, int y_step, uint8_t *uv, int uv_step, gwb_npp_size size,
            gwb_npp_context context);
    ]]
    for name, n in pairs(element) do
        local c = ctype[name]
        for _, channels in ipairs {1, 3, 4} do
            declare("int nppiResize_%s_C%dR_Ctx(const %s *src, int src_step, gwb_npp_size src_size, gwb_npp_rect src_roi, %s *dst, int dst_step, "
                .. "gwb_npp_size dst_size, gwb_npp_rect dst_roi, int filter, gwb_npp_context context);", n, channels, c, c)
            declare("int nppiFilterGaussBorder_%s_C%dR_Ctx(const %s *src, int src_step, gwb_npp_size src_size, gwb_npp_point offset, %s *dst, "
                .. "int dst_step, gwb_npp_size size, int mask, int border, gwb_npp_context context);", n, channels, c, c)
            declare("int nppiFilterBoxBorder_%s_C%dR_Ctx(const %s *src, int src_step, gwb_npp_size src_size, gwb_npp_point offset, %s *dst, int dst_step, "
                .. "gwb_npp_size size, gwb_npp_size mask, gwb_npp_point anchor, int border, gwb_npp_context context);", n, channels, c, c)
            local scaled = name ~= "f32" and name ~= "f16"
            for _, op in ipairs {"Add", "Sub", "Mul", "Div"} do
                declare("int nppi%s_%s_C%dR%s_Ctx(const %s *a, int a_step, const %s *b, int b_step, %s *dst, int dst_step, gwb_npp_size size, %s"
                    .. "gwb_npp_context context);", op, n, channels, scaled and "Sfs" or "", c, c, c, scaled and "int shift, " or "")
                local constant = channels == 1 and c .. " constant" or ("const %s constant[%d]"):format(c, channels)
                if name ~= "f16" then
                    declare("int nppi%sC_%s_C%dR%s_Ctx(const %s *a, int a_step, %s, %s *dst, int dst_step, gwb_npp_size size, %s"
                        .. "gwb_npp_context context);", op, n, channels, scaled and "Sfs" or "", c, constant, c, scaled and "int shift, " or "")
                end
            end
            declare("int nppiAbsDiff_%s_C%dR_Ctx(const %s *a, int a_step, const %s *b, int b_step, %s *dst, int dst_step, gwb_npp_size size, "
                .. "gwb_npp_context context);", n, channels, c, c, c)
            if name == "u8" or name == "u16" or name == "i16" then
                declare("int nppiConvert_%s32f_C%dR_Ctx(const %s *src, int src_step, float *dst, int dst_step, gwb_npp_size size, gwb_npp_context context);",
                    n, channels, c)
            end
        end
        if name ~= "f16" then
            for channels = 3, 4 do
                declare("int nppiCopy_%s_C%dP%dR_Ctx(const %s *src, int src_step, %s *const dst[%d], int dst_step, gwb_npp_size size, "
                    .. "gwb_npp_context context);", n, channels, channels, c, c, channels)
            end
        end
    end
    ffi.cdef(table.concat(text, "\n"))
end

-- NppStatus, by number.
local statuses = {
    [-9998] = "NPP_LIBRARY_VERSION_MISMATCH_ERROR", [-1032] = "NPP_INVALID_HOST_POINTER_ERROR", [-1031] = "NPP_INVALID_DEVICE_POINTER_ERROR",
    [-1027] = "NPP_NOT_SUFFICIENT_COMPUTE_CAPABILITY", [-1024] = "NPP_TEXTURE_BIND_ERROR", [-1020] = "NPP_WRONG_INTERSECTION_ROI_ERROR",
    [-1005] = "NPP_MEMFREE_ERROR", [-1004] = "NPP_MEMSET_ERROR", [-1003] = "NPP_MEMCPY_ERROR", [-1002] = "NPP_ALIGNMENT_ERROR",
    [-1000] = "NPP_CUDA_KERNEL_EXECUTION_ERROR", [-215] = "NPP_STREAM_CTX_ERROR", [-213] = "NPP_ROUND_MODE_NOT_SUPPORTED_ERROR",
    [-201] = "NPP_RESIZE_NO_OPERATION_ERROR", [-109] = "NPP_OVERFLOW_ERROR", [-108] = "NPP_NOT_EVEN_STEP_ERROR", [-62] = "NPP_ZERO_MASK_VALUE_ERROR",
    [-60] = "NPP_CHANNEL_ORDER_ERROR", [-59] = "NPP_DATA_TYPE_ERROR", [-57] = "NPP_RECTANGLE_ERROR", [-56] = "NPP_COEFFICIENT_ERROR",
    [-53] = "NPP_NUMBER_OF_CHANNELS_ERROR", [-51] = "NPP_DIVISOR_ERROR", [-47] = "NPP_CHANNEL_ERROR", [-37] = "NPP_STRIDE_ERROR",
    [-34] = "NPP_ANCHOR_ERROR", [-33] = "NPP_MASK_SIZE_ERROR", [-24] = "NPP_RESIZE_FACTOR_ERROR", [-23] = "NPP_INTERPOLATION_ERROR",
    [-16] = "NPP_STEP_ERROR", [-14] = "NPP_NOT_SUPPORTED_MODE_ERROR", [-13] = "NPP_CONTEXT_MATCH_ERROR", [-12] = "NPP_SCALE_RANGE_ERROR",
    [-11] = "NPP_OUT_OFF_RANGE_ERROR", [-10] = "NPP_DIVIDE_BY_ZERO_ERROR", [-9] = "NPP_MEMORY_ALLOCATION_ERR", [-8] = "NPP_NULL_POINTER_ERROR",
    [-7] = "NPP_RANGE_ERROR", [-6] = "NPP_SIZE_ERROR", [-5] = "NPP_BAD_ARGUMENT_ERROR", [-4] = "NPP_NO_MEMORY_ERROR", [-3] = "NPP_NOT_IMPLEMENTED_ERROR",
    [-2] = "NPP_ERROR", [-1] = "NPP_ERROR_RESERVED", [1] = "NPP_NO_OPERATION_WARNING", [6] = "NPP_DIVIDE_BY_ZERO_WARNING",
    [29] = "NPP_WRONG_INTERSECTION_ROI_WARNING", [35] = "NPP_DOUBLE_SIZE_WARNING",
}
local MISALIGNED, DIVIDE_BY_ZERO = 10000, 6     -- of speed, and of pixels that become the largest value: no failures

-- ---- calls

-- A library of NPP: "icc" colour, "ig" geometry, "if" filters, "ial" arithmetic, "idei" data exchange, "c" the core.
local function open(op, part)
    return library.open(op, "NPP", library.names("libnpp" .. part .. ".so", VERSIONS))
end

local new_context, new_size = ffi.typeof("gwb_npp_context"), ffi.typeof("gwb_npp_size")
local new_point, new_rect = ffi.typeof("gwb_npp_point"), ffi.typeof("gwb_npp_rect")
local device_facts = {}

-- The context for a stream; what it says of the device is asked of the driver once.
local function context_for(op, position, handle)
    local context = device_facts[position]
    if not context then
        local ordinal, info = library.ordinal(op, position)
        local function attribute(name)
            return library.attribute(op, ordinal, name)
        end
        context = new_context {
            device = ordinal, multiprocessors = info.units, threads_per_multiprocessor = attribute "MAX_THREADS_PER_MULTIPROCESSOR",
            threads_per_block = attribute "MAX_THREADS_PER_BLOCK", shared_per_block = attribute "MAX_SHARED_MEMORY_PER_BLOCK",
            major = info.major, minor = info.minor,
        }
        device_facts[position] = context
    end
    context = new_context(context)
    context.stream, context.flags = handle, library.stream_flags(op, handle)
    return context
end

-- Calls a function of NPP in order with the mats; arguments(context) gives its arguments. `in_place`: a result may be the very mat that is read.
local function call(op, part, name, reads, writes, stream, arguments, in_place)
    local position = library.device(op, WHAT, reads)
    library.device(op, WHAT, {reads[1], unpack(writes)})
    for _, from in ipairs(reads) do
        for _, to in ipairs(writes) do
            if not (in_place and from == to) and library.shared(from, to) > 0 then
                check.fail("BAD_ARGUMENT", op, "out shares memory with what is read")
            end
        end
    end
    local symbol = library.symbol(op, open(op, part), WHAT, name)
    local status = library.run(op, position, reads, writes, stream, function(handle)
        return symbol(arguments(context_for(op, position, handle)))
    end)
    if status ~= MISALIGNED and status ~= DIVIDE_BY_ZERO then
        library.check(op, WHAT, statuses, status, name)
    end
end

local function pointer(m)
    return ffi.cast(ctype[m.dtype] .. " *", m.data)
end

-- A mat of a type that NPP has the function for.
local function supported(op, name, m, known, channels)
    check.mat(op, name, m)
    local good = false
    for _, kind in ipairs(known) do
        good = good or m.dtype == kind
    end
    if not good or m.channels == 2 and not (channels or {})[2] then
        check.fail("UNSUPPORTED", op, "NPP does this for %s of 1, 3 or 4 channels, and %s is %s", table.concat(known, ", "), name, m.type)
    elseif m.width < 1 or m.height < 1 then
        check.fail("SHAPE", op, "%s is %dx%d: NPP wants a pixel at least", name, m.width, m.height)
    elseif m.step > max_size then
        check.fail("LIMIT", op, "%s has a step of %.0f bytes: NPP takes %d at most", name, m.step, max_size)
    end
    return m
end

local function new_like(op, m, width, height, kind)
    local code, channels = types.parse(op, "type", kind or m.type)
    return mat.allocate(op, ffi.cast("gwb_mat *", m).device, width or m.width, height or m.height, code, channels)
end

local function result(op, out, m, width, height, kind)
    return library.result(op, out, width or m.width, height or m.height, kind or m.type, function()
        return new_like(op, m, width, height, kind)
    end)
end

--- npp.version() -> "13.0.1", of the library that is there. Errors: UNSUPPORTED without it.
function npp.version()
    local v = open("npp.version", "c").nppGetLibVersion()
    return ("%d.%d.%d"):format(v.major, v.minor, v.build)
end

-- ---- colour

local weights = {bt601 = {0.299, 0.114}, bt709 = {0.2126, 0.0722}, bt2020nc = {0.2627, 0.0593}, smpte240m = {0.212, 0.087}, fcc = {0.30, 0.11}}

-- Rows that make R, G and B of Y, U and V in bytes, black and no colour being zero; or the other way.
local function rows_to_rgb(matrix, range)
    local kr, kb = unpack(weights[matrix])
    local kg, y, c = 1 - kr - kb, range == "full" and 1 or 255 / 219, range == "full" and 1 or 255 / 224
    return {{y, 0, 2 * (1 - kr) * c}, {y, -2 * (1 - kb) * kb / kg * c, -2 * (1 - kr) * kr / kg * c}, {y, 2 * (1 - kb) * c, 0}}
end

local function rows_to_yuv(matrix, range)
    local kr, kb = unpack(weights[matrix])
    local kg, y, c = 1 - kr - kb, range == "full" and 1 or 219 / 255, range == "full" and 1 or 224 / 255
    return {{kr * y, kg * y, kb * y}, {-kr / (2 * (1 - kb)) * c, -kg / (2 * (1 - kb)) * c, c / 2}, {c / 2, -kg / (2 * (1 - kr)) * c, -kb / (2 * (1 - kr)) * c}}
end

-- The product of rows and a column.
local function product(rows, column)
    local out = {}
    for i, row in ipairs(rows) do
        out[i] = row[1] * column[1] + row[2] * column[2] + row[3] * column[3]
    end
    return out
end

-- NPP's colour twist: three rows of three factors and a constant, which some releases add to the product and others to the numbers before it.
local function twist_of(from, matrix, range, behind)
    local zero = {range == "full" and 0 or 16, 128, 128}
    local rows, constants
    if from == "rgb24" then
        rows, constants = rows_to_yuv(matrix, range), behind and zero or product(rows_to_rgb(matrix, range), zero)
    else
        rows, constants = rows_to_rgb(matrix, range), {-zero[1], -zero[2], -zero[3]}
        constants = behind and product(rows, constants) or constants
    end
    local twist = ffi.new("float[12]")
    for i = 0, 2 do
        twist[4 * i], twist[4 * i + 1], twist[4 * i + 2], twist[4 * i + 3] = rows[i + 1][1], rows[i + 1][2], rows[i + 1][3], constants[i + 1]
    end
    return twist
end

-- The function that NPP has for a conversion, and whether that is a colour twist.
local function conversion(op, from, to, matrix, range)
    local order = (to == "bgr24" or from == "bgr24") and "BGR" or "RGB"
    local known = {
        -- not _709HDTV, which is off by up to 20 steps for full range, nor the plain one and _BT2020, whose range is not said
        nv12 = {bt709limited = "nppiNV12To%s_709CSC_8u_P2C3R_Ctx", bt601full = "nppiNV12To%s_601_8u_P2C3R_Ctx"},
        yuv420p = {bt601limited = "nppiYCbCr420To%s_8u_P3C3R_Ctx", bt601full = "nppiYCbCr420To%s_JPEG_8u_P3C3R_Ctx"},
        rgb24 = to == "yuv420p" and {bt601limited = "nppi%sToYCbCr420_8u_C3P3R_Ctx", bt601full = "nppi%sToYCbCr420_JPEG_8u_C3P3R_Ctx"} or {},
    }
    known.bgr24 = known.rgb24
    local name = known[from][matrix .. range]
    name = name and name:format(order)
    local lib = open(op, "icc")
    if name and pcall(function() return lib[name] end) then
        return name, false
    end
    local twists = {
        nv12 = "nppiNV12ToRGB_8u_ColorTwist32f_P2C3R_Ctx", yuv420p = "nppiYUV420ToRGB_8u_ColorTwist32f_P3C3R_Ctx",
        rgb24 = to == "nv12" and "nppiRGBToNV12_8u_ColorTwist32f_C3P2R_Ctx" or "nppiRGBToYUV420_8u_ColorTwist32f_C3P3R_Ctx",
    }
    if order == "BGR" or not weights[matrix] or not pcall(function() return lib[twists[from]] end) then
        check.fail("UNSUPPORTED", op, "NPP %s has no function from %s to %s for %s %s; image:convert does it", npp.version(), from, to, matrix, range)
    end
    return twists[from], true
end

local conversions = {nv12 = {rgb24 = true, bgr24 = true, yuv420p = true}, yuv420p = {rgb24 = true, bgr24 = true, nv12 = true},
                     rgb24 = {nv12 = true, yuv420p = true}, bgr24 = {yuv420p = true}}

local function pointers(kind, planes)
    local list, steps = ffi.new(kind .. "[3]"), ffi.new("int[3]")
    for i, m in ipairs(planes) do
        list[i - 1], steps[i - 1] = pointer(m), m.step
    end
    return list, steps
end

local function run_twist(op, symbol, from, src_planes, dst_planes, stream, twist)
    local src, src_steps = pointers("const uint8_t *", src_planes)
    local dst, dst_steps = pointers("uint8_t *", dst_planes)
    local whole = from == "rgb24" and src_planes[1] or dst_planes[1]
    local size = new_size(whole.width, whole.height)
    call(op, "icc", symbol, src_planes, dst_planes, stream, function(context)
        if from == "rgb24" then
            return src[0], src_steps[0], dst, dst_steps, size, twist, context
        end
        return src, src_steps, dst[0], dst_steps[0], size, twist, context
    end)
end

local adds_behind = {}      -- by function

-- Asks a colour twist what its constants mean: with no factors they either are the result or count for nothing.
local function is_added_behind(op, symbol, from, to, position)
    if adds_behind[symbol] == nil then
        local function planes(name)
            return image.new(op, format.find(op, name), position, 2, 2, ffi.new("gwb_image")).planes
        end
        local src, dst = planes(from), planes(to)
        for _, m in ipairs(src) do m:fill(1) end
        run_twist(op, symbol, from, src, dst, nil, ffi.new("float[12]", {0, 0, 0, 77, 0, 0, 0, 77, 0, 0, 0, 77}))
        adds_behind[symbol] = dst[1]:at(0, 0) == 77
    end
    return adds_behind[symbol]
end

--- npp.convert(img, format [, {matrix=, range=, out=, stream=}]) -> image. nv12 and yuv420p to rgb24 and bgr24, rgb24 to nv12 and yuv420p, bgr24 to
-- yuv420p, nv12 to yuv420p and back; even sizes. Between YUV and RGB the matrix and range must be known, from the image or the options. NPP repeats chroma.
-- Errors, as of all below: UNSUPPORTED (no NPP, the host device, a type that NPP does not take), SHAPE, BAD_ARGUMENT, CLOSED, DEVICE (NPP's status). What
-- is given back is the script's; nothing waits.
function npp.convert(img, name, opts)
    local op = "npp.convert"
    image.check(op, "the image", img)
    image.fill(op, "the image", img, ffi.new("gwb_image"))
    local from, to = img.format, format.find(op, name).name
    opts = check.options(op, opts, {"matrix", "range", "out", "stream"})
    local stream = check.stream(op, opts.stream)
    if not (conversions[from] or {})[to] then
        check.fail("UNSUPPORTED", op, "NPP's conversions here are nv12 and yuv420p to rgb24 and bgr24, back, and to each other, not %s to %s; "
            .. "image:convert has all", from, to)
    elseif img.width % 2 ~= 0 or img.height % 2 ~= 0 or img.width < 2 or img.height < 2 then
        check.fail("UNSUPPORTED", op, "NPP's 4:2:0 functions want an even width and height, and the image is %dx%d; image:convert takes it", img.width,
            img.height)
    end
    local position = library.device(op, WHAT, img.planes)
    local yuv = (to == "rgb24" or to == "bgr24") and img or opts.out or {}
    local matrix = format.tag_name("matrix", format.tag(op, "matrix", opts.matrix)) or yuv.matrix or img.matrix
    local range = format.tag_name("range", format.tag(op, "range", opts.range)) or yuv.range
    local rgb = from == "rgb24" or from == "bgr24" or to == "rgb24" or to == "bgr24"
    if rgb and (not matrix or not range) then
        check.fail("BAD_ARGUMENT", op, "the %s of the YUV side is not known: say matrix= (bt601, bt709, bt2020nc, smpte240m, fcc) and range= (limited, full)",
            not matrix and "matrix" or "range")
    end
    local out = opts.out
    if out == nil then
        local c = ffi.new("gwb_image")
        c.matrix, c.range, c.siting = format.tag(op, "matrix", matrix), format.tag(op, "range", range), format.tag(op, "siting", img.siting)
        if to == "rgb24" or to == "bgr24" then
            c.matrix, c.range, c.siting = 0, format.tag(op, "range", "full"), 0
        end
        c.transfer, c.primaries = format.tag(op, "transfer", img.transfer), format.tag(op, "primaries", img.primaries)
        out = image.new(op, format.find(op, to), position, img.width, img.height, c)
    else
        image.check(op, "out", out)
        image.fill(op, "out", out, ffi.new("gwb_image"))
        if out.format ~= to or out.width ~= img.width or out.height ~= img.height then
            check.fail("SHAPE", op, "out is %s %dx%d, wanted %s %dx%d", out.format, out.width, out.height, to, img.width, img.height)
        end
    end
    if to ~= "rgb24" and to ~= "bgr24" then
        out.matrix, out.range = out.matrix or matrix, out.range or range
    end
    local symbol, twist
    if rgb then
        symbol, twist = conversion(op, from, to, matrix, range)
        if twist then
            run_twist(op, symbol, from, img.planes, out.planes, stream, twist_of(from, matrix, range, is_added_behind(op, symbol, from, to, position)))
            return out
        end
    else
        symbol = from == "nv12" and "nppiNV12ToYUV420_8u_P2P3R_Ctx" or "nppiYCbCr420_8u_P3P2R_Ctx"
    end
    local src, src_steps = pointers("const uint8_t *", img.planes)
    local dst, dst_steps = pointers("uint8_t *", out.planes)
    if from == "nv12" and src_steps[0] ~= src_steps[1] then
        check.fail("UNSUPPORTED", op, "%s takes one step for both planes, and they have %d and %d bytes; image:convert takes them", symbol, src_steps[0],
            src_steps[1])
    end
    local size = new_size(img.width, img.height)
    call(op, "icc", symbol, img.planes, out.planes, stream, function(context)
        if symbol == "nppiYCbCr420_8u_P3P2R_Ctx" then
            return src, src_steps, dst[0], dst_steps[0], dst[1], dst_steps[1], size, context
        elseif from == "nv12" and to == "yuv420p" then
            return src, src_steps[0], dst, dst_steps, size, context
        elseif from == "nv12" then
            return src, src_steps[0], dst[0], dst_steps[0], size, context
        elseif from == "yuv420p" then
            return src, src_steps, dst[0], dst_steps[0], size, context
        end
        return src[0], src_steps[0], dst, dst_steps, size, context
    end)
    return out
end

-- ---- geometry and filters

local filters = {nearest = 1, linear = 2, cubic = 4, super = 8, lanczos = 16}

--- npp.resize(m, width, height [, {filter="linear", out=, stream=}]) -> mat of that size. filter: "nearest", "linear", "cubic", "super" (the mean of an
-- area, to smaller sizes only) or "lanczos". u8, u16, i16, f16 and f32 of 1, 3 or 4 channels. Errors as npp.convert.
function npp.resize(m, width, height, opts)
    local op = "npp.resize"
    supported(op, "the mat", m, {"u8", "u16", "i16", "f16", "f32"})
    check.integer(op, "width", width, 1, max_size)
    check.integer(op, "height", height, 1, max_size)
    opts = check.options(op, opts, {"filter", "out", "stream"})
    local stream = check.stream(op, opts.stream)
    local filter = filters[check.choice(op, "filter", opts.filter == nil and "linear" or opts.filter, {"nearest", "linear", "cubic", "super", "lanczos"})]
    library.device(op, WHAT, {m})
    local out = result(op, opts.out, m, width, height)
    call(op, "ig", ("nppiResize_%s_C%dR_Ctx"):format(element[m.dtype], m.channels), {m}, {out}, stream, function(context)
        return pointer(m), m.step, new_size(m.width, m.height), new_rect(0, 0, m.width, m.height), pointer(out), out.step, new_size(width, height),
            new_rect(0, 0, width, height), filter, context
    end)
    return out
end

local REPLICATE = 2
local masks = {[3] = 200, [5] = 201, [7] = 400, [9] = 500, [11] = 600, [13] = 700, [15] = 800}

--- npp.gauss(m, size [, {out=, stream=}]) -> mat, smoothed by NPP's fixed Gaussian of size x size pixels (3, 5, 7, 9, 11, 13, 15); pixels beyond the edge
-- are those at the edge. u8, u16, i16 and f32 of 1, 3 or 4 channels. Errors as npp.convert.
function npp.gauss(m, size, opts)
    local op = "npp.gauss"
    supported(op, "the mat", m, {"u8", "u16", "i16", "f32"})
    local mask = masks[check.choice(op, "size", size, {3, 5, 7, 9, 11, 13, 15})]
    opts = check.options(op, opts, {"out", "stream"})
    local stream = check.stream(op, opts.stream)
    library.device(op, WHAT, {m})
    local out = result(op, opts.out, m)
    call(op, "if", ("nppiFilterGaussBorder_%s_C%dR_Ctx"):format(element[m.dtype], m.channels), {m}, {out}, stream, function(context)
        local whole = new_size(m.width, m.height)
        return pointer(m), m.step, whole, new_point(0, 0), pointer(out), out.step, whole, mask, REPLICATE, context
    end)
    return out
end

--- npp.box(m, width, height [, {out=, stream=}]) -> mat, each pixel the mean of width x height pixels around it (odd sizes have it in the middle); pixels
-- beyond the edge are those at the edge. u8, u16, i16 and f32 of 1, 3 or 4 channels. Errors as npp.convert.
function npp.box(m, width, height, opts)
    local op = "npp.box"
    supported(op, "the mat", m, {"u8", "u16", "i16", "f32"})
    check.integer(op, "width", width, 1, 4096)
    check.integer(op, "height", height, 1, 4096)
    opts = check.options(op, opts, {"out", "stream"})
    local stream = check.stream(op, opts.stream)
    library.device(op, WHAT, {m})
    local out = result(op, opts.out, m)
    call(op, "if", ("nppiFilterBoxBorder_%s_C%dR_Ctx"):format(element[m.dtype], m.channels), {m}, {out}, stream, function(context)
        local whole = new_size(m.width, m.height)
        return pointer(m), m.step, whole, new_point(0, 0), pointer(out), out.step, whole, new_size(width, height),
            new_point(math.floor(width / 2), math.floor(height / 2)), REPLICATE, context
    end)
    return out
end

-- ---- arithmetic

local ranges = {u8 = {0, 255}, u16 = {0, 65535}, i16 = {-32768, 32767}}

local function constants(op, m, v)
    local list = type(v) == "table" and v or {}
    if type(v) == "table" and #v ~= m.channels then
        check.fail("BAD_ARGUMENT", op, "a list has one number a channel: wanted %d, got %d", m.channels, #v)
    end
    local out, range = ffi.new(("%s[%d]"):format(ctype[m.dtype], m.channels)), ranges[m.dtype]
    for c = 1, m.channels do
        local number = check.number(op, "the constant", type(v) == "table" and list[c] or v)
        if range and not (number >= range[1] and number <= range[2] and number == math.floor(number)) then
            check.fail("BAD_ARGUMENT", op, "the constant %s does not fit %s", tostring(number), m.dtype)
        end
        out[c - 1] = number
    end
    return m.channels == 1 and out[0] or out
end

local function arithmetic(op, name, a, b, opts)
    supported(op, "a", a, check.is_mat(b) and {"u8", "u16", "i16", "f16", "f32"} or {"u8", "u16", "i16", "f32"})
    opts = check.options(op, opts, name == "AbsDiff" and {"out", "stream"} or {"shift", "out", "stream"})
    local stream = check.stream(op, opts.stream)
    local whole = a.dtype ~= "f32" and a.dtype ~= "f16"
    local shift = opts.shift == nil and 0 or check.integer(op, "shift", opts.shift, 0, whole and 15 or 0)
    local reads, constant = {a}, nil
    if check.is_mat(b) then
        check.mat(op, "b", b)
        if b.width ~= a.width or b.height ~= a.height or b.type ~= a.type then
            check.fail("SHAPE", op, "a is %dx%d %s and b %dx%d %s; they must be alike", a.width, a.height, a.type, b.width, b.height, b.type)
        end
        reads[2] = b
    elseif type(b) ~= "number" and type(b) ~= "table" or name == "AbsDiff" then
        check.fail("BAD_ARGUMENT", op, "b must be a mat%s, got %s", name == "AbsDiff" and "" or ", a number or a list of numbers, one a channel",
            check.show(b))
    else
        constant = constants(op, a, b)
    end
    library.device(op, WHAT, reads)
    local out = result(op, opts.out, a)
    local scaled = whole and name ~= "AbsDiff"
    local symbol = ("nppi%s%s_%s_C%dR%s_Ctx"):format(name, constant ~= nil and "C" or "", element[a.dtype], a.channels, scaled and "Sfs" or "")
    local size = new_size(a.width, a.height)
    call(op, "ial", symbol, reads, {out}, stream, function(context)
        if constant ~= nil then
            if scaled then
                return pointer(a), a.step, constant, pointer(out), out.step, size, shift, context
            end
            return pointer(a), a.step, constant, pointer(out), out.step, size, context
        end
        local first, second = a, b
        if name == "Sub" or name == "Div" then      -- NPP takes its first source from its second, and divides the second by the first
            first, second = b, a
        end
        if scaled then
            return pointer(first), first.step, pointer(second), second.step, pointer(out), out.step, size, shift, context
        end
        return pointer(first), first.step, pointer(second), second.step, pointer(out), out.step, size, context
    end, true)
    return out
end

--- npp.add(a, b [, {shift=0, out=, stream=}]), npp.sub(a, b, …), npp.mul(a, b, …), npp.div(a, b, …) -> a mat: of mats that are alike, or of a mat and a
-- number or a list of numbers, one a channel. Whole numbers are divided by 2^shift, rounded and saturate. u8, u16, i16 and f32 (mats: f16 too) of 1, 3 or
-- 4 channels. Errors as npp.convert.
function npp.add(a, b, opts)
    return arithmetic("npp.add", "Add", a, b, opts)
end

function npp.sub(a, b, opts)
    return arithmetic("npp.sub", "Sub", a, b, opts)
end

function npp.mul(a, b, opts)
    return arithmetic("npp.mul", "Mul", a, b, opts)
end

function npp.div(a, b, opts)
    return arithmetic("npp.div", "Div", a, b, opts)
end

--- npp.absdiff(a, b [, {out=, stream=}]) -> |a - b| of mats that are alike: u8 of 1, 3 or 4 channels; u16, f16 and f32 of one. Errors as npp.convert.
function npp.absdiff(a, b, opts)
    return arithmetic("npp.absdiff", "AbsDiff", a, b, opts)
end

--- npp.float(m [, {out=, stream=}]) -> an f32 mat with the numbers of a u8, u16 or i16 one. Errors as npp.convert.
function npp.float(m, opts)
    local op = "npp.float"
    supported(op, "the mat", m, {"u8", "u16", "i16"})
    opts = check.options(op, opts, {"out", "stream"})
    local stream = check.stream(op, opts.stream)
    library.device(op, WHAT, {m})
    local out = result(op, opts.out, m, nil, nil, types.text(types.code.f32, m.channels))
    call(op, "idei", ("nppiConvert_%s32f_C%dR_Ctx"):format(element[m.dtype], m.channels), {m}, {out}, stream, function(context)
        return pointer(m), m.step, pointer(out), out.step, new_size(m.width, m.height), context
    end)
    return out
end

--- npp.split(m [, {out=, stream=}]) -> list of mats, one a channel, from one of 3 or 4: u8, u16, i16, f32. out: such a list, whose mats have one step.
-- Errors as npp.convert.
function npp.split(m, opts)
    local op = "npp.split"
    supported(op, "the mat", m, {"u8", "u16", "i16", "f32"})
    if m.channels < 3 then
        check.fail("UNSUPPORTED", op, "NPP splits 3 or 4 channels, and the mat is %s", m.type)
    end
    opts = check.options(op, opts, {"out", "stream"})
    local stream = check.stream(op, opts.stream)
    library.device(op, WHAT, {m})
    if opts.out ~= nil and (type(opts.out) ~= "table" or #opts.out ~= m.channels) then
        check.fail("BAD_ARGUMENT", op, "out must be a list of %d mats, got %s", m.channels, check.show(opts.out))
    end
    local list, dst = {}, ffi.new(("%s *[4]"):format(ctype[m.dtype]))
    for c = 1, m.channels do
        list[c] = result(op, opts.out and opts.out[c], m, nil, nil, m.dtype)
        if list[c].step ~= list[1].step then
            check.fail("SHAPE", op, "mat %d of out has a step of %d bytes and the first %d; NPP wants one", c, list[c].step, list[1].step)
        end
        dst[c - 1] = pointer(list[c])
    end
    call(op, "idei", ("nppiCopy_%s_C%dP%dR_Ctx"):format(element[m.dtype], m.channels, m.channels), {m}, list, stream, function(context)
        return pointer(m), m.step, dst, list[1].step, new_size(m.width, m.height), context
    end)
    return list
end

return npp
