/* toml.cpp: the one C++ file: toml++ behind a C interface.
 *
 * toml++ keeps tables in alphabetical order, while the order of coordinates is that of vectors and
 * columns. Every key knows its position, so each table is sorted by it; that gives file order for
 * headers, dotted keys and inline tables alike. toml++ reports positions in lines and code points,
 * both from 1, as our places do.
 *
 * Hostile input: values nest to 256 levels in toml++ itself (an error beyond); dotted keys are not
 * limited there and would recurse once a level when the tree is destroyed, so a run of more than 64
 * dots within one key is refused before parsing, as is a file beyond 16 MiB. A header such as "[!]"
 * breaks an assumption inside toml++ 3.3, which with NDEBUG is undefined behaviour: its assertions
 * therefore stay on here in every build and throw. They know no place, so the line is found by
 * bisection: a prefix of the file breaks the assumption exactly if it holds that line. No exception
 * leaves this file.
 */
#include "pinn/toml.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <vector>

#undef NDEBUG
namespace {
struct broken_assumption {};
[[noreturn]] void throw_broken() { throw broken_assumption(); }
} // namespace
#define TOML_ASSERT(condition) static_cast<void>((condition) || (throw_broken(), false))
#include <toml++/toml.h>

namespace {

constexpr size_t largest_file = size_t{16} << 20;
constexpr size_t most_dots = 64;

struct entry {
  std::string_view key;
  const toml::node *node;
  toml::source_position position; /* of the key, or of the element */
};

pn_place place_of(const pn_source *source, toml::source_position position) {
  return pn_place{source, position.line, position.column};
}

/* Takes n zeroed elements; references to pn_arena_take's void * out need the cast in C++. */
template <typename T> tn_status take(pn_arena *arena, size_t n, T **out) {
  return pn_arena_take(arena, n, sizeof(T), static_cast<void *>(out));
}

tn_status convert(pn_arena *arena, const pn_source *source, const entry &from, size_t depth,
                  pn_toml **out);

tn_status convert_children(pn_arena *arena, const pn_source *source, std::vector<entry> &entries,
                           size_t depth, pn_toml *t) {
  t->n = entries.size();
  TN_TRY(take(arena, t->n, &t->items));
  for (size_t i = 0; i < t->n; ++i)
    TN_TRY(convert(arena, source, entries[i], depth + 1, &t->items[i]));
  return TN_OK;
}

tn_status convert_table(pn_arena *arena, const pn_source *source, const toml::table &table,
                        size_t depth, pn_toml *t) {
  std::vector<entry> entries;
  for (auto &&[key, node] : table)
    entries.push_back(entry{key.str(), &node, key.source().begin});
  std::stable_sort(entries.begin(), entries.end(), [](const entry &a, const entry &b) {
    return a.position.line != b.position.line ? a.position.line < b.position.line
                                              : a.position.column < b.position.column;
  });
  t->kind = PN_TOML_TABLE;
  return convert_children(arena, source, entries, depth, t);
}

tn_status convert_value(pn_arena *arena, const pn_source *source, const toml::node &node,
                        size_t depth, pn_toml *t) {
  if (const toml::table *table = node.as_table())
    return convert_table(arena, source, *table, depth, t);
  if (const toml::array *array = node.as_array()) {
    std::vector<entry> entries;
    for (const toml::node &element : *array)
      entries.push_back(entry{std::string_view{}, &element, element.source().begin});
    t->kind = PN_TOML_ARRAY;
    return convert_children(arena, source, entries, depth, t);
  }
  if (const toml::value<std::string> *string = node.as_string()) {
    const std::string &text = string->get();
    char *copy = nullptr;
    TN_TRY(pn_arena_text(arena, text.data(), text.size(), &copy));
    t->kind = PN_TOML_STRING;
    t->string = copy;
    t->length = text.size();
    t->quoted = true;
    if (text.find('\0') != std::string::npos)
      return pn_fail_at(TN_EINPUT, t->place, 1, "a string must not contain a 0 character");
    return TN_OK;
  }
  if (const toml::value<int64_t> *integer = node.as_integer()) {
    t->kind = PN_TOML_INTEGER;
    t->integer = integer->get();
    t->number = static_cast<double>(t->integer);
  } else if (const toml::value<double> *number = node.as_floating_point()) {
    t->kind = PN_TOML_FLOAT;
    t->number = number->get();
  } else if (const toml::value<bool> *boolean = node.as_boolean()) {
    t->kind = PN_TOML_BOOLEAN;
    t->boolean = boolean->get();
  } else {
    t->kind = PN_TOML_DATE;
  }
  return TN_OK;
}

tn_status convert(pn_arena *arena, const pn_source *source, const entry &from, size_t depth,
                  pn_toml **out) {
  pn_place key_place = place_of(source, from.position);
  if (depth > PN_TOML_MAX_DEPTH)
    return pn_fail_at(TN_EINPUT, key_place, 1, "tables and arrays are nested more than %d deep",
                      PN_TOML_MAX_DEPTH);
  TN_TRY(take(arena, 1, out));
  pn_toml *t = *out;
  char *key = nullptr;
  TN_TRY(pn_arena_text(arena, from.key.data(), from.key.size(), &key));
  t->key = key;
  t->key_place = key_place;
  t->place = place_of(source, from.node->source().begin);
  if (from.key.find('\0') != std::string_view::npos)
    return pn_fail_at(TN_EINPUT, key_place, 1, "a key must not contain a 0 character");
  return convert_value(arena, source, *from.node, depth, t);
}

/* Refuses keys such as a.a.a.a... before toml++ builds a table for each dot. */
tn_status check_dots(const pn_source *source) {
  size_t dots = 0, line = 1, column = 1;
  bool part = false; /* something stands since the last dot */
  for (size_t i = 0; i < source->length; ++i, ++column) {
    char c = source->text[i];
    bool bare = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                c == '_' || c == '-' || c == '"' || c == '\'';
    if (bare) {
      part = true;
    } else if (c == '.' && part) {
      part = false;
      if (++dots > most_dots)
        return pn_fail_at(TN_EINPUT, pn_place{source, line, column}, 1,
                          "a key has more than %zu parts", most_dots);
    } else if (c != ' ' && c != '\t') {
      dots = 0;
      part = false;
    }
    if (c == '\n') {
      ++line;
      column = 0;
    }
  }
  return TN_OK;
}

bool breaks(const pn_source *source, size_t length) {
  try {
    static_cast<void>(toml::parse(std::string_view{source->text, length}));
  } catch (const broken_assumption &) {
    return true;
  } catch (const toml::parse_error &) {
  }
  return false;
}

/* The error for the line whose header or key toml++ cannot stand. */
tn_status fail_broken(const pn_source *source) {
  std::vector<size_t> ends; /* of lines */
  for (size_t i = 0; i < source->length; ++i)
    if (source->text[i] == '\n')
      ends.push_back(i + 1);
  ends.push_back(source->length);
  size_t low = 0, high = ends.size() - 1; /* the first prefix that breaks is in low..high */
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (breaks(source, ends[middle]))
      high = middle;
    else
      low = middle + 1;
  }
  size_t start = low ? ends[low - 1] : 0, column = 1;
  while (start + column <= ends[low] && std::strchr(" \t[", source->text[start + column - 1]))
    ++column;
  return pn_fail_at(TN_EINPUT, pn_place{source, low + 1, column}, 1,
                    "a key is missing here; it starts with a letter, a digit, _, - or a quote");
}

