/* Leases of launcher/lease.hpp, views of src/job/views.hpp. The launcher, one other host with its
 * agent and a rank, and a server with a survivor that waits for the rank's lock. A lease is two
 * units of time, the margin one. Messages arrive in order, at any time, or the way is cut for good.
 * The launcher may stand still at any time, and the host may be stopped as a whole and continue.
 *
 * The agent stops the rank within the margin after the lease's end, unless the whole host is
 * stopped. An answer that renews the lease lets it continue. A declared host gets no answer: the
 * rank ends.
 *
 * Holds: a rank acts beside those who think it dead only if its whole host was stopped meanwhile.
 * What it sent arrives at the server before its lock goes on, or is refused. A host whose question
 * has come is not declared dead, however long the launcher stood still. Each rule that is taken
 * away must be found:
 *   LEASE_FROM_ANSWER: a lease counts from when its question was sent.
 *   NO_MARGIN: the launcher waits for a margin beyond the lease.
 *   FIRST_LEASE_COUNTS: nobody is declared dead who was not heard of since leases began.
 *   UNREAD_IS_SILENCE: the launcher reads what has come before it declares somebody dead.
 *   LOCKS_FIRST: servers refuse the dead before their locks go on.
 *   LATE_IS_TAKEN: servers refuse what the dead sent.
 */
#define LEASE 2
#define MARGIN 1
#ifndef END
#define END 8
#endif
#define ASKS 2

byte now = 0;
/* the agent */
byte until = 0;            /* its lease */
byte asked_at[ASKS];       /* of questions without an answer, by number modulo ASKS */
bool is_open[ASKS];
byte number = 0;
bool has_lease = false, runs = true, ended = false, host_stopped = false, was_stopped = false;
/* the ways */
bool cut = false;
byte begins = 1;           /* 1: the frame that begins leases is under way */
byte questions = 0;        /* under way or unread, oldest `next_question` */
byte next_question = 0;
byte answers = 0, next_answer = 0;
byte writes = 0;           /* under way from the rank to the server */
/* the launcher */
byte heard = LEASE;        /* when a question last came; at first a lease later than its frame */
bool is_heard = false, declared = false, told = false;
/* the server and the survivor */
bool buried = false, lock_went_on = false;

#define acts (runs && !ended && !host_stopped)
/* What must happen before time goes on: an agent that runs acts within the margin. */
#define is_urgent (has_lease && runs && !ended && !host_stopped && now >= until + MARGIN)

active proctype clock() {
  do
  :: atomic { now < END && !is_urgent -> now++ }
  :: atomic { now == END -> break }
  od
}

active proctype agent() {
  do
  :: atomic { !host_stopped && !ended && !cut && begins == 1 ->
     begins = 0; has_lease = true; until = now + LEASE;
     printf("the agent hears of its lease at %d\n", now) }
  :: atomic { !host_stopped && !ended && has_lease && !is_open[number % ASKS] && !cut ->
     asked_at[number % ASKS] = now; is_open[number % ASKS] = true;
     number = (number + 1) % ASKS; questions++;
     printf("the agent asks at %d\n", now) }
  :: atomic { !host_stopped && !ended && answers > 0 ->
     answers--;
#ifdef LEASE_FROM_ANSWER
     until = now + LEASE;
#else
     if
     :: asked_at[next_answer] + LEASE > until -> until = asked_at[next_answer] + LEASE
     :: else
     fi;
#endif
     is_open[next_answer] = false;
     asked_at[next_answer] = 0;
     next_answer = (next_answer + 1) % ASKS;
     if
     :: now < until -> runs = true
     :: else
     fi;
     printf("the agent is answered at %d: its lease lasts until %d\n", now, until) }
  :: atomic { !host_stopped && has_lease && runs && now >= until ->
     runs = false;
     printf("the rank is stopped at %d\n", now) }
  :: atomic { !host_stopped && declared && !ended ->  /* its connection is closed, or silent */
     ended = true;
     printf("the rank is ended at %d\n", now) }
  :: atomic { ended || now == END -> break }
  od
}

active proctype rank() {
  do
  :: atomic { acts && writes == 0 && !cut ->
     writes++;
     assert(!declared || was_stopped);  /* nobody goes on beside those who think it dead */
     printf("the rank writes at %d\n", now) }
  :: atomic { ended || now == END -> break }
  od
}

active proctype trouble() {
  if
  :: atomic { now < END ->
     host_stopped = true; was_stopped = true;
     printf("the host stops at %d\n", now) };
     atomic { host_stopped = false; printf("the host continues at %d\n", now) }
  :: atomic { now < END ->
     cut = true; begins = (begins == 1 -> 2 : begins);
     printf("the way is cut at %d\n", now) }
  :: skip
  fi
}

active proctype launcher() {
  do
  :: atomic { questions > 0 && !declared ->  /* at any time: it may have stood still */
     questions--; is_heard = true;
     heard = (now > heard -> now : heard);
     answers = answers + 1;
     printf("the launcher hears at %d\n", now) }
  :: atomic { !declared &&
#ifndef UNREAD_IS_SILENCE
     questions == 0 &&
#endif
#ifndef FIRST_LEASE_COUNTS
     is_heard &&
#endif
#ifdef NO_MARGIN
     now > heard + LEASE ->
#else
     now > heard + LEASE + MARGIN ->
#endif
     declared = true;
     printf("the launcher declares the host dead at %d\n", now);
     /* what has come is no silence */
     assert(questions == 0 || cut || was_stopped) }
  :: atomic { now == END -> break }
  od
}

active proctype server() {
  do
  :: atomic { declared && !buried ->
#ifndef LATE_IS_TAKEN
     buried = true;
#endif
     lock_went_on = true; break }
#ifdef LOCKS_FIRST
  :: atomic { declared && !lock_went_on -> lock_went_on = true }
#endif
  :: atomic { now == END -> break }
  od
}

active proctype way() {  /* of writes; what was sent before a cut may still arrive */
  do
  :: atomic { writes > 0 ->
     writes--;
     assert(buried || !lock_went_on);  /* none is applied when the next has the lock */
     printf("a write arrives at %d\n", now) }
  :: atomic { now == END -> break }
  od
}
