/* support_geometry.h: an arena a test, and statuses that must be TN_OK, for tests of bodies. Include after cmocka.h. */
#ifndef TESTS_SUPPORT_GEOMETRY_H
#define TESTS_SUPPORT_GEOMETRY_H

#include "pinn/geometry.h"

static inline int geometry_setup(void **state) {
  pn_arena *arena = NULL;
  assert_int_equal(pn_arena_new(&arena), TN_OK);
  *state = arena;
  return 0;
}

static inline int geometry_teardown(void **state) {
  pn_arena *arena = *state;
  pn_arena_free(&arena);
  return 0;
}

static inline void ok(tn_status status) {
  if (status != TN_OK)
    print_error("%s\n", tn_error_text());
  assert_int_equal(status, TN_OK);
}

#endif
