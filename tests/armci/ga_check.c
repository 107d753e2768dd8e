/* ga_check: Global Arrays, as a distribution ships it, on Skerry's libarmci. Every section is
 * collective and checks its results itself.
 *
 *   mpirun -n N ga_check [SECTION...]
 *
 * Rank 0 ends with "ga_check: N processes, M nodes, K checks, ok". */
#include <ga-mpi.h>
#include <ga.h>
#include <macdecls.h>
#include <math.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

static int me, n;

static double value_at(int i, int j) { return 1000.0 * i + j; }

static int create(int type, int rows, int columns, char* name) {
  int dims[2] = {rows, columns}, chunk[2] = {-1, -1};
  int g = NGA_Create(type, 2, dims, name, chunk);
  CHECK(g != 0, "no array %s", name);
  return g;
}

static void put_all(int g, int rows,
                    int columns) { /* rank 0 puts value_at everywhere, in uneven pieces */
  if (me == 0) {
    double* buffer = malloc(sizeof(double) * (size_t)rows * (size_t)columns);
    for (int from = 0; from < rows;) {
      int to = from + from / 2 + 1;
      if (to > rows) to = rows;
      for (int i = from; i < to; ++i)
        for (int j = 0; j < columns; ++j) buffer[(i - from) * columns + j] = value_at(i, j);
      int lo[2] = {from, 0}, hi[2] = {to - 1, columns - 1}, ld = columns;
      NGA_Put(g, lo, hi, buffer, &ld);
      from = to;
    }
    free(buffer);
  }
  GA_Sync();
}

static void check_all(int g, int rows, int columns, double factor, const char* what) {
  double* buffer = malloc(sizeof(double) * (size_t)rows * (size_t)columns);
  int lo[2] = {0, 0}, hi[2] = {rows - 1, columns - 1}, ld = columns, bad = 0, first = 0;
  NGA_Get(g, lo, hi, buffer, &ld);
  for (int i = rows * columns - 1; i >= 0; --i)
    if (buffer[i] != factor * value_at(i / columns, i % columns)) first = i, ++bad;
  CHECK(bad == 0, "%s: %d of %d elements are wrong, the first at %d: %g instead of %g", what, bad,
        rows * columns, first, buffer[first], factor * value_at(first / columns, first % columns));
  free(buffer);
  GA_Sync(); /* nobody changes what others still look at */
}

static void regular(void) {
  const int rows = 60, columns = 37;
  int g = create(C_DBL, rows, columns, "regular");
  GA_Zero(g);
  put_all(g, rows, columns);
  check_all(g, rows, columns, 1, "put and get");
  /* Everybody adds a patch that crosses all owners, a column at a time. */
  double two = 2, column[60];
  for (int j = 0; j < columns; ++j) {
    for (int i = 0; i < rows; ++i) column[i] = value_at(i, j);
    int lo[2] = {0, j}, hi[2] = {rows - 1, j}, ld = 1;
    NGA_Acc(g, lo, hi, column, &ld, &two);
  }
  GA_Sync();
  check_all(g, rows, columns, 1 + 2 * n, "accumulate");
  /* Own part by loads and stores. */
  int lo[2], hi[2], ld[1];
  NGA_Distribution(g, me, lo, hi);
  if (lo[0] >= 0 && hi[0] >= lo[0]) {
    double* mine;
    NGA_Access(g, lo, hi, &mine, ld);
    for (int i = 0; i <= hi[0] - lo[0]; ++i)
      for (int j = 0; j <= hi[1] - lo[1]; ++j) mine[i * ld[0] + j] = value_at(lo[0] + i, lo[1] + j);
    NGA_Release_update(g, lo, hi);
  }
  GA_Sync();
  check_all(g, rows, columns, 1, "access");
  int h = GA_Duplicate(g, "copy");
  GA_Copy(g, h);
  check_all(h, rows, columns, 1, "copy");
  GA_Destroy(h);
  GA_Destroy(g);
  /* Less to hold than there are processes: some own nothing. */
  g = create(C_INT, 2, 1, "tiny");
  int seven = 7;
  GA_Fill(g, &seven);
  int got[2] = {0, 0}, low[2] = {0, 0}, high[2] = {1, 0}, one = 1;
  NGA_Get(g, low, high, got, &one);
  CHECK(got[0] == 7 && got[1] == 7, "got %d %d", got[0], got[1]);
  GA_Destroy(g);
  /* Many, one after the other and side by side. */
  int several[12];
  for (int k = 0; k < 12; ++k) several[k] = create(C_DBL, 3 * n, 5, "one of many");
  for (int k = 0; k < 12; ++k) {
    put_all(several[k], 3 * n, 5);
    check_all(several[k], 3 * n, 5, 1, "one of many");
  }
  for (int k = 0; k < 12; k += 2) GA_Destroy(several[k]);
  for (int k = 1; k < 12; k += 2) {
    check_all(several[k], 3 * n, 5, 1, "what is left of many");
    GA_Destroy(several[k]);
  }
}

