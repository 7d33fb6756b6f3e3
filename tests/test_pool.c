/* test_pool.c: every iteration runs once, whatever the number of threads, the pace and the way of
 * waiting. */
#include "tensor/tensor.h"

#include <fenv.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

enum { MOST = 1000 };

typedef struct {
  size_t threads;
  atomic_uint runs[MOST];  /* of each iteration */
  atomic_uint n_misplaced; /* calls with a worker index out of range */
  long sleep_ns;           /* that one iteration takes */
  tn_pool *pool;           /* for runs inside of runs */
} tally;

static void sleep_for(long ns) {
  const struct timespec t = {.tv_nsec = ns};
  nanosleep(&t, NULL);
}

static void count(void *context, size_t i, size_t worker) {
  tally *t = context;
  atomic_fetch_add(&t->runs[i], 1);
  if (worker >= t->threads)
    atomic_fetch_add(&t->n_misplaced, 1);
  if (t->sleep_ns > 0)
    sleep_for(t->sleep_ns);
}

/* Iterations 0 ... n - 1 have run `times` times, the others never. */
static void check(const tally *t, size_t n, unsigned times) {
  for (size_t i = 0; i < MOST; ++i)
    assert_int_equal(atomic_load(&t->runs[i]), i < n ? times : 0);
  assert_int_equal(atomic_load(&t->n_misplaced), 0);
}

static tn_pool *make_pool(size_t threads) {
  tn_pool *pool = NULL;
  assert_int_equal(tn_pool_new(threads, &pool), TN_OK);
  assert_int_equal(tn_pool_threads(pool), threads);
  return pool;
}

static void every_iteration_runs_once(void **state) {
  (void)state;
  const size_t counts[] = {0, 1, 2, 3, 4, 5, 16, MOST};
  for (size_t threads = 1; threads <= 5; ++threads) {
    tn_pool *pool = make_pool(threads);
    for (size_t k = 0; k < sizeof counts / sizeof *counts; ++k) {
      tally t = {.threads = threads};
      tn_pool_run(pool, counts[k], count, &t);
      check(&t, counts[k], 1);
    }
    tn_pool_free(&pool);
    assert_null(pool);
  }
}

typedef struct {
  uint64_t slot[16]; /* plain memory: iteration i owns slot[i], the caller reads all between runs */
} slots;

static void bump(void *context, size_t i, size_t worker) {
  (void)worker;
  ((slots *)context)->slot[i] += i + 1;
}

static void many_short_runs_lose_nothing(void **state) {
  (void)state;
  enum { RUNS = 100000 };
  tn_pool *pool = make_pool(3);
  slots s = {{0}};
  for (uint64_t run = 1; run <= RUNS; ++run) {
    size_t n = 2 + run % 15; /* sometimes fewer than threads */
    tn_pool_run(pool, n, bump, &s);
    assert_int_equal(s.slot[1], 2 * run); /* slot 1 is in each run, and visible now */
  }
  uint64_t sum = 0, right = 0;
  for (uint64_t run = 1; run <= RUNS; ++run)
    right += (2 + run % 15) * (3 + run % 15) / 2;
  for (size_t i = 0; i < 16; ++i)
    sum += s.slot[i];
  assert_int_equal(sum, right);
  tn_pool_free(&pool);
}

/* 5 ms are far more than workers spin: they are asleep when the next run comes. */
static void sleeping_workers_wake(void **state) {
  (void)state;
  tn_pool *pool = make_pool(4);
  tally t = {.threads = 4, .sleep_ns = 1000000};
  for (unsigned run = 1; run <= 20; ++run) {
    sleep_for(5000000);
    tn_pool_run(pool, 1 + run % 3 + 2, count, &t);
    assert_int_equal(atomic_load(&t.runs[2]), run);
  }
  tn_pool_free(&pool);
}

typedef struct {
  atomic_size_t n_inside;
  size_t expected;
  atomic_bool met;
} meeting;

/* Waits up to 10 s for the others: only true concurrency lets all of them meet. */
static void meet(void *context, size_t i, size_t worker) {
  meeting *m = context;
  (void)i;
  (void)worker;
  atomic_fetch_add(&m->n_inside, 1);
  for (int wait = 0; wait < 100000 && atomic_load(&m->n_inside) < m->expected; ++wait)
    sleep_for(100000);
  if (atomic_load(&m->n_inside) >= m->expected)
    atomic_store(&m->met, true);
}

/* From sleep, too: wake-ups that get lost would leave somebody alone. */
static void iterations_run_at_the_same_time(void **state) {
  (void)state;
  tn_pool *pool = make_pool(4);
  for (size_t n = 2; n <= 4; ++n)
    for (int run = 0; run < 10; ++run) {
      meeting m = {.expected = n};
      if (run % 2)
        sleep_for(3000000);
      tn_pool_run(pool, n, meet, &m);
      assert_true(atomic_load(&m.met));
    }
  tn_pool_free(&pool);
}

