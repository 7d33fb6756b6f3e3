/* test_factor.c: laws of the table of factorisations, on LAPACK and, where there is an emulated device, on cuSOLVER's.
 *
 * Tolerances. Householder QR: the computed R and the exact Q belong to A + dA with |dA| <= 4 m k u |A|_F, k reflectors
 * (Higham 2002, theorem 19.4, with 4 for its small constant). An SVD is a sequence of such, 4 n^2 u s_1, and the same
 * for its singular values by Weyl. Cholesky: |L L^T - A| <= (n + 1) u |L| |L|^T (theorem 10.3). A product of length
 * m: m u |A|^T |A|.
 */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pinn/factor.h"
#include "pinn/vector.h"
#include "tensor/backend.h"
#ifdef EMULATED_CUDA_DIR
#include "cuda/cuda_backend.h"
#endif

#define U 0x1p-53
#define GOOD(call) assert_int_equal((call), TN_OK)

/* ---- Matrices, by columns -------------------------------------------------------------------- */

static double *numbers(size_t n) {
  double *x = NULL;
  GOOD(TN_NEW(n, &x));
  return x;
}

static double *random_matrix(size_t m, size_t n, uint64_t seed) {
  double *A = numbers(m * n);
  tn_stream stream = tn_stream_of(seed, "factor");
  for (size_t i = 0; i < m * n; ++i)
    A[i] = 2 * tn_random_uniform(stream, i) - 1;
  return A;
}

static double *copy_of(size_t n, const double *A) {
  double *B = numbers(n);
  memcpy(B, A, n * sizeof *B);
  return B;
}

static double norm(size_t n, const double *A) {
  double s = 0;
  for (size_t i = 0; i < n; ++i)
    s += A[i] * A[i];
  return sqrt(s);
}

/* The largest entry of |X^T X - 1|, X[m x n] with m >= n, sums in the wide format so that they add no error. */
static double off_orthogonal(size_t m, size_t n, const double *X) {
  double most = 0;
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j <= i; ++j) {
      long double s = 0;
      for (size_t k = 0; k < m; ++k)
        s += (long double)X[k + i * m] * X[k + j * m];
      most = fmax(most, fabs((double)(s - (i == j))));
    }
  return most;
}

