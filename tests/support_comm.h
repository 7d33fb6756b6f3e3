/* support_comm.h: communicators of ranks that are threads of one process, for tests without a launcher.
 *
 * Each rank's communicator is used by its own thread. Messages go through queues in memory; a message of
 * tn_comm_post is read from where the sender keeps it when the receiver takes it. Ranks can be made silent or slow.
 * Assertions of cmocka must stay out of bodies: they belong to the thread that runs the test.
 */
#ifndef TESTS_SUPPORT_COMM_H
#define TESTS_SUPPORT_COMM_H

#include "tensor/tensor.h"

typedef struct ranks_world ranks_world;
typedef struct ranks_self { /* what a rank's thread sees */
  ranks_world *world;
  tn_comm *comm;
  size_t rank, size;
  void *context;
} ranks_self;

/* Runs body once a rank, each in a thread of its own, and returns when all have ended; fails the test if the world
 * cannot be made. limit: seconds of each call. */
void ranks_run(size_t ranks, double limit, void (*body)(const ranks_self *self), void *context);
/* Makes a communicator of one rank in this thread and frees it: the status of making it. */
tn_status ranks_try(void);
/* From now on the rank sends nothing and answers nobody (its own calls wait until the limit). Any thread. */
void ranks_silence(ranks_world *world, size_t rank);
/* Every message of the rank is on its way for so long. */
void ranks_delay(ranks_world *world, size_t rank, double seconds);
/* The exit status of tn_comm_abort, or -1. */
int ranks_aborted(ranks_world *world);
/* Sends started so far by a rank, as a count of its collective calls. */
size_t ranks_calls(ranks_world *world, size_t rank);

#endif