static void long_worker_is_waited_for_asleep(void **state) {
  (void)state;
  tn_pool *pool = make_pool(2);
  for (int run = 0; run < 10; ++run) {
    tally t = {.threads = 2, .sleep_ns = 4000000};
    tn_pool_run(pool, 3, count,
                &t); /* one of the two has two iterations; if the worker, we sleep */
    check(&t, 3, 1);
  }
  tn_pool_free(&pool);
}

static void run_again(void *context, size_t i, size_t worker) {
  tally *t = context;
  (void)i;
  if (worker >= t->threads)
    atomic_fetch_add(&t->n_misplaced, 1);
  tn_pool_run(t->pool, 10, count, t);
}

static void run_inside_a_run_goes_on_inline(void **state) {
  (void)state;
  for (size_t threads = 1; threads <= 3; ++threads) {
    tn_pool *pool = make_pool(threads);
    tally t = {.threads = threads, .pool = pool};
    tn_pool_run(pool, 7, run_again, &t);
    check(&t, 10, 7);
    tn_pool_run(pool, 1, run_again, &t);
    check(&t, 10, 8);
    tn_pool_free(&pool);
  }
}

static void *run_often(void *context) {
  tally *t = context;
  for (int i = 0; i < 500; ++i)
    tn_pool_run(t->pool, 8, count, t);
  return NULL;
}

static void two_callers_take_turns(void **state) {
  (void)state;
  tn_pool *pool = make_pool(2);
  tally a = {.threads = 2, .pool = pool}, b = {.threads = 2, .pool = pool};
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, run_often, &a), 0);
  run_often(&b);
  assert_int_equal(pthread_join(thread, NULL), 0);
  check(&a, 8, 500);
  check(&b, 8, 500);
  tn_pool_free(&pool);
}

static void no_pool_means_the_caller(void **state) {
  (void)state;
  tally t = {.threads = 1};
  tn_pool *none = NULL;
  assert_int_equal(tn_pool_threads(none), 1);
  tn_pool_run(none, 9, count, &t);
  check(&t, 9, 1);
  tn_pool_free(&none);
  tn_pool_free(NULL);
}

static void zero_threads_means_what_there_is(void **state) {
  (void)state;
  tn_pool *pool = NULL;
  assert_int_equal(tn_pool_new(0, &pool), TN_OK);
  assert_in_range(tn_pool_threads(pool), 1, 1024);
  tn_pool_free(&pool);
  assert_int_equal(tn_pool_new(SIZE_MAX, &pool), TN_ERANGE);
  assert_null(pool);
}

static void creation_survives_want_of_memory(void **state) {
  (void)state;
  const size_t now = tn_memory_now();
  tn_status status = TN_ENOMEM;
  for (uint64_t n = 1; status != TN_OK; ++n) {
    tn_pool *pool = NULL;
    assert_true(n < 100);
    tn_fault_at(n, true);
    status = tn_pool_new(2, &pool);
    tn_fault_at(0, false);
    assert_true(status == TN_OK || (status == TN_ENOMEM && pool == NULL));
    tn_pool_free(&pool);
    assert_int_equal(tn_memory_now(), now);
  }
}

static void rounding_mode_is_noticed(void **state) {
  (void)state;
  const int modes[] = {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
  assert_int_equal(tn_check_float_environment(), TN_OK);
  for (size_t i = 0; i < 3; ++i) {
    tn_pool *pool = NULL;
    assert_int_equal(fesetround(modes[i]), 0);
    tn_status checked = tn_check_float_environment(), made = tn_pool_new(2, &pool);
    assert_int_equal(fesetround(FE_TONEAREST), 0);
    assert_int_equal(checked, TN_EENV);
    assert_int_equal(made, TN_EENV);
    assert_null(pool);
    assert_non_null(strstr(tn_error_text(), "nearest"));
  }
  assert_int_equal(tn_check_float_environment(), TN_OK);
}

static void flushing_of_subnormals_is_noticed(void **state) {
  (void)state;
#if defined(__SSE2__)
  const unsigned before = _mm_getcsr(), modes[] = {0x8000, 0x0040}; /* FTZ, DAZ */
  const char *const names[] = {"FTZ", "DAZ"};
  for (size_t i = 0; i < 2; ++i) {
    _mm_setcsr(before | modes[i]);
    tn_status status = tn_check_float_environment();
    _mm_setcsr(before);
    assert_int_equal(status, TN_EENV);
    assert_non_null(strstr(tn_error_text(), names[i]));
  }
  assert_int_equal(tn_check_float_environment(), TN_OK);
#else
  skip();
#endif
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_iteration_runs_once),
      cmocka_unit_test(many_short_runs_lose_nothing),
      cmocka_unit_test(sleeping_workers_wake),
      cmocka_unit_test(iterations_run_at_the_same_time),
      cmocka_unit_test(long_worker_is_waited_for_asleep),
      cmocka_unit_test(run_inside_a_run_goes_on_inline),
      cmocka_unit_test(two_callers_take_turns),
      cmocka_unit_test(no_pool_means_the_caller),
      cmocka_unit_test(zero_threads_means_what_there_is),
      cmocka_unit_test(creation_survives_want_of_memory),
      cmocka_unit_test(rounding_mode_is_noticed),
      cmocka_unit_test(flushing_of_subnormals_is_noticed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