static const size_t shapes[][2] = {{1, 1},   {5, 1},   {1, 5},    {2, 2},    {7, 7},
                                   {40, 13}, {13, 40}, {200, 64}, {64, 200}, {131, 97}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* ---- QR -------------------------------------------------------------------------------------- */

typedef struct factored {
  size_t m, n, k;
  double *A, *QR, *tau; /* the matrix and what became of it */
  tn_factor_work *work;
} factored;

static factored factor(const tn_factor *f, size_t m, size_t n, double *A) {
  factored x = {m, n, m < n ? m : n, A, copy_of(m * n, A), numbers(n), NULL};
  GOOD(f->work_new(f, m, n, &x.work));
  GOOD(f->qr(f, x.work, m, n, x.QR, x.tau));
  return x;
}

static void drop(const tn_factor *f, factored *x) {
  f->work_free(f, &x->work);
  assert_null(x->work);
  tn_free(&x->A);
  tn_free(&x->QR);
  tn_free(&x->tau);
}

/* Q^T A is R above and on the diagonal, and nothing below. */
static void qr_gives_back_the_matrix(const tn_factor *f) {
  double most = 0;
  for (size_t s = 0; s < SHAPES; ++s) {
    size_t m = shapes[s][0], n = shapes[s][1];
    factored x = factor(f, m, n, random_matrix(m, n, s));
    double *C = copy_of(m * n, x.A), *D = numbers(m * n);
    GOOD(f->qr_apply(f, x.work, m, n, x.k, x.QR, x.tau, C));
    for (size_t j = 0; j < n; ++j)
      for (size_t i = 0; i < m; ++i)
        D[i + j * m] = C[i + j * m] - (i <= j ? x.QR[i + j * m] : 0);
    double share = norm(m * n, D) / ((double)(4 * m * x.k) * U * norm(m * n, x.A));
    assert_true(share <= 1);
    most = fmax(most, share);
    tn_free(&C);
    tn_free(&D);
    drop(f, &x);
  }
  print_message("%s: |Q^T A - R| is at most %.2g of its bound\n", f->name, most);
}

static void q_is_orthogonal_and_keeps_lengths(const tn_factor *f) {
  for (size_t s = 0; s < SHAPES; ++s) {
    size_t m = shapes[s][0], n = shapes[s][1];
    factored x = factor(f, m, n, random_matrix(m, n, s + 50));
    double *Q = numbers(m * m), *c = random_matrix(m, 1, s);
    double length = norm(m, c), bound = (double)(4 * m * x.k) * U;
    for (size_t i = 0; i < m; ++i)
      Q[i + i * m] = 1;
    GOOD(f->qr_apply(f, x.work, m, m, x.k, x.QR, x.tau, Q));
    assert_true(off_orthogonal(m, m, Q) <= 2 * bound);
    GOOD(f->qr_apply(f, x.work, m, 1, x.k, x.QR, x.tau, c));
    assert_true(fabs(norm(m, c) / length - 1) <= bound);
    tn_free(&Q);
    tn_free(&c);
    drop(f, &x);
  }
}

/* k reflectors of the first k columns: those columns become triangular, whatever follows them. */
static void some_reflectors_serve_their_columns(const tn_factor *f) {
  enum { M = 60, N = 24, K = 11 };
  factored x = factor(f, M, N, random_matrix(M, N, 3));
  double *C = copy_of(M * K, x.A), below = 0;
  GOOD(f->qr_apply(f, x.work, M, K, K, x.QR, x.tau, C));
  for (size_t j = 0; j < K; ++j)
    for (size_t i = j + 1; i < M; ++i)
      below = fmax(below, fabs(C[i + j * M]));
  assert_true(below <= 4 * M * K * U * norm(M * K, x.A));
  assert_int_equal(f->qr_apply(f, x.work, 3, 1, 4, x.QR, x.tau, C), TN_ESHAPE);
  assert_non_null(strstr(tn_error_text(), "4 reflectors of 3 rows"));
  tn_free(&C);
  drop(f, &x);
}

/* ---- Singular values ------------------------------------------------------------------------- */

typedef struct parts {
  double *s, *left, *right; /* U, V^T */
} parts;

static parts decompose(const tn_factor *f, size_t n, const double *A) {
  parts p = {numbers(n), numbers(n * n), numbers(n * n)};
  double *B = copy_of(n * n, A);
  tn_factor_work *work = NULL;
  GOOD(f->work_new(f, n, n, &work));
  GOOD(f->svd(f, work, n, B, p.s, p.left, p.right));
  f->work_free(f, &work);
  tn_free(&B);
  return p;
}

static void drop_parts(parts *p) {
  tn_free(&p->s);
  tn_free(&p->left);
  tn_free(&p->right);
}

/* The largest of |A - U diag(s) V^T|. */
static double off_product(size_t n, const double *A, const parts *p) {
  double most = 0;
  for (size_t j = 0; j < n; ++j)
    for (size_t i = 0; i < n; ++i) {
      long double x = -(long double)A[i + j * n];
      for (size_t k = 0; k < n; ++k)
        x += (long double)p->left[i + k * n] * p->s[k] * p->right[k + j * n];
      most = fmax(most, fabs((double)x));
    }
  return most;
}

/* Returns |A - U diag(s) V^T| over its bound. */
static double check_parts(size_t n, const double *A, const parts *p) {
  double bound = 4 * (double)(n * n) * U, *V = numbers(n * n);
  for (size_t j = 0; j < n; ++j)
    for (size_t i = 0; i < n; ++i)
      V[i + j * n] = p->right[j + i * n];
  for (size_t k = 0; k < n; ++k)
    assert_true(p->s[k] >= 0 && (k == 0 || p->s[k] <= p->s[k - 1]));
  assert_true(off_orthogonal(n, n, p->left) <= 2 * bound);
  assert_true(off_orthogonal(n, n, V) <= 2 * bound);
  tn_free(&V);
  double off = off_product(n, A, p);
  assert_true(off <= bound * p->s[0]);
  return p->s[0] > 0 ? off / (bound * p->s[0]) : 0;
}

static void svd_gives_back_the_matrix(const tn_factor *f) {
  static const size_t sizes[] = {1, 2, 3, 17, 64, 101};
  double most = 0;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
    size_t n = sizes[i];
    double *A = random_matrix(n, n, i);
    parts p = decompose(f, n, A);
    most = fmax(most, check_parts(n, A, &p));
    drop_parts(&p);
    tn_free(&A);
  }
  print_message("%s: |A - U s V^T| is at most %.2g of its bound\n", f->name, most);
}