static void irregular(void) {
  const int columns = 11;
  int dims[2] = {n * (n + 1) / 2 + 3, columns}, blocks[2] = {n, 1},
      *map = malloc(sizeof(int) * (size_t)(n + 1));
  for (int i = 0; i < n; ++i) map[i] = i * (i + 1) / 2;
  map[n] = 0;
  int g = NGA_Create_irreg(C_DBL, 2, dims, "irregular", blocks, map);
  CHECK(g != 0, "no irregular array");
  int lo[2], hi[2];
  NGA_Distribution(g, me, lo, hi);
  CHECK(lo[0] == map[me], "rank %d begins at row %d", me, lo[0]);
  put_all(g, dims[0], columns);
  check_all(g, dims[0], columns, 1, "irregular");
  GA_Destroy(g);
  free(map);
}

static int nearest_grid(int count, int grid[2]) {
  grid[0] = (int)sqrt((double)count);
  while (count % grid[0] != 0) --grid[0];
  grid[1] = count / grid[0];
  return grid[0] * grid[1];
}

static void block_cyclic(void) {
  for (int scalapack = 0; scalapack < 2; ++scalapack) {
    int dims[2] = {41, 29}, block[2] = {5, 4}, grid[2];
    int g = GA_Create_handle();
    GA_Set_data(g, 2, dims, C_DBL);
    nearest_grid(n, grid);
    if (scalapack) GA_Set_block_cyclic_proc_grid(g, block, grid);
    else GA_Set_block_cyclic(g, block);
    CHECK(GA_Allocate(g) != 0, "no block-cyclic array");
    put_all(g, dims[0], dims[1]);
    check_all(g, dims[0], dims[1], 1, "block-cyclic");
    double minus = -1;
    GA_Scale(g, &minus);
    check_all(g, dims[0], dims[1], -1, "block-cyclic scaled");
    GA_Destroy(g);
  }
}

static void ghosts(void) {
  int dims[2] = {6 * n, 18}, width[2] = {1, 2}, chunk[2] = {-1, -1};
  int g = NGA_Create_ghosts(C_DBL, 2, dims, width, "ghosts", chunk);
  CHECK(g != 0, "no array with ghosts");
  put_all(g, dims[0], dims[1]);
  check_all(g, dims[0], dims[1], 1, "with ghosts");
  GA_Update_ghosts(g);
  int lo[2], hi[2], with[2], ld[1], bad = 0;
  NGA_Distribution(g, me, lo, hi);
  if (lo[0] >= 0 && hi[0] >= lo[0]) {
    double* mine;
    NGA_Access_ghosts(g, with, &mine, ld);
    CHECK(with[0] == hi[0] - lo[0] + 1 + 2 * width[0], "%d rows with ghosts", with[0]);
    for (int i = 0; i < with[0]; ++i)
      for (int j = 0; j < with[1]; ++j) {
        const int row = (lo[0] + i - width[0] + dims[0]) % dims[0],
                  column = (lo[1] + j - width[1] + dims[1]) % dims[1];
        bad += mine[i * ld[0] + j] != value_at(row, column);
      }
    CHECK(bad == 0, "%d ghosts and cells are wrong", bad);
    NGA_Release(g, lo, hi);
  }
  GA_Sync();
  GA_Destroy(g);
}

