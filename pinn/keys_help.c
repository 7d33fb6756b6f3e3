/* keys_help.c: the key table as text for `pinn keys`, as Markdown, and as JSON Schema for editors.
 *
 * All three walk keys.def, so they cannot disagree with the checker.
 */
#include "pinn/problem.h"

#include <string.h>

#include "pinn/keys.h"

static tn_status written(FILE *file) {
  if (fflush(file) == 0 && !ferror(file))
    return TN_OK;
  return TN_FAIL(TN_EIO, "writing the help on keys failed");
}

/* The keys of a table, its own first: [domain] has both kinds. */
static bool belongs(const pn_key *key, const char *table, bool own) {
  size_t length = strlen(table);
  if (!own)
    return strcmp(key->table, table) == 0;
  return strncmp(key->table, table, length) == 0 && strcmp(key->table + length, "_own") == 0;
}

static void header(const pn_key_table *t, char *out, size_t size) {
  if (strcmp(t->name, "top") == 0)
    snprintf(out, size, "top of the file");
  else
    snprintf(out, size, t->form == PN_LIST ? "[[%s]]" : "[%s]", t->name);
}

/* The choices without the mark of absent ones; with_absent keeps them, in brackets. */
static void choices(FILE *file, const char *list, const char *before, const char *between,
                    const char *after, bool with_absent) {
  bool first = true;
  while (*list) {
    size_t length = strcspn(list, "|");
    bool absent = *list == '!';
    if (!absent || with_absent) {
      fprintf(file, "%s%s%.*s%s", first ? "" : between, before, (int)(length - absent),
              list + absent, after);
      first = false;
    }
    list += length + (list[length] == '|');
  }
}

static void write_key(FILE *file, const pn_key *key) {
  fprintf(file, "  %-12s %s", key->name, key->meaning);
  if (*key->choices) {
    fprintf(file, "%s", *key->meaning ? "; " : "");
    choices(file, key->choices, "", ", ", "", false);
  }
  fprintf(file, " (%s", pn_key_type_text(key->type));
  if (key->fallback)
    fprintf(file, "; default %s", *key->fallback ? key->fallback : "none");
  fprintf(file, ")%s\n", key->available ? "" : " [not in this version]");
}

static void write_table(FILE *file, const pn_key_table *t) {
  char title[64];
  header(t, title, sizeof title);
  fprintf(file, "%s  %s%s\n", title, t->meaning, t->available ? "" : " [not in this version]");
  for (int own = 1; own >= 0; --own)
    for (size_t i = 0; i < pn_key_count; ++i)
      if (belongs(&pn_key_list[i], t->name, own))
        write_key(file, &pn_key_list[i]);
  for (size_t i = 0; i < pn_key_count; ++i)
    if (belongs(&pn_key_list[i], t->name, false) && pn_key_list[i].bare)
      fprintf(file, "  name = value is short for name = { %s = value }\n", pn_key_list[i].name);
}

tn_status pn_keys_text(FILE *file, const char *table) {
  const char *names[64];
  size_t n = 0;
  bool found = false;
  for (size_t i = 0; i < pn_key_table_count; ++i) {
    const pn_key_table *t = &pn_key_tables[i];
    names[n++] = t->name;
    if (table && strcmp(table, t->name) != 0)
      continue;
    if (found)
      fputc('\n', file);
    write_table(file, t);
    found = true;
  }
  if (found)
    return written(file);
  const char *near = pn_nearest(table, n, names);
  return TN_FAIL(TN_EINPUT, "there is no table `%s`.%s%s%s `pinn keys` lists all", table,
                 near ? " Did you mean `" : "", near ? near : "", near ? "`?" : "");
}

/* Text in a Markdown table: | ends a cell. */
static void cell(FILE *file, const char *text) {
  for (; *text; ++text) {
    if (*text == '|')
      fputc('\\', file);
    fputc(*text, file);
  }
}

static void markdown_key(FILE *file, const pn_key *key) {
  fprintf(file, "| %s`%s`%s | %s | ", key->bare ? "**" : "", key->name, key->bare ? "**" : "",
          pn_key_type_text(key->type));
  if (!key->fallback)
    fprintf(file, "required");
  else if (*key->fallback)
    fprintf(file, "`%s`", key->fallback);
  fprintf(file, " | ");
  cell(file, key->meaning);
  if (*key->choices) {
    fprintf(file, " (");
    choices(file, key->choices, "`", ", ", "`", false);
    fprintf(file, ")");
  }
  fprintf(file, "%s |\n", key->available ? "" : " *Not in this version.*");
}