/* H1 D H2 with reflections H: singular values 1 to 1e-16, and one that is 0. */
static double *graded(size_t n, double *s) {
  double *A = numbers(n * n), *h[2] = {random_matrix(n, 1, 8), random_matrix(n, 1, 9)};
  for (size_t side = 0; side < 2; ++side)
    pn_scale(n, sqrt(2) / norm(n, h[side]), h[side]);
  for (size_t k = 0; k < n; ++k)
    s[k] = k + 1 < n ? pow(10, -16 * (double)k / (double)(n - 2)) : 0;
  for (size_t j = 0; j < n; ++j)
    for (size_t i = 0; i < n; ++i) {
      long double x = 0;
      for (size_t k = 0; k < n; ++k)
        x += ((i == k) - (long double)h[0][i] * h[0][k]) * s[k] *
             ((k == j) - (long double)h[1][k] * h[1][j]);
      A[i + j * n] = (double)x;
    }
  tn_free(&h[0]);
  tn_free(&h[1]);
  return A;
}

static void small_singular_values_are_seen(const tn_factor *f) {
  enum { N = 30 };
  double s[N], off = 0, *A = graded(N, s);
  parts p = decompose(f, N, A);
  check_parts(N, A, &p);
  for (size_t k = 0; k < N; ++k)
    off = fmax(off, fabs(p.s[k] - s[k]));
  /* the entries of A are rounded, n u s_1 together, and the reflections are off by 4 u or so in h^T h = 2 */
  print_message("%s: singular values 1 to 1e-16 and 0 are found to %.2g\n", f->name, off);
  assert_true(off <= (4.0 * N * N + N + 16) * U);
  drop_parts(&p);
  tn_free(&A);
}

static void zero_matrices_have_factors(const tn_factor *f) {
  enum { M = 6, N = 4 };
  factored x = factor(f, M, N, numbers(M * N));
  for (size_t i = 0; i < M * N; ++i)
    assert_true(x.QR[i] == 0);
  for (size_t i = 0; i < N; ++i)
    assert_true(x.tau[i] == 0);
  double *c = random_matrix(M, 1, 1), *d = copy_of(M, c);
  GOOD(f->qr_apply(f, x.work, M, 1, N, x.QR, x.tau, c));
  assert_memory_equal(c, d, M * sizeof *c); /* Q = 1 */
  parts p = decompose(f, N, x.A);
  for (size_t i = 0; i < N; ++i)
    assert_true(p.s[i] == 0);
  assert_true(off_orthogonal(N, N, p.left) <= 8 * N * N * U);
  drop_parts(&p);
  tn_free(&c);
  tn_free(&d);
  drop(f, &x);
}

/* ---- Symmetric matrices ---------------------------------------------------------------------- */

static void products_with_itself_are_right(const tn_factor *f) {
  tn_factor_work *work = NULL;
  for (size_t s = 0; s < SHAPES; ++s) {
    size_t m = shapes[s][0], n = shapes[s][1];
    double *A = random_matrix(m, n, s + 20), *C = numbers(n * n);
    for (size_t i = 0; i < n * n; ++i)
      C[i] = 77;
    GOOD(f->work_new(f, m, n, &work));
    GOOD(f->syrk(f, work, m, n, A, C));
    f->work_free(f, &work);
    for (size_t j = 0; j < n; ++j)
      for (size_t i = 0; i < n; ++i) {
        long double sum = 0, size = 0;
        for (size_t k = 0; k < m; ++k) {
          long double term = (long double)A[k + i * m] * A[k + j * m];
          sum += term;
          size += fabsl(term);
        }
        if (i < j)
          assert_true(C[i + j * n] == 77);
        else
          assert_true(fabsl(C[i + j * n] - sum) <= m * (long double)U * size);
      }
    tn_free(&A);
    tn_free(&C);
  }
}

