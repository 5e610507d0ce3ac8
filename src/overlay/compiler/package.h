/* A package: a network compiled for one design of a core, for any number of cores. The static compiler makes it once
 * (static.c), the dynamic compiler makes the programs of some cores of it (dynamic.c), whenever a share changes. After
 * section 5 of "A Unified FPGA Virtualization Framework for General-Purpose Deep Neural Networks in the Cloud" (Zeng et
 * al. 2021).
 *
 * Each layer has tilings: the whole result as one tile, and by width, by channels and by both into more. The tiles of a
 * layer don't depend on each other, so that any core may compute any of them in any order. A tile has instructions
 * (without SYSTEM; tokens are in balance, memories of the core may hold anything when it begins) and a latency. Those
 * of the nth tile of a tiling say core n, to which the dynamic compiler gives it where it can: then it copies bytes. */
#ifndef BRAID_OVERLAY_COMPILER_PACKAGE_H
#define BRAID_OVERLAY_COMPILER_PACKAGE_H

#include <stddef.h>

#include "base/sha256.h"
#include "base/text.h"
#include "overlay/design.h"
#include "overlay/network.h"

/* Base registers of a task: what each address in DDR begins at. A program may only read the first and third. */
enum {
  BRAID_SEGMENT_CONSTANTS, /* weights and biases: the package's */
  BRAID_SEGMENT_FEATURES,  /* maps between layers */
  BRAID_SEGMENT_INPUTS,
  BRAID_SEGMENT_OUTPUTS,
  BRAID_PACKAGE_SEGMENTS
};

typedef enum braid_tiling_kind {
  BRAID_TILING_WHOLE, /* one tile: the code of a single core */
  BRAID_TILING_WIDTH,
  BRAID_TILING_CHANNELS,
  BRAID_TILING_BOTH, /* a grid of both: not in the paper */
  BRAID_TILING_KINDS
} braid_tiling_kind;
const char *braid_tiling_name(braid_tiling_kind kind);

/* A map in DDR: planes of 16 channels of rows of columns, 16 bytes each (docs/isa.md), without gaps. */
typedef struct braid_package_map {
  const char *name;
  int32_t channels, rows, columns, exponent; /* a number q stands for q * 2^exponent */
  int32_t segment;
  int64_t line; /* 16 bytes each, from the segment's begin */
} braid_package_map;

typedef struct braid_package_tile {
  uint64_t at;     /* first byte in `instructions` */
  uint32_t bytes;  /* multiple of BRAID_ISA_WORD */
  uint32_t count;  /* of instructions */
  uint64_t first;  /* of them, in `words` */
  uint64_t cycles; /* estimated latency (equations 5 and 6) */
  uint64_t stop;   /* cycles until a core that is to be given away stands, at most: stops.h */
} braid_package_tile;

typedef struct braid_package_tiling {
  braid_tiling_kind kind;
  uint32_t first, count;           /* tiles */
  uint64_t sum, longest, shortest; /* of their cycles */
} braid_package_tiling;

typedef struct braid_package_layer {
  const char *name;
  braid_overlay_kind kind;
  uint32_t first, count; /* tilings; the first is the whole */
  int64_t macs;          /* multiply-accumulates */
} braid_package_layer;

/* The SYSTEM instructions of a layer: behind a tile that another one of the same core follows (wait for all modules,
 * then a place to stop), and behind the last one of a core. */
typedef struct braid_package_marks {
  uint8_t tile[32], sync[16];
} braid_package_marks;

typedef struct braid_package_port {
  uint32_t map;
  bool real;         /* the network's value is float32, to be rounded to the map's scale on the host */
  int32_t low, high; /* what it is clipped to on its way in */
  const char *name;  /* of the model's value: before QuantizeLinear or behind DequantizeLinear if it is real */
} braid_package_port;

/* Bytes behind code that may be read, or written, with its last instruction. */
enum { BRAID_PACKAGE_SLACK = 64 };

