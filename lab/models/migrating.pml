/* The lock that migrates between a lock of the processor and one of the network:
 * src/lock/migrating.cpp (Santhanaraman et al., "Natively Supporting True One-sided Communication
 * in MPI on Multi-core Systems with InfiniBand", section 4; step numbers are its). Requesters of
 * the lock's node, requesters of other nodes and the manager. Requests from both sides cross;
 * connections break while a requester waits, takes or gives back. One has the lock, no word is
 * changed by processor and network at once, and in the end all had their turns.
 *
 * Each #ifdef takes one of these rules away; the checker must then find a mistake:
 *   MODE_LOOKED_AT_ONCE: a requester that has the CPU lock looks at the mode again.
 *   ONE_LOCK_ONLY: a migration takes both locks.
 *   STEP_4_AS_PRINTED: the manager writes "network mode" (the paper's text says CPU mode).
 *   FREED_BEFORE_MODE: the mode is written before the CPU lock is freed.
 *   CROSSING_MIGRATES: a request that finds the mode it wanted is answered "again".
 *   UNLOCK_IN_NETWORK: what the manager holds for a requester goes back to the manager.
 *   NETWORK_WORD_BY_CPU, LOCAL_BY_CPU: the network alone changes the network's word.
 *   REPEATED_SWAP_MISREAD: a compare-and-swap that is repeated after a break and finds its own
 *     value was done the first time.
 *   LOST_AGAIN_FORGOTTEN: a requester that asks again after a break, and neither waits nor
 *     holds, is answered "again".
 *   DEAF_WHILE_PAUSING: the manager answers those that ask again while it pauses.
 *   ANSWER_WITHOUT_TAG: an answer names its request.
 *   SHARERS_UNTOLD: who was counted in leaves a network lock that says so.
 *   GRANTED_UNSEEN: who the manager granted it looks at the count of sharers.
 *
 * Sharers are counted beside the lock (src/window/machine_locks.cpp): one takes the lock, counts
 * itself in and gives the lock back. A holder for itself alone waits until the count is 0, unless
 * the free network lock said that there are none.
 *
 * The network's atomics are serial among themselves, and two steps for the processor. A
 * requester that pauses tries again when it could come further. Messages to the manager arrive,
 * each once: connection.pml shows it. Answers are lost with a connection, and asked for again. */
#ifndef LOCALS
#define LOCALS 2    /* 0 .. LOCALS - 1 */
#endif
#ifndef REMOTES
#define REMOTES 2   /* LOCALS .. ALL - 1 */
#endif
#define ALL (LOCALS + REMOTES)
#ifndef TURNS
#define TURNS 1     /* of each */
#endif
#ifndef BREAKS
#define BREAKS 1
#endif
#ifndef SHARERS
#define SHARERS 0   /* bit n: requester n shares */
#endif
#define shares(who) ((SHARERS >> (who)) & 1)
#define is_local(who) (who < LOCALS)
#define FREE ALL
#define FREE_SHARED (ALL + 2)                /* in the network's word: there may be sharers */
#define is_free(word) (word == FREE || word == FREE_SHARED)
#define CPU_MODE (ALL + 1)                   /* in the network's word */
#define MANAGER (ALL + 1)                    /* in the processor's */

mtype = { again, granted, granted_by_manager };

/* On the lock's node. */
byte network = CPU_MODE;                     /* changed by the network alone */
byte cpu = FREE;                             /* changed by the processor alone */
bool network_mode = false;                   /* the mode's word: the same */
bool adapter = false;                        /* in the middle of an atomic of the network's word */

/* Messages. */
chan requests = [ALL] of { byte };           /* and the manager's queue: its front is served */
bool stands[ALL];                            /* in it */
chan releases = [1] of { byte };             /* of what the manager holds for a requester */
chan asked_again = [BREAKS + 1] of { byte };  /* after a break */
chan told = [ALL + BREAKS] of { mtype, byte };
bool waits[ALL];
byte breaks = BREAKS;

byte holders = 0, through = 0;
byte sharers = 0;                            /* the count's word */