/* B^T B + 1, both triangles. */
static double *positive(size_t n, uint64_t seed) {
  double *B = random_matrix(n, n, seed), *A = numbers(n * n);
  for (size_t j = 0; j < n; ++j)
    for (size_t i = 0; i < n; ++i) {
      A[i + j * n] = i == j;
      for (size_t k = 0; k < n; ++k)
        A[i + j * n] += B[k + i * n] * B[k + j * n];
    }
  tn_free(&B);
  return A;
}

static void cholesky_gives_back_the_matrix(const tn_factor *f) {
  static const size_t sizes[] = {1, 2, 9, 65, 150};
  tn_factor_work *work = NULL;
  for (size_t c = 0; c < sizeof sizes / sizeof *sizes; ++c) {
    size_t n = sizes[c];
    double *A = positive(n, c), *L = copy_of(n * n, A);
    GOOD(f->work_new(f, n, n, &work));
    GOOD(f->cholesky(f, work, n, L));
    f->work_free(f, &work);
    for (size_t j = 0; j < n; ++j)
      for (size_t i = j; i < n; ++i) {
        long double sum = 0, size = 0;
        for (size_t k = 0; k <= j; ++k) {
          sum += (long double)L[i + k * n] * L[j + k * n];
          size += fabsl((long double)L[i + k * n] * L[j + k * n]);
        }
        assert_true(fabsl(sum - A[i + j * n]) <= (n + 1) * (long double)U * size);
      }
    tn_free(&A);
    tn_free(&L);
  }
}

static void minor_that_is_not_positive_is_named(const tn_factor *f) {
  enum { N = 40, AT = 17 };
  tn_factor_work *work = NULL;
  double *A = positive(N, 4);
  GOOD(f->work_new(f, N, N, &work));
  A[(AT - 1) * (N + 1)] = -1; /* the first AT - 1 rows and columns stay positive definite */
  assert_int_equal(f->cholesky(f, work, N, A), TN_ERANGE);
  assert_non_null(strstr(tn_error_text(), "minor of order 17"));
  tn_free(&A);
  f->work_free(f, &work);
}

/* ---- What may go wrong ----------------------------------------------------------------------- */

static void nan_ends_in_words_or_in_nan(const tn_factor *f) {
  enum { N = 20 };
  const double odd[] = {NAN, INFINITY, -INFINITY};
  tn_factor_work *work = NULL;
  double tau[N], s[N], *B = numbers(N * N), *Vt = numbers(N * N);
  GOOD(f->work_new(f, N, N, &work));
  for (size_t k = 0; k < 3; ++k) {
    double *A = positive(N, k);
    A[3 + 2 * N] = odd[k];
    double *R = copy_of(N * N, A);
    assert_int_equal(f->svd(f, work, N, A, s, B, Vt), TN_ENONFINITE);
    assert_non_null(strstr(tn_error_text(), "entry (3, 2)"));
    assert_int_equal(f->cholesky(f, work, N, A), TN_ENONFINITE);
    GOOD(f->qr(f, work, N, N, R, tau)); /* a value as others: what comes out says so */
    assert_false(pn_all_finite(N * N, R));
    tn_free(&A);
    tn_free(&R);
  }
  double *A = positive(N, 1); /* above the diagonal nobody looks */
  A[2 + 3 * N] = NAN;
  GOOD(f->cholesky(f, work, N, A));
  tn_free(&A);
  tn_free(&B);
  tn_free(&Vt);
  f->work_free(f, &work);
}

