/* The fair queue of src/lock (mutex.cpp) with all who drive it: local ranks that
 * sleep for it (src/lock/host/wait.hpp, src/job/mutexes.cpp), the data server that acts for
 * ranks of other nodes (src/lock/host/requests.cpp), and one such rank, whose threads ask over one
 * connection (wait_granted in src/origin/send/transfers.cpp). The connection breaks, is given up
 * and comes back at any moment. One writer or many readers have the lock, nobody overtakes the
 * queue, no grant is lost, and in the end all had their turns.
 *
 * Each #ifdef takes one of these rules away; the checker must then find a mistake:
 *   READER_JOINS_PAST_QUEUE: a sharer joins sharers only while nobody is queued.
 *   ANY_READER_HANDS_OVER: the last sharer hands over.
 *   BATCH_PAST_WRITER: a hand-over takes only the sharers directly behind the first.
 *   UNLOCK_IGNORES_BIT: the word with queued_bit is unlocked with the guard.
 *   BIT_BEFORE_RECORD: the record first, then the bit.
 *   SLEEP_WITHOUT_LIMIT: a sleep for a record has a time limit.
 *   COUNTED_ONCE_ASLEEP: a requester counts itself starving before it looks at freed.
 *   NO_RECORD_STOPS_SESSION: a request without a record is kept outside its session.
 *   RANK_HANDS_OVER_UNSEEN: a rank hands over only to waiters in its reach.
 *   UNFENCED_UNLOCK: a rank whose server unlocks for it waits until it did.
 *   RESUME_WITHOUT_ASKING: after a break a parked lock is asked for again.
 *   KEPT_HOLDS: a request that the server keeps holds nothing.
 *   GRANT_NEEDS_CONNECTION: a grant for an origin without a connection goes through its own
 *     server.
 *   GRANT_WITHOUT_TAG: a grant names the use of its slot.
 *   BREAK_WHILE_CLOSING: a break before the server's answer to bye is asked about.
 *
 * Left to models of their own: locks that are left open for newcomers (passing.pml), sharers that
 * hold other locks (several_locks.pml), shares by flags (readers.pml).
 *
 * connection.pml has the crossings of opening and closing. Here a break loses everything under
 * way in both directions at once, each end notices at any later time, and opening again is one
 * step. A step that changes nothing but what the guard protects is one with the step that gives
 * the guard back. A fruitless attempt (the server tries again what it keeps; a sleep's time
 * limit ends) is left out. */
#ifndef LOCALS
#define LOCALS 2    /* ranks of the lock's node, 1 or 2: 0 .. LOCALS - 1 */
#endif
#ifndef REMOTES
#define REMOTES 2   /* threads of a rank of another node, 1 or 2: LOCALS .. ALL - 1 */
#endif
#define ALL (LOCALS + REMOTES)
#ifndef TURNS
#define TURNS 1     /* of each */
#endif
#ifndef SHARERS
#define SHARERS 0   /* bit n: requester n asks for shared use */
#endif
#ifndef RECORDS
#define RECORDS 3
#endif
#ifndef BREAKS
#define BREAKS 1
#endif
#ifndef CLOSES
/* How often the cap evicts the connection, or the server drops it with a farewell */
#define CLOSES 0
#endif
#define REQUESTS (2 * TURNS * REMOTES)
#define shares(who) ((SHARERS >> (who)) & 1)
#define is_local(who) (who < LOCALS)
#define shared_owner 255
#define nobody 255

mtype = { lock, unlock, bye };                                        /* up */
/* Down; by_peer: the end of a connection that the server closed */
mtype = { grant, acknowledge, farewell, by_peer };
mtype = { idle, opening, open, closing };                             /* of the link */

/* The lock, in the shared memory of its node. */
/* The word: 0 free, who + 1, or shared_owner with a number of sharers; and queued_bit */
byte owner = 0, sharers = 0;
bool queued = false;
bool guard = false;
chan queue = [ALL] of { byte };              /* the waiters' records, linked */
bool stands[ALL];                            /* in it */
byte records = RECORDS, starving = 0;        /* the pool */
bool freed[LOCALS];  /* a record was given back since this rank looked at `freed` */
bool asleep[LOCALS];                     /* on `freed` */
bool filled[ALL];                            /* completion slots: done, in this use */
byte tag[ALL];                               /* which use */

