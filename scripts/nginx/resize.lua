-- SPDX-License-Identifier: MIT
-- POST /resize?width=320[&height=240][&format=jpg|png] with a picture as the body: the picture in that size, by the device. Without one side the picture
-- keeps its shape. What is wrong is the answer's text. Runs in nginx: see nginx.conf.
local gpu = require "gpuwb"

gpu.limits {pixels = 2 ^ 26, bytes = 2 ^ 29}    -- of an upload, by its header
local largest = 8192                            -- of a side

local statuses = {BAD_ARGUMENT = 400, BAD_FILE = 400, LIMIT = 413, UNSUPPORTED = 415, OUT_OF_MEMORY = 503}
local stream = gpu.stream()

local function refuse(status, ...)
    error({status = status, text = string.format(...)}, 0)
end

local function side(args, name)
    local text = args[name]
    local n = tonumber(text)
    if text ~= nil and not (n and n >= 1 and n <= largest and n % 1 == 0) then
        refuse(400, "%s must be a whole number from 1 to %d, got %s", name, largest, tostring(text))
    end
    return n
end

local function resized(body, args)
    local width, height, format = side(args, "width"), side(args, "height"), args.format or "jpg"
    if not (width or height) then
        refuse(400, "wanted ?width= or height=, or both")
    elseif format ~= "jpg" and format ~= "png" then
        refuse(400, "format must be jpg or png, got %s", tostring(format))
    end
    local img = gpu.decode(body, {stream = stream, isolated = true, timeout = 10})      -- in a process without rights: an upload is anybody's
    width = width or math.min(largest, math.max(1, math.floor(height * img.width / img.height + 0.5)))
    height = height or math.min(largest, math.max(1, math.floor(width * img.height / img.width + 0.5)))
    local out, done = img:resize(width, height, {stream = stream}), gpu.event()
    stream:record(done)
    while not done:query() do
        ngx.sleep(0)                            -- meanwhile the worker serves others
    end
    return gpu.encode(out, format), format
end

local resize = {}

function resize.serve()
    ngx.req.read_body()
    local ok, answer, format = pcall(resized, ngx.req.get_body_data() or "", ngx.req.get_uri_args())
    ngx.header.content_type = ok and (format == "png" and "image/png" or "image/jpeg") or "text/plain"
    if ok then
        return ngx.print(answer)
    end
    local err = type(answer) == "table" and answer or {message = tostring(answer)}
    ngx.status = err.status or statuses[err.code] or 500
    if ngx.status == 500 then
        ngx.log(ngx.ERR, tostring(answer))
    end
    ngx.say(err.text or err.message)
end

return resize
