#include "api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

braid_ort_api braid_ort;

const char *braid_ort_connect(const OrtApiBase *base, bool *too_old) {
  const braid_ort_base *entry = (const braid_ort_base *)base;
  const char *text = entry->GetVersionString();
  long minor = strncmp(text, "1.", 2) == 0 ? strtol(text + 2, NULL, 10) : BRAID_ORT_NEWEST;
  *too_old = minor < BRAID_ORT_OLDEST;
  if (*too_old) return text;
  uint32_t version = minor < BRAID_ORT_NEWEST ? (uint32_t)minor : BRAID_ORT_NEWEST;
  /* Asking for a version that the runtime does not have makes it print to standard error. */
  const unsigned char *table = entry->GetApi(version);
  if (!table) {
    *too_old = true;
    return text;
  }
  braid_ort_api api = {.version = version};
#define CONNECT(slot, since, result, name, arguments)                                                                  \
  if (version >= (since)) memcpy(&api.name, table + (slot) * sizeof(void *), sizeof(void *));
  BRAID_ORT_API_MAP(CONNECT)
  table = api.GetEpApi();
  BRAID_ORT_EP_API_MAP(CONNECT)
#undef CONNECT
  braid_ort = api;
  return text;
}

/* Bytes of the UTF-8 character that starts here; 0: none does. */
static int character_bytes(const unsigned char *at) {
  static const uint32_t kLeast[] = {0, 0x80, 0x800, 0x10000};
  int more = *at >= 0xf0 ? 3 : *at >= 0xe0 ? 2 : *at >= 0xc0 ? 1 : 0;
  if (more == 0) return *at < 0x80;
  uint32_t code = *at & (0x3fu >> more);
  for (int i = 1; i <= more; i++) {
    if ((at[i] & 0xc0) != 0x80) return 0;
    code = code << 6 | (at[i] & 0x3fu);
  }
  bool surrogate = code >= 0xd800 && code < 0xe000;
  return *at < 0xf8 && code >= kLeast[more] && code <= 0x10ffff && !surrogate ? more + 1 : 0;
}

/* Names are cut to length, perhaps within a character, and paths may hold any bytes; Python shows nothing of a message
 * that is not UTF-8. */
static void text_mend(char *text) {
  for (char *at = text; *at;) {
    int bytes = character_bytes((const unsigned char *)at);
    if (bytes == 0) *at = '?';
    at += bytes ? bytes : 1;
  }
}

OrtStatus *braid_ort_status(braid_status status) {
  if (status == BRAID_OK) return NULL;
  char text[2048];
  const char *detail = braid_error_detail();
  snprintf(text, sizeof text, "Braid: %s%s%s", braid_status_text(status), detail[0] ? ": " : "", detail);
  text_mend(text);
  braid_ort_code code = BRAID_ORT_FAIL;
  if (status == BRAID_INVALID_ARGUMENT || status == BRAID_OUT_OF_RANGE) code = BRAID_ORT_INVALID_ARGUMENT;
  if (status == BRAID_INVALID_GRAPH || status == BRAID_INVALID_FILE) code = BRAID_ORT_INVALID_GRAPH;
  if (status == BRAID_UNSUPPORTED) code = BRAID_ORT_NOT_IMPLEMENTED;
  if (status == BRAID_NOT_FOUND) code = BRAID_ORT_NOT_FOUND;
  if (status == BRAID_DEVICE_LOST || status == BRAID_TIMEOUT) code = BRAID_ORT_RUNTIME_EXCEPTION;
  return braid_ort.CreateStatus(code, text);
}

braid_status braid_ort_check(OrtStatus *status) {
  if (!status) return BRAID_OK;
  braid_status failed = braid_fail(BRAID_INTERNAL, "ONNX Runtime: %s", braid_ort.GetErrorMessage(status));
  braid_ort.ReleaseStatus(status);
  return failed;
}

/* By the runtime's number. */
static const struct {
  const char *name;
  int onnx;
  bool carried, packed;
} kTypes[] = {
    {"no type", 0, false, false},        {"float", 1, true, false},
    {"uint8", 2, true, false},           {"int8", 3, true, false},
    {"uint16", 4, true, false},          {"int16", 5, true, false},
    {"int32", 6, true, false},           {"int64", 7, true, false},
    {"string", 8, false, false},         {"bool", 9, true, false},
    {"float16", 10, true, false},        {"double", 11, true, false},
    {"uint32", 12, true, false},         {"uint64", 13, true, false},
    {"complex64", 14, false, false},     {"complex128", 15, false, false},
    {"bfloat16", 16, true, false},       {"float8e4m3fn", 17, true, false},
    {"float8e4m3fnuz", 18, true, false}, {"float8e5m2", 19, true, false},
    {"float8e5m2fnuz", 20, true, false}, {"uint4", 21, false, true},
    {"int4", 22, false, true},           {"float4e2m1", 23, false, true},
    {"uint2", 25, false, true},          {"int2", 26, false, true},
    {"float8e8m0", 24, true, false},
};

static size_t type_index(int type) {
  return type > 0 && (size_t)type < sizeof kTypes / sizeof *kTypes ? (size_t)type : 0;
}

int braid_ort_onnx_type(int type) {
  return kTypes[type_index(type)].onnx;
}

const char *braid_ort_type_name(int type) {
  return kTypes[type_index(type)].name;
}

braid_dtype braid_ort_dtype(int type) {
  static const braid_dtype kListed[] = {[1] = BRAID_F32, [6] = BRAID_I32, [7] = BRAID_I64};
  return type > 0 && (size_t)type < sizeof kListed / sizeof *kListed ? kListed[type] : BRAID_NONE;
}

bool braid_ort_type_packed(int type) {
  return kTypes[type_index(type)].packed;
}

bool braid_ort_type_carried(int type) {
  return kTypes[type_index(type)].carried;
}
