-- SPDX-License-Identifier: MIT
-- Small files made by formula, byte by byte: what the readers must make of them is known without any of them.
local bit = require "bit"
local band, bor, bxor, lshift, rshift = bit.band, bit.bor, bit.bxor, bit.lshift, bit.rshift

local pictures = {}

-- The first plane of an image, or the mat itself: a pixel's values as a list, and all bytes.
local function first(obj)
    return type(obj) == "table" and obj.planes[1] or obj
end

function pictures.at(obj, x, y) return {first(obj):at(x, y)} end
function pictures.pixels(obj) return first(obj):download() end

function pictures.be16(v) return string.char(rshift(v, 8), band(v, 255)) end
function pictures.le16(v) return string.char(band(v, 255), rshift(v, 8)) end
function pictures.be32(v) return string.char(band(rshift(v, 24), 255), band(rshift(v, 16), 255), band(rshift(v, 8), 255), band(v, 255)) end
function pictures.le32(v) return pictures.be32(v):reverse() end
local be16, le16, be32, le32 = pictures.be16, pictures.le16, pictures.be32, pictures.le32

function pictures.crc(text)
    local c = -1
    for i = 1, #text do
        c = bxor(c, text:byte(i))
        for _ = 1, 8 do
            c = bxor(rshift(c, 1), band(c, 1) == 1 and 0xedb88320 or 0)
        end
    end
    return bit.bnot(c)
end

local function adler(text)
    local a, b = 1, 0
    for i = 1, #text do
        a = (a + text:byte(i)) % 65521
        b = (b + a) % 65521
    end
    return bor(lshift(b, 16), a)
end

