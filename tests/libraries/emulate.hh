// A card on the host: stands before kernel text that NVRTC would get, so that a C++ compiler makes a program of it. A
// block's threads are fibers that change places where they wait for each other; blocks run one after another. What is
// written in PTX is here in C++, by NVIDIA's "Parallel Thread Execution ISA", as far as kernels/cuda use it: copies of
// cp.async arrive when they are awaited, matrices have the registers and the places in shared memory that the ISA says.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <csetjmp>
#include <ucontext.h>
#include <utility>

#define EMULATED 1
using std::isfinite;
using std::isinf;
using std::isnan;
#define __global__
#define __device__
#define __shared__ static
#define __launch_bounds__(...)

struct emulated_place {
  unsigned x, y, z;
};
struct emulated_copy {
  void *to;
  const void *from;
  int bytes; // 0: zeros
  int group;
};
enum { kStack = 1 << 17, kShared = 232448, kWarp = 32, kCopies = 256, kMostRounds = 1 << 24 };

struct emulated_fiber {
  ucontext_t context; // where it begins; it goes on by a jump, which asks the system for nothing
  jmp_buf place;
  emulated_place thread;
  bool begun, done;
  emulated_copy copies[kCopies]; // that were not awaited
  int count, groups;
};
struct emulated_meeting {
  int here;
  unsigned turn;
};
static emulated_fiber *emulated_fibers, *emulated_now;
static jmp_buf emulated_main;
static int emulated_count, emulated_left;
static emulated_meeting emulated_block, emulated_warps[32];
static unsigned emulated_words[32][kWarp][8];
static emulated_place blockIdx, gridDim, blockDim;
alignas(1024) static unsigned char emulated_dynamic[kShared];
#define threadIdx (emulated_now->thread)
#define EMULATED_LANE (threadIdx.x % kWarp)
#define EMULATED_WARP (threadIdx.x / kWarp)

static void emulated_yield() {
  if (!_setjmp(emulated_now->place)) _longjmp(emulated_main, 1);
}
static void emulated_resume(emulated_fiber *fiber) {
  emulated_now = fiber;
  if (_setjmp(emulated_main)) return;
  if (fiber->begun) _longjmp(fiber->place, 1);
  fiber->begun = true;
  setcontext(&fiber->context);
}
static void emulated_meet(emulated_meeting *meeting, int count) {
  const unsigned turn = meeting->turn;
  if (++meeting->here == count)
    meeting->here = 0, meeting->turn++;
  else
    while (meeting->turn == turn) emulated_yield();
}
static void __syncthreads() {
  const unsigned turn = emulated_block.turn;
  emulated_block.here++;
  while (emulated_block.turn == turn) {
    if (emulated_block.here >= emulated_left) { // those that have ended do not count
      emulated_block.here = 0, emulated_block.turn++;
      break;
    }
    emulated_yield();
  }
}
static void __syncwarp() {
  emulated_meet(&emulated_warps[EMULATED_WARP], kWarp);
}
// What each lane of the warp gives, until the next exchange.
static unsigned (*emulated_exchange(const unsigned *given, int count))[8] {
  std::memcpy(emulated_words[EMULATED_WARP][EMULATED_LANE], given, sizeof *given * count);
  __syncwarp();
  return emulated_words[EMULATED_WARP];
}
static unsigned __shfl_xor_sync(unsigned, unsigned value, int mask) {
  const unsigned got = emulated_exchange(&value, 1)[EMULATED_LANE ^ mask][0];
  __syncwarp();
  return got;
}

static unsigned __ballot_sync(unsigned, bool is) {
  const unsigned given = is;
  unsigned(*all)[8] = emulated_exchange(&given, 1), mask = 0;
  for (int i = 0; i < kWarp; i++) mask |= all[i][0] << i;
  __syncwarp();
  return mask;
}

// --- functions of the language ---------------------------------------------------------------------------------------
template <class A, class B>
static auto min(A a, B b) -> decltype(a + b) {
  return a < b ? a : b;
}
template <class A, class B>
static auto max(A a, B b) -> decltype(a + b) {
  return a > b ? a : b;
}
static int __clz(int x) {
  return x ? __builtin_clz((unsigned)x) : 32;
}
static int __popc(unsigned x) {
  return __builtin_popcount(x);
}
static int __clzll(long long x) {
  return x ? __builtin_clzll((unsigned long long)x) : 64;
}
static unsigned __umulhi(unsigned a, unsigned b) {
  return (unsigned)((unsigned long long)a * b >> 32);
}
static unsigned __float_as_uint(float x) {
  unsigned bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}
