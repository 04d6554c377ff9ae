// calculator: exact decimal arithmetic. Every value is a fraction of two whole numbers of any length up to a bound, so
// that nothing is rounded on the way; only a result that has no end is cut, and says so.
#include "tool.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct tool tool = {
    "calculator",
    "Calculate an arithmetic expression exactly: + - * / and parentheses, decimals of any length.",
    "{\"type\":\"object\",\"properties\":{\"expression\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":2000,"
    "\"description\":\"Such as \\\"(0.1 + 0.2) * 3\\\".\"},\"digits\":{\"type\":\"integer\",\"minimum\":0,"
    "\"maximum\":1000,\"x-advanced\":true,\"description\":\"Decimals of a result without an end, such as 1/3; "
    "20 unless given.\"}},\"required\":[\"expression\"],\"additionalProperties\":false}",
};

// --- Whole numbers: limbs of nine digits, least first, without leading zeros; zero has none. ---

enum { BASE = 1000000000, BASE_DIGITS = 9, MAX_LIMBS = 500, MAX_DEPTH = 100, MAX_EXPONENT = 1000 };

struct whole {
  int count;
  uint32_t limbs[];
};

static struct whole *room(int count) {
  struct whole *n = need(sizeof *n + sizeof(uint32_t) * (size_t)(count > 0 ? count : 1));
  n->count = count;
  memset(n->limbs, 0, sizeof(uint32_t) * (size_t)count);
  return n;
}

static struct whole *trimmed(struct whole *n) {
  while (n->count && !n->limbs[n->count - 1]) n->count--;
  return n;
}

static struct whole *small(uint32_t value) {
  struct whole *n = room(1);
  n->limbs[0] = value;
  return trimmed(n);
}

static int compare(const struct whole *a, const struct whole *b) {
  if (a->count != b->count) return a->count < b->count ? -1 : 1;
  for (int i = a->count - 1; i >= 0; i--)
    if (a->limbs[i] != b->limbs[i]) return a->limbs[i] < b->limbs[i] ? -1 : 1;
  return 0;
}

static bool is_one(const struct whole *n) { return n->count == 1 && n->limbs[0] == 1; }

static struct whole *add(const struct whole *a, const struct whole *b) {
  int most = a->count > b->count ? a->count : b->count;
  struct whole *sum = room(most + 1);
  uint32_t carry = 0;
  for (int i = 0; i < most; i++) {
    uint32_t limb = carry + (i < a->count ? a->limbs[i] : 0) + (i < b->count ? b->limbs[i] : 0);
    carry = limb >= BASE;
    sum->limbs[i] = carry ? limb - BASE : limb;
  }
  sum->limbs[most] = carry;
  return trimmed(sum);
}

// a - b, where a is not smaller.
static struct whole *subtract(const struct whole *a, const struct whole *b) {
  struct whole *difference = room(a->count);
  int32_t borrow = 0;
  for (int i = 0; i < a->count; i++) {
    int32_t limb = (int32_t)a->limbs[i] - (i < b->count ? (int32_t)b->limbs[i] : 0) - borrow;
    borrow = limb < 0;
    difference->limbs[i] = (uint32_t)(borrow ? limb + BASE : limb);
  }
  return trimmed(difference);
}

static struct whole *multiply(const struct whole *a, const struct whole *b) {
  struct whole *product = room(a->count + b->count);
  for (int i = 0; i < a->count; i++) {
    uint64_t carry = 0;
    for (int j = 0; j < b->count || carry; j++) {
      uint64_t limb = product->limbs[i + j] + carry + (j < b->count ? (uint64_t)a->limbs[i] * b->limbs[j] : 0);
      product->limbs[i + j] = (uint32_t)(limb % BASE);
      carry = limb / BASE;
    }
  }
  return trimmed(product);
}

// The quotient of a number and a small one; the remainder goes to `*rest`.
static struct whole *divide_small(const struct whole *a, uint32_t by, uint32_t *rest) {
  struct whole *quotient = room(a->count);
  uint64_t left = 0;
  for (int i = a->count - 1; i >= 0; i--) {
    left = left * BASE + a->limbs[i];
    quotient->limbs[i] = (uint32_t)(left / by);
    left %= by;
  }
  *rest = (uint32_t)left;
  return trimmed(quotient);
}