tn_status parse(pn_arena *arena, const pn_source *source, pn_toml **out) {
  toml::table table = toml::parse(std::string_view{source->text, source->length});
  return convert(arena, source, entry{std::string_view{}, &table, {1, 1}}, 0, out);
}

tn_status report_broken(const pn_source *source) {
  try {
    return fail_broken(source);
  } catch (const std::exception &error) {
    return TN_FAIL(TN_EINPUT, "%s: not TOML: %s", source->file, error.what());
  }
}

/* ---- Messages ------------------------------------------------------------------------------- */

std::string_view trim(std::string_view text) {
  size_t from = text.find_first_not_of(" \t\r");
  if (from == std::string_view::npos)
    return std::string_view{};
  return text.substr(from, text.find_last_not_of(" \t\r") + 1 - from);
}

std::string_view line_of(const pn_source *source, size_t number) {
  std::string_view text{source->text, source->length};
  for (; number > 1; --number) {
    size_t end = text.find('\n');
    if (end == std::string_view::npos)
      return std::string_view{};
    text.remove_prefix(end + 1);
  }
  return text.substr(0, text.find('\n'));
}

bool is_expression(std::string_view text) {
  return text.find_first_not_of("0123456789.eE+-_ ") != std::string_view::npos ||
         text.find_first_of("+-", 1) != std::string_view::npos;
}

