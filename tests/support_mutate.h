/* support_mutate.h: single mistakes in a problem file, made from its text, and what `pinn check` says to them. */
#ifndef TESTS_SUPPORT_MUTATE_H
#define TESTS_SUPPORT_MUTATE_H

#include "pinn/problem.h"

enum { MUTANTS = 2000, MUTANT_WORDS = 160 };

typedef enum mutation {
  MUTATE_SIGN,     /* a + or - the other way round */
  MUTATE_INDEX,    /* u_xy for u_yy; another order where there is one coordinate */
  MUTATE_ORDER,    /* u_x for u_xx */
  MUTATE_NUMBER,   /* twice the number; 1 for 0; another exponent */
  MUTATE_FACTOR,   /* a factor is lost */
  MUTATE_TERM,     /* a term is lost; one derivative for lap */
  MUTATE_FUNCTION, /* cos for sin, and the like */
  MUTATE_NAME,     /* another unknown or constant */
  MUTATE_MISSPELT, /* a name that is not declared */
  MUTATE_NORMAL,   /* the normal derivative with the other sign */
  MUTATE_VALUE,    /* 1 more on the right of a condition */
  MUTATE_FACE,     /* the other end of the coordinate; a part of the boundary */
  MUTATE_DROPPED,  /* a condition is gone */
  MUTATE_PERIOD,   /* periodic = true is gone */
  MUTATE_PARITY,   /* even for odd */
  MUTATE_CONSTANT, /* twice a constant */
  MUTATIONS
} mutation;
extern const char *const mutation_name[MUTATIONS];

typedef struct mutant {
  mutation kind;
  size_t at, length; /* bytes of the text that are replaced */
  char by[MUTANT_WORDS];
} mutant;

/* All mutants of a text, at most MUTANTS; those of definitions and constants on which [exact] depends are left out:
 * the solution would change with them, and the file would be another right problem. */
size_t mutants_of(const pn_problem *problem, mutant *out);
/* `count` of n, spread over the kinds; the choice depends on the name alone. Returns how many. */
size_t mutants_choose(const char *name, size_t n, mutant *all, size_t count, mutant *out);
/* The mutated text; free() it. */
char *mutant_text(const char *text, const mutant *m);

typedef enum verdict {
  MUTANT_FOUND,      /* refused, or an error or a warning */
  MUTANT_EQUIVALENT, /* no mistake: see mutant_judge */
  MUTANT_MISSED
} verdict;
/* A mutant is equivalent if for random smooth fields, which solve nothing, every residual of the mutated file is a
 * constant, not 0, times the residual of the original at the same places: -u = 0 for u = 0, u_yx for u_xy. Whatever
 * fulfils one file then fulfils the other. So is one without a condition that the ansatz meets anyway. Nothing else counts as equivalent: a mutant that the exact solution
 * happens to fulfil is missed. path: of the original, for the tables beside it. */
verdict mutant_judge(const char *path, const char *text, const char *mutated);

/* Runs `count` mutants of every file of which the path has `only` in it (NULL: all); prints those missed and a table by
 * kinds. Totals of files with an exact solution for every unknown, and of the others. */
typedef struct mutation_score {
  size_t found, equivalent, missed;
} mutation_score;
void mutants_run(const char *folder, const char *only, size_t count, mutation_score *exact,
                 mutation_score *other);

#endif
