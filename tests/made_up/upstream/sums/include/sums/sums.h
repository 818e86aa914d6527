int sums_add(int one, int other);
