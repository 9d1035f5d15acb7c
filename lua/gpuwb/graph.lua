-- SPDX-License-Identifier: MIT
-- Graphs: what a function enqueues on a stream, recorded, and launched again as one.
local ffi = require "ffi"
local check = require "gpuwb.check"
local stream = require "gpuwb.stream"
local C = require("gpuwb.cdef").C

local meta, methods = {}, {}
meta.__index = methods
local hidden = setmetatable({}, {__mode = "k"})     -- graph -> {stream =, device =, fn =, handle =}

local function state(op, self)
    local s = hidden[self]
    if not s then
        check.fail("BAD_ARGUMENT", op, "call it as a method of a graph, got %s", check.show(self))
    elseif not s.handle then
        check.fail("CLOSED", op, "the graph is closed")
    end
    return s
end

local function size_of(handle)
    local allocations = ffi.new("int[1]")
    return C.gwb_graph_size(handle, allocations), allocations[0]
end

-- Records fn(s) into a new state.
local function record(op, s, fn)
    if type(fn) ~= "function" then
        check.fail("BAD_ARGUMENT", op, "wanted a function that enqueues on the stream, got %s", check.show(fn))
    end
    local new = {stream = s, device = s.device, fn = fn}    -- fn keeps alive what it uses beside memory
    local out = ffi.new("gwb_graph *[1]")
    check.status(C.gwb_graph_begin(out, s), op)
    check.own(new, out[0], C.gwb_graph_close)
    local ok, err = pcall(fn, s)
    local status = C.gwb_graph_end(new.handle)
    if not ok then
        error(err, 0)
    end
    check.status(status, op)
    if size_of(new.handle) == 0 and select(2, size_of(new.handle)) == 0 then
        check.fail("BAD_ARGUMENT", op, "nothing was recorded: give the operations in the function the stream, as {stream = s}")
    end
    return new
end

--- s:capture(fn) -> graph. Calls fn(s): what it enqueues on s (with {stream = s}) is recorded instead of done; all else is done as ever. What waits for s, as
-- reading a result, is an error in there. The graph holds the memory that it uses, and each launch is ordered by it as an operation is. On cuda a graph of
-- CUDA's, which also records what other libraries enqueue on s.handle (tell of their mats by m:record_stream(s)); on the host the calls are made again.
function stream.methods:capture(fn)
    local op = "stream:capture"
    if not check.is_stream(self) then
        check.fail("BAD_ARGUMENT", op, "call it as a method of a stream, got %s", check.show(self))
    end
    check.stream(op, self)
    local self_graph = setmetatable({}, meta)
    hidden[self_graph] = record(op, self, fn)
    return self_graph
end

--- graph:launch([s]) -> graph: enqueues all that was recorded as one operation, on the stream that it was recorded on or another one of its device.
function methods:launch(s)
    local op = "graph:launch"
    local g = state(op, self)
    check.status(C.gwb_graph_launch(g.handle, check.stream(op, s == nil and g.stream or s)), op)
    return self
end

--- graph:update(fn) -> graph: records fn(s) in its place, as over other mats. Where it enqueues the same operations, nothing is prepared anew. After an error
-- the graph is as it was; launches under way go on.
function methods:update(fn)
    local op = "graph:update"
    local g = state(op, self)
    local new = record(op, g.stream, fn)
    state(op, self)     -- fn may have closed it
    C.gwb_graph_update(g.handle, new.handle)
    g.fn = fn
    return self
end

--- graph:close(): gives back what it holds; launches under way go on. Twice is harmless.
function methods:close()
    local g = hidden[self]
    if not g then
        check.fail("BAD_ARGUMENT", "graph:close", "call it as a method of a graph, got %s", check.show(self))
    end
    check.disown(g, C.gwb_graph_close)
    g.fn = nil
end

function meta.__tostring(self)
    local g = hidden[self]
    if not (g and g.handle) then
        return "graph (closed)"
    end
    local operations, allocations = size_of(g.handle)
    return ("graph %s %d operation%s over %d allocation%s"):format(g.device, operations, operations == 1 and "" or "s", allocations,
        allocations == 1 and "" or "s")
end

return meta