static void sizes_beyond_32_bits_are_refused(const tn_factor *f) {
  tn_factor_work *work = NULL;
  const size_t m = 70000, n = 40000, far = (size_t)1 << 40;
  double x = 0;
  GOOD(f->work_new(f, 1, 1, &work));
  assert_int_equal(f->qr(f, work, m, n, &x, &x), TN_EUNSUPPORTED);
  assert_non_null(strstr(tn_error_text(), "QR of 70000 x 40000 numbers"));
  assert_int_equal(f->qr(f, work, far, 1, &x, &x), TN_EUNSUPPORTED);
  assert_int_equal(f->qr_apply(f, work, far, 1, 1, &x, &x, &x), TN_EUNSUPPORTED);
  assert_int_equal(f->qr_apply(f, work, m, 1, n, &x, &x, &x), TN_EUNSUPPORTED);
  assert_int_equal(f->svd(f, work, m, &x, &x, &x, &x), TN_EUNSUPPORTED);
  assert_int_equal(f->cholesky(f, work, m, &x), TN_EUNSUPPORTED);
  assert_int_equal(f->syrk(f, work, m, n, &x, &x), TN_EUNSUPPORTED);
  assert_int_equal(f->syrk(f, work, 1, m, &x, &x), TN_EUNSUPPORTED);
  f->work_free(f, &work);
  assert_int_equal(f->work_new(f, m, n, &work), TN_EUNSUPPORTED);
  assert_null(work);
}

static void nothing_has_factors_of_nothing(const tn_factor *f) {
  tn_factor_work *work = NULL;
  double C[4] = {5, 5, 5, 5};
  GOOD(f->work_new(f, 0, 0, &work));
  GOOD(f->qr(f, work, 0, 3, C, C));
  GOOD(f->qr(f, work, 3, 0, C, C));
  GOOD(f->qr_apply(f, work, 2, 2, 0, C, C, C));
  GOOD(f->svd(f, work, 0, C, C, C, C));
  GOOD(f->cholesky(f, work, 0, C));
  assert_true(C[0] == 5 && C[3] == 5);
  GOOD(f->syrk(f, work, 0, 2, C, C)); /* a sum of no terms */
  assert_true(C[0] == 0 && C[1] == 0 && C[2] == 5 && C[3] == 0);
  f->work_free(f, &work);
  f->work_free(f, &work);
}

/* A call fails at each of its allocations, and the next one works. */
static void lack_of_memory_is_told(const tn_factor *f) {
  enum { N = 12 };
  double *A = random_matrix(N, N, 2), *B = numbers(N * N), tau[N], s[N], *Vt = numbers(N * N),
         *V = numbers(N * N);
  bool done = false;
  for (uint64_t n = 1; !done && n < 200; ++n) {
    tn_factor_work *work = NULL;
    memcpy(B, A, N * N * sizeof *A);
    tn_fault_at(n, false);
    tn_status status = f->work_new(f, N, N, &work);
    if (status == TN_OK)
      status = f->qr(f, work, N, N, B, tau);
    if (status == TN_OK)
      status = f->svd(f, work, N, B, s, V, Vt);
    done = tn_fault_count() < n;
    tn_fault_at(0, false);
    assert_int_equal(status, done ? TN_OK : TN_ENOMEM);
    f->work_free(f, &work);
  }
  assert_true(done);
  tn_free(&A);
  tn_free(&B);
  tn_free(&V);
  tn_free(&Vt);
}

/* ---- Side by side ---------------------------------------------------------------------------- */

enum { SIDES = 3, SIDE = 90 };
typedef struct side {
  const tn_factor *f;
  double *A, *tau;
  tn_status status;
} side;

static void *run_side(void *context) {
  side *s = context;
  tn_factor_work *work = NULL;
  s->status = s->f->work_new(s->f, SIDE, SIDE, &work);
  if (s->status == TN_OK)
    s->status = s->f->qr(s->f, work, SIDE, SIDE, s->A, s->tau);
  s->f->work_free(s->f, &work);
  return NULL;
}

