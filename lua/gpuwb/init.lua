-- SPDX-License-Identifier: MIT
-- gpuwb's public names and nothing else: each comes from the module of its concept.
local ffi = require "ffi"
local C = require("gpuwb.cdef").C
local device = require "gpuwb.device"
local mat = require "gpuwb.mat"
require "gpuwb.pixels"      -- m:fill, m:upload, m:download, m:at, m:totable
local stream = require "gpuwb.stream"
local copy = require "gpuwb.copy"
local format = require "gpuwb.format"
local image = require "gpuwb.image"
local files = require "gpuwb.files"
local many = require "gpuwb.many"
local video = require "gpuwb.video"
local pipe = require "gpuwb.pipe"
local kernel = require "gpuwb.kernel"
local map = require "gpuwb.map"
require "gpuwb.graph"       -- s:capture
local exchange = require "gpuwb.exchange"
local ipc = require "gpuwb.ipc"
local batch = require "gpuwb.batch"
local trace = require "gpuwb.trace"
local measure = require "gpuwb.measure"
local live = require "gpuwb.live"
local help = require "gpuwb.help"
local show = require "gpuwb.show"

--- gpu.version: gpuwb's version, as "0.1.0".
local gpu = {
    version = ffi.string(C.gwb_version()),

    devices = device.devices, device = device.device, on = device.on, memory = device.memory, trim = device.trim, limit = device.limit,
    synchronize = device.synchronize, why_no_cuda = device.why_no_cuda,

    mat = mat.create, host_mat = mat.host, wrap = mat.wrap, merge = mat.merge,

    stream = stream.create, wrap_stream = stream.wrap, default_stream = stream.default, event = stream.event, elapsed = stream.elapsed,

    copy = copy.copy, copy2d = copy.copy2d, explain_copy = copy.explain, checks = copy.checks,
}

for _, part in ipairs {format.public, image.public, files.public, many.public, video.public, pipe.public, kernel.public, map.public, exchange.public,
                       ipc.public, batch.public, trace.public, measure.public, live.public, help.public, show.public} do
    for name, fn in pairs(part) do
        gpu[name] = fn
    end
end

return gpu
