/* audit.h: the audit of a problem's training step in several number formats. */
#ifndef PINN_CLI_AUDIT_H
#define PINN_CLI_AUDIT_H

#include "pinn/pinn.h"
#include "validate/validate.h"

typedef struct cli_format {
  const char *name, *long_name, *pure_name; /* pure_name NULL: there is no such thing */
  tn_dtype dtype;
  unsigned products; /* 3: three products of the format for one */
} cli_format;
enum { CLI_FORMATS = 8 };
extern const cli_format cli_formats[CLI_FORMATS];

typedef struct cli_audit {
  const char *weights; /* trained; NULL: fresh */
  size_t points;       /* of each set; 0: the audit's own choice */
  uint64_t seed;
  bool pure;     /* of the formats that can be */
  bool formulas; /* gradients against differences, too */
  const vd_options *options;
  size_t n_formats;
  const size_t *formats; /* indices into cli_formats; the first is f64 */
  size_t judged;         /* index into formats */
} cli_audit;

/* floors: n_formats predicted errors, or NULL. */
tn_status cli_audit_problem(const cli_audit *audit, pn_problem *problem, vd_report *report,
                            double *floors) TN_MUST_USE;

/* For pn_solve_options: what rounding leaves, predicted by an audit of the result. context: the options. */
double cli_floor(void *context, const char *result, tn_dtype low, bool pure, unsigned products);

#endif
