/* test_comm.c: the rules of communicators: what calls give, time limits, names, failures.
 * ctest: labels=quick timeout=120
 *
 * Ranks are threads (support_comm.h). The same checks run over MPI when the program is started as `test_comm mpi
 * SCENARIO` by mpirun, which test_comm_mpi.sh does: `calls` and `programs` for what goes well, and others in which rank 1
 * is killed, stopped, leaves or fails; ranks that live then say why they end and abort with status 5.
 */
#include "tests/support_comm.h"
#include "tests/support_exec.h"

#include "tensor/comm_mpi.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- What calls give; bodies count defects, because assertions belong to the main thread ---- */

static unsigned char byte_of(size_t rank, size_t i) {
  return (unsigned char)(7 * rank + 13 * i + 5);
}

/* Parts of `unit * (rank % 4)` bytes: some are empty. */
static size_t check_gather(tn_comm *comm, size_t unit) {
  size_t size = tn_comm_size(comm), rank = tn_comm_rank(comm), total = 0, defects = 0;
  size_t *bytes = calloc(size, sizeof *bytes);
  for (size_t r = 0; r < size; ++r)
    total += bytes[r] = unit * (r % 4);
  unsigned char *send = malloc(bytes[rank] + 1), *recv = calloc(1, total + 1);
  for (size_t i = 0; i < bytes[rank]; ++i)
    send[i] = byte_of(rank, i);
  defects += tn_comm_gather(comm, "gather", bytes, send, recv) != TN_OK;
  for (size_t r = 0, at = 0; r < size; at += bytes[r++])
    for (size_t i = 0; i < bytes[r]; ++i)
      defects += recv[at + i] != byte_of(r, i);
  defects += recv[total] != 0;
  free(send);
  free(recv);
  free(bytes);
  return defects;
}

static size_t check_broadcast(tn_comm *comm, size_t bytes) {
  size_t defects = 0;
  unsigned char *data = malloc(bytes + 1);
  for (size_t root = 0; root < tn_comm_size(comm); ++root) {
    memset(data, 0, bytes);
    for (size_t i = 0; i < bytes && tn_comm_rank(comm) == root; ++i)
      data[i] = byte_of(root, i);
    defects += tn_comm_broadcast(comm, "broadcast", root, bytes, data) != TN_OK;
    for (size_t i = 0; i < bytes; ++i)
      defects += data[i] != byte_of(root, i);
  }
  free(data);
  return defects;
}

static size_t check_same(tn_comm *comm) {
  size_t last = tn_comm_size(comm) - 1,
         defects = tn_comm_same(comm, "theta", 0x123456789abcdef0) != TN_OK;
  bool differs = last > 0 && tn_comm_rank(comm) == last;
  tn_status status = tn_comm_same(comm, "theta", differs ? 77 : 78);
  if (last == 0)
    return defects + (status != TN_OK);
  char other[64];
  snprintf(other, sizeof other, "rank %zu 000000000000004d", last);
  const char *text = tn_error_text();
  return defects + (status != TN_ESTATE) + !strstr(text, "theta") + !strstr(text, other) +
         !strstr(text, "rank 0 000000000000004e");
}

/* Rank 0 and the last rank fail, then only the last one; each keeps its own text, the others get the first. */
static size_t check_agree(tn_comm *comm) {
  size_t rank = tn_comm_rank(comm), last = tn_comm_size(comm) - 1;
  size_t defects = tn_comm_agree(comm, "all well", TN_OK) != TN_OK;
  for (int both = 1; both >= 0; --both) {
    bool fails = rank == last || (both && rank == 0);
    tn_status own = fails ? TN_FAIL(rank == last ? TN_ENOMEM : TN_EIO, "trouble of %zu", rank)
                          : TN_OK,
              got;
    got = tn_comm_agree(comm, "trouble", own);
    size_t first = both ? 0 : last;
    char text[64];
    snprintf(text, sizeof text, "trouble of %zu", fails ? rank : first);
    defects += got != (fails           ? own
                       : first == last ? TN_ENOMEM
                                       : TN_EIO) ||
               !strstr(tn_error_text(), text);
    if (!fails)
      defects += strncmp(tn_error_text(), tn_comm_name(comm, first),
                         strlen(tn_comm_name(comm, first))) != 0;
  }
  return defects;
}