static void groups(void) {
  const int before = GA_Pgroup_get_default();
  /* Everybody makes both groups, also where it is no member. */
  int* list = malloc(sizeof(int) * (size_t)n);
  int mine = -1, members = 0;
  for (int parity = 0; parity < 2 && parity < n; ++parity) {
    int count = 0;
    for (int r = parity; r < n; r += 2) list[count++] = r;
    int made = GA_Pgroup_create(list, count);
    if (me % 2 == parity) {
      mine = made;
      members = count;
    }
  }
  CHECK(GA_Pgroup_nnodes(mine) == members, "%d members", GA_Pgroup_nnodes(mine));
  MPI_Comm comm = GA_MPI_Comm_pgroup(mine);
  int size = 0;
  MPI_Comm_size(comm, &size);
  CHECK(size == members, "the group's communicator has %d members of %d", size, members);
  double x[3] = {me, 1, -me};
  GA_Pgroup_dgop(mine, x, 3, "+");
  CHECK(x[1] == members, "sum over the group is %g", x[1]);
  int root_value = GA_Pgroup_nodeid(mine) == 0 ? 100 + me % 2 : -1;
  GA_Pgroup_brdcst(mine, &root_value, sizeof root_value, 0);
  CHECK(root_value == 100 + me % 2, "broadcast in the group gave %d", root_value);

  GA_Pgroup_set_default(mine);
  int g = create(C_DBL, 4 * members, 6, "of a group");
  GA_Zero(g);
  double one = 1, row[6] = {1, 2, 3, 4, 5, 6};
  for (int i = 0; i < 4 * members; ++i) {
    int lo[2] = {i, 0}, hi[2] = {i, 5}, ld = 6;
    NGA_Acc(g, lo, hi, row, &ld, &one);
  }
  GA_Sync();
  int lo[2] = {4 * members - 1, 5}, hi[2] = {4 * members - 1, 5}, ld = 1;
  double got = 0;
  NGA_Get(g, lo, hi, &got, &ld);
  CHECK(got == 6.0 * members, "in the group: %g", got);
  GA_Destroy(g);
  /* A group of the group: its first half. */
  if (members >= 2) {
    int half = members / 2;
    for (int i = 0; i < half; ++i) list[i] = i;
    int inner = GA_Pgroup_create(list, half);
    if (GA_Pgroup_nodeid(mine) < half) {
      double y = 1;
      GA_Pgroup_dgop(inner, &y, 1, "+");
      CHECK(y == half, "sum over half the group is %g", y);
      GA_Pgroup_sync(inner);
    }
    GA_Sync();
  }
  GA_Pgroup_set_default(before);
  GA_Sync();
  int halves = GA_Pgroup_split(GA_Pgroup_get_world(), n >= 2 ? 2 : 1);
  double z = 1;
  GA_Pgroup_dgop(halves, &z, 1, "+");
  CHECK(z == GA_Pgroup_nnodes(halves), "sum over a half is %g", z);
  GA_Sync();
  GA_Pgroup_destroy(halves);
  GA_Pgroup_destroy(mine);
  free(list);
}