// The quotient, by long division (Knuth's algorithm D); the remainder goes to `*rest`.
static struct whole *divide(const struct whole *a, const struct whole *b, struct whole **rest) {
  if (compare(a, b) < 0) {
    *rest = room(a->count);
    memcpy((*rest)->limbs, a->limbs, sizeof(uint32_t) * (size_t)a->count);
    return small(0);
  }
  if (b->count == 1) {
    uint32_t left;
    struct whole *quotient = divide_small(a, b->limbs[0], &left);
    *rest = small(left);
    return quotient;
  }
  // The divisor's first limb is made large, so that a guess from two limbs is off by two at most.
  struct whole *scale = small(BASE / (b->limbs[b->count - 1] + 1));
  struct whole *scaled = multiply(a, scale), *by = multiply(b, scale);
  int n = by->count, m = scaled->count - n;
  struct whole *left = room(scaled->count + 1), *quotient = room(m + 1);
  memcpy(left->limbs, scaled->limbs, sizeof(uint32_t) * (size_t)scaled->count);
  for (int j = m; j >= 0; j--) {
    uint64_t top = (uint64_t)left->limbs[j + n] * BASE + left->limbs[j + n - 1];
    uint64_t guess = top / by->limbs[n - 1], over = top % by->limbs[n - 1];
    while (guess >= BASE || guess * by->limbs[n - 2] > over * BASE + left->limbs[j + n - 2]) {
      guess--;
      over += by->limbs[n - 1];
      if (over >= BASE) break;
    }
    int64_t borrow = 0;
    uint64_t carry = 0;
    for (int i = 0; i < n; i++) {
      carry += guess * by->limbs[i];
      int64_t limb = (int64_t)left->limbs[i + j] - borrow - (int64_t)(carry % BASE);
      borrow = limb < 0;
      left->limbs[i + j] = (uint32_t)(borrow ? limb + BASE : limb);
      carry /= BASE;
    }
    int64_t limb = (int64_t)left->limbs[j + n] - borrow - (int64_t)carry;
    borrow = limb < 0;
    left->limbs[j + n] = (uint32_t)(borrow ? limb + BASE : limb);
    if (borrow) {
      guess--;
      uint32_t again = 0;
      for (int i = 0; i < n; i++) {
        uint32_t sum = left->limbs[i + j] + by->limbs[i] + again;
        again = sum >= BASE;
        left->limbs[i + j] = again ? sum - BASE : sum;
      }
      left->limbs[j + n] = (left->limbs[j + n] + again) % BASE;
    }
    quotient->limbs[j] = (uint32_t)guess;
  }
  uint32_t none;
  *rest = divide_small(trimmed(left), scale->limbs[0], &none);
  free(scale), free(scaled), free(by), free(left);
  return trimmed(quotient);
}

static struct whole *power_of_ten(int exponent) {
  struct whole *n = room(exponent / BASE_DIGITS + 1);
  uint32_t top = 1;
  for (int i = 0; i < exponent % BASE_DIGITS; i++) top *= 10;
  n->limbs[n->count - 1] = top;
  return n;
}

static struct whole *common(const struct whole *a, const struct whole *b) {
  struct whole *x = room(a->count), *y = room(b->count);
  memcpy(x->limbs, a->limbs, sizeof(uint32_t) * (size_t)a->count);
  memcpy(y->limbs, b->limbs, sizeof(uint32_t) * (size_t)b->count);
  while (y->count) {
    struct whole *rest;
    free(divide(x, y, &rest));
    free(x);
    x = y;
    y = rest;
  }
  free(y);
  return x;
}

// --- Fractions in lowest terms; the sign is apart, and zero has none. ---

struct fraction {
  bool negative;
  struct whole *top, *bottom;
};

static bool reduced(struct fraction *f) {
  if (!f->top->count) {
    f->negative = false;
    f->bottom = small(1);
  } else if (!is_one(f->bottom)) {
    struct whole *both = common(f->top, f->bottom), *rest;
    f->top = divide(f->top, both, &rest);
    f->bottom = divide(f->bottom, both, &rest);
  }
  if (f->top->count > MAX_LIMBS || f->bottom->count > MAX_LIMBS)
    return fail("the numbers get longer than %d digits; calculate it in parts", MAX_LIMBS * BASE_DIGITS);
  return true;
}

