/* graph.c: a run as one CUDA graph.
 *
 * A run is a few dozen kernels and two copies, and putting each into the stream costs the host microseconds. The
 * first run with new storage goes kernel by kernel; it also makes what libraries prepare on demand. The second is
 * captured: the same calls record a graph, which runs then and from then on with one call. Everything that a kernel
 * is given is the same in each run (addresses of blocks, tables and pinned memory; counts), so nothing in the graph
 * needs to change; new extents drop it. What does change, numbers and parameters, goes through pinned memory that
 * the graph's first copy reads. Runs with ranks are not captured, since they wait for other processes.
 *
 * Replays give the same bits: the kernels and their order on the stream are the same.
 */
#include "cuda/executor.h"

#include <stdlib.h>
#include <string.h>

tn_status gpu_replay_wished(bool *off) {
  const char *wish = getenv("PINN_CUDA_GRAPH");
  *off = wish && strcmp(wish, "0") == 0;
  if (wish && wish[0] && !*off && strcmp(wish, "1") != 0)
    return TN_FAIL(TN_EINPUT, "PINN_CUDA_GRAPH is `%s`, expected 0 or 1", wish);
  return TN_OK;
}

void gpu_replay_drop(gpu_exec *x) {
  if (x->replay.graph)
    (void)x->g->driver->cuGraphExecDestroy(x->replay.graph);
  x->replay.graph = NULL;
  x->replay.runs = 0;
}

/* Ends the recording whatever became of it: a stream that goes on recording would be lost for all work. */
static CUresult end_capture(gpu_context *g, CUgraph *graph) {
  CUstreamCaptureStatus now = CU_STREAM_CAPTURE_STATUS_NONE;
  CUresult ended = g->driver->cuStreamEndCapture(g->stream, graph);
  if (ended == CUDA_SUCCESS)
    return ended;
  *graph = NULL;
  if (g->driver->cuStreamIsCapturing(g->stream, &now) == CUDA_SUCCESS &&
      now != CU_STREAM_CAPTURE_STATUS_NONE) {
    CUgraph rest = NULL;
    (void)g->driver->cuStreamEndCapture(g->stream, &rest);
    if (rest)
      (void)g->driver->cuGraphDestroy(rest);
  }
  return ended;
}

/* Records what gpu_enqueue does. Nothing of it runs. */
static tn_status capture(tn_exec *exec, gpu_exec *x) {
  gpu_context *g = x->g;
  CUgraph graph = NULL;
  GPU_TRY(g, cuStreamBeginCapture, (g->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  tn_status status = gpu_enqueue(exec, x, TN_OK);
  CUresult ended = end_capture(g, &graph);
  if (status == TN_OK)
    status = gpu_result(g, ended, "cuStreamEndCapture");
  if (status == TN_OK)
    status = gpu_result(g, g->driver->cuGraphInstantiate(&x->replay.graph, graph, 0),
                        "cuGraphInstantiate");
  if (status != TN_OK)
    x->replay.graph = NULL;
  if (graph)
    (void)g->driver->cuGraphDestroy(graph);
  return status;
}

tn_status gpu_replay_run(tn_exec *exec, gpu_exec *x, tn_status status) {
  gpu_context *g = x->g;
  bool alone = !exec->comm || tn_comm_size(exec->comm) == 1;
  if (x->replay.off || !alone || x->replay.runs == 0) {
    TN_TRY(gpu_enqueue(exec, x, status));
    ++x->replay.runs;
    return TN_OK;
  }
  TN_TRY(status);
  if (!x->replay.graph)
    status = capture(exec, x);
  if (status != TN_OK && g->broken)
    return status; /* nothing goes any more */
  if (status != TN_OK) {
    tn_log_write(TN_LOG_WARNING,
                 "a run on the device could not be captured and goes kernel by kernel: %s",
                 tn_error_text());
    tn_error_clear();
    x->replay.off = true;
    return gpu_enqueue(exec, x, TN_OK);
  }
  GPU_TRY(g, cuGraphLaunch, (x->replay.graph, g->stream));
  return TN_OK;
}