static void mirrored(void) {
  int mirror = GA_Pgroup_get_mirror();
  int dims[2] = {33, 21};
  int g = GA_Create_handle();
  GA_Set_data(g, 2, dims, C_DBL);
  GA_Set_pgroup(g, mirror);
  CHECK(GA_Allocate(g) != 0, "no mirrored array");
  CHECK(!GA_Is_mirrored(g) == (GA_Cluster_nnodes() == 1),
        "mirrored on one node, or not on several");
  GA_Zero(g);
  GA_Sync();
  /* Each process adds to its node's copy; the merged array has everybody's. */
  double one = 1, row[21];
  for (int i = 0; i < dims[0]; ++i) {
    for (int j = 0; j < dims[1]; ++j) row[j] = value_at(i, j);
    int lo[2] = {i, 0}, hi[2] = {i, dims[1] - 1}, ld = dims[1];
    NGA_Acc(g, lo, hi, row, &ld, &one);
  }
  GA_Sync();
  check_all(g, dims[0], dims[1], GA_Cluster_nprocs(GA_Cluster_nodeid()), "a node's copy");
  GA_Sync();
  /* On nodes with unequal numbers of processes Global Arrays 5.8 sums blocks of one node with other
   * blocks of another: nothing of ARMCI's. */
  int fewest = GA_Cluster_nprocs(0), most = fewest;
  for (int node = 1; node < GA_Cluster_nnodes(); ++node) {
    const int here = GA_Cluster_nprocs(node);
    if (here < fewest) fewest = here;
    if (here > most) most = here;
  }
  if (fewest != most) {
    GA_Destroy(g);
    return;
  }
  GA_Merge_mirrored(g);
  check_all(g, dims[0], dims[1], n, "merged copies");
  int d = create(C_DBL, dims[0], dims[1], "distributed");
  GA_Copy(g, d); /* waits for the own node only */
  GA_Sync();
  check_all(d, dims[0], dims[1], n, "mirrored to distributed");
  double two = 2;
  GA_Scale(d, &two);
  GA_Copy(d, g);
  GA_Sync();
  check_all(g, dims[0], dims[1], 2 * n, "distributed to mirrored");
  GA_Destroy(d);
  GA_Destroy(g);
}

static void scatter_gather(void) {
  enum { count = 64 };
  const int rows = 4 * n, columns = 40;
  int g = create(C_DBL, rows, columns, "scattered");
  GA_Zero(g);
  double values[count];
  int places[count][2], *subscripts[count];
  /* Everybody scatters into its own rows of everybody's memory: places are disjoint. */
  for (int k = 0; k < count; ++k) {
    places[k][0] = (k % 4) * n + me;
    places[k][1] = (k / 4 + 7 * (k % 4)) % columns;
    subscripts[k] = places[k];
    values[k] = value_at(places[k][0], places[k][1]);
  }
  NGA_Scatter(g, values, subscripts, count);
  GA_Sync();
  double one = 1;
  NGA_Scatter_acc(g, values, subscripts, count, &one);
  GA_Sync();
  const int next = (me + 1) % n;
  double got[count];
  int bad = 0;
  for (int k = 0; k < count; ++k) places[k][0] = (k % 4) * n + next;
  NGA_Gather(g, got, subscripts, count);
  for (int k = 0; k < count; ++k) bad += got[k] != 2 * value_at(places[k][0], places[k][1]);
  CHECK(bad == 0, "%d gathered values are wrong", bad);
  GA_Sync();
  GA_Destroy(g);
}

static void non_blocking(void) {
  const int rows = 5 * n, columns = 23;
  int g = create(C_DBL, rows, columns, "non-blocking");
  GA_Zero(g);
  double(*out)[23] = malloc(sizeof(double[23]) * (size_t)rows),
  (*in)[23] = malloc(sizeof(double[23]) * (size_t)rows);
  ga_nbhdl_t handles[5], gets[5];
  for (int k = 0; k < 5; ++k) {
    const int i = k * n + me;
    for (int j = 0; j < columns; ++j) out[i][j] = value_at(i, j);
    int lo[2] = {i, 0}, hi[2] = {i, columns - 1}, ld = columns;
    NGA_NbPut(g, lo, hi, out[i], &ld, &handles[k]);
  }
  for (int k = 4; k >= 0; --k) NGA_NbWait(&handles[k]);
  GA_Sync();
  double one = 1;
  for (int k = 0; k < 5; ++k) {
    const int i = k * n + me;
    int lo[2] = {i, 0}, hi[2] = {i, columns - 1}, ld = columns;
    NGA_NbAcc(g, lo, hi, out[i], &ld, &one, &handles[k]);
  }
  for (int k = 0; k < 5; ++k) {
    if (NGA_NbTest(&handles[k]) == 0)
      NGA_NbWait(&handles[k]); /* 1: complete, and the handle is gone */
  }
  GA_Sync();
  /* Patches that cross all owners, more of them than ARMCI handles in a row. */
  for (int round = 0; round < 30; ++round) {
    for (int k = 0; k < 5; ++k) {
      int lo[2] = {k * n, 0}, hi[2] = {k * n + n - 1, columns - 1}, ld = columns;
      NGA_NbGet(g, lo, hi, in[k * n], &ld, &gets[k]);
    }
    for (int k = 0; k < 5; ++k) NGA_NbWait(&gets[(k + round) % 5]);
  }
  int bad = 0;
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < columns; ++j) bad += in[i][j] != 2 * value_at(i, j);
  CHECK(bad == 0, "%d elements are wrong", bad);
  GA_Sync();
  free(out);
  free(in);
  GA_Destroy(g);
}