/* The data server of that node. */
/* Its own ranks' unlocks, over connections that do not break */
chan from_locals = [LOCALS + 1] of { byte };
bool unlocked[LOCALS];                   /* applied: the fence behind it may end */
chan kept = [ALL] of { byte };               /* requests without a record, or without the guard */
bool is_kept[ALL];
bool connected = false;                      /* as far as it knows */
byte applied = 0;                            /* of the session */
byte relayed[ALL];  /* grants on their way through the origin's own server: the tag, 0: none */

/* The network. */
chan up = [REQUESTS + REMOTES + 1] of { mtype, byte, byte };   /* kind, number, who */
chan down = [2 * REQUESTS + 2] of { mtype, byte, byte };       /* kind, number, who */
bool broken = false;
byte breaks = BREAKS, closes = CLOSES;

/* The origin: a rank of another node. */
mtype link = idle;
byte issued = 0, acknowledged = 0;
mtype log_kind[REQUESTS + 1];
byte log_who[REQUESTS + 1];
byte log_tag[REQUESTS + 1];
byte pending[ALL];                           /* the number of its lock request; 0: waits for none */

/* What the claims speak of. */
byte writers = 0, readers = 0, through = 0;
/* A record was given back by a hand-over since this rank looked at `freed` */
bool handed_on[LOCALS];
bool wake_due = false;                         /* and the wake-up follows */

inline enter(who) {
  if
  :: shares(who) -> readers++
  :: else -> writers++
  fi;
  printf("%d has the lock\n", who);
  assert(writers <= 1 && (writers == 0 || readers == 0))
}
inline leave(who) {
  if
  :: shares(who) -> readers--
  :: else -> writers--
  fi
}

/* ---- src/lock/mutex.cpp ---- */

/* Could it be had at once? */
#define free_word (owner == 0)
#ifdef READER_JOINS_PAST_QUEUE
#define obtainable(who) (free_word || (shares(who) && owner == shared_owner))
#else
#define obtainable(who) (free_word || (shares(who) && owner == shared_owner && !queued))
#endif

/* try_lock, when obtainable */
inline take_it(who) {
  assert(empty(queue));  /* nobody overtakes the queue */
  if
  :: shares(who) -> owner = shared_owner; sharers++
  :: else -> owner = who + 1
  fi
}
/* try_unlock; contended: somebody waits */
inline try_unlock(who, contended) {
  contended = false;
  if
  :: shares(who) ->
       assert(owner == shared_owner && sharers > 0);
       if
#ifdef ANY_READER_HANDS_OVER
       :: queued -> contended = true
#else
       :: sharers == 1 && queued -> contended = true
#endif
       :: else ->
            sharers--;
            if
            :: sharers == 0 -> owner = 0
            :: else
            fi
       fi
  :: else ->
       assert(owner == who + 1);                                      /* otherwise not_holder */
       if
#ifdef UNLOCK_IGNORES_BIT
       :: queued && false
#else
       :: queued -> contended = true
#endif
       :: else -> owner = 0; queued = false
       fi
  fi
}
inline give_back_record(with_wake) {
  records++;
  if
  :: with_wake -> wake_due = true; handed_on[0] = true; handed_on[LOCALS - 1] = true
  :: else                                                             /* `freed` alone says so */
  fi;
  freed[0] = true;
  freed[LOCALS - 1] = true
}
/* Caller::record_freed */
inline record_freed() {
  wake_due = false;
  if
  :: starving > 0 -> asleep[0] = false; asleep[LOCALS - 1] = false
  :: else
  fi
}

/* lock_guarded, which gives the guard back as well */
mtype = { granted, waits, no_record };
inline lock_guarded(who, has_record, answer) {
  answer = 0;
  has_record = false;
  do
  :: answer != 0 -> break
  :: atomic { answer == 0 && obtainable(who) ->
       take_it(who);
       if
       :: has_record -> give_back_record(false)
       :: else
       fi;
       has_record = false; answer = granted; guard = false }
#ifdef BIT_BEFORE_RECORD
  :: atomic { answer == 0 && !has_record && !obtainable(who) && !queued -> queued = true }
#endif
  :: atomic { answer == 0 && !has_record && !obtainable(who) ->
       if
       :: records == 0 -> answer = no_record; guard = false; printf("%d finds no record\n", who)
       :: else -> records--; has_record = true
       fi }
  :: atomic { answer == 0 && has_record && !obtainable(who) ->
       queued = true;
       queue!who; stands[who] = true;
       has_record = false; answer = waits; guard = false;
       printf("%d queues up\n", who) }
  od
}

/* Which waiters the next hand-over takes, a bit for each: one, or all sharers at the queue's
 * head. */
