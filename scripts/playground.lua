-- SPDX-License-Identifier: MIT
-- A place to play: edit the kernel, save, and look. The window stays.
-- Usage: gpuwb --watch scripts/playground.lua     or once: gpuwb scripts/playground.lua [OUT.png]
local gpu = require "gpuwb"

local k = gpu.kernel [[
__global__ void shade(gwb_view out)
{
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= out.width || y >= out.height)
        return;
    const float u = 3.0f * (x - 0.68f * out.width) / out.width, v = 3.0f * (y - 0.5f * out.height) / out.width;
    float a = 0, b = 0, near = 100;
    int n = 0;
    for (; n < 200 && a * a + b * b < 16; n++) {
        const float next = a * a - b * b + u;
        b = 2 * a * b + v;
        a = next;
        const float d = a * a + b * b;
        near = d < near ? d : near;
    }
    unsigned char *to = out.data + y * out.step + 3 * x;
    const float light = n == 200 ? sqrtf(near) * 0.6f : n / 200.0f;
    to[0] = (unsigned char)(255 * fminf(1, (n == 200 ? 0.3f : 2.0f) * light));
    to[1] = (unsigned char)(255 * fminf(1, (n == 200 ? 0.7f : 1.2f) * sqrtf(light) * 0.8f));
    to[2] = (unsigned char)(255 * fminf(1, (n == 200 ? 1.0f : 1.0f) * sqrtf(sqrtf(light)) * 0.7f));
}]]

local m = gpu.mat(720, 480, "u8x3")
k.shade {over = m, args = {m}}
gpu.show(m, {title = "playground", path = arg and arg[1]})
