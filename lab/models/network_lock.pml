/* The locks of src/lock that do not migrate. One of ONE_SIDED, TWO_SIDED, COHORT and ASYMMETRIC
 * is defined:
 *   ONE_SIDED   one_sided.cpp: compare-and-swap by the network, and again after a pause
 *   TWO_SIDED   two_sided.cpp: a manager queues requests; shared ones that stand together are
 *               granted together
 *   COHORT      cohort.cpp: a queue for each node, whose front gets the lock from the manager for
 *               a bounded number of hand-overs
 *   ASYMMETRIC  asymmetric.cpp: a queue of local and one of remote requesters, Peterson's
 *               algorithm between their fronts
 * The queues are queue.cpp (MCS). One has the lock, or several share it, and in the end all had
 * their turns. With LIVELY turns have no end, and each requester gets the lock again and again,
 * if each is scheduled now and then (not ONE_SIDED, which is not fair).
 *
 * Each #ifdef takes one of these rules away; the checker must then find a mistake:
 *   REPEATED_SWAP_MISREAD: a compare-and-swap that is repeated after a break and finds its own
 *     value was done the first time.
 *   FAILED_SWAP_HOLDS: only a compare-and-swap that found the lock free takes it.
 *   MANAGER_TWO_WRITERS: the manager grants what excludes no holder.
 *   MANAGER_FORGETS_NEXT: a release grants the next.
 *   READER_OVERTAKES: a shared request waits behind those before it.
 *   LINK_NOT_AWAITED: a holder waits for the link of one that joined behind it.
 *   UNBOUNDED_HAND_OVER, UNBOUNDED_QUEUE: a node or queue hands over a bounded number of times.
 *   RELEASED_WITHOUT_RENEWAL: at the bound the lock is asked for again for the next in line.
 *   NO_VICTIM, VICTIM_BEFORE_TAIL: a queue's front joins first, then writes the victim.
 *
 * The network's atomics are serial among themselves, and two steps for the processor. A
 * requester that pauses tries again when it could come further. A message arrives once, at any
 * later time. Joining a queue is one exchange (a loop of compare-and-swaps, where there is none,
 * has no place in line until it succeeds). */
#ifndef LOCALS
#define LOCALS 2    /* of the lock's node: 0 .. LOCALS - 1 */
#endif
#ifndef REMOTES
#define REMOTES 1   /* LOCALS .. ALL - 1 */
#endif
#define ALL (LOCALS + REMOTES)
#ifndef TURNS
#define TURNS 2     /* of each */
#endif
#ifndef BREAKS
#define BREAKS 1    /* of connections under a compare-and-swap of the network */
#endif
#ifndef HAND_OVERS
#define HAND_OVERS 1
#endif
#ifndef SHARERS
#define SHARERS 0   /* bit n: requester n shares */
#endif
#define shares(who) ((SHARERS >> (who)) & 1)
#define FREE ALL
#define side(who) (who >= LOCALS)            /* its node, its queue */

bool holds[ALL];
byte writers = 0, readers = 0, through = 0;

inline enter(who) {
  atomic {
    if
    :: shares(who) -> readers++
    :: else -> writers++
    fi;
    holds[who] = true;
    printf("%d has the lock\n", who);
    assert(writers <= 1 && (writers == 0 || readers == 0)) }
}
inline leave(who) {
  atomic {
    if
    :: shares(who) -> readers--
    :: else -> writers--
    fi;
    holds[who] = false;
    printf("%d unlocks\n", who) }
}

#ifdef ONE_SIDED
byte network = FREE;                         /* the word */
bool adapter = false;                        /* in the middle of an atomic of it */
byte breaks = BREAKS;

