/* support_refusal.h: leaves in one word, and what a refusal must say, for tests of builders. */
#ifndef TESTS_SUPPORT_REFUSAL_H
#define TESTS_SUPPORT_REFUSAL_H

#include "tests/support_graph.h"

tn_value batch(bench *b, const char *name, size_t width);
tn_value matrix(bench *b, const char *name, size_t rows, size_t columns);
tn_value vector(bench *b, const char *name, size_t n);
/* The last builder failed with this status and these words (each "" or part of the text). */
void refused_at(int line, bench *b, tn_value v, tn_status status, const char *one, const char *two);
#define REFUSED(v, status, one, two) refused_at(__LINE__, &b, v, status, one, two)

#endif