static void works_side_by_side_have_the_same_bits(const tn_factor *f) {
  double *A = random_matrix(SIDE, SIDE, 5);
  side s[SIDES];
  pthread_t thread[SIDES];
  factored x = factor(f, SIDE, SIDE, A);
  for (size_t k = 0; k < SIDES; ++k) {
    s[k] = (side){f, copy_of(SIDE * SIDE, A), numbers(SIDE), TN_OK};
    assert_int_equal(pthread_create(&thread[k], NULL, run_side, &s[k]), 0);
  }
  for (size_t k = 0; k < SIDES; ++k) {
    assert_int_equal(pthread_join(thread[k], NULL), 0);
    GOOD(s[k].status);
    assert_memory_equal(s[k].A, x.QR, SIDE * SIDE * sizeof *A);
    assert_memory_equal(s[k].tau, x.tau, SIDE * sizeof *A);
    tn_free(&s[k].A);
    tn_free(&s[k].tau);
  }
  drop(f, &x);
}

/* ---- Tables ---------------------------------------------------------------------------------- */

static tn_factor other;
static const tn_factor *other_factor(tn_device *device) {
  (void)device;
  return &other;
}

static void a_device_without_a_table_leaves_lapack(void **state) {
  (void)state;
  static const tn_backend bare = {.name = "bare"}, full = {.name = "full", .factor = other_factor};
  tn_device without = {&bare}, with = {&full};
  assert_string_equal(pn_factor(NULL)->name, "lapack");
  assert_ptr_equal(pn_factor(&without), pn_factor(NULL));
  assert_ptr_equal(pn_factor(&with), &other);
}

static const tn_factor *tables[2];
static size_t n_tables = 1;

#define LAW(name)                                                                                  \
  static void test_##name(void **state) {                                                          \
    (void)state;                                                                                   \
    for (size_t k = 0; k < n_tables; ++k)                                                          \
      name(tables[k]);                                                                             \
  }
LAW(qr_gives_back_the_matrix)
LAW(q_is_orthogonal_and_keeps_lengths)
LAW(some_reflectors_serve_their_columns)
LAW(svd_gives_back_the_matrix)
LAW(small_singular_values_are_seen)
LAW(zero_matrices_have_factors)
LAW(products_with_itself_are_right)
LAW(cholesky_gives_back_the_matrix)
LAW(minor_that_is_not_positive_is_named)
LAW(nan_ends_in_words_or_in_nan)
LAW(sizes_beyond_32_bits_are_refused)
LAW(nothing_has_factors_of_nothing)
LAW(lack_of_memory_is_told)
LAW(works_side_by_side_have_the_same_bits)

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_qr_gives_back_the_matrix),
      cmocka_unit_test(test_q_is_orthogonal_and_keeps_lengths),
      cmocka_unit_test(test_some_reflectors_serve_their_columns),
      cmocka_unit_test(test_svd_gives_back_the_matrix),
      cmocka_unit_test(test_small_singular_values_are_seen),
      cmocka_unit_test(test_zero_matrices_have_factors),
      cmocka_unit_test(test_products_with_itself_are_right),
      cmocka_unit_test(test_cholesky_gives_back_the_matrix),
      cmocka_unit_test(test_minor_that_is_not_positive_is_named),
      cmocka_unit_test(test_nan_ends_in_words_or_in_nan),
      cmocka_unit_test(test_sizes_beyond_32_bits_are_refused),
      cmocka_unit_test(test_nothing_has_factors_of_nothing),
      cmocka_unit_test(test_lack_of_memory_is_told),
      cmocka_unit_test(test_works_side_by_side_have_the_same_bits),
      cmocka_unit_test(a_device_without_a_table_leaves_lapack),
  };
  tables[0] = pn_factor(NULL);
#ifdef EMULATED_CUDA_DIR
  tn_device *device = NULL;
  const char *wish = getenv("PINN_TEST_DEVICE");
  if (wish == NULL || strcmp(wish, "real") != 0)
    setenv("PINN_CUDA_PATH", EMULATED_CUDA_DIR, 1);
  setenv("LAPACKE_NANCHECK", "0", 1); /* the emulated cuSOLVER is LAPACK; cuSOLVER does not look for NaN */
  if (gpu_open(0, &device) != TN_OK) {
    print_error("no emulated device: %s\n", tn_error_text());
    return 1;
  }
  tables[n_tables++] = pn_factor(device);
#endif
  int status = cmocka_run_group_tests(tests, NULL, NULL);
#ifdef EMULATED_CUDA_DIR
  tn_device_close(&device);
#endif
  return status;
}
