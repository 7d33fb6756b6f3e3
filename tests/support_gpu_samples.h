/* support_gpu_samples.h: programs that together have every kind of kernel: for tests of the text of kernels. */
#ifndef TESTS_SUPPORT_GPU_SAMPLES_H
#define TESTS_SUPPORT_GPU_SAMPLES_H

#include "tests/support_net.h"

enum { SAMPLE_OUTPUTS = 96 };

typedef struct sample {
  const char *name;
  tn_dtype dtype;
  bool quick; /* part of the short list */
  size_t n_out, width, n_layers;
  tn_op_id activation;
  size_t (*outputs)(net *n, tn_value *out); /* how many */
} sample;

extern const sample samples[];
extern const size_t n_samples;
/* The network of a sample and its outputs, resolved; net_close. */
size_t sample_open(const sample *s, net *n, tn_value *out);

#endif