/* What stands before the tables on the page. */
static const char markdown_head[] =
    "# The problem file\n"
    "\n"
    "A problem is one TOML file (TOML 1.0, UTF-8). This page lists every table and key, from the "
    "same\n"
    "rows that the program checks files against: what is not listed is an error that names the "
    "nearest\n"
    "key, and what is listed as *not in this version* is refused at its place in the file. "
    "Equations,\n"
    "predicates and other expressions are strings in the [problem language](language.md); `pinn "
    "keys\n"
    "TABLE` prints one table of this page.\n"
    "\n"
    "A problem needs `[domain]`, `[unknowns]` and `[equations]`; everything else has a default, "
    "and what\n"
    "a run chooses is printed. Entries that you name (`[unknowns]`, `[conditions]`, ...) may be "
    "written\n"
    "in one line or as a table of their own, in any order; only the order of coordinates and of\n"
    "`[[stage]]` matters. Where a table takes named entries, a bare value is short for the key in "
    "bold:\n"
    "`u = \"x, t\"` is `u = { of = \"x, t\" }`. A number may be written as an expression of "
    "constants in a\n"
    "string. `--set path=value` changes any key for one run, `--set stage.1.steps=500`.\n"
    "\n"
    "```toml\n"
    "title = \"Heat in a rod\"\n"
    "\n"
    "[domain]\n"
    "x = [0, 1]\n"
    "t = [0, 1]\n"
    "\n"
    "[constants]\n"
    "k = 0.2\n"
    "\n"
    "[unknowns]\n"
    "u = \"x, t\"\n"
    "\n"
    "[equations]\n"
    "heat = \"u_t = k*u_xx\"\n"
    "\n"
    "[conditions]\n"
    "initial = { on = \"t = 0\", equation = \"u = sin(pi*x)\", hard = true }\n"
    "ends    = { on = \"boundary\", equation = \"u = 0\", hard = true }\n"
    "\n"
    "[exact]\n"
    "u = \"exp(-k*pi^2*t)*sin(pi*x)\"\n"
    "\n"
    "[accept]\n"
    "error = 1e-3\n"
    "\n"
    "[network]\n"
    "width = 16\n"
    "depth = 2\n"
    "activation = \"sin\"\n"
    "\n"
    "[[stage]]\n"
    "optimizer = \"adam\"\n"
    "steps = 500\n"
    "\n"
    "[[stage]]\n"
    "optimizer = \"ssbroyden\"\n"
    "steps = 1000\n"
    "```\n";

tn_status pn_keys_markdown(FILE *file) {
  fputs(markdown_head, file);
  for (size_t i = 0; i < pn_key_table_count; ++i) {
    const pn_key_table *t = &pn_key_tables[i];
    char title[64];
    header(t, title, sizeof title);
    fprintf(file, "\n## %s\n\n%s.%s\n\n| key | type | default | meaning |\n|---|---|---|---|\n",
            title, t->meaning, t->available ? "" : " *Not in this version.*");
    for (int own = 1; own >= 0; --own)
      for (size_t k = 0; k < pn_key_count; ++k)
        if (belongs(&pn_key_list[k], t->name, own))
          markdown_key(file, &pn_key_list[k]);
  }
  return written(file);
}

/* ---- JSON Schema ---------------------------------------------------------------------------- */

static void json_text(FILE *file, const char *text) {
  fputc('"', file);
  for (; *text; ++text) {
    if (*text == '"' || *text == '\\')
      fputc('\\', file);
    fputc(*text, file);
  }
  fputc('"', file);
}

