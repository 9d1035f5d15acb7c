-- SPDX-License-Identifier: MIT
-- nvJPEG's functions: for gpuwb.nvjpeg, and as pointers for the threads of gpu.files.
local ffi = require "ffi"
local library = require "gpuwb.library"

local nvjpeg = {what = "nvJPEG"}

if not pcall(ffi.typeof, "gwb_nvjpeg_image") then
    ffi.cdef [[
        typedef struct gwb_nvjpeg_image { uint8_t *channel[4]; size_t pitch[4]; } gwb_nvjpeg_image;     /* nvjpegImage_t */
        int nvjpegCreateSimple(void **handle);
        int nvjpegDestroy(void *handle);
        int nvjpegJpegStateCreate(void *handle, void **state);
        int nvjpegJpegStateDestroy(void *state);
        int nvjpegGetImageInfo(void *handle, const uint8_t *data, size_t length, int *components, int *subsampling, int widths[4], int heights[4]);
        int nvjpegDecode(void *handle, void *state, const uint8_t *data, size_t length, int format, gwb_nvjpeg_image *out, void *stream);
        int nvjpegDecodeBatchedInitialize(void *handle, void *state, int count, int threads, int format);
        int nvjpegDecodeBatched(void *handle, void *state, const uint8_t *const *data, const size_t *lengths, gwb_nvjpeg_image *out, void *stream);
        int nvjpegEncoderStateCreate(void *handle, void **state, void *stream);
        int nvjpegEncoderStateDestroy(void *state);
        int nvjpegEncoderParamsCreate(void *handle, void **params, void *stream);
        int nvjpegEncoderParamsDestroy(void *params);
        int nvjpegEncoderParamsSetQuality(void *params, int quality, void *stream);
        int nvjpegEncoderParamsSetSamplingFactors(void *params, int subsampling, void *stream);
        int nvjpegEncodeImage(void *handle, void *state, void *params, const gwb_nvjpeg_image *source, int format, int width, int height, void *stream);
        int nvjpegEncodeYUV(void *handle, void *state, void *params, const gwb_nvjpeg_image *source, int subsampling, int width, int height, void *stream);
        int nvjpegEncodeRetrieveBitstream(void *handle, void *state, uint8_t *data, size_t *length, void *stream);
    ]]
end

function nvjpeg.open(op)
    return library.open(op, nvjpeg.what, library.names("libnvjpeg.so", {13, 12, 11}))
end

local used = {create = "nvjpegCreateSimple", destroy = "nvjpegDestroy", state_create = "nvjpegJpegStateCreate", state_destroy = "nvjpegJpegStateDestroy",
              info = "nvjpegGetImageInfo", decode = "nvjpegDecode"}

-- Fills a gwb_nvjpeg.
function nvjpeg.pointers(op, to)
    local lib = nvjpeg.open(op)
    for field, symbol in pairs(used) do
        to[field] = ffi.cast(ffi.typeof(to[field]), lib[symbol])
    end
end

return nvjpeg
