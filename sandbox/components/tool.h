// The exports of ../wit/tool.wit by hand: a string is a pointer and a length in the component's memory.
// A tool defines `tool` and `answer`. It lives for one call, so nothing is ever given back.
#ifndef TOOL_H
#define TOOL_H
#include <stdbool.h>
#include <stddef.h>

struct tool {
  const char *name, *description, *parameters;
};
extern const struct tool tool;

// Does one call; it ends with the value of `say` or `fail`.
bool answer(const char *json, size_t length);

// Makes this the result, as `printf` formats it. Always true.
bool say(const char *format, ...) __attribute__((format(printf, 1, 2)));
// Makes this the reason why there is none, with what to do instead. Always false.
bool fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
// Memory, or a trap, which ends the call.
void *need(size_t size);

// The text of a member of the JSON object, ended by NUL, or NULL if it has none.
const char *json_text(const char *json, size_t length, const char *key);
// The whole number of a member, or `otherwise`.
long json_number(const char *json, size_t length, const char *key, long otherwise);
#endif