/* After a break its driver does not know whether it was done, and does it again. */
inline network_swap(who, expected, value, result) {
  do
  :: atomic { !adapter -> adapter = true };
     atomic {
       result = network;
       if
       :: network == expected -> network = value
       :: else
       fi;
       adapter = false;
#ifndef REPEATED_SWAP_MISREAD
       /* Only this requester writes its own number, and takes it away: then it was done the
        * first time. */
       if
       :: repeated && expected == FREE && result == value -> result = expected
       :: repeated && expected == who && result != expected -> result = expected
       :: else
       fi;
#endif
       if
       :: repeated = false; break
       :: who >= LOCALS && breaks > 0 -> breaks--; repeated = true;
            printf("%d's connection breaks under its compare-and-swap\n", who)
       fi }
  od
}
/* A read-modify-write by the processor: never, as it is. */
inline cpu_swap(expected, value, result) {
  atomic {
    assert(!adapter);  /* else it loses what the adapter writes next, or the other way round */
    result = network;
    if
    :: network == expected -> network = value
    :: else
    fi }
}
inline swap(who, expected, value, result) {
#ifdef LOCAL_BY_CPU
  if
  :: who < LOCALS -> cpu_swap(expected, value, result)
  :: else -> network_swap(who, expected, value, result)
  fi
#else
  network_swap(who, expected, value, result)
#endif
}
inline lock(me) {
  was = ALL + 1;
  do
  :: was == FREE -> break
#ifdef FAILED_SWAP_HOLDS
  :: was < FREE -> break
#endif
  :: atomic { was > FREE || (was < FREE && network == FREE) -> skip };
     swap(me, FREE, me, was)
  od
}
inline unlock(me) {
  swap(me, me, FREE, was);
  assert(was == me)  /* the holder's number was in the word */
}
#endif

#if defined(TWO_SIDED) || defined(COHORT)
mtype = { request, release, renew };
chan to_manager = [2 * ALL] of { mtype, byte };
byte told[ALL];                              /* granted, with what is passed + 1 */
chan waiting = [ALL] of { byte };

active proctype Manager() {
  mtype kind;
  byte who, holders = 0;
  bool shared;
  do
  :: atomic { to_manager?kind, who ->
       if
#ifdef READER_OVERTAKES
       :: kind == request && shares(who) && shared && holders > 0 -> holders++; told[who] = 1;
            goto granted
#endif
       :: kind == request -> waiting!who
       :: kind == release -> holders--
       /* Given back, and asked for in the name of the next in line */
       :: kind == renew -> holders--; waiting!who
       fi;
#ifdef MANAGER_FORGETS_NEXT
       if
       :: kind != request -> goto granted
       :: else
       fi;
#endif
       /* grant_next: readers in a row are granted in a row */
       do
       :: nempty(waiting) ->
            waiting?<who>;
            if
#ifndef MANAGER_TWO_WRITERS
            :: holders > 0 && !(shares(who) && shared) -> break
#endif
            :: else -> waiting?_; holders++; shared = shares(who); told[who] = 1;
                 printf("the manager grants it to %d\n", who)
            fi
       :: empty(waiting) -> break
       od;
granted:
       kind = 0; who = 0;
       if
       :: holders == 0 -> shared = false
       :: else
       fi }
  od
}
#endif

#ifdef TWO_SIDED
inline lock(me) {
  to_manager!request, me;
  atomic { told[me] != 0 -> told[me] = 0 }
}
inline unlock(me) { to_manager!release, me }
#endif

#if defined(COHORT) || defined(ASYMMETRIC)
/* queue.cpp */
byte tail[2];  /* of both sides: 0 nobody; otherwise the last in line, its number + 1 */
byte next[ALL];  /* who told it that it stands behind it: its number + 1 */

