#include "backend/cpu/tables.h"

extern const braid_cpu_table braid_cpu_onednn_conv, braid_cpu_onednn_deconv, braid_cpu_onednn_matmul;

const braid_cpu_table *const braid_cpu_onednn_tables[] = {&braid_cpu_onednn_conv, &braid_cpu_onednn_deconv,
                                                          &braid_cpu_onednn_matmul, NULL};
