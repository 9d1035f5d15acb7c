-- SPDX-License-Identifier: MIT
-- Work through a list: a process's share of it, and how far it is.
local check = require "gpuwb.check"
local posix = require "gpuwb.posix"

local batch = {public = {}}

-- ---- shares. Variables of the launchers, {rank, number of processes}. Open MPI and the PMI launchers may themselves run under Slurm, whose step then
-- counts their daemons: they come first. A Slurm batch script has SLURM_PROCID too but is no step, and does all.
local launchers = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"PMI_RANK", "PMI_SIZE"},
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
}

local function launched(op)
    for _, names in ipairs(launchers) do
        local rank, count = os.getenv(names[1]), os.getenv(names[2])
        if rank and count then
            local r, n = tonumber(rank), tonumber(count)
            if not r or not n or r ~= math.floor(r) or n ~= math.floor(n) or r < 0 or n < 1 or r >= n then
                check.fail("BAD_ARGUMENT", op, "the launcher says %s=%s and %s=%s; wanted whole numbers, a rank below the count", names[1], rank, names[2],
                    count)
            end
            return r, n
        end
    end
    return 0, 1
end

--- gpu.shard(list [, {rank=, count=}]) -> this process's share of the list, its rank (from 0), the number of processes.
-- Rank and count come from the launcher (Open MPI, PMI as of MPICH, Slurm's srun) or the options; without one the share is all of the list. Process r of n
-- gets entries r + 1, r + 1 + n, r + 1 + 2n, … of the list, in a new list: each entry is one process's, and shares differ by one entry at most. Give
-- each process the same list in the same order.
-- Errors: BAD_ARGUMENT for no list, for a rank that is not below the count.
-- @example
-- local share, rank, count = gpu.shard({"a.png", "b.png", "c.png", "d.png", "e.png"}, {rank = 1, count = 2})
-- print(rank, count, table.concat(share, " "))     --> 1  2  b.png d.png
function batch.public.shard(list, opts)
    local op = "gpu.shard"
    if type(list) ~= "table" then
        check.fail("BAD_ARGUMENT", op, "list must be a list, got %s", check.show(list))
    end
    opts = check.options(op, opts, {"rank", "count"})
    local rank, count
    if opts.rank == nil and opts.count == nil then
        rank, count = launched(op)
    elseif opts.rank == nil or opts.count == nil then
        check.fail("BAD_ARGUMENT", op, "rank and count come together, got %s alone", opts.rank == nil and "count" or "rank")
    else
        count = check.integer(op, "count", opts.count, 1, 2 ^ 31)
        rank = check.integer(op, "rank", opts.rank, 0, count - 1)
    end
    local share = {}
    for i = rank + 1, #list, count do
        share[#share + 1] = list[i]
    end
    return share, rank, count
end

-- ---- progress

--- Fields of a progress bar, to be read.
-- @field done integer steps done
-- @field total integer? steps there will be
local methods = {}
local meta = {__index = methods, __name = "progress bar"}
local DRAW_EVERY = 0.1  -- seconds

local function duration(seconds)
    seconds = math.floor(seconds + 0.5)
    if seconds >= 3600 then
        return ("%d:%02d:%02d"):format(seconds / 3600, seconds / 60 % 60, seconds % 60)
    end
    return ("%d:%02d"):format(seconds / 60, seconds % 60)
end

local function rate(per_second)
    if per_second >= 10 or per_second == 0 then
        return ("%.0f/s"):format(per_second)
    elseif per_second >= 0.1 then
        return ("%.1f/s"):format(per_second)
    end
    return ("%.0f s each"):format(1 / per_second)
end

-- The line at a time: `columns` wide at most.
function batch.line(bar, now, columns)
    local elapsed = math.max(now - bar.started, 1e-9)
    local head = bar.label ~= "" and bar.label .. " " or ""
    local speed = rate(bar.done / elapsed)
    if not bar.total then
        return ("%s%d  %s  %s"):format(head, bar.done, speed, duration(elapsed)):sub(1, columns)
    end
    local share = bar.total > 0 and math.min(bar.done / bar.total, 1) or 1
    local rest
    if bar.closed or bar.done >= bar.total then
        rest = "in " .. duration(elapsed)
    elseif bar.done > 0 then
        rest = duration(elapsed * (bar.total - bar.done) / bar.done) .. " left"
    else
        rest = "-:-- left"
    end
    local tail = (" %d/%d  %s  %s"):format(bar.done, bar.total, speed, rest)
    local percent = ("%3d%% "):format(math.floor(share * 100))
    local width = math.min(columns - #head - #percent - #tail - 2, 40)
    local drawn = ""
    if width >= 5 then
        local filled = math.floor(share * width)
        drawn = "[" .. ("#"):rep(filled) .. ("-"):rep(width - filled) .. "]"
    end
    return (head .. percent .. drawn .. tail):sub(1, columns)
end

local function draw(bar, last)
    local now = posix.now()
    if not bar.terminal or (not last and now - bar.drawn < DRAW_EVERY) then
        return
    end
    bar.drawn = now
    local columns = posix.window(2)
    io.stdout:flush()
    io.stderr:write("\r", batch.line(bar, now, columns - 1), "\27[K", last and "\n" or "")
    io.stderr:flush()
end

--- gpu.progress([n [, label]]) -> a progress bar on stderr, with the rate and the time that is left; silent where stderr is no terminal.
-- n: how many steps there will be (nil: not known, then there is no bar); label: what is done. bar:step([k]) after k steps (default 1); bar:close() at the
-- end, or when it breaks off. The nth step closes it by itself; bar.done and bar.total may be read. Drawn at most ten times a second.
-- @example
-- local bar = gpu.progress(3, "squares")
-- for i = 1, 3 do
--     bar:step()
-- end
-- print(bar.done, bar.total)                       --> 3  3
function batch.public.progress(total, label)
    local op = "gpu.progress"
    if total ~= nil then
        check.integer(op, "n", total, 0, 2 ^ 53)
    end
    label = label == nil and "" or check.string(op, "label", label):gsub("%c", " ")
    local now = posix.now()
    local bar = setmetatable({total = total, label = label, done = 0, started = now, drawn = -1, closed = false, terminal = posix.isatty(2)}, meta)
    draw(bar)
    return bar
end

local function own(op, bar)
    if type(bar) ~= "table" or getmetatable(bar) ~= meta then
        check.fail("BAD_ARGUMENT", op, "call it as a method of a progress bar (gpu.progress(n)), got %s", check.show(bar))
    end
end

--- bar:step([k]) -> bar: k more steps are done (default 1). A closed bar counts and draws no more.
function methods:step(k)
    own("progress:step", self)
    k = k == nil and 1 or check.integer("progress:step", "k", k, 0, 2 ^ 53)
    if self.closed then
        return self
    end
    self.done = self.done + k
    if self.total and self.done >= self.total then
        return self:close()
    end
    draw(self)
    return self
end

--- bar:close() -> bar: the line stays as it is, and what is printed next starts below it. Twice is harmless.
function methods:close()
    own("progress:close", self)
    if not self.closed then
        self.closed = true
        draw(self, true)
    end
    return self
end

batch.methods = methods

return batch
