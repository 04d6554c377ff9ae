// What all tools share: the exports, the result, and a reader for the JSON object a call comes with. The host has
// checked that object against the tool's schema; here it only has to be read without leaving its bounds.
#include "tool.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct text {
  const char *at;
  size_t length;
};

static struct {
  unsigned char is_error;
  struct text text;
} result;

void *need(size_t size) {
  void *at = malloc(size ? size : 1);
  if (!at) __builtin_trap();
  return at;
}

__attribute__((export_name("cabi_realloc"))) void *cabi_realloc(void *old, size_t old_size, size_t align, size_t size) {
  (void)old_size;
  if (size == 0) return (void *)align;
  void *at = realloc(old, size);
  if (!at) __builtin_trap();
  return at;
}

static void format_result(const char *format, va_list values) {
  va_list again;
  va_copy(again, values);
  int length = vsnprintf(NULL, 0, format, values);
  if (length < 0) __builtin_trap();
  char *at = need((size_t)length + 1);
  vsnprintf(at, (size_t)length + 1, format, again);
  va_end(again);
  result.text = (struct text){at, (size_t)length};
}

bool say(const char *format, ...) {
  va_list values;
  va_start(values, format);
  format_result(format, values);
  va_end(values);
  return true;
}

bool fail(const char *format, ...) {
  va_list values;
  va_start(values, format);
  format_result(format, values);
  va_end(values);
  return false;
}

static struct text of(const char *text) { return (struct text){text, strlen(text)}; }

__attribute__((export_name("describe"))) void *describe(void) {
  static struct text description[3];
  description[0] = of(tool.name);
  description[1] = of(tool.description);
  description[2] = of(tool.parameters);
  return description;
}

__attribute__((export_name("call"))) void *call(const char *json, size_t length) {
  result.is_error = !answer(json, length);
  return &result;
}

// --- JSON ---

struct reader {
  const char *at, *end;
};

static void blanks(struct reader *in) {
  while (in->at < in->end && strchr(" \t\r\n", *in->at)) in->at++;
}

static bool take(struct reader *in, char c) {
  blanks(in);
  if (in->at == in->end || *in->at != c) return false;
  in->at++;
  return true;
}

static int hex(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

static bool unit(struct reader *in, unsigned *code) {
  *code = 0;
  for (int i = 0; i < 4; i++) {
    int digit = in->at < in->end ? hex(*in->at++) : -1;
    if (digit < 0) return false;
    *code = *code * 16 + (unsigned)digit;
  }
  return true;
}

static char *utf8(char *out, unsigned c) {
  if (c < 0x80) {
    *out++ = (char)c;
  } else if (c < 0x800) {
    *out++ = (char)(0xc0 | c >> 6);
    *out++ = (char)(0x80 | (c & 63));
  } else if (c < 0x10000) {
    *out++ = (char)(0xe0 | c >> 12);
    *out++ = (char)(0x80 | (c >> 6 & 63));
    *out++ = (char)(0x80 | (c & 63));
  } else {
    *out++ = (char)(0xf0 | c >> 18);
    *out++ = (char)(0x80 | (c >> 12 & 63));
    *out++ = (char)(0x80 | (c >> 6 & 63));
    *out++ = (char)(0x80 | (c & 63));
  }
  return out;
}

// A string, its escapes undone; NULL if there is none. No escape is shorter than what it stands for.
static char *string(struct reader *in) {
  if (!take(in, '"')) return NULL;
  char *text = need((size_t)(in->end - in->at) + 1), *out = text;
  while (in->at < in->end && *in->at != '"') {
    char c = *in->at++;
    if (c != '\\') {
      *out++ = c;
      continue;
    }
    if (in->at == in->end) return NULL;
    c = *in->at++;
    const char *plain = strchr("\"\\/bfnrt", c);
    if (c && plain) {
      *out++ = "\"\\/\b\f\n\r\t"[plain - "\"\\/bfnrt"];
      continue;
    }
    unsigned code, low;
    if (c != 'u' || !unit(in, &code)) return NULL;
    if (code >= 0xd800 && code < 0xdc00) {
      if (in->end - in->at < 6 || in->at[0] != '\\' || in->at[1] != 'u') return NULL;
      in->at += 2;
      if (!unit(in, &low) || low < 0xdc00 || low > 0xdfff) return NULL;
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    if (code == 0) return NULL;
    out = utf8(out, code);
  }
  if (in->at == in->end) return NULL;
  in->at++;
  *out = 0;
  return text;
}

// Goes past a value of any kind.
static bool skip(struct reader *in) {
  int depth = 0;
  do {
    blanks(in);
    if (in->at == in->end) return false;
    char c = *in->at;
    if (c == '"') {
      if (!string(in)) return false;
    } else {
      if (c == '{' || c == '[') depth++;
      if (c == '}' || c == ']') depth--;
      in->at++;
    }
    if (depth == 0 && in->at < in->end && strchr(",}]", *in->at)) return true;
  } while (depth >= 0);
  return false;
}

// Goes to the value of a member.
static bool find(struct reader *in, const char *key) {
  if (!take(in, '{')) return false;
  do {
    char *name = string(in);
    if (!name || !take(in, ':')) return false;
    blanks(in);
    if (!strcmp(name, key)) return true;
    if (!skip(in)) return false;
  } while (take(in, ','));
  return false;
}

const char *json_text(const char *json, size_t length, const char *key) {
  struct reader in = {json, json + length};
  return find(&in, key) ? string(&in) : NULL;
}

long json_number(const char *json, size_t length, const char *key, long otherwise) {
  struct reader in = {json, json + length};
  if (!find(&in, key) || in.at == in.end) return otherwise;
  char digits[24];
  size_t count = 0;
  while (in.at < in.end && count + 1 < sizeof digits && strchr("+-.0123456789eE", *in.at)) digits[count++] = *in.at++;
  digits[count] = 0;
  char *end;
  long number = strtol(digits, &end, 10);
  // `3.0` is a whole number to JSON Schema.
  return end == digits ? otherwise : number;
}
