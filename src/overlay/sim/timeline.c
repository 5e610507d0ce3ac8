/* Timelines of simulations: a trace for Perfetto, and a page that one can zoom into (timeline.js). */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "overlay/sim/record.h"

enum { kBuckets = 700 }; /* of the line of bytes */

static braid_status write_text(braid_text *text, const char *path) {
  braid_status status =
      text->failed ? BRAID_NO_MEMORY : braid_file_write(text->allocator, path, text->data, text->length);
  braid_text_deinit(text);
  return status;
}

static const char *name_of(const braid_record_span *span) {
  return span->opcode ? braid_isa_form_of(span->opcode)->name : braid_record_why(span->why);
}

/* --- bytes over time -----------------------------------------------------------------------------------------------
 */
/* GB/s of DDR in each of kBuckets parts of the time, as if the bytes of an instruction moved evenly while it ran. */
static bool sum_bytes(const braid_overlay_record *r, double *out) {
  double cycles = (double)(r->cycles ? r->cycles : 1) / kBuckets;
  memset(out, 0, kBuckets * sizeof *out);
  for (size_t i = 0; i < r->count; i++) {
    const braid_record_span *s = &r->spans[i];
    if (!s->bytes) continue;
    double rate = (double)s->bytes / (double)(s->to - s->from), from = (double)s->from, to = (double)s->to;
    for (int b = (int)(from / cycles); b < kBuckets && b * cycles < to; b++) {
      double low = from > b * cycles ? from : b * cycles, high = to < (b + 1) * cycles ? to : (b + 1) * cycles;
      if (high > low) out[b] += rate * (high - low);
    }
  }
  for (int b = 0; b < kBuckets; b++) out[b] *= r->clock_mhz * 1e6 / cycles / 1e9;
  return r->count > 0;
}

/* --- trace ---------------------------------------------------------------------------------------------------------
 */
/* Processes: 1 is the card, 2 + core a core. */
static void name_tracks(braid_text *text, const braid_overlay_record *r) {
  braid_text_printf(text,
                    "{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{\"name\":\"card (modelled)\"}},\n"
                    "{\"ph\":\"M\",\"pid\":1,\"tid\":0,\"name\":\"thread_name\",\"args\":{\"name\":\"layers\"}}");
  for (int c = 0; c < r->cores; c++) {
    braid_text_printf(
        text, ",\n{\"ph\":\"M\",\"pid\":%d,\"name\":\"process_name\",\"args\":{\"name\":\"core %d (modelled)\"}}",
        2 + c, c);
    for (int m = 0; m < BRAID_OVERLAY_UNITS; m++)
      braid_text_printf(text,
                        ",\n{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"name\":\"thread_name\",\"args\":{\"name\":\"%s\"}}",
                        2 + c, m, braid_overlay_unit_name((braid_overlay_unit)m));
  }
}

/* Microseconds, in whole tenths of nanoseconds: what ends where another span begins does so in the file, too. */
static double trace_time(const braid_overlay_record *r, uint64_t cycle) {
  return round((double)cycle / r->clock_mhz * 1e4) / 1e4;
}

static void add_event(braid_text *text, const braid_overlay_record *r, const braid_record_span *s) {
  braid_text_printf(text,
                    ",\n{\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":%.4f,\"dur\":%.4f,\"name\":\"%s\",\"cat\":\"%s\","
                    "\"args\":{\"cycles\":%" PRIu64 ",\"instruction\":%" PRIu32,
                    2 + s->core, s->module, trace_time(r, s->from), trace_time(r, s->to) - trace_time(r, s->from),
                    name_of(s), s->opcode ? "instruction" : "stall", s->to - s->from, s->instruction);
  if (s->bytes) braid_text_printf(text, ",\"bytes\":%" PRIu64, s->bytes);
  if (s->opcode && r->layer_count) {
    braid_text_add(text, ",\"layer\":");
    braid_text_add_json(text, r->layers[s->layer].name);
  }
  braid_text_add(text, "}}");
}

static void add_bytes(braid_text *text, const braid_overlay_record *r) {
  double rates[kBuckets];
  if (!sum_bytes(r, rates)) return;
  for (int b = 0; b < kBuckets; b++)
    braid_text_printf(text, ",\n{\"ph\":\"C\",\"pid\":1,\"ts\":%.4f,\"name\":\"DDR, GB/s\",\"args\":{\"GB/s\":%.4g}}",
                      (double)r->cycles * b / kBuckets / r->clock_mhz, rates[b]);
}

