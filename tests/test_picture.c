/* test_picture.c: PNG files decode to the pixels put in, ticks are nice numbers inside their range,
 * and pictures are well-formed, free of non-numbers, and show what they were given. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pinn/frame.h"
#include "pinn/picture.h"
#include "pinn/png.h"

#define OK(call) assert_int_equal((call), TN_OK)

/* ---- PNG, read by a second implementation ---------------------------------------------------- */

static uint32_t big(const uint8_t *p) {
  return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* CRC-32 bit by bit, as its definition has it. */
static uint32_t slow_crc(const uint8_t *p, size_t n) {
  uint32_t crc = 0xffffffffu;
  for (size_t i = 0; i < 8 * n; ++i) {
    uint32_t bit = ((uint32_t)p[i / 8] >> (i % 8)) & 1;
    crc = (crc ^ bit) & 1 ? (crc >> 1) ^ 0xedb88320u : crc >> 1;
  }
  return ~crc;
}

typedef struct {
  const uint8_t *at;
  size_t bit;
} bits;

static uint32_t take(bits *b, int n) {
  uint32_t x = 0;
  for (int i = 0; i < n; ++i, ++b->bit)
    x |= ((uint32_t)(b->at[b->bit / 8] >> (b->bit % 8)) & 1) << i;
  return x;
}

static uint32_t take_code(bits *b, int n) {
  uint32_t x = 0;
  for (int i = 0; i < n; ++i)
    x = x << 1 | take(b, 1);
  return x;
}

/* A symbol of the fixed code: 7 bits 0..23, else 8 bits 0x30..0xbf or 0xc0..0xc7, else 9 bits. */
static uint32_t take_symbol(bits *b) {
  uint32_t code = take_code(b, 7);
  if (code <= 23)
    return 256 + code;
  code = code << 1 | take(b, 1);
  if (code <= 0xbf)
    return code - 0x30;
  if (code <= 0xc7)
    return 280 + code - 0xc0;
  return 144 + (code << 1 | take(b, 1)) - 0x190;
}

/* Lengths and distances follow from the number of extra bits of each code. */
static size_t base_of(uint32_t code, uint32_t plain, size_t first, int *extra) {
  size_t base = first;
  *extra = 0;
  for (uint32_t k = 0; k < code; ++k) {
    base += (size_t)1 << *extra;
    *extra = k + 1 < plain ? 0 : (int)((k + 1) / (plain / 2)) - 1;
  }
  return base;
}

static size_t inflate(const uint8_t *data, uint8_t *out, size_t room) {
  bits b = {data, 0};
  size_t n = 0;
  assert_int_equal(take(&b, 3), 3); /* last block, fixed code */
  for (;;) {
    uint32_t symbol = take_symbol(&b);
    if (symbol == 256)
      return n;
    if (symbol < 256) {
      assert_true(n < room);
      out[n++] = (uint8_t)symbol;
      continue;
    }
    int extra = 0;
    size_t length = base_of(symbol - 257, 8, 3, &extra);
    length = symbol == 285 ? 258 : length + take(&b, extra);
    size_t distance = base_of(take_code(&b, 5), 4, 1, &extra);
    distance += take(&b, extra);
    assert_true(distance <= n && n + length <= room);
    for (size_t i = 0; i < length; ++i, ++n)
      out[n] = out[n - distance];
  }
}

/* Decodes and compares; returns the size of the file. */
static size_t check_png(size_t width, size_t height, const uint8_t *pixels) {
  uint8_t palette[256][4], *png = NULL, *rows = NULL;
  size_t n = 0, room = (width + 1) * height, kinds = 0;
  for (int i = 0; i < 1024; ++i)
    palette[i / 4][i % 4] = (uint8_t)(i * 37);
  OK(pn_png(width, height, pixels, palette, &png, &n));
  OK(tn_new(room, 1, &rows));
  assert_memory_equal(png, "\x89PNG\r\n\x1a\n", 8);
  for (size_t at = 8; at < n; ++kinds) {
    size_t length = big(png + at);
    const uint8_t *data = png + at + 8;
    assert_int_equal(big(data + length), slow_crc(png + at + 4, length + 4));
    if (!memcmp(png + at + 4, "IHDR", 4))
      assert_true(big(data) == width && big(data + 4) == height);
    if (!memcmp(png + at + 4, "PLTE", 4))
      assert_memory_equal(data + 3, palette[1], 3);
    if (!memcmp(png + at + 4, "IDAT", 4)) {
      assert_int_equal((data[0] * 256 + data[1]) % 31, 0);
      assert_int_equal(inflate(data + 2, rows, room), room);
      uint32_t a = 1, b = 0;
      for (size_t i = 0; i < room; ++i) {
        a = (a + rows[i]) % 65521;
        b = (b + a) % 65521;
      }
      assert_int_equal(big(data + length - 4), b * 65536 + a);
    }
    at += 12 + length;
  }
  assert_int_equal(kinds, 5);
  for (size_t j = 0; j < height; ++j) {
    assert_int_equal(rows[j * (width + 1)], 0);
    assert_memory_equal(rows + j * (width + 1) + 1, pixels + j * width, width);
  }
  tn_free(&rows);
  tn_free(&png);
  return n;
}

static void png_decodes_to_its_pixels(void **state) {
  (void)state;
  enum { W = 300, H = 200 };
  static uint8_t pixels[W * H];
  tn_stream stream = tn_stream_of(1, "png");
  check_png(1, 1, pixels);
  check_png(2, 1, pixels);
  assert_true(check_png(W, H, pixels) < 2500); /* one colour: matches of 258 */
  for (size_t i = 0; i < W * H; ++i)
    pixels[i] = (uint8_t)tn_random_bits(stream, i);
  check_png(W, H, pixels); /* noise: all literals, 9 / 8 of the size at most */
  check_png(W * H, 1, pixels);
  memcpy(pixels + 33000, pixels + 300, 20000); /* distances at the window's end */
  check_png(W, H, pixels);
  for (size_t k = 1; k < 40; ++k) { /* periods */
    for (size_t i = 0; i < W * H; ++i)
      pixels[i] = (uint8_t)(i % k * 6 + i / (97 * k));
    check_png(W, H, pixels);
  }
}

static void base64_gives_the_published_values(void **state) {
  (void)state;
  static const char *const rows[][2] = {{"", ""},
                                        {"f", "Zg=="},
                                        {"fo", "Zm8="},
                                        {"foo", "Zm9v"},
                                        {"foob", "Zm9vYg=="},
                                        {"fooba", "Zm9vYmE="},
                                        {"foobar", "Zm9vYmFy"}}; /* RFC 4648, 10 */
  for (size_t i = 0; i < 7; ++i) {
    char *text = NULL;
    OK(pn_base64((const uint8_t *)rows[i][0], strlen(rows[i][0]), &text));
    assert_string_equal(text, rows[i][1]);
    tn_free(&text);
  }
}

/* ---- Ticks ----------------------------------------------------------------------------------- */

static void ticks_are_multiples_of_1_2_or_5_in_the_range(void **state) {
  (void)state;
  tn_stream stream = tn_stream_of(2, "ticks");
  for (uint64_t k = 0; k < 5000; ++k) {
    double size = pow(10, 40 * tn_random_uniform(stream, 3 * k) - 20);
    double low = size * (tn_random_uniform(stream, 3 * k + 1) - 0.5);
    pn_axis axis = {low, low + size * pow(10, -3 * tn_random_uniform(stream, 3 * k + 2)), false,
                    NULL};
    size_t wanted = 2 + k % 8;
    pn_ticks t;
    pn_ticks_of(&axis, wanted, &t);
    assert_true(t.n >= 2);
    assert_true(t.n <=
                (wanted > 4 ? wanted : 4) + 1); /* a closed range of n steps has n + 1 ticks */
    assert_true(2.5 * (double)(t.n + 1) >=
                (double)wanted); /* the step is at most 2.5 times the rough one */
    double step = t.n > 1 ? t.at[1] - t.at[0] : 0;
    for (size_t i = 0; i < t.n; ++i) {
      assert_true(t.at[i] >= low - 1e-8 * size && t.at[i] <= axis.high + 1e-8 * size);
      if (i)
        assert_true(fabs(t.at[i] - t.at[i - 1] - step) < 1e-9 * size &&
                    strcmp(t.text[i], t.text[i - 1]));
    }
    double digit = step / pow(10, floor(log10(step) + 1e-9));
    assert_true(fabs(digit - 1) < 1e-6 || fabs(digit - 2) < 1e-6 || fabs(digit - 5) < 1e-6);
  }
}

static void expect_ticks(pn_axis axis, size_t wanted, int power, const char *expected) {
  pn_ticks t;
  char text[256] = "";
  pn_ticks_of(&axis, wanted, &t);
  for (size_t i = 0; i < t.n; ++i)
    snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i ? " " : "", t.text[i]);
  assert_string_equal(text, expected);
  assert_int_equal(t.power, power);
}