inline enter(who) {
  holders++;
  printf("%d has the lock\n", who);
  assert(holders == 1 && sharers == 0)
}
inline leave(who) { holders--; printf("%d unlocks\n", who) }
/* With the lock. It has it shared until it counts itself out. */
inline count_in(who) {
  sharers++;
  printf("%d is counted in\n", who)
}
inline count_out(who) {
  atomic {
    assert(holders == 0);
    sharers--;
    printf("%d is counted out\n", who) }
}

/* compare_and_swap by the network. After a break its driver does not know whether it was done,
 * and does it again. */
inline network_swap(who, expected, value, result, repeated) {
  repeated = false;
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
       :: repeated && is_free(expected) && result == value -> result = expected
       :: repeated && expected == who && result != expected -> result = expected
       :: else
       fi;
#endif
       if
       :: true -> break
       :: !is_local(who) && who < ALL && breaks > 0 -> breaks--; repeated = true;
            printf("%d's connection breaks under its compare-and-swap\n", who)
       fi }
  od;
  repeated = false
}
/* A read-modify-write by the processor, of the network's word: never, as it is. */
inline network_swap_by_cpu(expected, value, result) {
  atomic {
    assert(!adapter);  /* else it loses what the adapter writes next, or the other way round */
    result = network;
    if
    :: network == expected -> network = value
    :: else
    fi }
}
/* compare_and_swap of the processor's lock */
inline cpu_swap(value, result) {
  atomic {
    result = cpu;
    if
    :: cpu == FREE -> cpu = value
    :: else
    fi }
}

/* An answer names the request that it is for. So what else is on its way for an earlier one has
 * no effect from here on. */
inline heard(who) {
  waits[who] = false;
#ifndef ANSWER_WITHOUT_TAG
  do
  :: asked_again??[eval(who)] -> asked_again??eval(who)
  :: told??[again, eval(who)] -> told??again, eval(who)
  :: told??[granted, eval(who)] -> told??granted, eval(who)
  :: told??[granted_by_manager, eval(who)] -> told??granted_by_manager, eval(who)
  :: else -> break
  od
#endif
}
inline ask(who) {
  atomic {
    waits[who] = true;
    stands[who] = true;
    requests!who;
    printf("%d asks the manager\n", who) }
}

/* migrating.cpp. Any policy, or the paper's. */
inline shall_migrate(yes) {
  if
  :: yes = true
#ifdef ANY_POLICY
  :: yes = false
#endif
  fi
}

/* With the network lock; then the caller gives it back. */
inline share_or_enter(who) {
  if
  :: shares(who) -> count_in(who);
#ifdef SHARERS_UNTOLD
       free_word = FREE
#else
       free_word = FREE_SHARED
#endif
  :: !shares(who) ->
       alone || sharers == 0;
       enter(who);
       atomic { leave(who); free_word = FREE; alone = false }
  fi
}

