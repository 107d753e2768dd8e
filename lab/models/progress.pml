/* The progress role of src/origin/progress/progress.hpp: threads that wait hand the fabric's poll to each other, and a helper takes it while the
 * program computes. Every sleep is without its time limit here: the limits are for a job that ends; no wake-up may hang on them. (The helper's
 * short naps are the exception: they end by themselves, in the code too.)
 *
 * Each #ifdef takes one of these rules away; the checker must then find a thread that sleeps for ever:
 *   HAND_OVER_SILENTLY: a thread that gives the role back wakes the sleepers.
 *   LOOK_WITHOUT_MUTEX: predicate, role and sleep are under one mutex.
 *   SLOT_WITHOUT_WAKE: a wait fulfilled from outside the fabric wakes the poller.
 *   SLEEP_ON_HELD_BACK: before it sleeps, a thread sends what is held back.
 *
 * One mutex guards everything but the fabric: an atomic block is a stretch with it held.
 */
#define A 0        /* a thread that puts, fences, and gives a completion slot back; its put was held back when it begins to wait */
#define B 1        /* one that waits for that slot */
#define C 2        /* one that issues a non-blocking get and computes for ever after */
#define D 3        /* one that asks for something, then tests now and then */
#define REQUESTS 4 /* theirs; B's is the slot and reaches no server */
#define SLEEPERS 2 /* only A and B sleep */
#ifdef SLEEP_ON_HELD_BACK
#define NO_HELPER  /* with it, the helper's naps would cover up for it */
#endif

bool role_taken = false, helper_has_role = false;
bool helper_awake = false, helper_stop = false;
byte sleepers = 0;
bool asleep[SLEEPERS];               /* in changed_, not notified */
bool corked[REQUESTS];               /* held back */
bool at_server[REQUESTS];
bool in_fabric[REQUESTS];            /* the answer waits to be polled */
bool done[REQUESTS];
bool rung = false;                   /* Fabric::wake; stays until a poll takes it */
bool receive = false;                /* open_handles_: C's is not waited for */
byte finished = 0;                   /* threads of A, B, D that are through */
bool helper_over = false;

#define any(x) (x[A] || x[C] || x[D])
#define readable (rung || any(in_fabric))
#define helper_needed (receive || any(corked))

inline flush_one(i) {
  if
  :: corked[i] -> corked[i] = false; at_server[i] = true
  :: else
  fi
}
inline flush() { flush_one(A); flush_one(C); flush_one(D) }
inline call_helper() {
#ifndef NO_HELPER
  helper_awake = true
#else
  skip
#endif
}
inline take_one(i) {
  if
  :: in_fabric[i] -> in_fabric[i] = false; done[i] = true
  :: else
  fi
}
inline notify_all() { asleep[A] = false; asleep[B] = false }
inline give_role_back() {
  role_taken = false;
  helper_has_role = false;
#ifndef HAND_OVER_SILENTLY
  if
  :: sleepers > 0 -> notify_all()
  :: else
  fi
#endif
}
/* Fabric::poll without the mutex, then dispatch with it. */
inline poll_and_dispatch() {
  atomic { readable -> rung = false };
  atomic { take_one(A); take_one(C); take_one(D); if :: done[C] -> receive = false :: else fi; give_role_back() }
}

/* Progress::wait_until */
inline wait_until(me) {
  bool take = false;
  do
  :: atomic { done[me] -> break }
#ifdef LOOK_WITHOUT_MUTEX
  :: !done[me] && role_taken ->
       atomic {
#else
  :: atomic { !done[me] && role_taken ->
#endif
         sleepers++;
#ifndef SLEEP_ON_HELD_BACK
         flush();
#endif
         if
         :: helper_has_role -> rung = true
         :: else
         fi;
         asleep[me] = true };
       printf("%c sleeps\n", 'A' + me);
       atomic { !asleep[me] -> sleepers--; printf("%c wakes\n", 'A' + me) }
  :: atomic { !done[me] && !role_taken -> role_taken = true; flush(); printf("%c takes the role\n", 'A' + me) };
       poll_and_dispatch();
       printf("%c gave the role back\n", 'A' + me)
  od
}

active proctype ThreadA() {
  atomic { corked[A] = true; call_helper(); printf("A put, held back\n") };
  wait_until(A);
  atomic { /* Engine::return_slot: what B waits for comes from a thread, not from the fabric */
    done[B] = true;
    printf("A gives a slot back\n");
    if
    :: sleepers > 0 -> notify_all()
    :: else
    fi;
#ifndef SLOT_WITHOUT_WAKE
    if
    :: role_taken -> rung = true
    :: else
    fi
#endif
  };
  finished++
}

active proctype ThreadB() {
  wait_until(B);
  finished++
}

active proctype ThreadC() {
  atomic { corked[C] = true; receive = true; call_helper(); printf("C issued a get and computes\n") }
}

active proctype ThreadD() {
  atomic { at_server[D] = true; printf("D sent a request\n") };
  do
  :: atomic { done[D] -> break }
  :: atomic { !done[D] -> flush();                                        /* Engine::look */
       if
       :: role_taken -> goto again
       :: else -> role_taken = true
       fi };
     atomic { rung = false };
     atomic { take_one(A); take_one(C); take_one(D); if :: done[C] -> receive = false :: else fi; give_role_back() };
again: skip
  od;
  finished++
}

#ifndef NO_HELPER
active proctype Helper() {
  do
  :: atomic { helper_stop -> break }
  :: atomic { !helper_stop && !helper_needed && helper_awake -> helper_awake = false }
  :: atomic { !helper_stop && helper_awake && helper_needed ->
       if
       :: !receive || role_taken || sleepers > 0 -> goto nap
       :: else -> role_taken = true; helper_has_role = true; flush(); printf("helper takes the role\n")
       fi };
     poll_and_dispatch();
     goto again;
nap: atomic { flush() };
again: skip
  od;
  helper_over = true
}
#endif

active proctype Server() {
  do
  :: atomic { at_server[A] -> at_server[A] = false; in_fabric[A] = true; printf("server answers A\n") }
  :: atomic { at_server[C] -> at_server[C] = false; in_fabric[C] = true; printf("server answers C\n") }
  :: atomic { at_server[D] -> at_server[D] = false; in_fabric[D] = true; printf("server answers D\n") }
  od
}

/* Engine::stop_helper, when the program's threads are through. C's get arrived, too: that is what the helper is for. */
#ifndef NO_HELPER
active proctype End() {
  atomic { finished == 3 && done[C] -> helper_stop = true; rung = true }
}

ltl everyone_gets_on { <> (finished == 3 && helper_over) }
#else
ltl everyone_gets_on { <> (finished == 3) }
#endif
