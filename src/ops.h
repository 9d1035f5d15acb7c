// SPDX-License-Identifier: MIT
// The stage table of pipelines: the one list of what a chain can do. The Lua methods, the help and the specs are made from it.
//
// A row: name, kind, parameters, text.
// Kind: VALUE changes the numbers of a pixel, PLACE moves pixels, END says how the result is laid out and comes last.
// Parameters: NAME:TYPE, with =DEFAULT where it may be left out. They are given in this order, or by name in a table that comes last.
//   int           a whole number                          -> one of n
//   size          a whole number of pixels, 1 or more     -> one of n; auto: 0, by the other one and the picture's proportions
//   a|b|c         one of the names; n counts from 0       -> one of n
//   bool          true or false                           -> one of n
//   number        a number                                -> one of v
//   color         a number for all channels but alpha, or a list with one a channel -> four of v, NaN where the channel keeps its value
//   matrix9, matrix12, list   numbers, row by row         -> v, or the operand where they are many
//   mat, image    a picture on the same device            -> operand
//   expression    a text, or a list of texts              -> program, and its numbers in v
//   format, type, text        resolved by name            -> target, n
// The default black is the format's own, opaque; max is its largest code.
// Numbers are in the codes of the format at that point of the chain (0..255 for rgb24), positions in pixels.
#ifndef GWB_OPS_H
#define GWB_OPS_H

#define GWB_FILTERS "nearest|bilinear|bicubic|bicubic_opencv|area|lanczos3"
#define GWB_BORDERS "value|edge|reflect|wrap"

#define GWB_OPS(_) \
    _(convert,   VALUE, "format:format", "to another pixel format; tags (matrix=, range=, siting=) speak of the YUV side") \
    _(crop,      PLACE, "x:int y:int width:size height:size", "the region of that size from (x, y), inside the picture") \
    _(resize,    PLACE, "width:size=auto height:size=auto filter:" GWB_FILTERS "=bilinear antialias:bool=true", \
        "to another size, half-pixel centres; with one side alone (\"auto\" or nothing for the other) the proportions are kept; a filter is widened where it " \
        "shrinks, unless antialias=false") \
    _(flip,      PLACE, "axis:horizontal|vertical|both", "mirrored left to right, top to bottom, or both") \
    _(rotate,    PLACE, "degrees:0|90|180|270", "clockwise") \
    _(transpose, PLACE, "", "rows become columns") \
    _(pad,       PLACE, "left:int top:int right:int bottom:int mode:" GWB_BORDERS "=value value:color=black", "pixels added on each side") \
    _(letterbox, PLACE, "width:size height:size filter:" GWB_FILTERS "=bilinear value:color=black antialias:bool=true", \
        "to that size with the proportions kept: resized to fit, the rest filled") \
    _(warp,      PLACE, "matrix:matrix9 width:size=0 height:size=0 filter:nearest|bilinear=bilinear border:" GWB_BORDERS "=value value:color=black", \
        "pixel (x, y) is read at the source position matrix * (x, y, 1), perspective included; positions count pixel corners from 0") \
    _(remap,     PLACE, "map:mat filter:nearest|bilinear=bilinear border:" GWB_BORDERS "=value value:color=black", \
        "pixel (x, y) is read at the position that the f32x2 mat `map` holds there, in pixel centres from 0") \
    _(normalize, VALUE, "mean:color std:color scale:number=1", "(value * scale - mean) / std") \
    _(mul,       VALUE, "by:color", "value * by") \
    _(add,       VALUE, "by:color", "value + by") \
    _(sub,       VALUE, "by:color", "value - by") \
    _(div,       VALUE, "by:color", "value / by") \
    _(clamp,     VALUE, "low:color high:color", "cut to low..high") \
    _(abs,       VALUE, "", "the magnitude") \
    _(pow,       VALUE, "exponent:color", "value ^ exponent; 0 for values that are not positive") \
    _(gamma,     VALUE, "gamma:color", "max * (value / max) ^ (1 / gamma), where max is the format's largest code") \
    _(matrix,    VALUE, "m:matrix12", "3x3 or 3x4 numbers, row by row: each of three channels from all three, plus the fourth column") \
    _(lut,       VALUE, "table:list low:number=0 high:number=max", \
        "a table over low..high, linear between its numbers; one list for all channels, or a list of lists") \
    _(cube,      VALUE, "table:list low:number=0 high:number=max", "a 3D table of n^3 colours {r, g, b, r, g, b, …}, red running fastest, or a .cube file") \
    _(threshold, VALUE, "at:color low:number=0 high:number=max", "high where value > at, else low") \
    _(expr,      VALUE, "value:expression", \
        "for each pixel, from r g b a (or c1 … c4, and c, the channel itself), x y w h: \"(r + g + b) / 3\"; one for all channels but alpha, or a list") \
    _(swizzle,   VALUE, "order:text", "channels by letter (r g b a, or 0 and 1 for the least and largest code): \"bgr\"") \
    _(blend,     VALUE, "with:image mode:over|add|multiply=over opacity:number=1", "with a picture of the same size and type of channels") \
    _(to,        END,   "layout:interleaved|planar|nhwc|nchw type:type", "the numbers as they are, in that element type; nhwc and nchw are one tight mat")

#define GWB_OP_ID(name, kind, params, text) GWB_OP_##name,
typedef enum gwb_op_id { GWB_OPS(GWB_OP_ID) GWB_OP_COUNT } gwb_op_id;
#undef GWB_OP_ID

#endif