inline next_batch(batch) {
  byte rest = len(queue), one;
  bool ends = false;
  batch = 0;
  do
  :: rest == 0 -> break
  :: else ->
       rest--;
       queue?one;
       queue!one;
       if
#ifdef BATCH_PAST_WRITER
       :: !shares(one) && batch != 0
#else
       :: !shares(one) && batch != 0 -> ends = true
#endif
       :: !shares(one) && batch == 0 -> batch = 1 << one; ends = true
       :: shares(one) && !ends -> batch = batch | (1 << one)
       :: else
       fi
  od;
  one = 0; ends = false
}

/* hand_over, when somebody waits. `batch`: who has it now. */
inline hand_over(batch) {
  byte left, next_one;
  assert(len(queue) > 0);  /* a word with the bit has a queue */
  next_batch(batch);
  left = len(queue);
  owner = 0;
  sharers = 0;
  do
  :: left == 0 -> break
  :: else ->
       left--;
       queue?next_one;
       if
       :: (batch >> next_one) & 1 ->
            assert(len(queue) == left);  /* those that stay stand behind: nobody was overtaken */
            stands[next_one] = false;
            if
            :: shares(next_one) -> owner = shared_owner; sharers++
            :: else -> owner = next_one + 1
            fi
       :: else -> queue!next_one
       fi
  od;
  queued = len(queue) > 0;
  next_one = 0
}

/* ---- src/lock/host/requests.cpp: tell ---- */

inline say(kind, number, who) {
  if
  :: !broken -> down!kind, number, who
  :: else                                                             /* lost */
  fi
}
inline tell(who, by_server) {
  printf("%d is told\n", who);
  if
  :: is_local(who) -> filled[who] = true
  :: !is_local(who) && !by_server  /* a rank has nothing that would reach it */
  :: !is_local(who) && by_server ->                                   /* Server::grant */
       if
       :: connected -> say(grant, tag[who], who)
#ifndef GRANT_NEEDS_CONNECTION
       :: !connected -> relayed[who] = tag[who]
#else
       :: !connected
#endif
       fi
  fi
}

/* Records of the batch are given back, its waiters told, one after the other, without the guard. */
inline tell_batch(batch, by_server) {
  do
  :: batch == 0 -> break
  :: batch != 0 ->
       atomic {
         byte next = 0;
         do
         :: (batch >> next) & 1 -> break
         :: else -> next++
         od;
         batch = batch & ~(1 << next);
         give_back_record(true);
         tell(next, by_server);
         next = 0
       }
  od;
  atomic { record_freed() }
}

/* ---- a rank of the lock's node: src/job/mutexes.cpp, src/lock/host/wait.hpp ---- */

proctype Local(byte me) {
  byte turns = TURNS, batch = 0;
  bool has_record, contended;
  mtype answer;
  do
  :: turns == 0 -> break
  :: turns > 0 ->
       if
       :: atomic { obtainable(me) -> take_it(me); enter(me); goto held }
       :: atomic { !obtainable(me) ->
            assert(shares(me) || owner != me + 1);                    /* otherwise recursive */
            filled[me] = false }
       fi;
again: atomic { freed[me] = false; handed_on[me] = false;
         if
         /* The first look of request */
         :: obtainable(me) -> take_it(me); enter(me); goto held
         :: else
         fi };
       atomic { !guard -> guard = true };
       lock_guarded(me, has_record, answer);
       if
       :: atomic { answer == granted -> answer = 0; enter(me) }
       :: atomic { answer == waits && filled[me] -> answer = 0; enter(me) }
       :: answer == no_record ->
#ifdef COUNTED_ONCE_ASLEEP
            atomic { answer = 0; if :: !freed[me] -> asleep[me] = true :: else fi };
            starving++;
#else
            atomic { answer = 0; starving++ };
            atomic {
              if
              :: !freed[me] -> asleep[me] = true; printf("%d sleeps for a record\n", me)
              :: else
              fi };
#endif
            atomic {
              if
              :: !asleep[me]
#ifndef SLEEP_WITHOUT_LIMIT
              :: free_word && !queued  /* the time limit: the lock got free, and no record did */
#endif
              fi;
              /* No wake-up for a waiter's record is lost */
              assert(!asleep[me] || !handed_on[me] || wake_due);
              asleep[me] = false; starving-- };
            goto again
       fi;
held:  atomic { leave(me); try_unlock(me, contended) };
       if
       :: !contended
       :: contended ->
            atomic { !guard -> guard = true; contended = false };
            atomic {
              try_unlock(me, contended);
              if
              :: contended ->
#ifndef RANK_HANDS_OVER_UNSEEN
                   /* Out of reach: among the next is one of another node. */
                   next_batch(batch);
                   if
                   :: (batch >> LOCALS) != 0 ->
                        batch = 0;
                        contended = false;
                        guard = false;
                        from_locals!me;
                        printf("%d leaves the unlock to the server\n", me);
                        goto fence
                   :: else
                   fi;
#endif
                   hand_over(batch);
                   printf("%d hands over\n", me)
              :: else
              fi;
              contended = false; guard = false };
            tell_batch(batch, false);
            goto done;
fence:
#ifndef UNFENCED_UNLOCK
            atomic { unlocked[me] -> unlocked[me] = false };
#endif
done:       skip
       fi;
       turns--
  od;
  through++
}

