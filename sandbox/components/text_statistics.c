// text_statistics: counts the lines, words, characters and bytes of a text file.
#include "tool.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

const struct tool tool = {
    "text_statistics",
    "Count the lines, words, characters and bytes of a text file, and find its longest line.",
    "{\"type\":\"object\",\"properties\":{\"path\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":4096,"
    "\"description\":\"The file, like \\\"notes/todo.txt\\\".\"}},\"required\":[\"path\"],"
    "\"additionalProperties\":false}",
};

// Unicode's White_Space.
static bool is_space(unsigned c) {
  return (c >= 9 && c <= 13) || c == 32 || c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
         c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

struct counts {
  unsigned long long lines, words, characters, bytes, broken;
  unsigned long long line, longest, longest_at;
  bool in_word;
};

static void line_ends(struct counts *c) {
  if (c->line > c->longest || c->longest_at == 0) {
    c->longest = c->line;
    c->longest_at = c->lines + 1;
  }
  c->lines++;
  c->line = 0;
}

static void character(struct counts *c, unsigned code) {
  c->characters++;
  bool space = is_space(code);
  if (!space && !c->in_word) c->words++;
  c->in_word = !space;
  if (code == '\n') {
    line_ends(c);
  } else if (code != '\r') {
    c->line++;
  }
}

// A UTF-8 decoder that takes a byte at a time. What is not UTF-8 counts as a character each.
struct decoder {
  unsigned code, least;
  int left;
};

static void broken(struct counts *c) {
  c->broken++;
  character(c, 0xfffd);
}

static void byte(struct counts *c, struct decoder *d, unsigned char b) {
  c->bytes++;
  if (d->left) {
    if ((b & 0xc0) == 0x80) {
      d->code = d->code << 6 | (b & 63);
      if (--d->left == 0) {
        bool wrong = d->code < d->least || d->code > 0x10ffff || (d->code >= 0xd800 && d->code < 0xe000);
        wrong ? broken(c) : character(c, d->code);
      }
      return;
    }
    d->left = 0;
    broken(c);
  }
  if (b < 0x80) {
    character(c, b);
  } else if (b >= 0xc2 && b < 0xe0) {
    *d = (struct decoder){b & 31, 0x80, 1};
  } else if (b >= 0xe0 && b < 0xf0) {
    *d = (struct decoder){b & 15, 0x800, 2};
  } else if (b >= 0xf0 && b < 0xf5) {
    *d = (struct decoder){b & 7, 0x10000, 3};
  } else {
    broken(c);
  }
}

bool answer(const char *json, size_t length) {
  const char *given = json_text(json, length, "path");
  if (!given) return fail("say which file: {\"path\": \"notes.txt\"}");
  // The granted directories hang below `/`; a model may leave that off.
  size_t size = strlen(given) + 2;
  char *path = need(size);
  snprintf(path, size, "%s%s", *given == '/' ? "" : "/", given);
  FILE *file = fopen(path, "rb");
  if (!file) return fail("cannot open \"%s\": %s; list the directory to see what there is", given, strerror(errno));
  struct counts c = {0};
  struct decoder d = {0};
  static unsigned char buffer[65536];
  size_t read;
  while ((read = fread(buffer, 1, sizeof buffer, file)) > 0)
    for (size_t i = 0; i < read; i++) byte(&c, &d, buffer[i]);
  if (ferror(file)) return fail("cannot read \"%s\": %s", given, strerror(errno));
  fclose(file);
  if (d.left) broken(&c);
  // A last line without an end is a line.
  if (c.line) line_ends(&c);
  char note[64] = "";
  if (c.broken) snprintf(note, sizeof note, "\nnot UTF-8: %llu places", c.broken);
  return say("lines: %llu\nwords: %llu\ncharacters: %llu\nbytes: %llu\nlongest line: number %llu, with %llu characters%s",
             c.lines, c.words, c.characters, c.bytes, c.longest_at, c.longest, note);
}
