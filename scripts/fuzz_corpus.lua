-- SPDX-License-Identifier: MIT
-- Writes the specs' small files as a corpus for scripts/fuzz.sh, each with a byte behind it that chooses how it is read.
package.path = "./?.lua;" .. package.path
local make = require "tests.pictures"

local folder = arg[1] or error("usage: gpuwb scripts/fuzz_corpus.lua FOLDER", 0)
for name, bytes in pairs(make.samples()) do
    for _, how in ipairs {0, 1, 64, 65, 73} do
        local file = assert(io.open(("%s/%s-%d"):format(folder, name, how), "wb"))
        file:write(bytes, string.char(how))
        file:close()
    end
end