static void read_increment(void) {
  int dims[1] = {n + 2}, chunk[1] = {-1};
  int g = NGA_Create(C_LONG, 1, dims, "counters", chunk);
  GA_Zero(g);
  const int each = 200;
  int at[1] = {n + 1};
  long last = -1, sum = 0;
  for (int k = 0; k < each; ++k) {
    const long got = NGA_Read_inc(g, at, 1);
    CHECK(got > last && got < (long)each * n, "counter went from %ld to %ld", last, got);
    last = got;
    sum += got;
  }
  GA_Lgop(&sum, 1, "+");
  const long all = (long)each * n;
  CHECK(sum == all * (all - 1) / 2, "every number once: sum %ld instead of %ld", sum,
        all * (all - 1) / 2);
  GA_Destroy(g);
  /* 32 bits too. */
  g = NGA_Create(C_INT, 1, dims, "counter of 32 bits", chunk);
  GA_Zero(g);
  for (int k = 0; k < 10; ++k) NGA_Read_inc(g, at, 3);
  GA_Sync();
  int got = 0, one = 1;
  NGA_Get(g, at, at, &got, &one);
  CHECK(got == 30 * n, "counter is %d", got);
  GA_Sync();
  GA_Destroy(g);
}

static void locks(void) {
  int dims[1] = {5 * n}, chunk[1] = {-1};
  int g = NGA_Create(C_DBL, 1, dims, "guarded", chunk);
  GA_Zero(g);
  CHECK(GA_Create_mutexes(5) != 0, "no mutexes");
  for (int k = 0; k < 40; ++k) {
    const int mutex = (k + me) % 5;
    int at[1] = {mutex * n}, one = 1;
    double x;
    GA_Lock(mutex);
    NGA_Get(g, at, at, &x, &one);
    x += 1;
    NGA_Put(g, at, at, &x, &one);
    GA_Init_fence();
    NGA_Put(g, at, at, &x, &one);
    GA_Fence();
    GA_Unlock(mutex);
  }
  GA_Sync();
  double total = 0;
  for (int mutex = 0; mutex < 5; ++mutex) {
    int at[1] = {mutex * n}, one = 1;
    double x;
    NGA_Get(g, at, at, &x, &one);
    total += x;
  }
  CHECK(total == 40.0 * n, "%g increments under mutexes instead of %d", total, 40 * n);
  GA_Sync();
  CHECK(GA_Destroy_mutexes() != 0, "mutexes stay");
  GA_Destroy(g);
}

static void elementwise(void) {
  const int rows = 30, columns = 30;
  int a = create(C_DBL, rows, columns, "a"), b = GA_Duplicate(a, "b"), c = GA_Duplicate(a, "c");
  put_all(a, rows, columns);
  double two = 2, three = 3;
  GA_Copy(a, b);
  GA_Scale(b, &two);
  GA_Add(&two, a, &three, b, c);
  check_all(c, rows, columns, 8, "2 a + 3 (2 a)");
  GA_Fill(b, &three);
  GA_Elem_multiply(a, b, c);
  check_all(c, rows, columns, 3, "element by element");
  GA_Fill(a, &two);
  const double dot = GA_Ddot(a, b);
  CHECK(dot == 6.0 * rows * columns, "dot product %g", dot);
  put_all(a, rows, columns);
  double largest;
  int index[2];
  NGA_Select_elem(a, "max", &largest, index);
  CHECK(
      largest == value_at(rows - 1, columns - 1) && index[0] == rows - 1 && index[1] == columns - 1,
      "largest %g at %d %d", largest, index[0], index[1]);
  GA_Transpose(a, c);
  int lo[2] = {3, 7}, ld = 1;
  double got;
  NGA_Get(c, lo, lo, &got, &ld);
  CHECK(got == value_at(7, 3), "transposed: %g", got);
  long x[2] = {me, -me};
  GA_Lgop(x, 2, "max");
  CHECK(x[0] == n - 1 && x[1] == 0, "max over all: %ld %ld", x[0], x[1]);
  double y[2] = {me - 0.5, -me - 1.0};
  GA_Dgop(y, 2, "absmax");
  CHECK(y[1] == n, "absmax over all: %g", y[1]);
  GA_Sync();
  GA_Destroy(c);
  GA_Destroy(b);
  GA_Destroy(a);
}

