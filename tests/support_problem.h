/* support_problem.h: small problem files for tests. */
#ifndef TESTS_SUPPORT_PROBLEM_H
#define TESTS_SUPPORT_PROBLEM_H

#include "pinn/problem.h"

/* A problem of a text, freed by pn_problem_free; the test fails if it is refused. */
pn_problem *problem_of(const char *text);
pn_problem *problem_with(const char *text, size_t n_overrides, const char *const *overrides);
/* A file with coordinates x in [0, 2], y in [-1, 3] and t in [0, 1], constants nu = 0.1 and c = 2,
 * unknowns u(x, t), v(x, y) and s(t), and these lines of [definitions], [equations] and
 * [conditions] (NULL: none; without equations it has "u_t = v + s"). */
pn_problem *problem_of_parts(const char *definitions, const char *equations,
                             const char *conditions);
/* The text must be refused with this code; every part (NULL ends them) must occur in the error. */
void expect_refusal(const char *text, tn_status code, ...);
/* The same for problem_of_parts. */
void expect_parts_refusal(const char *definitions, const char *equations, const char *conditions,
                          tn_status code, ...);
/* The canonical text of an expression in the names of a problem. */
const char *printed(pn_problem *problem, const pn_expr *expr);

#endif
