// SPDX-License-Identifier: MIT
// The pixels of a PNG as libpng gives them: palettes and fewer than 8 bits made whole, tRNS as alpha, 16 bits in this machine's order. Prints
// "width height channels depth\n" and the rows. What the specs hold gpuwb's reader against.
#include <png.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    FILE *file = argc > 1 ? fopen(argv[1], "rb") : NULL;
    png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    if (!file || setjmp(png_jmpbuf(png))) return 1;
    png_init_io(png, file);
    png_read_info(png, info);
    png_set_expand(png);
    png_set_interlace_handling(png);
    if (png_get_bit_depth(png, info) == 16) png_set_swap(png);
    png_read_update_info(png, info);
    size_t bytes = png_get_rowbytes(png, info), rows = png_get_image_height(png, info);
    png_bytep all = malloc(bytes * rows), *row = malloc(rows * sizeof *row);
    for (size_t i = 0; i < rows; i++) row[i] = all + i * bytes;
    png_read_image(png, row);
    png_read_end(png, info);
    printf("%u %u %d %d\n", png_get_image_width(png, info), png_get_image_height(png, info), png_get_channels(png, info), png_get_bit_depth(png, info));
    return fwrite(all, bytes, rows, stdout) == rows ? 0 : 1;
}