static unsigned __byte_perm(unsigned a, unsigned b, unsigned which) {
  const unsigned long long both = (unsigned long long)b << 32 | a;
  unsigned out = 0;
  for (int i = 0; i < 4; i++) out |= (unsigned)(both >> (which >> 4 * i & 7) * 8 & 255) << 8 * i;
  return out;
}
static float __uint_as_float(unsigned bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}
static float __int_as_float(int x) {
  float out;
  std::memcpy(&out, &x, sizeof out);
  return out;
}
static float braid_half_to_float(unsigned short x) {
  const int exponent = x >> 10 & 31, fraction = x & 1023;
  const float size = exponent == 31 ? fraction ? NAN : INFINITY
                     : exponent     ? std::ldexp(1024.0f + fraction, exponent - 25)
                                    : std::ldexp((float)fraction, -24);
  return x >> 15 ? -size : size;
}
// To nearest, ties to even, which nearbyint does.
static unsigned short braid_float_to_half(float x) {
  const unsigned sign = __float_as_uint(x) >> 31 << 15;
  if (x != x) return 0x7fff;
  if (std::fabs(x) >= 65520) return (unsigned short)(sign | 0x7c00);
  const int exponent = std::fabs(x) < 0x1p-14f ? -14 : std::ilogb(x);
  const unsigned units = (unsigned)std::nearbyint(std::ldexp(std::fabs(x), 10 - exponent)); // 1024 + fraction
  return (unsigned short)(sign | (units + ((exponent + 14) << 10)));
}
static unsigned short emulated_bfloat(float x) {
  const unsigned bits = __float_as_uint(x);
  return x != x ? 0x7fff : (unsigned short)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
template <class T>
static T atomicAdd(T *at, T x) {
  const T before = *at;
  *at += x;
  return before;
}
static unsigned atomicOr(unsigned *at, unsigned x) {
  const unsigned before = *at;
  *at |= x;
  return before;
}

// --- PTX -------------------------------------------------------------------------------------------------------------
static void emulated_require(bool holds, const char *what) {
  if (holds) return;
  std::fprintf(stderr, "emulated kernel: %s\n", what);
  std::abort();
}
#define DYNAMIC_SHARED(type, name) type *const name = (type *)emulated_dynamic
static unsigned tensor_shared(const void *at) { // only what lies in dynamic shared memory has an address
  return (unsigned)((const unsigned char *)at - emulated_dynamic);
}
struct emulated_barrier {
  unsigned phase : 1, count : 15, pending : 16;
  int bytes;
};
static void emulated_advance(emulated_barrier *b) {
  if (!b->pending && !b->bytes) b->phase ^= 1, b->pending = b->count;
}
static void tensor_barrier_init(unsigned long long *barrier, int count) {
  *(emulated_barrier *)barrier = {0, (unsigned)count, (unsigned)count, 0};
}
static void tensor_barrier_fence() {}
static void tensor_barrier_arrive(unsigned long long *barrier) {
  emulated_barrier *b = (emulated_barrier *)barrier;
  emulated_require(b->pending > 0, "more arrivals at a barrier than it waits for");
  b->pending--;
  emulated_advance(b);
}
static void tensor_barrier_expect(unsigned long long *barrier, int bytes) {
  ((emulated_barrier *)barrier)->bytes += bytes;
  tensor_barrier_arrive(barrier);
}
static void tensor_barrier_wait(unsigned long long *barrier, int parity) {
  while (((emulated_barrier *)barrier)->phase == (unsigned)parity) emulated_yield();
}
static void tensor_copy(void *to, const void *from, int bytes, unsigned long long *barrier) {
  emulated_require(((uintptr_t)to | (uintptr_t)from | (unsigned)bytes) % 16 == 0, "a copy of other than whole words");
  emulated_require(tensor_shared(to) + (unsigned)bytes <= kShared, "a copy beyond shared memory");
  std::memcpy(to, from, bytes);
  ((emulated_barrier *)barrier)->bytes -= bytes;
  emulated_advance((emulated_barrier *)barrier);
}
// Clusters are not emulated: kernels are asked for without.
static int tensor_rank() {
  return 0;
}
static void tensor_meet() {}
static void tensor_barrier_arrive_at(unsigned long long *barrier, int) {
  tensor_barrier_arrive(barrier);
}
static void tensor_copy(void *to, const void *from, bool there) {
  emulated_require(emulated_now->count < kCopies, "more copies at a time than the emulation has places for");
  emulated_now->copies[emulated_now->count++] = {to, from, there ? 16 : 0, emulated_now->groups};
}
static void tensor_copy_close() {
  emulated_now->groups++;
}
template <int left>
static void tensor_copy_await() {
  emulated_copy *copies = emulated_now->copies;
  int n = 0;
  for (; n < emulated_now->count && copies[n].group < emulated_now->groups - left; n++) {
    std::memset(copies[n].to, 0, 16);
    std::memcpy(copies[n].to, copies[n].from, copies[n].bytes);
  }
  emulated_now->count -= n;
  std::memmove(copies, copies + n, emulated_now->count * sizeof *copies);
}
static void tensor_load(unsigned *out, const void *line) {
  const unsigned long long address = (unsigned long long)line;
  const unsigned given[2] = {(unsigned)address, (unsigned)(address >> 32)};
  unsigned(*all)[8] = emulated_exchange(given, 2);
  for (int i = 0; i < 4; i++) {
    const unsigned *of = all[8 * i + EMULATED_LANE / 4];
    std::memcpy(&out[i], (const char *)((unsigned long long)of[1] << 32 | of[0]) + EMULATED_LANE % 4 * 4, 4);
  }
  __syncwarp();
}
// The same, turned: the thread of column c gets lines 2 * (lane % 4) and the next one of it.
static void tensor_load_turned(unsigned *out, const void *line) {
  const unsigned long long address = (unsigned long long)line;
  const unsigned given[2] = {(unsigned)address, (unsigned)(address >> 32)};
  unsigned(*all)[8] = emulated_exchange(given, 2);
  for (int i = 0; i < 4; i++) {
    unsigned short pair[2];
    for (int j = 0; j < 2; j++) {
      const unsigned *of = all[8 * i + EMULATED_LANE % 4 * 2 + j];
      std::memcpy(&pair[j], (const char *)((unsigned long long)of[1] << 32 | of[0]) + EMULATED_LANE / 4 * 2, 2);
    }
    out[i] = pair[0] | (unsigned)pair[1] << 16;
  }
  __syncwarp();
}
static int emulated_dot(unsigned a, unsigned b) {
  int sum = 0;
  for (int i = 0; i < 4; i++) sum += (signed char)(a >> 8 * i) * (signed char)(b >> 8 * i);
  return sum;
}
static void tensor_multiply(int *s, const unsigned *left, const unsigned *right) {
  const unsigned given[6] = {left[0], left[1], left[2], left[3], right[0], right[1]};
  unsigned(*all)[8] = emulated_exchange(given, 6);
  for (int i = 0; i < 4; i++) {
    const int row = EMULATED_LANE / 4, column = EMULATED_LANE % 4 * 2 + i % 2;
    for (int k = 0; k < 8; k++)
      s[i] += emulated_dot(all[row * 4 + k % 4][i / 2 + k / 4 * 2], all[column * 4 + k % 4][4 + k / 4]);
  }
  __syncwarp();
}
// 16 of k: elements 2 * (lane % 4) and the next one of eight are a register's halves, the second eight the next
// registers (mma.m16n8k16).
template <class Value>
static void emulated_multiply_halves(float *s, const unsigned *left, const unsigned *right, Value value) {
  const unsigned given[6] = {left[0], left[1], left[2], left[3], right[0], right[1]};
  unsigned(*all)[8] = emulated_exchange(given, 6);
  for (int i = 0; i < 4; i++) {
    const int row = EMULATED_LANE / 4, column = EMULATED_LANE % 4 * 2 + i % 2;
    double sum = s[i];
    for (int k = 0; k < 16; k++) {
      const int lane = k % 8 / 2, shift = k % 2 * 16;
      const unsigned a = all[row * 4 + lane][i / 2 + k / 8 * 2], b = all[column * 4 + lane][4 + k / 8];
      sum += (double)value((unsigned short)(a >> shift)) * value((unsigned short)(b >> shift));
    }
    s[i] = (float)sum;
  }
  __syncwarp();
}
static void tensor_multiply_fp16(float *s, const unsigned *left, const unsigned *right) {
  emulated_multiply_halves(s, left, right, braid_half_to_float);
}
static void tensor_multiply_bf16(float *s, const unsigned *left, const unsigned *right) {
  emulated_multiply_halves(s, left, right, [](unsigned short x) { return __uint_as_float((unsigned)x << 16); });
}
static unsigned tensor_pair_fp16(float first, float second) {
  return braid_float_to_half(first) | (unsigned)braid_float_to_half(second) << 16;
}
static unsigned tensor_pair_bf16(float first, float second) {
  return emulated_bfloat(first) | (unsigned)emulated_bfloat(second) << 16;
}
static unsigned tensor_pair_relu_fp16(float first, float second) {
  return tensor_pair_fp16(first < 0 ? 0 : first, second < 0 ? 0 : second);
}
static unsigned tensor_pair_relu_bf16(float first, float second) {
  return tensor_pair_bf16(first < 0 ? 0 : first, second < 0 ? 0 : second);
}
static void tensor_store(void *to, const unsigned *from) {
  emulated_require((uintptr_t)to % 16 == 0, "a store of other than whole words");
  std::memcpy(to, from, 16);
}
static void tensor_prefetch(const void *from, int bytes) {
  emulated_require(((uintptr_t)from | (unsigned)bytes) % 16 == 0 && bytes > 0, "a prefetch of other than whole words");
}
static void tensor_open() {}
static void tensor_close() {}
template <int left>
static void tensor_await() {}
// Byte k of a line of a matrix that a descriptor without swizzling says.
static const signed char *emulated_line(unsigned long long descriptor, int line) {
  return (const signed char *)emulated_dynamic + ((descriptor & 0x3fff) << 4) +
         line / 8 * ((descriptor >> 32 & 0x3fff) << 4) + line % 8 * 16;
}
template <int columns>
static void tensor_multiply_group(int *s, unsigned long long left, unsigned long long right) {
  const long left_step = (left >> 16 & 0x3fff) << 4, right_step = (right >> 16 & 0x3fff) << 4;
  for (int i = 0; i < columns / 2; i++) {
    const signed char *a = emulated_line(left, EMULATED_WARP % 4 * 16 + EMULATED_LANE / 4 + i / 2 % 2 * 8);
    const signed char *b = emulated_line(right, i / 4 * 8 + EMULATED_LANE % 4 * 2 + i % 2);
    for (int k = 0; k < 32; k++) s[i] += a[k / 16 * left_step + k % 16] * b[k / 16 * right_step + k % 16];
  }
}

// --- running ---------------------------------------------------------------------------------------------------------
static void (*emulated_entry)(void **);
static void **emulated_arguments;

static void emulated_start() {
  emulated_entry(emulated_arguments);
  emulated_now->done = true;
  emulated_left--;
  _longjmp(emulated_main, 1);
}

static void emulated_run_block(unsigned char *stacks) {
  std::memset(emulated_dynamic, 0x5a, sizeof emulated_dynamic);
  emulated_left = emulated_count;
  emulated_block = {0, 0};
  for (emulated_meeting &warp : emulated_warps) warp = {0, 0};
  for (int i = 0; i < emulated_count; i++) {
    emulated_fiber *fiber = &emulated_fibers[i];
    fiber->begun = fiber->done = false, fiber->count = fiber->groups = 0, fiber->thread = {(unsigned)i, 0, 0};
    getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp = stacks + (size_t)i * kStack;
    fiber->context.uc_stack.ss_size = kStack;
    fiber->context.uc_link = nullptr;
    makecontext(&fiber->context, emulated_start, 0);
  }
  for (long rounds = 0; emulated_left; rounds++) {
    emulated_require(rounds < kMostRounds, "threads wait for each other for ever");
    for (int i = 0; i < emulated_count; i++)
      if (!emulated_fibers[i].done) emulated_resume(&emulated_fibers[i]);
  }
}

extern "C" void emulated_run(void (*entry)(void **), const unsigned *grid, unsigned block, void **arguments) {
  emulated_entry = entry, emulated_arguments = arguments, emulated_count = (int)block;
  gridDim = {grid[0], grid[1], grid[2]}, blockDim = {block, 1, 1};
  emulated_fibers = new emulated_fiber[block];
  unsigned char *stacks = (unsigned char *)std::malloc((size_t)block * kStack);
  for (unsigned z = 0; z < grid[2]; z++)
    for (unsigned y = 0; y < grid[1]; y++)
      for (unsigned x = 0; x < grid[0]; x++) {
        blockIdx = {x, y, z};
        emulated_run_block(stacks);
      }
  std::free(stacks);
  delete[] emulated_fibers;
}

template <size_t... I, class... A>
static void emulated_call_at(void (*kernel)(A...), void **arguments, std::index_sequence<I...>) {
  kernel(*(std::remove_cv_t<A> *)arguments[I]...);
}
template <class... A>
static void emulated_call(void (*kernel)(A...), void **arguments) {
  emulated_call_at(kernel, arguments, std::index_sequence_for<A...>());
}
template <class... A>
static int emulated_count_of(void (*)(A...)) {
  return sizeof...(A);
}
