-- SPDX-License-Identifier: MIT
-- scripts/nginx in a real nginx: pictures resized as gpuwb itself does it, odd uploads answered, many at once, a clean end.
local gpu = require "gpuwb"
local ffi = require "ffi"
local helper = require "tests.helper"
local pictures = require "tests.pictures"

ffi.cdef "int getpid(void); int kill(int pid, int signal); int usleep(unsigned us);"

local function lacking()
    local about, status = helper.run("nginx -V")
    if status ~= 0 then
        return "there is no nginx"
    end
    local modules = about:match("%-%-modules%-path=(%S+)") or "/"
    local built_in = about:find("openresty", 1, true) or about:find("lua-nginx-module", 1, true)
    if not built_in and select(2, helper.run("test -e " .. modules .. "/ngx_http_lua_module.so")) ~= 0 then
        return "this nginx has no Lua"
    elseif select(2, helper.run("test -e build/release/gpuwb.so")) ~= 0 then
        return "no module for Lua is built"
    end
end

for _, device in ipairs(helper.devices()) do
    describe("nginx on " .. device, function()
        local why = lacking()
        if why then
            return pending(why)
        end
        local port = 20000 + (ffi.C.getpid() * 2 + #device) % 20000
        local folder, server

        -- Posts bodies, all at once: a list of {status, header, body}. HTTP/1.0 ends an answer by closing.
        local function post_all(requests)
            local lines = {}
            for i, r in ipairs(requests) do
                local at = folder .. "/" .. i
                helper.write(at, ("POST %s HTTP/1.0\r\nContent-Length: %d\r\n\r\n"):format(r[1], #r[2]) .. r[2])
                lines[i] = ("(exec 3<>/dev/tcp/127.0.0.1/%d && { cat %s >&3 2>/dev/null & cat <&3 >%s.answer; }) &"):format(port, at, at)
            end
            helper.run("timeout 100 bash -c " .. helper.quote(table.concat(lines, "\n") .. "\nwait"))
            local answers = {}
            for i = 1, #requests do
                local answer = helper.read(folder .. "/" .. i .. ".answer")
                local status, head, body = answer:match("^HTTP/1.1 (%d+)[^\r]*\r\n(.-)\r\n\r\n(.*)$")
                answers[i] = {tonumber(status), head or "no answer: " .. answer, body}
            end
            return answers
        end

        local function post(target, body)
            return unpack(post_all {{target, body}}[1], 1, 3)
        end

        setup(function()
            folder = helper.folder()
            server = helper.run(("GPUWB_DEVICE=%s scripts/nginx/serve.sh %d >%s/log 2>&1 </dev/null & echo $!"):format(device, port, folder)):match("%d+")
            for _ = 1, 200 do
                if select(2, helper.run(("bash -c 'exec 3<>/dev/tcp/127.0.0.1/%d'"):format(port))) == 0 then
                    return
                end
                ffi.C.usleep(50000)
            end
            error("nginx does not answer:\n" .. helper.read(folder .. "/log"))
        end)
        teardown(function()
            helper.remove(folder)
        end)

        it("resizes a picture as gpuwb does", function()
            gpu.on(device, function()
                local img = gpu.image("rgb24", 61, 47)
                img.planes[1]:upload(helper.bytes(61 * 47 * 3))
                local png = gpu.encode(img, "png")
                local status, head, body = post("/resize?width=20&height=13&format=png", png)
                assert.same({200, true}, {status, head:find("image/png", 1, true) ~= nil}, body)
                assert.equal(img:resize(20, 13).planes[1]:download(), gpu.decode(body).planes[1]:download())
                status, head, body = post("/resize?height=94", png)
                assert.same({200, true}, {status, head:find("image/jpeg", 1, true) ~= nil}, body)
                assert.equal(gpu.encode(img:resize(122, 94), "jpg"), body)
                local least = gpu.info {bytes = select(3, post("/resize?width=1", png))}     -- its shape is kept
                assert.same({1, 1}, {least.width, least.height})
            end)
        end)

        it("says what is wrong with a request", function()
            local png = gpu.encode(gpu.image("gray", 3, 2), "png")
            for _, case in ipairs {
                {"/resize?width=5", "", 400, "empty"},
                {"/resize?width=5", "garbage", 400, "no picture that is known"},
                {"/resize?width=5", png:sub(1, -20), 400, "gpu.decode"},
                {"/resize?width=5", "P5 100000 100000 255\n", 400, "100000"},
                {"/resize?width=5", gpu.encode(gpu.mat(4, 4, "f32", {fill = 0, device = "host"}), "npy"), 415, "jpg holds u8"},
                {"/resize?width=5", "RIFF\20\0\0\0WEBPVP8 ....", 415, "WebP"},
                {"/resize", png, 400, "wanted ?width="},
                {"/resize?width=0", png, 400, "got 0"},
                {"/resize?width=nan", png, 400, "got nan"},
                {"/resize?width=1.5", png, 400, "got 1.5"},
                {"/resize?width", png, 400, "got true"},
                {"/resize?width=5&width=6", png, 400, "width must be"},
                {"/resize?width=8193", png, 400, "8192"},
                {"/resize?width=5&format=gif", png, 400, "jpg or png"},
                {"/resize?width=5", ("x"):rep(33 * 2 ^ 20), 413, "Too Large"},
                {"/other", png, 404, "Not Found"},
            } do
                local target, upload, wanted, word = unpack(case, 1, 4)
                local status, _, body = post(target, upload)
                assert.same({wanted, true}, {status, tostring(body):find(word, 1, true) ~= nil}, target .. ": " .. tostring(body))
            end
        end)

        it("refuses a header that promises more pixels than are allowed", function()
            local png = gpu.encode(gpu.image("gray", 3, 2), "png")
            local chunk = "IHDR" .. pictures.be32(16384) .. pictures.be32(16384) .. png:sub(25, 29)
            local comment = "tEXtx\0" .. ("y"):rep(300000)     -- so that the file could hold them
            local status, _, body = post("/resize?width=5", png:sub(1, 12) .. chunk .. pictures.be32(pictures.crc(chunk))
                .. pictures.be32(#comment - 4) .. comment .. pictures.be32(pictures.crc(comment)) .. png:sub(34))
            assert.same({413, true}, {status, body:find("16384x16384", 1, true) ~= nil}, body)
        end)

        it("serves many at once, good and bad", function()
            local img = gpu.image("rgb24", 640, 480)
            img.planes[1]:fill {200, 100, 50}
            local png = gpu.encode(img, "png")
            local requests = {}
            for i = 1, 24 do
                requests[i] = {("/resize?width=%d&height=9&format=png"):format(i), i % 4 == 0 and png:sub(1, 300) or png}
            end
            for i, answer in ipairs(post_all(requests)) do
                assert.equal(i % 4 == 0 and 400 or 200, answer[1], answer[2])
                if i % 4 ~= 0 then
                    assert.equal(i, gpu.info({bytes = answer[3]}).width)
                end
            end
        end)

        it("ends when it is told, and leaves nothing", function()
            ffi.C.kill(tonumber(server), 15)
            for _ = 1, 200 do
                if ffi.C.kill(tonumber(server), 0) ~= 0 then
                    break
                end
                ffi.C.usleep(50000)
            end
            assert.is_not_equal(0, ffi.C.kill(tonumber(server), 0))
            local log = helper.read(folder .. "/log")
            assert.falsy(log:find("signal %d+") or log:find("Sanitizer"), log)
        end)
    end)
end
