/* A file of its own: the tile takes local memory by the square of GROUP, which other kernels choose larger. */
#include "common.clh"

/* `planes` matrices of rows x columns, transposed by tiles of GROUP columns and as many rows, so that neighbouring
 * work-items read neighbouring elements and write them. */
KERNEL transpose(IN(T) in, OUT(T) out, index_t rows, index_t columns, index_t across) {
  SHARED T tile[GROUP][GROUP + 1];
  const int l = get_local_id(0);
  const index_t tile_row = get_group_id(0) / across * GROUP, tile_column = get_group_id(0) % across * GROUP;
  IN(T) from = in + get_group_id(1) * rows * columns;
  OUT(T) to = out + get_group_id(1) * rows * columns;
  for (int k = 0; k < GROUP; k++)
    if (tile_row + k < rows && tile_column + l < columns)
      tile[k][l] = from[(tile_row + k) * columns + tile_column + l];
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int k = 0; k < GROUP; k++)
    if (tile_column + k < columns && tile_row + l < rows) to[(tile_column + k) * rows + tile_row + l] = tile[l][k];
}
