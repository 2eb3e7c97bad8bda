/* Text that grows, and the two encodings that JSON needs: escaped strings and base64. */
#include <string.h>

#include "abi.h"

static void reserve(hf_buffer *buffer, size_t more) {
    size_t needed;
    if (__builtin_add_overflow(buffer->length, more, &needed)) hf_breach(HF_MEMORY, UINT32_MAX, UINT64_MAX);
    if (needed <= buffer->capacity) return;
    size_t capacity = buffer->capacity ? buffer->capacity : 128;
    while (capacity < needed) capacity = capacity > UINT32_MAX / 2 ? needed : capacity * 2;
    buffer->data = hf_realloc(buffer->data, capacity);
    buffer->capacity = (uint32_t)capacity;
}

void hf_put(hf_buffer *buffer, const void *data, size_t length) {
    if (!length) return;
    reserve(buffer, length);
    memcpy(buffer->data + buffer->length, data, length);
    buffer->length += (uint32_t)length;
}

void hf_put_text(hf_buffer *buffer, const char *text) { hf_put(buffer, text, strlen(text)); }

void hf_put_char(hf_buffer *buffer, char character) { hf_put(buffer, &character, 1); }

void hf_put_integer(hf_buffer *buffer, int64_t integer) {
    char digits[24];
    size_t at = sizeof digits;
    uint64_t rest = integer < 0 ? -(uint64_t)integer : (uint64_t)integer;
    do {
        digits[--at] = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest);
    if (integer < 0) digits[--at] = '-';
    hf_put(buffer, digits + at, sizeof digits - at);
}

void hf_buffer_free(hf_buffer *buffer) {
    hf_free(buffer->data);
    *buffer = (hf_buffer){0};
}

/* The length of the UTF-8 character at `at`, or 0 if there is none. Surrogates in three bytes are accepted on request. */
static size_t character(const unsigned char *at, size_t left, int surrogates) {
    unsigned char first = at[0];
    if (first < 0x80) return 1;
    size_t length = first >= 0xC2 && first <= 0xDF ? 2 : (first & 0xF0) == 0xE0 ? 3 : first >= 0xF0 && first <= 0xF4 ? 4 : 0;
    if (!length || length > left) return 0;
    for (size_t i = 1; i < length; i++)
        if ((at[i] & 0xC0) != 0x80) return 0;
    if (first == 0xE0 && at[1] < 0xA0) return 0;
    if (first == 0xED && at[1] > 0x9F && !surrogates) return 0;
    if (first == 0xF0 && at[1] < 0x90) return 0;
    if (first == 0xF4 && at[1] > 0x8F) return 0;
    return length;
}

int hf_is_utf8(const char *data, size_t length) {
    for (size_t at = 0; at < length;) {
        size_t taken = character((const unsigned char *)data + at, length - at, 0);
        if (!taken) return 0;
        at += taken;
    }
    return 1;
}

size_t hf_clip(const char *text, size_t length, size_t limit) {
    if (length <= limit) return length;
    while (limit && ((unsigned char)text[limit] & 0xC0) == 0x80) limit--;
    return limit;
}

static void escape(hf_buffer *buffer, unsigned code) {
    static const char hex[] = "0123456789abcdef";
    char text[6] = {'\\', 'u', hex[code >> 12 & 15], hex[code >> 8 & 15], hex[code >> 4 & 15], hex[code & 15]};
    hf_put(buffer, text, 6);
}

void hf_put_string(hf_buffer *buffer, const char *utf8, size_t length) {
    const unsigned char *text = (const unsigned char *)utf8;
    size_t plain = 0; /* start of what needs no escape */
    hf_put_char(buffer, '"');
    for (size_t at = 0; at < length;) {
        unsigned char byte = text[at];
        if (byte >= 0x20 && byte < 0x7F && byte != '"' && byte != '\\') {
            at++;
            continue;
        }
        size_t taken = character(text + at, length - at, 1);
        int surrogate = taken == 3 && byte == 0xED && text[at + 1] > 0x9F;
        if (taken > 1 && !surrogate) {
            at += taken;
            continue;
        }
        hf_put(buffer, text + plain, at - plain);
        if (surrogate)
            escape(buffer, 0xD000u | (unsigned)(text[at + 1] & 0x3F) << 6 | (text[at + 2] & 0x3F));
        else if (!taken)
            escape(buffer, 0xFFFD);
        else if (byte == '"' || byte == '\\') {
            hf_put_char(buffer, '\\');
            hf_put_char(buffer, (char)byte);
        } else if (byte == '\n')
            hf_put(buffer, "\\n", 2);
        else
            escape(buffer, byte);
        at += taken ? taken : 1;
        plain = at;
    }
    hf_put(buffer, text + plain, length - plain);
    hf_put_char(buffer, '"');
}

static const char base64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void hf_put_base64(hf_buffer *buffer, const void *data, size_t length) {
    const unsigned char *bytes = data;
    for (size_t at = 0; at < length; at += 3) {
        size_t left = length - at;
        uint32_t group = (uint32_t)bytes[at] << 16 | (left > 1 ? (uint32_t)bytes[at + 1] << 8 : 0) | (left > 2 ? bytes[at + 2] : 0);
        char out[4] = {base64[group >> 18], base64[group >> 12 & 63], left > 1 ? base64[group >> 6 & 63] : '=',
                       left > 2 ? base64[group & 63] : '='};
        hf_put(buffer, out, 4);
    }
}

static int digit(char character) {
    if (character >= 'A' && character <= 'Z') return character - 'A';
    if (character >= 'a' && character <= 'z') return character - 'a' + 26;
    if (character >= '0' && character <= '9') return character - '0' + 52;
    return character == '+' ? 62 : character == '/' ? 63 : -1;
}

int hf_base64_decode(const char *text, size_t length, char *out) {
    char *end = out;
    if (length % 4) return -1;
    for (size_t at = 0; at < length; at += 4) {
        int last = at + 4 == length, pad = last ? (text[at + 3] == '=') + (text[at + 3] == '=' && text[at + 2] == '=') : 0;
        uint32_t group = 0;
        for (int i = 0; i < 4; i++) {
            int value = i >= 4 - pad ? 0 : digit(text[at + (size_t)i]);
            if (value < 0) return -1;
            group = group << 6 | (uint32_t)value;
        }
        *end++ = (char)(group >> 16);
        if (pad < 2) *end++ = (char)(group >> 8);
        if (pad < 1) *end++ = (char)group;
    }
    return (int)(end - out);
}