/* ---- the data server ---- */

active proctype Server() {
  byte w, n, batch = 0;
  bool fresh, has_record, contended;
  mtype kind, answer;
again:
  do
  /* Admits its connection, and the origin resumes (src/origin/link/resume.cpp): what was not
   * applied goes again, then parked locks. */
  :: atomic { link == opening ->
       do
       :: up?_, _, _
       :: empty(up) -> break
       od;
       do
       :: down?_, _, _
       :: empty(down) -> break
       od;
       broken = false; connected = true; link = open; acknowledged = applied;
       printf("the connection is open, %d of %d applied\n", applied, issued);
       n = applied + 1;
       do
       :: n > issued -> break
       :: else -> up!log_kind[n], n, log_who[n]; n++
       od;
#ifndef RESUME_WITHOUT_ASKING
       n = LOCALS;
       do
       :: n == ALL -> break
       :: else ->
            if
            :: pending[n] != 0 && pending[n] <= applied -> up!lock, pending[n], n
            :: else
            fi;
            n++
       od;
#endif
       n = 0 }
  :: atomic { broken && connected -> connected = false; printf("the server hears of the break\n") }
  :: atomic { connected && !broken && closes > 0 && empty(up) ->
       closes--;
       connected = false;
       say(farewell, applied, 0);
       printf("the server drops the connection\n") }

  :: atomic { connected && nempty(up) ->
#ifdef NO_RECORD_STOPS_SESSION
       empty(kept);
#endif
       up?kind, n, w };
     if
     :: atomic { kind == bye -> connected = false; say(by_peer, applied, 0) } /* Server::on_close */
     :: atomic { kind == lock && n > applied ->
          assert(n == applied + 1);
          applied = n;
          if
          :: len(kept) > 0 -> kept!w; is_kept[w] = true; say(acknowledge, n, 0)
          :: else -> fresh = true; goto attempt
          fi }
     :: kind == lock && n <= applied ->  /* answer_again: holds? */
          atomic { !guard ->  /* only a sharer's needs the guard; it changes nothing */
            if
            :: shares(w) ->
                 if
#ifndef KEPT_HOLDS
                 :: is_kept[w]
#endif
                 :: stands[w]
                 :: else -> say(grant, log_tag[n], w)
                 fi
            :: !shares(w) && owner == w + 1 -> say(grant, log_tag[n], w)
            :: else
            fi }
     :: kind == unlock && n > applied -> goto release
     fi;
     goto over;

  /* Locks::retry */
  :: atomic { nempty(kept) && !guard -> kept?<w>;
       if
       :: obtainable(w) || records > 0 -> fresh = false; goto attempt
       :: else -> goto over
       fi };
  :: atomic { from_locals?w -> n = 0; goto release }
  od;

attempt:
  if
  :: atomic { obtainable(w) -> take_it(w); answer = granted }
  :: atomic { !obtainable(w) && guard -> answer = no_record }  /* no_guard: the same follows */
  :: atomic { !obtainable(w) && !guard -> guard = true };
     lock_guarded(w, has_record, answer)
  fi;
  atomic {
    if
    :: answer == no_record && fresh -> kept!w; is_kept[w] = true; say(acknowledge, n, 0)
    :: answer == no_record && !fresh
    :: answer == waits && fresh -> say(acknowledge, n, 0)
    :: answer == granted && fresh -> say(grant, tag[w], w)
    :: answer != no_record && !fresh ->
         kept?_; is_kept[w] = false;
         if
         :: answer == granted -> tell(w, true)
         :: else
         fi
    fi;
    goto over
  };

release:
  atomic { try_unlock(w, contended) };
  if
  :: !contended
  :: contended ->
       /* The code tries again and again: its session is parked */
       atomic { !guard -> guard = true };
       atomic {
         try_unlock(w, contended);
         if
         :: contended -> hand_over(batch); printf("the server hands over for %d\n", w)
         :: else
         fi;
         guard = false };
       tell_batch(batch, true)
  fi;
  atomic {
    if
    :: is_local(w) -> unlocked[w] = true
    :: else -> applied = n; say(acknowledge, n, 0)
    fi
  };

over:
  atomic { w = 0; n = 0; kind = 0; answer = 0; fresh = false; contended = false };
  goto again
}

