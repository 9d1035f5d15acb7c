-- SPDX-License-Identifier: MIT
-- A process's share of a list, and the progress bar.
local gpu = require "gpuwb"
local batch = require "gpuwb.batch"
local helper = require "tests.helper"
local command = require "tests.command_helper"
local raises = helper.raises

local NONE = {OMPI_COMM_WORLD_RANK = false, OMPI_COMM_WORLD_SIZE = false, PMI_RANK = false, PMI_SIZE = false, SLURM_PROCID = false,
              SLURM_STEP_NUM_TASKS = false, SLURM_NTASKS = false}

-- The share of 1..7 that a process with these variables takes.
local function share(env)
    local all = {}
    for name, value in pairs(NONE) do all[name] = value end
    for name, value in pairs(env) do all[name] = value end
    local result = command.run({"-e", "local s, r, n = gpu.shard{1, 2, 3, 4, 5, 6, 7} print(r .. '/' .. n .. ': ' .. table.concat(s, ' '))"}, {env = all})
    return result.status == 0 and result.out or result.err
end

describe("gpu.shard", function()
    it("gives each entry to one process, in shares that differ by one", function()
        for _, length in ipairs {0, 1, 2, 7, 64, 101} do
            local list = {}
            for i = 1, length do list[i] = i end
            for _, count in ipairs {1, 2, 3, 7, 200} do
                local seen, least, most = {}, length, 0
                for rank = 0, count - 1 do
                    local part, r, n = gpu.shard(list, {rank = rank, count = count})
                    assert.same({rank, count}, {r, n})
                    least, most = math.min(least, #part), math.max(most, #part)
                    for _, v in ipairs(part) do
                        assert.is_nil(seen[v])
                        seen[v] = true
                    end
                end
                assert.equal(length, #seen)
                assert.truthy(most - least <= 1)
            end
        end
    end)

    it("asks the launcher", function()
        assert.equal("0/1: 1 2 3 4 5 6 7\n", share {})
        assert.equal("1/3: 2 5\n", share {OMPI_COMM_WORLD_RANK = "1", OMPI_COMM_WORLD_SIZE = "3"})
        assert.equal("2/3: 3 6\n", share {PMI_RANK = "2", PMI_SIZE = "3"})
        assert.equal("0/2: 1 3 5 7\n", share {SLURM_PROCID = "0", SLURM_STEP_NUM_TASKS = "2"})
        assert.equal("1/2: 2 4 6\n", share {SLURM_PROCID = "0", SLURM_STEP_NUM_TASKS = "4", OMPI_COMM_WORLD_RANK = "1", OMPI_COMM_WORLD_SIZE = "2"})
        assert.equal("0/1: 1 2 3 4 5 6 7\n", share {SLURM_PROCID = "0", SLURM_NTASKS = "4"})    -- a batch script, which is no step
    end)

    it("refuses what makes no sense", function()
        assert.truthy(share {PMI_RANK = "3", PMI_SIZE = "3"} :find("PMI_RANK=3 and PMI_SIZE=3", 1, true))
        assert.truthy(share {PMI_RANK = "x", PMI_SIZE = "3"} :find("PMI_RANK=x", 1, true))
        raises("BAD_ARGUMENT", {"gpu.shard", "list", "nil"}, gpu.shard)
        raises("BAD_ARGUMENT", "5", gpu.shard, 5)
        raises("BAD_ARGUMENT", {"rank", "0..2"}, gpu.shard, {}, {rank = 3, count = 3})
        raises("BAD_ARGUMENT", "come together", gpu.shard, {}, {rank = 3})
        raises("BAD_ARGUMENT", "count", gpu.shard, {}, {rank = 0, count = 0 / 0})
        raises("BAD_ARGUMENT", {"ranks", "count, rank"}, gpu.shard, {}, {ranks = 3})
    end)
end)

describe("gpu.progress", function()
    it("draws share, rate and what is left, in the columns there are", function()
        local bar = {label = "files", total = 200, done = 50, started = 0}
        assert.equal("files  25% [##########------------------------------] 50/200  5.0/s  0:30 left", batch.line(bar, 10, 79))
        assert.equal("files  25% [##------] 50/200  5.0/s  0:30 left", batch.line(bar, 10, 46))
        assert.equal("files  25%  50/200", batch.line(bar, 10, 18))
        for columns = 1, 100 do
            assert.truthy(#batch.line(bar, 10, columns) <= columns)
        end
        bar.done, bar.closed = 200, true
        assert.equal("files 100% [###################################] 200/200  20 s each  in 1:06:40", batch.line(bar, 4000, 79))
        assert.equal("  0% [----------------------------------------] 0/9  0/s  -:-- left", batch.line({label = "", total = 9, done = 0, started = 0}, 1, 79))
        assert.equal("100% [########################################] 0/0  0/s  in 0:01", batch.line({label = "", total = 0, done = 0, started = 0}, 1, 79))
        assert.equal("rows 12  6.0/s  0:02", batch.line({label = "rows", done = 12, started = 0}, 2, 79))
        assert.equal("rows 1  50 s each  0:50", batch.line({label = "rows", done = 1, started = 0}, 50, 79))
    end)

    it("says nothing where stderr is no terminal", function()
        local result = command.run {"-e", "local b = gpu.progress(3, 'x') for _ = 1, 3 do b:step() end b:close() print(b.done, b.total)"}
        assert.same({out = "3\t3\n", err = "", status = 0}, result)
    end)

    it("draws on a terminal, and leaves the line when it is done", function()
        local terminal = command.terminal({"-e", "local b = gpu.progress(3, 'one\\ntwo') b:step(2) b:step() b:step() print 'after'"}, {})
        assert.equal(0, terminal:wait())
        assert.truthy(terminal.output:find("^\rone two   0%% %[%-+%] 0/3"))
        assert.truthy(terminal.output:find("one two 100% [########################################] 3/3", 1, true))
        assert.truthy(terminal.output:find("in 0:00\27%[K\r\nafter\r\n$"))
    end)

    it("refuses what is no count, and calls without a bar", function()
        raises("BAD_ARGUMENT", {"gpu.progress", "n must be"}, gpu.progress, -1)
        raises("BAD_ARGUMENT", "n must be", gpu.progress, 0 / 0)
        raises("BAD_ARGUMENT", "label", gpu.progress, 1, {})
        local bar = gpu.progress(2)
        raises("BAD_ARGUMENT", "k must be", bar.step, bar, "x")
        raises("BAD_ARGUMENT", "call it as a method", bar.step, 1)
        raises("BAD_ARGUMENT", "call it as a method", bar.close)
        assert.equal(bar, bar:close():close():step())
        assert.equal(0, bar.done)
    end)
end)
