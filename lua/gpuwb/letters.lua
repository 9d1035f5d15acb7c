-- SPDX-License-Identifier: MIT
-- Letters of 5 x 7 pixels, drawn into u8x3 mats of the host device: labels of pictures.
local ffi = require "ffi"
local check = require "gpuwb.check"
local C = require("gpuwb.cdef").C

local letters = {width = 6, height = 8}     -- pixels of a letter with the gap behind and below it

-- From " " to "~": five columns each, bit 0 on top.
local columns = ([[
0000000000 00005F0000 0007000700 147F147F14 242A7F2A12 2313086462 3649552250 0005030000 001C224100 0041221C00 082A1C2A08 08083E0808
0050300000 0808080808 0060600000 2010080402 3E5149453E 00427F4000 4261514946 2141454B31 1814127F10 2745454539 3C4A494930 0171090503
3649494936 064949291E 0036360000 0056360000 0008142241 1414141414 4122140800 0201510906 324979413E 7E1111117E 7F49494936 3E41414122
7F4141221C 7F49494941 7F09090101 3E41415132 7F0808087F 00417F4100 2040413F01 7F08142241 7F40404040 7F0204027F 7F0408107F 3E4141413E
7F09090906 3E4151215E 7F09192946 4649494931 01017F0101 3F4040403F 1F2040201F 7F2018207F 6314081463 0304780403 6151494543 00007F4141
0204081020 41417F0000 0402010204 4040404040 0001020400 2054545478 7F48444438 3844444420 384444487F 3854545418 087E090102 081454543C
7F08040478 00447D4000 2040443D00 007F102844 00417F4000 7C04180478 7C08040478 3844444438 7C14141408 081414187C 7C08040408 4854545420
043F444020 3C4040207C 1C2040201C 3C4030403C 4428102844 0C5050503C 4464544C44 0008364100 00007F0000 0041360800 0804081008]]):gsub("%s", "")

-- Pixels that a text takes at a scale.
function letters.size(text, scale)
    return #text * letters.width * scale, letters.height * scale
end

-- Draws a text with its top left corner at (x, y) into a live u8x3 mat of the host device, cut at its edges; bytes that are no ASCII are drawn as "?".
function letters.draw(m, x, y, text, scale, color)
    check.status(C.gwb_mat_wait(m, 1), "gpu.show")
    local p = ffi.cast("gwb_mat *", m)
    local bit = require "bit"
    for i = 1, #text do
        local code = text:byte(i)
        code = (code < 32 or code > 126) and 63 or code
        for column = 0, 4 do
            local at = (code - 32) * 10 + column * 2
            local bits = tonumber(columns:sub(at + 1, at + 2), 16)
            for row = 0, 6 do
                if bit.band(bits, bit.lshift(1, row)) ~= 0 then
                    for dy = 0, scale - 1 do
                        for dx = 0, scale - 1 do
                            local px, py = x + ((i - 1) * letters.width + column) * scale + dx, y + row * scale + dy
                            if px >= 0 and py >= 0 and px < p.width and py < p.height then
                                local to = p.data + py * p.step + px * 3
                                to[0], to[1], to[2] = color[1], color[2], color[3]
                            end
                        end
                    end
                end
            end
        end
    end
end

return letters