/* ---- the rank of another node ---- */

inline request(kind, who) {
  issued++;
  log_kind[issued] = kind;
  log_who[issued] = who;
  log_tag[issued] = tag[who];
  if
  :: !broken -> up!kind, issued, who
  :: else
  fi
}

proctype Remote(byte me) {
  byte turns = TURNS;
  do
  :: turns == 0 -> break
  :: turns > 0 ->
       do
       :: atomic { link == idle -> link = opening }                   /* Links::wait_open */
       :: atomic { link == open -> tag[me]++; request(lock, me); pending[me] = issued;
            filled[me] = false; printf("%d asks\n", me); break }
       od;
       atomic { filled[me] -> pending[me] = 0; enter(me) };  /* granted_here, or the answer came */
       do
       :: atomic { link == idle -> link = opening }
       :: atomic { link == open -> leave(me); request(unlock, me); printf("%d unlocks\n", me);
            break }
       od;
       turns--
  od;
  through++
}

/* Its engine. */
inline fill(who) {
  if
#ifndef GRANT_WITHOUT_TAG
  :: relayed[who] != tag[who]  /* late: of an earlier use of the slot */
#endif
  :: else -> filled[who] = true; printf("%d's grant comes through its own server\n", who)
  fi;
  relayed[who] = 0
}
active proctype Origin() {
  mtype kind;
  byte n, w;
  do
  :: atomic { link == idle && acknowledged < issued -> link = opening }
  :: atomic { !broken && (link == open || link == closing) && nempty(down) ->
       down?kind, n, w;
       if
#ifdef GRANT_WITHOUT_TAG
       :: kind == grant -> filled[w] = true
#else
       :: kind == grant && n == tag[w] -> filled[w] = true
       :: kind == grant && n != tag[w]  /* late: of an earlier use of the slot */
#endif
       :: kind == acknowledge ->
            if
            :: n > acknowledged -> acknowledged = n
            :: else
            fi
       :: kind == by_peer -> link = idle
       :: kind == farewell ->
            if
            :: n > acknowledged -> acknowledged = n
            :: else
            fi;
            link = idle;
            printf("the origin hears the farewell\n")
       fi;
       kind = 0; n = 0; w = 0 }
  /* Evicted: a lock that is parked at the server keeps no connection. */
  :: atomic { link == open && closes > 0 && acknowledged == issued && issued > 0 ->
       closes--; link = closing; printf("the origin says bye\n");
       if
       :: !broken -> up!bye, 0, 0
       :: else
       fi }
  /* The server's grants come into the slot. */
  :: atomic { relayed[LOCALS] != 0 -> fill(LOCALS) }
  :: atomic { relayed[ALL - 1] != 0 -> fill(ALL - 1) }
  :: atomic { broken && (link == open || link == closing) ->
       printf("the origin hears of the break\n");
       if
#ifdef BREAK_WHILE_CLOSING
       :: link == closing -> link = idle
#endif
       :: acknowledged < issued || pending[LOCALS] != 0 || pending[ALL - 1] != 0 -> link = opening
       :: else -> link = idle
       fi }
  od
}

active proctype Network() {
  do
  :: atomic { breaks > 0 && !broken && (link == open || link == closing) ->
       breaks--; broken = true;
       do
       :: up?_, _, _
       :: empty(up) -> break
       od;
       do
       :: down?_, _, _
       :: empty(down) -> break
       od;
       printf("the connection breaks\n") }
  od
}

#ifdef OTHER_LOCK
/* A waiter of another lock has a record, and may keep it for ever. */
active proctype OtherLock() {
  atomic { records > 0 -> records--; printf("a waiter of another lock has a record\n") };
  if
  :: true
  :: atomic { give_back_record(false) }  /* it got its lock after all */
  :: atomic { give_back_record(true) };
     atomic { record_freed() }
  fi
}
#endif

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
    assert(owner == 0 && !queued && !guard && empty(queue) && empty(kept));
    assert(acknowledged == issued || link == opening)
  }
}
