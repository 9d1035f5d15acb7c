// SPDX-License-Identifier: MIT
// A pass as CUDA C: the literals that shape the code, a function a link (macros of kernels/pipe.h), an entry.
#include "pipe.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct text {
    char *data;
    size_t size;
    FILE *file;
} text;

char *gwb_pipe_write(const gwb_pass *pass, bool batch)
{
    static const char *const values[] = {
#define ROW(name) #name,
        GWB_PIPE_VALUES(ROW)
#undef ROW
    };
    text t = {0};
    t.file = open_memstream(&t.data, &t.size);
    if (!t.file)
        return NULL;
    const gwb_convert_args *io = &pass->args.io;
    fprintf(t.file, "#define GWB_SRC_KIND %d\n#define GWB_SRC_COMPONENTS %d\n#define GWB_SRC_LOG2_W %d\n#define GWB_SRC_LOG2_H %d\n", io->src_kind,
            pass->src_components, io->src_log2_w, io->src_log2_h);
    fprintf(t.file, "#define GWB_DST_KIND %d\n#define GWB_DST_COMPONENTS %d\n#define GWB_DST_LOG2_W %d\n#define GWB_DST_LOG2_H %d\n", io->dst_kind,
            pass->dst_components, io->dst_log2_w, io->dst_log2_h);
    fprintf(t.file, "#define GWB_DST_WORD %d\n#define GWB_DST_GROUP %d\n#define GWB_DST_BLOCK_W %d\n#define GWB_DST_BLOCK_H %d\n#include \"pipe.h\"\n",
            io->word, io->group, io->block_w, io->block_h);
    fprintf(t.file, "GWB_PIPE_SOURCE(s0)\n");
    for (int i = 0; i < pass->links; i++) {
        const gwb_link *l = &pass->link[i];
        switch (l->kind) {
        case GWB_LINK_VALUE: fprintf(t.file, "GWB_PIPE_VALUE(s%d, s%d, %d, gwb_stage_%s)\n", i + 1, i, l->k, values[l->value]); break;
        case GWB_LINK_MOVE: fprintf(t.file, "GWB_PIPE_MOVE(s%d, s%d, %d)\n", i + 1, i, l->m); break;
        case GWB_LINK_NEAREST: fprintf(t.file, "GWB_PIPE_NEAREST(s%d, s%d, %d)\n", i + 1, i, l->m); break;
        case GWB_LINK_BILINEAR: fprintf(t.file, "GWB_PIPE_BILINEAR(s%d, s%d, %d)\n", i + 1, i, l->m); break;
        case GWB_LINK_CUBIC: fprintf(t.file, "GWB_PIPE_CUBIC(s%d, s%d, %d, %d)\n", i + 1, i, l->k, l->m); break;
        case GWB_LINK_TABLE_X: fprintf(t.file, "GWB_PIPE_TABLE(s%d, s%d, %d, %d, 0)\n", i + 1, i, l->k, l->m); break;
        case GWB_LINK_TABLE_Y: fprintf(t.file, "GWB_PIPE_TABLE(s%d, s%d, %d, %d, 1)\n", i + 1, i, l->k, l->m); break;
        case GWB_LINK_PAD: fprintf(t.file, "GWB_PIPE_PAD(s%d, s%d, %d, %d)\n", i + 1, i, l->k, l->m); break;
        case GWB_LINK_WARP: fprintf(t.file, "GWB_PIPE_WARP(s%d, s%d, %d, %d, gwb_at_warp)\n", i + 1, i, l->k, l->m); break;
        case GWB_LINK_REMAP: fprintf(t.file, "GWB_PIPE_WARP(s%d, s%d, %d, %d, gwb_at_remap)\n", i + 1, i, l->k, l->m); break;
        }
    }
    fprintf(t.file, "GWB_PIPE_ITEM(s%d)\n%s\n", pass->links, batch ? "GWB_PIPE_BATCH_ENTRY" : "GWB_PIPE_ENTRY");
    if (fclose(t.file) != 0) {
        free(t.data);
        return NULL;
    }
    return t.data;
}
