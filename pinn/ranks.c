/* ranks.c: several processes that train together: decisions, digests, cores.
 *
 * Every rank runs the same control flow on the same numbers, so nearly everything is decided by all of them alike and
 * needs no message. What is left: what one rank alone can see (files, signals, time) is told to the others, and a
 * failure of one rank turns all of them back together (agree). `known` remembers that the others have the same
 * failure in hand; a rank that fails without it must end the others by force, or they would wait for it.
 *
 * Cores. mpirun may bind each rank to a core of its own, to a socket that several share, or, with more ranks than
 * cores, to nothing. A core that k ranks of one machine may use is worth 1/k thread to each of them, which covers all
 * three cases and needs no word from the launcher.
 */
#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* sched_getaffinity: the cores that this process may use */
#endif
#include "pinn/ranks.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool pn_ranks_lead(const pn_ranks *ranks) { return !ranks || !ranks->comm || tn_comm_rank(ranks->comm) == 0; }

size_t pn_ranks_size(const pn_ranks *ranks) { return ranks && ranks->comm ? tn_comm_size(ranks->comm) : 1; }

/* ---- Decisions ------------------------------------------------------------------------------- */

/* Both give the same status to every rank, unless the ranks cannot reach each other any more. */
static tn_status note(pn_ranks *ranks, tn_status status) {
  ranks->known = status != TN_OK && status != TN_EPEER;
  return status;
}

tn_status pn_ranks_agree(pn_ranks *ranks, const char *what, tn_status status) {
  if (!ranks || !ranks->comm)
    return status;
  if (status == TN_EPEER) /* there is nobody to agree with */
    return status;
  return note(ranks, tn_comm_agree(ranks->comm, what, status));
}

tn_status pn_ranks_same(pn_ranks *ranks, const char *what, uint64_t digest) {
  if (!ranks || !ranks->comm)
    return TN_OK;
  return note(ranks, tn_comm_same(ranks->comm, what, digest));
}

tn_status pn_ranks_text(pn_ranks *ranks, const char *what, char **text) {
  if (!ranks || !ranks->comm)
    return TN_OK;
  const bool lead = pn_ranks_lead(ranks);
  uint64_t size = lead && *text ? strlen(*text) + 1 : 0;
  TN_TRY(tn_comm_broadcast(ranks->comm, what, 0, sizeof size, &size));
  tn_status status = TN_OK;
  if (!lead) {
    tn_free(text);
    if (size)
      status = tn_new((size_t)size, 1, text);
  }
  TN_TRY(pn_ranks_agree(ranks, what, status));
  return size ? tn_comm_broadcast(ranks->comm, what, 0, (size_t)size, *text) : TN_OK;
}

uint64_t pn_digest(uint64_t digest, size_t n, const void *bytes) {
  const unsigned char *at = bytes;
  for (; n > 0; at += 8, n -= n < 8 ? n : 8) { /* FNV's prime, on words, folded so that high bits count below */
    uint64_t word = 0;
    memcpy(&word, at, n < 8 ? n : 8);
    digest = (digest ^ word) * UINT64_C(0x100000001b3);
    digest ^= digest >> 29;
  }
  return digest;
}

/* ---- Cores ----------------------------------------------------------------------------------- */

enum { CORES = 1024 };
typedef struct place { /* of a rank */
  char machine[64];
  uint64_t cores[CORES / 64]; /* that it may use */
} place;

static void look_around(place *here) {
  memset(here, 0, sizeof *here);
  (void)gethostname(here->machine, sizeof here->machine - 1);
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    for (size_t c = 0; c < CORES && c < CPU_SETSIZE; ++c)
      if (CPU_ISSET(c, &set))
        here->cores[c / 64] |= UINT64_C(1) << c % 64;
    return;
  }
#endif
  long n = sysconf(_SC_NPROCESSORS_ONLN);
  for (size_t c = 0; c < CORES && (c == 0 || (long)c < n); ++c)
    here->cores[c / 64] |= UINT64_C(1) << c % 64;
}

static bool may_use(const place *p, size_t core) { return p->cores[core / 64] >> core % 64 & 1; }

/* The sum over the cores of rank r of 1 / ranks that may use them. */
static size_t share_of(size_t n, const place *all, size_t r) {
  double threads = 0;
  for (size_t c = 0; c < CORES; ++c) {
    size_t users = 0;
    for (size_t k = 0; may_use(&all[r], c) && k < n; ++k)
      users += may_use(&all[k], c) && strcmp(all[k].machine, all[r].machine) == 0;
    threads += users ? 1 / (double)users : 0;
  }
  return threads > 1 ? (size_t)(threads + 1e-6) : 1;
}

tn_status pn_ranks_threads(pn_ranks *ranks, size_t *threads) {
  if (!ranks || !ranks->comm)
    return TN_OK; /* tn_pool_new knows */
  const size_t n = tn_comm_size(ranks->comm);
  size_t *bytes = NULL;
  place here, *all = NULL;
  look_around(&here);
  tn_status status = TN_NEW(n, &bytes);
  if (status == TN_OK)
    status = TN_NEW(n, &all);
  for (size_t r = 0; status == TN_OK && r < n; ++r)
    bytes[r] = sizeof here;
  status = pn_ranks_agree(ranks, "cores", status);
  if (status == TN_OK)
    status = tn_comm_gather(ranks->comm, "cores", bytes, &here, all);
  if (status == TN_OK && *threads == 0)
    *threads = share_of(n, all, tn_comm_rank(ranks->comm));
  tn_free(&bytes);
  tn_free(&all);
  return status;
}

/* ---- Words ----------------------------------------------------------------------------------- */

const char *pn_ranks_words(const tn_comm *comm, size_t threads, char text[80]) {
  const size_t n = comm ? tn_comm_size(comm) : 1;
  int used = 0;
  text[0] = '\0';
  if (comm)
    used = snprintf(text, 80, "%zu rank%s x ", n, n == 1 ? "" : "s");
  used += snprintf(text + used, 80 - (size_t)used, "%zu thread%s", threads, threads == 1 ? "" : "s");
  if (comm)
    snprintf(text + used, 80 - (size_t)used, ", %.20s", tn_comm_kind(comm));
  return text;
}
