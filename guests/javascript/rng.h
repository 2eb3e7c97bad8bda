/* Generators of random numbers, as scripts have them: objects that numbers.c makes. */
#ifndef HOLDFAST_RNG_H
#define HOLDFAST_RNG_H

#include "guest.h"

const void *guest_rng_state(JSValueConst object, size_t *size); /* NULL: it is no generator */

#endif
