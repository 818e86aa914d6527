#include "sums/sums.h"

int sums_add(int one, int other) { return (int)((unsigned)one + (unsigned)other); }