/* Three messages round the ring, of which the data are overwritten at once; then all at once to rank 0. */
static size_t check_messages(tn_comm *comm, size_t bytes) {
  size_t size = tn_comm_size(comm), rank = tn_comm_rank(comm), defects = 0;
  size_t next = (rank + 1) % size, before = (rank + size - 1) % size;
  unsigned char *data = malloc(bytes + 1);
  if (size == 1)
    defects += tn_comm_post(comm, "to myself", 0, 1, data) != TN_ERANGE;
  for (size_t m = 0; m < 3 && size > 1; ++m) {
    for (size_t i = 0; i < bytes; ++i)
      data[i] = byte_of(rank + m, i);
    defects += tn_comm_post(comm, "ring", next, m == 1 ? 0 : bytes, data) != TN_OK;
  }
  for (size_t m = 0; m < 3 && size > 1; ++m) {
    memset(data, 0, bytes + 1);
    defects += tn_comm_fetch(comm, "ring", before, m == 1 ? 0 : bytes, data) != TN_OK;
    for (size_t i = 0; i < bytes && m != 1; ++i)
      defects += data[i] != byte_of(before + m, i);
  }
  for (size_t r = 1; r < size && rank == 0; ++r) {
    uint64_t got = 0;
    defects += tn_comm_fetch(comm, "to rank 0", r, sizeof got, &got) != TN_OK || got != 100 + r;
  }
  uint64_t mine = 100 + rank;
  if (rank > 0)
    defects += tn_comm_post(comm, "to rank 0", 0, sizeof mine, &mine) != TN_OK;
  defects += tn_comm_post(comm, "nobody", size, 1, data) != TN_ERANGE;
  free(data);
  return defects;
}

static size_t check_statistics(tn_comm *comm) {
  uint64_t bytes[2], calls[2];
  double before = tn_comm_seconds(comm, &bytes[0], &calls[0]);
  size_t *parts = calloc(tn_comm_size(comm), sizeof *parts), total = 0, defects = 0;
  for (size_t r = 0; r < tn_comm_size(comm); ++r)
    total += parts[r] = 10;
  char own[10] = {0}, *all = calloc(1, total);
  defects += tn_comm_gather(comm, "ten bytes", parts, own, all) != TN_OK;
  double after = tn_comm_seconds(comm, &bytes[1], &calls[1]);
  if (tn_comm_size(comm) > 1)
    defects += bytes[1] - bytes[0] != total || calls[1] - calls[0] != 1 || after <= before;
  else
    defects += bytes[1] != 0 || calls[1] != 0;
  free(parts);
  free(all);
  return defects;
}

static size_t check_calls(tn_comm *comm) {
  static const size_t units[] = {0, 1, 1000, 70001};
  size_t defects = 0, n = 0;
  for (int again = 0; again < 3; ++again) {
    for (size_t k = 0; k < sizeof units / sizeof *units; ++k) {
      size_t counts[] = {check_gather(comm, units[k]), check_broadcast(comm, units[k]),
                         check_messages(comm, units[k])};
      for (size_t i = 0; i < 3; ++i) {
        if (counts[i])
          fprintf(stderr, "rank %zu: unit %zu, check %zu: %zu defects: %s\n", tn_comm_rank(comm),
                  units[k], i, counts[i], tn_error_text());
        defects += counts[i];
      }
    }
    n = check_same(comm) + 100 * check_agree(comm) + 10000 * check_statistics(comm);
    if (n)
      fprintf(stderr, "rank %zu: same, agree, statistics: %zu: %s\n", tn_comm_rank(comm), n,
              tn_error_text());
    defects += n + (tn_comm_barrier(comm, "barrier") != TN_OK);
  }
  return defects;
}

/* ---- Ranks that are threads ---- */

static void count_defects(const ranks_self *self) {
  *(atomic_size_t *)self->context += check_calls(self->comm);
}

static void calls_give_what_they_say(void **state) {
  (void)state;
  static const size_t sizes[] = {1, 2, 3, 4, 7, 20};
  for (size_t k = 0; k < sizeof sizes / sizeof *sizes; ++k) {
    atomic_size_t defects = 0;
    ranks_run(sizes[k], 60, count_defects, &defects);
    if (defects)
      fail_msg("%zu ranks: %zu defects", sizes[k], (size_t)defects);
  }
}

