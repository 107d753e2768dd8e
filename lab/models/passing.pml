/* Ranks of one node want a lock for themselves; an unlocker may leave it open and invite the first
 * waiter, which newcomers may pass (mutex.cpp: pass_queue, leave_open, invite_guarded,
 * take_guarded, rest_guarded; wait_for_turn in src/lock/host/wait.hpp). One has the lock, the
 * first waiter is passed a bounded number of times, no wake-up is lost, and in the end all had
 * their turns. fair_queue.pml has the rest of the queue: sharers, other nodes, records.
 *
 * Each #ifdef takes one of these rules away; the checker must then find a mistake:
 *   UNBOUNDED_PASSING: after so many newcomers an unlock hands over.
 *   HAND_OVER_UNSEEN: a waiter that wakes looks whether the lock was handed to it.
 *   ARMED_LATE: a waiter arms its slot before the next unlocker may tell it.
 *   REST_WITHOUT_A_LOOK, REST_INVITED: a waiter goes back to sleep by a compare-and-swap of the
 *     word, which takes the invitation away.
 */
#ifndef RANKS
#define RANKS 3
#endif
#ifndef TURNS
#define TURNS 2
#endif
#ifndef PASSES
#define PASSES 2    /* most_passes */
#endif
#define free 0

byte owner = free;               /* the word: the holder (rank + 1), and two bits */
bool queued = false, invited = false;
bool guard = false;
chan queue = [RANKS] of { byte };
byte slot_of_record[RANKS];      /* the use of the slot that a waiter's record names */
byte passes = 0;
bool impatient = false;
byte armed[RANKS];               /* the present use of its slot */
bool filled[RANKS];
byte holders = 0, through = 0;

#define is_open (owner == free && queued && invited)
#ifdef UNBOUNDED_PASSING
#define must_hand_over (impatient)
#else
#define must_hand_over (passes >= PASSES || impatient)
#endif

inline set_first() {
  passes = 0;
  impatient = false
}
inline tell(who, use) {
  if
  :: armed[who] == use -> filled[who] = true; printf("%d is told\n", who)
  :: else                                                  /* late: an earlier use */
  fi
}
inline enter(who) {
  holders++;
  printf("%d has the lock\n", who);
  assert(holders == 1)
}

/* take_guarded */
inline take(who, has) {
  if
#ifndef HAND_OVER_UNSEEN
  :: owner == who + 1 -> has = true
#endif
  :: is_open ->
       queue?first;
       assert(first == who);
       owner = who + 1; invited = false; queued = len(queue) > 0;
       set_first();
       has = true
  :: else -> has = false
  fi
}

proctype Rank(byte me) {
  byte turns = TURNS, first = 0, use = 0;
  bool has = false;
  do
  :: turns == 0 -> break
  :: turns > 0 ->
       /* try_lock */
       if
       :: atomic { owner == free && !queued -> owner = me + 1; enter(me); goto held }
#ifdef UNBOUNDED_PASSING
       :: atomic { is_open -> owner = me + 1; enter(me); passes++;
#else
       :: atomic { is_open && passes < PASSES -> owner = me + 1; enter(me); passes++;
#endif
            printf("%d passes the queue\n", me); assert(passes <= PASSES); goto held }
       :: atomic { !(owner == free && !queued) -> armed[me]++; filled[me] = false }
       fi;
       atomic { !guard -> guard = true };
       atomic {  /* lock_guarded */
         if
         :: owner == free && !queued -> owner = me + 1; guard = false; enter(me); goto held
         :: else ->
              if
              :: len(queue) == 0 -> set_first()
              :: else
              fi;
              queued = true; queue!me; slot_of_record[me] = armed[me]; guard = false;
              printf("%d queues up\n", me)
         fi };
sleep: atomic { filled[me] -> filled[me] = false };
       /* try_turn, none or several times */
       do
       :: atomic { owner == me + 1 -> enter(me); goto held }
       :: atomic { owner == free -> skip };
          atomic { !guard -> guard = true };
          atomic { take(me, has); guard = false;
            if
            :: has -> has = false; enter(me); goto held
            :: else
            fi }
       :: true -> break
       od;
       /* rest */
#ifdef ARMED_LATE
       atomic { !guard -> guard = true };
       atomic { take(me, has);
         if
         :: has -> has = false; guard = false; enter(me); goto held
         :: else -> slot_of_record[me] = armed[me] + 1; invited = false; guard = false
         fi };
       atomic { armed[me]++; filled[me] = false };
#else
       atomic { armed[me]++; filled[me] = false };
       atomic { !guard -> guard = true };
       atomic { take(me, has);
         if
         :: has -> has = false; guard = false; enter(me); goto held
         :: else
         fi };
#ifdef REST_WITHOUT_A_LOOK
       atomic { slot_of_record[me] = armed[me]; invited = false; guard = false };
#else
       atomic {  /* the word may be open again: then it takes it. Its compare-and-swap says so */
         slot_of_record[me] = armed[me];
         if
         :: is_open -> take(me, has); has = false; guard = false; enter(me); goto held
         :: else ->
#ifndef REST_INVITED
              invited = false;
#endif
              if
              :: impatient = true; printf("%d is impatient\n", me)
              :: true
              fi;
              guard = false; printf("%d rests\n", me)
         fi };
#endif
#endif
       goto sleep;
held:  skip;
       /* try_unlock; leave_open */
       if
       :: atomic { !queued -> holders--; owner = free }
       :: atomic { queued && invited && !must_hand_over -> holders--; owner = free }
       :: atomic { queued && !(invited && !must_hand_over) -> holders-- };
          atomic { !guard -> guard = true };
          atomic {
            if
            :: queued && !invited && !must_hand_over ->     /* invite_guarded */
                 queue?<first>;
                 use = slot_of_record[first];
                 owner = free; invited = true; guard = false;
                 printf("%d leaves it open for %d\n", me, first)
            :: queued && invited && !must_hand_over ->      /* try_unlock once more */
                 owner = free; guard = false; use = 0
            :: queued && must_hand_over ->                  /* hand_over */
                 queue?first;
                 use = slot_of_record[first];
                 owner = first + 1; invited = false; queued = len(queue) > 0;
                 set_first(); guard = false;
                 printf("%d hands over to %d\n", me, first)
            :: !queued -> owner = free; guard = false; use = 0
            fi };
          atomic {
            if
            :: use != 0 -> tell(first, use)
            :: else
            fi;
            use = 0; first = 0 }
       fi;
       turns--
  od;
  through++
}

init {
  atomic {
    byte who = 0;
    do
    :: who == RANKS -> break
    :: who < RANKS -> run Rank(who); who++
    od;
    who = 0
  };
  timeout -> atomic {
    printf("judge: %d of %d are through\n", through, RANKS);
    assert(through == RANKS);
    assert(owner == free && !queued && !invited && !guard && len(queue) == 0)
  }
}