proctype Local(byte me) {
  byte turns = TURNS, was;
  byte free_word = FREE;  /* as it was last seen or left */
  bool mode, yes, repeated, alone = false;
  mtype note;
  do
  :: turns == 0 -> break
  :: else ->
begin:
       atomic { mode = network_mode;                                  /* looking */
         if
         :: mode ->
              shall_migrate(yes);
              if
              :: yes -> yes = false; goto asking
              :: else -> goto taking_network
              fi
         :: else
         fi };
       cpu_swap(me, was);                                             /* taking_cpu */
       if
       :: atomic { was == FREE ->
            was = 0;
            mode = network_mode;                                      /* looking_again */
#ifndef MODE_LOOKED_AT_ONCE
            if
            :: mode -> goto giving_cpu_back
            :: else
            fi
#endif
          }
       /* Pausing */
       :: atomic { was != FREE -> was = 0; cpu == FREE || network_mode -> goto begin }
       fi;
#ifdef ANY_POLICY
       network_mode = mode;  /* recording, with the history */
#endif
held_cpu:
       if
       :: shares(me) -> count_in(me); cpu = FREE; count_out(me)
       :: !shares(me) -> sharers == 0;
            enter(me);
            atomic { leave(me); cpu = FREE }
       fi;
       goto done;
giving_cpu_back:
       atomic { cpu = FREE; printf("%d gives the CPU lock back\n", me) };
       goto begin;

taking_network:
#ifdef NETWORK_WORD_BY_CPU
       network_swap_by_cpu(free_word, me, was);
#else
       network_swap(me, free_word, me, was, repeated);
#endif
       if
       :: atomic { was == CPU_MODE -> was = 0; goto begin }  /* it migrated to our side meanwhile */
       /* Pausing */
       :: atomic { was < FREE -> was = 0; is_free(network) || !network_mode -> goto begin }
       :: atomic { is_free(was) && was != free_word -> free_word = was; was = 0;
            goto taking_network }
       :: atomic { was == free_word -> was = 0; alone = (free_word == FREE) }
       fi;
       mode = network_mode;                                           /* looking_at_history */
       network_mode = mode;                                           /* recording */
       share_or_enter(me);
#ifdef NETWORK_WORD_BY_CPU
       network_swap_by_cpu(me, free_word, was);
#else
       network_swap(me, me, free_word, was, repeated);
#endif
       if
       :: shares(me) -> count_out(me)
       :: else
       fi;
       was = 0;
       goto done;

asking:
       ask(me);
       atomic { told??note, eval(me) -> heard(me);
         if
         :: note == again -> note = 0; goto begin
         :: note == granted -> note = 0; goto held_cpu                /* step 5 */
         fi };
done:  atomic { mode = false; alone = false };
       turns--
  od;
  through++
}

proctype Remote(byte me) {
  byte turns = TURNS, was;
  byte free_word = FREE;
  bool repeated, alone = false;
  mtype note;
  do
  :: turns == 0 -> break
  :: else ->
begin:
       network_swap(me, free_word, me, was, repeated);          /* step 1 */
       if
       /* Pausing */
       :: atomic { was < FREE -> was = 0; is_free(network) || network == CPU_MODE -> goto begin }
       :: atomic { was == CPU_MODE -> was = 0; goto asking }
       :: atomic { is_free(was) && was != free_word -> free_word = was; was = 0; goto begin }
       :: atomic { was == free_word -> was = 0; alone = (free_word == FREE); goto held_network }
       fi;
asking:
#ifdef GRANTED_UNSEEN
       alone = true;
#endif
       ask(me);                                                       /* step 2 */
       atomic { told??note, eval(me) -> heard(me);
         if
         :: note == again -> note = 0; goto begin
         :: note == granted -> note = 0; goto held_network            /* step 5 */
         :: note == granted_by_manager -> note = 0
         fi };
#ifdef UNLOCK_IN_NETWORK
       goto held_network;
#endif
       if
       :: shares(me) -> count_in(me); releases!me; count_out(me)
       :: !shares(me) -> alone || sharers == 0;
            enter(me);
            atomic { leave(me); releases!me }
       fi;
       goto done;
held_network:
       share_or_enter(me);
       network_swap(me, me, free_word, was, repeated);
       assert(was == me);
       if
       :: shares(me) -> count_out(me)
       :: else
       fi;
       was = 0;
done:  alone = false;
       turns--
  od;
  through++
}

/* A requester asks again, for its connection broke. While it is in the queue its answer is still
 * to come. If it has the lock it is told so, and otherwise to try again: so it was told, or it
 * was granted before. */
inline answer_resumed(has_it, how, who) {
  if
  :: stands[who]
  :: !stands[who] && (has_it) -> told!how, who
#ifndef LOST_AGAIN_FORGOTTEN
  :: !stands[who] && !(has_it) -> told!again, who
#else
  :: !stands[who] && !(has_it)
#endif
  fi;
  who = 0
}

/* Messages are taken while it pauses. */
inline pause_unless(good, useful, label) {
  do
  :: good -> break
  :: atomic { !(good) && useful -> was = 0; goto label }
#ifndef DEAF_WHILE_PAUSING
  :: atomic { !(good) && nempty(asked_again) -> asked_again?who;
       answer_resumed(network == who, granted, who) }
#endif
  od
}