static bool sum(struct fraction *a, const struct fraction *b, bool negate) {
  struct whole *x = multiply(a->top, b->bottom), *y = multiply(b->top, a->bottom);
  bool b_negative = b->negative != negate;
  if (a->negative == b_negative) {
    a->top = add(x, y);
  } else if (compare(x, y) >= 0) {
    a->top = subtract(x, y);
  } else {
    a->top = subtract(y, x);
    a->negative = b_negative;
  }
  a->bottom = multiply(a->bottom, b->bottom);
  return reduced(a);
}

static bool product(struct fraction *a, const struct fraction *b) {
  a->negative = a->negative != b->negative;
  a->top = multiply(a->top, b->top);
  a->bottom = multiply(a->bottom, b->bottom);
  return reduced(a);
}

static bool quotient(struct fraction *a, const struct fraction *b) {
  a->negative = a->negative != b->negative;
  struct whole *bottom = multiply(a->bottom, b->top);
  a->top = multiply(a->top, b->bottom);
  a->bottom = bottom;
  return reduced(a);
}

// --- Expressions ---

struct input {
  const char *start, *at;
  int depth;
};

static long place(const struct input *in) {
  long characters = 1;
  for (const char *at = in->start; at < in->at; at++) characters += (*at & 0xc0) != 0x80;
  return characters;
}