std::string quoted(std::string_view text) { return '"' + std::string{text} + '"'; }

/* [0, 2*pi] as [0, "2*pi"]; "" if it is not so simple. */
std::string quoted_elements(std::string_view array) {
  if (array.size() < 2 || array.back() != ']')
    return std::string{};
  std::string_view rest = array.substr(1, array.size() - 2);
  if (rest.find_first_of("[]{}()\"'") != std::string_view::npos)
    return std::string{};
  std::string out;
  for (bool more = true; more;) {
    size_t comma = rest.find(',');
    more = comma != std::string_view::npos;
    std::string_view element = trim(rest.substr(0, comma));
    if (element.empty())
      return std::string{};
    out += out.empty() ? "" : ", ";
    out += is_expression(element) ? quoted(element) : std::string{element};
    rest.remove_prefix(more ? comma + 1 : rest.size());
  }
  return "[" + out + "]";
}

/* What stands without quotes on the line of an error, in quotes: k = "1/2"; "" if that is not what is wrong. */
std::string in_quotes(const pn_source *source, size_t number) {
  constexpr size_t longest = 100;
  std::string_view line = line_of(source, number);
  size_t equal = line.find('=');
  if (equal == std::string_view::npos)
    return std::string{};
  std::string_view key = trim(line.substr(0, equal));
  std::string_view value = trim(line.substr(equal + 1, line.find('#', equal) - equal - 1));
  if (key.empty() || value.empty() || value.size() + key.size() > longest ||
      key.find('#') != std::string_view::npos || !is_expression(value) ||
      value.find_first_of("{}\"'") != std::string_view::npos)
    return std::string{};
  std::string right = value.front() == '[' ? quoted_elements(value) : quoted(value);
  return right.empty() ? right : std::string{key} + " = " + right;
}

/* The words of toml++ without control characters, and with what to write. */
std::string message_of(const pn_source *source, const toml::parse_error &error) {
  std::string text;
  for (char c : error.description())
    if (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f)
      text += c;
  size_t nothing = text.find("saw ''");
  if (nothing != std::string::npos)
    text.replace(nothing, 6, "saw the end of the line");
  std::string hint = in_quotes(source, error.source().begin.line);
  return hint.empty() ? text : text + "; an expression stands in quotes: " + hint;
}

tn_status fail_parse(const pn_source *source, const toml::parse_error &error) {
  pn_place place = place_of(source, error.source().begin);
  try {
    return pn_fail_at(TN_EINPUT, place, 1, "%s", message_of(source, error).c_str());
  } catch (const std::exception &) { /* out of memory: the bare words */
    return pn_fail_at(TN_EINPUT, place, 1, "not TOML");
  }
}

} // namespace

extern "C" tn_status pn_toml_parse(pn_arena *arena, const pn_source *source, pn_toml **out) {
  *out = nullptr;
  if (source->length > largest_file)
    return TN_FAIL(TN_EINPUT, "%s: %zu bytes; a problem file has at most %zu", source->file,
                   source->length, largest_file);
  TN_TRY(check_dots(source));
  try {
    return parse(arena, source, out);
  } catch (const toml::parse_error &error) {
    return fail_parse(source, error);
  } catch (const broken_assumption &) {
    return report_broken(source);
  } catch (const std::bad_alloc &) {
    return TN_FAIL(TN_ENOMEM, "%s: out of memory while reading", source->file);
  } catch (const std::exception &error) {
    return TN_FAIL(TN_EINTERNAL, "%s: %s", source->file, error.what());
  }
}

extern "C" const char *pn_toml_kind_text(pn_toml_kind kind) {
  switch (kind) {
  case PN_TOML_TABLE:
    return "a table";
  case PN_TOML_ARRAY:
    return "an array";
  case PN_TOML_STRING:
    return "a string";
  case PN_TOML_INTEGER:
    return "a whole number";
  case PN_TOML_FLOAT:
    return "a number";
  case PN_TOML_BOOLEAN:
    return "true or false";
  default:
    return "a date or time";
  }
}