inline join(me) {
  atomic { was = tail[side(me)]; tail[side(me)] = me + 1;
    printf("%d joins the queue of side %d\n", me, side(me)) };
  if
  :: was != 0 -> next[was - 1] = me + 1                               /* linked */
  :: else
  fi
}
/* follower: the number + 1 of the one behind; 0: nobody */
inline leave_queue(me, follower) {
  if
  :: atomic { tail[side(me)] == me + 1 -> tail[side(me)] = 0; follower = 0 }
#ifdef LINK_NOT_AWAITED
  :: atomic { tail[side(me)] != me + 1 -> follower = next[me]; next[me] = 0 }
#else
  :: atomic { next[me] != 0 -> follower = next[me]; next[me] = 0 }
#endif
  fi
}
#endif

#ifdef COHORT
inline lock(me) {
  join(me);
  if
  :: was == 0 -> to_manager!request, me
  :: else
  fi;
  atomic { told[me] != 0 ->
    left = (told[me] > 1 -> told[me] - 2 : HAND_OVERS);
    told[me] = 0;
    was = 0 }
}
inline unlock(me) {
#ifdef UNBOUNDED_HAND_OVER
  left = HAND_OVERS;
#endif
  leave_queue(me, was);
  if
  :: was != 0 && left > 0 -> atomic { told[was - 1] = left + 1;
       printf("%d hands over to %d\n", me, was - 1) }
  :: was == 0 -> to_manager!release, me
#ifdef RELEASED_WITHOUT_RENEWAL
  :: was != 0 && left == 0 -> to_manager!release, me
#else
  :: was != 0 && left == 0 -> atomic { to_manager!renew, was - 1;
       printf("%d gives it back and asks for %d\n", me, was - 1) }
#endif
  fi;
  atomic { was = 0; left = 0 }
}
#endif

#ifdef ASYMMETRIC
byte told[ALL];                              /* granted, with what is passed + 1 */
bool victim = 0;                             /* which side goes second if both want the lock */

inline lock(me) {
#ifdef VICTIM_BEFORE_TAIL
  victim = side(me);
#endif
  join(me);
  if
  :: was == 0
  :: was != 0 -> atomic { told[me] != 0 -> left = told[me] - 1; told[me] = 0 }
  fi;
  was = 0;
  if
  :: left > 0                                                         /* passed inside the queue */
  :: left == 0 ->
       left = HAND_OVERS + 1;
#if !defined(NO_VICTIM) && !defined(VICTIM_BEFORE_TAIL)
       victim = side(me);
#endif
       do
       :: tail[1 - side(me)] == 0 -> break
       :: tail[1 - side(me)] != 0 ->
            if
            :: victim != side(me) -> break
            /* Pausing */
            :: atomic { victim == side(me) -> (tail[1 - side(me)] == 0 || victim != side(me)) }
            fi
       od
  fi
}
inline unlock(me) {
  leave_queue(me, was);
  if
#ifdef UNBOUNDED_QUEUE
  :: was != 0 -> atomic { told[was - 1] = left + 1; printf("%d hands over to %d\n", me, was - 1) }
#else
  /* What is passed is one less, and told + 1 */
  :: was != 0 -> atomic { told[was - 1] = left; printf("%d hands over to %d\n", me, was - 1) }
#endif
  :: else
  fi;
  atomic { was = 0; left = 0 }
}
#endif

proctype Requester(byte me) {
  byte turns = TURNS, was, left = 0;
  bool repeated = false;
  do
  :: turns == 0 -> break
  :: turns > 0 ->
       lock(me);
       enter(me);
       leave(me);
       unlock(me);
#ifndef LIVELY
       turns--
#endif
  od;
  through++
}

/* When no process can move, all must have had their turns. */
init {
  atomic {
    byte who = 0;
    do
    :: who == ALL -> break
    :: else -> run Requester(who); who++
    od;
    who = 0
  };
#ifndef LIVELY
  timeout -> atomic {
    printf("judge: %d of %d are through\n", through, ALL);
    assert(through == ALL)
  }
#endif
}

#ifdef LIVELY
ltl everyone_again_and_again { ([]<> holds[0]) && ([]<> holds[1]) && ([]<> holds[ALL - 1]) }
#endif