// The sign that comes next, with the forms that texts use; 0 if it is none.
static char sign(const struct input *in, int *bytes) {
  static const struct {
    const char *text;
    char sign;
  } known[] = {{"+", '+'}, {"-", '-'}, {"*", '*'}, {"/", '/'}, {"(", '('}, {")", ')'},
               {"\xc3\x97", '*'}, {"\xc3\xb7", '/'}, {"\xe2\x88\x92", '-'}, {"\xc2\xb7", '*'}, {"\xe2\x8b\x85", '*'}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (!strncmp(in->at, known[i].text, strlen(known[i].text))) {
      *bytes = (int)strlen(known[i].text);
      return known[i].sign;
    }
  return 0;
}

static char next(struct input *in) {
  while (*in->at && strchr(" \t\r\n", *in->at)) in->at++;
  int bytes;
  return sign(in, &bytes);
}

static bool take(struct input *in, char wanted) {
  next(in);
  int bytes;
  if (sign(in, &bytes) != wanted) return false;
  in->at += bytes;
  return true;
}

static bool unexpected(const struct input *in) {
  if (!*in->at) return fail("the expression ends too early; write it whole, like \"(1 + 2) * 3\"");
  int length = 1;
  while ((in->at[length] & 0xc0) == 0x80) length++;
  return fail("unexpected \"%.*s\" at character %ld; only numbers, + - * / and parentheses are known", length, in->at,
              place(in));
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static bool number(struct input *in, struct fraction *value) {
  static char digits[2048];
  int count = 0, decimals = 0, exponent = 0;
  bool point = false;
  const char *start = in->at;
  for (; is_digit(*in->at) || (*in->at == '.' && !point); in->at++) {
    if (*in->at == '.') {
      point = true;
    } else {
      if (count == sizeof digits) return fail("a number has more than %d digits", (int)sizeof digits);
      digits[count++] = *in->at;
      decimals += point;
    }
  }
  if (!count) {
    in->at = start;
    return unexpected(in);
  }
  if ((*in->at == 'e' || *in->at == 'E') && (is_digit(in->at[1]) || (strchr("+-", in->at[1]) && is_digit(in->at[2])))) {
    char *end;
    long given = strtol(in->at + 1, &end, 10);
    if (given > MAX_EXPONENT || given < -MAX_EXPONENT) return fail("the exponent at character %ld is beyond %d", place(in), MAX_EXPONENT);
    exponent = (int)given;
    in->at = end;
  }
  struct whole *top = room((count + BASE_DIGITS - 1) / BASE_DIGITS);
  for (int i = 0; i < count; i++) {
    int limb = (count - 1 - i) / BASE_DIGITS;
    top->limbs[limb] = top->limbs[limb] * 10 + (uint32_t)(digits[i] - '0');
  }
  exponent -= decimals;
  *value = (struct fraction){false, trimmed(top), small(1)};
  if (exponent > 0) value->top = multiply(value->top, power_of_ten(exponent));
  if (exponent < 0) value->bottom = power_of_ten(-exponent);
  return reduced(value);
}

static bool expression(struct input *in, struct fraction *value);

static bool factor(struct input *in, struct fraction *value) {
  bool negative = false;
  for (;;) {
    if (take(in, '-')) {
      negative = !negative;
    } else if (!take(in, '+')) {
      break;
    }
  }
  if (take(in, '(')) {
    if (++in->depth > MAX_DEPTH) return fail("more than %d parentheses are open", MAX_DEPTH);
    if (!expression(in, value)) return false;
    if (!take(in, ')')) return *in->at ? unexpected(in) : fail("a parenthesis is not closed; add \")\"");
    in->depth--;
  } else if (!number(in, value)) {
    return false;
  }
  value->negative = value->top->count && value->negative != negative;
  return true;
}

static bool term(struct input *in, struct fraction *value) {
  if (!factor(in, value)) return false;
  for (;;) {
    struct fraction other;
    if (take(in, '*')) {
      if (!factor(in, &other) || !product(value, &other)) return false;
    } else if (take(in, '/')) {
      long at = place(in) - 1;
      if (!factor(in, &other)) return false;
      if (!other.top->count) return fail("division by zero at character %ld", at);
      if (!quotient(value, &other)) return false;
    } else {
      return true;
    }
  }
}

static bool expression(struct input *in, struct fraction *value) {
  if (!term(in, value)) return false;
  for (;;) {
    struct fraction other;
    bool minus = false;
    if (!take(in, '+') && !(minus = take(in, '-'))) return true;
    if (!term(in, &other) || !sum(value, &other, minus)) return false;
  }
}

// --- The result ---

// How many decimals it takes to write the fraction out; -1 if it never ends.
static int decimals_of(const struct whole *bottom) {
  int count[2] = {0, 0};
  static const uint32_t primes[2] = {2, 5};
  const struct whole *n = bottom;
  for (int p = 0; p < 2; p++)
    for (;;) {
      uint32_t rest;
      struct whole *part = divide_small(n, primes[p], &rest);
      if (rest) break;
      n = part;
      count[p]++;
    }
  return is_one(n) ? (count[0] > count[1] ? count[0] : count[1]) : -1;
}

static char *written(const struct whole *n, int decimals) {
  char *text = need((size_t)(n->count * BASE_DIGITS + decimals + 4)), *out = text;
  if (!n->count) out += sprintf(out, "0");
  for (int i = n->count - 1; i >= 0; i--) out += sprintf(out, i == n->count - 1 ? "%u" : "%09u", n->limbs[i]);
  int length = (int)(out - text);
  if (!decimals) return text;
  if (length <= decimals) {
    int zeros = decimals + 1 - length;
    memmove(text + zeros, text, (size_t)length + 1);
    memset(text, '0', (size_t)zeros);
    length += zeros;
  }
  memmove(text + length - decimals + 1, text + length - decimals, (size_t)decimals + 1);
  text[length - decimals] = '.';
  return text;
}

bool answer(const char *json, size_t length) {
  const char *text = json_text(json, length, "expression");
  if (!text) return fail("say what to calculate: {\"expression\": \"1 + 2\"}");
  long digits = json_number(json, length, "digits", 20);
  if (digits < 0 || digits > 1000) return fail("digits must be from 0 to 1000");
  struct input in = {text, text, 0};
  struct fraction value;
  if (!expression(&in, &value)) return false;
  next(&in);
  if (*in.at) return unexpected(&in);
  int needed = decimals_of(value.bottom);
  bool exact = needed >= 0 && needed <= 2 * MAX_EXPONENT;
  int decimals = exact ? needed : (int)digits;
  struct whole *rest, *scaled = divide(multiply(value.top, power_of_ten(decimals)), value.bottom, &rest);
  // Half and more goes up, away from zero.
  if (rest->count && compare(multiply(rest, small(2)), value.bottom) >= 0) scaled = add(scaled, small(1));
  const char *minus = value.negative && scaled->count ? "-" : "";
  if (exact) return say("%s%s", minus, written(scaled, decimals));
  return say("%s%s (rounded to %d decimals)", minus, written(scaled, decimals), decimals);
}
