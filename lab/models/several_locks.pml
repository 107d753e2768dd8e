/* Requesters that share several fair locks at a time (lock_all takes the lock of a member at its
 * first use), beside others that want one lock each for themselves. What one lock does is
 * fair_queue.pml's business: here each step of a lock is atomic. In the end all had their turns.
 *
 * Each #ifdef takes one of these rules away; the checker must then find a mistake:
 *   NOBODY_JOINS: a sharer that holds other locks joins present sharers.
 *   OWNER_WANTS_ANOTHER: nobody holds a lock exclusively and waits for another: the program's
 *     rule.
 */
#ifndef LOCKS
#define LOCKS 2
#endif
#ifndef SHARERS
#define SHARERS 2   /* each shares all locks, in an order of its own: 0 .. SHARERS - 1 */
#endif
#ifndef OWNERS
#define OWNERS 2    /* each wants one lock for itself: SHARERS .. ALL - 1 */
#endif
#define ALL (SHARERS + OWNERS)

typedef Lock {
  byte sharers;
  bool owned;
  chan queue = [ALL] of { byte }
};
Lock locks[LOCKS];
bool granted[ALL];
byte through = 0;

/* request */
inline ask(l, who, wants_share, holds) {
  granted[who] = false;
  if
  :: !locks[l].owned && locks[l].sharers == 0 && len(locks[l].queue) == 0 ->
       granted[who] = true;
       if
       :: wants_share -> locks[l].sharers++
       :: else -> locks[l].owned = true
       fi
  :: else ->
       if
       :: wants_share && locks[l].sharers > 0 && len(locks[l].queue) == 0 ->
            locks[l].sharers++; granted[who] = true
#ifndef NOBODY_JOINS
       :: wants_share && locks[l].sharers > 0 && len(locks[l].queue) > 0 && holds > 0 ->
            locks[l].sharers++; granted[who] = true;
            printf("%d joins the sharers of %d\n", who, l)
#else
       :: wants_share && locks[l].sharers > 0 && len(locks[l].queue) > 0 && holds > 0 ->
            locks[l].queue!who; printf("%d queues up for %d\n", who, l)
#endif
       :: wants_share && locks[l].sharers > 0 && len(locks[l].queue) > 0 && holds == 0 ->
            locks[l].queue!who; printf("%d queues up for %d\n", who, l)
       :: !wants_share || locks[l].sharers == 0 ->
            locks[l].queue!who; printf("%d queues up for %d\n", who, l)
       fi
  fi
}

/* unlock, with its hand-over: one that wants it alone, or all sharers at the queue's head */
inline give_back(l, was_shared) {
  byte next;
  if
  :: was_shared -> locks[l].sharers--
  :: else -> locks[l].owned = false
  fi;
  if
  :: locks[l].sharers == 0 && len(locks[l].queue) > 0 ->
       locks[l].queue?next;
       granted[next] = true;
       if
       :: next >= SHARERS -> locks[l].owned = true
       :: else ->
            locks[l].sharers++;
            do
            :: len(locks[l].queue) > 0 ->
                 locks[l].queue?<next>;
                 if
                 :: next >= SHARERS -> break
                 :: else -> locks[l].queue?next; granted[next] = true; locks[l].sharers++
                 fi
            :: len(locks[l].queue) == 0 -> break
            od
       fi
  :: else
  fi;
  next = 0
}

/* A rank inside lock_all. It begins anywhere, and goes up or down. */
proctype Sharer(byte me) {
  byte l = 0, n = 0;
  bool up = false;
  atomic {
    select(l : 0 .. LOCKS - 1);
    if
    :: up = true
    :: up = false
    fi
  };
  do
  :: n == LOCKS -> break
  :: n < LOCKS ->
       atomic { ask(l, me, true, n) };
       atomic {
         granted[me];
         assert(!locks[l].owned && locks[l].sharers > 0);
         n++;
         l = (up -> (l + 1) % LOCKS : (l + LOCKS - 1) % LOCKS) }
  od;
  do
  :: n == 0 -> break
  :: n > 0 -> atomic { n--; give_back(n, true) }
  od;
  through++
}

proctype Owner(byte me) {
  byte l = 0;
  atomic { select(l : 0 .. LOCKS - 1) };
  atomic { ask(l, me, false, 0) };
  atomic { granted[me]; assert(locks[l].owned && locks[l].sharers == 0) };
#ifdef OWNER_WANTS_ANOTHER
  byte other = (l + 1) % LOCKS;
  atomic { ask(other, me, false, 1) };
  granted[me];
  atomic { give_back(other, false) };
#endif
  atomic { give_back(l, false) };
  through++
}

init {
  atomic {
    byte who = 0;
    do
    :: who == ALL -> break
    :: who < SHARERS -> run Sharer(who); who++
    :: who >= SHARERS && who < ALL -> run Owner(who); who++
    od;
    who = 0
  };
  timeout -> atomic {
    printf("judge: %d of %d are through\n", through, ALL);
    assert(through == ALL)
  }
}
