// SPDX-License-Identifier: MIT
// gwb.h needs nothing before it and may be included twice, in C and in C++.
#include "gwb.h"
#include "gwb.h"

int main(void)
{
    gwb_view view;
    gwb_mat mat;
    view.step = 0;
    mat.tag = GWB_MAT_TAG;
    return mat.tag && view.step == 0 && GWB_OK == 0 && GWB_BAD_ARGUMENT == -1 ? 0 : 1;
}