static const char *schema_type(pn_key_type type) {
  switch (type) {
  case PN_TEXT:
  case PN_PREDICATE:
  case PN_NAMES:
    return "\"type\": \"string\"";
  case PN_COUNT:
    return "\"type\": [\"integer\", \"string\"]";
  case PN_COUNTS:
    return "\"type\": [\"integer\", \"string\", \"array\"]";
  case PN_REALS:
    return "\"type\": [\"number\", \"string\", \"array\"]";
  case PN_REAL:
  case PN_EXPRESSION:
    return "\"type\": [\"number\", \"string\"]";
  case PN_VALUES:
  case PN_RELATIONS:
    return "\"type\": [\"string\", \"array\"], \"items\": {\"type\": \"string\"}";
  case PN_BOOLEAN:
    return "\"type\": \"boolean\"";
  case PN_RANGE:
    return "\"type\": \"array\", \"items\": {\"type\": [\"number\", \"string\"]}, "
           "\"minItems\": 2, \"maxItems\": 2";
  case PN_VECTOR:
    return "\"type\": \"array\", \"items\": {\"type\": [\"number\", \"string\"]}";
  case PN_VECTORS:
    return "\"type\": \"array\", \"items\": {\"type\": \"array\", \"items\": "
           "{\"type\": [\"number\", \"string\"]}}";
  case PN_FACTORS:
    return "\"type\": [\"number\", \"string\", \"array\"], \"items\": {\"type\": "
           "[\"number\", \"string\"]}";
  case PN_ERRORS:
    return "\"type\": [\"number\", \"string\", \"object\"]";
  case PN_NETWORK:
    return "\"$ref\": \"#/properties/network\"";
  default:
    return NULL;
  }
}

static void schema_body(FILE *file, const pn_key *key) {
  const char *type = schema_type(key->type);
  if (type)
    fprintf(file, "%s, ", type);
  if (key->type == PN_CHOICE) {
    fprintf(file, "\"enum\": [");
    choices(file, key->choices, "\"", ", ", "\"", false);
    fprintf(file, "], ");
  }
  fprintf(file, "\"description\": ");
  json_text(file, key->meaning);
}

/* {"type": "object", "properties": {...}} of the available keys of a table. */
static void schema_object(FILE *file, const char *table) {
  const char *between = "";
  fprintf(file, "{\"type\": \"object\", \"additionalProperties\": false, \"properties\": {");
  for (size_t i = 0; i < pn_key_count; ++i) {
    const pn_key *key = &pn_key_list[i];
    if (strcmp(key->table, table) != 0 || !key->available)
      continue;
    fprintf(file, "%s\n      \"%s\": {", between, key->name);
    schema_body(file, key);
    fprintf(file, "}");
    between = ",";
  }
  fprintf(file, "}}");
}

/* An entry of a NAMED table: the table, or the bare value. */
static void schema_entry(FILE *file, const char *table) {
  fprintf(file, "{\"anyOf\": [");
  for (size_t i = 0; i < pn_key_count; ++i)
    if (strcmp(pn_key_list[i].table, table) == 0 && pn_key_list[i].bare) {
      fprintf(file, "{");
      schema_body(file, &pn_key_list[i]);
      fprintf(file, "}, ");
    }
  schema_object(file, table);
  fprintf(file, "]}");
}

tn_status pn_keys_schema(FILE *file) {
  fprintf(file, "{\n  \"$schema\": \"https://json-schema.org/draft/2020-12/schema\",\n"
                "  \"title\": \"problem file of pinn\",\n  \"type\": \"object\",\n"
                "  \"additionalProperties\": false,\n  \"properties\": {");
  const char *between = "";
  for (size_t i = 0; i < pn_key_count; ++i) {
    if (strcmp(pn_key_list[i].table, "top") != 0)
      continue;
    fprintf(file, "%s\n    \"%s\": {", between, pn_key_list[i].name);
    schema_body(file, &pn_key_list[i]);
    fprintf(file, "}");
    between = ",";
  }
  for (size_t i = 0; i < pn_key_table_count; ++i) {
    const pn_key_table *t = &pn_key_tables[i];
    if (strcmp(t->name, "top") == 0 || !t->available)
      continue;
    fprintf(file, ",\n    \"%s\": ", t->name);
    if (t->form == PN_FIXED)
      schema_object(file, t->name);
    if (t->form == PN_LIST) {
      fprintf(file, "{\"type\": \"array\", \"items\": ");
      schema_object(file, t->name);
      fprintf(file, "}");
    }
    if (t->form == PN_NAMED) {
      fprintf(file, "{\"type\": \"object\", \"additionalProperties\": ");
      schema_entry(file, t->name);
      fprintf(file, "}");
    }
  }
  fprintf(file, "\n  }\n}\n");
  return written(file);
}
