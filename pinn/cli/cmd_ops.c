/* cmd_ops.c: `pinn ops`: the table of operations, read from the table itself. */
#include <stdio.h>
#include <string.h>

#include "pinn/cli/options.h"

static const char *class_name(tn_class class_) {
  switch (class_) {
  case TN_LEAF:
    return "leaf";
  case TN_LINEAR:
    return "linear";
  case TN_BILINEAR:
    return "bilinear";
  case TN_ANALYTIC:
    return "analytic";
  case TN_BINARY:
    return "binary";
  case TN_PIECEWISE:
    return "piecewise";
  case TN_COMPARISON:
    return "comparison";
  case TN_FUSED:
    return "fused";
  case TN_ATOM:
    return "atom";
  }
  return "";
}

/* A cell of a Markdown table; code in backticks, bars escaped. */
static void cell(const char *text, bool code) {
  fputs(code && *text != '\0' ? " `" : " ", stdout);
  for (; *text != '\0'; ++text) {
    if (*text == '|')
      putchar('\\');
    putchar(*text);
  }
  fputs(code ? "` |" : " |", stdout);
}

static void markdown_row(const tn_op *op) {
  char text[64];
  putchar('|');
  cell(op->name, true);
  cell(class_name(op->class_), false);
  if (op->formula[0] != '\0')
    cell(op->formula, true);
  else
    cell("", false);
  if (op->rule[0] != '\0')
    cell(op->rule, true);
  else
    cell("", false);
  text[0] = '\0';
  if (op->lo < op->hi)
    snprintf(text, sizeof text, "%g to %g", op->lo, op->hi);
  cell(text, false);
  text[0] = '\0';
  if (op->ulp[0] > 0 && op->ulp[1] > 0)
    snprintf(text, sizeof text, "%g, %g", op->ulp[0], op->ulp[1]);
  else if (op->ulp[0] > 0)
    snprintf(text, sizeof text, "%g", op->ulp[0]);
  cell(text, false);
  cell(op->doc, false);
  putchar('\n');
}

static void markdown(void) {
  fputs(
      "# Operations\n\n"
      "Every operation of the engine is one row of `tensor/ops.def`; this page is made from it by\n"
      "`pinn ops --markdown` (`./dev doc`).\n\n"
      "- **formula**: the value in the vocabulary of the kernels: `FMA(a, b, c)` rounds once, "
      "`SEL(m, a, b)`\n"
      "  selects, `K(c)` is a constant, `R(f)` a function of `tensor/functions.inc`, `e` a power's "
      "exponent.\n"
      "- **derivative**: the rule, itself in operations, of the argument `x` and the value `y` "
      "(for two\n"
      "  arguments `a`, `b`: by each of them). `U(f, x)` is operation f. It differentiates again, "
      "to any order.\n"
      "- **domain**: the interval from which audits draw arguments.\n"
      "- **ulp**: promised error of the value and of the first derivative in units in the last "
      "place;\n"
      "  `pinn validate ops` measures them. One number: the derivative has zeros of its own and is "
      "judged by\n"
      "  its error relative to the terms it is made of.\n\n"
      "| name | class | formula | derivative | domain | ulp | meaning "
      "|\n|---|---|---|---|---|---|---|\n",
      stdout);
  for (int id = 0; id < TN_OPS; ++id)
    markdown_row(tn_op_row((tn_op_id)id));
}

static void table(void) {
  printf("%-12s %-10s %-12s %-9s %s\n", "name", "class", "domain", "ulp", "meaning");
  for (int id = 0; id < TN_OPS; ++id) {
    const tn_op *op = tn_op_row((tn_op_id)id);
    char domain[32] = "", ulp[32] = "";
    if (op->lo < op->hi)
      snprintf(domain, sizeof domain, "%g..%g", op->lo, op->hi);
    if (op->ulp[0] > 0)
      snprintf(ulp, sizeof ulp, "%g, %g", op->ulp[0], op->ulp[1]);
    printf("%-12s %-10s %-12s %-9s %s\n", op->name, class_name(op->class_), domain, ulp, op->doc);
  }
}

static void one(const tn_op *op) {
  printf("%s: %s\n  class       %s\n", op->name, op->doc, class_name(op->class_));
  if (op->formula[0] != '\0')
    printf("  formula     %s\n", op->formula);
  if (op->rule[0] != '\0')
    printf("  derivative  %s\n", op->rule);
  if (op->lo < op->hi)
    printf("  domain      %g to %g (where audits draw arguments)\n", op->lo, op->hi);
  if (op->ulp[0] > 0)
    printf("  ulp         %g value, %g first derivative\n", op->ulp[0], op->ulp[1]);
}

static int run(const cli_command *self, int argc, char **argv) {
  bool as_markdown = false;
  const cli_option options[] = {
      {"markdown", NULL, CLI_FLAG, &as_markdown,
       "the text of docs/ops.md, with formulas and rules"},
      {0},
  };
  const char *words[64];
  size_t n = 0;
  if (argc > 64)
    argc = 64;
  int status = cli_start(self, options, NULL, argc, argv, 0, 1, "", words, &n);
  if (status >= 0)
    return status;
  if (n == 1) {
    const tn_op *op = tn_op_find(words[0]);
    const char *names[TN_OPS];
    for (int id = 0; id < TN_OPS; ++id)
      names[id] = tn_op_row((tn_op_id)id)->name;
    if (op == NULL) {
      const char *nearest = cli_nearest(words[0], TN_OPS, names);
      return cli_failed(TN_FAIL(TN_EINPUT, "pinn ops: there is no operation `%s`%s%s%s", words[0],
                                nearest != NULL ? ". Did you mean `" : "; `pinn ops` lists them",
                                nearest != NULL ? nearest : "", nearest != NULL ? "`?" : ""));
    }
    one(op);
  } else if (as_markdown) {
    markdown();
  } else {
    table();
  }
  return 0;
}

const cli_command cli_ops = {"ops", "[NAME] [--markdown]",
                             "The table of operations: classes, rules, domains, promised accuracy.",
                             run};
