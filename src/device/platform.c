#include "device/platform.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "base/try.h"
#include "device/yaml.h"

enum { kDevices = 64, kNameBytes = 24, kOptionBytes = 256 };

static const cyaml_schema_value_t kOptions = {
    CYAML_VALUE_STRING(CYAML_FLAG_POINTER, char, 0, kOptionBytes - 1),
};

static const cyaml_schema_field_t kDeviceFields[] = {
    CYAML_FIELD_STRING_PTR("name", CYAML_FLAG_POINTER, braid_platform_device, name, 1, kNameBytes - 1),
    CYAML_FIELD_STRING_PTR("device", CYAML_FLAG_POINTER, braid_platform_device, device, 1, kNameBytes - 1),
    CYAML_FIELD_STRING_PTR("options", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, braid_platform_device, options, 0,
                           kOptionBytes - 1),
    CYAML_FIELD_INT("parts", CYAML_FLAG_OPTIONAL, braid_platform_device, parts),
    CYAML_FIELD_SEQUENCE("part_options", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, braid_platform_device, part_options,
                         &kOptions, 1, BRAID_PLATFORM_PARTS),
    CYAML_FIELD_END,
};

static const cyaml_schema_value_t kDevice = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, braid_platform_device, kDeviceFields),
};

static const cyaml_schema_field_t kFields[] = {
    CYAML_FIELD_SEQUENCE("devices", CYAML_FLAG_POINTER, braid_platform, devices, &kDevice, 1, kDevices),
    CYAML_FIELD_END,
};

static const cyaml_schema_value_t kPlatform = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, braid_platform, kFields),
};

/* --- reading -------------------------------------------------------------------------------------------------------
 */
static bool is_name(const char *text) {
  const char *letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  return strspn(text, letters) > 0 &&
         text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")] == '\0';
}

/* What the schema cannot say. `key` of device `index` is what is wrong. */
static braid_status platform_check(const braid_platform *platform, unsigned *index, const char **key) {
  for (unsigned i = 0; i < platform->devices_count; i++) {
    const braid_platform_device *device = &platform->devices[i];
    *index = i;
    *key = "name";
    if (!is_name(device->name))
      return braid_fail(BRAID_INVALID_FILE, "device name \"%s\": expected a letter, then letters, digits, '_' and '-'",
                        device->name);
    for (unsigned k = 0; k < i; k++)
      if (strcmp(platform->devices[k].name, device->name) == 0)
        return braid_fail(BRAID_INVALID_FILE, "there are two devices named %s", device->name);
    *key = "parts";
    if (device->parts < 0 || device->parts > BRAID_PLATFORM_PARTS)
      return braid_fail(BRAID_INVALID_FILE, "device %s: %lld parts, expected 0 (whole) to %d", device->name,
                        (long long)device->parts, BRAID_PLATFORM_PARTS);
    *key = "part_options";
    if (device->part_options_count > (uint64_t)device->parts)
      return braid_fail(BRAID_INVALID_FILE, "device %s: part_options for %u parts, but it has %lld", device->name,
                        device->part_options_count, (long long)device->parts);
  }
  return BRAID_OK;
}

braid_status braid_platform_load(const braid_allocator *allocator, const char *path, braid_platform **out) {
  braid_file_view view;
  *out = NULL;
  BRAID_TRY(braid_file_open(allocator, path, BRAID_YAML_BYTES, &view));
  braid_status status = braid_platform_parse(path, view.data, view.bytes, out);
  braid_file_close(&view);
  return status;
}

braid_status braid_platform_parse(const char *name, const void *text, size_t bytes, braid_platform **out) {
  void *document;
  unsigned index;
  const char *key;
  *out = NULL;
  BRAID_TRY(braid_yaml_parse(name, text, bytes, &kPlatform, &document));
  braid_status status = platform_check(document, &index, &key);
  if (status == BRAID_OK) {
    *out = document;
    return BRAID_OK;
  }
  char path[64];
  snprintf(path, sizeof path, "devices/%u/%s", index, key);
  status = braid_fail_prefix(status, "%.200s, line %zu", name, braid_yaml_line(text, bytes, path));
  braid_platform_free(document);
  return status;
}

void braid_platform_free(braid_platform *platform) {
  braid_yaml_free(&kPlatform, platform);
}

/* --- asking --------------------------------------------------------------------------------------------------------
 */
const braid_platform_device *braid_platform_find(const braid_platform *platform, const char *name, int64_t *part) {
  size_t length = strcspn(name, ".");
  *part = -1;
  for (unsigned i = 0; platform && i < platform->devices_count; i++) {
    const braid_platform_device *device = &platform->devices[i];
    if (strlen(device->name) != length || strncmp(device->name, name, length) != 0) continue;
    if (!name[length]) return device;
    if (!braid_parse_i64(name + length + 1, part) || *part < 0 || *part >= device->parts) return NULL;
    return device;
  }
  return NULL;
}

bool braid_platform_options(const braid_platform_device *device, int64_t part, const char *more, char *out,
                            size_t bytes) {
  char share[48] = "";
  if (part >= 0) snprintf(share, sizeof share, "part=%lld,parts=%lld", (long long)part, (long long)device->parts);
  const char *own = part >= 0 && part < device->part_options_count ? device->part_options[part] : "";
  const char *all[] = {share, device->options ? device->options : "", own, more};
  size_t used = 0;
  out[0] = '\0';
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    if (!all[i][0]) continue;
    int wrote = snprintf(out + used, bytes - used, "%s%s", used ? "," : "", all[i]);
    if (wrote < 0 || (size_t)wrote >= bytes - used) return false;
    used += (size_t)wrote;
  }
  return true;
}