static void multiply(void) {
  const int m = 36;
  int a = create(C_DBL, m, m, "a"), b = GA_Duplicate(a, "b"), c = GA_Duplicate(a, "c");
  double *x = malloc(sizeof(double) * m * m), *y = malloc(sizeof(double) * m * m),
         *z = malloc(sizeof(double) * m * m);
  for (int i = 0; i < m * m; ++i) {
    x[i] = i % 7 - 3;
    y[i] = i % 11 - 5;
  }
  int lo[2] = {0, 0}, hi[2] = {m - 1, m - 1}, ld = m, bad = 0;
  if (me == n - 1) {
    NGA_Put(a, lo, hi, x, &ld);
    NGA_Put(b, lo, hi, y, &ld);
  }
  GA_Sync();
  GA_Zero(c);
  GA_Dgemm('N', 'N', m, m, m, 1.0, a, b, 0.0, c);
  NGA_Get(c, lo, hi, z, &ld);
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < m; ++j) {
      double sum = 0;
      for (int k = 0; k < m; ++k) sum += x[i * m + k] * y[k * m + j];
      bad += sum != z[i * m + j];
    }
  CHECK(bad == 0, "%d elements of the product are wrong", bad);
  GA_Sync();
  GA_Destroy(c);
  GA_Destroy(b);
  GA_Destroy(a);
  free(x);
  free(y);
  free(z);
}

static void solver(void) { /* ScaLAPACK over the program's MPI, beside ours */
  const int m = 24;
  int a = create(C_DBL, m, m, "matrix"),
      b = create(C_DBL, 1, m, "right side") /* Fortran sees a column */,
      r = GA_Duplicate(b, "residual");
  double* x = malloc(sizeof(double) * m * m);
  double right[24];
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < m; ++j) x[i * m + j] = i == j ? m + 1.0 + i : 1.0 / (1 + abs(i - j));
    right[i] = i - 7.0;
  }
  int lo[2] = {0, 0}, hi[2] = {m - 1, m - 1}, hib[2] = {0, m - 1}, ld = m;
  if (me == 0) {
    NGA_Put(a, lo, hi, x, &ld);
    NGA_Put(b, lo, hib, right, &ld);
  }
  GA_Sync();
  int s = GA_Duplicate(a, "factors");
  GA_Copy(a, s);
  CHECK(GA_Solve(s, b) == 0, "the solver failed");
  GA_Dgemm('N', 'N', 1, m, m, 1.0, b, a, 0.0, r); /* the matrix is symmetric */
  double back[24];
  NGA_Get(r, lo, hib, back, &ld);
  double worst = 0;
  for (int i = 0; i < m; ++i) worst = fmax(worst, fabs(back[i] - right[i]));
  CHECK(worst < 1e-10, "residual %g", worst);
  GA_Sync();
  GA_Destroy(s);
  GA_Destroy(r);
  GA_Destroy(b);
  GA_Destroy(a);
  free(x);
}

