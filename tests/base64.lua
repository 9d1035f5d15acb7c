-- SPDX-License-Identifier: MIT
-- Base64 back to bytes: what the specs check the program's own against.
local digits = {}
for i = 1, 64 do
    digits[("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"):byte(i)] = i - 1
end

return function(text)
    local out, bits, count = {}, 0, 0
    for at = 1, #text do
        local digit = digits[text:byte(at)]
        if digit then
            bits = bits % 65536 * 64 + digit
            count = count + 6
            if count >= 8 then
                count = count - 8
                out[#out + 1] = string.char(math.floor(bits / 2 ^ count) % 256)
            end
        end
    end
    return table.concat(out)
end
