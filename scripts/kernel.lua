-- SPDX-License-Identifier: MIT
-- A kernel with shared memory and a barrier, the same on the GPU and on the host: the sum of each block of 256 numbers.
-- Usage: gpuwb [--device host|cuda:N] scripts/kernel.lua
local gpu = require "gpuwb"

local k = gpu.kernel [[
__global__ void block_sum(const float *in, float *out, int n)
{
    __shared__ float part[256];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    part[threadIdx.x] = i < n ? in[i] : 0.0f;
    for (int half = 128; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half)
            part[threadIdx.x] += part[threadIdx.x + half];
    }
    if (threadIdx.x == 0)
        out[blockIdx.x] = part[0];
}
]]

local n = 1000
local numbers, sums = gpu.map("x", {}, {width = n, height = 1, type = "f32"}), gpu.mat(4, 1, "f32")
k.block_sum {over = n, args = {numbers, sums, n}}
print(gpu.device(), unpack(sums:totable()[1]))      -- 32640 98176 163712 204972
