/* A lock that ranks of one node share by flags, and that one wants for itself
 * (src/lock/readers.cpp), with the counts of mutex.cpp. One writer or many readers; no share is
 * lost or counted twice.
 *
 * Each #ifdef takes one of these rules away; the checker must then find a mistake:
 *   LOOK_BEFORE_FLAG: a reader looks at the bias after its flag is set.
 *   WITHDRAWN_UNSEEN: a reader that finds its flag gone was counted, and has the lock.
 *   NO_SHARE_OF_ITS_OWN: the revoker counts itself while it turns flags into counts.
 *   FLAG_BEFORE_COUNT: the revoker counts a flag before it takes it.
 */
#ifndef READERS
#define READERS 2
#endif
#ifndef TURNS
#define TURNS 2
#endif
#ifndef WRITES
#define WRITES 2
#endif

/* The word: owned, or `shared` with a count and the bias. */
bool owned = false, shared_word = false, biased = false;
byte count = 0;
bool flag[READERS];
byte reading = 0, through = 0;
bool writing = false;

inline enter() {
  reading++;
  assert(!writing)
}

/* try_share; met_others biases as it likes */
inline by_count(granted) {
  atomic {
    if
    :: owned -> granted = false
    :: !owned -> shared_word = true; count++; granted = true; enter()
    fi
  };
  if
  :: granted ->
       atomic {
         if
         :: shared_word && !biased -> biased = true
         :: true
         fi }
  :: !granted
  fi
}
/* try_unshare */
inline count_out() {
  atomic {
    assert(shared_word && count > 0);
    count--;
    shared_word = (count > 0 || biased)
  }
}

proctype Reader(byte me) {
  byte turns = TURNS;
  bool granted = false;
  do
  :: turns == 0 -> break
  :: turns > 0 ->
       /* share_by_flag */
       if
       :: atomic { biased -> skip };
#ifdef LOOK_BEFORE_FLAG
          atomic { flag[me] = true; enter(); goto held };
#endif
          flag[me] = true;
          if
          :: atomic { biased -> enter(); goto held }
          :: atomic { !biased && flag[me] -> flag[me] = false }       /* as others do */
          :: atomic { !biased && !flag[me] ->
#ifdef WITHDRAWN_UNSEEN
               skip }
#else
               enter(); goto held }                                   /* it was counted */
#endif
          fi
       :: true
       fi;
       by_count(granted);
       if
       :: granted
       :: !granted -> goto next                          /* it would queue up: fair_queue.pml */
       fi;
held:  reading--;
       if
       :: atomic { flag[me] -> flag[me] = false }
       :: atomic { !flag[me] -> skip }; count_out()
       fi;
next:  granted = false;
       turns--
  od;
  through++
}

/* It has the guard: one at a time. */
proctype Writer() {
  byte writes = WRITES, r = 0;
  do
  :: writes == 0 -> break
  :: writes > 0 ->
       if
       :: atomic { biased ->
#ifdef NO_SHARE_OF_ITS_OWN
            biased = false; shared_word = (count > 0) };
#else
            biased = false; count++ };
#endif
          r = 0;
          do
          :: r == READERS -> break
          :: r < READERS ->
               if
               :: flag[r] ->
#ifdef FLAG_BEFORE_COUNT
                    flag[r] = false;
                    atomic { count++; shared_word = true };
#else
                    atomic { count++; shared_word = true };
                    if
                    :: atomic { flag[r] -> flag[r] = false }
                    :: atomic { !flag[r] -> count--; shared_word = (count > 0 || biased) }
                    fi;
#endif
               :: !flag[r]
               fi;
               r++
          od;
#ifndef NO_SHARE_OF_ITS_OWN
          count_out();
#endif
       :: !biased
       fi;
       if
       :: atomic { !owned && !shared_word -> owned = true; writing = true; assert(reading == 0) };
          atomic { writing = false; owned = false }
       :: else                                            /* it would queue up */
       fi;
       writes--
  od;
  through++
}

/* It has not the guard: try_lock. */
proctype Newcomer() {
  if
  :: atomic { !owned && !shared_word && !biased -> owned = true; writing = true;
       assert(reading == 0) };
     atomic { writing = false; owned = false }
  :: true
  fi;
  through++
}

init {
  atomic {
    byte who = 0;
    do
    :: who == READERS -> break
    :: who < READERS -> run Reader(who); who++
    od;
    who = 0;
    run Writer();
    run Newcomer()
  };
  timeout -> atomic {
    printf("judge: %d of %d are through\n", through, READERS + 2);
    assert(through == READERS + 2);
    assert(count == 0 && reading == 0 && shared_word == biased)
  }
}
