-- SPDX-License-Identifier: MIT
-- Options of the picture scripts, which take it by dofile: `--name VALUE`, `--flag`, and the rest.
local arguments = {}

-- An error as a line of a command: what the library would take as options is what the command takes. lenient: it has that option.
function arguments.text(err, lenient)
    local text = type(err) == "table" and err.message or tostring(err)
    text = lenient and text:gsub("strict=false", "--lenient") or text
    return (text:gsub(", which nobody gave: say (.*), as options or as the image's tags", function(say)
        return ", which nobody gave: give " .. say:gsub("(%w+) = ", "--%1 "):gsub('"', "")
    end))
end

-- Calls fn(...) and returns what it returns. What gpuwb raises ends the script, with a line and the exit status 1; what is wrong with the script is raised.
function arguments.try(fn, ...)
    local function answer(ok, ...)
        if ok then
            return ...
        elseif type(...) ~= "table" then
            error(..., 0)
        end
        io.stderr:write(arg[0]:match("[^/]*$"), ": ", arguments.text(...), "\n")
        os.exit(1, true)
    end
    return answer(pcall(fn, ...))
end

-- A picture to look at, and the tags to convert it from where it is YUV: bt601 and limited where it does not say.
function arguments.picture(gpu, path)
    local img = gpu.load(path)
    if type(img) ~= "table" then
        error({message = ("%s: an array of %s, no picture"):format(path, img.type)}, 0)
    end
    return img, gpu.format(img.format).model == "yuv" and {matrix = img.matrix or "bt601", range = img.range or "limited"} or nil
end

-- Reads `arg`. values, flags: sets of names; returns the options and the other words. fail(text) does not return.
function arguments.read(values, flags, fail)
    local opts, rest, i = {}, {}, 1
    while arg[i] do
        local name, value = arg[i]:match("^%-%-([%a-]+)=(.*)$")
        name = name or arg[i]:match("^%-%-([%a-]+)$")
        if arg[i] == "--help" then
            fail()
        elseif not name then
            rest[#rest + 1] = arg[i]
        elseif flags[name] then
            opts[name] = true
        elseif values[name] then
            if not value then
                i = i + 1
                value = arg[i] or fail("--" .. name .. " wants a value")
            end
            opts[name] = value
        else
            fail("there is no option --" .. name)
        end
        i = i + 1
    end
    return opts, rest
end

-- Option `name` as a whole number lo..hi, or nil.
function arguments.number(opts, name, lo, hi, fail)
    if opts[name] == nil then
        return nil
    end
    local v = tonumber(opts[name])
    if not v or v ~= math.floor(v) or v < lo or v > hi then
        fail(("--%s wants a whole number %d to %d, not %s"):format(name, lo, hi, opts[name]))
    end
    return v
end

-- "640x480", "640x" or "x480" as a function that gives the size for a picture's own; nil for none.
function arguments.size(text, fail)
    if not text then
        return nil
    end
    local w, h = text:match("^(%d*)x(%d*)$")
    w, h = tonumber(w), tonumber(h)
    if not (w or h) or w == 0 or h == 0 or (w or 1) > 65535 or (h or 1) > 65535 then
        fail("--resize wants WxH, Wx or xH in pixels, not " .. text)
    end
    return function(width, height)
        return w or math.max(1, math.floor(width * h / height + 0.5)), h or math.max(1, math.floor(height * w / width + 0.5))
    end
end

-- What is common to both scripts: how to read, how to fit, how to write a kind of file.
arguments.values = {resize = true, format = true, quality = true, subsampling = true, level = true, background = true, matrix = true, range = true,
                    depth = true, threads = true}
arguments.usage = [[
  --resize WxH            new size in pixels; Wx or xH keeps the shape
  --format EXT            what is written, else the name tells: png jpg bmp tga hdr qoi pnm pfm npy y4m yuv raw (the pixels as they are)
  --quality N             JPEG, 1 to 100 (90)
  --subsampling S         JPEG's chroma: 444 422 420 440 411
  --level N               PNG's effort, 1 to 12 (4)
  --background #RRGGBB    shines through where the format holds no alpha
  --depth 8               8 bits where the format would hold 16
  --matrix M --range R    what YUV means where the file does not say, and what y4m gets
  --lenient               damaged files give what is there, with a warning
]]

function arguments.plan(opts, fail)
    local plan = {
        size = arguments.size(opts.resize, fail), quality = arguments.number(opts, "quality", 1, 100, fail),
        level = arguments.number(opts, "level", 1, 12, fail), depth = arguments.number(opts, "depth", 8, 16, fail),
        threads = arguments.number(opts, "threads", 1, 64, fail),
    }
    -- An image (or mat), made to what `kind` holds, and the options for gpu.save.
    function plan.make(gpu, obj, kind)
        local save = {format = kind}
        if kind == "jpg" then
            save.quality, save.subsampling = plan.quality, opts.subsampling
        elseif kind == "png" then
            save.level = plan.level
        end
        local out, tags = obj, {matrix = opts.matrix, range = opts.range, depth = plan.depth, background = opts.background}
        if kind == "yuv" and type(obj) == "table" and gpu.format(obj.format).model ~= "yuv" and gpu.format(obj.format).model ~= "gray" then
            if not opts.matrix then
                error({message = ("a .yuv holds YUV, and this is %s: give --matrix and --range, and yuv420p is made of it; or write a .raw, which holds the "
                    .. "pixels as they are"):format(obj.format)}, 0)
            end
            out = gpu.fit(obj, "y4m", tags)
        end
        if plan.size then
            if kind == "npy" or kind == "yuv" or kind == "raw" or kind == "y4m" then
                out = type(out) == "table" and out or gpu.fit(out, "png")
            else
                out = gpu.fit(out, kind, tags)
            end
            local icc, gamma = out.icc, out.gamma
            out = out:resize(plan.size(out.width, out.height))
            out.icc, out.gamma = icc, gamma
            if kind == "npy" and type(obj) ~= "table" then
                out = out.planes[1]
            end
        end
        return gpu.fit(out, kind, tags), save
    end
    return plan
end

return arguments