static void ticks_read_as_people_write(void **state) {
  (void)state;
  expect_ticks((pn_axis){0, 1, false, NULL}, 5, 0, "0.0 0.2 0.4 0.6 0.8 1.0");
  expect_ticks((pn_axis){-1, 1, false, NULL}, 4, 0,
               "\xe2\x88\x92"
               "1.0 \xe2\x88\x92"
               "0.5 0.0 0.5 1.0");
  expect_ticks((pn_axis){0, 20000, false, NULL}, 4, 0, "0 5000 10000 15000 20000");
  expect_ticks((pn_axis){0, 4e6, false, NULL}, 4, 6, "0 1 2 3 4");
  expect_ticks((pn_axis){0, 3e-7, false, NULL}, 3, -7, "0 1 2 3");
  expect_ticks(
      (pn_axis){-3, 0.1, true, NULL}, 8, 0,
      "10\xe2\x81\xbb\xc2\xb3 10\xe2\x81\xbb\xc2\xb2 10\xe2\x81\xbb\xc2\xb9 10\xe2\x81\xb0");
  expect_ticks((pn_axis){0, 0.8, true, NULL}, 8, 0,
               "10\xe2\x81\xb0 2\xc2\xb7"
               "10\xe2\x81\xb0 5\xc2\xb7"
               "10\xe2\x81\xb0");
  expect_ticks((pn_axis){1, 1, false, NULL}, 5, 0, "");
  expect_ticks((pn_axis){0, INFINITY, false, NULL}, 5, 0, "");
}