static void types(void) {
  const struct {
    int type;
    size_t bytes;
  } known[] = {{C_INT, 4}, {C_LONG, 8}, {C_FLOAT, 4}, {C_DBL, 8}, {C_SCPL, 8}, {C_DCPL, 16}};
  for (int k = 0; k < 6; ++k) {
    int dims[3] = {n + 1, 3, 5}, chunk[3] = {-1, -1, -1}, lo[3] = {0, 0, 0}, hi[3] = {n, 2, 4},
        ld[2] = {3, 5};
    ld[0] = 3;
    int g = NGA_Create(known[k].type, 3, dims, "typed", chunk);
    const size_t count = (size_t)(n + 1) * 15;
    void *ones = calloc(count, known[k].bytes), *got = calloc(count, known[k].bytes);
    union {
      int i;
      long l;
      float f[2];
      double d[2];
    } alpha;
    memset(&alpha, 0, sizeof alpha);
    switch (known[k].type) {
      case C_INT:
        alpha.i = 2;
        for (size_t i = 0; i < count; ++i) ((int*)ones)[i] = (int)i;
        break;
      case C_LONG:
        alpha.l = 2;
        for (size_t i = 0; i < count; ++i) ((long*)ones)[i] = (long)i;
        break;
      case C_FLOAT:
        alpha.f[0] = 2;
        for (size_t i = 0; i < count; ++i) ((float*)ones)[i] = (float)i;
        break;
      case C_DBL:
        alpha.d[0] = 2;
        for (size_t i = 0; i < count; ++i) ((double*)ones)[i] = (double)i;
        break;
      case C_SCPL:
        alpha.f[1] = 2;
        for (size_t i = 0; i < count; ++i) ((float*)ones)[2 * i] = (float)i;
        break;
      default:
        alpha.d[1] = 2;
        for (size_t i = 0; i < count; ++i) ((double*)ones)[2 * i] = (double)i;
        break;
    }
    GA_Zero(g);
    NGA_Acc(g, lo, hi, ones, ld, &alpha);
    GA_Sync();
    NGA_Get(g, lo, hi, got, ld);
    int bad = 0;
    for (size_t i = 0; i < count; ++i) {
      const double want = 2.0 * n * (double)i;
      switch (known[k].type) {
        case C_INT: bad += ((int*)got)[i] != want; break;
        case C_LONG: bad += (double)((long*)got)[i] != want; break;
        case C_FLOAT: bad += ((float*)got)[i] != want; break;
        case C_DBL: bad += ((double*)got)[i] != want; break;
        case C_SCPL:
          bad += ((float*)got)[2 * i] != 0 || ((float*)got)[2 * i + 1] != want;
          break; /* times 2i */
        default: bad += ((double*)got)[2 * i] != 0 || ((double*)got)[2 * i + 1] != want; break;
      }
    }
    CHECK(bad == 0, "type %d: %d elements are wrong", known[k].type, bad);
    GA_Sync();
    GA_Destroy(g);
    free(ones);
    free(got);
  }
}

static const struct {
  const char* name;
  void (*run)(void);
} sections[] = {{"regular", regular},
                {"irregular", irregular},
                {"block_cyclic", block_cyclic},
                {"ghosts", ghosts},
                {"groups", groups},
                {"mirrored", mirrored},
                {"scatter_gather", scatter_gather},
                {"non_blocking", non_blocking},
                {"read_increment", read_increment},
                {"locks", locks},
                {"elementwise", elementwise},
                {"multiply", multiply},
                {"solver", solver},
                {"types", types}};

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  GA_Initialize();
  MA_init(C_DBL, 2000000, 2000000);
  me = my_rank = GA_Nodeid();
  n = GA_Nnodes();
  for (size_t k = 0; k < sizeof sections / sizeof *sections; ++k) {
    int wanted = argc == 1;
    for (int a = 1; a < argc; ++a) wanted = wanted || strcmp(argv[a], sections[k].name) == 0;
    if (!wanted) continue;
    const int before = failures;
    sections[k].run();
    GA_Sync();
    if (failures != before) fprintf(stderr, "%d: section %s failed\n", me, sections[k].name);
  }
  const int nodes = GA_Cluster_nnodes();
  GA_Igop(&failures, 1, "+");
  GA_Igop(&checks, 1, "+");
  GA_Terminate();
  if (me == 0)
    printf("ga_check: %d processes, %d nodes, %d checks, %s\n", n, nodes, checks,
           failures == 0 ? "ok" : "FAILED");
  MPI_Finalize();
  return failures != 0;
}