active proctype Manager() {
  byte was, front, who;
  byte free_word = FREE;
  bool in_network_mode, yes, repeated;
  mtype note;
next:
  front = ALL;
  do
  :: atomic { nempty(requests) -> requests?<front>;
#ifndef CROSSING_MIGRATES
       if
       /* It migrated meanwhile */
       :: !is_local(front) == in_network_mode -> note = again; goto answer
       :: else
       fi;
#endif
       if
       :: is_local(front) -> goto to_cpu
       :: else -> goto to_network
       fi }
  :: atomic { asked_again?who -> answer_resumed(network == who, granted, who) }
  od;

to_network:
  cpu_swap(MANAGER, was);  /* step 3; the network lock is ours already: it says "CPU mode" */
#ifndef ONE_LOCK_ONLY
  pause_unless(was == FREE, cpu == FREE, to_network);
#endif
  atomic { was = 0; shall_migrate(yes); in_network_mode = yes };
  if
  :: !yes -> goto keep
  :: yes -> yes = false
  fi;
#ifdef FREED_BEFORE_MODE
  cpu = FREE;
#endif
#ifdef STEP_4_AS_PRINTED
  network_mode = false;
#else
  network_mode = true;  /* step 4; the paper's text says "CPU mode" */
#endif
  network_swap(MANAGER, CPU_MODE, front, was, repeated);
  assert(was == CPU_MODE);  /* nobody takes it in CPU mode */
  was = 0;
#ifndef FREED_BEFORE_MODE
  cpu = FREE;
#endif
  printf("the manager moves the lock to the network\n");
  note = granted;
  goto answer;

keep:
  network_mode = false;                                               /* writing_history */
  atomic { requests?front; stands[front] = false; told!granted_by_manager, front;
    printf("the manager holds the CPU lock for %d\n", front) };
  do
  :: atomic { releases?eval(front) -> cpu = FREE; goto next }
  :: atomic { asked_again?who -> answer_resumed(who == front, granted_by_manager, who) }
  od;

to_cpu:
  network_swap(MANAGER, free_word, CPU_MODE, was, repeated);
  if
  :: atomic { is_free(was) && was != free_word -> free_word = was; was = 0; goto to_cpu }
  :: else
  fi;
  pause_unless(was == free_word, is_free(network), to_cpu);
  was = 0;
#ifdef ONE_LOCK_ONLY
  cpu = front;
#else
  /* Held for a moment by one that has not seen the mode yet */
  atomic { cpu == FREE -> cpu = front };
#endif
  in_network_mode = false;
  network_mode = false;
  printf("the manager moves the lock to the processor\n");
  note = granted;
  goto answer;

answer:
  atomic {
    requests?front;
    stands[front] = false;
    told!note, front;
    if
    :: note == again -> printf("the manager tells %d to try again\n", front)
    :: else
    fi;
    note = 0; goto next };
}

/* A connection breaks while its requester waits: an answer on its way is lost. */
inline break_waiting(who) {
  if
  :: told??[again, eval(who)] -> told??again, eval(who)
  :: told??[granted, eval(who)] -> told??granted, eval(who)
  :: told??[granted_by_manager, eval(who)] -> told??granted_by_manager, eval(who)
  :: else
  fi;
  breaks--;
  asked_again!who;
  printf("%d's connection breaks while it waits, and it asks again\n", who)
}
active proctype Network() {
  do
  :: atomic { breaks > 0 && waits[LOCALS] -> break_waiting(LOCALS) }
  :: atomic { breaks > 0 && waits[ALL - 1] -> break_waiting(ALL - 1) }
  od
}

/* When no process can move, all must have had their turns. */
init {
  atomic {
    byte who = 0;
    do
    :: who == ALL -> break
    :: who < LOCALS -> run Local(who); who++
    :: who >= LOCALS && who < ALL -> run Remote(who); who++
    od;
    who = 0
  };
  timeout -> atomic {
    printf("judge: %d of %d are through\n", through, ALL);
    assert(through == ALL);
    assert(sharers == 0 && cpu == FREE && empty(requests));
    assert(is_free(network) || network == CPU_MODE);
    assert(network_mode == (network != CPU_MODE))
  }
}

#ifdef LIVELY
ltl everyone_gets_on { <> (through == ALL) }
#endif
