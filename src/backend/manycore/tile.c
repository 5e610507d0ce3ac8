#include "backend/manycore/tile_isa.h"

void braid_manycore_multiply(const braid_manycore_tile *tile) {
  BRAID_ISA_CALL(braid_manycore_multiply, tile);
}
