/* machine.c: facts about the computer that figures must be read with.
 *
 * The product of OpenBLAS is the yardstick of the yardstick: a peak of fused multiply-adds below what a good
 * matrix product reaches would be no peak.
 */
#include <cblas.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pinn/pinn.h"

/* ---- Facts --------------------------------------------------------------------------------------- */

const char *pn_cpu_name(void) {
  static _Thread_local char name[96];
  char line[256];
  snprintf(name, sizeof name, "unknown");
  FILE *file = fopen("/proc/cpuinfo", "r");
  while (file && fgets(line, sizeof line, file)) {
    char *value = strchr(line, ':');
    if (strncmp(line, "model name", 10) != 0 || !value)
      continue;
    value += 1 + strspn(value + 1, " \t");
    value[strcspn(value, "\n")] = '\0';
    snprintf(name, sizeof name, "%.90s", value);
    break;
  }
  if (file)
    fclose(file);
  return name;
}

/* The first line of a file of the system's; "" if there is none. */
static void first_line(const char *path, char *line, size_t capacity) {
  FILE *file = fopen(path, "r");
  if (!file || !fgets(line, (int)capacity, file))
    line[0] = '\0';
  line[strcspn(line, "\n")] = '\0';
  if (file)
    fclose(file);
}

size_t pn_cache_bytes(int level) {
  static const char folder[] = "/sys/devices/system/cpu/cpu0/cache/index";
  for (int i = 0; i < 8; ++i) {
    char path[96], line[32], *unit = NULL;
    snprintf(path, sizeof path, "%s%d/level", folder, i);
    first_line(path, line, sizeof line);
    if (line[0] != '0' + level || line[1] != '\0')
      continue;
    snprintf(path, sizeof path, "%s%d/type", folder, i);
    first_line(path, line, sizeof line);
    if (strcmp(line, "Instruction") == 0)
      continue;
    snprintf(path, sizeof path, "%s%d/size", folder, i);
    first_line(path, line, sizeof line);
    size_t size = strtoul(line, &unit, 10);
    return *unit == 'K' ? size << 10 : *unit == 'M' ? size << 20 : size;
  }
  return 0;
}

/* ---- The matrix product of the BLAS ------------------------------------------------------------- */

static void gemm(tn_dtype dtype, size_t n, const void *a, const void *b, void *c) {
  blasint m = (blasint)n;
  if (dtype == TN_F64)
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, m, m, 1, a, m, b, m, 0, c, m);
  else
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, m, m, 1, a, m, b, m, 0, c, m);
}

static void fill(tn_dtype dtype, size_t n, void *x) {
  tn_stream stream = tn_stream_of(0, "gemm");
  for (size_t i = 0; i < n; ++i) {
    double value = 2 * tn_random_uniform(stream, i) - 1;
    if (dtype == TN_F64)
      ((double *)x)[i] = value;
    else
      ((float *)x)[i] = (float)value;
  }
}

tn_status pn_peak_gemm(tn_dtype dtype, size_t n, size_t threads, double seconds, double *flops) {
  void *a = NULL, *b = NULL, *c = NULL;
  size_t size = tn_dtype_size(dtype);
  int before = openblas_get_num_threads();
  *flops = 0;
  if (dtype != TN_F64 && dtype != TN_F32)
    return TN_FAIL(TN_EDTYPE, "matrix product of %s: expected f64 or f32", tn_dtype_name(dtype));
  tn_status status = tn_new(n * n, size, &a);
  if (status == TN_OK)
    status = tn_new(n * n, size, &b);
  if (status == TN_OK)
    status = tn_new(n * n, size, &c);
  if (status == TN_OK) {
    fill(dtype, n * n, a);
    fill(dtype, n * n, b);
    openblas_set_num_threads((int)threads);
    gemm(dtype, n < 256 ? n : 256, a, b, c); /* wakes its threads */
    double end = pn_clock() + seconds;
    do {
      double start = pn_clock();
      gemm(dtype, n, a, b, c);
      *flops = fmax(*flops, 2.0 * (double)n * (double)n * (double)n / (pn_clock() - start));
    } while (pn_clock() < end);
    openblas_set_num_threads(before);
  }
  tn_free(&a);
  tn_free(&b);
  tn_free(&c);
  return status;
}
