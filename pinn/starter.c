/* starter.c: small complete problems to be changed into one's own.
 *
 * Each text solves as it stands, has a known solution so that `pinn check` can show what a mistake looks like, and names
 * in comments what people look for first.
 */
#include "pinn/pinn.h"

#include <string.h>

#include "pinn/files.h"

static const char ode[] =
    "title = \"A damped oscillator\"\n"
    "\n"
    "[domain]\n"
    "t = [0, 6]                        # the name t means the time\n"
    "\n"
    "[constants]\n"
    "c = 0.2\n"
    "w = \"sqrt(1 - c^2)\"               # a number may be an expression\n"
    "\n"
    "[unknowns]\n"
    "y = \"t\"                           # y depends on t\n"
    "\n"
    "[equations]\n"
    "motion = \"y_tt + 2*c*y_t + y = 0\" # y_tt: the second derivative along t\n"
    "\n"
    "[conditions]\n"
    "start = { on = \"t = 0\", equation = [\"y = 1\", \"y_t = 0\"] }\n"
    "\n"
    "[exact]                           # if known: it is checked and compared, never trained\n"
    "y = \"exp(-c*t)*(cos(w*t) + c/w*sin(w*t))\"\n"
    "\n"
    "[accept]\n"
    "error = 1e-3                      # relative L2; the exit status is 0 only if it is met\n";

static const char heat[] =
    "title = \"Heat in a rod\"\n"
    "\n"
    "[domain]\n"
    "x = [0, 1]                        # space\n"
    "t = [0, 1]                        # the name t means the time\n"
    "\n"
    "[constants]\n"
    "k = 0.1\n"
    "\n"
    "[unknowns]\n"
    "u = \"x, t\"\n"
    "\n"
    "[equations]\n"
    "heat = \"u_t = k*u_xx\"\n"
    "\n"
    "[conditions]\n"
    "initial = { on = \"t = 0\", equation = \"u = sin(pi*x)\" }\n"
    "ends    = { on = \"boundary\", equation = \"u = 0\" }  # hard = true builds it in exactly\n"
    "\n"
    "[exact]                           # if known: it is checked and compared, never trained\n"
    "u = \"exp(-k*pi^2*t)*sin(pi*x)\"\n"
    "\n"
    "[accept]\n"
    "error = 1e-3\n";

static const char elliptic[] =
    "title = \"Poisson's equation with two kinds of boundary conditions\"\n"
    "\n"
    "[domain]\n"
    "x = [0, 1]\n"
    "y = [0, 1]\n"
    "\n"
    "[unknowns]\n"
    "u = \"x, y\"\n"
    "\n"
    "[definitions]                     # abbreviations; they can be differentiated\n"
    "ue = \"exp(x)*sin(pi*y)\"\n"
    "f  = \"-lap(ue)\"\n"
    "\n"
    "[equations]\n"
    "poisson = \"-lap(u) = f\"\n"
    "\n"
    "[conditions]\n"
    "sides = { on = \"x = 0 or x = 1\", equation = \"u = ue\" }\n"
    "walls = { on = \"y = 0 or y = 1\", equation = \"dn(u) = dn(ue)\" } # along the outward normal\n"
    "\n"
    "[exact]\n"
    "u = \"ue\"\n"
    "\n"
    "[accept]\n"
    "error = 1e-3\n";

static const char system_[] =
    "title = \"Two coupled reactions that diffuse\"\n"
    "\n"
    "[domain]\n"
    "x = { range = [0, \"2*pi\"], periodic = true } # repeats; needs no conditions at its ends\n"
    "t = [0, 1]\n"
    "\n"
    "[constants]\n"
    "D = 0.5\n"
    "\n"
    "[unknowns]\n"
    "a = \"x, t\"\n"
    "b = \"x, t\"\n"
    "\n"
    "[equations]\n"
    "first  = \"a_t = D*a_xx + b\"\n"
    "second = \"b_t = D*b_xx - a\"\n"
    "\n"
    "[conditions]\n"
    "initial = { on = \"t = 0\", equation = [\"a = sin(x)\", \"b = 0\"] }\n"
    "\n"
    "[exact]\n"
    "a = \"exp(-D*t)*cos(t)*sin(x)\"\n"
    "b = \"-exp(-D*t)*sin(t)*sin(x)\"\n"
    "\n"
    "[accept]\n"
    "error = { a = 1e-3, b = 1e-3 }\n";

static const pn_starter starters[] = {
    {"heat", "evolution in one space coordinate (the default)", heat},
    {"ode", "ordinary differential equation", ode},
    {"elliptic", "two space coordinates, Dirichlet and Neumann conditions", elliptic},
    {"system", "two unknowns, periodic in space", system_},
};
const pn_starter *pn_starters(size_t *n) {
  *n = sizeof starters / sizeof *starters;
  return starters;
}

tn_status pn_starter_write(const pn_starter *starter, const char *path) {
  if (pn_path_exists(path))
    return TN_FAIL(TN_EINPUT, "%s is there already; nothing is overwritten", path);
  return pn_write_atomic(path, starter->text, strlen(starter->text));
}