braid_status braid_overlay_record_save_trace(const braid_overlay_record *r, const char *path) {
  braid_text text;
  braid_text_init(&text, NULL);
  braid_text_add(&text, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
  name_tracks(&text, r);
  for (size_t l = 0; l < r->layer_count; l++) {
    if (!r->layers[l].to) continue;
    braid_text_printf(
        &text, ",\n{\"ph\":\"X\",\"pid\":1,\"tid\":0,\"ts\":%.4f,\"dur\":%.4f,\"cat\":\"layer\",\"name\":",
        trace_time(r, r->layers[l].from), trace_time(r, r->layers[l].to) - trace_time(r, r->layers[l].from));
    braid_text_add_json(&text, r->layers[l].name);
    braid_text_add(&text, "}");
  }
  for (size_t i = 0; i < r->count; i++) add_event(&text, r, &r->spans[i]);
  add_bytes(&text, r);
  braid_text_add(&text, "\n]}\n");
  return write_text(&text, path);
}

/* --- page ----------------------------------------------------------------------------------------------------------
 */
/* Within a script, whose end no name may be. */
static void add_script_string(braid_text *text, const char *string) {
  braid_text quoted;
  braid_text_init(&quoted, text->allocator);
  braid_text_add_json(&quoted, string);
  for (size_t i = 0; i < quoted.length; i++) {
    if (quoted.data[i] == '<')
      braid_text_add(text, "\\u003c");
    else
      braid_text_add_bytes(text, &quoted.data[i], 1);
  }
  text->failed = text->failed || quoted.failed;
  braid_text_deinit(&quoted);
}

/* Numbers of each span: cycles since the one before began, its cycles, kind, layer, instruction, bytes. */
static void add_rows(braid_text *text, const braid_overlay_record *r) {
  for (int row = 0; row < r->cores * BRAID_OVERLAY_UNITS; row++) {
    uint64_t last = 0;
    bool first = true;
    braid_text_printf(text, "%s[", row ? ",\n" : "");
    for (size_t i = 0; i < r->count; i++) {
      const braid_record_span *s = &r->spans[i];
      if (s->core * BRAID_OVERLAY_UNITS + s->module != row) continue;
      int kind = s->opcode ? s->opcode : -1 - s->why;
      braid_text_printf(text, "%s%" PRIu64 ",%" PRIu64 ",%d,%d,%" PRIu32 ",%" PRIu64, first ? "" : ",", s->from - last,
                        s->to - s->from, kind, s->layer, s->instruction, s->bytes);
      last = s->from;
      first = false;
    }
    braid_text_add(text, "]");
  }
}

static void add_data(braid_text *text, const braid_overlay_record *r) {
  double rates[kBuckets];
  sum_bytes(r, rates);
  braid_text_printf(text,
                    "<script type=\"application/json\" id=\"data\">{\"mhz\":%.17g,\"cycles\":%" PRIu64
                    ",\"cores\":%d,\"units\":[",
                    r->clock_mhz, r->cycles, r->cores);
  for (int m = 0; m < BRAID_OVERLAY_UNITS; m++)
    braid_text_printf(text, "%s\"%s\"", m ? "," : "", braid_overlay_unit_name((braid_overlay_unit)m));
  braid_text_add(text, "],\"opcodes\":[\"\"");
  for (int op = 1; braid_isa_form_of(op); op++) braid_text_printf(text, ",\"%s\"", braid_isa_form_of(op)->name);
  braid_text_add(text, "],\"stalls\":[\"\"");
  for (int why = 0; why <= BRAID_OVERLAY_IDLES; why++)
    braid_text_printf(text, ",\"%s\"", braid_record_why((uint8_t)why));
  braid_text_add(text, "],\"layers\":[");
  for (size_t l = 0; l < r->layer_count; l++) {
    braid_text_printf(text, "%s[%" PRIu64 ",%" PRIu64 ",", l ? "," : "", r->layers[l].from, r->layers[l].to);
    add_script_string(text, r->layers[l].name);
    braid_text_add(text, "]");
  }
  braid_text_add(text, "],\"rates\":[");
  for (int b = 0; b < kBuckets; b++) braid_text_printf(text, "%s%.4g", b ? "," : "", rates[b]);
  braid_text_add(text, "],\"rows\":[");
  add_rows(text, r);
  braid_text_add(text, "]}</script>\n");
}

static void begin_page(braid_text *text, const char *title) {
  braid_text_add(text, "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>");
  braid_text_add_html(text, title);
  braid_text_add(text,
                 "</title><style>:root{color-scheme:light dark}body{font:15px/1.5 system-ui,sans-serif;"
                 "margin:2em auto;padding:0 1em;max-width:1600px;color:#1c2733;background:#fff}h1{font-size:1.5em}"
                 ".note{color:#5b6b7b}@media(prefers-color-scheme:dark){body{color:#dde4ea;background:#14191f}"
                 ".note{color:#9aa8b5}}</style></head><body><h1>");
  braid_text_add_html(text, title);
  braid_text_add(text, "</h1>\n");
}

braid_status braid_overlay_record_save_html(const braid_overlay_record *r, const char *title, const char *path) {
  braid_text text;
  braid_text_init(&text, NULL);
  begin_page(&text, title);
  braid_text_printf(&text, "<p>Modelled: %" PRIu64 " cycles, %.4f ms, on %d core%s of ", r->cycles,
                    (double)r->cycles / r->clock_mhz / 1e3, r->cores, r->cores == 1 ? "" : "s");
  braid_text_add_html(&text, r->design);
  braid_text_printf(&text,
                    ". Stalls of less than %d cycles are left out. Turn the wheel to zoom, drag to move, point at "
                    "something for its numbers.</p>\n",
                    BRAID_RECORD_LEAST_STALL);
  if (r->cut)
    braid_text_printf(
        &text,
        "<p><b>Only the first %zu instructions and stalls are here, and those that had begun by cycle %" PRId64
        ".</b></p>\n",
        r->most, braid_overlay_record_get_info(r).until);
  braid_text_add(&text, "<noscript><p>The drawing needs JavaScript.</p></noscript>\n<div id=\"timeline\"></div>\n");
  add_data(&text, r);
  braid_text_add(&text, "<script>");
  braid_text_add_bytes(&text, braid_timeline_scripts[0].text, braid_timeline_scripts[0].bytes);
  braid_text_add(&text, "</script>\n");
  braid_text_add(&text, "</body></html>\n");
  return write_text(&text, path);
}