static void null_is_one_rank(void **state) {
  (void)state;
  tn_comm *none = NULL;
  assert_int_equal(tn_comm_size(NULL), 1);
  assert_int_equal(tn_comm_rank(NULL), 0);
  assert_string_equal(tn_comm_kind(NULL), "self");
  assert_int_equal(check_calls(NULL), 0);
  assert_int_equal(tn_comm_limit(NULL, 1), TN_OK);
  tn_comm_abort(NULL, 1); /* the process goes on */
  tn_comm_free(&none);
  tn_comm_free(NULL);
}

/* A call with its outcome in each rank. */
typedef struct outcome {
  tn_status first[8], second[8];
  double seconds[8], second_seconds[8];
  char text[8][512], second_text[8][512];
  size_t silent;
  bool messages; /* fetch from the silent rank, else gather */
} outcome;

static void call_and_call_again(const ranks_self *self) {
  outcome *o = self->context;
  size_t r = self->rank;
  uint64_t word = r, all[8];
  size_t bytes[8];
  for (size_t k = 0; k < 8; ++k)
    bytes[k] = sizeof word;
  if (tn_comm_barrier(self->comm, "start") != TN_OK)
    return;
  double start = now();
  if (r == o->silent) {
    ranks_silence(self->world, r);
    return;
  }
  o->first[r] = o->messages
                    ? tn_comm_fetch(self->comm, "activations", o->silent, sizeof word, &word)
                    : tn_comm_gather(self->comm, "gradient sums", bytes, &word, all);
  o->seconds[r] = now() - start;
  snprintf(o->text[r], sizeof o->text[r], "%s", tn_error_text());
  start = now();
  o->second[r] = tn_comm_barrier(self->comm, "next step");
  o->second_seconds[r] = now() - start;
  snprintf(o->second_text[r], sizeof o->second_text[r], "%s", tn_error_text());
}

static void a_silent_rank_is_named_within_the_limit(void **state) {
  (void)state;
  static const double limit = 0.5;
  for (int messages = 0; messages < 2; ++messages) {
    outcome o = {.silent = 2, .messages = messages};
    ranks_run(4, limit, call_and_call_again, &o);
    for (size_t r = 0; r < 4; ++r) {
      if (r == 2)
        continue;
      assert_int_equal(o.first[r], TN_EPEER);
      assert_true(o.seconds[r] < limit + 2);
      assert_non_null(strstr(o.text[r], messages ? "activations: " : "gradient sums: "));
      assert_non_null(strstr(o.text[r], "no answer from rank 2 (thread) within "));
      assert_null(strstr(o.text[r], "rank 1"));
      assert_null(strstr(o.text[r], "rank 3"));
      assert_int_equal(o.second[r], TN_EPEER); /* at once, with the first reason */
      assert_true(o.second_seconds[r] < 0.1);
      assert_non_null(strstr(o.second_text[r], "next step: the ranks are lost already: "));
      assert_non_null(strstr(o.second_text[r], "rank 2 (thread)"));
    }
  }
}

static void a_slow_rank_is_waited_for(const ranks_self *self) {
  atomic_size_t *defects = self->context;
  if (self->rank == 1)
    ranks_delay(self->world, 1, 0.3);
  *defects += tn_comm_barrier(self->comm, "slow") != TN_OK;
}

static void slow_is_not_silent(void **state) {
  (void)state;
  atomic_size_t defects = 0;
  double start = now();
  ranks_run(3, 20, a_slow_rank_is_waited_for, &defects);
  assert_int_equal(defects, 0);
  assert_true(now() - start > 0.3);
}

/* Rank 0 waits for a message that nobody sends, while the others wait for rank 0 in a barrier. */
static void call_differently(const ranks_self *self) {
  outcome *o = self->context;
  size_t r = self->rank;
  uint64_t word;
  o->first[r] = r == 0 ? tn_comm_fetch(self->comm, "weights", 1, sizeof word, &word)
                       : tn_comm_barrier(self->comm, "checkpoint");
  snprintf(o->text[r], sizeof o->text[r], "%s", tn_error_text());
}

static void ranks_out_of_step_are_told_so(void **state) {
  (void)state;
  outcome o = {0};
  ranks_run(3, 0.4, call_differently, &o);
  size_t judges = 0;
  for (size_t r = 0; r < 3; ++r) {
    assert_int_equal(o.first[r], TN_EPEER);
    judges += strstr(o.text[r], "they are in different calls") != NULL;
    assert_null(strstr(o.text[r], "no answer"));
  }
  assert_true(judges >= 1);
}

