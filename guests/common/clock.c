/* The clock, which is input of each step, under the names by which C libraries ask for it.
 *
 * Both runtimes read time through libc. These definitions take the place of libc's, so a loop that reads the clock never leaves
 * the guest, and the same input always gives the same memory. It moves after host calls, since those take time.
 *
 * A zone is a table of transitions: bytes of the name up to a NUL, then pairs of i64 seconds (UTC, ascending) and i32 offset.
 * The first pair's offset also holds before it. No table means UTC.
 */
#include <string.h>
#include <sys/time.h>
#include <time.h>

#include "abi.h"

static double now; /* milliseconds */
static struct {
    char *data; /* the pairs, 12 bytes each */
    uint32_t count;
    char *name;
} zone;

void hf_clock_set(double milliseconds) { now = milliseconds; }
double hf_clock_now(void) { return now; }

void hf_clock_zone(const char *data, uint32_t length) {
    size_t name = strnlen(data, length);
    hf_free(zone.data);
    hf_free(zone.name);
    memset(&zone, 0, sizeof zone);
    if (name == length) return;
    zone.name = hf_malloc(name + 1);
    memcpy(zone.name, data, name + 1);
    zone.count = (uint32_t)((length - name - 1) / 12);
    zone.data = hf_malloc(zone.count * 12);
    memcpy(zone.data, data + name + 1, zone.count * 12);
}

static int64_t starts(uint32_t index) {
    int64_t seconds;
    memcpy(&seconds, zone.data + index * 12, 8);
    return seconds;
}

static int32_t offset_at(int64_t seconds) {
    if (!zone.count) return 0;
    uint32_t low = 0, high = zone.count; /* the last transition that is not later */
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if (starts(middle) <= seconds)
            low = middle;
        else
            high = middle;
    }
    int32_t offset;
    memcpy(&offset, zone.data + low * 12 + 8, 4);
    return offset;
}

int clock_gettime(clockid_t clock, struct timespec *out) {
    (void)clock;
    int64_t microseconds = (int64_t)(now * 1000);
    out->tv_sec = microseconds / 1000000;
    out->tv_nsec = microseconds % 1000000 * 1000;
    return 0;
}

int gettimeofday(struct timeval *restrict out, void *restrict unused) {
    (void)unused;
    int64_t microseconds = (int64_t)(now * 1000);
    out->tv_sec = microseconds / 1000000;
    out->tv_usec = microseconds % 1000000;
    return 0;
}

time_t time(time_t *out) {
    time_t seconds = (time_t)(now / 1000);
    if (out) *out = seconds;
    return seconds;
}

clock_t clock(void) { return (clock_t)(now * (CLOCKS_PER_SEC / 1000.0)); }

struct tm *localtime_r(const time_t *restrict at, struct tm *restrict out) {
    int32_t offset = offset_at(*at);
    time_t shifted = *at + offset;
    if (!gmtime_r(&shifted, out)) return NULL;
    out->tm_gmtoff = offset;
    return out;
}

struct tm *localtime(const time_t *at) {
    static struct tm out;
    return localtime_r(at, &out);
}

time_t mktime(struct tm *local) {
    struct tm copy = *local;
    time_t naive = timegm(&copy), guess = naive - offset_at(naive);
    guess = naive - offset_at(guess); /* the second look settles times near a transition */
    if (!localtime_r(&guess, local)) return -1;
    return guess;
}
