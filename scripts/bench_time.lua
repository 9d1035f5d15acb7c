-- SPDX-License-Identifier: MIT
-- The clock of the benchmarks, which take it by dofile.
local gpu = require "gpuwb"
local ffi = require "ffi"

ffi.cdef [[
typedef struct gwb_bench_clock { int64_t seconds, nanoseconds; } gwb_bench_clock;
int clock_gettime(int clock, gwb_bench_clock *time);
]]

local bench = {}

-- Microseconds; clock 1 (the default): wall, 2: this process's CPU time.
function bench.now(clock)
    local time = ffi.new("gwb_bench_clock")
    ffi.C.clock_gettime(clock or 1, time)
    return tonumber(time.seconds) * 1e6 + tonumber(time.nanoseconds) / 1e3
end

-- A list of make(1) .. make(n).
function bench.each(n, make)
    local list = {}
    for i = 1, n do list[i] = make(i) end
    return list
end

-- Microseconds of fn(i), i = 1 .. n, which enqueues on `stream`: the median of `runs`; nil where fn says that it cannot by false. On cuda the stream sleeps
-- `sleep` milliseconds a call first, longer than the CPU takes for one, so that all are enqueued before the first begins.
function bench.time(stream, fn, n, runs, sleep)
    if fn(1) == false then return nil end
    stream:synchronize()
    local figures, first, last = {}, gpu.event {timing = true}, gpu.event {timing = true}
    for run = 1, runs do
        if stream.device ~= "host" then
            stream:sleep(1 + n * sleep)
            stream:record(first)
            for i = 1, n do fn(i) end
            stream:record(last)
            last:synchronize()
            figures[run] = gpu.elapsed(first, last) * 1e3 / n
        else
            local start = bench.now()
            for i = 1, n do fn(i) end
            stream:synchronize()
            figures[run] = (bench.now() - start) / n
        end
    end
    table.sort(figures)
    return figures[math.floor((#figures + 1) / 2)]
end

return bench