static void abort_with_seven(const ranks_self *self) {
  if (self->rank == 1)
    tn_comm_abort(self->comm, 7);
  if (tn_comm_barrier(self->comm, "after") == TN_OK && self->rank == 0)
    *(int *)self->context = ranks_aborted(self->world);
}

static void abort_reaches_the_class(void **state) {
  (void)state;
  int status = -1;
  ranks_run(1, 1, abort_with_seven, &status);
  assert_int_equal(status, -1);
  ranks_run(2, 5, abort_with_seven, &status);
  assert_int_equal(status, 7);
}

/* ---- The limit ---- */

static void note_made(const ranks_self *self) {
  if (self->rank == 0)
    *(double *)self->context = 1;
}

static void limits_are_checked(void **state) {
  (void)state;
  static const double bad[] = {0, -1, 1e300};
  for (size_t i = 0; i < 3; ++i)
    assert_int_equal(tn_comm_limit(NULL, bad[i]), TN_ERANGE);
  double made = 0;
  assert_int_equal(setenv("PINN_COMM_SECONDS", "2.5", 1), 0);
  ranks_run(2, 5, note_made, &made);
  assert_true(made == 1);
  static const char *const wrong[] = {"0", "-3", "abc", "1e3", "2,5", "3.4.5", "99999999999"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
    assert_int_equal(setenv("PINN_COMM_SECONDS", wrong[i], 1), 0);
    assert_int_equal(ranks_try(), TN_EINPUT);
    assert_non_null(strstr(tn_error_text(), wrong[i]));
  }
  assert_int_equal(unsetenv("PINN_COMM_SECONDS"), 0);
}

static void launchers_are_seen(void **state) {
  (void)state;
  static const char *const counts[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS",
                                       "SLURM_STEP_NUM_TASKS"};
  for (size_t i = 0; i < 4; ++i)
    unsetenv(counts[i]);
  unsetenv("PMIX_RANK");
  unsetenv("MV2_COMM_WORLD_SIZE");
  assert_false(tn_mpi_launched());
  for (size_t i = 0; i < 4; ++i) {
    setenv(counts[i], "1", 1);
    assert_false(tn_mpi_launched());
    setenv(counts[i], "2", 1);
    assert_true(tn_mpi_launched());
    unsetenv(counts[i]);
  }
  setenv("PMIX_RANK", "0", 1); /* a launcher that does not say how many */
  assert_true(tn_mpi_launched());
  unsetenv("PMIX_RANK");
}

static void a_missing_module_says_what_to_do(void **state) {
  (void)state;
  tn_comm *comm = NULL;
  setenv("PINN_MPI_MODULE", "/nonexistent/pinn_mpi.so", 1);
  assert_int_equal(tn_comm_mpi(&comm), TN_EENV);
  assert_null(comm);
  assert_non_null(strstr(tn_error_text(), "/nonexistent/pinn_mpi.so"));
  assert_non_null(strstr(tn_error_text(), "libopenmpi-dev"));
  setenv("PINN_MPI_MODULE", "libm.so.6", 1); /* a library, but not the module */
  assert_int_equal(tn_comm_mpi(&comm), TN_EENV);
  assert_non_null(strstr(tn_error_text(), "not one for this program"));
  unsetenv("PINN_MPI_MODULE");
}

/* ---- Over MPI ---- */