struct braid_package {                /* braid/overlay.h has its typedef */
  uint8_t design[BRAID_SHA256_BYTES]; /* braid_design_fingerprint of what it is compiled for */
  const char *design_name;
  int32_t cores;     /* for which it has tilings; more may run it */
  int32_t clock_khz; /* of the design */
  int64_t bytes[BRAID_PACKAGE_SEGMENTS];
  const uint8_t *constants;    /* bytes[BRAID_SEGMENT_CONSTANTS] */
  const uint8_t *instructions; /* of all tiles, one behind the other; BRAID_PACKAGE_SLACK bytes follow */
  const uint8_t *words;        /* of each instruction, its length */
  size_t instruction_bytes;
  const braid_package_map *maps;
  const braid_package_port *inputs, *outputs; /* in the order of the network's */
  const braid_package_layer *layers;
  const braid_package_tiling *tilings;
  const braid_package_tile *tiles;
  const braid_package_marks *marks; /* of each layer */
  uint8_t end[16];                  /* SYSTEM at the end of a program */
  size_t map_count, input_count, output_count, layer_count, tiling_count, tile_count;
  /* NULL, or a recurrent network, whose programs are made of its tables (recurrent/rnn.h): it has no maps, layers,
   * tilings, tiles nor instructions. */
  struct braid_rnn *rnn;
  struct braid_arena *arena; /* holds all of it */
};
typedef struct braid_package braid_package;

/* The hash of what a core can do: packages run on designs of the same one. Neither the name, the number of cores nor
 * power is part of it. */
void braid_design_fingerprint(const braid_overlay_design *design, uint8_t out[BRAID_SHA256_BYTES]);

/* Compiles a network for a design: UNSUPPORTED names the first layer that the design can't run, and why. The package
 * does not need the network nor the design any more. */
BRAID_MUST_CHECK braid_status braid_package_compile(const braid_overlay_network *network,
                                                    const braid_overlay_design *design,
                                                    const braid_allocator *allocator, braid_package **out);
/* With these kinds of tilings alone: bits by braid_tiling_kind. The whole is always one. */
BRAID_MUST_CHECK braid_status braid_package_compile_by(const braid_overlay_network *network,
                                                       const braid_overlay_design *design, unsigned kinds,
                                                       const braid_allocator *allocator, braid_package **out);
void braid_package_destroy(braid_package *package); /* NULL is allowed */

/* Whether the design can run the layer: OK, or UNSUPPORTED with the reason as the error's detail, without the layer's
 * name. It costs what compiling the layer costs. */
BRAID_MUST_CHECK braid_status braid_package_can(const braid_overlay_network *network, size_t layer,
                                                const braid_overlay_design *design);

/* What a task of so many images takes: their inputs go to the card at once, their results come back at once, and they
 * are computed one after the other. */
double braid_package_task_seconds(const braid_package *package, const braid_overlay_design *design, int64_t images,
                                  double image_seconds);

/* --- files ---------------------------------------------------------------------------------------------------------
 */
/* Writes the file, or none. */
BRAID_MUST_CHECK braid_status braid_package_write(const braid_package *package, const char *path);
/* As a file holds it. */
BRAID_MUST_CHECK braid_status braid_package_save(const braid_package *package, braid_text *out);
/* Reads a file that nobody vouches for. INVALID_FILE names the place: another version, a wrong checksum, numbers that
 * contradict each other, an instruction that is none, leaves its segment, writes what may only be read, or waits for
 * ever. What is read runs on hardware that checks again; its results are as right as whoever made the file. */
BRAID_MUST_CHECK braid_status braid_package_load(const uint8_t *data, size_t bytes, const braid_allocator *allocator,
                                                 braid_package **out);
BRAID_MUST_CHECK braid_status braid_package_open(const char *path, const braid_allocator *allocator,
                                                 braid_package **out);
/* Appends all tiles as text. */
BRAID_MUST_CHECK braid_status braid_package_disassemble(const braid_package *package, braid_text *out);

#endif