/* ---- Pictures -------------------------------------------------------------------------------- */

static size_t count(const char *text, const char *part) {
  size_t n = 0;
  for (const char *at = text; (at = strstr(at, part)); at += strlen(part))
    ++n;
  return n;
}

/* As many elements close as open, and no number is none. */
static void check_svg(const char *svg) {
  size_t open = 0, closed = 0;
  assert_memory_equal(svg, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", 52);
  for (const char *at = strchr(svg, '<'); at; at = strchr(at + 1, '<')) {
    const char *end = strchr(at, '>');
    assert_non_null(end);
    closed += at[1] == '/' || end[-1] == '/';
    open += at[1] != '/';
  }
  assert_int_equal(open, closed);
  assert_null(strstr(svg, "nan"));
  assert_null(strstr(svg, "inf"));
  assert_null(strstr(svg, " id="));
}

static void plot_shows_curves_marks_and_labels(void **state) {
  (void)state;
  double x[5] = {0, 1, 2, 3, 4}, y[5] = {1, 0.1, 0, 1e-3, NAN}; /* 0 and NaN leave gaps */
  const pn_curve curves[] = {
      {"a < b", 5, x, y, PN_LINE}, {NULL, 5, x, y, PN_DOTS}, {"c", 5, x, y, PN_DASHED}};
  const pn_mark marks[] = {{1, "2 lbfgs"}, {9, "outside"}};
  const pn_plot plots[] = {{"Loss", "step", "loss", false, true, 3, curves, 2, marks, 0, 0, 0, 0},
                           {NULL, NULL, NULL, false, false, 0, NULL, 0, NULL, 0, 0, 100, 100}};
  char *svg = NULL;
  OK(pn_plots_svg(2, plots, 2, &svg));
  check_svg(svg);
  assert_int_equal(count(svg, "a &lt; b"), 1);
  assert_int_equal(count(svg, ">2 lbfgs</text>"), 1);
  assert_int_equal(count(svg, "outside"), 0);
  assert_int_equal(count(svg, ">Loss</text>"), 1);
  assert_int_equal(count(svg, "h0"), 3); /* three dots can be drawn */
  tn_free(&svg);
  assert_int_equal(pn_plots_svg(0, plots, 2, &svg), TN_EINPUT);
}

static void plot_keeps_a_spike_of_a_long_curve(void **state) {
  (void)state;
  enum { N = 100000 };
  double *x = NULL, *y = NULL;
  char *svg = NULL;
  OK(TN_NEW(N, &x));
  OK(TN_NEW(N, &y));
  for (size_t i = 0; i < N; ++i)
    x[i] = (double)i, y[i] = i % 100 < 50 ? 0.1 : 0.2;
  y[77777] = 1;
  const pn_curve curve = {NULL, N, x, y, PN_LINE};
  const pn_plot plot = {NULL, NULL, NULL, false, false, 1, &curve, 0, NULL, 0, 1, 500, 200};
  OK(pn_plots_svg(1, &plot, 1, &svg));
  check_svg(svg);
  assert_true(strlen(svg) < 60000);
  const char *at = strstr(svg, "L388.9 0.0"); /* 77777 / 99999 of 500 px, at the top */
  assert_non_null(at);
  double last = 0;
  for (at = strstr(svg, "d=\"M") + 4; *at != '"';
       at += strcspn(at, "L\"")) { /* points keep their order */
    double here = strtod(at += *at == 'L', NULL);
    assert_true(here >= last);
    last = here;
  }
  assert_true(last == 500);
  tn_free(&svg);
  tn_free(&x);
  tn_free(&y);
}

static void map_draws_holes_points_and_every_range(void **state) {
  (void)state;
  const double field[6] = {1, 2, 3, NAN, 5, 6}, flat[1] = {7}, empty[4] = {NAN, NAN, NAN, INFINITY};
  const double px[3] = {0.5, 0.25, 2}, py[3] = {0.5, 0.75, 0}; /* the last lies outside */
  pn_map maps[] = {
      {"u & v", "x", "y", 2, 3, 0, 1, 0, 1, field, PN_SEQUENTIAL, 0, 0, false, 3, px, py},
      {NULL, NULL, NULL, 1, 1, -1, 1, 0, 3, flat, PN_DIVERGING, 0, 0, true, 0, NULL, NULL},
      {NULL, NULL, NULL, 2, 2, 0, 1e-5, 0, 1, empty, PN_LOGARITHMIC, 0, 0, true, 0, NULL, NULL},
      {NULL, NULL, NULL, 3, 2, 0, 1, 0, 1, field, PN_LOGARITHMIC, 0, 0, false, 0, NULL, NULL}};
  char *svg = NULL;
  OK(pn_maps_svg(4, maps, 2, &svg));
  check_svg(svg);
  assert_int_equal(count(svg, "data:image/png;base64,"), 8); /* a field and a bar each */
  assert_int_equal(count(svg, "u &amp; v"), 1);
  assert_int_equal(count(svg, "M187.0 126.0h0M124.5 76.0h0\""), 2); /* two points, rim and dot */
  tn_free(&svg);
  maps[1].x1 = -1;
  assert_int_equal(pn_maps_svg(4, maps, 2, &svg), TN_EINPUT);
}

static uint32_t digit_of(char c) {
  return (uint32_t)(c >= 'a'   ? c - 'a' + 26
                    : c >= 'A' ? c - 'A'
                    : c >= '0' ? c - '0' + 52
                    : c == '+' ? 62
                               : 63);
}

/* The colour numbers of the first picture in an SVG text; *width and *height are its extents. */
static uint8_t *first_pixels(const char *svg, size_t *width, size_t *height) {
  const char *at = strstr(svg, "base64,") + 7;
  size_t n = strcspn(at, "\"") / 4 * 3;
  uint8_t *png = NULL, *rows = NULL;
  OK(tn_new(n, 1, &png));
  for (size_t i = 0; i < n / 3; ++i) {
    uint32_t x = 0;
    for (size_t k = 0; k < 4; ++k)
      x = x << 6 | (at[4 * i + k] == '=' ? 0 : digit_of(at[4 * i + k]));
    for (size_t k = 0; k < 3; ++k)
      png[3 * i + k] = (uint8_t)(x >> (16 - 8 * k));
  }
  *width = big(png + 16);
  *height = big(png + 20);
  OK(tn_new((*width + 1) * *height, 1, &rows));
  size_t place = 8;
  while (memcmp(png + place + 4, "IDAT", 4))
    place += 12 + big(png + place);
  assert_int_equal(inflate(png + place + 10, rows, (*width + 1) * *height), (*width + 1) * *height);
  tn_free(&png);
  return rows;
}

static void map_puts_values_where_they_belong(void **state) {
  (void)state;
  const double field[4] = {0, 1, 2,
                           NAN}; /* (0,0), (0,1), (1,0), (1,1): the hole is at the upper right */
  const pn_map map = {NULL,  NULL,          NULL, 2, 2,     0, 1,    0,   1,
                      field, PN_SEQUENTIAL, 0,    2, false, 0, NULL, NULL};
  char *svg = NULL;
  size_t w = 0, h = 0;
  OK(pn_maps_svg(1, &map, 1, &svg));
  uint8_t *rows = first_pixels(svg, &w, &h);
  const uint8_t *top = rows + 1, *bottom = rows + (h - 1) * (w + 1) + 1;
  assert_int_equal(top[0], 127); /* 1 of 0..2, of 0..254; beside the hole the nearest value */
  assert_int_equal(top[w / 2 - 2], 127);
  assert_int_equal(top[w - 1], 255); /* nothing */
  assert_true(bottom[0] <= 1 && bottom[w - 1] >= 253);
  tn_free(&rows);
  tn_free(&svg);
}

static void pictures_report_failed_allocations(void **state) {
  (void)state;
  const double x[2] = {0, 1}, y[4] = {1, 2, 3, 4};
  const pn_curve curve = {"c", 2, x, y, PN_LINE};
  const pn_plot plot = {"t", "x", "y", false, false, 1, &curve, 0, NULL, 0, 0, 0, 0};
  const pn_map map = {"t", "x",           "y", 2, 2,     0, 1,    0,   1,
                      y,   PN_SEQUENTIAL, 0,   0, false, 0, NULL, NULL};
  for (uint64_t k = 1;; ++k) {
    char *svg = NULL, *other = NULL;
    tn_fault_at(k, false);
    tn_status status = pn_plots_svg(1, &plot, 1, &svg);
    if (status == TN_OK)
      status = pn_maps_svg(1, &map, 1, &other);
    uint64_t n = tn_fault_count();
    tn_fault_at(0, false);
    tn_free(&svg);
    tn_free(&other);
    if (n < k) {
      assert_int_equal(status, TN_OK);
      break;
    }
    assert_int_equal(status, TN_ENOMEM);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(png_decodes_to_its_pixels),
      cmocka_unit_test(base64_gives_the_published_values),
      cmocka_unit_test(ticks_are_multiples_of_1_2_or_5_in_the_range),
      cmocka_unit_test(ticks_read_as_people_write),
      cmocka_unit_test(plot_shows_curves_marks_and_labels),
      cmocka_unit_test(plot_keeps_a_spike_of_a_long_curve),
      cmocka_unit_test(map_draws_holes_points_and_every_range),
      cmocka_unit_test(map_puts_values_where_they_belong),
      cmocka_unit_test(pictures_report_failed_allocations),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
