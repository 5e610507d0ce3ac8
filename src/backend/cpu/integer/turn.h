/* Bytes brought into the order that products take: rows of one channel over many places, and quads of places. */
#ifndef BRAID_BACKEND_CPU_INTEGER_TURN_H
#define BRAID_BACKEND_CPU_INTEGER_TURN_H

#include <stdint.h>

/* to[c * to_step + r] = from[r * from_step + c] + 128, as unsigned bytes. */
void braid_integer_turn(const int8_t *from, int64_t from_step, int64_t rows, int64_t columns, uint8_t *to,
                        int64_t to_step);
/* A quad of a panel: to[4 * c + i] = places[i][c] for c below BRAID_DOT_UNIT, of which `columns` are there. */
void braid_integer_quad(const int8_t *const places[4], int64_t columns, int8_t *to);
/* The same for several units of columns, whose quads are `unit` bytes apart. */
void braid_integer_quads(const int8_t *const places[4], int64_t columns, int8_t *to, int64_t unit);

#endif