function pictures.chunk(name, data)
    return be32(#data) .. name .. data .. be32(pictures.crc(name .. data))
end

-- A zlib stream, stored and not compressed; a wrong checksum with `sum`.
function pictures.zlib(raw, sum)
    local blocks, at = {"\x78\1"}, 1
    repeat
        local part = raw:sub(at, at + 65534)
        at = at + #part
        blocks[#blocks + 1] = string.char(at > #raw and 1 or 0) .. le16(#part) .. le16(bxor(#part, 0xffff)) .. part
    until at > #raw
    return table.concat(blocks) .. be32(sum or adler(raw))
end

-- A PNG whose raw data (a filter byte in front of each row) is given. opts: before (chunks in front of the pixels), interlace, sum (Adler).
function pictures.png_raw(width, height, depth, colour, raw, opts)
    opts = opts or {}
    return "\x89PNG\r\n\x1a\n"
        .. pictures.chunk("IHDR", be32(width) .. be32(height) .. string.char(depth, colour, 0, 0, opts.interlace and 1 or 0))
        .. (opts.before or "") .. pictures.chunk("IDAT", pictures.zlib(raw, opts.sum)) .. (opts.after or "") .. pictures.chunk("IEND", "")
end

-- A PNG of rows that are strings of bytes as PNG has them; `before` stands before its pixels.
function pictures.png(width, height, depth, colour, rows, before)
    return pictures.png_raw(width, height, depth, colour, "\0" .. table.concat(rows, "\0"), {before = before})
end

-- The rows of a PNG's raw data: their sizes in bytes without the filter byte, pass by pass.
function pictures.png_rows(width, height, depth, colour, interlace)
    local samples = ({[0] = 1, [2] = 3, [3] = 1, [4] = 2, [6] = 4})[colour]
    local passes = interlace and {{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4}, {0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2}} or {{0, 0, 1, 1}}
    local sizes = {}
    for _, p in ipairs(passes) do
        local w, h = math.ceil((width - p[1]) / p[3]), math.ceil((height - p[2]) / p[4])
        for _ = 1, w > 0 and h or 0 do
            sizes[#sizes + 1] = math.ceil(w * samples * depth / 8)
        end
    end
    return sizes
end

-- Bits, the first one highest, with JPEG's zero behind each 255.
local function bit_writer()
    local bytes, word, n = {}, 0, 0
    local function put(value, count)
        for i = count - 1, 0, -1 do
            word, n = word * 2 + band(rshift(value, i), 1), n + 1
            if n == 8 then
                bytes[#bytes + 1] = string.char(word) .. (word == 255 and "\0" or "")
                word, n = 0, 0
            end
        end
    end
    return put, function()
        while n > 0 do
            put(1, 1)
        end
        return table.concat(bytes)
    end
end

local function segment(marker, data)
    return string.char(255, marker) .. be16(#data + 2) .. data
end

-- A JPEG of blocks of one colour: blocks[row][column] is a list of the components' values (0..255), 1, 3 or 4 of them. sof: the coding's marker (0xc0;
-- 0xc2 is progressive); before: segments behind the start; app14: Adobe's colour transform.
function pictures.jpg(width, height, blocks, opts)
    opts = opts or {}
    local sof = opts.sof or 0xc0
    local n = #blocks[1][1]
    local put, finish = bit_writer()
    local last = {0, 0, 0, 0}
    for _, row in ipairs(blocks) do
        for _, block in ipairs(row) do
            for c = 1, n do
                local difference = block[c] - 128 - last[c]
                last[c] = block[c] - 128
                local size = 0
                while math.abs(difference) >= 2 ^ size do
                    size = size + 1
                end
                put(size, 4)    -- nine codes of four bits, in order
                put(difference < 0 and difference + 2 ^ size - 1 or difference, size)
                if sof ~= 0xc2 then
                    put(0, 1)   -- end of block
                end
            end
        end
    end
    local frame, scan = "", ""
    for c = 1, n do
        frame = frame .. string.char(c, 0x11, 0)
        scan = scan .. string.char(c, 0)
    end
    return "\xff\xd8" .. (opts.before or "")
        .. (opts.app14 and segment(0xee, "Adobe\0\100\0\0\0\0" .. string.char(opts.app14)) or "")
        .. segment(0xdb, "\0" .. ("\8"):rep(64))
        .. segment(sof, "\8" .. be16(height) .. be16(width) .. string.char(n) .. frame)
        .. segment(0xc4, "\0\0\0\0\9" .. ("\0"):rep(12) .. "\0\1\2\3\4\5\6\7\8")
        .. segment(0xc4, "\16\1" .. ("\0"):rep(15) .. "\0")
        .. segment(0xda, string.char(n) .. scan .. (sof == 0xc2 and "\0\0\0" or "\0\63\0"))
        .. finish() .. "\xff\xd9"
end

-- An EXIF segment that tells an orientation, in either byte order.
function pictures.exif(orientation, little)
    local u16, u32 = little and le16 or be16, little and le32 or be32
    return segment(0xe1, "Exif\0\0" .. (little and "II*\0" or "MM\0*") .. u32(8) .. u16(1) .. u16(0x112) .. u16(3) .. u32(1) .. u16(orientation) .. "\0\0"
        .. u32(0))
end

function pictures.tga(width, height, bits, data, kind)
    return string.char(0, 0, kind or 2, 0, 0, 0, 0, 0, 0, 0, 0, 0) .. le16(width) .. le16(height) .. string.char(bits, 0x20) .. data
end

-- packing: 1 and 2 are runs of 8 and 4 bits.
function pictures.bmp(width, height, bits, data, palette, packing)
    palette = palette or ""
    local start = 54 + #palette
    return "BM" .. le32(start + #data) .. le32(0) .. le32(start) .. le32(40) .. le32(width) .. le32(height) .. le16(1) .. le16(bits) .. le32(packing or 0)
        .. le32(#data) .. le32(0) .. le32(0) .. le32(#palette / 4) .. le32(0) .. palette .. data
end

-- A GIF's LZW codes for a string of indexes below 2^root, with a table that grows to 4096 codes and is then cleared.
local function lzw(indexes, root)
    local bytes, word, n, width = {}, 0, 0, root + 1
    local clear, stop = 2 ^ root, 2 ^ root + 1
    local codes, next_code
    local function put(code)
        word, n = word + code * 2 ^ n, n + width
        while n >= 8 do
            bytes[#bytes + 1] = string.char(word % 256)
            word, n = math.floor(word / 256), n - 8
        end
    end
    local function restart()
        put(clear)
        codes, next_code, width = {}, stop + 1, root + 1
    end
    restart()
    local text = ""
    local function code_of(t) return #t == 1 and t:byte() or codes[t] end
    for i = 1, #indexes do
        local longer = text .. indexes:sub(i, i)
        if #longer == 1 or codes[longer] then
            text = longer
        else
            put(code_of(text))
            codes[longer] = next_code
            if next_code == 2 ^ width and width < 12 then
                width = width + 1
            end
            next_code = next_code + 1
            if next_code > 4095 then
                restart()
            end
            text = indexes:sub(i, i)
        end
    end
    put(code_of(text))
    put(stop)
    width = 8 - n % 8
    if n % 8 > 0 then
        put(0)
    end
    return table.concat(bytes)
end

-- A GIF of frames {indexes=, x=, y=, w=, h=, disposal=, clear=, delay=, interlaced=, palette=}; a list of indexes alone is a frame of the whole size.
-- The palette has four colours, or 256.
function pictures.gif(width, height, palette, frames)
    local bits = #palette == 12 and 2 or 8
    local out = {"GIF89a", le16(width), le16(height), string.char(0x80 + bits - 1), "\0\0", palette}
    for _, frame in ipairs(frames) do
        local f = frame.indexes and frame or {indexes = frame}
        local text = {}
        for i, index in ipairs(f.indexes) do
            text[i] = string.char(index)
        end
        local data, blocks = lzw(table.concat(text), bits), {}
        for i = 1, #data, 255 do
            local part = data:sub(i, i + 254)
            blocks[#blocks + 1] = string.char(#part) .. part
        end
        out[#out + 1] = "\x21\xf9\4" .. string.char((f.disposal or 0) * 4 + (f.clear and 1 or 0)) .. le16(f.delay or 10) .. string.char(f.clear or 0) .. "\0"
            .. "\x2c" .. le16(f.x or 0) .. le16(f.y or 0) .. le16(f.w or width) .. le16(f.h or height)
            .. string.char((f.palette and 0x80 + bits - 1 or 0) + (f.interlaced and 0x40 or 0)) .. (f.palette or "")
            .. string.char(bits) .. table.concat(blocks) .. "\0"
    end
    return table.concat(out) .. ";"
end

-- A zip of {name, content} entries, stored.
function pictures.zip(entries)
    local out, directory, at = {}, {}, 0
    for _, e in ipairs(entries) do
        local facts = le16(0) .. le16(0) .. le16(0) .. le16(0x21) .. le32(pictures.crc(e[2])) .. le32(#e[2]) .. le32(#e[2]) .. le16(#e[1]) .. le16(0)
        local file = "PK\3\4" .. le16(20) .. facts .. e[1] .. e[2]
        out[#out + 1] = file
        directory[#directory + 1] = "PK\1\2" .. le16(20) .. le16(20) .. facts .. le16(0) .. le16(0) .. le16(0) .. le32(0) .. le32(at) .. e[1]
        at = at + #file
    end
    local text = table.concat(directory)
    return table.concat(out) .. text .. "PK\5\6" .. le16(0) .. le16(0) .. le16(#entries) .. le16(#entries) .. le32(#text) .. le32(at) .. le16(0)
end

function pictures.npy(descr, shape, data, opts)
    opts = opts or {}
    local version = opts.version or 1
    local header = ("{'descr': '%s', 'fortran_order': %s, 'shape': %s, }"):format(descr, opts.fortran and "True" or "False", shape)
    return "\x93NUMPY" .. string.char(version, 0) .. (version == 1 and le16(#header) or le32(#header)) .. header .. data
end

function pictures.y4m(parameters, frames)
    return "YUV4MPEG2 " .. parameters .. "\nFRAME\n" .. table.concat(frames, "FRAME Ip\n")
end

-- Whether decoders can be kept apart here: the kernel has seccomp filters, and lets this process set one.
function pictures.can_isolate()
    local ok, err = pcall(require("gpuwb").decode, pictures.png(1, 1, 8, 0, {"a"}), {isolated = true})
    return ok or err.code ~= "UNSUPPORTED"
end

-- One small file of each kind, by name.
function pictures.samples()
    local ramp = {}
    for i = 0, 255 do
        ramp[i + 1] = string.char(i)
    end
    ramp = table.concat(ramp)
    local gray = {{{10}, {200}, {90}}, {{250}, {3}, {128}}}
    local colour = {{{100, 90, 200}, {60, 128, 128}}}
    return {
        ["gray.png"] = pictures.png(4, 2, 8, 0, {ramp:sub(1, 4), ramp:sub(5, 8)}),
        ["deep.png"] = pictures.png(2, 2, 16, 2, {ramp:sub(1, 12), ramp:sub(13, 24)}),
        ["palette.png"] = pictures.png(4, 1, 2, 3, {"\x1b"}, pictures.chunk("PLTE", ramp:sub(1, 12)) .. pictures.chunk("tRNS", "\0\128")),
        ["interlaced.png"] = pictures.png_raw(3, 2, 8, 4, "\0\9\8\0\1\2\1\3\4\0\5\6\7\8\9\9", {interlace = true,
            before = pictures.chunk("iCCP", "p\0\0" .. pictures.zlib(be32(128) .. ramp:sub(1, 124)))}),
        ["gray.jpg"] = pictures.jpg(17, 9, gray, {before = pictures.exif(6)}),
        ["colour.jpg"] = pictures.jpg(16, 8, colour),
        ["progressive.jpg"] = pictures.jpg(16, 8, colour, {sof = 0xc2}),
        ["plain.tga"] = pictures.tga(4, 3, 24, ramp:sub(1, 36)),
        ["runs.tga"] = pictures.tga(4, 3, 24, "\x83\1\2\3\x83\4\5\6\x83\7\8\9", 10),
        ["plain.bmp"] = pictures.bmp(3, 2, 24, ramp:sub(1, 24)),
        ["palette.bmp"] = pictures.bmp(3, 2, 4, "\1\32\0\0\33\0\0\0", ramp:sub(1, 64)),
        ["runs8.bmp"] = pictures.bmp(5, 3, 8, "\3\1\2\2\0\0\0\3\1\2\3\0\0\2\1\1\1\3\0\1", ramp:sub(1, 16), 1),
        ["runs4.bmp"] = pictures.bmp(7, 2, 4, "\5\18\2\51\0\0\0\5\18\48\16\0\0\1", ramp:sub(1, 16), 2),
        ["two.gif"] = pictures.gif(3, 2, ramp:sub(1, 12), {{0, 1, 2, 3, 2, 1}, {3, 3, 3, 3, 3, 3}}),
        ["flat.hdr"] = "#?RADIANCE\nFORMAT=32-bit_rle_rgbe\n\n-Y 2 +X 2\n" .. ramp:sub(101, 116),
        ["runs.hdr"] = "#?RADIANCE\nFORMAT=32-bit_rle_rgbe\n\n-Y 1 +X 9\n\2\2\0\9\x89\5\x89\6\x89\7\x89\x80",
        ["rgb.psd"] = "8BPS" .. be16(1) .. ("\0"):rep(6) .. be16(3) .. be32(2) .. be32(3) .. be16(8) .. be16(3) .. be32(0) .. be32(0) .. be32(0) .. be16(0)
            .. ramp:sub(1, 18),
        ["a.qoi"] = "qoif" .. be32(3) .. be32(2) .. "\3\0\xfe\1\2\3\x6b\xa1\x97\xc1\x3f" .. "\0\0\0\0\0\0\0\1",
        ["binary.ppm"] = "P6\n# made by formula\n2 2\n255\n" .. ramp:sub(1, 12),
        ["text.pgm"] = "P2 3 2 9\n0 1 2\n3 4 9\n",
        ["bits.pbm"] = "P4\n9 2\n\xaa\x80\x55\0",
        ["four.pam"] = "P7\nWIDTH 2\nHEIGHT 1\nDEPTH 4\nMAXVAL 255\nTUPLTYPE RGB_ALPHA\nENDHDR\n" .. ramp:sub(1, 8),
        ["a.pfm"] = "PF\n2 1\n-1.0\n" .. ramp:sub(1, 24),
        ["a.npy"] = pictures.npy("<u2", "(2, 3)", ramp:sub(1, 12)),
        ["fortran.npy"] = pictures.npy(">f4", "(2, 3)", ramp:sub(1, 24), {fortran = true, version = 2}),
        ["a.npz"] = pictures.zip {{"arr_0.npy", pictures.npy("<u2", "(2, 3)", ramp:sub(1, 12))}},
        ["moving.gif"] = pictures.gif(4, 3, ramp:sub(1, 12), {{0, 1, 2, 3, 2, 1, 0, 0, 1, 1, 2, 2},
            {indexes = {3, 0, 3, 3}, x = 1, y = 1, w = 2, h = 2, clear = 0, disposal = 3}, {indexes = {1, 2}, w = 2, h = 1, interlaced = true}}),
        ["a.y4m"] = pictures.y4m("W5 H3 F30:1 Ip C420jpeg XCOLORRANGE=FULL", {ramp:sub(1, 27), ramp:sub(28, 54)}),
    }
end

return pictures