/* A loss and its gradient, and values at the points, by one rank and by all: the bits that differ. */
static size_t check_programs(tn_comm *comm) {
  enum { N = 3000, K = 3 };
  double *x = draw("x", N), got[2][N + K + 1];
  tn_graph *graph = NULL;
  tn_program *program = NULL;
  good(tn_graph_new(&graph));
  tn_value in = tn_input(graph, "x", TN_F64, tn_shape_points(tn_axis_new(graph, "points")));
  tn_value w = tn_parameter(graph, "w", TN_F64, tn_shape_fixed(2, (size_t[]){1, K}));
  tn_value h = tn_tanh(tn_linear(tn_stack(1, &in), w, (tn_value){0}, false)), out[3];
  out[0] = tn_sum(tn_cast(tn_cast(h, TN_F32), TN_F64), 1);
  out[1] = tn_mean(tn_square(tn_sub(out[0], tn_sin(in))));
  good(ag_grad(out[1], 1, &w, &out[2]));
  good(tn_compile(graph, 3, out, &program));
  for (int all = 0; all < 2; ++all) {
    tn_pool *pool = NULL;
    tn_exec *exec = NULL;
    good(tn_pool_new(1, &pool));
    tn_pool_ranks(pool, all ? comm : NULL);
    good(tn_exec_new(program, pool, &exec));
    give(exec, in, 1, (size_t[]){N}, x);
    give(exec, w, 2, (size_t[]){1, K}, (double[]){0.4, -1.5, 0.8});
    for (int again = 0; again < 20; ++again)
      good(tn_exec_run(exec));
    good(tn_exec_read(exec, 0, N, got[all]));
    good(tn_exec_read(exec, 1, 1, got[all] + N));
    good(tn_exec_read(exec, 2, K, got[all] + N + 1));
    tn_exec_free(&exec);
    tn_pool_free(&pool);
  }
  size_t differ = 0;
  for (size_t i = 0; i < N + K + 1; ++i)
    differ += memcmp(&got[0][i], &got[1][i], sizeof got[0][i]) != 0;
  free(x);
  tn_program_free(&program);
  tn_graph_free(&graph);
  return differ;
}

/* What rank 1 does; the others call barriers and end when one fails. */
static int lose_a_rank(tn_comm *comm, const char *scenario) {
  tn_status status = tn_comm_barrier(comm, "start");
  if (status == TN_OK && tn_comm_rank(comm) == 1) {
    if (strcmp(scenario, "kill") == 0)
      raise(SIGKILL);
    if (strcmp(scenario, "stop") == 0)
      raise(SIGSTOP);
    if (strcmp(scenario, "leave") == 0)
      _exit(0);
    if (strcmp(scenario, "abort") == 0)
      tn_comm_abort(comm, 7);
    if (strcmp(scenario, "sleep") == 0)
      sleep(60);
    if (strcmp(scenario, "differ") == 0) {
      char none;
      status = tn_comm_fetch(comm, "another call", 0, 1, &none);
    }
  }
  for (int i = 0; i < 3 && status == TN_OK; ++i)
    status = tn_comm_barrier(comm, "gradient sums");
  fprintf(stderr, "rank %zu ends: %s\n", tn_comm_rank(comm), tn_error_text());
  fflush(stderr);
  tn_comm_abort(comm, 5);
  return 5;
}

static int over_mpi(const char *scenario) {
  tn_comm *comm = NULL;
  if (!tn_mpi_launched()) {
    fprintf(stderr, "no launcher\n");
    return 4;
  }
  if (tn_comm_mpi(&comm) != TN_OK) {
    fprintf(stderr, "%s\n", tn_error_text());
    return 3;
  }
  bool calls = strcmp(scenario, "calls") == 0;
  if (!calls && strcmp(scenario, "programs") != 0)
    return lose_a_rank(comm, scenario);
  size_t defects = calls ? check_calls(comm) : check_programs(comm);
  uint64_t bytes, times;
  double seconds = tn_comm_seconds(comm, &bytes, &times);
  printf("rank %zu of %zu (%s): %s: %zu defects, %llu calls, %.0f us each, %llu bytes\n",
         tn_comm_rank(comm), tn_comm_size(comm), tn_comm_name(comm, tn_comm_rank(comm)), scenario,
         defects, (unsigned long long)times, 1e6 * seconds / (double)times,
         (unsigned long long)bytes);
  fflush(stdout);
  if (defects)
    tn_comm_abort(comm, 1);
  tn_comm_free(&comm);
  return 0;
}

int main(int argc, char **argv) {
  if (argc == 3 && strcmp(argv[1], "mpi") == 0)
    return over_mpi(argv[2]);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(null_is_one_rank),
      cmocka_unit_test(calls_give_what_they_say),
      cmocka_unit_test(a_silent_rank_is_named_within_the_limit),
      cmocka_unit_test(slow_is_not_silent),
      cmocka_unit_test(ranks_out_of_step_are_told_so),
      cmocka_unit_test(abort_reaches_the_class),
      cmocka_unit_test(limits_are_checked),
      cmocka_unit_test(launchers_are_seen),
      cmocka_unit_test(a_missing_module_says_what_to_do),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
